//! The flags of a run.

use std::time::Duration;

use conclave_protocol::{Asking, Family, Info, NodeId, Setup, Time};
use conclave_sim::{
    Arrivals, Ask, Beyond, Delay, Fault, Faults, Outcome, RunSpec, SlowLink, Spread, Workload,
};
use serde::{Deserialize, Serialize};

use super::system::topology;
use super::{
    AskAt, Attributes, DelayModel, DetectorModel, Files, Flag, GroupsWhile, LabelAt, MeanRate,
    NodeAt, NodeWhile, Order, PairAt, Rounds, Setting, Share, Slow, Span, Spans, differing,
};
use crate::{Refusal, askers};

/// What a run depends on. Times are `5ms`, `3T` or a bare number, which means `T`, the longest a
/// message takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct RunFlags {
    /// How many nodes.
    pub nodes: u32,
    /// Who is linked with whom: the name of a shape or of one of the [`files`](Self::files); by
    /// default what the algorithm needs.
    pub topology: Option<String>,
    /// What makes each node a good leader, beside its id.
    pub attributes: Option<Attributes>,
    /// Options of the algorithm.
    pub set: Vec<Setting>,
    /// `T`, the longest a message takes as far as the algorithm may rely on it.
    pub unit: Span,
    /// The longest a node takes to answer, as far as the algorithm may rely on it.
    pub processing: Span,
    /// Which run, of all that chance allows.
    pub seed: u64,

    /// How long messages take; by default `T`.
    pub delay: Option<DelayModel>,
    /// Links slower or faster than that, for good or for a while.
    pub slow: Vec<Slow>,
    /// Whether messages of one link keep their order; by default as the algorithm's model says.
    pub channels: Option<Order>,
    /// Whether to run over numbered, acknowledged links.
    pub reliable: bool,
    /// The share of messages that is lost.
    pub loss: Option<Share>,
    /// The share of messages that arrives twice.
    pub duplicate: Option<Share>,

    /// Who asks when, and how long it stays inside.
    pub ask: Vec<AskAt>,
    /// How often each client asks.
    pub rounds: Option<Rounds>,
    /// How long a client thinks before it asks.
    pub think: Option<Spans>,
    /// At what mean interval requests come to each client, however long they take.
    pub open: Option<Span>,
    /// How long they stay inside; by default `T`.
    pub hold: Option<Spans>,

    /// Nodes that stop.
    pub crash: Vec<NodeAt>,
    /// Stopped nodes that boot with what they had saved.
    pub recover: Vec<NodeAt>,
    /// Stopped nodes that boot having forgotten everything.
    pub recover_empty: Vec<NodeAt>,
    /// Running nodes that forget everything and go on.
    pub reset: Vec<NodeAt>,
    /// Nodes that do nothing for a while.
    pub pause: Vec<NodeWhile>,
    /// Groups of nodes that do not hear each other, for good or for a while.
    pub partition: Vec<GroupsWhile>,
    /// Nodes whose failure detector suspects a peer, rightly or not.
    pub suspect: Vec<PairAt>,
    /// Nodes whose failure detector trusts a peer again.
    pub trust: Vec<PairAt>,
    /// Messages that are lost: the next of a name.
    pub lose: Vec<LabelAt>,
    /// Nodes that ask to become members through a sponsor.
    pub join: Vec<PairAt>,
    /// Nodes that ask to leave the group.
    pub leave: Vec<NodeAt>,
    /// How often each node crashes at random, and for how long.
    pub crash_rate: Option<MeanRate>,
    /// How often each node pauses at random, and for how long.
    pub pause_rate: Option<MeanRate>,
    /// How often each node wrongly suspects another at random, and for how long.
    pub suspect_rate: Option<MeanRate>,
    /// By up to how many parts in a million each node's clock is fast or slow.
    pub skew: Option<u32>,
    /// How soon everybody is told of a crash; by default as the algorithm's model says.
    pub detector: Option<DetectorModel>,

    /// When the run ends at the latest.
    pub until: Option<Span>,
    /// After how many events it ends at the latest.
    pub events: Option<u64>,
    /// How long it goes on after every request has been served.
    pub linger: Option<Span>,
    /// Whether to run even if that breaks an assumption of the algorithm.
    pub beyond_model: bool,

    /// What the files contain that other flags name. This is no flag: the command line reads them.
    pub files: Files,
}

