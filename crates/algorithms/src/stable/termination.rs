//! Whether a work has terminated, found by snapshots: it has if all nodes are passive and nothing is
//! on its way. Passive nodes are woken by messages alone, so that it has terminated stays so.
//!
//! Unlike `termination/dijkstra-scholten` it needs no message of its own while the work goes on, and
//! no initiator of the work; but each look costs a whole snapshot. The work spreads by chance and takes as many
//! messages as `--set work=` says. `--ask 0@3` begins to look.
//!
//! # Rules
//!
//! 1. Asked to look, and not looking: take a snapshot.
//! 2. The parts are there: if all nodes are passive in them and no channel holds a message, report
//!    that the work has terminated.
//! 3. If not, take the next snapshot after a while. If it has, look no more.
//!
//! # Cost
//!
//! Each time a snapshot: N(N − 1) markers and N − 1 reports among N nodes that are all linked.
//!
//! # Known failures
//!
//! That all nodes are passive is not enough, and does not stay so: `stable/detector-naive` goes by it.

use conclave_protocol::Entry;
use conclave_protocol::claims::Check;

use super::PROMISED;
use super::detector::{self, WRAP};
use super::looks::Looks;
use crate::snapshot::app::{self, App};
use crate::snapshot::diffusing;

/// Looks at a work that spreads.
pub static PLAIN: Entry<Looks<App>> = detector::PLAIN
    .variant("stable/termination", "Termination by snapshots")
    .summary("all passive, and nothing on its way")
    .text(include_str!("termination.rs"))
    .config(|setup| detector::around(app::named("diffusing", setup)?, setup))
    .options(&[WRAP, diffusing::WORK, diffusing::BUSY])
    .claims(&[
        Check::new(2, PROMISED).set(&[("wrap", "2"), ("work", "2"), ("busy", "2")]),
        Check::new(3, PROMISED).set(&[("wrap", "2"), ("work", "1"), ("busy", "2")]).shape("line"),
    ]);
