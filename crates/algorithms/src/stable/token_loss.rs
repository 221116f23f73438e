//! Whether a token is lost, found by snapshots: it is if no node has it and it is not on its way. As no
//! node makes a new one, that stays so.
//!
//! A token goes round a ring, and a node loses it (`--set loses=1`; `none` for no node). `--ask 0@3`
//! begins to look.
//!
//! # Rules
//!
//! 1. Asked to look, and not looking: take a snapshot.
//! 2. The parts are there: if the nodes and channels in them have fewer tokens than there were, report
//!    that a token is lost.
//! 3. If not, and something can still happen, take the next snapshot after a while.
//!
//! # Cost
//!
//! Each time a snapshot: N(N − 1) markers and N − 1 reports among N nodes that are all linked.
//!
//! # Known failures
//!
//! `stable/token-loss-naive` goes by naive snapshots. One that is taken while the token is on its way
//! has it in no part: it is reported lost, and arrives.

use conclave_protocol::claims::Check;
use conclave_protocol::{Entry, Model, Opt, Property, Setup, Unfit};

use super::detector::{self, WRAP};
use super::looks::{Config, Looks};
use super::{PROMISED, SOUND};
use crate::snapshot::app::{self, App};
use crate::snapshot::ring::LOSES;

/// A node loses the token unless it is said that none does.
fn config(setup: &Setup) -> Result<Config<App>, Unfit> {
    let loses: String = setup.option(LOSES.name, LOSES.default.to_owned())?;
    let setup = setup.clone().with(LOSES.name, loses);
    detector::around(app::named("ring", &setup)?, &setup)
}

/// Looks at a ring with a token.
pub static PLAIN: Entry<Looks<App>> = detector::PLAIN
    .variant("stable/token-loss", "Loss of a token by snapshots")
    .summary("no node has the token, and it is not on its way")
    .text(include_str!("token_loss.rs"))
    .model(Model::FIFO)
    .config(config)
    .options(&[
        WRAP,
        LOSES,
        Opt { name: "tokens", default: "1", help: "how many tokens go round the ring" },
        Opt { name: "rounds", default: "2", help: "how often each node passes a token on" },
    ])
    .claims(&[
        Check::new(2, PROMISED).set(&[("wrap", "2")]),
        Check::new(3, PROMISED).set(&[("wrap", "2"), ("rounds", "1"), ("loses", "2")]),
    ]);

/// Looks at naive snapshots.
pub static NAIVE: Entry<Looks<App>> = PLAIN
    .variant("stable/token-loss-naive", "Loss of a token by naive snapshots")
    .summary("a token on its way is in no part of a naive snapshot")
    .mutant("stable/token-loss", "channels are not recorded", Property::Sound)
    .config(|setup| Ok(detector::naive(detector::around(app::named("ring", setup)?, setup)?)))
    .options(&[
        Opt { default: "none", ..LOSES },
        Opt { name: "tokens", default: "1", help: "how many tokens go round the ring" },
        Opt { name: "rounds", default: "2", help: "how often each node passes a token on" },
    ])
    .claims(&[Check::new(3, SOUND).set(&[("rounds", "1")]).fails(8)]);