impl Default for RunFlags {
    fn default() -> Self {
        Self {
            nodes: 3,
            topology: None,
            attributes: None,
            set: Vec::new(),
            unit: Span::Nanos(1_000_000),
            processing: Span::ZERO,
            seed: 0,
            delay: None,
            slow: Vec::new(),
            channels: None,
            reliable: false,
            loss: None,
            duplicate: None,
            ask: Vec::new(),
            rounds: None,
            think: None,
            open: None,
            hold: None,
            crash: Vec::new(),
            recover: Vec::new(),
            recover_empty: Vec::new(),
            reset: Vec::new(),
            pause: Vec::new(),
            partition: Vec::new(),
            suspect: Vec::new(),
            trust: Vec::new(),
            lose: Vec::new(),
            join: Vec::new(),
            leave: Vec::new(),
            crash_rate: None,
            pause_rate: None,
            suspect_rate: None,
            skew: None,
            detector: None,
            until: None,
            events: None,
            linger: None,
            beyond_model: false,
            files: Files::new(),
        }
    }
}

impl RunFlags {
    /// These flags, with what they leave open left to chance, for runs over many seeds; and the
    /// flags that this adds.
    ///
    /// Without chance a thousand seeds would give one and the same run.
    pub fn with_chance(&self) -> (Self, Vec<Flag>) {
        let (mut flags, mut added) = (self.clone(), Vec::new());
        let mut add = |flag: &str, value: String| added.push((flag.to_owned(), Some(value)));
        if flags.delay.is_none() {
            let spans = Spans { least: Span::hundredths(5), most: Span::hundredths(100) };
            let delay = flags.delay.insert(DelayModel::Uniform(spans));
            add("delay", delay.to_string());
        }
        if flags.ask.is_empty() && flags.open.is_none() {
            if flags.rounds.is_none() {
                let rounds = flags.rounds.insert(Rounds::Some(3));
                add("rounds", rounds.to_string());
            }
            if flags.think.is_none() {
                let most = Span::hundredths(u64::from(flags.nodes) * 200);
                let think = flags.think.insert(Spans { least: Span::ZERO, most });
                add("think", think.to_string());
            }
        }
        if flags.hold.is_none() {
            let spans = Spans { least: Span::ZERO, most: Span::hundredths(200) };
            let hold = flags.hold.insert(spans);
            add("hold", hold.to_string());
        }
        (flags, added)
    }

    /// The run that the flags describe. Everything it names exists; whether it stays within the
    /// algorithm's model is another question.
    pub fn spec(&self, info: &Info) -> Result<RunSpec, Refusal> {
        let unit = self.unit.with(Duration::from_millis(1));
        if unit.is_zero() {
            return Err(Refusal::Usage("--unit must be longer than nothing".into()));
        }
        self.check_order(unit)?;
        let name = self.topology.as_deref();
        let mut setup = Setup::new(topology(info, name, self.nodes, self.seed, &self.files)?);
        if let Some(attributes) = &self.attributes {
            setup.attributes = attributes.of(self.nodes, self.seed);
        }
        setup.delay = unit;
        setup.processing = self.processing.with(unit);
        for Setting { name, value } in &self.set {
            setup.options.insert(name.clone(), value.clone());
        }
        let n = setup.n();
        let mut spec = RunSpec::new(info, setup);
        spec.seed = self.seed;
        spec.delays = self.delays(unit, n)?.into();
        spec.delays.links.extend(self.slow.iter().map(|slow| SlowLink {
            from: slow.from,
            to: slow.to,
            delay: slow.delay.with(unit),
            since: slow.window.map_or(Time::ZERO, |window| window.from.at(unit)),
            until: slow.window.and_then(|window| window.to).map_or(Time::MAX, |to| to.at(unit)),
        }));
        spec.channels = self.channels.map_or(info.model.channels, Into::into);
        spec.reliable = self.reliable;
        spec.faults = self.faults(unit);
        match self.detector {
            None => {}
            Some(DetectorModel::Off) => spec.detector = None,
            Some(DetectorModel::After(delay)) => spec.detector = Some(delay.with(unit)),
        }
        if let Some(linger) = self.linger {
            spec.linger = Some(linger.with(unit));
        }
        // Names are checked before the algorithm computes its constants from them.
        spec.validate(info)?;
        spec.workload = self.workload(info, &spec.setup)?;
        spec.validate(info)?;
        spec.events = self.events.unwrap_or_else(|| (u64::from(n) * 1_000).max(10_000_000));
        spec.until = match self.until {
            Some(until) => until.at(unit),
            None => self.patience(&spec),
        };
        Ok(spec)
    }

    /// The run that the flags describe, refused if it breaks an assumption of the algorithm and
    /// nothing says that it may.
    pub fn allowed(&self, info: &'static Info) -> Result<RunSpec, Refusal> {
        let spec = self.spec(info)?;
        let beyond = spec.beyond(info);
        if beyond.is_empty() || self.beyond_model {
            return Ok(spec);
        }
        let beyond = beyond.into_iter().map(|Beyond(text)| text).collect();
        Err(Refusal::BeyondModel { id: info.id, beyond })
    }

