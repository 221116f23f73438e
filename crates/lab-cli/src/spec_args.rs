//! The flags of a run, and what they say in `--help`.

use std::fs;
use std::path::Path;

use clap::ArgMatches;
use clap::parser::ValueSource;
use conclave_lab::catalogue;
use conclave_lab::flags::{
    AskAt, Attributes, DelayModel, DetectorModel, Files, Flag, GroupsWhile, LabelAt, MeanRate,
    NodeAt, NodeWhile, Order, PairAt, Rounds, RunFlags, Setting, Share, Slow, Span, Spans, command,
};

use crate::Failure;

/// Makes flags of the laboratory from those of the command line: the fields before the semicolon are
/// carried over as they are, those behind it are not, and further fields are given at the end. A
/// flag that is named in neither place does not compile.
macro_rules! carry {
    ($($args:ident { $($same:ident),+; $($other:ident $(: $ignored:pat)?),* $(,)? } = $from:expr),+
        => $flags:ident { $($name:ident $(: $value:expr)?),* $(,)? }) => {{
        $(let $args { $($same,)+ $($other $(: $ignored)?,)* } = $from;)+
        $flags { $($($same,)+)+ $($name $(: $value)?,)* }
    }};
}

pub(crate) use carry;

/// What a run depends on, as flags.
///
/// Times are `5ms`, `3T` or a bare number, which means `T`, the longest a message takes.
#[derive(Clone, Debug, clap::Args)]
pub struct SpecArgs {
    /// How many nodes
    #[arg(long, short, value_name = "N", env = "CONCLAVE_NODES", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "System")]
    pub nodes: u32,
    /// Its links, and what tells its nodes apart.
    #[command(flatten)]
    pub make_up: MakeUpArgs,
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
    pub delay: Option<DelayModel>,
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
    pub think: Option<Spans>,
    /// Open loop: requests come to each client at this mean interval, however long they take
    #[arg(long, value_name = "TIME", env = "CONCLAVE_OPEN", help_heading = "Workload")]
    #[arg(conflicts_with = "think")]
    pub open: Option<Span>,
    /// How long they stay inside: 1T or 0..2T [default: 1T]
    #[arg(long, value_name = "TIME[..TIME]", env = "CONCLAVE_HOLD", help_heading = "Workload")]
    pub hold: Option<Spans>,

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
    pub crash_rate: Option<MeanRate>,
    /// Each node pauses at random: 200:20
    #[arg(
        long,
        value_name = "EVERY[:LASTING]",
        env = "CONCLAVE_PAUSE_RATE",
        help_heading = "Faults"
    )]
    pub pause_rate: Option<MeanRate>,
    /// Each node wrongly suspects another at random, and takes it back: 500:50
    #[arg(long, value_name = "EVERY[:LASTING]", env = "CONCLAVE_SUSPECT_RATE")]
    #[arg(help_heading = "Faults")]
    pub suspect_rate: Option<MeanRate>,
    /// Each node's clock is fast or slow by up to so many parts in a million
    #[arg(long, value_name = "PPM", env = "CONCLAVE_SKEW", help_heading = "Faults")]
    #[arg(value_parser = clap::value_parser!(u32).range(..1_000_000))]
    pub skew: Option<u32>,
    /// How soon everybody is told of a crash, or off; by default as the algorithm's model says
    #[arg(long, value_name = "TIME|off", env = "CONCLAVE_DETECTOR", help_heading = "Faults")]
    pub detector: Option<DetectorModel>,

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

/// What a system is made of, beside the number of its nodes.
#[derive(Clone, Debug, clap::Args)]
pub struct MakeUpArgs {
    /// Who is linked with whom: complete, ring, chain, line, star, binary, grid, drawn by the seed
    /// (tree, geometric, geometric3, dht), or a file with a link `0 1` per line, or `0 -> 1` if it
    /// leads one way, and perhaps places, as in `at 0 2.5 1`; by default what the algorithm needs
    #[arg(long, value_name = "SHAPE|FILE", env = "CONCLAVE_TOPOLOGY", help_heading = "System")]
    pub topology: Option<String>,
    /// What makes each node a good leader, beside its id: a number for each, as in 5,5,9, or random
    #[arg(long, value_name = "A,…|random", env = "CONCLAVE_ATTRIBUTES", help_heading = "System")]
    pub attributes: Option<Attributes>,
    /// Set an option of the algorithm; `conclave explain ID` lists them
    #[arg(long, value_name = "NAME=VALUE", help_heading = "System")]
    pub set: Vec<Setting>,
}

/// Whether messages of one link keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ChannelsArg {
    /// They do.
    Fifo,
    /// They may overtake each other.
    Reordering,
}

impl From<ChannelsArg> for Order {
    fn from(channels: ChannelsArg) -> Self {
        match channels {
            ChannelsArg::Fifo => Self::Fifo,
            ChannelsArg::Reordering => Self::Reordering,
        }
    }
}

impl SpecArgs {
    /// The flags as the laboratory takes them, with the files that they name.
    pub fn flags(&self) -> Result<RunFlags, Failure> {
        let mut files = self.make_up.files()?;
        if let Some(DelayModel::Matrix(name)) = &self.delay {
            files.insert(name.clone(), read(Path::new(name))?);
        }
        let MakeUpArgs { topology, attributes, set } = self.make_up.clone();
        Ok(carry! {
            SpecArgs {
                nodes, unit, processing, seed, delay, slow, reliable, loss, duplicate, ask, rounds,
                think, open, hold, crash, recover, recover_empty, reset, pause, partition, suspect,
                trust, lose, join, leave, crash_rate, pause_rate, suspect_rate, skew, detector, until,
                events, linger, beyond_model; make_up: _, channels
            } = self.clone()
            => RunFlags { topology, attributes, set, channels: channels.map(Into::into), files }
        })
    }
}

