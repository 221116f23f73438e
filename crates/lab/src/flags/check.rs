//! The flags of a check.

use conclave_check::{Budgets, CheckSpec, Limits, Requests, Timers};
use conclave_protocol::{Info, Property, Setup};
use conclave_sim::RunSpec;
use serde::{Deserialize, Serialize};

use super::system::topology;
use super::{Attributes, Files, Flag, Nodes, Order, Setting, Size, differing};
use crate::Refusal;
use crate::check::{chosen, default_spec};

/// What a check depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct CheckFlags {
    /// How many nodes.
    pub nodes: u32,
    /// How often each application asks.
    pub requests: Requests,
    /// Whose applications ask; by default all that may.
    pub clients: Option<Nodes>,
    /// Who is linked with whom: the name of a shape or of one of the [`files`](Self::files); by
    /// default what the algorithm needs.
    pub topology: Option<String>,
    /// What makes each node a good leader, beside its id.
    pub attributes: Option<Attributes>,
    /// Options of the algorithm.
    pub set: Vec<Setting>,
    /// Whether messages of one link keep their order; by default as the algorithm's model says.
    pub channels: Option<Order>,
    /// When timers run out; by default as the algorithm's model says.
    pub timers: Option<Timers>,
    /// Whether no node is told of crashes, even if the algorithm relies on a failure detector.
    pub no_detector: bool,

    /// At most so many crashes.
    pub crashes: u8,
    /// At most so many recoveries, with what was saved.
    pub recoveries: u8,
    /// At most so many recoveries with everything forgotten.
    pub amnesias: u8,
    /// Which nodes may crash; by default all.
    pub mortal: Option<Nodes>,
    /// Whether nodes may also crash in the middle of a step, some of its messages having left.
    pub mid_step: bool,
    /// At most so many messages are lost.
    pub losses: u8,
    /// At most so many messages arrive once more.
    pub repeats: u8,
    /// The network falls apart at most so often.
    pub partitions: u8,
    /// At most so many live nodes are suspected, each for a while.
    pub suspicions: u8,
    /// At most so many nodes ask to become members.
    pub joins: u8,
    /// At most so many nodes ask to leave the group.
    pub leaves: u8,
    /// Timers run out at most so often in all; by default as often as they like.
    pub timer_budget: Option<u8>,
    /// Whether to check even if that breaks an assumption of the algorithm.
    pub beyond_model: bool,

    /// What has to hold; by default all that the algorithm promises, and what a mutant breaks.
    pub property: Vec<Property>,
    /// Whether to find the fewest and the most messages per entry, over all runs.
    pub count: bool,

    /// Whether to explore every order of events, even those that cannot be told apart.
    pub no_reduction: bool,
    /// Whether to take states for one that differ only in the nodes' names.
    pub symmetry: bool,
    /// How many threads search; by default one.
    pub threads: Option<u16>,
    /// Stop when the search would take more memory.
    pub memory: Size,
    /// Stop at runs of so many steps.
    pub depth: Option<u32>,
    /// Stop after so many states.
    pub states: Option<u64>,

    /// What the files contain that other flags name. This is no flag: the command line reads them.
    pub files: Files,
}

impl Default for CheckFlags {
    fn default() -> Self {
        Self {
            nodes: 3,
            requests: Requests::AtMost(1),
            clients: None,
            topology: None,
            attributes: None,
            set: Vec::new(),
            channels: None,
            timers: None,
            no_detector: false,
            crashes: 0,
            recoveries: 0,
            amnesias: 0,
            mortal: None,
            mid_step: false,
            losses: 0,
            repeats: 0,
            partitions: 0,
            suspicions: 0,
            joins: 0,
            leaves: 0,
            timer_budget: None,
            beyond_model: false,
            property: Vec::new(),
            count: false,
            no_reduction: false,
            symmetry: false,
            threads: None,
            memory: Size(Limits::default().memory),
            depth: None,
            states: None,
            files: Files::new(),
        }
    }
}

