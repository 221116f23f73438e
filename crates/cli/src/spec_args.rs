//! From flags to a [`RunSpec`].

mod system;
pub mod values;

use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::ArgMatches;
use clap::parser::ValueSource;
use conclave_lab::{Refusal, askers};
use conclave_protocol::{Channels, Info, NodeId, Setup, Time};
use conclave_sim::{
    Action, Arrivals, Ask, Delay, Faults, Outcome, RunSpec, SlowLink, Spread, Workload,
};

use crate::Failure;
pub use system::Attributes;
pub(crate) use system::topology;
use values::{
    AskAt, DelayArg, DetectorArg, GroupsWhile, LabelAt, NodeAt, NodeWhile, PairAt, Range, RateArg,
    Rounds, Setting, Share, Slow, Span,
};

/// What a run depends on, as flags.
///
/// Times are `5ms`, `3T` or a bare number, which means `T`, the longest a message takes.
#[derive(Clone, Debug, clap::Args)]
pub struct SpecArgs {
    /// How many nodes
    #[arg(long, short, value_name = "N", env = "CONCLAVE_NODES", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "System")]
    pub nodes: u32,
    /// Who is linked with whom: complete, ring, line, star, binary, grid, drawn by the seed (tree,
    /// geometric, geometric3, dht), or a file with a link `0 1` per line, and perhaps places, as in
    /// `at 0 2.5 1`; by default what the algorithm needs
    #[arg(long, value_name = "SHAPE|FILE", env = "CONCLAVE_TOPOLOGY", help_heading = "System")]
    pub topology: Option<String>,
    /// What makes each node a good leader, beside its id: a number for each, as in 5,5,9, or random
    #[arg(long, value_name = "A,…|random", env = "CONCLAVE_ATTRIBUTES", help_heading = "System")]
    pub attributes: Option<Attributes>,
    /// Set an option of the algorithm; `conclave explain ID` lists them
    #[arg(long, value_name = "NAME=VALUE", help_heading = "System")]
    pub set: Vec<Setting>,
    /// T, the longest a message takes as far as the algorithm may rely on it
    #[arg(long, value_name = "TIME", env = "CONCLAVE_UNIT", help_heading = "System")]
    #[arg(default_value = "1ms")]
    pub unit: Span,
    /// The longest a node takes to answer, as far as the algorithm may rely on it
    #[arg(long, value_name = "TIME", env = "CONCLAVE_PROCESSING", help_heading = "System")]
    #[arg(default_value = "0")]
    pub processing: Span,
    /// Which run, of all that chance allows
    #[arg(long, short, value_name = "S", env = "CONCLAVE_SEED", default_value_t = 0)]
    #[arg(help_heading = "System")]
    pub seed: u64,

    /// How long messages take: unit, const:1ms, uniform:0.5ms..1.5ms, exp:1ms,
    /// settling:1ms:2ms:100ms (exp:1ms, but 2ms at most after 100ms), serial:1ms (one at a time) or
    /// matrix:FILE
    #[arg(long, value_name = "MODEL", env = "CONCLAVE_DELAY", help_heading = "Network")]
    pub delay: Option<DelayArg>,
    /// A link slower or faster than that, for good or for a while: '1->0:10ms@2ms..5ms'
    #[arg(long, value_name = "FROM->TO:TIME", help_heading = "Network")]
    pub slow: Vec<Slow>,
    /// Whether messages of one link keep their order; by default as the algorithm's model says
    #[arg(long, value_enum, env = "CONCLAVE_CHANNELS", help_heading = "Network")]
    pub channels: Option<ChannelsArg>,
    /// Run over numbered, acknowledged links, which make up for loss, repetition and reordering
    #[arg(long, env = "CONCLAVE_RELIABLE", help_heading = "Network")]
    pub reliable: bool,
    /// The share of messages that is lost: 5%
    #[arg(long, value_name = "SHARE", env = "CONCLAVE_LOSS", help_heading = "Network")]
    pub loss: Option<Share>,
    /// The share of messages that arrives twice: 1%
    #[arg(long, value_name = "SHARE", env = "CONCLAVE_DUPLICATE", help_heading = "Network")]
    pub duplicate: Option<Share>,

