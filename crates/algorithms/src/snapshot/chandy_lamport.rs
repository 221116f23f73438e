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
//! Snapshots have numbers of their own, that of the initiator among them, and do not disturb each
//! other: `snapshot/concurrent-initiators` has every node start one.
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
//!
//! Each rule is needed. If markers go to all *other* channels in rule 2
//! (`snapshot/chandy-lamport-other-channels`), the initiator never gets one from a node that it told,
//! and no snapshot is finished. If the application may send before the markers
//! (`snapshot/chandy-lamport-late-markers`), what it sends is received before recording. If the first
//! marker is taken for all channels (`snapshot/chandy-lamport-one-marker`), what the others still have
//! on their way is in no part.

mod config;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Experiment, Given};
use conclave_protocol::{
    Asking, Channels, Charge, Ctx, Effect, Entry, Input, InputOf, Links, Model, NodeId, NodeSet,
    Property, Protocol, Setup, Topology, Unfit, Whole, fingerprint,
};
use serde::{Deserialize, Serialize};

use self::config::Mutation;
pub use self::config::{Config, Worth};
use super::app::{self, App};
use super::support::Wrapper;
use super::support::inside::Inside;
use super::support::reports::{self, Reports};
use super::{GlobalState, Notice, Request, Share, Sid, in_this_order};
use crate::snapshot;

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
    /// The snapshots whose markers still have to be sent: none but in a mutant.
    late: Vec<Sid>,
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
        let (reports, late) = (Reports::default(), Vec::new());
        Self { app, started: 0, recording, finished, reports, late }
    }

    fn on_request(&mut self, request: Self::Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Snapshot => {
                ctx.rule(1);
                if let Some(sid) = Sid::new(ctx.me, self.started, ctx.n()) {
                    self.started += 1;
                    if let Some(most) = ctx.config.numbers {
                        self.started %= most;
                    }
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

    fn inside(&mut self, input: InputOf<P>, ctx: &mut Ctx<Self>) {
        let config = ctx.config;
        self.app.on_input(input, &config.app, ctx, lift);
        for sid in std::mem::take(&mut self.late) {
            ctx.multicast(ctx.neighbors(), Msg::Marker(sid));
        }
    }
}

impl<P: Protocol> Recording<P> {
    /// Tells what was on its way from a node.
    fn tell_content(&self, from: NodeId, ctx: &mut Ctx<ChandyLamport<P>>) {
        let content = self.share.channels.get(&from).map_or(&[][..], Vec::as_slice);
        ctx.notify(Notice::Closed(self.share.sid, from, in_this_order(content)));
    }
}

impl<P: Protocol> ChandyLamport<P> {
    /// The node goes on with this as its application, and abandons snapshots that are under way.
    pub(super) fn resume(&mut self, app: Inside<P>) {
        self.app = app;
        self.finished.extend(self.recording.keys());
        self.recording.clear();
        self.reports = Reports::default();
    }

    /// The node has started so many snapshots before it crashed.
    pub(super) fn number_from(&mut self, started: u32) {
        self.started = started;
    }

    /// Records the state, begins to record the channels, and says so on every channel; `told` by a
    /// node whose channel is done with that.
    fn record(&mut self, sid: Sid, told: Option<NodeId>, ctx: &mut Ctx<Self>) {
        let naive = ctx.config.is(Mutation::Naive);
        ctx.notify(Notice::Recorded(sid));
        let spared = told.filter(|_| ctx.config.is(Mutation::OtherChannels));
        if ctx.config.is(Mutation::LateMarkers) {
            self.late.push(sid);
        } else if !naive || told.is_none() {
            let outgoing = ctx.neighbors().filter(|to| Some(*to) != spared);
            ctx.multicast(outgoing, Msg::Marker(sid));
        }
        if ctx.config.numbers.is_some() {
            // Those of the same node are over, and their numbers may come again.
            let initiator = sid.initiator(ctx.n());
            self.finished.retain(|before| before.initiator(ctx.n()) != initiator);
        }
        let incoming = ctx.topology.sources(ctx.me);
        let mut open = NodeSet::new();
        if naive {
            let me = ctx.me;
            incoming.for_each(|from| ctx.notify(Notice::Known(sid, [from, me], 0)));
        } else {
            open.extend(incoming);
        }
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
            recording.tell_content(from, ctx);
            if ctx.config.is(Mutation::OneMarker) {
                let others = std::mem::take(&mut recording.open);
                others.iter().for_each(|other| recording.tell_content(other, ctx));
            }
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

/// A snapshot where there are so many channels.
fn marked(given: &Given) -> Vec<Experiment> {
    marked_by(given, &[(0, 1)])
}

/// Snapshots by these nodes at these times where there are so many channels: on a ring, and between all
/// if that fits.
fn marked_by(given: &Given, initiators: &[(u32, u32)]) -> Vec<Experiment> {
    let channels = given.n("C");
    let complete = (2..=channels).find(|n| n * (n - 1) == channels).map(Topology::complete);
    let topologies = complete.into_iter().chain([Topology::ring(channels)]);
    let fit = topologies.filter(|it| it.len() as usize >= initiators.len());
    fit.map(|it| given.until_quiet(Setup::new(it), initiators)).collect()
}

/// A snapshot among so many nodes that are all linked, but for what the application sends.
fn collected(given: &Given) -> Vec<Experiment> {
    let setup = Setup::new(Topology::complete(given.n("N"))).with("transfers", 0);
    vec![given.until_quiet(setup, &[(0, 1)])]
}

const ALL: &[Property] = &[Property::Cut, Property::Sum, Property::Done, Property::Conserved];
const COLLECTED: &[Property] =
    &[Property::Cut, Property::Sum, Property::Done, Property::Conserved, Property::Collected];
const CHANNELS: &[Property] = &[Property::Channels];
const CUT: &[Property] = &[Property::Cut];
const SUM: &[Property] = &[Property::Sum];
const DONE: &[Property] = &[Property::Done];
const CONSERVED: &[Property] = &[Property::Conserved];
const KEPT: &[Property] = &[Property::Cut, Property::Done, Property::Exclusion];
const SECTION: &[(&str, &str)] = &[("app", "section"), ("rounds", "1")];
const ONE: &[(&str, &str)] = &[("transfers", "1")];
const NO_COINS: &[(&str, &str)] = &[("transfers", "0")];
const CUT_KEPT: &[Property] = &[Property::Cut, Property::Conserved];
const KEEPS: &[Property] = &[Property::Cut, Property::Done, Property::Conserved];

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
            Property::Channels,
            Property::Sum,
            Property::Done,
            Property::Conserved,
            Property::Exclusion,
        ])
        .options(app::OPTIONS)
        .shows(snapshot::shown)
        .bare(app::BARE)
        .claims(&[
            Check::new(2, ALL).set(ONE),
            Check::new(2, CHANNELS).set(ONE),
            Check::new(3, CHANNELS).set(ONE).clients(0, 1),
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
        Property::Channels,
        Property::Sum,
        Property::Done,
        Property::Conserved,
        Property::Collected,
        Property::Exclusion,
    ])
    .config(|setup| Ok(config(setup)?.collecting()))
    .claims(&[
        Check::new(2, COLLECTED).set(ONE),
        Check::new(2, CHANNELS).set(ONE),
        Check::new(3, COLLECTED).set(ONE).shape("ring").clients(0, 1),
        Check::new(3, COLLECTED).set(NO_COINS).clients(0, 1),
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
        (Property::Channels, "a marker overtakes a coin, and closes the channel that it is on"),
    ])
    .claims(&[
        Check::new(2, &[Property::Done, Property::Conserved]).set(ONE),
        Check::new(2, CUT).set(ONE).fails(3),
        Check::new(2, SUM).set(ONE).fails(4),
        Check::new(2, CHANNELS).set(ONE).fails(3),
    ]);

/// Several snapshots at once, each for itself.
pub static CONCURRENT: Entry<ChandyLamport<App>> = PLAIN
    .variant("snapshot/concurrent-initiators", "Several snapshots at once")
    .summary("markers bear the number of their snapshot, and each snapshot is consistent by itself")
    .asking(Asking::All)
    .claims(&[
        Check::new(2, ALL).set(ONE),
        Check::new(2, ALL).set(NO_COINS).requests(2),
        Check::new(2, CHANNELS).set(ONE).requests(2),
        Check::new(3, ALL).set(NO_COINS).shape("ring"),
        Check::new(2, KEPT).set(SECTION).clients(0, 1),
    ])
    .cases(&[Case::new(
        "k-initiators",
        &[&[("C", 5), ("k", 4)], &[("C", 20), ("k", 5)]],
        |given| {
            let initiators: Vec<_> = (0..given.n("k")).map(|node| (node, 1)).collect();
            marked_by(given, &initiators)
        },
    )
    .counts(&[("messages_total", "Marker")])]);

/// A node sends no marker to the one that told it of the snapshot.
pub static OTHER_CHANNELS: Entry<ChandyLamport<App>> = PLAIN
    .variant("snapshot/chandy-lamport-other-channels", "Chandy–Lamport, markers to the others")
    .summary("no marker goes back to its sender, and no snapshot is ever finished")
    .mutant(
        "snapshot/chandy-lamport",
        "a node that gets a marker sends none back to the one that it came from",
        Property::Done,
    )
    .holds(&[Property::Cut, Property::Conserved])
    .config(|setup| Ok(config(setup)?.spoilt(Mutation::OtherChannels)))
    .claims(&[
        Check::new(2, DONE).set(NO_COINS).clients(0, 1).fails(2),
        Check::new(2, CUT_KEPT).set(ONE),
    ]);

/// Messages of the application go before the markers.
pub static LATE_MARKERS: Entry<ChandyLamport<App>> = PLAIN
    .variant("snapshot/chandy-lamport-late-markers", "Chandy–Lamport, markers late")
    .summary("after recording the application does something more before the markers leave")
    .mutant(
        "snapshot/chandy-lamport",
        "markers leave only behind what the application sends in its next step",
        Property::Cut,
    )
    .holds(&[Property::Conserved])
    .fails(&[
        (Property::Sum, "p0 records and pays p1 before its marker: the coin is in both parts"),
        (Property::Done, "a node at which nothing happens any more never sends its markers"),
    ])
    .config(|setup| Ok(config(setup)?.spoilt(Mutation::LateMarkers)))
    .claims(&[
        Check::new(2, CUT).set(ONE).fails(3),
        Check::new(2, SUM).set(ONE).fails(7),
        Check::new(2, DONE).set(NO_COINS).clients(0, 1).fails(1),
        Check::new(2, CONSERVED).set(ONE),
    ]);

/// One marker closes all channels.
pub static ONE_MARKER: Entry<ChandyLamport<App>> = PLAIN
    .variant("snapshot/chandy-lamport-one-marker", "Chandy–Lamport, one marker for all channels")
    .summary("the first marker ends the recording of all channels")
    .mutant(
        "snapshot/chandy-lamport",
        "the first marker that comes is taken for the end of what is on its way from all nodes",
        Property::Sum,
    )
    .holds(&[Property::Cut, Property::Done, Property::Conserved])
    .fails(&[(
        Property::Channels,
        "p0's marker closes the channel from p2 as well, and p2 pays p1",
    )])
    .config(|setup| Ok(config(setup)?.spoilt(Mutation::OneMarker)))
    .claims(&[
        Check::new(3, CHANNELS).set(ONE).clients(0, 1).fails(3),
        Check::new(3, CHANNELS).set(ONE).shape("star").clients(0, 1).fails(4),
        Check::new(3, SUM).set(ONE).clients(0, 1).fails(5),
        Check::new(3, SUM).set(ONE).shape("star").clients(0, 1).fails(5),
        Check::new(3, KEEPS).set(NO_COINS).clients(0, 1),
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
        (Property::Channels, "p1 pays p0, which records nothing of the channel"),
        (Property::Done, "there is no marker on the channels that do not come from the initiator"),
    ])
    .config(|setup| Ok(config(setup)?.naive()))
    .claims(&[
        Check::new(3, CUT).set(ONE).clients(0, 1).fails(4),
        Check::new(2, SUM).set(ONE).fails(3),
        Check::new(2, CHANNELS).set(ONE).fails(2),
        Check::new(2, DONE).set(ONE).fails(8),
        Check::new(2, CONSERVED).set(ONE),
    ]);
