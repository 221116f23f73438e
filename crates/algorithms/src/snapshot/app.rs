//! The applications that snapshots are taken of, one of which is chosen by name.
//!
//! What is wrapped around an application is generic in it; the catalogue has it around [`App`], which
//! is any of them, so that each wrapper is compiled once. A further application is a file with a
//! type that is an [`Application`], a line in the list below, and lines for its options.

use std::fmt;

use conclave_protocol::family::snapshot::OWNS;
use conclave_protocol::{
    Bare, Charge, Client, Ctx, Effect, Entry, HeardBy, Input, InputOf, Links, Model, Never, NodeId,
    NodeSet, Note, Observable, Observation, Opt, Part, Protocol, Recorded, Setup, Unfit, Whole,
    Written, read, writable,
};
use serde::{Deserialize, Serialize};

use super::bank::Bank;
use super::diffusing::{self, Diffusing};
use super::objects::{self, Objects};
use super::producer_consumer::ProducerConsumer;
use super::ring::Ring;
use super::script::{self, Script};
use super::section::Section;
use super::talk::{self, Talk};
use super::{Share, Sid};
use crate::mutex::ricart_agrawala::RicartAgrawala;

applications! {
    Bank: Bank, "BankApp";
    Ring: Ring, "RingApp";
    Section: Section<RicartAgrawala>, "SectionApp";
    ProducerConsumer: ProducerConsumer, "ProducerConsumerApp";
    Script: Script, "ScriptApp";
    Diffusing: Diffusing, "DiffusingApp";
    Talk: Talk, "TalkApp";
    Objects: Objects, "ObjectsApp";
}

/// What can be set where there is a bank if nothing is set.
pub const OPTIONS: &[Opt] = &options("bank");

/// What can be set: the application, which is this one if it is not set, and whatever one of them has
/// to be told.
pub const fn options(app: &'static str) -> [Opt; 11] {
    let help = "what goes on: bank, ring, section, producer-consumer, script, diffusing, talk or \
                objects";
    let app = Opt { name: "app", default: app, help };
    let [a, b, c, d, e, f, g, h, i, j] = OF_ONE;
    [app, a, b, c, d, e, f, g, h, i, j]
}

/// What one of the applications has to be told.
const OF_ONE: [Opt; 10] = [
    Opt { name: "transfers", default: "4", help: "how many coins each branch of the bank sends" },
    Opt { name: "accounts", default: "", help: "what branches own at first, as in 100 or 90,100" },
    Opt { name: "pay", default: "", help: "who pays whom how much when, as in 1>0:20@1,2>1:5@3" },
    Opt {
        name: "rounds",
        default: "2",
        help: "how often each node passes a token on, or enters; how many items are produced",
    },
    Opt { name: "tokens", default: "1", help: "how many tokens go round the ring" },
    Opt {
        name: "script",
        default: script::USUAL,
        help: "the events of processes p, q, …, as in p1>q2,r1: p's first sends what q's second gets",
    },
    diffusing::WORK,
    diffusing::BUSY,
    talk::TALK,
    objects::OBJECTS,
];

impl HeardBy for Notice {
    type Client = Onlooker;
}

/// One who asks for nothing of an application that goes on by itself.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Onlooker;

impl Client<App> for Onlooker {
    fn requests(&self) -> impl IntoIterator<Item = Never> {
        None
    }

    fn on_request(&mut self, request: &Never) {
        match *request {}
    }

    fn on_notice(&mut self, _: &Notice) {}
}

/// A program that goes on by itself, for snapshots to be taken of it.
pub trait Application: Protocol<Request = Never, Stable = Never> {
    /// As typed after `--set app=`.
    const NAME: &'static str;

    /// Its constants in such a system, or why it cannot run there.
    fn constants(setup: &Setup) -> Result<Self::Config, Unfit>;

    /// Whether what nodes and channels hold adds up to the same at all times; then bit 0 of its
    /// [facts](Protocol::facts) says that it does.
    const ADDS_UP: bool = false;

    /// What a node owns, if that adds up.
    fn worth(&self) -> u64 {
        0
    }

    /// What a message is worth.
    fn worth_of(_: &Self::Msg) -> u64 {
        0
    }

    /// What can become so of the whole application and then stays so, as bits of
    /// [`reports`](conclave_protocol::family::reports).
    fn lasting(_: &Self::Config) -> u64 {
        0
    }

    /// What has become so.
    fn stable(_: &Whole<'_, Self>) -> u64 {
        0
    }

    /// Whether the node goes on by itself, rather than when a message arrives.
    fn is_active(&self) -> bool {
        true
    }

    /// The state of a node, as a recorded global state shows it.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }

    /// A message on its way, likewise.
    fn show_msg(msg: &Self::Msg, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(msg, f)
    }
}

/// The constants of the application of this name.
pub fn named(name: &str, setup: &Setup) -> Result<Config, Unfit> {
    Config::named(name, setup).expect("there is such an application")
}

/// The application that was chosen by itself, for judges of snapshots of it.
pub static ALONE: Entry<App> =
    Entry::new("snapshot/application", "Application", |setup| chosen(setup, "bank"))
        .model(Model { links: Links::Directed, ..Model::RELIABLE })
        .options(OPTIONS);

/// What the notices of a wrapper around it say of snapshots.
pub const BARE: Bare = Bare { algorithm: || &ALONE, recorded };

fn recorded(me: NodeId, notice: &mut Written<'_>) -> Option<Recorded> {
    let (node, share) = match read::<super::Notice<App>>(notice)? {
        super::Notice::Recorded(Sid(number)) => return Some(Recorded::State(number)),
        super::Notice::Finished(share, _) => (me, share),
        super::Notice::Gathered(node, share, _) => (node, share),
        _ => return None,
    };
    let Share { sid, state, timers, channels } = *share;
    let timers = timers.into_iter().map(|(timer, after)| (format!("{timer:?}"), after));
    let channels = channels.into_iter().map(|(from, messages)| {
        let messages = messages.into_iter();
        (from, messages.map(writable).collect())
    });
    Some(Recorded::Part(Part {
        number: sid.0,
        node,
        state: writable(state),
        timers: timers.collect(),
        channels: channels.collect(),
    }))
}

/// The constants of the application that was chosen, or of the one of this name if none was.
pub fn chosen(setup: &Setup, default: &str) -> Result<Config, Unfit> {
    let name: String = setup.option("app", default.to_owned())?;
    let unknown = || {
        let (last, others) = NAMES.split_last().expect("there are some");
        Unfit::new(format!("app={name}, and there are {} and {last}", others.join(", ")))
    };
    Config::named(&name, setup).unwrap_or_else(|| Err(unknown()))
}
