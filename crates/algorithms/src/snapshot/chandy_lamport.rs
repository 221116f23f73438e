//! A node that wants to know what all nodes and channels hold records its own state and sends a
//! marker on every channel before anything else. A node that gets a marker for the first time does
//! the same. What arrives on a channel between recording and the marker of that channel was on its
//! way: it is the channel's content. The application goes on all the time, and notices nothing.
//!
//! The cut is consistent: a message that was sent after its sender had recorded comes behind the
//! marker, since channels keep the order, and the marker has the receiver record first. The global
//! state that comes out need not have occurred; but it could have, between the start of the snapshot
//! and its end.
//!
//! This is a wrapper around any application: `--set app=bank` sends coins about, each of another
//! weight, so that the sum of a snapshot shows any that is lost or counted twice; `--set
//! app=section` uses a critical section that Ricart–Agrawala guards; `--set app=ring` passes tokens
//! round. `--ask 0@3` starts a snapshot.
//!
//! # Rules
//!
//! 1. Start: record the application's state and its running timers, begin to record every incoming
//!    channel, and send `Marker` on **every** outgoing channel.
//! 2. First `Marker` of a snapshot, from j: the same, but what was on its way from j is nothing.
//!    `Marker` goes to j, too: otherwise j's channel from here would stay open for ever.
//! 3. Any further `Marker`, from j: what came from j since recording was on its way.
//! 4. A message of the application from j: hand it to the application, and note it in every
//!    snapshot that records the channel from j.
//! 5. All channels done: the part is finished.
//! 6. `snapshot/chandy-lamport-collect`: a finished part goes to the initiator, as a `Report`. That
//!    need not be a neighbour, and links may lead one way only. So a report goes straight to it if
//!    there is a link; else back to the node that the first `Marker` came from, if there is a link to
//!    that one; else on every channel, and each node passes it on that gets it for the first time.
//! 7. `Report`: the initiator keeps it, and hands the global state over when it has one of each node;
//!    another node passes it on, as in rule 6.
//!
//! Snapshots have numbers of their own and do not disturb each other.
//!
//! # Cost
//!
//! One marker on each channel: N(N − 1) among N nodes that are all linked. The time is one hop more
//! than the longest way from the initiator.
//!
//! To collect costs N − 1 messages more among N nodes that are all linked. Where links lead both ways,
//! a report takes no more than the first marker took to its sender; in any other graph it takes
//! at most one message on each channel, as often as it has no other way.
//!
//! # Known failures
//!
//! Where messages overtake each other (`snapshot/chandy-lamport-unordered`), a coin sent after
//! recording may arrive before the marker, and is counted twice; one that the marker overtakes is
//! not counted at all. A node that the initiator cannot reach never records, and the channels from it
//! stay open; a node that cannot reach the initiator never reports to it. A crash, too, leaves the
//! snapshot unfinished.
//!
//! `snapshot/naive` has each node record when it first hears of the snapshot from the initiator, and
//! nothing else: no node passes markers on, and channels are not recorded. A coin that is on its way
//! is in no part, and one that was sent after recording may be in two.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Experiment, Given};
use conclave_protocol::{
    Channels, Charge, Ctx, Effect, Entry, Input, Links, Model, NodeId, NodeSet, Property, Protocol,
    Setup, Topology, Unfit, Whole,
};
use serde::{Deserialize, Serialize};

use super::app::{self, App};
use super::support::Wrapper;
use super::support::inside::Inside;
use super::support::reports::{self, Reports};
use super::{GlobalState, Notice, Request, Share, Sid};

/// The state of a node, around an application.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ChandyLamport<P: Protocol> {
    /// The application.
    pub app: Inside<P>,
    /// How many snapshots this node has started.
    started: u32,
    /// Those that this node has recorded for, while channels are still recorded.
    recording: BTreeMap<Sid, Recording<P>>,
    /// Those whose part is finished.
    finished: BTreeSet<Sid>,
    /// The parts of others, if parts are collected.
    reports: Reports<Share<P>>,
}

