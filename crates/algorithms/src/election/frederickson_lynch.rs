//! On a synchronous ring every node launches a token with its id, and tokens travel at different
//! speeds: one with id v takes 2ᵛ rounds for a hop. A node forgets every token with a higher id than
//! the lowest it has seen, its own included. So slow tokens are overtaken, or meet a node that knows
//! better, before they have cost much. The token of the lowest id comes back to its owner, who leads.
//!
//! Only one token gets past the lowest node: its own. That is true whatever the speeds are; they
//! decide the number of messages and nothing else. While the lowest token goes round once, one with
//! the next id up gets half as far, the next a quarter, and so on.
//!
//! # Rules
//!
//! 1. The application calls, or `Wake` comes: unless awake, send `Wake` to the successor, and launch
//!    one's own token by rule 3.
//! 2. `Token`: if it is one's own, lead, sleep, and send `Elected` to the successor. If it is higher
//!    than the lowest id seen, or this node sleeps, forget it. Otherwise forget the token that waits
//!    here, and go on with rule 3.
//! 3. A token with id v waits for 2ᵛ − 1 rounds, and is then sent to the successor, which takes one
//!    more.
//! 4. `Elected`: follow its sender, sleep, forget the token that waits here, and pass the message on
//!    unless it is one's own.
//!
//! Ids are positive numbers: the attributes if there are any, and the numbers of the nodes from 1
//! on if there are none. Of equal attributes the node with the lower number goes first.
//!
//! # Cost
//!
//! If all start in the same round: less than 2N `Token`, N of them the winner's; then N `Elected`,
//! and N `Wake` in any case. It takes N · 2ᵘ rounds, u being the lowest id, and N more to tell
//! all nodes. If some start late, their tokens may go further before they are overtaken.
//!
//! # Known failures
//!
//! The lowest id wins, and not the best. If rounds are not alike the bound on the messages is lost,
//! for speed is what decides which token dies early. It survives no crash.

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Further};
use conclave_protocol::{
    Ctx, Entry, Links, Model, Never, NodeId, Property, Protocol, Setup, Stamp, Timing, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FredericksonLynch {
    /// While awake, the lowest id seen, one's own included.
    lowest: Option<Id>,
    /// The token that waits to be sent on.
    waiting: Option<Id>,
    /// Whom this node follows, and the term in which that node leads.
    leader: Option<Stamp>,
    /// The highest counter used or seen.
    counter: u64,
}

/// The id of a token, made unique by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Id {
    /// The number that decides how fast the token is.
    pub number: u64,
    /// Whose it is.
    pub node: NodeId,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// There is an election.
    Wake,
    /// This token has met no lower id.
    Token {
        /// The id.
        id: Id,
        /// The highest counter on the way so far.
        epoch: u64,
    },
    /// I lead.
    Elected {
        /// The term: its counter and the winner.
        epoch: Stamp,
    },
}

/// What a node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// The round in which the token that waits here goes on.
    Forward,
}

/// The ids, and the length of a round.
#[derive(Clone, Debug)]
pub struct Config {
    /// By node; empty if they are numbered from 1 on.
    numbers: Vec<u64>,
    round: Duration,
}

/// The lowest id may be no higher than this: its token takes a million rounds for a hop.
pub const MOST: u64 = 20;

/// No token is slower than 2 to this power; by then a faster one has long been by.
const SLOWEST: u64 = 24;

impl Protocol for FredericksonLynch {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self { lowest: None, waiting: None, leader: None, counter: 0 }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Campaign => self.wake(ctx),
        }
    }

    fn on_message(&mut self, _: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 1.
            Msg::Wake => self.wake(ctx),
            // Rule 2.
            Msg::Token { id, epoch } => {
                ctx.rule(2);
                self.counter = self.counter.max(epoch);
                if id.node == ctx.me {
                    self.counter += 1;
                    let epoch = Stamp { time: self.counter, node: ctx.me };
                    self.follow(epoch, ctx);
                    ctx.send(ctx.successor(), Msg::Elected { epoch });
                } else if self.lowest.is_some_and(|lowest| id < lowest) {
                    self.launch(id, ctx);
                }
            }
            // Rule 4.
            Msg::Elected { epoch } => {
                ctx.rule(4);
                if epoch.node != ctx.me {
                    self.counter = self.counter.max(epoch.time);
                    self.follow(epoch, ctx);
                    ctx.send(ctx.successor(), msg);
                }
            }
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            // Rule 3.
            Timer::Forward => {
                ctx.rule(3);
                if let Some(id) = self.waiting.take() {
                    ctx.send(ctx.successor(), Msg::Token { id, epoch: self.counter });
                }
            }
        }
    }
}

