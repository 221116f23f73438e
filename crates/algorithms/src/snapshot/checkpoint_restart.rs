//! After a crash all nodes go back to the latest global state that was recorded, and go on from there.
//! That is a consistent one, so the run could have been in it: what comes after it is what could have
//! come then.
//!
//! The snapshots are those of `snapshot/chandy-lamport-collect`. A part is saved before it is reported.
//! So when the first node, which alone starts snapshots, has the parts of all, each node has its part
//! on disk: the snapshot is committed. Up to then its parts are tentative, and the snapshot
//! before it stays the one to go back to.
//!
//! What was sent before a rollback must not be used after it: its sender has not sent it any more.
//! Every message carries an incarnation, and each rollback begins a new one.
//!
//! `--set app=…` chooses the application, and `--ask 0@3` starts a snapshot.
//!
//! # Rules
//!
//! 1. Asked for a snapshot, at the first node: start it, unless one is under way. Other nodes pass
//!    on what they are asked to the first, by `Ask`.
//! 2. The own part is finished: save it as tentative, and report it.
//! 3. All parts are there, at the first node: the snapshot is committed. Save that, and send `Commit`
//!    to all.
//! 4. `Commit`: the tentative part is the one to go back to. Save that.
//! 5. Boot after a crash: go back to the committed snapshot by rule 7, in a new incarnation, one
//!    higher than that which was saved, and send `Rollback` with both to all. Of incarnations that are
//!    equally high, the one of the higher node is higher.
//! 6. `Rollback` of a higher incarnation: go back to its snapshot by rule 7. But begin a still higher
//!    one by rule 5 instead if a later snapshot is committed here, or if the node that began it had not
//!    heard that this node is back: messages of that incarnation may have arrived while it was down.
//!    (`Rollback` says how often each node has come back.) `Rollback` of a lower one: its sender has not
//!    heard of the present one; tell it by `Rollback`.
//! 7. Go back: take up the recorded state with its timers, abandon snapshots that are under way,
//!    use the messages that were recorded on their way, channel by channel, and then the messages of
//!    this incarnation that have been held back.
//! 8. A message of a lower incarnation is dropped, and one of a higher is held back.
//!
//! A node that has no committed part goes back to its initial state: all initial states and
//! empty channels are a consistent global state, too, and the earliest.
//!
//! # Cost
//!
//! N − 1 messages more than a snapshot costs for each that is committed, and N − 1 for each crash, one
//! hop; and the work of all since the snapshot.
//!
//! # Known failures
//!
//! What has been done since the snapshot is lost, everywhere: a node that comes back is not in the state
//! in which it crashed, and what it has shown to others outside the system it may do again, and
//! otherwise. Where the first node stays down, no snapshot is committed any more. A rollback ends a
//! snapshot that is under way.
//!
//! Without incarnations (`snapshot/checkpoint-restart-mixed`) a message that was on its way when all
//! went back arrives, and then arrives again.

mod rollback;

use std::collections::BTreeMap;
use std::fmt;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Crashes, Ctx, Effect, Entry, Input, InputOf, Model, NodeId, NodeSet, Property,
    Protocol, Setup, Unfit, Whole,
};
use serde::{Deserialize, Serialize};

use super::app::{self, App};
use super::chandy_lamport::{self, ChandyLamport};
use super::recovery::{Recovery, fingerprint};
use super::support::Wrapper;
use super::support::inside::Inside;
use super::{Notice, Request, Share, Sid};

/// A time between rollbacks: how many there have been, and the node that began it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Incarnation(u32, NodeId);

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct CheckpointRestart<P: Protocol> {
    /// Snapshots, and the application.
    pub inside: ChandyLamport<P>,
    /// What is on disk, too.
    saved: Saved<P>,
    /// Whether this node has started a snapshot that is not committed.
    under_way: bool,
    /// How many inputs the application has used, in the part to go back to and since.
    used: u32,
    /// How many it had used when the node recorded for a snapshot that is not finished.
    recorded: Option<(Sid, u32)>,
    /// Messages of higher incarnations.
    early: Vec<(NodeId, Msg<P>)>,
}

/// What survives a crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Saved<P: Protocol> {
    incarnation: Incarnation,
    /// How often each node has come back, as far as this one knows.
    returns: BTreeMap<NodeId, u32>,
    /// How many snapshots this node has started.
    started: u32,
    /// The part to go back to.
    committed: Option<Box<Part<P>>>,
    /// That of a snapshot which may be committed.
    tentative: Option<Box<Part<P>>>,
}

