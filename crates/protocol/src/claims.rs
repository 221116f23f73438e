//! What an entry claims, as plain data: systems small enough that all their runs can be searched,
//! what may go wrong in them, and what comes out.
//!
//! Each promise, each disclaimed property and each mutant has its check, which stands beside the
//! entry. A promise is checked within the model, with one fault of each kind that the model allows;
//! what is disclaimed is refuted by the story that the entry tells, and the length of the shortest
//! run that does so is written down.

mod requests;

use serde::{Deserialize, Serialize};

pub use self::requests::Requests;
use crate::{Channels, Property};

/// A system, and what is true of it.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The properties that it is about.
    pub properties: &'static [Property],
    /// What is true of them.
    pub expected: Expected,
    /// How many nodes there are.
    pub nodes: u32,
    /// How often each client asks.
    pub requests: Requests,
    /// The topology by its name; as the entry's model says if not set.
    pub shape: Option<&'static str>,
    /// What is set by name.
    pub options: &'static [(&'static str, &'static str)],
    /// The nodes that ask, from the first to before the second; those that do by default if not
    /// set.
    pub clients: Option<(u32, u32)>,
    /// What becomes of messages; as the entry's model says if not set.
    pub channels: Option<Channels>,
    /// When timers run out; as the entry's model says if not set.
    pub timers: Option<Timers>,
    /// What may go wrong.
    pub budgets: Budgets,
    /// The nodes that may crash, from the first to before the second; all if not set.
    pub mortal: Option<(u32, u32)>,
    /// Whether it goes beyond the entry's model, and holds all the same.
    pub beyond: bool,
    /// Whether the applications tell each other that they have asked, beside the algorithm. The
    /// checker cannot do that by itself; the tests of the algorithms wrap it around them.
    pub talk: bool,
    /// How much of it is searched.
    pub size: Size,
}

/// How much of a system is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// All of it.
    Whole,
    /// Runs of so many steps, because there is no end to the states, or none in sight: what holds,
    /// holds so far.
    Bounded(u32),
}

/// What is true of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It holds; so far, if the search is bounded.
    Holds,
    /// The shortest run that violates it has so many steps.
    Fails(usize),
    /// The shortest run that was found has so many steps, and repeats those from the second number
    /// on for ever.
    Loops(usize, usize),
    /// The checker cannot tell, for this reason.
    Unchecked(&'static str),
}

impl Check {
    /// Every run of a system of so many nodes, each client asking once, and nothing going wrong.
    pub const fn new(nodes: u32, properties: &'static [Property]) -> Self {
        Self {
            properties,
            expected: Expected::Holds,
            nodes,
            requests: Requests::AtMost(1),
            shape: None,
            options: &[],
            clients: None,
            channels: None,
            timers: None,
            budgets: Budgets::NONE,
            mortal: None,
            beyond: false,
            talk: false,
            size: Size::Whole,
        }
    }

    /// The properties cannot be checked, for this reason.
    pub const fn unchecked(properties: &'static [Property], why: &'static str) -> Self {
        Self { expected: Expected::Unchecked(why), ..Self::new(0, properties) }
    }

    /// The shortest violation has so many steps.
    #[must_use]
    pub const fn fails(self, steps: usize) -> Self {
        Self { expected: Expected::Fails(steps), ..self }
    }

    /// A violation that repeats its steps from `from` on.
    #[must_use]
    pub const fn loops(self, steps: usize, from: usize) -> Self {
        Self { expected: Expected::Loops(steps, from), ..self }
    }

    /// Each client asks so often.
    #[must_use]
    pub const fn requests(self, requests: u32) -> Self {
        Self { requests: Requests::AtMost(requests), ..self }
    }

    /// Clients never stop asking.
    #[must_use]
    pub const fn endless(self) -> Self {
        Self { requests: Requests::Endless, ..self }
    }

    /// With this topology.
    #[must_use]
    pub const fn shape(self, name: &'static str) -> Self {
        Self { shape: Some(name), ..self }
    }

    /// With these settings.
    #[must_use]
    pub const fn set(self, options: &'static [(&'static str, &'static str)]) -> Self {
        Self { options, ..self }
    }

    /// Only the nodes from `first` to before `end` ask.
    #[must_use]
    pub const fn clients(self, first: u32, end: u32) -> Self {
        Self { clients: Some((first, end)), ..self }
    }

