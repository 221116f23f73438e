//! Messages have colours, so that their order does not matter. A node that has recorded for a
//! snapshot is red in it, and so is whatever it sends from then on; all else is white. A node that
//! is to use a red message while it is white itself records first. Nodes keep what they have sent and
//! received on each channel: what was sent white and not received white was on its way.
//!
//! The cut is consistent: what was sent by a node that had recorded is red, and its receiver records
//! before it uses it. Nothing is said of channels by the order of messages; what they held is a
//! difference of two lists, which the node that started the snapshot works out when all have reported
//! theirs.
//!
//! This is a wrapper around any application, as `snapshot/chandy-lamport` is: `--set app=bank`.
//! `--ask 0@3` starts a snapshot.
//!
//! # Rules
//!
//! 1. Start: record the application's state and its running timers, turn red (rule 6), and report
//!    (rule 5).
//! 2. A red message while white: the same **first**, and then hand the message to the application.
//! 3. A message of the application from j: add it to those received from j, and hand it over. A white
//!    one that arrives while red needs nothing more: its sender reports it, and this node has not.
//! 4. The application sends to j: add the message to those sent to j; it has the node's colour.
//! 5. Report to the node that started the snapshot what was recorded, and what had been sent and
//!    received on each channel by then. That node takes the received from the sent.
//! 6. Turning red, send `Turn` on every channel, whether a message of the application goes there or
//!    not. A node that gets it while white records.
//!
//! A message has a colour for each snapshot: it says for which its sender has recorded. So snapshots
//! can be repeated, and do not disturb each other.
//!
//! The published rules have one colour, for one snapshot ever. They have a red node report white
//! messages that arrive late and the difference of the lists as well, which has each of these twice;
//! here the difference alone is used. Without rule 6, a node to which no red message is sent never
//! records. The list of what was on its way is in the order of sending; where channels keep no order
//! that means nothing, and none is claimed.
//!
//! # Cost
//!
//! One `Turn` on each channel, and a report from each node but one: N(N − 1) + N − 1 among N nodes that
//! are all linked. A report has every message since the node booted: it grows with the run. Messages
//! of the application have a bit more for each snapshot.
//!
//! # Known failures
//!
//! A crash leaves the snapshot unfinished, and so does a node that the initiator cannot reach.
//!
//! In `snapshot/lai-yang-deliver-first` a node hands a red message to the application before it
//! records. A coin that was sent after recording is in two parts. Where channels keep order `Turn`
//! comes ahead of every red message, and it does not show.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Ctx, Effect, Entry, Input, InputOf, Links, Model, NodeId, NodeSet, Property, Protocol,
    Setup, Unfit, Whole, fingerprint,
};
use serde::{Deserialize, Serialize};

use super::app::{self, App};
use super::chandy_lamport::Worth;
use super::support::inside::Inside;
use super::support::reports::{self, Reports};
use super::support::{Wrapper, outcome};
use super::{GlobalState, Notice, Request, Share, Sid};

/// The state of a node, around an application.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct LaiYang<P: Protocol> {
    /// The application.
    pub app: Inside<P>,
    /// How many snapshots this node has started.
    started: u32,
    /// Those that it has recorded for.
    red: BTreeSet<Sid>,
    /// What it has sent and received.
    history: History<P>,
    /// What others report.
    reports: Reports<Part<P>>,
}

/// The messages of the application so far, by the other end of the channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct History<P: Protocol> {
    sent: BTreeMap<NodeId, Vec<P::Msg>>,
    received: BTreeMap<NodeId, Vec<P::Msg>>,
}

/// What a node reports: its part, and its channels until then.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Part<P: Protocol> {
    share: Share<P>,
    history: History<P>,
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Msg<P: Protocol> {
    /// The sender is red.
    Turn(Sid),
    /// For the node that started the snapshot.
    Report(Box<reports::Report<Part<P>>>),
    /// A message of the application, and the snapshots in which it is red.
    App(BTreeSet<Sid>, P::Msg),
}

/// What never changes.
pub struct Config<P: Protocol> {
    /// The constants of the application.
    pub app: P::Config,
    /// What states and messages are worth, if that adds up.
    pub worth: Option<Worth<P>>,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// A red message is handed over before the node records.
    DeliverFirst,
}