/// A node's part of a snapshot, with how many inputs the application had used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Part<P: Protocol> {
    share: Share<P>,
    used: u32,
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Msg<P: Protocol> {
    /// A message of the application or of a snapshot, and when it was sent.
    App(Incarnation, chandy_lamport::Msg<P>),
    /// The snapshot is committed.
    Commit(Incarnation, Sid),
    /// Go back to this snapshot, or to the beginning; this incarnation begins, after each node had
    /// come back so often.
    Rollback(Incarnation, Option<Sid>, BTreeMap<NodeId, u32>),
    /// To the first node: start a snapshot.
    Ask,
}

/// What never changes.
pub struct Config<P: Protocol> {
    inside: chandy_lamport::Config<P>,
    /// Whether it is wrong: incarnations are not compared.
    mixed: bool,
}

impl<P: Protocol> Clone for Config<P> {
    fn clone(&self) -> Self {
        Self { inside: self.inside.clone(), mixed: self.mixed }
    }
}

impl<P: Protocol> fmt::Debug for Config<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("inside", &self.inside).finish_non_exhaustive()
    }
}

/// The node that starts snapshots.
const FIRST: NodeId = NodeId(0);

impl<P: Protocol> Protocol for CheckpointRestart<P> {
    type Config = Config<P>;
    type Request = Request<P::Request>;
    type Notice = Notice<P>;
    type Msg = Msg<P>;
    type Timer = P::Timer;
    type Stable = Saved<P>;

    fn start(saved: Option<Saved<P>>, ctx: &mut Ctx<Self>) -> Self {
        let before = saved.is_some();
        let (inside, effects) = nested(ctx, |ctx| ChandyLamport::start(None, ctx));
        let none = || Saved {
            incarnation: Incarnation::default(),
            returns: BTreeMap::new(),
            started: 0,
            committed: None,
            tentative: None,
        };
        let mut node = Self {
            inside,
            saved: saved.unwrap_or_else(none),
            under_way: false,
            used: 0,
            recorded: None,
            early: Vec::new(),
        };
        if before {
            // Rule 5. What it did when it booted for the first time is done; if it goes back to
            // that, it does it again.
            ctx.rule(5);
            node.inside.number_from(node.saved.started);
            ctx.notify(Notice::Recovery(Recovery::Back));
            *node.saved.returns.entry(ctx.me).or_default() += 1;
            node.begin(true, ctx);
        } else {
            ctx.save(node.saved.clone());
            let Inside { state, timers } = &node.inside.app;
            let print = fingerprint(&(state, timers, no_channels::<P>()));
            ctx.notify(Notice::Recovery(Recovery::Saved(None, print)));
            ctx.notify(Notice::Recovery(Recovery::Used(0, node.state())));
            node.carry_out(effects, ctx);
        }
        node
    }

    fn on_request(&mut self, request: Self::Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Snapshot if ctx.me == FIRST => self.start_snapshot(ctx),
            Request::Snapshot => ctx.send(FIRST, Msg::Ask),
            Request::App(request) => self.inside(Input::Request(request), ctx),
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg<P>, ctx: &mut Ctx<Self>) {
        let now = self.saved.incarnation;
        match msg {
            Msg::Ask if ctx.me == FIRST => self.start_snapshot(ctx),
            Msg::Ask => {}
            Msg::Rollback(incarnation, line, returns) => {
                self.on_rollback(from, incarnation, line, returns, ctx);
            }
            Msg::App(then, _) | Msg::Commit(then, _) if then != now && !ctx.config.mixed => {
                // Rule 8.
                ctx.rule(8);
                if then > now {
                    self.early.push((from, msg));
                }
            }
            // Rule 4.
            Msg::Commit(_, sid) => {
                ctx.rule(4);
                self.commit(sid, ctx);
            }
            Msg::App(_, msg) => self.happens(Input::Message { from, msg }, ctx),
        }
    }

    fn on_timer(&mut self, timer: P::Timer, ctx: &mut Ctx<Self>) {
        self.happens(Input::Timer(timer), ctx);
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.happens(Input::Suspect(peer), ctx);
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.happens(Input::Restore(peer), ctx);
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        self.happens(Input::Join(sponsor), ctx);
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        self.happens(Input::Leave, ctx);
    }

    fn charge(msg: &Msg<P>, from: NodeId, to: NodeId) -> Charge {
        match msg {
            Msg::App(_, msg) => ChandyLamport::<P>::charge(msg, from, to),
            _ => Charge::Nobody,
        }
    }

    fn is_app(msg: &Msg<P>) -> bool {
        matches!(msg, Msg::App(_, msg) if ChandyLamport::<P>::is_app(msg))
    }

