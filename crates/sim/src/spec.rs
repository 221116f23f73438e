use std::time::Duration;

use conclave_protocol::{
    Action, Channels, Crashes, Decision, Detector, Family, Info, Links, NodeId, Setup, Time,
    Timing, Topology, Unfit,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Arrivals, Delay, Delays, Fault, Faults, PlannedFault, Rate, Spread, Workload};

/// Everything a run depends on: the same specification gives the same run, event by event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The id of the algorithm, such as `mutex/ricart-agrawala`.
    pub algorithm: String,
    /// The make-up of the system.
    pub setup: Setup,
    /// What all chance in the run is drawn from.
    pub seed: u64,
    /// How long messages take.
    pub delays: Delays,
    /// Whether messages of one link keep their order.
    pub channels: Channels,
    /// Whether the algorithm runs over acknowledged, numbered links of its own
    /// ([`Reliable`](conclave_protocol::Reliable)).
    #[serde(default)]
    pub reliable: bool,
    /// What goes wrong.
    pub faults: Faults,
    /// How soon every live node is told of a crash or a recovery, if a perfect failure detector
    /// watches.
    pub detector: Option<Duration>,
    /// What the applications do.
    pub workload: Workload,
    /// The run ends when every request has been served and so much time has passed since; for
    /// algorithms that never come to rest by themselves.
    pub linger: Option<Duration>,
    /// It ends at this moment at the latest …
    pub until: Time,
    /// … or after so many events.
    pub events: u64,
    /// What is recorded.
    pub tracing: Tracing,
    /// If there are any, the run follows these decisions, each at its time or one `T` after the one
    /// before. Nothing happens by chance, by plan or by itself then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Vec<Decision>>,
    /// What comes after the last of them.
    #[serde(default, skip_serializing_if = "Then::is_stop")]
    pub then: Then,
}

/// What comes after the last decision of a run that follows some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Then {
    /// The run ends with it. Of the rest of the specification, only the make-up of the system and
    /// the links count.
    #[default]
    Stop,
    /// The run goes on by delays, timers, workload, faults and chance, up to its limits: what was
    /// due before the last decision happens at once, if it has not been decided about. If the
    /// decisions are the beginning of a [recorded](crate::record()) run of the same specification,
    /// it goes on as that run did; only if they end between faults that are planned for one moment,
    /// some of these may be taken for done.
    Continue,
}

impl Then {
    fn is_stop(&self) -> bool {
        *self == Self::Stop
    }
}

/// How much of a run is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tracing {
    /// Nothing but how many events there were.
    Off,
    /// How many messages of each name were sent, in no memory to speak of.
    Counts,
    /// Every event, in 32 bytes, with Lamport clocks.
    #[default]
    Events,
    /// Every event, and the size of each message.
    Sizes,
    /// Every event, and what every message, request and state said.
    Full,
}

/// Why a run cannot be had.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SpecError {
    /// The algorithm does not run in such a system.
    #[error("{0}")]
    Unfit(#[from] Unfit),
    /// A node is named that is not part of the system.
    #[error("{what} names {node}, but there are only nodes p0 to p{}", .nodes - 1)]
    NoSuchNode {
        /// Where it is named.
        what: &'static str,
        /// The node.
        node: NodeId,
        /// How many there are.
        nodes: u32,
    },
    /// There are no nodes, or more than there is room for.
    #[error("a system has 1 to {} nodes, not {nodes}", Topology::MOST_NODES)]
    BadSize {
        /// How many there would be.
        nodes: u32,
    },
    /// A span of time that ends before it begins.
    #[error("{what} cannot be between {least:?} and {most:?}: the shorter one comes first")]
    BadSpread {
        /// What is to be drawn from it.
        what: &'static str,
        /// The first.
        least: Duration,
        /// The second.
        most: Duration,
    },
    /// A clock that stands still or runs backwards.
    #[error("clocks cannot be off by {skew} parts in a million: it has to be less than a million")]
    BadSkew {
        /// By how much.
        skew: u32,
    },
    /// A delay matrix has to have a row and a column for each node.
    #[error("the delay matrix must have {nodes} rows of {nodes} delays each")]
    BadMatrix {
        /// How many nodes there are.
        nodes: u32,
    },
    /// An option is set that the algorithm does not have.
    #[error("{algorithm} has no option {name:?}{}", if .known.is_empty() { "; it has none".to_owned() } else { format!("; it has {}", .known.join(", ")) })]
    NoSuchOption {
        /// The algorithm.
        algorithm: &'static str,
        /// The option.
        name: String,
        /// Those it has.
        known: Vec<&'static str>,
    },
    /// The algorithm needs another topology.
    #[error("{algorithm} needs {needs}, not a {shape}")]
    WrongTopology {
        /// The algorithm.
        algorithm: &'static str,
        /// What would do.
        needs: &'static str,
        /// What was given.
        shape: &'static str,
    },
    /// A decision that cannot be carried out.
    #[error("decision {number} makes no sense: {what}, but {why}")]
    Senseless {
        /// Which, counted from 1.
        number: usize,
        /// What it says.
        what: String,
        /// Why that cannot be.
        why: String,
    },
}

