//! The cases that theory speaks of, as plain data: how to bring one about, what of it counts, and
//! which runs are examples of it.
//!
//! The figures themselves are those of `theory.json`, which has a row for each case. A case stands
//! beside the entry that it is about; drivers turn each [`Run`] into one of theirs.

mod given;
mod seen;

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::given::{
    CROWDS, DISTANCES, Given, QUORUMS, REPLICAS, RING_DISTANCES, SIZES, Shapes, at,
};
pub use self::seen::{Calls, Fits, Seen, Values};
use crate::{NodeId, Setup, Time};

/// `T`, the unit of the theory.
pub const T: Duration = Duration::from_millis(1);

/// Parameters to run a case with, beside those that its row works out.
pub type Further = &'static [&'static [(&'static str, u32)]];

/// A case: the row that says what it costs, how to bring it about, and how to recognize it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The algorithm that the row is about, if it is not the entry's own.
    pub of: Option<&'static str>,
    /// The name of the row.
    pub scenario: &'static str,
    /// Further parameters to run it with.
    pub further: Further,
    /// Every way to bring it about.
    pub plan: fn(&Given) -> Vec<Experiment>,
    /// Quantities that are numbers of messages of one name, each with that name.
    pub counts: &'static [(&'static str, &'static str)],
    /// Which runs are examples of it.
    pub fits: &'static [Fits],
    /// Why it is not brought about, if it is not.
    pub left_out: Option<&'static str>,
}

/// One way to bring a case about, and what of it counts.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Runs to try, until one is as [`provided`](Self::provided).
    pub runs: Vec<Run>,
    /// What makes a run an example of the case.
    pub provided: Provided,
    /// Which messages and requests the figures are about.
    pub scope: Scope,
    /// Whether nothing but the request itself sets off what leads to the entry, so that the time
    /// to enter is the length of a causal chain.
    pub causal: bool,
}

/// A run: of what system, who asks when, and what goes wrong.
#[derive(Clone, Debug)]
pub struct Run {
    /// The make-up of the system.
    pub setup: Setup,
    /// Who asks when.
    pub asks: Asks,
    /// How long a client stays inside that does not say so itself; not set if that varies.
    pub stay: Option<Duration>,
    /// Who crashes when.
    pub crashes: Vec<(NodeId, Time)>,
    /// How long messages take.
    pub pace: Pace,
    /// What chance is drawn from.
    pub seed: u64,
    /// Whether it ends soon after every request has been served; else it goes on until nothing is
    /// left to happen.
    pub served: bool,
    /// When it ends at the latest.
    pub until: Option<Time>,
    /// Whether the failure detector that the model asks for tells of crashes.
    pub detector: bool,
}

/// Who asks when.
#[derive(Clone, Debug)]
pub enum Asks {
    /// At these moments.
    Planned(Vec<Ask>),
    /// Each client asks again when it has left and thought.
    Again {
        /// The clients.
        clients: Range<u32>,
        /// How often each asks, if there is an end to it.
        rounds: Option<u32>,
        /// The longest that one thinks.
        think: Duration,
    },
    /// Requests come to the clients whether or not they have been served.
    Open {
        /// The clients.
        clients: Range<u32>,
    },
}

/// One planned request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Who asks.
    pub node: NodeId,
    /// When.
    pub at: Time,
    /// How long it stays inside, if not the usual time.
    pub hold: Option<Duration>,
}

/// How long messages take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each takes `T`.
    Unit,
    /// One after the other over one medium, each of them `T`.
    Serial,
    /// Up to `T`, by chance.
    Varying,
}

/// What makes a run an example of a case that involves chance.
#[derive(Clone, Copy, Debug)]
pub enum Provided {
    /// Every run is one.
    Always,
    /// Every request was served, and `node` sent and received so many messages.
    Messages {
        /// The node.
        node: NodeId,
        /// How the name of those begins that it sent, and how many there were.
        sent: (&'static str, u64),
        /// The same of those that it received.
        received: (&'static str, u64),
    },
}

/// Which messages and requests of a run the figures are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every message; delays are those of the first to enter.
    Run,
    /// The same on a medium that multicasts in one transmission.
    Transmissions,
    /// One request, by its place in the order of asking.
    Entry(usize),
    /// Each request, all alike.
    EachEntry,
    /// All requests of one node.
    Node(NodeId),
    /// What is sent between the first request and the entry it leads to.
    WhileWaiting,
    /// The mean over all entries, which the figure bounds from above.
    AtMost,
    /// What arrives, but for acknowledgements, until nothing is on its way any more.
    Arrivals,
    /// What is sent when something has become true of the whole system.
    AfterFact,
}

/// What the figures of a row are about, as far as a run is an example of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The only request of the run.
    Lone,
    /// The same, on a medium that multicasts in one transmission.
    Transmissions,
    /// The run as a whole, in which all clients ask at once.
    Burst,
    /// The messages of each entry, whatever the load.
    Each,
    /// The mean of the messages per entry, which is no more than this.
    AtMost,
    /// An election.
    Election,
}

impl Case {
    /// The case called `scenario` of the entry's own row, with further parameters, brought about
    /// so; no run is taken for an example of it.
    pub const fn new(
        scenario: &'static str,
        further: Further,
        plan: fn(&Given) -> Vec<Experiment>,
    ) -> Self {
        Self { of: None, scenario, further, plan, counts: &[], fits: &[], left_out: None }
    }

    /// A case that the row of another algorithm is about, of which runs of this one are examples.
    pub const fn of(id: &'static str, scenario: &'static str) -> Self {
        Self { of: Some(id), ..Self::new(scenario, &[], |_| Vec::new()) }
    }

    /// A case that no run bears out, for this reason.
    pub const fn left_out(scenario: &'static str, why: &'static str) -> Self {
        Self { left_out: Some(why), ..Self::new(scenario, &[], |_| Vec::new()) }
    }

    /// Quantities that are numbers of messages of one name.
    #[must_use]
    pub const fn counts(self, counts: &'static [(&'static str, &'static str)]) -> Self {
        Self { counts, ..self }
    }

    /// Which runs are examples of it.
    #[must_use]
    pub const fn fits(self, fits: &'static [Fits]) -> Self {
        Self { fits, ..self }
    }
}

impl Experiment {
    /// A run, about all of it.
    pub fn of(run: Run) -> Self {
        let runs = vec![run];
        Self { runs, provided: Provided::Always, scope: Scope::Run, causal: false }
    }

    /// The same, about this part of it.
    #[must_use]
    pub fn about(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The same, where more than the request itself may set off what leads to the entry.
    #[must_use]
    pub fn not_causal(self) -> Self {
        Self { causal: false, ..self }
    }

    /// The same over one medium for all messages.
    #[must_use]
    pub fn serial(mut self) -> Self {
        for run in &mut self.runs {
            run.pace = Pace::Serial;
        }
        self.not_causal()
    }

    /// About all that arrives, however long it takes.
    #[must_use]
    pub fn whole(mut self) -> Self {
        for run in &mut self.runs {
            run.served = false;
        }
        self.about(Scope::Arrivals)
    }
}

impl Run {
    /// A run with unit delays in which nothing goes wrong, until the requests are served.
    pub fn new(setup: Setup, asks: Asks, stay: Option<Duration>) -> Self {
        Self {
            setup,
            asks,
            stay,
            crashes: Vec::new(),
            pace: Pace::Unit,
            seed: 0,
            served: true,
            until: None,
            detector: true,
        }
    }
}
