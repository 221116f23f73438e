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
//! 5. All channels done: the part is finished, and handed over.
//!
//! Snapshots have numbers of their own and do not disturb each other.
//!
//! # Cost
//!
//! One marker on each channel: N(N − 1) among N nodes that are all linked. The time is one hop more
//! than the longest way from the initiator.
//!
//! # Known failures
//!
//! Where messages overtake each other (`snapshot/chandy-lamport-unordered`), a coin sent after
//! recording may arrive before the marker, and is counted twice; one that the marker overtakes is
//! not counted at all. A node that the initiator cannot
//! reach never records; one that cannot reach all others leaves their channels open. A crash, too,
//! leaves the snapshot unfinished.
//!
//! `snapshot/naive` has each node record when it first hears of the snapshot from the initiator, and
//! nothing else: no node passes markers on, and channels are not recorded. A coin that is on its way
//! is in no part, and one that was sent after recording may be in two.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Experiment, Given};
use conclave_protocol::{
    Channels, Charge, Ctx, Effect, Entry, Links, Model, NodeId, NodeSet, Property, Protocol, Setup,
    Topology, Unfit, Whole,
};
use serde::{Deserialize, Serialize};

use super::app::{self, App};
use super::{Notice, Request, Share, Sid};

/// The state of a node, around an application.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ChandyLamport<P: Protocol> {
    /// The application.
    pub app: P,
    /// Its running timers, each with how long it was set for.
    timers: Vec<(P::Timer, Duration)>,
    /// How many snapshots this node has started.
    started: u32,
    /// Those that this node has recorded for, while channels are still recorded.
    recording: BTreeMap<Sid, Recording<P>>,
    /// Those whose part is finished.
    finished: BTreeSet<Sid>,
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
pub enum Msg<M> {
    /// What comes behind this was sent after recording.
    Marker(Sid),
    /// A message of the application.
    App(M),
}

/// What never changes.
pub struct Config<P: Protocol> {
    /// The constants of the application.
    pub app: P::Config,
    /// What states and messages are worth, if that adds up.
    pub worth: Option<Worth<P>>,
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
    /// Around an application with these constants.
    pub const fn new(app: P::Config, worth: Option<Worth<P>>) -> Self {
        Self { app, worth, mutation: None }
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
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

impl<P: Protocol> Protocol for ChandyLamport<P> {
    type Config = Config<P>;
    type Request = Request<P::Request>;
    type Notice = Notice<P>;
    type Msg = Msg<P::Msg>;
    type Timer = P::Timer;
    type Stable = P::Stable;

    fn start(saved: Option<P::Stable>, ctx: &mut Ctx<Self>) -> Self {
        let mut timers = Vec::new();
        let app = inside(&mut timers, ctx, |ctx| P::start(saved, ctx));
        if let Some((worth, _)) = ctx.config.worth {
            ctx.notify(Notice::Owns(worth(&app)));
        }
        let (recording, finished) = (BTreeMap::new(), BTreeSet::new());
        Self { app, timers, started: 0, recording, finished }
    }

    fn on_request(&mut self, request: Self::Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Snapshot => {
                ctx.rule(1);
                if let Some(sid) = Sid::new(ctx.me, self.started, ctx.n()) {
                    self.started += 1;
                    self.record(sid, None, ctx);
                }
            }
            Request::App(request) => {
                inside(&mut self.timers, ctx, |ctx| self.app.on_request(request, ctx));
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Marker(sid) => self.on_marker(sid, from, ctx),
            // Rule 4.
            Msg::App(msg) => {
                for recording in self.recording.values_mut() {
                    if recording.open.contains(from) {
                        ctx.rule(4);
                        recording.share.channels.entry(from).or_default().push(msg.clone());
                    }
                }
                inside(&mut self.timers, ctx, |ctx| self.app.on_message(from, msg, ctx));
            }
        }
    }

    fn on_timer(&mut self, timer: P::Timer, ctx: &mut Ctx<Self>) {
        self.timers.retain(|(running, _)| *running != timer);
        inside(&mut self.timers, ctx, |ctx| self.app.on_timer(timer, ctx));
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        inside(&mut self.timers, ctx, |ctx| self.app.on_suspect(peer, ctx));
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        inside(&mut self.timers, ctx, |ctx| self.app.on_restore(peer, ctx));
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        inside(&mut self.timers, ctx, |ctx| self.app.on_join(sponsor, ctx));
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        inside(&mut self.timers, ctx, |ctx| self.app.on_leave(ctx));
    }

    fn charge(msg: &Self::Msg, from: NodeId, to: NodeId) -> Charge {
        match msg {
            Msg::Marker(_) => Charge::Nobody,
            Msg::App(msg) => P::charge(msg, from, to),
        }
    }

    fn is_app(msg: &Self::Msg) -> bool {
        match msg {
            Msg::Marker(_) => false,
            Msg::App(msg) => P::is_app(msg),
        }
    }

    const FACTS: bool = P::FACTS;

    fn facts(whole: &Whole<'_, Self>) -> u64 {
        let messages = whole.messages.iter().filter_map(|&(from, to, msg)| match msg {
            Msg::Marker(_) => None,
            Msg::App(msg) => Some((from, to, msg)),
        });
        P::facts(&Whole {
            config: &whole.config.app,
            nodes: whole.nodes.iter().map(|node| node.map(|node| &node.app)).collect(),
            messages: messages.collect(),
        })
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
        let (topology, me) = (ctx.topology, ctx.me);
        let mut open = NodeSet::new();
        if !naive {
            open.extend(topology.nodes().filter(|&node| topology.linked(node, me)));
        }
        let (state, timers) = (self.app.clone(), self.timers.clone());
        let share = Share { sid, state, timers, channels: BTreeMap::new() };
        self.recording.insert(sid, Recording { share, open });
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
        let worth = ctx.config.worth.map_or(0, |(state, message)| {
            let messages = share.channels.values().flatten().map(message);
            messages.fold(state(&share.state), u64::wrapping_add)
        });
        ctx.notify(Notice::Finished(Box::new(share), worth));
    }
}

/// Runs a rule of the application, and keeps its running timers in mind.
fn inside<P: Protocol, T>(
    timers: &mut Vec<(P::Timer, Duration)>,
    ctx: &mut Ctx<ChandyLamport<P>>,
    rule: impl FnOnce(&mut Ctx<P>) -> T,
) -> T {
    let config = ctx.config;
    let lift = |effect: Effect<P>, ctx: &mut Ctx<ChandyLamport<P>>| {
        match &effect {
            Effect::SetTimer { timer, after } => {
                timers.retain(|(running, _)| running != timer);
                timers.push((*timer, *after));
            }
            Effect::CancelTimer(timer) => timers.retain(|(running, _)| running != timer),
            _ => {}
        }
        ctx.emit(effect.map(Msg::App, Notice::App, |timer| timer, |stable| stable));
    };
    ctx.nest(&config.app, lift, rule)
}

fn config(setup: &Setup) -> Result<Config<App>, Unfit> {
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

const ALL: &[Property] = &[Property::Cut, Property::Sum, Property::Done, Property::Conserved];
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

    fn sent(effects: &[Effect<ChandyLamport<App>>]) -> Vec<(u32, Msg<app::Msg>)> {
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
