use conclave_protocol::{Bench, Effect};

use super::*;
use crate::snapshot::bank;

const SID: Sid = Sid(0);

fn sent(effects: &[Effect<ChandyLamport<App>>]) -> Vec<(u32, Msg<App>)> {
    let sent = |effect: &Effect<ChandyLamport<App>>| match effect {
        Effect::Send { to, msg } => Some((to.0, msg.clone())),
        _ => None,
    };
    effects.iter().filter_map(sent).collect()
}

fn finished(effects: &[Effect<ChandyLamport<App>>]) -> Option<(Share<App>, u64)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Notify(Notice::Finished(share, worth)) => Some(((**share).clone(), *worth)),
        _ => None,
    })
}

#[test]
fn what_comes_between_recording_and_the_marker_was_on_its_way() {
    let mut bench = Bench::complete(&PLAIN, 3);
    let marker = Msg::Marker(SID);
    let transfer = |coin| app::Msg::Bank(bank::Msg::Transfer(coin));
    let coin = |coin| Msg::App(transfer(coin));
    let started = bench.at(0).request(Request::Snapshot);
    assert_eq!(started[0], Effect::Notify(Notice::Recorded(SID)));
    assert_eq!(sent(&started), [(1, marker.clone()), (2, marker.clone())]);
    assert_eq!(finished(&bench.at(0).message(2, coin(16))), None);
    assert_eq!(finished(&bench.at(0).message(1, marker.clone())), None);
    // Behind p1's marker: not part of the snapshot.
    bench.at(0).message(1, coin(4));
    let (share, worth) = finished(&bench.at(0).message(2, marker)).expect("all are there");
    assert_eq!(share.state.worth(), 1);
    let content = BTreeMap::from([(NodeId(2), vec![transfer(16)])]);
    assert_eq!((share.channels.clone(), worth), (content, 17));
    assert_eq!(share.timers.len(), 1, "the timer for the next transfer was running");
    let mut whole = GlobalState { sid: SID, shares: BTreeMap::from([(NodeId(0), share)]) };
    assert_eq!(whole.to_string(), "p0: 1, channel p2→p0: 16");
    let part = whole.shares.get_mut(&NodeId(0)).expect("it is there");
    part.channels.insert(NodeId(1), vec![transfer(4), transfer(4)]);
    assert_eq!(whole.to_string(), "p0: 1, channel p1→p0: 4 then 4, channel p2→p0: 16");
}

/// The reports that are sent: to whom, whose, and whether all pass it on.
fn reported(effects: &[Effect<ChandyLamport<App>>]) -> Vec<(u32, u32, bool)> {
    let report = |(to, msg)| match msg {
        Msg::Report(report) => Some((to, report.of.0, report.spread)),
        _ => None,
    };
    sent(effects).into_iter().filter_map(report).collect()
}

#[test]
fn the_initiator_has_everything_in_the_end_and_says_so_once() {
    let mut bench = Bench::complete(&COLLECT, 3);
    bench.at(0).request(Request::Snapshot);
    bench.at(0).message(1, Msg::Marker(SID));
    let own = bench.at(0).message(2, Msg::Marker(SID));
    assert!(finished(&own).is_some() && reported(&own).is_empty(), "its own part is there");
    let mut reports = Vec::new();
    for (node, other) in [(1, 2), (2, 1)] {
        bench.at(node).message(0, Msg::Marker(SID));
        let done = bench.at(node).message(other, Msg::Marker(SID));
        assert_eq!(reported(&done), [(0, node, false)]);
        let report = |(_, msg)| Some(msg).filter(|msg| matches!(msg, Msg::Report(_)));
        reports.extend(sent(&done).into_iter().find_map(report).map(|msg| (node, msg)));
    }
    let (first, second) = (reports[0].clone(), reports[1].clone());
    assert_eq!(bench.at(0).message(first.0, first.1.clone()), []);
    assert_eq!(bench.at(0).message(first.0, first.1), [], "a second time is no other part");
    let whole = bench.at(0).message(second.0, second.1.clone());
    let [Effect::Notify(Notice::Collected(state, 21))] = &whole[..] else { panic!("{whole:?}") };
    assert_eq!(state.to_string(), "p0: 1, p1: 4, p2: 16");
    assert_eq!(bench.at(0).message(second.0, second.1), [], "it is complete");
}

#[test]
fn a_report_goes_back_the_way_of_the_marker_or_everywhere() {
    let mut line = Bench::new(&COLLECT, &Setup::new(Topology::line(3)));
    let done = line.at(2).message(1, Msg::Marker(SID));
    assert_eq!(reported(&done), [(1, 2, false)]);
    line.at(1).message(0, Msg::Marker(SID));
    let passed = line.at(1).message(2, sent(&done)[1].1.clone());
    assert_eq!(reported(&passed), [(0, 2, false)]);

    let links = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 1), (1, 3)];
    let links = links.map(|(a, b)| (NodeId(a), NodeId(b)));
    let graph = Topology::digraph(4, &links).expect("it hangs together");
    let mut one_way = Bench::new(&COLLECT, &Setup::new(graph));
    one_way.at(1).message(0, Msg::Marker(SID));
    let done = one_way.at(1).message(2, Msg::Marker(SID));
    assert_eq!(reported(&done), [(2, 1, true), (3, 1, true)], "there is no link to p0");
    let report = || sent(&done).pop().expect("it was sent").1;
    assert_eq!(reported(&one_way.at(2).message(1, report())), [(3, 1, true)]);
    assert_eq!(reported(&one_way.at(3).message(1, report())), [(0, 1, true)]);
    assert_eq!(reported(&one_way.at(3).message(2, report())), [], "it has passed it on");

    // p2 sends its report back to p1, from where it can get on by p2 alone.
    let links = [(0, 1), (1, 2), (2, 1), (2, 3), (3, 0)].map(|(a, b)| (NodeId(a), NodeId(b)));
    let graph = Topology::digraph(4, &links).expect("it hangs together");
    let mut back = Bench::new(&COLLECT, &Setup::new(graph));
    let done = back.at(2).message(1, Msg::Marker(SID));
    assert_eq!(reported(&done), [(1, 2, false)]);
    let report = sent(&done).pop().expect("it was sent").1;
    assert_eq!(reported(&back.at(1).message(2, report)), [(2, 2, true)]);
}

#[test]
fn a_marker_is_passed_on_to_all_its_sender_included() {
    let mut bench = Bench::complete(&PLAIN, 3);
    let heard = bench.at(1).message(0, Msg::Marker(SID));
    assert_eq!(sent(&heard), [(0, Msg::Marker(SID)), (2, Msg::Marker(SID))]);
    assert!(heard.contains(&Effect::Notify(Notice::Closed(
        SID,
        NodeId(0),
        in_this_order::<app::Msg>(&[])
    ))));
    let mut naive = Bench::complete(&NAIVE, 3);
    assert_eq!(sent(&naive.at(1).message(0, Msg::Marker(SID))), []);
}