    /// Who asks when (at once, if no time is given), and how long it stays inside: 0,2@1ms:5ms
    #[arg(long, value_name = "NODE[@TIME[:HOLD]]", value_delimiter = ',')]
    #[arg(help_heading = "Workload", conflicts_with_all = ["rounds", "think", "open"])]
    pub ask: Vec<AskAt>,
    /// How often each client asks: a number, or endless
    #[arg(long, value_name = "R", env = "CONCLAVE_ROUNDS", help_heading = "Workload")]
    pub rounds: Option<Rounds>,
    /// How long a client thinks before it asks: 2ms or 0..4T
    #[arg(long, value_name = "TIME[..TIME]", env = "CONCLAVE_THINK", help_heading = "Workload")]
    pub think: Option<Range>,
    /// Open loop: requests come to each client at this mean interval, however long they take
    #[arg(long, value_name = "TIME", env = "CONCLAVE_OPEN", help_heading = "Workload")]
    #[arg(conflicts_with = "think")]
    pub open: Option<Span>,
    /// How long they stay inside: 1T or 0..2T [default: 1T]
    #[arg(long, value_name = "TIME[..TIME]", env = "CONCLAVE_HOLD", help_heading = "Workload")]
    pub hold: Option<Range>,

    /// A node stops: 3@5ms
    #[arg(long, value_name = "NODE@TIME", help_heading = "Faults")]
    pub crash: Vec<NodeAt>,
    /// A stopped node boots with what it had saved
    #[arg(long, value_name = "NODE@TIME", help_heading = "Faults")]
    pub recover: Vec<NodeAt>,
    /// A stopped node boots having forgotten everything
    #[arg(long, value_name = "NODE@TIME", help_heading = "Faults")]
    pub recover_empty: Vec<NodeAt>,
    /// A running node forgets everything and goes on
    #[arg(long, value_name = "NODE@TIME", help_heading = "Faults")]
    pub reset: Vec<NodeAt>,
    /// A node does nothing for a while; what is meant for it waits: 2@3ms..8ms
    #[arg(long, value_name = "NODE@FROM..TO", help_heading = "Faults")]
    pub pause: Vec<NodeWhile>,
    /// Groups of nodes do not hear each other, for good or for a while: '0,1|2,3@5ms..9ms'
    #[arg(long, value_name = "GROUPS@FROM..TO", help_heading = "Faults")]
    pub partition: Vec<GroupsWhile>,
    /// A node's failure detector suspects a peer, rightly or not: 1:0@3ms
    #[arg(long, value_name = "NODE:PEER@TIME", help_heading = "Faults")]
    pub suspect: Vec<PairAt>,
    /// A node's failure detector trusts a peer again
    #[arg(long, value_name = "NODE:PEER@TIME", help_heading = "Faults")]
    pub trust: Vec<PairAt>,
    /// The next message of this name is lost: Token@3ms
    #[arg(long, value_name = "MESSAGE@TIME", help_heading = "Faults")]
    pub lose: Vec<LabelAt>,
    /// A node asks to become a member through a sponsor: 4:0@2ms
    #[arg(long, value_name = "NODE:SPONSOR@TIME", help_heading = "Faults")]
    pub join: Vec<PairAt>,
    /// A node asks to leave the group
    #[arg(long, value_name = "NODE@TIME", help_heading = "Faults")]
    pub leave: Vec<NodeAt>,
    /// Each node crashes at random, on average after so long, and recovers after so long: 500:50
    #[arg(
        long,
        value_name = "EVERY[:LASTING]",
        env = "CONCLAVE_CRASH_RATE",
        help_heading = "Faults"
    )]
    pub crash_rate: Option<RateArg>,
    /// Each node pauses at random: 200:20
    #[arg(
        long,
        value_name = "EVERY[:LASTING]",
        env = "CONCLAVE_PAUSE_RATE",
        help_heading = "Faults"
    )]
    pub pause_rate: Option<RateArg>,
    /// Each node wrongly suspects another at random, and takes it back: 500:50
    #[arg(long, value_name = "EVERY[:LASTING]", env = "CONCLAVE_SUSPECT_RATE")]
    #[arg(help_heading = "Faults")]
    pub suspect_rate: Option<RateArg>,
    /// Each node's clock is fast or slow by up to so many parts in a million
    #[arg(long, value_name = "PPM", env = "CONCLAVE_SKEW", help_heading = "Faults")]
    #[arg(value_parser = clap::value_parser!(u32).range(..1_000_000))]
    pub skew: Option<u32>,
    /// How soon everybody is told of a crash, or off; by default as the algorithm's model says
    #[arg(long, value_name = "TIME|off", env = "CONCLAVE_DETECTOR", help_heading = "Faults")]
    pub detector: Option<DetectorArg>,

    /// End the run at this moment at the latest
    #[arg(long, value_name = "TIME", env = "CONCLAVE_UNTIL", help_heading = "End")]
    pub until: Option<Span>,
    /// End the run after so many events at the latest [default: ten million, or 1000 a node]
    #[arg(long, value_name = "N", env = "CONCLAVE_EVENTS", help_heading = "End")]
    pub events: Option<u64>,
    /// Go on for so long after every request has been served [default: 20T, and for elections 8T
    /// more for each node]
    #[arg(long, value_name = "TIME", env = "CONCLAVE_LINGER", help_heading = "End")]
    pub linger: Option<Span>,
    /// Run even if that breaks an assumption of the algorithm
    #[arg(long, env = "CONCLAVE_BEYOND_MODEL", help_heading = "End")]
    pub beyond_model: bool,
}

