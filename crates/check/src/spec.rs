use std::ops::Range;

use conclave_protocol::claims::{Budgets, Requests, Timers};
use conclave_protocol::{
    BoundedCounter, Channels, Crashes, Detector, Info, Links, Property, Setup, Timing, Unfit,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Everything a check depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckSpec {
    /// The id of the algorithm, such as `mutex/ricart-agrawala`.
    pub algorithm: String,
    /// The make-up of the system.
    pub setup: Setup,
    /// The nodes whose applications ask.
    pub clients: Range<u32>,
    /// How often each of them asks.
    pub requests: Requests,
    /// What becomes of messages: in order, or as they come. Loss and repetition are budgets.
    pub channels: Channels,
    /// When timers run out.
    pub timers: Timers,
    /// Whether crashes and recoveries are told to the other nodes: at any time after, or, where
    /// timers wait for messages, once nothing that the node has sent is on its way.
    pub detector: bool,
    /// What may go wrong, how often at most.
    pub budgets: Budgets,
    /// The nodes that may crash.
    pub mortal: Range<u32>,
    /// What has to hold.
    pub properties: Vec<Property>,
    /// How many may be inside at once.
    pub places: u32,
    /// Whether orders that cannot be told apart are explored once. Every state is visited all the
    /// same; what is said of endless runs needs every edge, and turns it off.
    pub reduction: bool,
    /// Whether states that differ only in the nodes' names are explored once.
    pub symmetry: bool,
    /// Whether the messages of each entry are counted, over all runs.
    pub count: bool,
    /// When to give up.
    pub limits: Limits,
}

/// When to give up, and how hard to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// How many threads search.
    pub threads: usize,
    /// How many bytes the search may take.
    pub memory: usize,
    /// How many steps a run may have.
    pub depth: Option<u32>,
    /// How many states may be visited.
    pub states: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { threads: 1, memory: 2 << 30, depth: None, states: None }
    }
}

/// Why there can be no such check.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CheckError {
    /// The algorithm does not run in such a system.
    #[error("{0}")]
    Unfit(#[from] Unfit),
    /// There are no nodes, or more than there is room for.
    #[error("a system to check has 1 to {MOST_NODES} nodes, not {nodes}")]
    BadSize {
        /// How many there would be.
        nodes: u32,
    },
    /// States that differ in names only do not behave alike.
    #[error("{algorithm} is not symmetric: {why}; check it without --symmetry")]
    NotSymmetric {
        /// The algorithm.
        algorithm: String,
        /// What names decide.
        why: String,
    },
    /// Two things were asked for that do not go together.
    #[error("{0}")]
    Contradiction(String),
}

/// As many nodes as fit into the masks that the checker keeps; far more than can be checked.
pub const MOST_NODES: u32 = 16;

/// The order of so many requests is watched, each having a bit of its own.
const MOST_ORDERED: u32 = u64::BITS;

impl CheckSpec {
    /// A check of everything that the algorithm promises, in the given system, within its model
    /// and without faults: each of `clients` asks once.
    pub fn new(info: &Info, setup: Setup, clients: Range<u32>) -> Self {
        let places = info.places(&setup);
        let mut properties = info.holds.to_vec();
        if tokens_repeat(&setup) {
            properties.retain(|property| !is_about_tokens(*property));
        }
        Self {
            algorithm: info.id.to_owned(),
            mortal: 0..setup.n(),
            setup,
            clients,
            requests: Requests::AtMost(1),
            channels: info.model.channels,
            timers: match info.model.timing {
                Timing::Asynchronous => Timers::Anytime,
                Timing::Synchronous => Timers::Quiet,
            },
            detector: info.model.detector != Detector::None,
            budgets: Budgets::default(),
            properties,
            places,
            reduction: true,
            symmetry: false,
            count: false,
            limits: Limits::default(),
        }
    }

    /// How the check goes beyond what the algorithm assumes, in words; empty if it does not.
    pub fn beyond(&self, info: &Info) -> Vec<String> {
        let (model, budgets) = (&info.model, &self.budgets);
        let mut beyond = Vec::new();
        let mut note = |is: bool, what: &str| {
            if is {
                beyond.push(what.to_owned());
            }
        };
        note(
            self.channels < model.channels,
            "messages may overtake each other, and it relies on their order",
        );
        let lossy = model.channels == Channels::Lossy;
        note(budgets.losses > 0 && !lossy, "messages may be lost, and it relies on each arriving");
        note(
            budgets.repeats > 0 && !lossy,
            "messages may be repeated, and it relies on each arriving once",
        );
        note(
            model.links == Links::Directed && !self.setup.topology.is_strongly_connected(),
            "some node cannot reach all others, and it needs that",
        );
        note(budgets.partitions > 0 && !model.partitions, "the network may fall apart");
        note(budgets.crashes > 0 && model.crashes == Crashes::None, "nodes may crash");
        note(
            budgets.recoveries > 0 && model.crashes < Crashes::Recover,
            "nodes may come back after a crash",
        );
        note(
            budgets.amnesias > 0 && model.crashes < Crashes::Amnesia,
            "nodes may forget everything in a crash",
        );
        note(
            budgets.suspicions > 0 && model.detector != Detector::Eventual,
            "live nodes may be suspected",
        );
        note(
            self.timers == Timers::Anytime && model.timing == Timing::Synchronous,
            "timers may run out at any moment, and it relies on time",
        );
        note(
            budgets.crashes > 0 && !self.detector && model.detector != Detector::None,
            "no node is told of crashes",
        );
        beyond
    }

    pub(crate) fn validate(&self) -> Result<(), CheckError> {
        let nodes = self.setup.n();
        if nodes == 0 || nodes > MOST_NODES {
            return Err(CheckError::BadSize { nodes });
        }
        if self.properties.contains(&Property::FcfsHappenedBefore) {
            self.expect_few_requests()?;
        }
        let about_tokens = self.properties.iter().find(|property| is_about_tokens(**property));
        match about_tokens.filter(|_| tokens_repeat(&self.setup)) {
            Some(property) => Err(CheckError::Contradiction(format!(
                "{property} is about the order of fencing tokens, which come again and again with \
                 wrap set: check it without, or other properties"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses to watch the order of more requests than there are bits to know them by.
    fn expect_few_requests(&self) -> Result<(), CheckError> {
        let property = Property::FcfsHappenedBefore;
        let refuse = |why: String| Err(CheckError::Contradiction(why));
        let Some(each) = self.requests.count() else {
            return refuse(format!(
                "{property} compares each request with all that happened before, and there is no \
                 end to these: give a number of requests, or check other properties"
            ));
        };
        let nodes = self.clients.end;
        let requests = u64::from(nodes) * u64::from(each);
        if requests > u64::from(MOST_ORDERED) {
            return refuse(format!(
                "{property} is watched for up to {MOST_ORDERED} requests, and {nodes} nodes with \
                 {each} each make {requests}: check fewer, or other properties"
            ));
        }
        Ok(())
    }
}

/// Whether fencing tokens come again.
fn tokens_repeat(setup: &Setup) -> bool {
    BoundedCounter::of(setup).is_ok_and(BoundedCounter::repeats)
}

fn is_about_tokens(property: Property) -> bool {
    matches!(property, Property::FenceOrder | Property::FcfsTimestamp)
}