/// A node's part of a snapshot, as it grows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
struct Recording<P: Protocol> {
    share: Share<P>,
    /// The nodes from which a marker has still to come.
    open: NodeSet,
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Msg<P: Protocol> {
    /// What comes behind this was sent after recording.
    Marker(Sid),
    /// A part that is finished, for the node that started the snapshot.
    Report(Box<reports::Report<Share<P>>>),
    /// A message of the application.
    App(P::Msg),
}

/// What never changes.
pub struct Config<P: Protocol> {
    /// The constants of the application.
    pub app: P::Config,
    /// What states and messages are worth, if that adds up.
    pub worth: Option<Worth<P>>,
    /// Whether parts are collected where the snapshot was started.
    collects: bool,
    mutation: Option<Mutation>,
}

/// What a state is worth, and what a message is.
pub type Worth<P> = (fn(&P) -> u64, fn(&<P as Protocol>::Msg) -> u64);

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// Only the initiator sends markers, and channels are not recorded.
    Naive,
}

impl<P: Protocol> Config<P> {
    /// Around an application with these constants. Each node keeps its part.
    pub const fn new(app: P::Config, worth: Option<Worth<P>>) -> Self {
        Self { app, worth, collects: false, mutation: None }
    }

    /// The same, but parts are collected by the node that starts a snapshot.
    #[must_use]
    pub fn collecting(self) -> Self {
        Self { collects: true, ..self }
    }

    /// The same, but each node records when it first hears of a snapshot, and that is all.
    #[must_use]
    pub fn naive(self) -> Self {
        Self { mutation: Some(Mutation::Naive), ..self }
    }

    /// What a part holds, if that adds up.
    fn worth_of(&self, share: &Share<P>) -> u64 {
        let Some((state, message)) = self.worth else { return 0 };
        let messages = share.channels.values().flatten().map(message);
        messages.fold(state(&share.state), u64::wrapping_add)
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl<P: Protocol> Clone for Config<P> {
    fn clone(&self) -> Self {
        let Self { worth, collects, mutation, .. } = *self;
        Self { app: self.app.clone(), worth, collects, mutation }
    }
}

impl<P: Protocol> fmt::Debug for Config<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("app", &self.app).finish_non_exhaustive()
    }
}

impl<P: Protocol> Protocol for ChandyLamport<P> {
    type Config = Config<P>;
    type Request = Request<P::Request>;
    type Notice = Notice<P>;
    type Msg = Msg<P>;
    type Timer = P::Timer;
    type Stable = P::Stable;

    fn start(saved: Option<P::Stable>, ctx: &mut Ctx<Self>) -> Self {
        let config = ctx.config;
        let app = Inside::start(saved, &config.app, ctx, lift);
        if let Some((worth, _)) = config.worth {
            ctx.notify(Notice::Owns(worth(&app.state)));
        }
        let (recording, finished) = (BTreeMap::new(), BTreeSet::new());
        Self { app, started: 0, recording, finished, reports: Reports::default() }
    }

    fn on_request(&mut self, request: Self::Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Snapshot => {
                ctx.rule(1);
                if let Some(sid) = Sid::new(ctx.me, self.started, ctx.n()) {
                    self.started += 1;
                    if ctx.config.collects {
                        self.reports.expect(sid);
                    }
                    self.record(sid, None, ctx);
                }
            }
            Request::App(request) => self.inside(Input::Request(request), ctx),
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Marker(sid) => self.on_marker(sid, from, ctx),
            Msg::Report(report) => self.on_report(from, *report, ctx),
            // Rule 4.
            Msg::App(msg) => {
                for recording in self.recording.values_mut() {
                    if recording.open.contains(from) {
                        ctx.rule(4);
                        recording.share.channels.entry(from).or_default().push(msg.clone());
                    }
                }
                self.inside(Input::Message { from, msg }, ctx);
            }
        }
    }

    fn on_timer(&mut self, timer: P::Timer, ctx: &mut Ctx<Self>) {
        self.inside(Input::Timer(timer), ctx);
    }

    forwards!();
}

