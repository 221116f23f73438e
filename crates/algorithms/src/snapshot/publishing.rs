//! One node runs no application and records for all others. Every input of an application (a message,
//! a timer that runs out, a request) goes to the recorder first, and is used only when the recorder
//! says under which number it has written it down. A process that has crashed is told all that it had
//! used, uses it again in the same order, and is what it was before.
//!
//! It is, because a process does the same again with the same inputs, and because an input that has
//! been used is on the recorder's disk. What it sends again with a number that is recorded at the
//! receiver is held back; a receiver takes messages of a sender in the order of their numbers, each
//! once. What was on its way to a process when it crashed is kept by its sender, and sent again.
//!
//! All that is recorded is a consistent global state as well: a message is recorded only if the input
//! is, too, upon which it was sent. So the recorder reads a snapshot off its records without a message.
//!
//! Powell and Presotto have a medium on which the recorder overhears all messages; here processes
//! pass on what they hear. They assume that a process does not draw. Here what it would draw is
//! drawn when the input comes in, and recorded with it.
//!
//! This is a wrapper around any application (`--set app=`), among all nodes but the last, which
//! records. `--ask 2@5` has the recorder of three nodes read a snapshot.
//!
//! # Rules
//!
//! 1. An input: send it to the recorder as `Publish`, with the next number, and wait. A message that
//!    is not the next of its sender is not an input.
//! 2. `Publish`, at the recorder: append it to the log of its sender, on disk, and answer `Recorded`.
//! 3. `Recorded`: the application uses the input. What it sends is numbered for each receiver, and
//!    kept.
//! 4. Whenever so many inputs have been used (`--set checkpoint=5`): send `Checkpoint`, which is the
//!    state and the messages that are kept. The recorder keeps it in place of the inputs that led to
//!    it, and answers `Forget`: the messages that are recorded need no longer be kept.
//! 5. Boot after a crash: send `Recover`. The recorder answers `Replay`: checkpoint, log, and how
//!    many messages of the process are recorded with each other one.
//! 6. `Replay`: go on from the checkpoint, or from the beginning, and use the log again. Send what
//!    is kept and not recorded, set the timers that run, and ask each other process by `Again`
//!    for messages from the next one on.
//! 7. `Again`: send what is kept, from there on.
//! 8. A snapshot, at the recorder, or a process asks the recorder for one by `Ask`: use each log on
//!    its checkpoint. Messages that are kept by their senders and not recorded were on their way.
//!
//! # Cost
//!
//! Two messages more for each message of the application, two for each timer and each request, and
//! two for a checkpoint. The log of a process is as long as it has used inputs since its latest
//! checkpoint. A snapshot costs nothing more.
//!
//! # Known failures
//!
//! All depends on the recorder. While it is down, no input is used and no process comes back; what
//! was on its way to it is lost, and its sender waits for ever. It has the traffic of all.
//!
//! A process that draws otherwise when it uses an input again (`snapshot/publishing-drawing`) is
//! another than it was: what it sends goes to others, and is there twice.
//!
//! Without rule 6's holding back (`snapshot/publishing-unsuppressed`), what was sent before the crash
//! is sent again as something new. If an input is used at once and sent to the recorder later
//! (`snapshot/publishing-early`), a crash in between loses it.

pub mod process;
mod publisher;
pub mod recorder;
mod truth;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Charge, Crashes, Ctx, Entry, Input, InputOf, Model, NodeId, Opt, Property, Protocol, Setup,
    Topology, Unfit, Whole,
};
use serde::{Deserialize, Serialize};

