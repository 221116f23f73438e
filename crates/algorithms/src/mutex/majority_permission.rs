//! A node enters with the permission of more than half of the nodes. Two majorities always have a
//! member in common, and no node gives two nodes permission at once. It is voting with large sets,
//! and follows the rules of `mutex/maekawa-sanders`, without which three nodes that ask at once
//! could each have one vote and wait for ever.
//!
//! `mutex/majority-permission` asks a fixed majority: the node itself and those next to it on the
//! ring of ids. `mutex/majority-permission-any` asks all nodes and is content with any majority
//! of the votes. That costs more, but no node in particular has to answer: with q votes needed, up
//! to N − q nodes may have crashed, if they were neither inside nor waiting.
//!
//! Both are safe because a vote goes to another request only when the node that has it has left or
//! has given it back, and a node inside gives no vote back. Voters pass on the highest fencing token
//! they have heard of.
//!
//! # Rules
//!
//! The rules and their numbers are those of `mutex/maekawa-sanders`.
//!
//! 1. Acquire: send `Request`, with a timestamp, to q = ⌊N/2⌋ + 1 voters; or to all N.
//! 2. Voter, on `Request`: if the vote is free, give it, with `Grant`. Else queue the request by
//!    age; `Fail` tells a request that an older one is before it, and `Inquire` asks a younger one
//!    for the vote.
//! 3. `Grant`: enter with q votes. Votes that come later are kept until the end.
//! 4. `Fail`: note it; yield as in rule 6.
//! 5. `Inquire` while waiting: note it; yield as in rule 6.
//! 6. As soon as one voter has refused: send `Yield` to every voter that has inquired. A node that
//!    asks all N could hold out until N − q + 1 have refused, for until then it can still get q
//!    votes; but it waits for ever if some of the others have crashed (`refusals`).
//! 7. Voter, on `Yield`: put the request back into the queue and vote for the oldest there.
//! 8. Release: send `Release` to all that were asked. A voter then votes for the oldest in its
//!    queue; one where the request is still in the queue takes it out.
//!
//! # Cost
//!
//! Alone, with a fixed majority: exactly 3⌊N/2⌋ messages; asking all nodes: exactly 3(N − 1).
//! Either way two hops. Under contention as `mutex/maekawa-sanders`.
//!
//! # Known failures
//!
//! As for `mutex/maekawa-sanders`: requests are not served in order; with fixed majorities, a
//! crashed voter blocks all whose sets contain it. A node that crashes while it waits or is inside
//! blocks every other node, even if any majority will do: the votes it has, and those it is yet to
//! get, are never given back. Votes must not be forgotten: a voter that is reset votes twice.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Fits, Given, SIZES};
use conclave_protocol::{Entry, Opt, Property, Setup, Unfit};

use super::maekawa_sanders::{Config, MaekawaSanders, PLAIN};
use super::{LOCK, NO_STAMPS};
use crate::quorum::{Construction, Quorums};

/// A fixed majority.
pub static FIXED: Entry<MaekawaSanders> = PLAIN
    .variant("mutex/majority-permission", "Permission of a majority")
    .summary("ask more than half of the nodes, always the same ones")
    .text(include_str!("majority_permission.rs"))
    .options(&[])
    .config(|setup| Ok(Config::unanimous(Quorums::new(Construction::Majority, setup.n())?)))
    .claims(&[
        Check::new(3, LOCK).requests(2),
        Check::new(3, &[Property::FcfsHappenedBefore]).requests(2).fails(16),
        Check::unchecked(&[Property::FcfsTimestamp], NO_STAMPS),
    ])
    .deep(&[Check::new(4, LOCK)])
    .cases(&[Case::new("idle", SIZES, Given::lone_among_equals).fits(&[Fits::LONE])]);

const REFUSALS: Opt = Opt {
    name: "refusals",
    default: "1",
    help: "how many voters must have refused before a node yields votes; more saves messages, but \
           voters that have crashed never refuse",
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
    Ok(Config::any(Quorums::all(setup.n()), needed, refusals))
}

/// Any majority.
pub static ANY: Entry<MaekawaSanders> = FIXED
    .variant("mutex/majority-permission-any", "Permission of any majority")
    .summary("ask everybody and enter with the first majority of votes")
    .options(&[REFUSALS])
    .config(any)
    .claims(&[
        Check::new(3, LOCK),
        Check::new(3, &[Property::FcfsHappenedBefore]).fails(14),
        Check::unchecked(&[Property::FcfsTimestamp], NO_STAMPS),
    ]);
