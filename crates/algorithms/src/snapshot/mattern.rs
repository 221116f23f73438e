//! Messages have colours, as in `snapshot/lai-yang`: red is what is sent after recording, and a node
//! records before it uses a red message. Nodes keep no list of messages, but count them: what a node
//! has sent less what it has received, when it records. The sum over all nodes is how many white
//! messages were on their way. A node that is red reports a copy of each white one that arrives, and
//! when there are as many copies as there should be, they are what the channels held.
//!
//! This is a wrapper around any application, as `snapshot/chandy-lamport` is: `--set app=bank`.
//! `--ask 0@3` starts a snapshot.
//!
//! # Rules
//!
//! 1. Start: record the application's state and its running timers, turn red (rule 5), and report
//!    state and count to the node that started the snapshot.
//! 2. A red message while white: the same **first**, and then hand it to the application.
//! 3. A white message while red: hand it over, and report a copy.
//! 4. At the node that started it: when **all N nodes** have reported, add up their counts; when as
//!    many copies have come, the snapshot is complete, and the copies are what was on its way.
//! 5. Turning red, send `Turn` on every channel. A node that gets it while white records.
//!
//! A message has a colour for each snapshot, so that snapshots can be repeated.
//!
//! The published rule 4 compares the sum of what has been reported so far: the first report of a node
//! that has sent as much as it received would complete the snapshot. That each node turns red is left
//! to the messages of the application, of which there may be none; hence rule 5. Reports go to the
//! initiator by a shortest way, of which nothing is said. They may overtake each other.
//!
//! # Cost
//!
//! One `Turn` on each channel, N − 1 reports, and a copy of each message that was on its way, but for
//! those to the initiator itself.
//!
//! # Known failures
//!
//! A crash leaves the snapshot unfinished, and so does a node that the initiator cannot reach.
//!
//! In `snapshot/mattern-unawaited` the node that started a snapshot takes it for complete as soon as
//! all have reported; what still was on its way is missing. In `snapshot/mattern-hasty` it compares
//! before all have reported: a snapshot is complete with the state of one node.

use std::collections::BTreeSet;
use std::fmt;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Ctx, Effect, Entry, Input, InputOf, Links, Model, NodeId, NodeSet, Property, Protocol,
    Setup, Unfit, Whole, fingerprint,
};
use serde::{Deserialize, Serialize};

use super::app::{self, App};
use super::chandy_lamport::Worth;
use super::support::counting::{Complete, Gathered, Report, What, toward};
use super::support::inside::Inside;
use super::support::{Wrapper, outcome};
use super::{Notice, Request, Sid};

/// The state of a node, around an application.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Mattern<P: Protocol> {
    /// The application.
    pub app: Inside<P>,
    /// How many snapshots this node has started.
    started: u32,
    /// Those that it has recorded for.
    red: BTreeSet<Sid>,
    /// How many messages of the application it has sent, less those that it has received.
    count: i64,
    /// What others report.
    gathered: Gathered<P>,
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Msg<P: Protocol> {
    /// The sender is red.
    Turn(Sid),
    /// For the node that started the snapshot.
    Report(Box<Report<P>>),
    /// A message of the application, and the snapshots in which it is red.
    App(BTreeSet<Sid>, P::Msg),
}

/// What never changes.
pub struct Config<P: Protocol> {
    /// The constants of the application.
    pub app: P::Config,
    /// What states and messages are worth, if that adds up.
    pub worth: Option<Worth<P>>,
    complete: Complete,
}

impl<P: Protocol> Config<P> {
    /// Around an application with these constants.
    pub const fn new(app: P::Config, worth: Option<Worth<P>>) -> Self {
        Self { app, worth, complete: Complete::Counted }
    }
}

impl<P: Protocol> Clone for Config<P> {
    fn clone(&self) -> Self {
        Self { app: self.app.clone(), worth: self.worth, complete: self.complete }
    }
}

impl<P: Protocol> fmt::Debug for Config<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("app", &self.app).finish_non_exhaustive()
    }
}

impl<P: Protocol> Protocol for Mattern<P> {
    type Config = Config<P>;
    type Request = Request<P::Request>;
    type Notice = Notice<P>;
    type Msg = Msg<P>;
    type Timer = P::Timer;
    type Stable = P::Stable;

