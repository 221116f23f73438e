//! A work that begins at one node, the initiator, spreads by messages. The nodes that are engaged in
//! it form a tree: the parent of each is the node whose message engaged it. A node signals to its
//! parent, and leaves the tree, when it is passive and each of its own messages has been signalled
//! for. When the initiator is passive and all its messages have been signalled for, the work is done.
//!
//! It is never reported too soon: each message that is on its way or has engaged a node is in the
//! deficit of its sender, which stays in the tree for that long, and so does the sender's parent, up to the
//! initiator. It is always reported: the tree of a work that is done loses its leaves one by one.
//!
//! This is a wrapper around any work whose nodes say whether they are passive. The catalogue has it
//! around one that spreads by chance and takes as many messages as `--set work=` says.
//!
//! # Rules
//!
//! 1. Send a message of the work: the deficit grows by one.
//! 2. Receive one from j, not being engaged: j is the parent from now on. Being engaged, as the
//!    initiator always is: send `Signal` to j at once.
//! 3. `Signal`: the deficit falls by one.
//! 4. Passive, and the deficit is zero: send `Signal` to the parent, and be engaged no more; the
//!    initiator reports that the work has terminated.
//!
//! # Cost
//!
//! Exactly one `Signal` for each message of the work, however it spreads: 2M messages in all.
//!
//! # Known failures
//!
//! The work has to begin at one node. A `Signal` that is lost, or a crash of an engaged node, leaves
//! the deficit of another above zero for ever, and nothing is reported.
//!
//! `termination/dijkstra-scholten-eager` signals to the parent as soon as it is passive, whatever its
//! deficit: the initiator is told that all is done while messages further down are on their way.

use std::fmt;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Asks, Case, Experiment, Given, Pace, Run};
use conclave_protocol::{
    Channels, Charge, Ctx, Effect, Entry, Links, Model, NodeId, NodeSet, Property, Protocol, Setup,
    Topology, Unfit, Whole,
};
use serde::{Deserialize, Serialize};

use super::{Notice, PROMISED, SOUND, Work, check};
use crate::snapshot::app::Application;
use crate::snapshot::diffusing::{self, Diffusing};

/// The state of a node, around a work.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct DijkstraScholten<W: Protocol> {
    /// The work.
    pub work: W,
    /// Who engaged this node, if it is engaged and not the initiator.
    parent: Option<NodeId>,
    /// How many of its messages have not been signalled for.
    deficit: u32,
    /// Whether the initiator has reported.
    reported: bool,
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg<M> {
    /// A message of the receiver's, and whatever it led to, is done with.
    Signal,
    /// A message of the work.
    App(M),
}

/// What never changes.
pub struct Config<W: Protocol> {
    /// The constants of the work.
    pub work: W::Config,
    /// Where it begins.
    pub initiator: NodeId,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Rule 4 does not ask for the deficit of a node that has a parent.
    Eager,
}