impl<P: Protocol> Wrapper for ChandyLamport<P> {
    type App = P;

    fn carried(msg: &Self::Msg) -> Option<&P::Msg> {
        match msg {
            Msg::App(msg) => Some(msg),
            Msg::Marker(_) | Msg::Report(_) => None,
        }
    }

    fn app(&self) -> &P {
        &self.app.state
    }

    fn constants(config: &Config<P>) -> &P::Config {
        &config.app
    }

    fn inside(&mut self, input: Input<P>, ctx: &mut Ctx<Self>) {
        let config = ctx.config;
        self.app.on_input(input, &config.app, ctx, lift);
    }
}

impl<P: Protocol> ChandyLamport<P> {
    /// Records the state, begins to record the channels, and says so on every channel; `told` by a
    /// node whose channel is done with that.
    fn record(&mut self, sid: Sid, told: Option<NodeId>, ctx: &mut Ctx<Self>) {
        let naive = ctx.config.is(Mutation::Naive);
        ctx.notify(Notice::Recorded(sid));
        if !naive || told.is_none() {
            ctx.multicast(ctx.neighbors(), Msg::Marker(sid));
        }
        let incoming = ctx.topology.sources(ctx.me).filter(|_| !naive);
        let open = incoming.collect();
        self.recording.insert(sid, Recording { share: self.app.share(sid), open });
        if let Some(from) = told.filter(|_| ctx.config.collects) {
            self.reports.heard(sid, from, ctx);
        }
        match told.filter(|_| !naive) {
            Some(from) => self.close(sid, from, ctx),
            None => self.finish_if_closed(sid, ctx),
        }
    }

    /// Rules 2 and 3.
    fn on_marker(&mut self, sid: Sid, from: NodeId, ctx: &mut Ctx<Self>) {
        if self.recording.contains_key(&sid) {
            ctx.rule(3);
            self.close(sid, from, ctx);
        } else if !self.finished.contains(&sid) {
            ctx.rule(2);
            self.record(sid, Some(from), ctx);
        }
    }

    fn close(&mut self, sid: Sid, from: NodeId, ctx: &mut Ctx<Self>) {
        let recording = self.recording.get_mut(&sid).expect("its state is recorded");
        if recording.open.remove(from) {
            ctx.notify(Notice::Closed(sid, from));
            self.finish_if_closed(sid, ctx);
        }
    }

    /// Rule 5.
    fn finish_if_closed(&mut self, sid: Sid, ctx: &mut Ctx<Self>) {
        if !self.recording[&sid].open.is_empty() {
            return;
        }
        ctx.rule(5);
        let Some(Recording { share, .. }) = self.recording.remove(&sid) else { return };
        self.finished.insert(sid);
        let worth = ctx.config.worth_of(&share);
        // Rule 6.
        if ctx.config.collects {
            ctx.rule(6);
            ctx.notify(Notice::Finished(Box::new(share.clone()), worth));
            let whole = self.reports.report(sid, share, ctx, |it| Msg::Report(Box::new(it)));
            hand_over(sid, whole, ctx);
        } else {
            ctx.notify(Notice::Finished(Box::new(share), worth));
        }
    }

    /// Rule 7.
    fn on_report(&mut self, from: NodeId, report: reports::Report<Share<P>>, ctx: &mut Ctx<Self>) {
        if !ctx.config.collects {
            return;
        }
        ctx.rule(7);
        let sid = report.sid;
        let whole = self.reports.on_report(from, report, ctx, |it| Msg::Report(Box::new(it)));
        hand_over(sid, whole, ctx);
    }
}

/// Hands over what a snapshot found, if all parts are there.
fn hand_over<P: Protocol>(
    sid: Sid,
    whole: Option<BTreeMap<NodeId, Share<P>>>,
    ctx: &mut Ctx<ChandyLamport<P>>,
) {
    if let Some(shares) = whole {
        let worth = shares.values().map(|share| ctx.config.worth_of(share));
        let worth = worth.fold(0, u64::wrapping_add);
        ctx.notify(Notice::Collected(Box::new(GlobalState { sid, shares }), worth));
    }
}

