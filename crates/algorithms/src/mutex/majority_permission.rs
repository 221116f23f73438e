//! A node enters with the permission of more than half of the nodes. Two majorities always have a
//! member in common, and nobody gives two nodes permission at once. It is voting with large sets,
//! and follows the rules of `mutex/maekawa-sanders`, without which three nodes that ask at once
//! could each have one vote and wait for ever.
//!
//! `mutex/majority-permission` asks a fixed majority: the node itself and those next to it on the
//! ring of ids. `mutex/majority-permission-any` asks everybody and is content with any majority
//! of the votes. That costs more, but nobody in particular has to answer: with q votes needed, up
//! to N − q nodes may have crashed, if they neither held nor wanted the critical section.
//!
//! Both are safe because a vote goes to another only when its owner has left or has given it
//! back, and nobody gives votes back once inside. Voters pass on the highest fencing token they
//! have heard of.
//!
//! # Rules
//!
//! 1. Acquire: send `Request`, with a timestamp, to q = ⌊N/2⌋ + 1 voters; or to all N.
//! 2. Voters grant, queue, fail and inquire as in `mutex/maekawa-sanders`.
//! 3. `Grant`: enter with q votes. Votes that come later are kept until the end.
//! 4. `Fail`, `Inquire`: as soon as one voter has refused, yield to every voter that inquires.
//!    Who asks everybody could hold out until N − q + 1 have refused, for until then it can
//!    still get q votes; but it waits for ever if some of the others have crashed (`refusals`).
//! 5. Release: send `Release` to all that were asked. A voter where the request is still in the
//!    queue takes it out.
//!
//! # Cost
//!
//! Alone, with a fixed majority: exactly 3⌊N/2⌋ messages; asking everybody: exactly 3(N − 1).
//! Either way two hops. Under contention as `mutex/maekawa-sanders`.
//!
//! # Known failures
//!
//! As for `mutex/maekawa-sanders`: requests are not served in order; with fixed majorities, a
//! crashed voter blocks all whose sets contain it. A node that crashes while it waits or is inside
//! blocks everybody, even if any majority will do: the votes it has, and those it is yet to get,
//! are never given back. Votes must not be forgotten: a voter that is reset votes twice.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, Given, SIZES};
use conclave_protocol::{Entry, Info, Opt, Property, Setup, Unfit};

use super::maekawa_sanders::{Config, MaekawaSanders, PLAIN};
use super::{LOCK, NO_STAMPS};
use crate::quorum::{Construction, Quorums};

/// A fixed majority.
pub static FIXED: Entry<MaekawaSanders> = Entry {
    info: Info {
        id: "mutex/majority-permission",
        title: "Permission of a majority",
        summary: "ask more than half of the nodes, always the same ones",
        text: include_str!("majority_permission.rs"),
        options: &[],
        claims: &[
            Check::new(3, LOCK).requests(2),
            Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(16),
            Check::unchecked(&[Property::FcfsTimestamp], NO_STAMPS),
        ],
        deep: &[Check::new(4, LOCK)],
        cases: &[Case::new("idle", SIZES, Given::lone_among_equals).fits(&[Fits::LONE])],
        ..PLAIN.info
    },
    config: |setup| Ok(Config::unanimous(Quorums::new(Construction::Majority, setup.n())?)),
    ..PLAIN
};

/// Any majority.
pub static ANY: Entry<MaekawaSanders> = Entry {
    info: Info {
        id: "mutex/majority-permission-any",
        title: "Permission of any majority",
        summary: "ask everybody and enter with the first majority of votes",
        options: &[REFUSALS],
        claims: &[
            Check::new(3, LOCK),
            Check::new(3, &[Property::FcfsHappenedBefore]).fails(14),
            Check::unchecked(&[Property::FcfsTimestamp], NO_STAMPS),
        ],
        deep: &[],
        cases: &[],
        ..FIXED.info
    },
    config: any,
    ..PLAIN
};

const REFUSALS: Opt = Opt {
    name: "refusals",
    default: "1",
    help: "how many voters must have refused before a node yields votes; more saves messages, \
           but voters that have crashed never refuse",
};

fn any(setup: &Setup) -> Result<Config, Unfit> {
    let needed = setup.n() as usize / 2 + 1;
    let most = setup.n() as usize - needed + 1;
    let refusals = setup.option(REFUSALS.name, 1)?;
    if !(1..=most).contains(&refusals) {
        return Err(Unfit::new(format!(
            "refusals={refusals}, but it takes at least 1 and at most {most} to fail"
        )));
    }
    Ok(Config::any(Quorums::everybody(setup.n()), needed, refusals))
}
