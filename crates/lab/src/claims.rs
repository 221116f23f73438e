//! What the catalogue claims, and the checks that show it.
//!
//! Every property that an entry promises or disclaims, and every mutant, has its line here: a
//! system small enough that all its runs can be searched, what may go wrong in it, and what comes
//! out. What an entry promises is checked within its model, with one fault of each kind that the
//! model allows. What it disclaims is refuted by the story that the entry tells, and the length of
//! the shortest run that does so is written down.

mod table;

use conclave_algorithms::catalogue;
use conclave_check::{Budgets, CheckSpec, Requests, Timers};
use conclave_protocol::{Channels, Info, Property, Setup, Topology, Unfit};

pub use table::TABLE;

/// The checks of one entry of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Claims {
    /// The entry.
    pub id: &'static str,
    /// Small ones: all entries together take a few minutes.
    pub checks: &'static [Check],
    /// Larger ones, for those who can wait; each fits into 4 GiB.
    pub deep: &'static [Check],
}

impl Claims {
    /// The claims about the entry called `id`.
    pub fn of(id: &str) -> Option<&'static Self> {
        TABLE.iter().find(|claims| claims.id == id)
    }
}

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
            budgets: Budgets {
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
            },
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

    /// The check of the entry that `info` describes; `None` if the checker cannot tell.
    pub fn spec(&self, info: &Info) -> Option<Result<CheckSpec, Unfit>> {
        if matches!(self.expected, Expected::Unchecked(_)) {
            return None;
        }
        let setup = self.setup(info);
        let clients = match self.clients {
            Some((first, end)) => Ok(first..end),
            None => crate::clients(info.id, &setup)?,
        };
        let clients = match clients {
            Ok(clients) => clients,
            Err(unfit) => return Some(Err(unfit)),
        };
        let mut spec = CheckSpec::new(info, setup, clients);
        spec.requests = self.requests;
        spec.channels = self.channels.unwrap_or(spec.channels);
        spec.timers = self.timers.unwrap_or(spec.timers);
        spec.budgets = self.budgets;
        spec.properties = self.properties.to_vec();
        if let Size::Bounded(depth) = self.size {
            spec.limits.depth = Some(depth);
        }
        Some(Ok(spec))
    }

    /// The make-up of the system.
    fn setup(&self, info: &Info) -> Setup {
        let topology = match (self.shape, info.model.links) {
            (Some(name), _) => Topology::named(name, self.nodes).expect("the table names shapes"),
            (None, links) => Topology::of(links, self.nodes),
        };
        let setup = Setup::new(topology);
        self.options.iter().fold(setup, |setup, (name, value)| setup.with(name, value))
    }
}

/// The entries of the families whose claims are checked, and of their properties those that they
/// promise, disclaim or, as mutants, break.
pub fn owed() -> impl Iterator<Item = (&'static Info, Vec<Property>, Vec<Property>)> {
    let checked = |info: &&Info| ["mutex", "election", "fd"].contains(&info.family());
    catalogue::infos().filter(checked).map(|info| {
        let mut fails: Vec<Property> = info.fails.iter().map(|(property, _)| *property).collect();
        fails.extend(info.mutant.map(|mutant| mutant.breaks));
        fails.sort_unstable();
        fails.dedup();
        (info, info.holds.to_vec(), fails)
    })
}