/// How soon a failure detector suspects who has crashed: after a round trip.
fn detection(setup: &Setup) -> Duration {
    setup.delay * 2 + setup.processing
}

/// A way in which a run goes beyond what the algorithm assumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beyond(pub String);

impl RunSpec {
    /// A run of the algorithm in the given system with everything as its model wants it: unit
    /// delays, no faults, no requests, until every request is served and the system has settled.
    pub fn new(info: &Info, setup: Setup) -> Self {
        let delay = setup.delay;
        let rounds = (Family::of(info).settles)(setup.n());
        Self {
            algorithm: info.id.to_owned(),
            delays: Delay::Constant(delay).into(),
            channels: info.model.channels,
            reliable: false,
            detector: match info.model.detector {
                Detector::None => None,
                Detector::Perfect | Detector::Eventual => Some(detection(&setup)),
            },
            setup,
            seed: 0,
            faults: Faults::none(),
            workload: Workload::idle(),
            linger: Some(delay.saturating_mul(rounds.saturating_add(20))),
            until: Time::MAX,
            events: u64::MAX,
            tracing: Tracing::Events,
            decisions: None,
            then: Then::Stop,
        }
    }

    /// The same without anything that happens by itself, as runs that follow decisions are.
    pub(crate) fn left_alone(&self) -> Self {
        Self {
            delays: Delay::Constant(self.setup.delay).into(),
            faults: Faults::none(),
            detector: None,
            workload: Workload::idle(),
            linger: None,
            until: Time::MAX,
            events: u64::MAX,
            ..self.clone()
        }
    }

    /// A run of the usual kind to which the same happens as is decided, as far as models have
    /// anything to say about it.
    fn with_planned(&self, decisions: &[Decision]) -> Self {
        let mut spec = Self {
            channels: Channels::Fifo,
            detector: Some(detection(&self.setup)),
            decisions: None,
            ..self.left_alone()
        };
        let mut at = Time::ZERO;
        for Decision { what, crash_after, lost, at: when, .. } in decisions {
            if !lost.is_empty() {
                spec.faults.loss = 1;
            }
            at = when.unwrap_or(match what {
                Action::Boot(_) => at,
                _ => at + self.setup.delay,
            });
            match what {
                Action::Lose { .. } => spec.faults.loss = 1,
                Action::Repeat { .. } => spec.faults.duplication = 1,
                Action::Deliver { place: 1.., .. } => spec.channels = Channels::Reliable,
                _ => {}
            }
            let crashed = what.actor().filter(|_| crash_after.is_some()).map(Fault::Crash);
            let actions = Fault::of(what).into_iter().chain(crashed);
            spec.faults.plan.extend(actions.map(|action| PlannedFault { at, action }));
        }
        // A pause that has not ended yet when the decisions end may end later.
        let resumes = self.setup.topology.nodes().map(Fault::Resume);
        spec.faults.plan.extend(resumes.map(|action| PlannedFault { at, action }));
        spec
    }

