//! Whether some processes are deadlocked, found by snapshots: a set of processes that wait, of which each
//! that waits for all of some others waits for one of the set, each that waits for any of them for no other
//! than those of the set, and no message on its way could release one. As no process gives up waiting, that stays so.
//!
//! Processes talk and wait for words, by chance or as written down (`--set talk=0?1,1?0`). `--ask 0@3`
//! begins to look.
//!
//! # Rules
//!
//! 1. Asked to look, and not looking: take a snapshot.
//! 2. The parts are there: take all processes that wait, and leave out those that one outside could
//!    release or that a message on its way could, until no more can be left out. If some are left,
//!    report a deadlock.
//! 3. If none are, and something can still happen, take the next snapshot after a while.
//!
//! # Cost
//!
//! Each time a snapshot: N(N − 1) markers and N − 1 reports among N nodes that are all linked.
//!
//! # Known failures
//!
//! A process that waits for one that has finished waits for ever, too, and is in no such set: see
//! `stable/classifier`. Nothing is said of who has to give up.

use conclave_protocol::claims::Check;
use conclave_protocol::family::reports::DEADLOCKED;
use conclave_protocol::{Entry, Opt};

use super::PROMISED;
use super::detector::{self, WRAP};
use super::looks::{Config, Looks};
use crate::snapshot::app::{self, App};
use crate::snapshot::talk::TALK;

/// Looks at processes that talk.
pub static PLAIN: Entry<Looks<App>> = detector::PLAIN
    .variant("stable/deadlock", "Deadlock by snapshots")
    .summary("processes that wait for each other, and no message releases them")
    .text(include_str!("deadlock.rs"))
    .config(|setup| {
        let config = detector::around(app::named("talk", setup)?, setup)?;
        Ok(Config { sought: DEADLOCKED, ..config })
    })
    .options(&[
        WRAP,
        TALK,
        Opt { name: "rounds", default: "2", help: "how much each process does" },
    ])
    .claims(&[
        Check::new(2, PROMISED).set(&[("wrap", "2"), ("rounds", "2")]),
        Check::new(3, PROMISED).set(&[("wrap", "2"), ("talk", "0>1,0?2,1?0,1?2,2?0|1")]),
    ]);
