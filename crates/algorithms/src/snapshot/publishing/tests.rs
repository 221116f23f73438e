//! The rules, one at a time.

use conclave_protocol::{Bench, Effect};

use super::*;
use crate::snapshot::bank;

type Effects = Vec<Effect<Publishing<App>>>;

const RECORDER: u32 = 2;

fn sent(by: u32, effects: Effects) -> Vec<(u32, u32, Msg<App>)> {
    let sent = |effect: Effect<Publishing<App>>| match effect {
        Effect::Send { to, msg } => Some((by, to.0, msg)),
        _ => None,
    };
    effects.into_iter().filter_map(sent).collect()
}

/// Delivers what processes and the recorder send each other, until there is no more of it.
/// Returns what processes send each other.
fn carry(bench: &mut Bench<Publishing<App>>, by: u32, effects: Effects) -> Vec<Msg<App>> {
    let mut mail = VecDeque::from(sent(by, effects));
    let mut others = Vec::new();
    while let Some((from, to, msg)) = mail.pop_front() {
        if from == RECORDER || to == RECORDER {
            let effects = bench.at(to).message(from, msg);
            mail.extend(sent(to, effects));
        } else {
            others.push(msg);
        }
    }
    others
}

fn bench(checkpoint: u32) -> Bench<Publishing<App>> {
    let setup = Setup::new(Topology::complete(3)).with("transfers", 2);
    Bench::new(&PLAIN, &setup.with("checkpoint", checkpoint))
}

fn coin(number: u32, weight: u64) -> Msg<App> {
    Msg::App(number, app::Msg::Bank(bank::Msg::Transfer(weight)))
}

fn pay() -> app::Timer {
    app::Timer::Bank(bank::Timer::Pay)
}

fn process(bench: &mut Bench<Publishing<App>>, node: u32) -> Option<Process<App>> {
    match bench.at(node).state() {
        Publishing::Publisher(publisher) => publisher.process,
        Publishing::Recorder(_) => None,
    }
}

#[test]
fn an_input_is_used_when_it_is_recorded() {
    let mut bench = bench(0);
    let published = sent(1, bench.at(1).timer(pay()));
    let [(1, RECORDER, Msg::Publish(1, _))] = &published[..] else { panic!("{published:?}") };
    assert_eq!(process(&mut bench, 1).map(|it| it.used), Some(0));
    let used = bench.at(1).message(RECORDER, Msg::Recorded(1));
    assert_eq!(sent(1, used), [(1, 0, coin(1, 4))]);
}

#[test]
fn a_checkpoint_after_five_of_eight_inputs_leaves_three_in_the_log() {
    let mut bench = bench(5);
    for number in 1..=8 {
        let effects = bench.at(0).message(1, coin(number, 1 << (2 * number + 2)));
        carry(&mut bench, 0, effects);
    }
    let before = process(&mut bench, 0).expect("it is up");
    let Publishing::Recorder(recorder) = bench.at(RECORDER).state() else { panic!("it records") };
    let record = &recorder.records[&NodeId(0)];
    assert_eq!((record.covered(), record.log.len(), before.used), (5, 3, 8));
    // It comes back without a memory.
    let booted = bench.at(0).boot(Some(Stable::Boots(0)));
    assert_eq!(process(&mut bench, 0), None);
    let asks = carry(&mut bench, 0, booted);
    assert_eq!(asks, [Msg::Again(8)], "it has eight messages of p1");
    assert_eq!(process(&mut bench, 0), Some(before));
}

#[test]
fn what_is_recorded_with_its_receiver_is_not_sent_again() {
    let mut bench = bench(0);
    let paid = |bench: &mut Bench<_>| {
        let effects = bench.at(1).timer(pay());
        carry(bench, 1, effects)
    };
    let first = paid(&mut bench);
    let effects = bench.at(0).message(1, first[0].clone());
    carry(&mut bench, 0, effects);
    let second = bench.at(0).timer(pay());
    let coins = carry(&mut bench, 0, second);
    assert_eq!(coins, [coin(1, 1)]);
    let effects = bench.at(1).message(0, coin(1, 1));
    carry(&mut bench, 1, effects);
    let unrecorded = paid(&mut bench);
    assert_eq!(unrecorded, [coin(2, 1)], "the coin that has just come in goes back");
    let booted = bench.at(1).boot(Some(Stable::Boots(0)));
    assert_eq!(carry(&mut bench, 1, booted), [coin(2, 1), Msg::Again(1)]);
    // The receiver has the first, and does not take it twice.
    assert_eq!(sent(0, bench.at(0).message(1, first[0].clone())), []);
    // What has got lost on its way is sent once more.
    assert_eq!(sent(1, bench.at(1).message(0, Msg::Again(1))), [(1, 0, coin(2, 1))]);
}

#[test]
fn a_snapshot_is_read_off_the_records() {
    let mut bench = bench(0);
    let effects = bench.at(1).timer(pay());
    carry(&mut bench, 1, effects);
    let effects = bench.at(RECORDER).request(Request::Snapshot);
    let found = effects.iter().find_map(|effect| match effect {
        Effect::Notify(Notice::Collected(whole, worth)) => Some((whole, *worth)),
        _ => None,
    });
    let (whole, worth) = found.expect("it is there at once");
    assert_eq!(worth, 1 + 4);
    let on_its_way = app::Msg::Bank(bank::Msg::Transfer(4));
    let channels = BTreeMap::from([(NodeId(1), vec![on_its_way])]);
    assert_eq!(whole.shares[&NodeId(0)].channels, channels);
    assert_eq!(whole.shares[&NodeId(1)].state.worth(), 0);
}