/// Whether messages of one link keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ChannelsArg {
    /// They do.
    Fifo,
    /// They may overtake each other.
    Reordering,
}

impl SpecArgs {
    /// Flags that leave to chance what the user did not say, for runs over many seeds.
    ///
    /// Without chance a thousand seeds would give one and the same run. Returned as text, too, so
    /// that a command can be quoted that repeats one of them.
    pub fn with_chance(&self, given: &Given) -> (Self, Vec<(String, String)>) {
        let (mut args, mut added) = (self.clone(), Vec::new());
        let mut add = |flag: &str, value: &str| added.push((flag.to_owned(), value.to_owned()));
        if args.delay.is_none() {
            let value = "uniform:0.05T..1T";
            args.delay = Some(value.parse().expect("a delay model"));
            add("delay", value);
        }
        if args.ask.is_empty() && args.rounds.is_none() && args.open.is_none() {
            args.rounds = Some(Rounds::Some(3));
            add("rounds", "3");
        }
        if args.ask.is_empty() && args.think.is_none() && args.open.is_none() {
            let value = format!("0..{}T", u64::from(args.nodes) * 2);
            args.think = Some(value.parse().expect("a range"));
            add("think", &value);
        }
        if args.hold.is_none() {
            args.hold = Some("0..2T".parse().expect("a range"));
            add("hold", "0..2T");
        }
        added.retain(|(flag, _)| !given.has(flag));
        (args, added)
    }

    /// The run that the flags describe. Everything it names exists; whether it stays within the
    /// algorithm's model is another question.
    pub fn spec(&self, info: &Info) -> Result<RunSpec, Failure> {
        let unit = self.unit.with(Duration::from_millis(1));
        if unit.is_zero() {
            return Err(Failure::Usage("--unit must be longer than nothing".into()));
        }
        self.check_order(unit)?;
        let shape = topology(info, self.topology.as_deref(), self.nodes, self.seed)?;
        let mut setup = Setup::new(shape);
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
        spec.channels = match self.channels {
            None => info.model.channels,
            Some(ChannelsArg::Fifo) => Channels::Fifo,
            Some(ChannelsArg::Reordering) => Channels::Reliable,
        };
        spec.reliable = self.reliable;
        spec.faults = self.faults(unit);
        match self.detector {
            None => {}
            Some(DetectorArg::Off) => spec.detector = None,
            Some(DetectorArg::After(delay)) => spec.detector = Some(delay.with(unit)),
        }
        if let Some(linger) = self.linger {
            spec.linger = Some(linger.with(unit));
        }
        // Names are checked before the algorithm computes its constants from them.
        spec.validate(info).map_err(Refusal::from)?;
        spec.workload = self.workload(info, &spec.setup)?;
        spec.validate(info).map_err(Refusal::from)?;
        spec.events = self.events.unwrap_or_else(|| (u64::from(n) * 1_000).max(10_000_000));
        spec.until = match self.until {
            Some(until) => until.at(unit),
            None => self.patience(&spec),
        };
        Ok(spec)
    }