impl CheckFlags {
    /// The check that the flags describe. Everything it names exists; whether it stays within the
    /// algorithm's model is another question.
    pub fn spec(&self, info: &Info) -> Result<CheckSpec, Refusal> {
        let topology = topology(info, self.topology.as_deref(), self.nodes, 0, &self.files)?;
        let mut setup = Setup::new(topology);
        if let Some(attributes) = &self.attributes {
            setup.attributes = attributes.of(self.nodes, 0);
        }
        for Setting { name, value } in &self.set {
            setup.options.insert(name.clone(), value.clone());
        }
        // What a system needs to be like is the same as in a run.
        RunSpec::new(info, setup.clone()).validate(info)?;
        let mut spec = default_spec(info, setup)?;
        if let Some(Nodes(clients)) = &self.clients {
            if clients.end > self.nodes {
                let last = self.nodes - 1;
                let text = format!("--clients: there are only nodes p0 to p{last}");
                return Err(Refusal::Impossible(text));
            }
            spec.clients = clients.clone();
        }
        if let Some(Nodes(mortal)) = &self.mortal {
            spec.mortal = mortal.clone();
        }
        spec.requests = self.requests;
        spec.channels = self.channels.map_or(spec.channels, Into::into);
        spec.timers = self.timers.unwrap_or(spec.timers);
        spec.detector &= !self.no_detector;
        spec.budgets = self.budgets()?;
        if !self.property.is_empty() {
            spec.properties = chosen(info, &self.property)?;
        }
        spec.reduction = !self.no_reduction;
        spec.symmetry = self.symmetry;
        spec.count = self.count;
        spec.limits = self.limits();
        if self.count && self.requests != Requests::AtMost(1) {
            let text =
                "--count: messages are counted where each node asks once; leave out --requests";
            return Err(Refusal::Usage(text.to_owned()));
        }
        Ok(spec)
    }

    /// The check that the flags describe, refused if it breaks an assumption of the algorithm and
    /// nothing says that it may.
    pub fn allowed(&self, info: &'static Info) -> Result<CheckSpec, Refusal> {
        let spec = self.spec(info)?;
        let beyond = spec.beyond(info);
        if beyond.is_empty() || self.beyond_model {
            return Ok(spec);
        }
        Err(Refusal::BeyondModel { id: info.id, beyond })
    }

    /// When to give up, and how hard to try.
    pub fn limits(&self) -> Limits {
        Limits {
            threads: self.threads.map_or(1, usize::from),
            memory: self.memory.0,
            depth: self.depth,
            states: self.states,
        }
    }

    /// The flags that differ from the defaults, for a command that describes the same check.
    pub fn flags(&self) -> Vec<Flag> {
        differing(&Self { files: Files::new(), ..self.clone() })
    }

    fn budgets(&self) -> Result<Budgets, Refusal> {
        let boots = u16::from(self.recoveries) + u16::from(self.amnesias);
        let useless = [
            (boots > u16::from(self.crashes), "there are more recoveries than --crashes"),
            (
                self.mid_step && self.crashes == 0,
                "--mid-step is about --crashes, and there are none",
            ),
            (
                self.no_detector && self.crashes == 0,
                "--no-detector is about --crashes, and there are none",
            ),
        ];
        if let Some((_, why)) = useless.into_iter().find(|(is, _)| *is) {
            return Err(Refusal::Usage(why.to_owned()));
        }
        Ok(Budgets {
            crashes: self.crashes,
            recoveries: self.recoveries,
            amnesias: self.amnesias,
            losses: self.losses,
            repeats: self.repeats,
            partitions: self.partitions,
            suspicions: self.suspicions,
            joins: self.joins,
            leaves: self.leaves,
            timers: self.timer_budget,
            mid_step: self.mid_step,
        })
    }
}
