//! A token goes round and adds up what each node has sent and not received. When it comes back to p0
//! having met no node that was woken since it last passed, and the sum is zero, all nodes are passive
//! and nothing is on its way: the work is done.
//!
//! A node counts the messages of the work that it has sent, less those it has received; the sum over
//! all nodes is how many are on their way. The token does not look at all nodes at once, so a message
//! may be counted at its receiver behind the token and not at its sender before it. Receiving one
//! therefore makes a node black; it passes its colour on to the token, and p0 believes only a white
//! round in which it was white itself.
//!
//! This is a wrapper around any work whose nodes say whether they are passive; any number of them may
//! be active at first (all by default, `--set busy=3`), and messages may overtake each other.
//!
//! # Rules
//!
//! p0 has a black token at first.
//!
//! 1. Send a message of the work: the counter grows by one.
//! 2. Receive one: the counter falls by one, and the node is black.
//! 3. Passive, with the token, and not p0: pass `Token` on to the node before, with the own counter
//!    added to its sum; it is black if it was, or the node is. The node is white from now on.
//! 4. The same at p0: if token and node are white, and its sum with the own counter is zero, report that
//!    the work has terminated. Otherwise become white, and send a white `Token` with sum zero to the
//!    last node.
//!
//! # Cost
//!
//! N hops of the token each round, however many messages the work takes. When the work is done, at
//! most 3N − 2 more: the rest of a round, one in which the token meets those who are still black, and
//! one that is white.
//!
//! # Known failures
//!
//! The token is lost with the node that has it, and so is whatever a crashed node had counted; a
//! message of the work that is lost is on its way for ever. Nothing is reported then.
//!
//! `termination/safra-white` makes no node black: a node that has passed the token is woken behind
//! it by one that the token has not reached, and the counters add up to zero all the same. `termination/safra-uncounted` goes
//! by colours alone, and believes a white round while a message is on its way.

use std::fmt;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Asks, Case, Experiment, Given, Pace, Run, Scope};
use conclave_protocol::{
    Channels, Charge, Ctx, Effect, Entry, Model, NodeId, NodeSet, Opt, Property, Protocol, Setup,
    Unfit, Whole,
};
use serde::{Deserialize, Serialize};

use super::{Notice, PROMISED, SOUND, Work, check};
use crate::snapshot::app::Application;
use crate::snapshot::diffusing::{self, Diffusing};

/// The state of a node, around a work.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Safra<W: Protocol> {
    /// The work.
    pub work: W,
    /// How many of its messages this node has sent, less those it has received.
    counter: i64,
    /// Whether it has received one since the token last left it.
    black: bool,
    /// The token, if it is here.
    token: Option<Token>,
}

/// What goes round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token {
    /// The counters of the nodes that it has passed, added up.
    pub sum: i64,
    /// Whether one of them was black.
    pub black: bool,
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg<M> {
    /// What goes round.
    Token(Token),
    /// A message of the work.
    App(M),
}

/// What never changes.
pub struct Config<W: Protocol> {
    /// The constants of the work.
    pub work: W::Config,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Rule 2 makes no node black.
    White,
    /// Rule 4 does not ask for the sum.
    Uncounted,
}

impl<W: Protocol> Config<W> {
    /// Around a work with these constants.
    pub const fn new(work: W::Config) -> Self {
        Self { work, mutation: None }
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl<W: Protocol> Clone for Config<W> {
    fn clone(&self) -> Self {
        Self { work: self.work.clone(), ..*self }
    }
}

impl<W: Protocol> fmt::Debug for Config<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("work", &self.work).finish_non_exhaustive()
    }
}

/// Where the token begins, and the end of the work is found.
const FIRST: NodeId = NodeId(0);

impl<W: Work> Protocol for Safra<W> {
    type Config = Config<W>;
    type Request = W::Request;
    type Notice = Notice<W::Notice>;
    type Msg = Msg<W::Msg>;
    type Timer = W::Timer;
    type Stable = W::Stable;

    fn start(saved: Option<W::Stable>, ctx: &mut Ctx<Self>) -> Self {
        let mut counter = 0;
        let work = inside(&mut counter, ctx, |ctx| W::start(saved, ctx));
        let token = (ctx.me == FIRST).then_some(Token { sum: 0, black: true });
        let mut node = Self { work, counter, black: false, token };
        node.pass_if_passive(ctx);
        node
    }