/// An effect of the application, as one of the wrapper.
fn lift<P: Protocol>(effect: Effect<P>, ctx: &mut Ctx<ChandyLamport<P>>) {
    ctx.emit(effect.map(Msg::App, Notice::App, |timer| timer, |stable| stable));
}

/// Around the application that was chosen.
pub fn config(setup: &Setup) -> Result<Config<App>, Unfit> {
    let app = app::chosen(setup, "bank")?;
    let adds_up = app.adds_up();
    Ok(Config::new(app, adds_up.then_some((App::worth, App::worth_of))))
}

/// A snapshot where there are so many channels: on a ring, and between all if that fits.
fn marked(given: &Given) -> Vec<Experiment> {
    let channels = given.n("C");
    let complete = (2..=channels).find(|n| n * (n - 1) == channels).map(Topology::complete);
    let topologies = complete.into_iter().chain([Topology::ring(channels)]);
    topologies.map(|it| given.until_quiet(Setup::new(it), &[(0, 1)])).collect()
}

/// A snapshot among so many nodes that are all linked, but for what the application sends.
fn collected(given: &Given) -> Vec<Experiment> {
    let setup = Setup::new(Topology::complete(given.n("N"))).with("transfers", 0);
    vec![given.until_quiet(setup, &[(0, 1)])]
}

const ALL: &[Property] = &[Property::Cut, Property::Sum, Property::Done, Property::Conserved];
const COLLECTED: &[Property] =
    &[Property::Cut, Property::Sum, Property::Done, Property::Conserved, Property::Collected];
const CUT: &[Property] = &[Property::Cut];
const SUM: &[Property] = &[Property::Sum];
const DONE: &[Property] = &[Property::Done];
const CONSERVED: &[Property] = &[Property::Conserved];
const KEPT: &[Property] = &[Property::Cut, Property::Done, Property::Exclusion];
const SECTION: &[(&str, &str)] = &[("app", "section"), ("rounds", "1")];
const ONE: &[(&str, &str)] = &[("transfers", "1")];

/// The algorithm as published, each node keeping its own part.
pub static PLAIN: Entry<ChandyLamport<App>> =
    Entry::new("snapshot/chandy-lamport", "Chandy–Lamport", config)
        .summary("a marker on each channel parts what was sent before from what comes after")
        .source(
            "Chandy, Lamport. Distributed snapshots: determining global states of distributed \
             systems. TOCS 3(1), 1985",
        )
        .text(include_str!("chandy_lamport.rs"))
        .model(Model { links: Links::Directed, ..Model::FIFO })
        .holds(&[
            Property::Cut,
            Property::Sum,
            Property::Done,
            Property::Conserved,
            Property::Exclusion,
        ])
        .options(app::OPTIONS)
        .claims(&[
            Check::new(2, ALL).set(ONE),
            Check::new(3, ALL).set(ONE).clients(0, 1),
            Check::new(3, ALL).set(ONE).shape("ring").clients(0, 1),
            Check::new(2, KEPT).set(SECTION),
            Check::new(3, &[Property::Cut, Property::Exclusion])
                .set(SECTION)
                .clients(0, 1)
                .bounded(12),
        ])
        .cases(&[Case::new("markers", &[&[("C", 5)], &[("C", 20)]], marked)
            .counts(&[("messages_total", "Marker")])]);

/// The same, and the node that starts a snapshot has it in the end.
pub static COLLECT: Entry<ChandyLamport<App>> = PLAIN
    .variant("snapshot/chandy-lamport-collect", "Chandy–Lamport, collected")
    .summary("each node reports its part to the one that started the snapshot")
    .holds(&[
        Property::Cut,
        Property::Sum,
        Property::Done,
        Property::Conserved,
        Property::Collected,
        Property::Exclusion,
    ])
    .config(|setup| Ok(config(setup)?.collecting()))
    .claims(&[
        Check::new(2, COLLECTED).set(ONE),
        Check::new(3, COLLECTED).set(ONE).shape("ring").clients(0, 1),
        Check::new(2, KEPT).set(SECTION).clients(0, 1),
    ])
    .cases(&[Case::new("complete-graph", &[&[("N", 4)], &[("N", 7)]], collected)]);

