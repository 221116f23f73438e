//! All processes are passive: are they temporarily blocked, terminated or deadlocked? A snapshot tells,
//! since it has what is on its way, too.
//!
//! *Terminated*: no process waits, and nothing is on its way. *Deadlocked*: some wait for each other, and no
//! message on its way could release one of them. *Stranded*: some wait for one that has finished; nobody
//! of the three is right then, as all are passive, nothing is on its way, and there is no set of processes
//! that wait for each other. *Temporarily blocked*: none of these, so a message on its way wakes one
//! that is passive, or releases one that waits, perhaps by way of others.
//!
//! This is what the classical three outcomes leave out: p0 waits for p1, p1 is done and waits for nothing,
//! and no message is on its way. All but *temporarily blocked* stay so, and are reported; the rest is looked
//! at again.
//!
//! Processes talk and wait for words, by chance or as written down (`--set talk=0?1,1?0`). `--ask 0@3`
//! begins to look.
//!
//! # Rules
//!
//! 1. Asked to look, and not looking: take a snapshot.
//! 2. The parts are there: say which of these it is, or that the processes are still running, and
//!    report what stays so.
//! 3. If something can still happen, take the next snapshot after a while.
//!
//! # Cost
//!
//! Each time a snapshot: N(N − 1) markers and N − 1 reports among N nodes that are all linked.
//!
//! # Known failures
//!
//! `stable/classifier-naive` goes by naive snapshots. A word on its way is in no part: who is
//! temporarily blocked looks terminated if it rests, stranded or deadlocked if it waits for that word.

use conclave_protocol::claims::Check;
use conclave_protocol::{Entry, Model, Opt, Property};

use super::detector::{self, WRAP};
use super::looks::Looks;
use super::{PROMISED, SOUND};
use crate::snapshot::app::{self, App};
use crate::snapshot::talk::TALK;

/// Says what has become of processes that talk.
pub static PLAIN: Entry<Looks<App>> = detector::PLAIN
    .variant("stable/classifier", "Blocked, terminated or deadlocked")
    .summary("tells the ways apart in which all can be passive")
    .text(include_str!("classifier.rs"))
    .config(|setup| detector::around(app::named("talk", setup)?, setup))
    .options(&[
        WRAP,
        TALK,
        Opt { name: "rounds", default: "2", help: "how much each process does" },
    ])
    .claims(&[
        Check::new(2, PROMISED).set(&[("wrap", "2"), ("rounds", "1")]),
        Check::new(3, PROMISED).set(&[("wrap", "2"), ("talk", "0>1,0?2,1-,2-")]),
    ]);

/// Two take turns: one rests until the other has woken it, so that a word is on its way most of the time.
const CHATTER: &str = "0>1,0-,0>1,0-,0>1,0-,0>1,0-,0>1,0-,0>1,0-,0>1,0-,0>1,0-,\
                       1-,1>0,1-,1>0,1-,1>0,1-,1>0,1-,1>0,1-,1>0,1-,1>0,1-,1>0";

/// Looks at naive snapshots.
pub static NAIVE: Entry<Looks<App>> = PLAIN
    .variant("stable/classifier-naive", "Classifier over naive snapshots")
    .summary("takes who waits for a word on its way for terminated or deadlocked")
    .mutant("stable/classifier", "channels are not recorded", Property::Sound)
    .model(Model::FIFO)
    .options(&[
        WRAP,
        Opt { default: CHATTER, ..TALK },
        Opt { name: "rounds", default: "2", help: "how much each process does" },
    ])
    .config(|setup| {
        let talk: String = setup.option(TALK.name, CHATTER.to_owned())?;
        Ok(detector::naive((PLAIN.config)(&setup.clone().with(TALK.name, talk))?))
    })
    .claims(&[
        Check::new(2, SOUND).set(&[("talk", "0-,1>0,1-")]).fails(7),
        Check::new(2, SOUND).set(&[("talk", "0?1,1>0,1?0")]).fails(7),
    ]);

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use conclave_protocol::family::reports::{DEADLOCKED, STRANDED, TERMINATED};

    #[test]
    fn what_stays_so_goes_before_what_may_pass() {
        assert_eq!(Outcome::of(0, true), Outcome::Running);
        assert_eq!(Outcome::of(0, false), Outcome::Blocked);
        assert_eq!(Outcome::of(TERMINATED, false), Outcome::Terminated);
        assert_eq!(Outcome::of(STRANDED | DEADLOCKED, true), Outcome::Deadlocked);
        assert_eq!(Outcome::of(STRANDED, false), Outcome::Stranded);
    }
}