    /// With these channels.
    #[must_use]
    pub const fn channels(self, channels: Channels) -> Self {
        Self { channels: Some(channels), ..self }
    }

    /// With timers that run out at any moment, but only so often.
    #[must_use]
    pub const fn timers(mut self, most: u8) -> Self {
        self.budgets.timers = Some(most);
        self
    }

    /// Timers wait for messages, though the model does not say so.
    #[must_use]
    pub const fn timely(self) -> Self {
        Self { timers: Some(Timers::Quiet), ..self }
    }

    /// It holds although the model does not allow what goes wrong.
    #[must_use]
    pub const fn beyond(self) -> Self {
        Self { beyond: true, ..self }
    }

    /// So many crashes.
    #[must_use]
    pub const fn crashes(mut self, most: u8) -> Self {
        self.budgets.crashes = most;
        self
    }

    /// Only the nodes from `first` to before `end` crash.
    #[must_use]
    pub const fn mortal(self, first: u32, end: u32) -> Self {
        Self { mortal: Some((first, end)), ..self }
    }

    /// So many recoveries.
    #[must_use]
    pub const fn recoveries(mut self, most: u8) -> Self {
        self.budgets.recoveries = most;
        self
    }

    /// So many recoveries without memory.
    #[must_use]
    pub const fn amnesias(mut self, most: u8) -> Self {
        self.budgets.amnesias = most;
        self
    }

    /// So many losses.
    #[must_use]
    pub const fn losses(mut self, most: u8) -> Self {
        self.budgets.losses = most;
        self
    }

    /// So many repetitions.
    #[must_use]
    pub const fn repeats(mut self, most: u8) -> Self {
        self.budgets.repeats = most;
        self
    }

    /// So many partitions.
    #[must_use]
    pub const fn partitions(mut self, most: u8) -> Self {
        self.budgets.partitions = most;
        self
    }

    /// So many who join.
    #[must_use]
    pub const fn joins(mut self, most: u8) -> Self {
        self.budgets.joins = most;
        self
    }

    /// So many who leave.
    #[must_use]
    pub const fn leaves(mut self, most: u8) -> Self {
        self.budgets.leaves = most;
        self
    }

    /// Applications talk beside the algorithm, each with each.
    #[must_use]
    pub const fn talking(self) -> Self {
        Self { talk: true, shape: Some("complete"), ..self }
    }

    /// Only runs of so many steps.
    #[must_use]
    pub const fn bounded(self, steps: u32) -> Self {
        Self { size: Size::Bounded(steps), ..self }
    }
}

/// When timers run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timers {
    /// At any moment, in any order: nothing is known about time.
    Anytime,
    /// In the order of their deadlines, and never while a message or a word of the failure detector
    /// is on its way: time-outs are long and messages fast.
    Quiet,
}

/// How often something may go wrong, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Budgets {
    /// A node stops.
    pub crashes: u8,
    /// A stopped node boots with what it had saved.
    pub recoveries: u8,
    /// A stopped node boots having forgotten everything.
    pub amnesias: u8,
    /// A message is lost.
    pub losses: u8,
    /// A message arrives once more.
    pub repeats: u8,
    /// The network falls into two parts, until it is whole again.
    pub partitions: u8,
    /// A node's failure detector suspects a live node, until it takes that back.
    pub suspicions: u8,
    /// A node asks to become a member.
    pub joins: u8,
    /// A node asks to leave the group.
    pub leaves: u8,
    /// A timer runs out; as often as it likes if not set.
    pub timers: Option<u8>,
    /// Whether a node may crash in the middle of a step, some of its messages having left.
    pub mid_step: bool,
}

impl Budgets {
    /// Nothing goes wrong, and timers run out as often as they like.
    pub const NONE: Self = Self {
        crashes: 0,
        recoveries: 0,
        amnesias: 0,
        losses: 0,
        repeats: 0,
        partitions: 0,
        suspicions: 0,
        joins: 0,
        leaves: 0,
        timers: None,
        mid_step: false,
    };

    /// Whether nothing but timers is left.
    pub fn is_spent(&self) -> bool {
        Self { timers: None, mid_step: false, ..*self } == Self::default()
    }
}