    /// The flags that differ from the defaults, for a command that describes the same run.
    pub fn flags(&self) -> Vec<Flag> {
        differing(&Self { files: Files::new(), ..self.clone() })
    }

    /// Refuses what would end before it begins.
    fn check_order(&self, unit: Duration) -> Result<(), Refusal> {
        let pauses = self.pause.iter().map(|pause| ("--pause", Some(pause.window)));
        let partitions = self.partition.iter().map(|groups| ("--partition", Some(groups.window)));
        let slow = self.slow.iter().map(|slow| ("--slow", slow.window));
        let mut windows = pauses.chain(partitions).chain(slow);
        let empty = windows.find(|(_, window)| window.is_some_and(|w| w.is_empty(unit)));
        let delay = match self.delay {
            Some(DelayModel::Uniform(range)) => Some(range),
            _ => None,
        };
        let ranges = [("--delay", delay), ("--think", self.think), ("--hold", self.hold)];
        let mut ranges = ranges.into_iter();
        let backward = ranges.find(|(_, range)| range.is_some_and(|r| r.is_backward(unit)));
        let flag = empty.map(|(flag, _)| flag).or_else(|| backward.map(|(flag, _)| flag));
        match flag {
            None => Ok(()),
            Some(flag) => {
                let text = format!("{flag} ends before it begins; write the earlier time first");
                Err(Refusal::Usage(text))
            }
        }
    }

    /// Flags that made no difference to a run, each with the reason.
    pub fn without_effect(&self, info: &Info, outcome: &Outcome) -> Vec<String> {
        let mut useless = Vec::new();
        let family = Family::of(info);
        if info.asking() == Asking::None && !self.ask.is_empty() {
            useless.push("--ask: there is nothing to ask for".to_owned());
        }
        if !family.elects && self.attributes.is_some() {
            useless.push("--attributes: no leader is elected by them".to_owned());
        }
        if !family.inside && self.hold.is_some() {
            useless.push("--hold: there is nothing to be inside of".to_owned());
        }
        if !family.inside && self.ask.iter().any(|ask| ask.hold.is_some()) {
            useless.push("--ask: there is nothing to be inside of for a while".to_owned());
        }
        for LabelAt { label, .. } in &self.lose {
            let names: Vec<String> = outcome.trace.labels.iter().map(ToString::to_string).collect();
            if !names.contains(label) {
                let names = match names.is_empty() {
                    true => String::new(),
                    false => format!("; there were {}", names.join(", ")),
                };
                useless.push(format!("--lose {label}: no such message was sent{names}"));
            }
        }
        useless
    }

    /// Long enough for anything that makes progress, so that a run without end ends.
    fn patience(&self, spec: &RunSpec) -> Time {
        let (unit, n) = (spec.setup.delay, spec.setup.n());
        let longest = spec.delays.bound().unwrap_or(unit * 10).max(unit);
        let busy = unit * 2_000 + longest.saturating_mul(400).saturating_mul(n.min(1_000));
        let busy = busy.saturating_add(longest.saturating_mul(8).saturating_mul(n));
        let rounds = match self.rounds {
            Some(Rounds::Some(rounds)) => rounds,
            Some(Rounds::Endless) => 1,
            None => 3,
        };
        let think = self.think.map_or(Duration::ZERO, |think| think.with(unit).most);
        let think = self.open.map_or(think, |open| open.with(unit).saturating_mul(20));
        let mut hold = spec.workload.hold.most;
        let mut last = Duration::ZERO;
        if let Arrivals::Plan(asks) = &spec.workload.arrivals {
            hold = asks.iter().filter_map(|ask| ask.hold).fold(hold, Duration::max);
            last = asks.iter().map(|ask| ask.at - Time::ZERO).max().unwrap_or_default();
        }
        let plan = spec.faults.plan.iter().map(|happening| happening.at - Time::ZERO);
        let each = think.saturating_add(hold.saturating_mul(n));
        let all = each.saturating_mul(rounds).saturating_add(plan.fold(last, Duration::max));
        Time::ZERO + busy.saturating_add(all)
    }

    fn delays(&self, unit: Duration, n: u32) -> Result<Delay, Refusal> {
        Ok(match &self.delay {
            None | Some(DelayModel::Unit) => Delay::Constant(unit),
            Some(DelayModel::Constant(delay)) => Delay::Constant(delay.with(unit)),
            Some(DelayModel::Uniform(range)) => {
                let Spread { least, most } = range.with(unit);
                Delay::Uniform(least, most.max(least))
            }
            Some(DelayModel::Exponential(mean)) => Delay::Exponential(mean.with(unit)),
            Some(DelayModel::Settling { mean, bound, at }) => Delay::Settling {
                mean: mean.with(unit),
                bound: bound.with(unit),
                at: Time::ZERO + at.with(unit),
            },
            Some(DelayModel::Serial(each)) => Delay::Serial(each.with(unit)),
            Some(DelayModel::Matrix(file)) => matrix(file, &self.files, unit, n)?,
        })
    }

