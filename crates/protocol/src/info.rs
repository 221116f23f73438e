use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::claims::Check;
use crate::theory::Case;
use crate::{Algorithm, Asking, Detecting, Family, NodeId, Setup, Value};

/// The option that says how many may be inside at once.
const UNITS: &str = "units";

/// Something that was written down, to be read as what it was.
pub type Written<'a> = dyn erased_serde::Deserializer<'a> + 'a;

/// The application that something is wrapped around, for a judge who has it run by itself.
#[derive(Clone, Copy, Debug)]
pub struct Bare {
    /// It by itself, in the same set-up.
    pub algorithm: fn() -> &'static dyn Algorithm,
    /// What a notice of a node says of snapshots of it.
    pub recorded: fn(NodeId, &mut Written<'_>) -> Option<Recorded>,
}

/// What is said of a snapshot.
pub enum Recorded {
    /// In this step the node has recorded for the one with this number, before anything else.
    State(u16),
    /// A node's part is finished.
    Part(Part),
}

/// Something that can be written down.
pub type Writable = Box<dyn erased_serde::Serialize>;

/// This as something that can be written down.
pub fn writable(value: impl Value) -> Writable {
    Box::new(value)
}

/// What a snapshot found of a node and of the channels to it.
pub struct Part {
    /// The number of the snapshot.
    pub number: u16,
    /// The node.
    pub node: NodeId,
    /// The state of the application.
    pub state: Writable,
    /// Its running timers, as they print for debugging, each with how long it was set for.
    pub timers: Vec<(String, Duration)>,
    /// What was on its way from each node.
    pub channels: Vec<(NodeId, Vec<Writable>)>,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("node", &self.node).finish_non_exhaustive()
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(number) => f.debug_tuple("State").field(number).finish(),
            Self::Part(part) => f.debug_tuple("Part").field(part).finish(),
        }
    }
}

/// What a notice of this node shows of states, in words; none if it shows nothing of them.
pub type Shows = fn(NodeId, &mut Written<'_>) -> Option<String>;

/// What was written down; none if it was something else.
pub fn read<T: DeserializeOwned>(written: &mut Written<'_>) -> Option<T> {
    erased_serde::deserialize(written).ok()
}

/// What is said about an algorithm, and what it assumes and promises.
///
/// Drivers obey the model: the simulator grants exactly these assumptions unless it is told to
/// break one, and a promise that fails although they were kept is an error.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// As typed on the command line: `mutex/ricart-agrawala`.
    pub id: &'static str,
    /// As printed: `Ricart–Agrawala`.
    pub title: &'static str,
    /// One line for a list.
    pub summary: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// The text of the file that implements it; its module documentation is the explanation.
    pub text: &'static str,
    /// What it assumes.
    pub model: Model,
    /// What is true of every run that keeps the assumptions.
    pub holds: &'static [Property],
    /// What is not, and how it comes about.
    pub fails: &'static [(Property, &'static str)],
    /// What can be set beside the number of nodes and the topology.
    pub options: &'static [Opt],
    /// Set on entries that exist to be refuted.
    pub mutant: Option<Mutant>,
    /// What the model checker finds in small systems.
    pub claims: &'static [Check],
    /// The same in larger ones, which take long; each fits into 4 GiB.
    pub deep: &'static [Check],
    /// The cases that theory knows the costs of.
    pub cases: &'static [Case],
    /// What theory says of it as a failure detector, and what to try with it, if it is one.
    pub detecting: Option<Detecting>,
    /// How many leaders there should be in such a system, where it elects several on purpose to
    /// serve the rest; `None` if there is no telling.
    pub several: Option<fn(&Setup) -> Option<f64>>,
    /// Which applications ask in a run that does not say so, if others do than in its family.
    pub asks: Option<Asking>,
    /// What a notice of a node, as it was [written](Written) down, shows of states, for people to
    /// read.
    pub shows: Option<Shows>,
    /// What it is wrapped around, if that runs by itself, too.
    pub bare: Option<Bare>,
}