impl<W: Protocol> Config<W> {
    /// Around a work that begins at this node.
    pub const fn new(work: W::Config, initiator: NodeId) -> Self {
        Self { work, initiator, mutation: None }
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

impl<W: Work> Protocol for DijkstraScholten<W> {
    type Config = Config<W>;
    type Request = W::Request;
    type Notice = Notice<W::Notice>;
    type Msg = Msg<W::Msg>;
    type Timer = W::Timer;
    type Stable = W::Stable;

    fn start(saved: Option<W::Stable>, ctx: &mut Ctx<Self>) -> Self {
        let mut deficit = 0;
        let work = inside(&mut deficit, ctx, |ctx| W::start(saved, ctx));
        let mut node = Self { work, parent: None, deficit, reported: false };
        node.signal_if_done(ctx);
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
                if self.is_engaged(ctx) {
                    ctx.send(from, Msg::Signal);
                } else {
                    self.parent = Some(from);
                }
                self.go_on(ctx, |work, ctx| work.on_message(from, msg, ctx));
            }
            // Rule 3.
            Msg::Signal => {
                ctx.rule(3);
                self.deficit = self.deficit.saturating_sub(1);
                self.signal_if_done(ctx);
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
            Msg::Signal => Charge::Nobody,
            Msg::App(msg) => W::charge(msg, from, to),
        }
    }

    fn is_app(msg: &Self::Msg) -> bool {
        match msg {
            Msg::Signal => false,
            Msg::App(msg) => W::is_app(msg),
        }
    }

    const FACTS: bool = true;

    /// Whether the work is done.
    fn facts(whole: &Whole<'_, Self>) -> u64 {
        let messages = whole.messages.iter().filter_map(|(.., msg)| match msg {
            Msg::Signal => None,
            Msg::App(msg) => Some(msg),
        });
        super::facts(whole.nodes.iter().flatten().map(|node| &node.work), messages)
    }
}

impl<W: Work> DijkstraScholten<W> {
    fn is_engaged(&self, ctx: &Ctx<Self>) -> bool {
        ctx.me == ctx.config.initiator || self.parent.is_some()
    }

    /// Runs a rule of the work; perhaps it is done then.
    fn go_on(&mut self, ctx: &mut Ctx<Self>, rule: impl FnOnce(&mut W, &mut Ctx<W>)) {
        let work = &mut self.work;
        inside(&mut self.deficit, ctx, |ctx| rule(work, ctx));
        self.signal_if_done(ctx);
    }