    fn start(saved: Option<P::Stable>, ctx: &mut Ctx<Self>) -> Self {
        let (config, red, mut count) = (ctx.config, BTreeSet::new(), 0);
        let lift = |effect, ctx: &mut Ctx<Self>| coloured(effect, &red, &mut count, ctx);
        let app = Inside::start(saved, &config.app, ctx, lift);
        if let Some((worth, _)) = config.worth {
            ctx.notify(Notice::Owns(worth(&app.state)));
        }
        Self { app, started: 0, red, count, gathered: Gathered::default() }
    }

    fn on_request(&mut self, request: Self::Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Snapshot => {
                ctx.rule(1);
                if let Some(sid) = Sid::new(ctx.me, self.started, ctx.n()) {
                    self.started += 1;
                    self.gathered.expect(sid);
                    self.record(sid, ctx);
                }
            }
            Request::App(request) => self.inside(Input::Request(request), ctx),
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Self::Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Turn(sid) => {
                self.record_if_white(sid, ctx);
                ctx.notify(Notice::Closed(sid, from, 0));
            }
            Msg::Report(report) => self.tell(*report, ctx),
            Msg::App(red, msg) => {
                red.iter().for_each(|sid| self.record_if_white(*sid, ctx));
                if from != ctx.me {
                    self.count -= 1;
                    self.report_late(from, &red, &msg, ctx);
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

impl<P: Protocol> Wrapper for Mattern<P> {
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
        let (config, Self { app, red, count, .. }) = (ctx.config, self);
        let lift = |effect, ctx: &mut Ctx<Self>| coloured(effect, red, count, ctx);
        app.on_input(input, &config.app, ctx, lift);
    }
}

impl<P: Protocol> Mattern<P> {
    /// Rules 2 and 5.
    fn record_if_white(&mut self, sid: Sid, ctx: &mut Ctx<Self>) {
        if !self.red.contains(&sid) {
            ctx.rule(2);
            self.record(sid, ctx);
        }
    }

    /// Records the state, turns red and reports.
    fn record(&mut self, sid: Sid, ctx: &mut Ctx<Self>) {
        self.red.insert(sid);
        ctx.notify(Notice::Recorded(sid));
        // Rule 5.
        ctx.rule(5);
        ctx.multicast(ctx.neighbors(), Msg::Turn(sid));
        let what = What::Part(self.app.share(sid), self.count);
        self.tell(Report { sid, of: ctx.me, what }, ctx);
    }

    /// Rule 3.
    fn report_late(
        &mut self,
        from: NodeId,
        red: &BTreeSet<Sid>,
        msg: &P::Msg,
        ctx: &mut Ctx<Self>,
    ) {
        let late: Vec<Sid> = self.red.difference(red).copied().collect();
        for sid in late {
            ctx.rule(3);
            let what = What::Late(from, msg.clone());
            self.tell(Report { sid, of: ctx.me, what }, ctx);
        }
    }

    /// Passes a report on to the node that started the snapshot, or adds it to the others there.
    fn tell(&mut self, report: Report<P>, ctx: &mut Ctx<Self>) {
        let initiator = report.sid.initiator(ctx.n());
        if initiator != ctx.me {
            if let Some(next) = toward(initiator, ctx) {
                ctx.send(next, Msg::Report(Box::new(report)));
            }
            return;
        }
        // Rule 4.
        ctx.rule(4);
        let Config { complete, worth, .. } = *ctx.config;
        if let Some(whole) = self.gathered.add(report, ctx.n(), complete) {
            outcome::tell(whole, worth, ctx);
        }
    }
}

/// An effect of the application, as one of the wrapper.
fn coloured<P: Protocol>(
    effect: Effect<P>,
    red: &BTreeSet<Sid>,
    count: &mut i64,
    ctx: &mut Ctx<Mattern<P>>,
) {
    match &effect {
        Effect::Send { to, .. } if *to != ctx.me => *count += 1,
        Effect::Broadcast(_) => *count += i64::from(ctx.n()) - 1,
        _ => {}
    }
    let app = |msg| Msg::App(red.clone(), msg);
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
const SUM: &[Property] = &[Property::Sum];
const DONE: &[Property] = &[Property::Done];
const KEPT: &[Property] = &[Property::Cut, Property::Done, Property::Exclusion];
const SECTION: &[(&str, &str)] = &[("app", "section"), ("rounds", "1")];
const ONE: &[(&str, &str)] = &[("transfers", "1")];

/// Colours and counts.
pub static PLAIN: Entry<Mattern<App>> = Entry::new("snapshot/mattern", "Mattern, counting", config)
    .summary("messages have colours, and as many are awaited as were on their way")
    .source(
        "Mattern. Efficient algorithms for distributed snapshots and global virtual time \
             approximation. Journal of Parallel and Distributed Computing 18, 1993",
    )
    .text(include_str!("mattern.rs"))
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

/// What is late is not awaited.
pub static UNAWAITED: Entry<Mattern<App>> = PLAIN
    .variant("snapshot/mattern-unawaited", "Mattern, not waiting for the late")
    .summary("the snapshot is taken for complete when all have reported")
    .mutant("snapshot/mattern", "messages that were on their way are not awaited", Property::Sum)
    .holds(&[Property::Cut, Property::Done, Property::Conserved])
    .fails(&[(Property::Channels, "p0's coin is on its way when both have reported")])
    .config(|setup| Ok(Config { complete: Complete::Unawaited, ..config(setup)? }))
    .claims(&[
        Check::new(2, SUM).set(ONE).fails(4),
        Check::new(2, CHANNELS).set(ONE).fails(4),
        Check::new(2, &[Property::Cut, Property::Done, Property::Conserved]).set(ONE),
    ]);

/// The sum is compared before all have reported.
pub static HASTY: Entry<Mattern<App>> = PLAIN
    .variant("snapshot/mattern-hasty", "Mattern, comparing too early")
    .summary("the counts of those who have reported are compared at any time")
    .mutant(
        "snapshot/mattern",
        "the sum of the counts is compared before all nodes have reported",
        Property::Done,
    )
    .holds(&[Property::Cut, Property::Conserved])
    .config(|setup| Ok(Config { complete: Complete::Hasty, ..config(setup)? }))
    .claims(&[
        Check::new(2, DONE).set(&[("transfers", "0")]).clients(0, 1).fails(4),
        Check::new(2, &[Property::Cut, Property::Conserved]).set(ONE),
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

    fn reports(effects: &[Effect<Mattern<App>>]) -> Vec<Report<App>> {
        let reports = effects.iter().filter_map(|effect| match effect {
            Effect::Send { msg: Msg::Report(report), .. } => Some((**report).clone()),
            _ => None,
        });
        reports.collect()
    }

    fn collected(effects: &[Effect<Mattern<App>>]) -> Option<u64> {
        effects.iter().find_map(|effect| match effect {
            Effect::Notify(Notice::Collected(_, worth)) => Some(*worth),
            _ => None,
        })
    }

    #[test]
    fn a_node_that_is_red_reports_white_messages_and_no_red_ones() {
        let mut bench = Bench::complete(&PLAIN, 3);
        let turned = reports(&bench.at(1).message(2, coin(&[SID], 16)));
        assert!(
            matches!(&turned[..], [Report { what: What::Part(share, 0), .. }]
            if share.state.worth() == 4),
            "{turned:?}"
        );
        let late = reports(&bench.at(1).message(2, coin(&[], 64)));
        let what = What::Late(NodeId(2), app::Msg::Bank(bank::Msg::Transfer(64)));
        assert_eq!(late, [Report { sid: SID, of: NodeId(1), what }]);
        assert_eq!(reports(&bench.at(1).message(2, coin(&[SID], 256))), []);
    }

    #[test]
    fn a_snapshot_is_complete_when_as_many_have_come_as_were_on_their_way() {
        for (entry, early) in [(&PLAIN, None), (&UNAWAITED, Some(1))] {
            let mut bench = Bench::complete(entry, 2);
            let started = bench.at(0).request(Request::Snapshot);
            assert_eq!(collected(&started), None, "p1 has not reported");
            let paid = bench.at(1).timer(app::Timer::Bank(bank::Timer::Pay));
            let Effect::Send { msg: late, .. } = &paid[0] else { panic!("it pays: {paid:?}") };
            let turned = reports(&bench.at(1).message(0, Msg::Turn(SID)));
            let report = Msg::Report(Box::new(turned[0].clone()));
            assert_eq!(collected(&bench.at(0).message(1, report)), early);
            let whole = collected(&bench.at(0).message(1, late.clone()));
            assert_eq!(whole, early.is_none().then_some(1 + 4));
        }
        let mut hasty = Bench::complete(&HASTY, 2);
        assert_eq!(collected(&hasty.at(0).request(Request::Snapshot)), Some(1));
    }
}