    fn waits_for(&self, me: NodeId, config: &Config<P>) -> NodeSet {
        self.inside.waits_for(me, &config.inside)
    }

    const FACTS: bool = P::FACTS;

    /// Those of the application, of what will be used: that which was sent in this incarnation. While
    /// a node is down, or has not gone back yet, a rollback is under way, and there is nothing to
    /// judge.
    fn facts(whole: &Whole<'_, Self>) -> u64 {
        let Some(nodes) = whole.nodes.iter().copied().collect::<Option<Vec<_>>>() else {
            return 1;
        };
        let now = nodes[0].saved.incarnation;
        if nodes.iter().any(|node| node.saved.incarnation != now) {
            return 1;
        }
        let messages = whole.messages.iter().filter_map(|&(from, to, msg)| match msg {
            Msg::App(then, msg) if *then == now => Some((from, to, msg)),
            _ => None,
        });
        ChandyLamport::facts(&Whole {
            config: &whole.config.inside,
            nodes: nodes.into_iter().map(|node| Some(&node.inside)).collect(),
            messages: messages.collect(),
        })
    }
}

impl<P: Protocol> CheckpointRestart<P> {
    fn start_snapshot(&mut self, ctx: &mut Ctx<Self>) {
        if self.under_way {
            return;
        }
        ctx.rule(1);
        self.under_way = true;
        self.saved.started += 1;
        ctx.save(self.saved.clone());
        self.happens(Input::Request(Request::Snapshot), ctx);
    }

    fn inside(&mut self, input: InputOf<P>, ctx: &mut Ctx<Self>) {
        self.happens(of_snapshots(input), ctx);
    }

    /// Something happens to snapshots and the application.
    fn happens(&mut self, input: InputOf<ChandyLamport<P>>, ctx: &mut Ctx<Self>) {
        let control = match &input {
            Input::Message { msg, .. } => ChandyLamport::<P>::carried(msg).is_none(),
            Input::Request(request) => matches!(request, Request::Snapshot),
            _ => false,
        };
        let ((), effects) = nested(ctx, |ctx| self.inside.on_input(input, ctx));
        if !control {
            self.used += 1;
            ctx.notify(Notice::Recovery(Recovery::Used(self.used, self.state())));
        }
        self.carry_out(effects, ctx);
    }

    fn carry_out(&mut self, effects: Vec<Effect<ChandyLamport<P>>>, ctx: &mut Ctx<Self>) {
        let now = self.saved.incarnation;
        for effect in effects {
            match effect {
                Effect::Send { to, msg } => ctx.send(to, Msg::App(now, msg)),
                Effect::Broadcast(msg) => ctx.broadcast(Msg::App(now, msg)),
                Effect::SetTimer { timer, after } => ctx.set_timer(timer, after),
                Effect::CancelTimer(timer) => ctx.cancel_timer(timer),
                // What it goes back to is in a snapshot.
                Effect::Save(_) => {}
                Effect::Notify(notice) => self.on_notice(notice, ctx),
            }
        }
    }

    fn on_notice(&mut self, notice: Notice<P>, ctx: &mut Ctx<Self>) {
        ctx.notify(notice.clone());
        match notice {
            Notice::Recorded(sid) => self.recorded = Some((sid, self.used)),
            // Rule 2.
            Notice::Finished(share, _) => {
                ctx.rule(2);
                let recorded = self.recorded.take().filter(|(sid, _)| *sid == share.sid);
                let used = recorded.map_or(self.used, |(_, used)| used);
                let print = fingerprint(&(&share.state, &share.timers, &share.channels));
                ctx.notify(Notice::Recovery(Recovery::Saved(Some(share.sid), print)));
                self.saved.tentative = Some(Box::new(Part { share: *share, used }));
                ctx.save(self.saved.clone());
            }
            // Rule 3.
            Notice::Collected(whole, _) => {
                ctx.rule(3);
                self.under_way = false;
                self.commit(whole.sid, ctx);
                ctx.broadcast(Msg::Commit(self.saved.incarnation, whole.sid));
            }
            _ => {}
        }
    }

    /// What tells its states apart.
    fn state(&self) -> u64 {
        let Inside { state, timers } = &self.inside.app;
        fingerprint(&(state, timers, self.used))
    }

    /// The snapshot to go back to.
    fn line(&self) -> Option<Sid> {
        self.saved.committed.as_ref().map(|part| part.share.sid)
    }