impl<P: Protocol> Config<P> {
    /// Around an application with these constants.
    pub const fn new(app: P::Config, worth: Option<Worth<P>>) -> Self {
        Self { app, worth, mutation: None }
    }
}

impl<P: Protocol> Clone for Config<P> {
    fn clone(&self) -> Self {
        Self { app: self.app.clone(), worth: self.worth, mutation: self.mutation }
    }
}

impl<P: Protocol> fmt::Debug for Config<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("app", &self.app).finish_non_exhaustive()
    }
}

impl<P: Protocol> Protocol for LaiYang<P> {
    type Config = Config<P>;
    type Request = Request<P::Request>;
    type Notice = Notice<P>;
    type Msg = Msg<P>;
    type Timer = P::Timer;
    type Stable = P::Stable;

    fn start(saved: Option<P::Stable>, ctx: &mut Ctx<Self>) -> Self {
        let (config, red) = (ctx.config, BTreeSet::new());
        let mut history = History { sent: BTreeMap::new(), received: BTreeMap::new() };
        let lift = |effect, ctx: &mut Ctx<Self>| coloured(effect, &red, &mut history, ctx);
        let app = Inside::start(saved, &config.app, ctx, lift);
        if let Some((worth, _)) = config.worth {
            ctx.notify(Notice::Owns(worth(&app.state)));
        }
        Self { app, started: 0, red, history, reports: Reports::default() }
    }

    fn on_request(&mut self, request: Self::Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Snapshot => {
                ctx.rule(1);
                if let Some(sid) = Sid::new(ctx.me, self.started, ctx.n()) {
                    self.started += 1;
                    self.reports.expect(sid);
                    self.record(sid, ctx);
                }
            }
            Request::App(request) => self.inside(Input::Request(request), ctx),
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Turn(sid) => {
                self.record_if_white(sid, from, ctx);
                ctx.notify(Notice::Closed(sid, from, 0));
            }
            Msg::Report(report) => {
                ctx.rule(5);
                let sid = report.sid;
                let wrap = |it| Msg::Report(Box::new(it));
                let parts = self.reports.on_report(from, *report, ctx, wrap);
                hand_over(sid, parts, ctx);
            }
            // Rules 2 and 3.
            Msg::App(red, msg) => {
                if ctx.config.mutation == Some(Mutation::DeliverFirst) {
                    self.receive(from, msg, ctx);
                    red.iter().for_each(|sid| self.record_if_white(*sid, from, ctx));
                } else {
                    red.iter().for_each(|sid| self.record_if_white(*sid, from, ctx));
                    self.receive(from, msg, ctx);
                }
            }
        }
    }

    fn on_timer(&mut self, timer: P::Timer, ctx: &mut Ctx<Self>) {
        self.inside(Input::Timer(timer), ctx);
    }

    forwards!();
}

impl<P: Protocol> Wrapper for LaiYang<P> {
    type App = P;

    fn carried(msg: &Self::Msg) -> Option<&P::Msg> {
        match msg {
            Msg::App(_, msg) => Some(msg),
            Msg::Turn(_) | Msg::Report(_) => None,
        }
    }

    fn app(&self) -> &P {
        &self.app.state
    }

    fn constants(config: &Config<P>) -> &P::Config {
        &config.app
    }

    fn inside(&mut self, input: InputOf<P>, ctx: &mut Ctx<Self>) {
        let (config, Self { app, red, history, .. }) = (ctx.config, self);
        let lift = |effect, ctx: &mut Ctx<Self>| coloured(effect, red, history, ctx);
        app.on_input(input, &config.app, ctx, lift);
    }
}

impl<P: Protocol> LaiYang<P> {
    /// Rules 2 and 6.
    fn record_if_white(&mut self, sid: Sid, from: NodeId, ctx: &mut Ctx<Self>) {
        if !self.red.contains(&sid) {
            ctx.rule(2);
            self.reports.heard(sid, from, ctx);
            self.record(sid, ctx);
        }
    }

    /// Records the state, turns red and reports.
    fn record(&mut self, sid: Sid, ctx: &mut Ctx<Self>) {
        self.red.insert(sid);
        ctx.notify(Notice::Recorded(sid));
        // Rule 6.
        ctx.rule(6);
        ctx.multicast(ctx.neighbors(), Msg::Turn(sid));
        // Rule 5.
        ctx.rule(5);
        let part = Part { share: self.app.share(sid), history: self.history.clone() };
        let parts = self.reports.report(sid, part, ctx, |it| Msg::Report(Box::new(it)));
        hand_over(sid, parts, ctx);
    }