use self::process::{Process, Receipt};
use self::publisher::{carry_out, run};
use self::recorder::Recorder;
use super::app::{self, App};
use super::chandy_lamport::Worth;
use super::recovery::Recovery;
use super::{Notice, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Publishing<P: Protocol> {
    /// It runs the application.
    Publisher(Publisher<P>),
    /// It records.
    Recorder(Recorder<P>),
}

/// A node that runs the application.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Publisher<P: Protocol> {
    /// How often it had booted before.
    boots: u32,
    /// The process; `None` until it is restored.
    pub process: Option<Process<P>>,
    /// Inputs that are published and not used. In the mutant: used and not published.
    waiting: VecDeque<Receipt<P>>,
    /// Inputs that have come before the process was restored.
    early: Vec<InputOf<P>>,
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Msg<P: Protocol> {
    /// A message of the application, the number of which is that among those on this channel.
    App(u32, P::Msg),
    /// To the recorder: an input, with its number.
    Publish(u32, Box<Receipt<P>>),
    /// The recorder has the input of this number.
    Recorded(u32),
    /// To the recorder: a process as it is.
    Checkpoint(Box<Process<P>>),
    /// So many messages to each process are recorded.
    Forget(BTreeMap<NodeId, u32>),
    /// To the recorder: a process that has booted so often is back.
    Recover(u32),
    /// All that there is of a process.
    Replay(Box<Replay<P>>),
    /// This many messages have come.
    Again(u32),
    /// To the recorder: read a snapshot.
    Ask,
}

/// All that there is of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Replay<P: Protocol> {
    /// How often it had booted when it asked.
    boots: u32,
    checkpoint: Option<Box<Process<P>>>,
    log: VecDeque<Receipt<P>>,
    /// How many of its messages are recorded with each other process.
    recorded: BTreeMap<NodeId, u32>,
}

/// What survives a crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Stable<P: Protocol> {
    /// How often a process has booted.
    Boots(u32),
    /// All that the recorder has.
    Records(Recorder<P>),
}

/// What never changes.
pub struct Config<P: Protocol> {
    /// The constants of the application.
    pub app: P::Config,
    /// Who runs it: all nodes but the last.
    pub topology: Topology,
    /// What states and messages are worth, if that adds up.
    worth: Option<Worth<P>>,
    /// After so many inputs there is a checkpoint; none ever if 0.
    checkpoint: u32,
    /// How many lots there are to draw from, if a lot goes with each input.
    lots: Option<u32>,
    mutation: Option<Mutation>,
}

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// What a process sends when it uses inputs again is new to others.
    Unsuppressed,
    /// An input is used at once, and published when the next one comes.
    Early,
}

impl<P: Protocol> Config<P> {
    /// The recorder.
    fn recorder(&self) -> NodeId {
        NodeId(self.topology.len())
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl<P: Protocol> Clone for Config<P> {
    fn clone(&self) -> Self {
        Self { app: self.app.clone(), topology: self.topology.clone(), ..*self }
    }
}

impl<P: Protocol> fmt::Debug for Config<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("app", &self.app).finish_non_exhaustive()
    }
}

impl<P: Protocol> Protocol for Publishing<P> {
    type Config = Config<P>;
    type Request = Request<P::Request>;
    type Notice = Notice<P>;
    type Msg = Msg<P>;
    type Timer = P::Timer;
    type Stable = Stable<P>;

    fn start(saved: Option<Stable<P>>, ctx: &mut Ctx<Self>) -> Self {
        if ctx.me == ctx.config.recorder() {
            let nothing = || Recorder { records: BTreeMap::new(), asked: 0 };
            return Self::Recorder(match saved {
                Some(Stable::Records(recorder)) => recorder,
                _ => nothing(),
            });
        }
        let (waiting, early) = (VecDeque::new(), Vec::new());
        // Rule 5.
        if let Some(Stable::Boots(before)) = saved {
            ctx.rule(5);
            let boots = before + 1;
            ctx.save(Stable::Boots(boots));
            ctx.notify(Notice::Recovery(Recovery::Back));
            ctx.send(ctx.config.recorder(), Msg::Recover(boots));
            return Self::Publisher(Publisher { boots, process: None, waiting, early });
        }
        ctx.save(Stable::Boots(0));
        let (process, deeds) = run(ctx, Process::boot);
        if let Some((worth, _)) = ctx.config.worth {
            ctx.notify(Notice::Owns(worth(&process.app)));
        }
        ctx.notify(Notice::Recovery(Recovery::Used(0, process.state())));
        carry_out(deeds, ctx);
        Self::Publisher(Publisher { boots: 0, process: Some(process), waiting, early })
    }

