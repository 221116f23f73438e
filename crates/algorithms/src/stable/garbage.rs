//! Which objects are garbage, found by snapshots: those to which no chain of references leads, neither
//! from a root of a node nor from a message on its way. No node can refer to them any more, so
//! that stays so.
//!
//! Nodes have references to objects (`--set objects=4`); they hand them on, take further ones out of
//! objects that they know, and drop them. `--ask 0@3` begins to look.
//!
//! # Rules
//!
//! 1. Asked to look, and not looking: take a snapshot.
//! 2. The parts are there: follow the references from the roots and the messages in them, and report
//!    each object that is not reached and has not been reported.
//! 3. If there are others, and something can still happen, take the next snapshot after a while.
//!
//! # Cost
//!
//! Each time a snapshot: N(N − 1) markers and N − 1 reports among N nodes that are all linked.
//!
//! # Known failures
//!
//! `stable/garbage-naive` goes by naive snapshots. A node sends its last reference to an object and
//! drops its own; recorded after that, and the receiver before it arrives, they know nothing of the
//! object: it is reported as garbage, and the receiver uses it.

use conclave_protocol::claims::Check;
use conclave_protocol::{Entry, Opt, Property};

use super::detector::{self, WRAP};
use super::looks::Looks;
use super::{PROMISED, SOUND};
use crate::snapshot::app::{self, App};
use crate::snapshot::objects::OBJECTS;

/// Looks at objects and references.
pub static PLAIN: Entry<Looks<App>> = detector::PLAIN
    .variant("stable/garbage", "Garbage by snapshots")
    .summary("objects that no chain of references leads to")
    .text(include_str!("garbage.rs"))
    .config(|setup| detector::around(app::named("objects", setup)?, setup))
    .options(&[
        WRAP,
        OBJECTS,
        Opt { name: "rounds", default: "2", help: "how much each node does with references" },
    ])
    .claims(&[
        Check::new(2, PROMISED).set(&[("wrap", "2"), ("objects", "2"), ("rounds", "1")]),
        Check::new(3, PROMISED).set(&[("wrap", "2"), ("objects", "1"), ("rounds", "1")]),
    ]);

/// Looks at naive snapshots.
pub static NAIVE: Entry<Looks<App>> = PLAIN
    .variant("stable/garbage-naive", "Garbage by naive snapshots")
    .summary("a reference on its way is in no part of a naive snapshot")
    .mutant("stable/garbage", "channels are not recorded", Property::Sound)
    .config(|setup| Ok(detector::naive((PLAIN.config)(setup)?)))
    .claims(&[Check::new(2, SOUND)
        .set(&[("objects", "1"), ("rounds", "1")])
        .clients(1, 2)
        .fails(5)]);