impl FredericksonLynch {
    /// Rule 1, unless awake.
    fn wake(&mut self, ctx: &mut Ctx<Self>) {
        if self.lowest.is_some() {
            return;
        }
        ctx.rule(1);
        if ctx.n() > 1 {
            ctx.send(ctx.successor(), Msg::Wake);
        }
        let given = ctx.config.numbers.get(ctx.me.index()).copied();
        let number = given.unwrap_or_else(|| u64::from(ctx.me.0) + 1);
        self.launch(Id { number, node: ctx.me }, ctx);
    }

    /// Rule 3: the lowest token so far waits for its round.
    fn launch(&mut self, id: Id, ctx: &mut Ctx<Self>) {
        ctx.rule(3);
        self.lowest = Some(id);
        self.waiting = Some(id);
        let rounds = (1_u32 << id.number.min(SLOWEST)) - 1;
        ctx.set_timer(Timer::Forward, ctx.config.round * rounds);
    }

    fn follow(&mut self, epoch: Stamp, ctx: &mut Ctx<Self>) {
        self.lowest = None;
        self.waiting = None;
        ctx.cancel_timer(Timer::Forward);
        if self.leader.is_none_or(|term| term < epoch) {
            self.leader = Some(epoch);
            ctx.notify(Notice::Elected { leader: epoch.node, epoch: epoch.token() });
        }
    }
}

fn config(setup: &Setup) -> Result<Config, Unfit> {
    // Whether there is one for each is checked there.
    setup.ranks()?;
    let numbers = setup.attributes.clone();
    match numbers.iter().min() {
        Some(0) => Err(Unfit::new("an attribute is 0, but ids have to be positive here")),
        Some(&lowest) if lowest > MOST => Err(Unfit::new(format!(
            "the lowest attribute is {lowest}, and its token would take 2^{lowest} rounds for a \
             hop; it has to be {MOST} at most"
        ))),
        _ => Ok(Config { numbers, round: setup.delay }),
    }
}

/// A single leader that all follow; the best it need not be.
const AGREED: &[Property] =
    &[Property::OneLeader, Property::OneLeaderPerEpoch, Property::LeaderKnown];
const LOWEST: Further = &[
    &[("N", 2), ("u", 1)],
    &[("N", 9), ("u", 2)],
    &[("N", 20), ("u", 5)],
    &[("N", 100), ("u", 1)],
];

/// The algorithm as published.
pub static PLAIN: Entry<FredericksonLynch> =
    Entry::new("election/frederickson-lynch", "Frederickson–Lynch", config)
        .summary("tokens travel at speeds that fall with their ids, so that few messages are sent")
        .source("Frederickson, Lynch. Electing a leader in a synchronous ring. JACM 34(1), 1987")
        .text(include_str!("frederickson_lynch.rs"))
        .model(Model { timing: Timing::Synchronous, links: Links::Ring, ..Model::FIFO })
        .holds(AGREED)
        .fails(&[(Property::BestLeads, "the lowest id wins, by design")])
        .claims(&[
            Check::new(3, AGREED),
            Check::new(4, AGREED),
            Check::new(3, &[Property::BestLeads]).fails(15),
        ])
        .cases(&[Case::new("simultaneous-start", LOWEST, |given| {
            let lowest = u64::from(given.n("u"));
            let ids = || (0..u64::from(given.n("N"))).map(|i| lowest + i);
            let rising = given.ring().with_attributes(ids().collect::<Vec<_>>());
            let falling = given.ring().with_attributes(ids().rev().collect::<Vec<_>>());
            [rising, falling].into_iter().flat_map(|setup| given.all_call(setup)).collect()
        })
        // Tokens that travel at different speeds: what is said of them is a bound.
        .counts(&[("messages_upper_bound", "Token")])]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Topology};

    use super::*;

    #[test]
    fn a_token_with_id_v_waits_for_one_round_less_than_two_to_the_power_of_v() {
        let mut bench = Bench::new(&PLAIN, &Setup::new(Topology::ring(3)));
        let round = Duration::from_millis(1);
        let wake = Effect::Send { to: NodeId(0), msg: Msg::Wake };
        let wait = |rounds| Effect::SetTimer { timer: Timer::Forward, after: round * rounds };
        assert_eq!(bench.at(2).request(Request::Campaign), [wake, wait(7)]);
        // A lower one takes its place, and the next higher one is forgotten.
        let token = |number| {
            let node = NodeId(number as u32 - 1);
            Msg::Token { id: Id { number, node }, epoch: 0 }
        };
        assert_eq!(bench.at(2).message(1, token(1)), [wait(1)]);
        assert_eq!(bench.at(2).message(1, token(2)), []);
        let sent = Effect::Send { to: NodeId(0), msg: token(1) };
        assert_eq!(bench.at(2).timer(Timer::Forward), [sent]);
    }
}