    /// Rule 3.
    fn receive(&mut self, from: NodeId, msg: P::Msg, ctx: &mut Ctx<Self>) {
        ctx.rule(3);
        if from != ctx.me {
            self.history.received.entry(from).or_default().push(msg.clone());
        }
        self.inside(Input::Message { from, msg }, ctx);
    }
}

/// Rule 4: an effect of the application, as one of the wrapper.
fn coloured<P: Protocol>(
    effect: Effect<P>,
    red: &BTreeSet<Sid>,
    history: &mut History<P>,
    ctx: &mut Ctx<LaiYang<P>>,
) {
    let (sent, me) = (&mut history.sent, ctx.me);
    match &effect {
        Effect::Send { to, msg } if *to != me => {
            ctx.rule(4);
            sent.entry(*to).or_default().push(msg.clone());
        }
        Effect::Broadcast(msg) => {
            ctx.rule(4);
            ctx.peers().for_each(|to| sent.entry(to).or_default().push(msg.clone()));
        }
        _ => {}
    }
    let app = |msg| Msg::App(red.clone(), msg);
    ctx.emit(effect.map(app, Notice::App, |timer| timer, |stable| stable));
}

/// Rule 5, at the node that started the snapshot, when all have reported.
fn hand_over<P: Protocol>(
    sid: Sid,
    parts: Option<BTreeMap<NodeId, Part<P>>>,
    ctx: &mut Ctx<LaiYang<P>>,
) {
    let Some(parts) = parts else { return };
    let mut shares = BTreeMap::new();
    for (&to, part) in &parts {
        let mut share = part.share.clone();
        for (&from, sender) in &parts {
            let sent = sender.history.sent.get(&to).map_or(&[][..], Vec::as_slice);
            let received = part.history.received.get(&from).map_or(&[][..], Vec::as_slice);
            let on_their_way = less(sent, received);
            if !on_their_way.is_empty() {
                share.channels.insert(from, on_their_way);
            }
        }
        shares.insert(to, share);
    }
    outcome::tell(GlobalState { sid, shares }, ctx.config.worth, ctx);
}

/// Those of `all` that are left when `some` are taken out, each once.
fn less<M: Clone + PartialEq>(all: &[M], some: &[M]) -> Vec<M> {
    let mut left = all.to_vec();
    for it in some {
        if let Some(place) = left.iter().position(|other| other == it) {
            left.remove(place);
        }
    }
    left
}

fn config(setup: &Setup) -> Result<Config<App>, Unfit> {
    let app = app::chosen(setup, "bank")?;
    let adds_up = app.adds_up();
    Ok(Config::new(app, adds_up.then_some((App::worth, App::worth_of))))
}

const ALL: &[Property] =
    &[Property::Cut, Property::Sum, Property::Done, Property::Collected, Property::Conserved];
const CHANNELS: &[Property] = &[Property::Channels];
const SUM: &[Property] = &[Property::Sum];
const KEPT: &[Property] = &[Property::Cut, Property::Done, Property::Exclusion];
const SECTION: &[(&str, &str)] = &[("app", "section"), ("rounds", "1")];
const ONE: &[(&str, &str)] = &[("transfers", "1")];

/// With a colour for each snapshot, and a control message on each channel.
pub static PLAIN: Entry<LaiYang<App>> = Entry::new("snapshot/lai-yang", "Lai–Yang", config)
    .summary("messages have the colour of their sender, and need not keep their order")
    .source("Lai, Yang. On distributed snapshots. Information Processing Letters 25, 1987")
    .text(include_str!("lai_yang.rs"))
    .model(Model { links: Links::Directed, ..Model::RELIABLE })
    .holds(&[
        Property::Cut,
        Property::Channels,
        Property::Sum,
        Property::Done,
        Property::Collected,
        Property::Conserved,
        Property::Exclusion,
    ])
    .options(app::OPTIONS)
    .shows(super::shown)
    .bare(app::BARE)
    .claims(&[
        Check::new(2, ALL).set(ONE),
        Check::new(2, CHANNELS).set(ONE),
        Check::new(3, ALL).set(ONE).shape("ring").clients(0, 1),
        Check::new(3, CHANNELS).set(ONE).shape("ring").clients(0, 1),
        Check::new(2, KEPT).set(SECTION).clients(0, 1),
    ])
    .deep(&[
        Check::new(3, ALL).set(ONE).clients(0, 1),
        Check::new(3, CHANNELS).set(ONE).clients(0, 1),
    ]);