    /// Checks that everything the specification names exists, before anything runs.
    pub fn validate(&self, info: &Info) -> Result<(), SpecError> {
        let n = self.setup.n();
        if n == 0 || n > Topology::MOST_NODES {
            return Err(SpecError::BadSize { nodes: n });
        }
        if self.faults.skew >= 1_000_000 {
            return Err(SpecError::BadSkew { skew: self.faults.skew });
        }
        if let Delay::Uniform(least, most) = self.delays.model
            && least > most
        {
            return Err(SpecError::BadSpread { what: "the delay", least, most });
        }
        let mut spreads = vec![("the time inside", self.workload.hold)];
        if let Arrivals::Closed { first, think, .. } = self.workload.arrivals {
            spreads.extend([("the first pause", first), ("the pause", think)]);
        }
        if let Some(&(what, Spread { least, most })) =
            spreads.iter().find(|(_, spread)| spread.least > spread.most)
        {
            return Err(SpecError::BadSpread { what, least, most });
        }
        let exists = |what, node: NodeId| {
            if node.0 < n { Ok(()) } else { Err(SpecError::NoSuchNode { what, node, nodes: n }) }
        };
        for happening in &self.faults.plan {
            for node in happening.action.nodes() {
                exists("a fault", node)?;
            }
        }
        for link in &self.delays.links {
            exists("a link", link.from)?;
            exists("a link", link.to)?;
        }
        for node in self.workload.clients() {
            exists("the workload", node)?;
        }
        if let Delay::Matrix(rows) = &self.delays.model
            && (rows.len() != n as usize || rows.iter().any(|row| row.len() != n as usize))
        {
            return Err(SpecError::BadMatrix { nodes: n });
        }
        let topology = &self.setup.topology;
        if let Err(needs) = topology.suits(info.model.links) {
            let (algorithm, shape) = (info.id, topology.shape());
            return Err(SpecError::WrongTopology { algorithm, needs, shape });
        }
        let known: Vec<_> = info.options.iter().map(|option| option.name).collect();
        match self.setup.options.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                Err(SpecError::NoSuchOption { algorithm: info.id, name: name.clone(), known })
            }
            None => Ok(()),
        }
    }

    /// How the run goes beyond what the algorithm assumes; empty if it does not.
    pub fn beyond(&self, info: &Info) -> Vec<Beyond> {
        if let Some(decisions) = &self.decisions {
            let mut beyond = self.with_planned(decisions).beyond(info);
            if self.then == Then::Continue {
                let later = Self { decisions: None, ..self.clone() }.beyond(info);
                beyond.extend(
                    later.into_iter().filter(|it| !beyond.contains(it)).collect::<Vec<_>>(),
                );
            }
            return beyond;
        }
        let model = &info.model;
        let mut beyond = Vec::new();
        let mut note = |text: String| beyond.push(Beyond(text));
        // Numbered and acknowledged links make up for what the network does to messages.
        if !self.reliable {
            if model.channels == Channels::Fifo && self.channels != Channels::Fifo {
                note("messages may overtake each other, and it needs FIFO channels".into());
            }
            let lossy = self.faults.loss > 0 || self.faults.duplication > 0;
            if model.channels != Channels::Lossy && lossy {
                note("messages are lost or repeated, and it needs reliable channels".into());
            }
        }
        if model.links == Links::Directed && !self.setup.topology.is_strongly_connected() {
            note("some node cannot reach all others, and it needs that".into());
        }
        if model.timing == Timing::Synchronous {
            let late = self.delays.bound().is_none_or(|bound| bound > self.setup.delay);
            if late {
                note(format!(
                    "messages may take longer than the {:?} it relies on",
                    self.setup.delay
                ));
            }
            if self.reliable {
                note("resending takes longer than the delay it relies on".into());
            }
            if self.faults.skew > 0 {
                note("clocks run fast or slow, and it relies on them".into());
            }
        }
        let crashes = |action: &Fault| matches!(action, Fault::Crash(_) | Fault::Reset(_));
        if model.detector != Detector::None
            && self.faults.plan.iter().any(|happening| crashes(&happening.action))
        {
            let promised = detection(&self.setup);
            match self.detector {
                None => note("nodes crash and no failure detector says so".into()),
                Some(delay) if model.timing == Timing::Synchronous && delay > promised => note(
                    format!("the failure detector takes {delay:?}, and it relies on {promised:?}"),
                ),
                Some(_) => {}
            }
        }
        let Faults { crashes, pauses, suspicions, .. } = &self.faults;
        match crashes {
            Some(_) if model.crashes == Crashes::None => {
                note("nodes crash at random, and it allows for no crashes".into());
            }
            Some(Rate { lasting: Some(_), .. }) if model.crashes < Crashes::Recover => {
                note("crashed nodes recover, and it allows for no recovery".into());
            }
            _ => {}
        }
        if pauses.is_some_and(|rate| rate.lasting.is_none()) {
            note("nodes pause for ever, which is a crash".into());
        } else if pauses.is_some() && model.timing == Timing::Synchronous {
            note("nodes pause at random, and it is synchronous".into());
        }
        if suspicions.is_some() && model.detector == Detector::Perfect {
            note("nodes are wrongly suspected, and it allows for no wrong suspicions".into());
        }
        for happening in &self.faults.plan {
            let down = |peer| self.faults.is_down(peer, happening.at);
            let excess = match &happening.action {
                Fault::Crash(_) if model.crashes == Crashes::None => Some("no crashes"),
                Fault::Recover(_) if model.crashes < Crashes::Recover => Some("no recovery"),
                Fault::RecoverEmpty(_) | Fault::Reset(_) if model.crashes < Crashes::Amnesia => {
                    Some("no amnesia")
                }
                Fault::Partition(_) if !model.partitions => Some("no partitions"),
                Fault::Lose { .. } if model.channels != Channels::Lossy && !self.reliable => {
                    Some("no lost messages")
                }
                Fault::Pause(_) if model.timing == Timing::Synchronous => {
                    Some("no pauses, being synchronous")
                }
                Fault::Pause(node) if !self.faults.ends_pause(*node, happening.at) => {
                    Some("no pause without end")
                }
                Fault::Suspect { peer, .. }
                    if model.detector == Detector::Perfect && !down(*peer) =>
                {
                    Some("no wrong suspicions")
                }
                Fault::Trust { peer, .. } if model.detector != Detector::None && down(*peer) => {
                    Some("no trust in nodes that are down")
                }
                _ => None,
            };
            if let Some(excess) = excess {
                let PlannedFault { at, action } = happening;
                note(format!("{action} at {at:?}, and it allows for {excess}"));
            }
        }
        beyond
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocol::Model;

    use super::*;

    const T: Duration = Duration::from_millis(1);

    fn info(model: Model) -> Info {
        Info {
            id: "mutex/made-up",
            title: "",
            summary: "",
            source: "",
            text: "",
            model,
            holds: &[],
            fails: &[],
            options: &[],
            mutant: None,
            ..Info::EMPTY
        }
    }

    fn spec(model: Model) -> RunSpec {
        RunSpec::new(&info(model), Setup::new(Topology::complete(3)))
    }

    /// How a run with the given change goes beyond the model.
    fn beyond(model: Model, change: impl FnOnce(&mut RunSpec)) -> String {
        let mut spec = spec(model);
        assert_eq!(spec.beyond(&info(model)), []);
        change(&mut spec);
        let beyond: Vec<String> = spec.beyond(&info(model)).into_iter().map(|it| it.0).collect();
        beyond.join("; ")
    }

    fn at(t: u32) -> Time {
        Time::ZERO + T * t
    }

    const SYNCHRONOUS: Model = Model {
        timing: Timing::Synchronous,
        crashes: Crashes::Recover,
        detector: Detector::Perfect,
        ..Model::FIFO
    };

    #[test]
    fn a_model_says_what_channels_and_delays_may_do() {
        let reorder = |spec: &mut RunSpec| spec.channels = Channels::Reliable;
        assert!(beyond(Model::FIFO, reorder).contains("overtake"));
        assert!(beyond(Model::FIFO, |spec| spec.faults.loss = 1).contains("lost"));
        let repaired = |spec: &mut RunSpec| (spec.faults.loss, spec.reliable) = (1, true);
        assert_eq!(beyond(Model::FIFO, repaired), "");
        let slow = |spec: &mut RunSpec| spec.delays = Delay::Constant(T * 2).into();
        assert_eq!(beyond(Model::FIFO, slow), "");
        assert!(beyond(SYNCHRONOUS, slow).contains("longer than the 1ms"));
        assert_eq!(beyond(Model::FIFO, |spec| spec.faults.skew = 5), "");
        assert!(beyond(SYNCHRONOUS, |spec| spec.faults.skew = 5).contains("clocks"));
    }

    #[test]
    fn a_detector_has_to_keep_its_word() {
        let p = NodeId;
        let with = |model, action| {
            beyond(model, |spec| spec.faults = spec.faults.clone().with(at(5), action))
        };
        assert_eq!(with(SYNCHRONOUS, Fault::Crash(p(1))), "");
        assert!(with(Model::FIFO, Fault::Crash(p(1))).contains("no crashes"));
        let suspect = Fault::Suspect { node: p(0), peer: p(1) };
        let trust = Fault::Trust { node: p(0), peer: p(1) };
        assert!(with(SYNCHRONOUS, suspect.clone()).contains("no wrong suspicions"));
        assert_eq!(with(SYNCHRONOUS, trust.clone()), "");
        let crashed = |spec: &mut RunSpec| {
            spec.faults = Faults::none().with(at(3), Fault::Crash(p(1)));
        };
        let after = |action| {
            beyond(SYNCHRONOUS, |spec| {
                crashed(spec);
                spec.faults = spec.faults.clone().with(at(5), action);
            })
        };
        assert_eq!(after(suspect), "");
        assert!(after(trust).contains("no trust in nodes that are down"));
        let off = |spec: &mut RunSpec| spec.detector = None;
        assert_eq!(beyond(SYNCHRONOUS, off), "");
        let silent = |spec: &mut RunSpec| {
            crashed(spec);
            off(spec);
        };
        assert!(beyond(SYNCHRONOUS, silent).contains("no failure detector says so"));
        let late = |spec: &mut RunSpec| {
            crashed(spec);
            spec.detector = Some(T * 3);
        };
        assert!(beyond(SYNCHRONOUS, late).contains("it relies on 2ms"));
    }

    #[test]
    fn a_pause_has_to_end() {
        let pause = |spec: &mut RunSpec| {
            spec.faults = Faults::none().with(at(3), Fault::Pause(NodeId(1)));
        };
        assert!(beyond(Model::FIFO, pause).contains("no pause without end"));
        let short = |spec: &mut RunSpec| {
            pause(spec);
            spec.faults = spec.faults.clone().with(at(5), Fault::Resume(NodeId(1)));
        };
        assert_eq!(beyond(Model::FIFO, short), "");
        assert!(beyond(SYNCHRONOUS, short).contains("being synchronous"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |change: fn(&mut RunSpec)| {
            let mut spec = spec(Model::FIFO);
            assert_eq!(spec.validate(&info(Model::FIFO)), Ok(()));
            change(&mut spec);
            spec.validate(&info(Model::FIFO)).unwrap_err().to_string()
        };
        let empty = |spec: &mut RunSpec| spec.setup.topology = Topology::complete(0);
        assert_eq!(refused(empty), "a system has 1 to 1048576 nodes, not 0");
        let huge = |spec: &mut RunSpec| spec.setup.topology = Topology::complete(1 << 21);
        assert!(refused(huge).contains("not 2097152"));
        assert!(refused(|spec| spec.faults.skew = 1_000_000).contains("less than a million"));
        let backwards = |spec: &mut RunSpec| spec.delays = Delay::Uniform(T * 2, T).into();
        assert!(refused(backwards).contains("the delay cannot be between 2ms and 1ms"));
        let hold = |spec: &mut RunSpec| spec.workload.hold = Spread::between(T * 2, T);
        assert!(refused(hold).contains("the time inside"));
        let stranger = |spec: &mut RunSpec| {
            spec.faults = Faults::none().with(at(1), Fault::Crash(NodeId(3)));
        };
        assert!(refused(stranger).contains("p3"));
    }
}
