//! Which rules of the elections on a ring with lists are in force.

use std::time::Duration;

use conclave_protocol::{Ranks, Setup, Unfit};

/// Which rules are in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// How good a leader each node is.
    pub ranks: Ranks,
    /// How long to wait for an acknowledgement.
    pub acknowledgement: Duration,
    /// Longer than two rounds take, however many nodes are dead.
    pub two_rounds: Duration,
    /// Who turns a list that is complete into an outcome.
    pub converts: Converts,
    /// Rule 5: an election is dropped where one of a better initiator has passed.
    pub suppression: bool,
    /// Rule 6: the outcome counts only if the leader was there when it came by.
    pub confirmation: bool,
    /// Rules 7 and 8: a node that has let an election pass and hears of no outcome calls one.
    pub watchdog: bool,
    /// Rule 9: suspicions that come before the outcome are remembered.
    pub memory: bool,
    /// Rules 10 to 13: after a restart, ask all others before calling an election.
    pub inquiry: bool,
    /// Rule 18: how many successors a node knows.
    pub successors: u32,
    /// So many nodes are on the ring at first; the others have to join, by rule 14.
    pub members: u32,
}

/// Who turns a complete list into an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Converts {
    /// Any node that finds itself in the list.
    AnyNode,
    /// The initiator, and at any other node the list goes on for ever.
    Initiator,
    /// The initiator, and at any other node a complete list ends.
    InitiatorOrEnds,
}

impl Config {
    /// The bare ring with lists.
    pub fn new(setup: &Setup, converts: Converts) -> Result<Self, Unfit> {
        let hop = setup.delay * 3 + setup.processing;
        Ok(Self {
            ranks: setup.ranks()?,
            acknowledgement: setup.delay * 2 + setup.processing,
            two_rounds: hop * 2 * (setup.n() + 1),
            converts,
            suppression: false,
            confirmation: false,
            watchdog: false,
            memory: false,
            inquiry: false,
            successors: setup.n(),
            members: setup.n(),
        })
    }
}
