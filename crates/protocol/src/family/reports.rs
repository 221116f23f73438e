//! What is promised of algorithms that find out something of the whole system which, once it is so,
//! stays so, and report it: that a work is done, that a token is lost.
//!
//! What is so is a [fact](crate::Protocol::facts), a bit for each thing; a report names bits. So a
//! judge compares what was reported with the truth on states and channels, and takes no node's word.

use super::{About, Fault, Law, Now, Promise, Says, Watch};
use crate::{Note, Observation, Property};

/// The kind of a note that reports: its value has a bit for each thing that is reported.
pub const REPORTS: u8 = 0;

/// All nodes are passive, and nothing is on its way.
pub const TERMINATED: u64 = 1 << 0;
/// Some wait for each other, and nothing that could release one of them will ever be sent.
pub const DEADLOCKED: u64 = 1 << 1;
/// One waits for a process that has finished.
pub const STRANDED: u64 = 1 << 2;
/// A token that there was is nowhere, nor on its way.
pub const TOKEN_LOST: u64 = 1 << 3;
/// From this bit on, one for each object: nothing refers to it that could be reached.
pub const GARBAGE: u32 = 8;

/// The bits in words.
pub fn words(bits: u64) -> String {
    const NAMED: [(u64, &str); 4] = [
        (TERMINATED, "terminated"),
        (DEADLOCKED, "deadlocked"),
        (STRANDED, "stranded"),
        (TOKEN_LOST, "token lost"),
    ];
    let named = NAMED.iter().filter(|(bit, _)| bits & bit != 0);
    let objects = (GARBAGE..u64::BITS).filter(|bit| bits >> bit & 1 == 1);
    let objects = objects.map(|bit| format!("object {} is garbage", bit - GARBAGE));
    let all: Vec<String> = named.map(|(_, name)| (*name).to_owned()).chain(objects).collect();
    all.join(", ")
}

/// A report in a diagram.
pub(super) fn report_in_words(note: &Note) -> String {
    format!("REPORTS: {}", words(note.value))
}

/// The promises of the families that report.
pub(super) static PROMISES: &[Promise] = &[
    Promise {
        facts: true,
        about: REPORT,
        ..Promise::new(
            Property::Sound,
            Says::Always(Law { broken: untrue, words: untrue_in_words }),
        )
    },
    Promise {
        facts: true,
        about: REPORT,
        ..Promise::new(
            Property::Reported,
            Says::AtRest(Law { broken: missed, words: missed_in_words }),
        )
    },
];

/// What is never reported must not have become so; then there was nothing to judge.
const REPORT: Option<About> = Some((|mark| report(mark).is_some(), "nothing came to be so"));

fn report(mark: &Observation) -> Option<u64> {
    match mark {
        Observation::Note(note) if note.kind == REPORTS => Some(note.value),
        _ => None,
    }
}

/// Of the system, everything that has been reported, as bits.
pub(super) static WATCH: Watch = Watch {
    see: |_, _, _| {},
    see_all: |words, _, mark| {
        let Some(bits) = report(mark) else { return };
        match words.first_mut() {
            Some(reported) => *reported |= bits,
            None => words.push(bits),
        }
    },
    carries: |_| Vec::new(),
    arrives: |_, _, _| {},
    forgets: false,
    traffic: None,
};

fn reported(now: &dyn Now) -> u64 {
    now.history().first().copied().unwrap_or(0)
}

/// Something was reported that is not so.
fn untrue(now: &dyn Now) -> Option<Fault> {
    let untrue = reported(now) & !now.facts()?;
    (untrue != 0).then_some(Fault { numbers: [untrue, 0], ..Fault::default() })
}

fn untrue_in_words(_: &dyn Now, fault: Fault) -> String {
    format!("reported while it is not so: {}", words(fault.numbers[0]))
}

/// Something is so and was never reported.
fn missed(now: &dyn Now) -> Option<Fault> {
    let missed = now.facts()? & !reported(now);
    (missed != 0).then_some(Fault { numbers: [missed, 0], ..Fault::default() })
}

fn missed_in_words(_: &dyn Now, fault: Fault) -> String {
    format!("so, and never reported: {}", words(fault.numbers[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reported_is_remembered_bit_by_bit_and_said_in_words() {
        let note = |kind, value| Observation::Note(Note { kind, value, ..Note::default() });
        let mut history = Vec::new();
        for mark in [note(REPORTS, STRANDED), note(REPORTS + 1, 1), note(REPORTS, 1 << 10)] {
            (WATCH.see_all)(&mut history, crate::NodeId(0), &mark);
        }
        assert_eq!(history, [STRANDED | 1 << 10]);
        assert_eq!(words(history[0]), "stranded, object 2 is garbage");
    }
}