    fn on_request(&mut self, request: Self::Request, ctx: &mut Ctx<Self>) {
        match (self, request) {
            (Self::Recorder(recorder), Request::Snapshot) => recorder.read(ctx),
            (Self::Publisher(_), Request::Snapshot) => ctx.send(ctx.config.recorder(), Msg::Ask),
            (Self::Publisher(publisher), Request::App(request)) => {
                publisher.on_input(Input::Request(request), ctx);
            }
            (Self::Recorder(_), Request::App(_)) => {}
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg<P>, ctx: &mut Ctx<Self>) {
        match self {
            Self::Publisher(publisher) => publisher.on_message(from, msg, ctx),
            Self::Recorder(recorder) => recorder.on_message(from, msg, ctx),
        }
    }

    fn on_timer(&mut self, timer: P::Timer, ctx: &mut Ctx<Self>) {
        self.hand_in(Input::Timer(timer), ctx);
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.hand_in(Input::Suspect(peer), ctx);
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.hand_in(Input::Restore(peer), ctx);
    }

    fn on_join(&mut self, sponsor: NodeId, ctx: &mut Ctx<Self>) {
        self.hand_in(Input::Join(sponsor), ctx);
    }

    fn on_leave(&mut self, ctx: &mut Ctx<Self>) {
        self.hand_in(Input::Leave, ctx);
    }

    fn charge(msg: &Msg<P>, from: NodeId, to: NodeId) -> Charge {
        match msg {
            Msg::App(_, msg) => P::charge(msg, from, to),
            _ => Charge::Nobody,
        }
    }

    fn is_app(msg: &Msg<P>) -> bool {
        matches!(msg, Msg::App(_, msg) if P::is_app(msg))
    }

    const FACTS: bool = P::FACTS;

    /// Those of the application. A process that is down, or not yet restored, is what it can be
    /// restored to; a message is on its way from when it is first sent until it is used.
    fn facts(whole: &Whole<'_, Self>) -> u64 {
        truth::facts(whole)
    }
}

impl<P: Protocol> Publishing<P> {
    fn hand_in(&mut self, input: InputOf<P>, ctx: &mut Ctx<Self>) {
        if let Self::Publisher(publisher) = self {
            publisher.on_input(input, ctx);
        }
    }
}

fn config(setup: &Setup) -> Result<Config<App>, Unfit> {
    let n = setup.n();
    if n < 2 || !setup.topology.is_complete() {
        return Err(Unfit::new(
            "the last node records, and has to be linked with at least one that does something: \
             two nodes or more, all linked",
        ));
    }
    let topology = Topology::complete(n - 1);
    let processes = Setup { topology: topology.clone(), ..setup.clone() };
    let app = app::chosen(&processes, "bank")?;
    let worth: Option<Worth<App>> = app.adds_up().then_some((App::worth, App::worth_of));
    let checkpoint = setup.option(CHECKPOINT.name, 5)?;
    // One process of all others can be drawn.
    let lots = Some((n - 2).max(1));
    Ok(Config { app, topology, worth, checkpoint, lots, mutation: None })
}

const CHECKPOINT: Opt = Opt {
    name: "checkpoint",
    default: "5",
    help: "after so many inputs a process has its state recorded; 0 for never",
};

const OPTIONS: [Opt; app::OPTIONS.len() + 1] = {
    let mut options = [CHECKPOINT; app::OPTIONS.len() + 1];
    let mut place = 0;
    while place < app::OPTIONS.len() {
        options[place] = app::OPTIONS[place];
        place += 1;
    }
    options
};

const SAFE: &[Property] = &[Property::Restored, Property::Sum, Property::Conserved];
const RESTORED: &[Property] = &[Property::Restored];
const RECOVERS: &[Property] = &[Property::Recovers];
const SUM: &[Property] = &[Property::Sum];
const CONSERVED: &[Property] = &[Property::Conserved];
const ONE: &[(&str, &str)] = &[("transfers", "1"), ("checkpoint", "0")];
const COVERED: &[(&str, &str)] = &[("transfers", "1"), ("checkpoint", "1")];

/// With what a process draws drawn beforehand.
pub static PLAIN: Entry<Publishing<App>> = Entry::new("snapshot/publishing", "Publishing", config)
    .summary("a node records all inputs of the others, and gives them back after a crash")
    .source("Powell, Presotto. Publishing: a reliable broadcast communication mechanism. SOSP 1983")
    .text(include_str!("publishing.rs"))
    .model(Model { crashes: Crashes::Recover, ..Model::FIFO })
    .holds(SAFE)
    .fails(&[(Property::Recovers, "the recorder crashes, and p0, which comes back, waits for it")])
    .options(&OPTIONS)
    .clients(|_, n| n - 1..n)
    .claims(&[
        Check::new(3, SAFE).set(ONE).crashes(1).recoveries(1),
        Check::new(3, SAFE).set(COVERED).crashes(1).recoveries(1),
        Check::new(3, RECOVERS).set(ONE).crashes(1).recoveries(1).mortal(0, 2),
        Check::new(3, RECOVERS).set(ONE).crashes(2).recoveries(1).fails(4),
    ]);

/// What a process draws is drawn when an input is used, and again when it is used again.
pub static DRAWING: Entry<Publishing<App>> = PLAIN
    .variant("snapshot/publishing-drawing", "Publishing where processes draw")
    .summary("a process that draws otherwise after a crash is not what it was")
    .holds(&[])
    .fails(&[
        (Property::Restored, "p0 has sent its coin to p1, and when it is restored draws p2"),
        (Property::Sum, "p1 has the coin, and p0's log used again says that it is for p2"),
        (Property::Conserved, "likewise, as soon as p0 is down"),
        (Property::Recovers, "as above"),
    ])
    .config(|setup| Ok(Config { lots: None, ..config(setup)? }))
    .claims(&[
        Check::new(4, RESTORED).set(ONE).crashes(1).recoveries(1).fails(7),
        Check::new(4, SUM).set(ONE).crashes(1).recoveries(1).fails(6),
        Check::new(4, CONSERVED).set(ONE).crashes(1).recoveries(1).fails(5),
        Check::new(3, RECOVERS).set(ONE).crashes(2).recoveries(1).fails(4),
    ]);

/// What is sent again is not held back.
pub static UNSUPPRESSED: Entry<Publishing<App>> = PLAIN
    .variant("snapshot/publishing-unsuppressed", "Publishing without suppression")
    .summary("what a process sends when it uses inputs again counts as new")
    .mutant(
        "snapshot/publishing",
        "messages that are recorded with their receivers are sent again, under new numbers",
        Property::Conserved,
    )
    .fails(&[(Property::Sum, "a coin is in two accounts as far as they are recorded")])
    .config(|setup| Ok(Config { mutation: Some(Mutation::Unsuppressed), ..config(setup)? }))
    .claims(&[
        Check::new(3, CONSERVED).set(ONE).crashes(1).recoveries(1).fails(9),
        Check::new(3, SUM).set(ONE).crashes(1).recoveries(1).fails(12),
    ]);

/// Inputs are used before they are recorded.
pub static EARLY: Entry<Publishing<App>> = PLAIN
    .variant("snapshot/publishing-early", "Publishing with inputs used at once")
    .summary("an input is used when it comes in, and recorded later")
    .mutant(
        "snapshot/publishing",
        "an input is used at once, and published when the next one comes",
        Property::Restored,
    )
    .fails(&[
        (Property::Sum, "p0 pays p1, whose records have the coin, and its own have it still"),
        (Property::Conserved, "p0 pays and crashes: what it can be restored to has the coin, too"),
    ])
    .config(|setup| Ok(Config { mutation: Some(Mutation::Early), ..config(setup)? }))
    .claims(&[
        Check::new(3, RESTORED).set(ONE).crashes(1).recoveries(1).fails(5),
        Check::new(3, SUM).set(ONE).crashes(1).recoveries(1).fails(5),
        Check::new(3, CONSERVED).set(ONE).crashes(1).recoveries(1).fails(3),
    ]);

#[cfg(test)]
mod tests;