impl MakeUpArgs {
    /// The file that is named as the topology, if it is one and not a shape.
    pub(crate) fn files(&self) -> Result<Files, Failure> {
        let file = self.topology.as_ref().filter(|name| Path::new(name).is_file());
        file.map(|name| Ok((name.clone(), read(Path::new(name))?))).into_iter().collect()
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::File { path: path.to_owned(), error })
}

/// What was given on the command line or in the environment, to be quoted in a command that does
/// the same again.
#[derive(Clone, Debug, Default)]
pub struct Given {
    name: String,
    positional: Vec<String>,
    flags: Vec<Flag>,
    /// The names of flags that were typed, and not set in the environment.
    typed: Vec<String>,
}

impl Given {
    /// The names of the flags that were typed.
    pub fn typed(&self) -> impl Iterator<Item = &str> {
        self.typed.iter().map(String::as_str)
    }

    /// The command with the flags in `without` left out and those in `with` added.
    pub fn command(&self, without: &[&str], with: Vec<Flag>) -> String {
        let words = [catalogue::program(), &self.name].into_iter();
        let words = words.chain(self.positional.iter().map(String::as_str));
        let kept = self.flags.iter().filter(|(flag, _)| !without.contains(&flag.as_str()));
        command(words, kept.cloned().chain(with))
    }
}

/// What was given to the command called `name`.
pub fn given(name: &str, matches: &ArgMatches) -> Given {
    let mut given = Given { name: name.to_owned(), ..Given::default() };
    let root = <crate::Cli as clap::CommandFactory>::command();
    let Some(command) = root.find_subcommand(name) else { return given };
    for arg in root.get_arguments().chain(command.get_arguments()) {
        let id = arg.get_id().as_str();
        let set = matches.try_get_raw(id).ok().flatten();
        let by_default = matches.value_source(id) == Some(ValueSource::DefaultValue);
        let Some(values) = set.filter(|_| !by_default) else { continue };
        let values = values.map(|value| value.to_string_lossy().into_owned());
        if matches.value_source(id) == Some(ValueSource::CommandLine) {
            given.typed.extend(arg.get_long().map(str::to_owned));
        }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, Parser};
    use conclave_lab::flags::CheckFlags;
    use serde_json::json;

    use super::*;
    use crate::{Cli, Command};

    fn parse(command: &str, line: &str) -> Command {
        let words = ["conclave", command, "x"].into_iter().chain(line.split_whitespace());
        Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).command
    }

    fn run_flags(line: &str) -> RunFlags {
        match parse("run", line) {
            Command::Run(args) => args.spec.flags().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn check_flags(line: &str) -> CheckFlags {
        match parse("check", line) {
            Command::Check(args) => CheckFlags { threads: None, ..args.flags().unwrap() },
            other => panic!("{other:?}"),
        }
    }

    /// A line of flags, for those that need no quotes.
    fn line(flags: Vec<Flag>) -> String {
        command([], flags).replace('\'', "")
    }

    #[test]
    fn without_flags_all_is_as_the_laboratory_has_it() {
        assert_eq!(run_flags(""), RunFlags::default());
        assert_eq!(check_flags(""), CheckFlags::default());
    }

    #[test]
    fn every_flag_of_the_laboratory_can_be_typed() {
        let named = |command: &str| -> BTreeSet<String> {
            let cli = Cli::command();
            let arguments = cli.find_subcommand(command).unwrap().get_arguments();
            arguments.filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
        };
        let fields = |value: serde_json::Value| -> BTreeSet<String> {
            let fields = value.as_object().unwrap().keys();
            fields.filter(|name| *name != "files").cloned().collect()
        };
        let missing = &fields(json!(RunFlags::default())) - &named("run");
        assert!(missing.is_empty(), "{missing:?}");
        let missing = &fields(json!(CheckFlags::default())) - &named("check");
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn what_the_laboratory_writes_can_be_typed() {
        let runs = [
            "--nodes=5 --topology=ring --attributes=5,4,3,2,1 --set=units=2 --unit=2ms --seed=9 \
             --processing=0.5 --delay=uniform:0.5..1.5ms --slow=1->0:10ms@2..5 --reliable \
             --channels=reordering --loss=0.5% --duplicate=3ppm --ask=0,2@1ms:5ms --hold=0..2 \
             --crash=3@5ms --recover=3@7 --recover-empty=3@9 --reset=1@1 --pause=2@3..8 \
             --partition=0,1|2,3@5..9 --suspect=1:0@3 --trust=1:0@4 --lose=Token@3 --join=4:0@2 \
             --leave=4@9 --crash-rate=500:50 --pause-rate=9 --suspect-rate=8:1 --skew=100 \
             --detector=off --until=99 --events=1000 --linger=3 --beyond-model",
            "--rounds=endless --open=3T",
            "--rounds=2 --think=1ms..2",
        ];
        for typed in runs.map(run_flags) {
            assert_eq!(run_flags(&line(typed.flags())), typed);
        }
        let check = check_flags(
            "--nodes=2 --requests=endless --clients=0..1 --topology=ring --attributes=random \
             --set=units=2 --channels=fifo --timers=quiet --no-detector --crashes=2 \
             --recoveries=1 --amnesias=1 --mortal=0..1 --mid-step --losses=1 --repeats=1 \
             --partitions=1 --suspicions=1 --joins=1 --leaves=1 --timer-budget=3 --beyond-model \
             --property=ME,FCFS-HB --count --no-reduction --symmetry --memory=1GiB --depth=9 \
             --states=1000",
        );
        assert_eq!(check_flags(&line(check.flags())), check);
    }
}