    fn faults(&self, unit: Duration) -> Faults {
        let mut faults = Faults {
            loss: self.loss.map_or(0, |Share(share)| share),
            duplication: self.duplicate.map_or(0, |Share(share)| share),
            skew: self.skew.unwrap_or(0),
            crashes: self.crash_rate.map(|rate| rate.with(unit)),
            pauses: self.pause_rate.map(|rate| rate.with(unit)),
            suspicions: self.suspect_rate.map(|rate| rate.with(unit)),
            ..Faults::none()
        };
        let mut at = |span: Span, action| {
            faults = std::mem::take(&mut faults).with(span.at(unit), action);
        };
        let mut each = |flags: &[NodeAt], action: fn(NodeId) -> Fault| {
            for flag in flags {
                at(flag.at, action(flag.node));
            }
        };
        each(&self.crash, Fault::Crash);
        each(&self.recover, Fault::Recover);
        each(&self.recover_empty, Fault::RecoverEmpty);
        each(&self.reset, Fault::Reset);
        each(&self.leave, Fault::Leave);
        for NodeWhile { node, window } in &self.pause {
            at(window.from, Fault::Pause(*node));
            if let Some(to) = window.to {
                at(to, Fault::Resume(*node));
            }
        }
        for GroupsWhile { groups, window } in &self.partition {
            at(window.from, Fault::Partition(groups.clone()));
            if let Some(to) = window.to {
                at(to, Fault::Heal);
            }
        }
        for &PairAt { node, peer, at: when } in &self.suspect {
            at(when, Fault::Suspect { node, peer });
        }
        for &PairAt { node, peer, at: when } in &self.trust {
            at(when, Fault::Trust { node, peer });
        }
        for &PairAt { node, peer, at: when } in &self.join {
            at(when, Fault::Join { node, sponsor: peer });
        }
        for LabelAt { label, at: when } in &self.lose {
            at(*when, Fault::Lose { label: label.clone() });
        }
        faults.plan.sort_by_key(|happening| happening.at);
        faults
    }

    fn workload(&self, info: &Info, setup: &Setup) -> Result<Workload, Refusal> {
        let (unit, clients) = (setup.delay, askers(info.id, setup)?);
        let hold = self.hold.map_or_else(|| Spread::exactly(unit), |hold| hold.with(unit));
        let rounds = match self.rounds {
            None => None,
            Some(Rounds::Some(rounds)) => Some(Some(rounds)),
            Some(Rounds::Endless) => Some(None),
        };
        let arrivals = if !self.ask.is_empty() {
            let ask = |ask: &AskAt| Ask {
                node: ask.node,
                at: ask.at.at(unit),
                hold: ask.hold.map(|hold| hold.with(unit)),
            };
            Arrivals::Plan(self.ask.iter().map(ask).collect())
        } else if let Some(every) = self.open {
            Arrivals::Open { clients, rounds: rounds.unwrap_or(Some(3)), every: every.with(unit) }
        } else if rounds.is_some() || self.think.is_some() {
            let think = self.think.map_or(Spread::exactly(Duration::ZERO), |t| t.with(unit));
            Arrivals::Closed { clients, rounds: rounds.unwrap_or(Some(1)), first: think, think }
        } else {
            let several = match info.asking() {
                Asking::All => usize::MAX,
                Asking::One => 1,
                Asking::None => 0,
            };
            let apart = |(i, node)| {
                let at = Span::hundredths(50_u64 * i).at(unit);
                Ask { node, at, hold: None }
            };
            let first = clients.map(NodeId).take(several);
            Arrivals::Plan((0..).zip(first).map(apart).collect())
        };
        Ok(Workload { arrivals, hold })
    }
}

/// The delay matrix in a file: a row of delays per sender.
fn matrix(name: &str, files: &Files, unit: Duration, n: u32) -> Result<Delay, Refusal> {
    let fail = |error| Refusal::Impossible(format!("{name}: {error}"));
    let text = files.get(name).ok_or_else(|| fail("there is no such file".to_owned()))?;
    let row = |line: &str| -> Result<Vec<Duration>, String> {
        let delays = line.split_whitespace().map(str::parse::<Span>);
        delays.map(|span| span.map(|span| span.with(unit))).collect()
    };
    let rows: Result<Vec<_>, String> =
        text.lines().filter(|line| !line.trim().is_empty()).map(row).collect();
    let rows = rows.map_err(fail)?;
    if rows.len() != n as usize || rows.iter().any(|row| row.len() != n as usize) {
        return Err(fail(format!("for {n} nodes there have to be {n} rows of {n} delays each")));
    }
    Ok(Delay::Matrix(rows))
}