    /// Refuses what would end before it begins.
    fn check_order(&self, unit: Duration) -> Result<(), Failure> {
        let pauses = self.pause.iter().map(|pause| ("--pause", Some(pause.window)));
        let partitions = self.partition.iter().map(|groups| ("--partition", Some(groups.window)));
        let slow = self.slow.iter().map(|slow| ("--slow", slow.window));
        let mut windows = pauses.chain(partitions).chain(slow);
        let empty = windows.find(|(_, window)| window.is_some_and(|w| w.is_empty(unit)));
        let delay = match self.delay {
            Some(DelayArg::Uniform(range)) => Some(range),
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
                Err(Failure::Usage(text))
            }
        }
    }

    /// Flags that made no difference to a run, each with the reason.
    pub fn without_effect(&self, info: &Info, outcome: &Outcome) -> Vec<String> {
        let mut useless = Vec::new();
        let family = info.family();
        if family == "fd" && !self.ask.is_empty() {
            useless.push("--ask: there is nothing to ask a failure detector for".to_owned());
        }
        if family != "election" && self.attributes.is_some() {
            useless.push("--attributes: nobody is elected by them".to_owned());
        }
        if family != "mutex" && self.hold.is_some() {
            useless.push("--hold: there is nothing to be inside of".to_owned());
        }
        if family != "mutex" && self.ask.iter().any(|ask| ask.hold.is_some()) {
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

    fn delays(&self, unit: Duration, n: u32) -> Result<Delay, Failure> {
        Ok(match &self.delay {
            None | Some(DelayArg::Unit) => Delay::Constant(unit),
            Some(DelayArg::Constant(delay)) => Delay::Constant(delay.with(unit)),
            Some(DelayArg::Uniform(range)) => {
                let Spread { least, most } = range.with(unit);
                Delay::Uniform(least, most.max(least))
            }
            Some(DelayArg::Exponential(mean)) => Delay::Exponential(mean.with(unit)),
            Some(DelayArg::Settling { mean, bound, at }) => Delay::Settling {
                mean: mean.with(unit),
                bound: bound.with(unit),
                at: Time::ZERO + at.with(unit),
            },
            Some(DelayArg::Serial(each)) => Delay::Serial(each.with(unit)),
            Some(DelayArg::Matrix(file)) => read_matrix(Path::new(file), unit, n)?,
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
        let mut each = |flags: &[NodeAt], action: fn(NodeId) -> Action| {
            for flag in flags {
                at(flag.at, action(flag.node));
            }
        };
        each(&self.crash, Action::Crash);
        each(&self.recover, Action::Recover);
        each(&self.recover_empty, Action::RecoverEmpty);
        each(&self.reset, Action::Reset);
        each(&self.leave, Action::Leave);
        for NodeWhile { node, window } in &self.pause {
            at(window.from, Action::Pause(*node));
            if let Some(to) = window.to {
                at(to, Action::Resume(*node));
            }
        }
        for GroupsWhile { groups, window } in &self.partition {
            at(window.from, Action::Partition(groups.clone()));
            if let Some(to) = window.to {
                at(to, Action::Heal);
            }
        }
        for &PairAt { node, peer, at: when } in &self.suspect {
            at(when, Action::Suspect { node, peer });
        }
        for &PairAt { node, peer, at: when } in &self.trust {
            at(when, Action::Trust { node, peer });
        }
        for &PairAt { node, peer, at: when } in &self.join {
            at(when, Action::Join { node, sponsor: peer });
        }
        for LabelAt { label, at: when } in &self.lose {
            at(*when, Action::Lose { label: label.clone() });
        }
        faults.plan.sort_by_key(|happening| happening.at);
        faults
    }

    fn workload(&self, info: &Info, setup: &Setup) -> Result<Workload, Failure> {
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
            // Where one call is answered for all, one is enough to see what happens.
            let several = match info.family() {
                "mutex" => usize::MAX,
                "fd" => 0,
                _ => 1,
            };
            let apart = |(i, node)| {
                let at = Span::halves(i).at(unit);
                Ask { node, at, hold: None }
            };
            let first = clients.map(NodeId).take(several);
            Arrivals::Plan((0..).zip(first).map(apart).collect())
        };
        Ok(Workload { arrivals, hold })
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::File { path: path.to_owned(), error })
}

/// A row of delays per sender.
fn read_matrix(path: &Path, unit: Duration, n: u32) -> Result<Delay, Failure> {
    let text = read(path)?;
    let row = |line: &str| -> Result<Vec<Duration>, String> {
        let delays = line.split_whitespace().map(str::parse::<Span>);
        delays.map(|span| span.map(|span| span.with(unit))).collect()
    };
    let rows: Result<Vec<_>, String> =
        text.lines().filter(|line| !line.trim().is_empty()).map(row).collect();
    let fail = |error| Refusal::Impossible(format!("{}: {error}", path.display()));
    let rows = rows.map_err(fail)?;
    if rows.len() != n as usize || rows.iter().any(|row| row.len() != n as usize) {
        return Err(
            fail(format!("for {n} nodes there have to be {n} rows of {n} delays each")).into()
        );
    }
    Ok(Delay::Matrix(rows))
}

/// What was given on the command line or in the environment, to be quoted in a command that does
/// the same again.
#[derive(Clone, Debug, Default)]
pub struct Given {
    name: String,
    positional: Vec<String>,
    flags: Vec<(String, Option<String>)>,
}

impl Given {
    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|(name, _)| name == flag)
    }

    /// The command with the flags in `without` left out and those in `with` added.
    pub fn command(&self, without: &[&str], with: &[(String, String)]) -> String {
        let mut words = vec!["conclave".to_owned(), self.name.clone()];
        words.extend(self.positional.iter().map(|word| quoted(word)));
        let kept = self.flags.iter().filter(|(flag, _)| !without.contains(&flag.as_str()));
        let added = with.iter().map(|(flag, value)| (flag, Some(value)));
        for (flag, value) in kept.map(|(flag, value)| (flag, value.as_ref())).chain(added) {
            words.push(format!("--{flag}"));
            words.extend(value.map(|value| quoted(value)));
        }
        words.join(" ")
    }
}

/// What was given to the command called `name`.
pub(crate) fn given(name: &str, matches: &ArgMatches) -> Given {
    let mut given = Given { name: name.to_owned(), ..Given::default() };
    let root = <crate::Cli as clap::CommandFactory>::command();
    let Some(command) = root.find_subcommand(name) else { return given };
    for arg in root.get_arguments().chain(command.get_arguments()) {
        let id = arg.get_id().as_str();
        let set = matches.try_get_raw(id).ok().flatten();
        let by_default = matches.value_source(id) == Some(ValueSource::DefaultValue);
        let Some(values) = set.filter(|_| !by_default) else { continue };
        let values = values.map(|value| value.to_string_lossy().into_owned());
        match arg.get_long() {
            None => given.positional.extend(values),
            Some(flag) if !arg.get_action().takes_values() => {
                given.flags.push((flag.to_owned(), None));
            }
            Some(flag) => {
                given.flags.extend(values.map(|value| (flag.to_owned(), Some(value))));
            }
        }
    }
    given
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