impl Info {
    /// An entry without a name that says nothing, for what there is to be filled in.
    pub const EMPTY: Self = Self {
        id: "",
        title: "",
        summary: "",
        source: "",
        text: "",
        model: Model::RELIABLE,
        holds: &[],
        fails: &[],
        options: &[],
        mutant: None,
        claims: &[],
        deep: &[],
        cases: &[],
        detecting: None,
        several: None,
        asks: None,
        shows: None,
        bare: None,
    };

    /// Which applications ask in a run that does not say so.
    pub fn asking(&self) -> Asking {
        self.asks.unwrap_or_else(|| Family::of(self).asking)
    }

    /// What the option `name` is if it is not set; `None` if there is no such option.
    pub fn default_of(&self, name: &str) -> Option<&'static str> {
        self.options.iter().find(|option| option.name == name).map(|option| option.default)
    }

    /// The same as a number.
    pub fn default_number(&self, name: &str) -> Option<f64> {
        self.default_of(name)?.parse().ok()
    }

    /// How many may be inside the critical section at once, in a system of this make-up.
    pub fn places(&self, setup: &Setup) -> u32 {
        let set = setup.options.get(UNITS).map(String::as_str);
        let units = set.or_else(|| self.default_of(UNITS));
        units.and_then(|text| text.parse().ok()).unwrap_or(1)
    }

    /// The family, the part of the id before the slash.
    pub fn family(&self) -> &'static str {
        self.id.split_once('/').map_or(self.id, |(family, _)| family)
    }

    /// Whether it elects several on purpose, each for those who are near it in space or by key.
    pub fn elects_several(&self) -> bool {
        matches!(self.model.links, Links::Space | Links::Keys)
    }

    /// The part of the id after the slash.
    pub fn name(&self) -> &'static str {
        self.id.split_once('/').map_or(self.id, |(_, name)| name)
    }

    /// The idea, the rules and the known failures, from the module documentation of the
    /// algorithm's own file.
    pub fn explanation(&self) -> String {
        let docs = self.text.lines().map_while(|line| line.strip_prefix("//!"));
        docs.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
    }
}

/// What an algorithm assumes of the system it runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// What becomes of messages.
    pub channels: Channels,
    /// What is known about delays.
    pub timing: Timing,
    /// Which crashes it survives.
    pub crashes: Crashes,
    /// Whether its safety survives a partition of the network.
    pub partitions: bool,
    /// The failure detector it relies on.
    pub detector: Detector,
    /// Who talks to whom.
    pub links: Links,
}

impl Model {
    /// The catalogue's default: asynchronous, reliable FIFO channels between every pair, no
    /// faults.
    pub const FIFO: Self = Self {
        channels: Channels::Fifo,
        timing: Timing::Asynchronous,
        crashes: Crashes::None,
        partitions: false,
        detector: Detector::None,
        links: Links::Complete,
    };

    /// As [`FIFO`](Self::FIFO), but messages may overtake each other.
    pub const RELIABLE: Self = Self { channels: Channels::Reliable, ..Self::FIFO };
}

/// What becomes of messages on their way, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Channels {
    /// They may be lost, repeated and reordered.
    Lossy,
    /// Every message arrives once, in any order.
    Reliable,
    /// Every message arrives once, in the order sent on its link.
    Fifo,
}

/// What is known about delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Nothing: safety does not depend on when a timer runs out.
    Asynchronous,
    /// Messages and rules take at most a known time; a timer may rely on it.
    Synchronous,
}

/// Which crashes an algorithm survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crashes {
    /// None.
    None,
    /// A node may stop for good.
    Stop,
    /// A node may stop and boot again with what it saved.
    Recover,
    /// A node may stop and boot again having forgotten everything.
    Amnesia,
}