/// A red message is used before its receiver records.
pub static DELIVER_FIRST: Entry<LaiYang<App>> = PLAIN
    .variant("snapshot/lai-yang-deliver-first", "Lai–Yang, delivering first")
    .summary("a node that gets a red message uses it, and then records")
    .mutant(
        "snapshot/lai-yang",
        "a red message is handed to the application before its receiver records",
        Property::Sum,
    )
    .holds(&[Property::Done, Property::Conserved])
    .config(|setup| Ok(Config { mutation: Some(Mutation::DeliverFirst), ..config(setup)? }))
    .claims(&[
        Check::new(2, SUM).set(ONE).fails(4),
        Check::new(2, &[Property::Done, Property::Conserved]).set(ONE).clients(0, 1),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::Bench;

    use super::super::bank;
    use super::*;

    const SID: Sid = Sid(0);

    fn coin(red: &[Sid], coin: u64) -> Msg<App> {
        Msg::App(red.iter().copied().collect(), app::Msg::Bank(bank::Msg::Transfer(coin)))
    }

    fn recorded(effects: &[Effect<LaiYang<App>>]) -> Option<u64> {
        effects.iter().find_map(|effect| match effect {
            Effect::Send { msg: Msg::Report(report), .. } => {
                Some(report.content.share.state.worth())
            }
            _ => None,
        })
    }

    fn reports(effects: &[Effect<LaiYang<App>>]) -> Vec<Msg<App>> {
        let reports = effects.iter().filter_map(|effect| match effect {
            Effect::Send { msg: msg @ Msg::Report(_), .. } => Some(msg.clone()),
            _ => None,
        });
        reports.collect()
    }

    #[test]
    fn a_node_records_before_it_uses_a_red_message() {
        let mut bench = Bench::complete(&PLAIN, 3);
        assert_eq!(recorded(&bench.at(1).message(2, coin(&[], 16))), None);
        let red = bench.at(1).message(2, coin(&[SID], 64));
        assert_eq!((recorded(&red), bench.at(1).rules()), (Some(4 + 16), vec![2, 3, 5, 6]));
        assert_eq!(bench.at(1).state().app.state.worth(), 4 + 16 + 64);
        assert_eq!(recorded(&bench.at(1).message(0, Msg::Turn(SID))), None, "it has recorded");
        let mut mutant = Bench::complete(&DELIVER_FIRST, 3);
        assert_eq!(recorded(&mutant.at(1).message(2, coin(&[SID], 64))), Some(4 + 64));
    }

    #[test]
    fn what_was_sent_and_not_received_by_then_was_on_its_way() {
        let mut bench = Bench::complete(&PLAIN, 2);
        let paid = bench.at(1).timer(app::Timer::Bank(bank::Timer::Pay));
        let Effect::Send { msg: sent, .. } = &paid[0] else { panic!("it pays: {paid:?}") };
        bench.at(0).request(Request::Snapshot);
        // White, and late: its sender reports it.
        let late = bench.at(0).message(1, sent.clone());
        assert_eq!(reports(&late), []);
        let turned = bench.at(1).message(0, Msg::Turn(SID));
        let whole = bench.at(0).message(1, reports(&turned)[0].clone());
        let collected = whole.iter().find_map(|effect| match effect {
            Effect::Notify(Notice::Collected(whole, worth)) => Some((whole.clone(), *worth)),
            _ => None,
        });
        let (whole, worth) = collected.expect("both have reported");
        let content = BTreeMap::from([(NodeId(1), vec![app::Msg::Bank(bank::Msg::Transfer(4))])]);
        assert_eq!((&whole.shares[&NodeId(0)].channels, worth), (&content, 1 + 4));
    }

    #[test]
    fn a_colour_belongs_to_a_snapshot() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let second = Sid(3);
        bench.at(1).message(0, Msg::Turn(SID));
        assert!(recorded(&bench.at(1).message(2, coin(&[SID], 16))).is_none());
        let worth = recorded(&bench.at(1).message(2, coin(&[SID, second], 64)));
        assert_eq!(worth, Some(4 + 16));
    }
}