    fn on_request(&mut self, request: W::Request, ctx: &mut Ctx<Self>) {
        self.go_on(ctx, |work, ctx| work.on_request(request, ctx));
    }

    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::App(msg) => {
                ctx.rule(2);
                self.counter -= 1;
                self.black |= !ctx.config.is(Mutation::White);
                self.go_on(ctx, |work, ctx| work.on_message(from, msg, ctx));
            }
            Msg::Token(token) => {
                self.token = Some(token);
                self.pass_if_passive(ctx);
            }
        }
    }

    fn on_timer(&mut self, timer: W::Timer, ctx: &mut Ctx<Self>) {
        self.go_on(ctx, |work, ctx| work.on_timer(timer, ctx));
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.go_on(ctx, |work, ctx| work.on_suspect(peer, ctx));
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.go_on(ctx, |work, ctx| work.on_restore(peer, ctx));
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        self.go_on(ctx, |work, ctx| work.on_join(sponsor, ctx));
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        self.go_on(ctx, |work, ctx| work.on_leave(ctx));
    }

    fn waits_for(&self, me: NodeId, config: &Config<W>) -> NodeSet {
        self.work.waits_for(me, &config.work)
    }

    fn charge(msg: &Self::Msg, from: NodeId, to: NodeId) -> Charge {
        match msg {
            Msg::Token(_) => Charge::Nobody,
            Msg::App(msg) => W::charge(msg, from, to),
        }
    }

    fn is_app(msg: &Self::Msg) -> bool {
        match msg {
            Msg::Token(_) => false,
            Msg::App(msg) => W::is_app(msg),
        }
    }

    const FACTS: bool = true;

    /// Whether the work is done.
    fn facts(whole: &Whole<'_, Self>) -> u64 {
        let messages = whole.messages.iter().filter_map(|(.., msg)| match msg {
            Msg::Token(_) => None,
            Msg::App(msg) => Some(msg),
        });
        super::facts(whole.nodes.iter().flatten().map(|node| &node.work), messages)
    }
}

impl<W: Work> Safra<W> {
    /// Runs a rule of the work; perhaps the token may go on then.
    fn go_on(&mut self, ctx: &mut Ctx<Self>, rule: impl FnOnce(&mut W, &mut Ctx<W>)) {
        let work = &mut self.work;
        inside(&mut self.counter, ctx, |ctx| rule(work, ctx));
        self.pass_if_passive(ctx);
    }

    /// Rules 3 and 4.
    fn pass_if_passive(&mut self, ctx: &mut Ctx<Self>) {
        if !self.work.is_passive() {
            return;
        }
        let Some(token) = self.token.take() else { return };
        let (sum, black) = (token.sum + self.counter, token.black || self.black);
        self.black = false;
        if ctx.me != FIRST {
            ctx.rule(3);
            ctx.send(NodeId(ctx.me.0 - 1), Msg::Token(Token { sum, black }));
            return;
        }
        ctx.rule(4);
        if !black && (sum == 0 || ctx.config.is(Mutation::Uncounted)) {
            ctx.notify(Notice::Terminated);
        } else {
            let white = Token { sum: 0, black: false };
            ctx.send(NodeId(ctx.n() - 1), Msg::Token(white));
        }
    }
}

/// Runs a rule of the work, and counts what it sends.
fn inside<W: Work, T>(
    counter: &mut i64,
    ctx: &mut Ctx<Safra<W>>,
    rule: impl FnOnce(&mut Ctx<W>) -> T,
) -> T {
    let config = ctx.config;
    let lift = |effect: Effect<W>, ctx: &mut Ctx<Safra<W>>| {
        // Rule 1.
        let sent = match &effect {
            Effect::Send { .. } => 1,
            Effect::Broadcast(_) => ctx.n() - 1,
            _ => 0,
        };
        if sent > 0 {
            ctx.rule(1);
            *counter += i64::from(sent);
        }
        ctx.emit(effect.map(Msg::App, Notice::App, |timer| timer, |stable| stable));
    };
    ctx.nest(&config.work, lift, rule)
}

/// All nodes are active at first, if it is not said how many.
fn config(setup: &Setup) -> Result<Config<Diffusing>, Unfit> {
    let busy: String = setup.option(BUSY.name, BUSY.default.to_owned())?;
    Ok(Config::new(Diffusing::constants(&setup.clone().with(BUSY.name, busy))?))
}

const BUSY: Opt = Opt { default: "all", ..diffusing::BUSY };

/// Works of several sizes that begin at one node or at all, with delays that vary.
fn finished(given: &Given) -> Vec<Experiment> {
    let ways = (0..40_u64).map(|seed| {
        let busy = if seed % 2 == 0 { 1 } else { given.n("N") };
        let setup = given.complete().with("work", seed % 7).with("busy", busy);
        let mut run = Run::new(setup, Asks::Planned(Vec::new()), None);
        (run.seed, run.served) = (seed, false);
        run.pace = if seed % 3 == 0 { Pace::Unit } else { Pace::Varying };
        Experiment::of(run).about(Scope::AfterFact)
    });
    ways.collect()
}