    /// Rule 4.
    fn signal_if_done(&mut self, ctx: &mut Ctx<Self>) {
        let eager = ctx.config.mutation == Some(Mutation::Eager) && self.parent.is_some();
        if !self.work.is_passive() || self.deficit > 0 && !eager {
            return;
        }
        if let Some(parent) = self.parent.take() {
            ctx.rule(4);
            ctx.send(parent, Msg::Signal);
        } else if ctx.me == ctx.config.initiator && !self.reported {
            ctx.rule(4);
            self.reported = true;
            ctx.notify(Notice::Terminated);
        }
    }
}

/// Runs a rule of the work, and counts what it sends.
fn inside<W: Work, T>(
    deficit: &mut u32,
    ctx: &mut Ctx<DijkstraScholten<W>>,
    rule: impl FnOnce(&mut Ctx<W>) -> T,
) -> T {
    let config = ctx.config;
    let lift = |effect: Effect<W>, ctx: &mut Ctx<DijkstraScholten<W>>| {
        // Rule 1.
        let sent = match &effect {
            Effect::Send { .. } => 1,
            Effect::Broadcast(_) => ctx.n() - 1,
            _ => 0,
        };
        if sent > 0 {
            ctx.rule(1);
            *deficit += sent;
        }
        ctx.emit(effect.map(Msg::App, Notice::App, |timer| timer, |stable| stable));
    };
    ctx.nest(&config.work, lift, rule)
}

fn config(setup: &Setup) -> Result<Config<Diffusing>, Unfit> {
    let work = Diffusing::constants(setup)?;
    if work.busy > 1 {
        let busy = work.busy;
        return Err(Unfit::new(format!("busy={busy}: the work has to begin at one node")));
    }
    Ok(Config::new(work, NodeId(0)))
}

/// A work of so many messages, spreading in several ways through several systems.
fn spreading(given: &Given) -> Vec<Experiment> {
    let messages = given.n("M");
    let ways = (0..12_u64).map(|seed| {
        let shapes = [Topology::complete(2), Topology::complete(5), Topology::line(7)];
        let setup = Setup::new(shapes[seed as usize % 3].clone()).with("work", messages);
        let mut run = Run::new(setup, Asks::Planned(Vec::new()), None);
        (run.seed, run.served, run.pace) = (seed, false, Pace::Varying);
        Experiment::of(run)
    });
    ways.collect()
}

/// The algorithm as published.
pub static PLAIN: Entry<DijkstraScholten<Diffusing>> =
    Entry::new("termination/dijkstra-scholten", "Dijkstra–Scholten", config)
        .summary("the engaged form a tree, which loses its leaves when the work is done")
        .source(
            "Dijkstra, Scholten. Termination detection for diffusing computations. Information \
             Processing Letters 11(1), 1980",
        )
        .text(include_str!("dijkstra_scholten.rs"))
        .model(Model { links: Links::Graph, ..Model::RELIABLE })
        .holds(PROMISED)
        .options(&[diffusing::WORK])
        .claims(&[
            check(2, &[("work", "3")]),
            check(3, &[("work", "3")]),
            check(3, &[("work", "3")]).shape("line"),
        ])
        .cases(&[Case::new("M-messages", &[&[("M", 0)], &[("M", 1)], &[("M", 25)]], spreading)
            .counts(&[("control_messages", "Signal")])]);

/// Rule 4 does not wait for one's own messages.
pub static EAGER: Entry<DijkstraScholten<Diffusing>> = PLAIN
    .variant("termination/dijkstra-scholten-eager", "Dijkstra–Scholten without waiting")
    .summary("a node signals to its parent as soon as it is passive")
    .mutant(
        "termination/dijkstra-scholten",
        "rule 4 signals to the parent whatever the deficit is",
        Property::Sound,
    )
    .config(|setup| Ok(Config { mutation: Some(Mutation::Eager), ..config(setup)? }))
    .claims(&[
        Check::new(2, SOUND).set(&[("work", "2")]).fails(6),
        // In order on each channel it takes a third node.
        Check::new(3, SOUND)
            .set(&[("work", "2")])
            .shape("complete")
            .channels(Channels::Fifo)
            .fails(6),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::Bench;

    use super::*;

    type Sent = Effect<DijkstraScholten<Diffusing>>;

    fn work(to: u32, part: u32) -> Sent {
        Effect::Send { to: NodeId(to), msg: Msg::App(diffusing::Msg::Work(part)) }
    }

    fn signal(to: u32) -> Sent {
        Effect::Send { to: NodeId(to), msg: Msg::Signal }
    }

    #[test]
    fn a_node_signals_for_what_engaged_it_when_its_own_messages_are_signalled_for() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let bring = |part| Msg::App(diffusing::Msg::Work(part));
        assert!(!bench.at(1).message(0, bring(1)).contains(&signal(0)));
        // Being engaged, it has nothing to keep p2's message for.
        assert_eq!(bench.at(1).message(2, bring(0)), [signal(2)]);
        assert!(bench.at(1).timer(diffusing::Timer::Done).contains(&work(0, 0)));
        assert_eq!(bench.at(1).timer(diffusing::Timer::Done), [], "passive, and p0 owes a signal");
        assert_eq!(bench.at(1).message(0, Msg::Signal), [signal(0)]);
        assert_eq!(bench.at(1).rules(), [3, 4]);
        let mut eager = Bench::complete(&EAGER, 3);
        eager.at(1).message(0, bring(1));
        eager.at(1).timer(diffusing::Timer::Done);
        assert_eq!(eager.at(1).timer(diffusing::Timer::Done), [signal(0)]);
    }

    #[test]
    fn the_initiator_reports_once_when_nothing_is_owed_to_it() {
        let one = Setup::new(Topology::complete(2)).with("work", 1);
        let mut bench = Bench::new(&PLAIN, &one);
        assert!(bench.at(0).timer(diffusing::Timer::Done).contains(&work(1, 0)));
        assert_eq!(bench.at(0).timer(diffusing::Timer::Done), []);
        let reported = [Effect::Notify(Notice::Terminated)];
        assert_eq!(bench.at(0).message(1, Msg::Signal), reported);
        assert_eq!(bench.at(0).message(1, Msg::Signal), []);
    }
}