/// Messages may overtake each other, and markers with them.
pub static UNORDERED: Entry<ChandyLamport<App>> = PLAIN
    .variant("snapshot/chandy-lamport-unordered", "Chandy–Lamport without order")
    .summary("where messages overtake markers, the parts do not fit together")
    .model(Model { channels: Channels::Reliable, links: Links::Directed, ..Model::FIFO })
    .holds(&[Property::Done, Property::Conserved])
    .fails(&[
        (Property::Cut, "p0 records, sends its marker and pays p1; the coin overtakes the marker"),
        (Property::Sum, "a marker overtakes a coin, which is then on its way and in no part"),
    ])
    .claims(&[
        Check::new(2, &[Property::Done, Property::Conserved]).set(ONE),
        Check::new(2, CUT).set(ONE).fails(3),
        Check::new(2, SUM).set(ONE).fails(4),
    ]);

/// No node but the initiator sends markers.
pub static NAIVE: Entry<ChandyLamport<App>> = PLAIN
    .variant("snapshot/naive", "Naive snapshot")
    .summary("each node records when it first hears of the snapshot")
    .mutant(
        "snapshot/chandy-lamport",
        "only the initiator sends markers, and what is on its way is not recorded",
        Property::Cut,
    )
    .holds(&[Property::Conserved])
    .fails(&[
        (Property::Sum, "p1 pays p0, and both record before the coin arrives: it is in no part"),
        (Property::Done, "there is no marker on the channels that do not come from the initiator"),
    ])
    .config(|setup| Ok(Config { mutation: Some(Mutation::Naive), ..config(setup)? }))
    .claims(&[
        Check::new(3, CUT).set(ONE).clients(0, 1).fails(4),
        Check::new(2, SUM).set(ONE).fails(3),
        Check::new(2, DONE).set(ONE).fails(8),
        Check::new(2, CONSERVED).set(ONE),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::super::bank;
    use super::*;

    const SID: Sid = Sid(0);

    fn sent(effects: &[Effect<ChandyLamport<App>>]) -> Vec<(u32, Msg<App>)> {
        let sent = |effect: &Effect<ChandyLamport<App>>| match effect {
            Effect::Send { to, msg } => Some((to.0, msg.clone())),
            _ => None,
        };
        effects.iter().filter_map(sent).collect()
    }

    fn finished(effects: &[Effect<ChandyLamport<App>>]) -> Option<(Share<App>, u64)> {
        effects.iter().find_map(|effect| match effect {
            Effect::Notify(Notice::Finished(share, worth)) => Some(((**share).clone(), *worth)),
            _ => None,
        })
    }

    #[test]
    fn what_comes_between_recording_and_the_marker_was_on_its_way() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let marker = Msg::Marker(SID);
        let transfer = |coin| app::Msg::Bank(bank::Msg::Transfer(coin));
        let coin = |coin| Msg::App(transfer(coin));
        let started = bench.at(0).request(Request::Snapshot);
        assert_eq!(started[0], Effect::Notify(Notice::Recorded(SID)));
        assert_eq!(sent(&started), [(1, marker.clone()), (2, marker.clone())]);
        assert_eq!(finished(&bench.at(0).message(2, coin(16))), None);
        assert_eq!(finished(&bench.at(0).message(1, marker.clone())), None);
        // Behind p1's marker: not part of the snapshot.
        bench.at(0).message(1, coin(4));
        let (share, worth) = finished(&bench.at(0).message(2, marker)).expect("all are there");
        assert_eq!(share.state.worth(), 1);
        let content = BTreeMap::from([(NodeId(2), vec![transfer(16)])]);
        assert_eq!((share.channels, worth), (content, 17));
        assert_eq!(share.timers.len(), 1, "the timer for the next transfer was running");
    }

    /// The reports that are sent: to whom, whose, and whether all pass it on.
    fn reported(effects: &[Effect<ChandyLamport<App>>]) -> Vec<(u32, u32, bool)> {
        let report = |(to, msg)| match msg {
            Msg::Report(report) => Some((to, report.of.0, report.spread)),
            _ => None,
        };
        sent(effects).into_iter().filter_map(report).collect()
    }

    #[test]
    fn the_initiator_has_everything_in_the_end_and_says_so_once() {
        let mut bench = Bench::complete(&COLLECT, 3);
        bench.at(0).request(Request::Snapshot);
        bench.at(0).message(1, Msg::Marker(SID));
        let own = bench.at(0).message(2, Msg::Marker(SID));
        assert!(finished(&own).is_some() && reported(&own).is_empty(), "its own part is there");
        let mut reports = Vec::new();
        for (node, other) in [(1, 2), (2, 1)] {
            bench.at(node).message(0, Msg::Marker(SID));
            let done = bench.at(node).message(other, Msg::Marker(SID));
            assert_eq!(reported(&done), [(0, node, false)]);
            let report = |(_, msg)| Some(msg).filter(|msg| matches!(msg, Msg::Report(_)));
            reports.extend(sent(&done).into_iter().find_map(report).map(|msg| (node, msg)));
        }
        let (first, second) = (reports[0].clone(), reports[1].clone());
        assert_eq!(bench.at(0).message(first.0, first.1.clone()), []);
        assert_eq!(bench.at(0).message(first.0, first.1), [], "a second time is no other part");
        let whole = bench.at(0).message(second.0, second.1.clone());
        let [Effect::Notify(Notice::Collected(state, 21))] = &whole[..] else {
            panic!("{whole:?}")
        };
        assert_eq!(state.to_string(), "p0: 1, p1: 4, p2: 16");
        assert_eq!(bench.at(0).message(second.0, second.1), [], "it is complete");
    }

    #[test]
    fn a_report_goes_back_the_way_of_the_marker_or_everywhere() {
        let mut line = Bench::new(&COLLECT, &Setup::new(Topology::line(3)));
        let done = line.at(2).message(1, Msg::Marker(SID));
        assert_eq!(reported(&done), [(1, 2, false)]);
        line.at(1).message(0, Msg::Marker(SID));
        let passed = line.at(1).message(2, sent(&done)[1].1.clone());
        assert_eq!(reported(&passed), [(0, 2, false)]);

        let links = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 1), (1, 3)];
        let links = links.map(|(a, b)| (NodeId(a), NodeId(b)));
        let graph = Topology::digraph(4, &links).expect("it hangs together");
        let mut one_way = Bench::new(&COLLECT, &Setup::new(graph));
        one_way.at(1).message(0, Msg::Marker(SID));
        let done = one_way.at(1).message(2, Msg::Marker(SID));
        assert_eq!(reported(&done), [(2, 1, true), (3, 1, true)], "there is no link to p0");
        let report = || sent(&done).pop().expect("it was sent").1;
        assert_eq!(reported(&one_way.at(2).message(1, report())), [(3, 1, true)]);
        assert_eq!(reported(&one_way.at(3).message(1, report())), [(0, 1, true)]);
        assert_eq!(reported(&one_way.at(3).message(2, report())), [], "it has passed it on");
    }

    #[test]
    fn a_marker_is_passed_on_to_all_its_sender_included() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let heard = bench.at(1).message(0, Msg::Marker(SID));
        assert_eq!(sent(&heard), [(0, Msg::Marker(SID)), (2, Msg::Marker(SID))]);
        assert!(heard.contains(&Effect::Notify(Notice::Closed(SID, NodeId(0)))));
        let mut naive = Bench::complete(&NAIVE, 3);
        assert_eq!(sent(&naive.at(1).message(0, Msg::Marker(SID))), []);
    }
}