const ONE: &[(&str, &str)] = &[("work", "2"), ("busy", "1")];
const MORE: &[(&str, &str)] = &[("work", "3"), ("busy", "1")];
const ALL_OF_TWO: &[(&str, &str)] = &[("work", "2"), ("busy", "2")];
const ALL_OF_THREE: &[(&str, &str)] = &[("work", "2"), ("busy", "3")];

/// The algorithm as published.
pub static PLAIN: Entry<Safra<Diffusing>> = Entry::new("termination/safra", "Safra", config)
    .summary("a token adds up what is on its way, and believes a white round")
    .source("Dijkstra. Shmuel Safra's version of termination detection. EWD 998, 1987")
    .text(include_str!("safra.rs"))
    .model(Model::RELIABLE)
    .holds(PROMISED)
    .options(&[diffusing::WORK, BUSY])
    .claims(&[
        check(2, ALL_OF_TWO),
        check(3, ONE),
        check(3, ALL_OF_THREE),
        check(3, ALL_OF_THREE).channels(Channels::Fifo),
    ])
    .cases(&[Case::new("after-termination", &[&[("N", 2)], &[("N", 9)]], finished)
        .counts(&[("token_hops_upper_bound", "Token")])]);

/// Rule 2 makes no node black.
pub static WHITE: Entry<Safra<Diffusing>> = PLAIN
    .variant("termination/safra-white", "Safra without colours")
    .summary("a node that is woken behind the token stays white")
    .mutant("termination/safra", "rule 2 leaves the node white", Property::Sound)
    // It takes much work for one to be woken behind the token and to make up for that before it.
    .options(&[Opt { default: "24", ..diffusing::WORK }, BUSY])
    .config(|setup| {
        let work = setup.option(diffusing::WORK.name, 24)?;
        let config = config(&setup.clone().with(diffusing::WORK.name, work))?;
        Ok(Config { mutation: Some(Mutation::White), ..config })
    })
    .claims(&[
        Check::new(3, SOUND).set(ONE).fails(9),
        Check::new(3, SOUND).set(MORE).channels(Channels::Fifo).fails(11),
    ]);

/// Rule 4 goes by colours alone.
pub static UNCOUNTED: Entry<Safra<Diffusing>> = PLAIN
    .variant("termination/safra-uncounted", "Safra without counters")
    .summary("a white round is believed while a message is on its way")
    .mutant("termination/safra", "rule 4 does not ask for the sum", Property::Sound)
    .config(|setup| Ok(Config { mutation: Some(Mutation::Uncounted), ..config(setup)? }))
    .claims(&[
        Check::new(3, SOUND).set(ONE).fails(5),
        Check::new(3, SOUND).set(ONE).channels(Channels::Fifo).fails(5),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Topology};

    use super::*;

    type Sent = Effect<Safra<Diffusing>>;

    fn token(sum: i64, black: bool) -> Msg<diffusing::Msg> {
        Msg::Token(Token { sum, black })
    }

    fn sent(to: u32, sum: i64, black: bool) -> Sent {
        Effect::Send { to: NodeId(to), msg: token(sum, black) }
    }

    #[test]
    fn a_node_passes_the_token_when_it_is_passive_with_its_colour_and_counter() {
        let mut bench = Bench::new(&PLAIN, &Setup::new(Topology::complete(3)).with("busy", 1));
        bench.at(2).message(1, Msg::App(diffusing::Msg::Work(0)));
        assert_eq!(bench.at(2).message(0, token(1, false)), [], "it is active");
        assert_eq!(bench.at(2).timer(diffusing::Timer::Done), [sent(1, 0, true)]);
        assert_eq!(bench.at(2).message(0, token(3, false)), [sent(1, 2, false)], "white again");
    }

    #[test]
    fn the_first_node_believes_only_a_white_round_that_adds_up() {
        let setup = Setup::new(Topology::complete(3)).with("work", 1).with("busy", 1);
        let mut bench = Bench::new(&PLAIN, &setup);
        let handed = Effect::Send { to: NodeId(1), msg: Msg::App(diffusing::Msg::Work(0)) };
        let round = sent(2, 0, false);
        assert!(bench.at(0).timer(diffusing::Timer::Done).contains(&handed));
        let again = std::slice::from_ref(&round);
        assert_eq!(bench.at(0).timer(diffusing::Timer::Done), again);
        assert_eq!(bench.at(0).message(1, token(-1, true)), again);
        assert_eq!(bench.at(0).message(1, token(0, false)), again);
        let reported = [Effect::Notify(Notice::Terminated)];
        assert_eq!(bench.at(0).message(1, token(-1, false)), reported);
    }
}
