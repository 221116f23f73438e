//! Messages carry the vector time of their sender, and a snapshot is taken at a time that lies ahead. Its
//! initiator announces a value that its own component has not reached yet. When all nodes know of it,
//! it lets its component reach that value; each node records just before its first event at which the
//! component is as high. Messages of less than that are white, and counted as in `snapshot/mattern`.
//!
//! The cut is consistent: a node that has recorded has the announced value in its time, and so has what
//! it sends from then on; a node that receives that records before. All nodes know what to look for,
//! because the value is not reached before all have answered.
//!
//! This is a wrapper around any application, as `snapshot/chandy-lamport` is: `--set app=bank`.
//! `--ask 0@3` starts a snapshot.
//!
//! # Rules
//!
//! 1. Start: announce the next value of the own component to all.
//! 2. `Announce` for the first time: note the value, pass it on to those whom the initiator has no link
//!    to, and answer the initiator.
//! 3. All have answered: the own component takes the value. Just before, record (rule 5).
//! 4. A message whose sender's time has an announced value, or more, while the own has less: record
//!    **first** (rule 5). The own time becomes the maximum of both.
//! 5. Record: the application's state, its running timers, and how many messages it has sent less those
//!    it has received; report that to the initiator. Then send `Dummy`, with the time, on every
//!    channel.
//! 6. A message of the application whose sender's time is below the value, while the own is not: hand it
//!    over, and report a copy.
//! 7. At the initiator: when all N nodes have reported, and as many copies as their counts add up to,
//!    the snapshot is complete, and the copies are what was on its way.
//!
//! Published is: announce a future value of the own component; record just before the first event whose
//! vector has it. That leaves out three things. How the value is known to lie ahead of all: a component
//! counts the snapshots of its node here, as Mattern proposes, so that the application cannot reach it
//! while answers are awaited. That the time moves on where the application sends nothing, for which there is
//! `Dummy`. And what channels held, for which rules 6 and 7 are taken from the other form.
//!
//! # Cost
//!
//! An announcement and an answer for each node but the initiator, one `Dummy` on each channel, and as in
//! `snapshot/mattern` N − 1 reports and a copy of each message that was on its way. Messages of the application
//! have a number for each node.
//!
//! # Known failures
//!
//! A crash leaves the snapshot unfinished, and so does a node that the initiator cannot reach.
//!
//! In `snapshot/mattern-vector-unanswered` the initiator awaits no answers. A node that has not heard of the
//! snapshot uses a message that was sent after recording, and records only afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Channels, Charge, Ctx, Effect, Entry, Input, InputOf, Links, Model, NodeId, NodeSet, Property,
    Protocol, Setup, Unfit, Whole, fingerprint,
};
use serde::{Deserialize, Serialize};

use super::app::{self, App};
use super::chandy_lamport::Worth;
use super::support::counting::{Complete, Gathered, Report, What, toward};
use super::support::inside::Inside;
use super::support::{Wrapper, outcome};
use super::{Notice, Request, Sid};

/// A vector time: how many snapshots each node has begun, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VectorTime(BTreeMap<NodeId, u32>);

impl VectorTime {
    /// Whether a node that has recorded for this snapshot may have this time.
    fn is_past(&self, sid: Sid, n: u32) -> bool {
        let reached = self.0.get(&sid.initiator(n)).copied().unwrap_or(0);
        reached > u32::from(sid.0) / n
    }

    /// Not before `other`.
    fn merge(&mut self, other: &Self) {
        for (&node, &value) in &other.0 {
            let own = self.0.entry(node).or_default();
            *own = value.max(*own);
        }
    }
}