    fn commit(&mut self, sid: Sid, ctx: &mut Ctx<Self>) {
        let is = self.saved.tentative.as_ref().is_some_and(|part| part.share.sid == sid);
        if is && self.line() < Some(sid) {
            self.saved.committed.clone_from(&self.saved.tentative);
            ctx.save(self.saved.clone());
        }
    }
}

fn no_channels<P: Protocol>() -> BTreeMap<NodeId, Vec<P::Msg>> {
    BTreeMap::new()
}

/// Runs a rule of snapshots and the application.
fn nested<P: Protocol, T>(
    ctx: &mut Ctx<CheckpointRestart<P>>,
    rule: impl FnOnce(&mut Ctx<ChandyLamport<P>>) -> T,
) -> (T, Vec<Effect<ChandyLamport<P>>>) {
    let (config, mut effects) = (ctx.config, Vec::new());
    let result = ctx.nest(&config.inside, |effect, _| effects.push(effect), rule);
    (result, effects)
}

/// What is asked of the application, asked of what is around it.
fn of_snapshots<P: Protocol>(input: InputOf<P>) -> InputOf<ChandyLamport<P>> {
    match input {
        Input::Request(request) => Input::Request(Request::App(request)),
        Input::Message { from, msg } => Input::Message { from, msg: chandy_lamport::Msg::App(msg) },
        Input::Timer(timer) => Input::Timer(timer),
        Input::Suspect(peer) => Input::Suspect(peer),
        Input::Restore(peer) => Input::Restore(peer),
        Input::Join(sponsor) => Input::Join(sponsor),
        Input::Leave => Input::Leave,
    }
}

fn config(setup: &Setup) -> Result<Config<App>, Unfit> {
    if !setup.topology.is_complete() {
        return Err(Unfit::new("a rollback goes to all, and needs links between all nodes"));
    }
    Ok(Config { inside: chandy_lamport::config(setup)?.collecting(), mixed: false })
}

const SAFE: &[Property] = &[Property::Resumed, Property::Sum, Property::Conserved];
const CUT: &[Property] = &[Property::Cut];
const RESTORED: &[Property] = &[Property::Restored];
const DONE: &[Property] = &[Property::Done];
const SUM: &[Property] = &[Property::Sum];
const CONSERVED: &[Property] = &[Property::Conserved];
const ONE: &[(&str, &str)] = &[("transfers", "1")];

/// With incarnations.
pub static PLAIN: Entry<CheckpointRestart<App>> =
    Entry::new("snapshot/checkpoint-restart", "Checkpoint and restart", config)
        .summary("after a crash all nodes go back to the latest snapshot that is committed")
        .source(
            "Chandy, Lamport. Distributed snapshots: determining global states of distributed \
             systems. TOCS 3(1), 1985; Koo, Toueg. Checkpointing and rollback-recovery for \
             distributed systems. TSE 13(1), 1987",
        )
        .text(include_str!("checkpoint_restart.rs"))
        .model(Model { crashes: Crashes::Recover, ..Model::FIFO })
        .holds(&[Property::Resumed, Property::Sum, Property::Conserved, Property::Cut])
        .fails(&[
            (Property::Restored, "p0 pays, crashes, and has its coin again when it is back"),
            (Property::Done, "a node crashes during a snapshot, which is abandoned"),
        ])
        .options(app::OPTIONS)
        .clients(|_, _| 0..1)
        .claims(&[
            Check::new(2, SAFE).set(ONE).crashes(1).recoveries(1),
            Check::new(2, CUT).set(ONE).crashes(1).recoveries(1),
            Check::new(2, RESTORED).set(ONE).crashes(1).recoveries(1).fails(3),
            Check::new(2, DONE).set(ONE).crashes(1).recoveries(1).fails(5),
        ]);

/// Incarnations are not compared.
pub static MIXED: Entry<CheckpointRestart<App>> = PLAIN
    .variant("snapshot/checkpoint-restart-mixed", "Restart without incarnations")
    .summary("messages from before a rollback are used after it")
    .mutant(
        "snapshot/checkpoint-restart",
        "messages are used whatever incarnation they were sent in",
        Property::Conserved,
    )
    .fails(&[
        (Property::Sum, "a coin arrives that its sender has again, and both are in a snapshot"),
        (Property::Restored, "as with incarnations"),
    ])
    .config(|setup| Ok(Config { mixed: true, ..config(setup)? }))
    .claims(&[
        Check::new(2, CONSERVED).set(ONE).crashes(1).recoveries(1).fails(5),
        Check::new(2, SUM).set(ONE).crashes(1).recoveries(1).fails(6),
        Check::new(2, RESTORED).set(ONE).crashes(1).recoveries(1).fails(3),
    ]);

#[cfg(test)]
mod tests;
