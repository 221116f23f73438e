//! The rules, one at a time.

use conclave_protocol::{Bench, Effect, Topology};

use super::*;
use crate::snapshot::bank;

type Effects = Vec<Effect<CheckpointRestart<App>>>;

fn bench() -> Bench<CheckpointRestart<App>> {
    Bench::new(&PLAIN, &Setup::new(Topology::complete(2)).with("transfers", 2))
}

fn sent(effects: &Effects) -> Vec<(u32, Msg<App>)> {
    let sent = |effect: &Effect<CheckpointRestart<App>>| match effect {
        Effect::Send { to, msg } => Some((to.0, msg.clone())),
        // Of two nodes.
        Effect::Broadcast(msg) => Some((u32::MAX, msg.clone())),
        _ => None,
    };
    effects.iter().filter_map(sent).collect()
}

/// The next message that these effects send.
fn said(effects: &Effects) -> Msg<App> {
    sent(effects)[0].1.clone()
}

fn saved(effects: &Effects) -> Option<Saved<App>> {
    effects.iter().rev().find_map(|effect| match effect {
        Effect::Save(saved) => Some(saved.clone()),
        _ => None,
    })
}

fn pay() -> app::Timer {
    app::Timer::Bank(bank::Timer::Pay)
}

fn balance(bench: &mut Bench<CheckpointRestart<App>>, node: u32) -> u64 {
    bench.at(node).state().inside.app.state.worth()
}

/// A snapshot in which p1's coin is on its way to p0. Returns what p0 has saved.
fn committed(bench: &mut Bench<CheckpointRestart<App>>) -> Saved<App> {
    let coin = said(&bench.at(1).timer(pay()));
    let marker = said(&bench.at(0).request(Request::Snapshot));
    // The coin is on its way: it comes before p1's marker.
    bench.at(0).message(1, coin);
    let heard = bench.at(1).message(0, marker);
    let [(0, back), (0, report)] = &sent(&heard)[..] else { panic!("{heard:?}") };
    let tentative = saved(&heard).expect("a part is saved before it is reported");
    assert!(tentative.tentative.is_some() && tentative.committed.is_none());
    bench.at(0).message(1, back.clone());
    let whole = bench.at(0).message(1, report.clone());
    let commit = said(&whole);
    assert!(matches!(commit, Msg::Commit(_, Sid(0))));
    bench.at(1).message(0, commit);
    assert_eq!(bench.at(1).state().line(), Some(Sid(0)));
    saved(&whole).expect("it is committed")
}

#[test]
fn a_node_goes_back_to_the_committed_part_and_uses_what_was_on_its_way() {
    let mut bench = bench();
    let saved = committed(&mut bench);
    assert_eq!((balance(&mut bench, 0), balance(&mut bench, 1)), (5, 0));
    // Work that will be lost.
    bench.at(0).timer(pay());
    assert_eq!(balance(&mut bench, 0), 4);
    let booted = bench.at(0).boot(Some(saved));
    let incarnation = Incarnation(1, NodeId(0));
    let returns = BTreeMap::from([(NodeId(0), 1)]);
    assert_eq!(said(&booted), Msg::Rollback(incarnation, Some(Sid(0)), returns));
    assert_eq!(balance(&mut bench, 0), 5, "its own coin, and the one that was recorded");
    bench.at(1).message(0, said(&booted));
    assert_eq!(balance(&mut bench, 1), 0);
}

#[test]
fn without_a_committed_snapshot_all_go_back_to_the_beginning() {
    let mut bench = bench();
    let first = saved(&bench.at(0).booted());
    bench.at(0).timer(pay());
    bench.at(1).timer(pay());
    let booted = bench.at(0).boot(first);
    assert!(matches!(said(&booted), Msg::Rollback(Incarnation(1, NodeId(0)), None, _)));
    bench.at(1).message(0, said(&booted));
    assert_eq!((balance(&mut bench, 0), balance(&mut bench, 1)), (1, 4));
}

#[test]
fn messages_of_other_incarnations_are_dropped_or_held_back() {
    let mut bench = bench();
    let first = saved(&bench.at(0).booted());
    let old = said(&bench.at(1).timer(pay()));
    let booted = bench.at(0).boot(first);
    bench.at(0).message(1, old);
    assert_eq!(balance(&mut bench, 0), 1, "p1 has that coin again, or will have");
    let early = said(&bench.at(0).timer(pay()));
    bench.at(1).message(0, early);
    assert_eq!(balance(&mut bench, 1), 0);
    bench.at(1).message(0, said(&booted));
    assert_eq!(balance(&mut bench, 1), 5, "p1 has its own again, and the one that waited");
}

#[test]
fn a_node_that_knows_of_a_later_snapshot_has_all_go_back_to_that_one() {
    let mut bench = bench();
    committed(&mut bench);
    let returns = BTreeMap::from([(NodeId(1), 1)]);
    let earlier = Msg::Rollback(Incarnation(1, NodeId(1)), None, returns.clone());
    let later = Msg::Rollback(Incarnation(2, NodeId(0)), Some(Sid(0)), returns);
    assert_eq!(said(&bench.at(0).message(1, earlier.clone())), later);
    // One that has not heard of this is told.
    assert_eq!(sent(&bench.at(0).message(1, earlier)), [(1, later)]);
}

#[test]
fn a_node_that_was_down_when_an_incarnation_began_begins_a_higher_one() {
    let mut bench = bench();
    let first = saved(&bench.at(0).booted());
    bench.at(0).boot(first);
    let begun = Msg::Rollback(Incarnation(1, NodeId(1)), None, BTreeMap::from([(NodeId(1), 1)]));
    let higher = said(&bench.at(0).message(1, begun));
    let both = BTreeMap::from([(NodeId(0), 1), (NodeId(1), 1)]);
    assert_eq!(higher, Msg::Rollback(Incarnation(2, NodeId(0)), None, both));
}