/// The state of a node, around an application.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct MatternVector<P: Protocol> {
    /// The application.
    pub app: Inside<P>,
    time: VectorTime,
    /// How many messages of the application it has sent, less those that it has received.
    count: i64,
    /// Of the snapshots that this node has announced and not begun: who has answered.
    announced: BTreeMap<Sid, NodeSet>,
    /// How many it has announced.
    started: u32,
    /// The snapshots that it knows to lie ahead.
    ahead: BTreeSet<Sid>,
    /// Those that it has recorded for.
    recorded: BTreeSet<Sid>,
    /// What others report.
    gathered: Gathered<P>,
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Msg<P: Protocol> {
    /// There will be this snapshot.
    Announce(Sid),
    /// So late it is at a node that has recorded for this snapshot.
    Dummy(Sid, VectorTime),
    /// For the node that started the snapshot.
    Report(Box<Report<P>>),
    /// A message of the application, and when it was sent.
    App(VectorTime, P::Msg),
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
    /// The initiator awaits no answers.
    Unanswered,
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

impl<P: Protocol> Protocol for MatternVector<P> {
    type Config = Config<P>;
    type Request = Request<P::Request>;
    type Notice = Notice<P>;
    type Msg = Msg<P>;
    type Timer = P::Timer;
    type Stable = P::Stable;

    fn start(saved: Option<P::Stable>, ctx: &mut Ctx<Self>) -> Self {
        let (config, time, mut count) = (ctx.config, VectorTime::default(), 0);
        let lift = |effect, ctx: &mut Ctx<Self>| stamped(effect, &time, &mut count, ctx);
        let app = Inside::start(saved, &config.app, ctx, lift);
        if let Some((worth, _)) = config.worth {
            ctx.notify(Notice::Owns(worth(&app.state)));
        }
        Self {
            app,
            time,
            count,
            announced: BTreeMap::new(),
            started: 0,
            ahead: BTreeSet::new(),
            recorded: BTreeSet::new(),
            gathered: Gathered::default(),
        }
    }

    fn on_request(&mut self, request: Self::Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Snapshot => {
                ctx.rule(1);
                if let Some(sid) = Sid::new(ctx.me, self.started, ctx.n()) {
                    self.started += 1;
                    self.announced.insert(sid, NodeSet::new());
                    self.gathered.expect(sid);
                    self.ahead.insert(sid);
                    ctx.multicast(ctx.neighbors(), Msg::Announce(sid));
                    self.begin_if_answered(ctx);
                }
            }
            Request::App(request) => self.inside(Input::Request(request), ctx),
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Announce(sid) => self.on_announce(sid, ctx),
            Msg::Dummy(sid, time) => {
                self.move_on(&time, ctx);
                ctx.notify(Notice::Closed(sid, from, 0));
            }
            Msg::Report(report) => self.tell(*report, ctx),
            Msg::App(time, msg) => {
                self.move_on(&time, ctx);
                if from != ctx.me {
                    self.count -= 1;
                    self.report_late(from, &time, &msg, ctx);
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

impl<P: Protocol> Wrapper for MatternVector<P> {
    type App = P;

    fn carried(msg: &Self::Msg) -> Option<&P::Msg> {
        match msg {
            Msg::App(_, msg) => Some(msg),
            Msg::Announce(_) | Msg::Dummy(..) | Msg::Report(_) => None,
        }
    }

    fn app(&self) -> &P {
        &self.app.state
    }

    fn constants(config: &Config<P>) -> &P::Config {
        &config.app
    }

    fn inside(&mut self, input: InputOf<P>, ctx: &mut Ctx<Self>) {
        let (config, Self { app, time, count, .. }) = (ctx.config, self);
        let lift = |effect, ctx: &mut Ctx<Self>| stamped(effect, time, count, ctx);
        app.on_input(input, &config.app, ctx, lift);
    }
}

impl<P: Protocol> MatternVector<P> {
    /// Rule 2.
    fn on_announce(&mut self, sid: Sid, ctx: &mut Ctx<Self>) {
        if self.recorded.contains(&sid) || !self.ahead.insert(sid) {
            return;
        }
        ctx.rule(2);
        let (initiator, topology) = (sid.initiator(ctx.n()), ctx.topology);
        let others = ctx.neighbors().filter(|to| *to != initiator);
        let others = others.filter(|to| !topology.linked(initiator, *to));
        ctx.multicast(others, Msg::Announce(sid));
        self.tell(Report { sid, of: ctx.me, what: What::Heard }, ctx);
        // It may be too late.
        let now = self.time.clone();
        self.move_on(&now, ctx);
    }

    /// Rule 3. Values are reached one after the other.
    fn begin_if_answered(&mut self, ctx: &mut Ctx<Self>) {
        while let Some((&sid, answers)) = self.announced.first_key_value() {
            let hasty = ctx.config.mutation == Some(Mutation::Unanswered);
            if answers.len() + 1 < ctx.n() as usize && !hasty {
                return;
            }
            ctx.rule(3);
            self.announced.remove(&sid);
            let value = u32::from(sid.0) / ctx.n() + 1;
            self.move_on(&VectorTime(BTreeMap::from([(ctx.me, value)])), ctx);
        }
    }

    /// Rule 4: the time becomes no less than this; before that the node records for each snapshot that
    /// it comes past.
    fn move_on(&mut self, time: &VectorTime, ctx: &mut Ctx<Self>) {
        let n = ctx.n();
        let past = |sid: &Sid| time.is_past(*sid, n);
        let past: Vec<Sid> = self.ahead.iter().copied().filter(past).collect();
        self.time.merge(time);
        for sid in past {
            ctx.rule(4);
            self.record(sid, ctx);
        }
    }

    /// Rule 5.
    fn record(&mut self, sid: Sid, ctx: &mut Ctx<Self>) {
        ctx.rule(5);
        self.ahead.remove(&sid);
        self.recorded.insert(sid);
        ctx.notify(Notice::Recorded(sid));
        ctx.multicast(ctx.neighbors(), Msg::Dummy(sid, self.time.clone()));
        let what = What::Part(self.app.share(sid), self.count);
        self.tell(Report { sid, of: ctx.me, what }, ctx);
    }

    /// Rule 6.
    fn report_late(&mut self, from: NodeId, time: &VectorTime, msg: &P::Msg, ctx: &mut Ctx<Self>) {
        let n = ctx.n();
        let late = self.recorded.iter().copied().filter(|sid| !time.is_past(*sid, n));
        for sid in late.collect::<Vec<_>>() {
            ctx.rule(6);
            let what = What::Late(from, msg.clone());
            self.tell(Report { sid, of: ctx.me, what }, ctx);
        }
    }

    /// Passes a report on to the initiator, or adds it to the others there.
    fn tell(&mut self, report: Report<P>, ctx: &mut Ctx<Self>) {
        let sid = report.sid;
        let initiator = sid.initiator(ctx.n());
        if initiator != ctx.me {
            if let Some(next) = toward(initiator, ctx) {
                ctx.send(next, Msg::Report(Box::new(report)));
            }
            return;
        }
        if report.what == What::Heard {
            if let Some(answers) = self.announced.get_mut(&sid) {
                answers.insert(report.of);
                self.begin_if_answered(ctx);
            }
            return;
        }
        // Rule 7.
        ctx.rule(7);
        if let Some(whole) = self.gathered.add(report, ctx.n(), Complete::Counted) {
            outcome::tell(whole, ctx.config.worth, ctx);
        }
    }
}

/// An effect of the application, as one of the wrapper.
fn stamped<P: Protocol>(
    effect: Effect<P>,
    time: &VectorTime,
    count: &mut i64,
    ctx: &mut Ctx<MatternVector<P>>,
) {
    match &effect {
        Effect::Send { to, .. } if *to != ctx.me => *count += 1,
        Effect::Broadcast(_) => *count += i64::from(ctx.n()) - 1,
        _ => {}
    }
    let app = |msg| Msg::App(time.clone(), msg);
    ctx.emit(effect.map(app, Notice::App, |timer| timer, |stable| stable));
}

fn config(setup: &Setup) -> Result<Config<App>, Unfit> {
    let app = app::chosen(setup, "bank")?;
    let adds_up = app.adds_up();
    Ok(Config::new(app, adds_up.then_some((App::worth, App::worth_of))))
}

const ALL: &[Property] =
    &[Property::Cut, Property::Sum, Property::Done, Property::Collected, Property::Conserved];
const CHANNELS: &[Property] = &[Property::Channels];
const CUT: &[Property] = &[Property::Cut];
const KEPT: &[Property] = &[Property::Cut, Property::Done, Property::Exclusion];
const SECTION: &[(&str, &str)] = &[("app", "section"), ("rounds", "1")];
const ONE: &[(&str, &str)] = &[("transfers", "1")];

/// Vector time and counts.
pub static PLAIN: Entry<MatternVector<App>> =
    Entry::new("snapshot/mattern-vector", "Mattern, vector time", config)
        .summary("a time ahead is announced, at which all record")
        .source(
            "Mattern. Virtual time and global states of distributed systems. Parallel and \
             Distributed Algorithms, 1989",
        )
        .text(include_str!("mattern_vector.rs"))
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

/// The value is reached before all know of it.
pub static UNANSWERED: Entry<MatternVector<App>> = PLAIN
    .variant("snapshot/mattern-vector-unanswered", "Mattern, vector time, unanswered")
    .summary("the initiator does not wait until all know of the time that it has announced")
    .mutant(
        "snapshot/mattern-vector",
        "the announced value is reached before all have answered",
        Property::Cut,
    )
    .holds(&[Property::Conserved])
    .config(|setup| Ok(Config { mutation: Some(Mutation::Unanswered), ..config(setup)? }))
    .claims(&[
        Check::new(2, CUT).set(ONE).fails(3),
        Check::new(3, CUT).set(ONE).clients(0, 1).channels(Channels::Fifo).fails(6),
        Check::new(2, &[Property::Conserved]).set(ONE).clients(0, 1),
    ]);

#[cfg(test)]
mod tests {
    use conclave_protocol::Bench;

    use super::super::bank;
    use super::*;

    const SID: Sid = Sid(0);

    fn at(value: u32) -> VectorTime {
        VectorTime(BTreeMap::from([(NodeId(0), value)]))
    }

    fn coin(time: VectorTime, coin: u64) -> Msg<App> {
        Msg::App(time, app::Msg::Bank(bank::Msg::Transfer(coin)))
    }

    fn reports(effects: &[Effect<MatternVector<App>>]) -> Vec<What<App>> {
        let reports = effects.iter().filter_map(|effect| match effect {
            Effect::Send { msg: Msg::Report(report), .. } => Some(report.what.clone()),
            _ => None,
        });
        reports.collect()
    }

    #[test]
    fn the_value_is_reached_when_all_have_answered() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let recorded = Effect::Notify(Notice::Recorded(SID));
        assert!(!bench.at(0).request(Request::Snapshot).contains(&recorded));
        let heard =
            |of| Msg::Report(Box::new(Report { sid: SID, of: NodeId(of), what: What::Heard }));
        assert!(!bench.at(0).message(1, heard(1)).contains(&recorded));
        assert!(!bench.at(0).message(1, heard(1)).contains(&recorded), "p2 has not answered");
        let begun = bench.at(0).message(2, heard(2));
        assert!(begun.contains(&recorded));
        assert!(begun.contains(&Effect::Send { to: NodeId(1), msg: Msg::Dummy(SID, at(1)) }));
        assert_eq!(bench.at(0).rules(), [3, 4, 5, 7]);
        let mut hasty = Bench::complete(&UNANSWERED, 3);
        assert!(hasty.at(0).request(Request::Snapshot).contains(&recorded));
    }

    #[test]
    fn a_node_records_before_the_first_event_at_the_announced_time() {
        let mut bench = Bench::complete(&PLAIN, 3);
        assert_eq!(reports(&bench.at(1).message(0, Msg::Announce(SID))), [What::Heard]);
        assert_eq!(bench.at(1).message(0, Msg::Announce(SID)), []);
        assert_eq!(reports(&bench.at(1).message(2, coin(at(0), 16))), []);
        let past = reports(&bench.at(1).message(2, coin(at(1), 64)));
        assert!(matches!(&past[..], [What::Part(share, -1)] if share.state.worth() == 4 + 16));
        let late = What::Late(NodeId(2), app::Msg::Bank(bank::Msg::Transfer(256)));
        assert_eq!(reports(&bench.at(1).message(2, coin(at(0), 256))), [late]);
    }

    #[test]
    fn values_are_reached_one_after_the_other() {
        let mut bench = Bench::complete(&PLAIN, 2);
        bench.at(0).request(Request::Snapshot);
        bench.at(0).request(Request::Snapshot);
        let heard = |sid| Msg::Report(Box::new(Report { sid, of: NodeId(1), what: What::Heard }));
        let recorded = |sid| Effect::Notify(Notice::Recorded(sid));
        assert_eq!(bench.at(0).message(1, heard(Sid(2))), [], "the first comes first");
        let both = bench.at(0).message(1, heard(SID));
        let places = [SID, Sid(2)].map(|sid| both.iter().position(|it| *it == recorded(sid)));
        assert!(places[0].is_some() && places[0] < places[1], "{both:?}");
    }
}