/// The failure detector an algorithm relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detector {
    /// None.
    None,
    /// Suspects a node only after it has crashed, and then surely.
    Perfect,
    /// Suspects every crashed node sooner or later, and is wrong only for a while.
    Eventual,
}

/// Who talks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Every node with every other.
    Complete,
    /// Every node with the next.
    Ring,
    /// Along the edges of a tree.
    Tree,
    /// Along the edges of any connected graph.
    Graph,
    /// Along links that may lead one way only; every node reaches every other by them.
    Directed,
    /// Likewise, and every node has a place in space.
    Space,
    /// Every node has a key of a ring of keys, and finds its way to the owner of any key.
    Keys,
}

/// Something that can be set about an algorithm, beside the number of nodes and the topology.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// The name, as in `--set units=2`.
    pub name: &'static str,
    /// What it is when not set.
    pub default: &'static str,
    /// What it means.
    pub help: &'static str,
}

/// An entry that exists to be refuted: which algorithm it spoils, how, and what breaks.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// The id of the sound algorithm.
    pub of: &'static str,
    /// What is wrong.
    pub defect: &'static str,
    /// The property it breaks.
    pub breaks: Property,
}

/// The one list of all properties, each with its name and what it says in words.
macro_rules! properties {
    ($($property:ident $name:literal $meaning:literal;)*) => {
        /// A property of runs. The names are the catalogue's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Property {
            $(#[doc = $meaning] #[serde(rename = $name)] $property,)*
        }

        impl Property {
            /// Every property, in the order of the catalogue.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$property),*];

            /// The catalogue's short name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$property => $name,)*
                }
            }

            /// What it says, in words.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$property => $meaning,)*
                }
            }
        }
    };
}

properties! {
    Exclusion "ME" "never more inside the critical section than it has places";
    NoDeadlock "ND" "if a node waits and none is inside, one enters";
    NoStarvation "NS" "every request is granted";
    FcfsHappenedBefore "FCFS-HB" "a request that happened before another is granted first";
    FcfsTimestamp "FCFS-TS" "requests are granted in the order of their timestamps";
    FenceOrder "FENCE" "every grant's fencing token exceeds those of all earlier grants";
    OneLeader "L1" "at rest, at most one live node takes itself for the leader";
    OneLeaderPerEpoch "L1q" "at most one leader per epoch, at all times";
    LeaderKnown "L2" "every live node comes to know the leader";
    BestLeads "L3" "the leader is the best live node";
    Completeness "COMPLETE" "every crashed node is suspected by every live one in the end";
    Accuracy "ACCURATE" "no live node is suspected";
    Cut "CUT" "no message is received inside the cut of a snapshot and sent outside";
    Channels "CHANNELS" "what is recorded of each channel was sent inside the cut and received outside";
    Sum "SUM" "the parts of a snapshot add up to what all nodes own";
    Done "DONE" "at rest every part of a snapshot is finished, with one marker on each channel";
    Collected "COLLECTED" "at rest every snapshot is at its initiator, whole and once";
    Conserved "CONSERVED" "nodes and channels together own at all times what they owned at first";
    Sound "SOUND" "nothing is reported of the system that is not so";
    Reported "REPORTED" "what has become so for good is reported in the end";
    Restored "RESTORED" "a node that comes back after a crash is restored to the state it crashed in";
    Resumed "RESUMED" "a rollback takes up each node's part of a snapshot as it was recorded";
    Recovers "RECOVERS" "at rest every node that has come back after a crash has been restored";
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Property {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|p| p.name().eq_ignore_ascii_case(name));
        known.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|p| p.name()).collect();
            format!("no property is called {name:?}; there are {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_found_under_its_name() {
        for property in Property::ALL {
            assert_eq!(property.name().parse(), Ok(property));
        }
        assert!("MX".parse::<Property>().unwrap_err().contains("ME, ND, NS"));
    }
}
