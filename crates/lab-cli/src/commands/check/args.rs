//! Flags of `conclave check`.

use std::path::PathBuf;

use conclave_check::{Requests, Timers};
use conclave_lab::flags::{CheckFlags, Nodes, Size};
use conclave_protocol::Property;

use crate::Failure;
use crate::commands::run::DiagramArgs;
use crate::spec_args::{ChannelsArg, MakeUpArgs, carry};

/// Flags of `conclave check`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The algorithm, such as mutex/ricart-agrawala; `conclave list` shows all
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub id: Option<String>,
    /// The system and what may go wrong in it.
    #[command(flatten)]
    pub system: SystemArgs,
    /// How to search.
    #[command(flatten)]
    pub search: SearchArgs,

    /// Check what the whole catalogue claims, in systems of up to --nodes nodes and of more where
    /// a failure needs them, and print a table
    #[arg(long, help_heading = "What to check")]
    #[arg(conflicts_with_all = ["topology", "attributes", "set", "clients", "requests", "channels", "timers",
        "crashes", "recoveries", "amnesias", "losses", "repeats", "partitions", "suspicions",
        "joins", "leaves", "timer_budget", "mid_step", "no_detector", "property", "symmetry",
        "count", "trace", "budget_table"])]
    pub all: bool,
    /// With --all: larger systems, too, for those who can wait
    #[arg(long, help_heading = "What to check")]
    pub deep: bool,
    /// Say for each kind of fault, none, one and two of it, what still holds: where the algorithm
    /// stops being right. Each search visits at most --states states [default: 300000]
    #[arg(long, help_heading = "What to check", conflicts_with_all = ["count", "trace"])]
    pub budget_table: bool,
    /// Say which single crash an election survives, or each of them if the family is named instead of
    /// an algorithm: of the caller, of a bystander, of the best node, in the middle of a step, for
    /// good or not. Each search visits at most --states states [default: 200000]
    #[arg(long, help_heading = "What to check", conflicts_with_all = ["count", "trace", "all",
        "budget_table", "requests", "clients", "topology", "crashes", "property"])]
    pub crash_table: bool,
    /// Print the fewest and the most messages per entry, over all runs, beside the theory
    #[arg(long, help_heading = "What to check")]
    pub count: bool,

    /// Write a counter-example to a file, for `conclave replay`: that of the first property
    /// violated
    #[arg(long, value_name = "FILE", env = "CONCLAVE_TRACE", help_heading = "Output")]
    pub trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// With --crash-table: print Markdown
    #[arg(long, help_heading = "Output", requires = "crash_table", conflicts_with = "json")]
    pub markdown: bool,
    /// How the diagram looks.
    #[command(flatten)]
    pub diagram: DiagramArgs,
}

/// Flags about the system.
#[derive(Clone, Debug, clap::Args)]
pub struct SystemArgs {
    /// How many nodes
    #[arg(long, short, value_name = "N", env = "CONCLAVE_NODES", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "System")]
    pub nodes: u32,
    /// How often each application asks, or `endless`: again and again for ever, which shows who
    /// starves when others never stop
    #[arg(long, short, value_name = "R", default_value_t = Requests::AtMost(1))]
    #[arg(help_heading = "System")]
    pub requests: Requests,
    /// Whose applications ask: 0..2 is p0 and p1; by default all that may
    #[arg(long, value_name = "A..B", help_heading = "System")]
    pub clients: Option<Nodes>,
    /// Its links, and what tells its nodes apart.
    #[command(flatten)]
    pub make_up: MakeUpArgs,
    /// Whether messages of one link keep their order; by default as the algorithm's model says
    #[arg(long, value_enum, env = "CONCLAVE_CHANNELS", help_heading = "System")]
    pub channels: Option<ChannelsArg>,
    /// When timers run out; by default as the algorithm's model says
    #[arg(long, value_enum, help_heading = "System")]
    pub timers: Option<TimersArg>,
    /// Tell no node of crashes, even if the algorithm relies on a failure detector
    #[arg(long, help_heading = "System")]
    pub no_detector: bool,

    /// At most so many crashes
    #[arg(long, value_name = "C", default_value_t = 0, help_heading = "Faults")]
    pub crashes: u8,
    /// At most so many recoveries, with what was saved
    #[arg(long, value_name = "R", default_value_t = 0, help_heading = "Faults")]
    pub recoveries: u8,
    /// At most so many recoveries with everything forgotten
    #[arg(long, value_name = "A", default_value_t = 0, help_heading = "Faults")]
    pub amnesias: u8,
    /// Which nodes may crash: 0..1 is p0; by default all
    #[arg(long, value_name = "A..B", help_heading = "Faults", requires = "crashes")]
    pub mortal: Option<Nodes>,
    /// Nodes may also crash in the middle of a step, some of its messages having left
    #[arg(long, help_heading = "Faults")]
    pub mid_step: bool,
    /// At most so many messages are lost
    #[arg(long, value_name = "L", default_value_t = 0, help_heading = "Faults")]
    pub losses: u8,
    /// At most so many messages arrive once more
    #[arg(long, value_name = "D", default_value_t = 0, help_heading = "Faults")]
    pub repeats: u8,
    /// The network falls apart at most so often
    #[arg(long, value_name = "P", default_value_t = 0, help_heading = "Faults")]
    pub partitions: u8,
    /// At most so many live nodes are suspected, each for a while
    #[arg(long, value_name = "S", default_value_t = 0, help_heading = "Faults")]
    pub suspicions: u8,
    /// At most so many nodes ask to become members
    #[arg(long, value_name = "J", default_value_t = 0, help_heading = "Faults")]
    pub joins: u8,
    /// At most so many nodes ask to leave the group
    #[arg(long, value_name = "K", default_value_t = 0, help_heading = "Faults")]
    pub leaves: u8,
    /// Timers run out at most so often in all; by default as often as they like
    #[arg(long, value_name = "K", help_heading = "Faults")]
    pub timer_budget: Option<u8>,
    /// Check even if that breaks an assumption of the algorithm
    #[arg(long, env = "CONCLAVE_BEYOND_MODEL", help_heading = "Faults")]
    pub beyond_model: bool,

    /// What has to hold; by default all that the algorithm promises, and what a mutant breaks
    #[arg(long, value_name = "ME,ND,…", value_delimiter = ',', help_heading = "What to check")]
    pub property: Vec<Property>,
}

/// Flags about the search.
#[derive(Clone, Debug, clap::Args)]
pub struct SearchArgs {
    /// Walk at random first: a violation is found fast that way, if not by a shortest run, and
    /// counts even if the search for a shortest one is stopped
    #[arg(long, value_name = "SEED", num_args = 0..=1, default_missing_value = "0")]
    #[arg(help_heading = "Search", conflicts_with_all = ["all", "budget_table"])]
    pub hunt: Option<u64>,
    /// Explore every order of events, even those that cannot be told apart
    #[arg(long, help_heading = "Search")]
    pub no_reduction: bool,
    /// Take states for one that differ only in the nodes' names
    #[arg(long, help_heading = "Search")]
    pub symmetry: bool,
    /// How many threads search; by default as many as the machine runs at once
    #[arg(long, value_name = "K", env = "CONCLAVE_THREADS", help_heading = "Search")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Stop when the search would take more memory
    #[arg(long, value_name = "SIZE", env = "CONCLAVE_MEMORY", help_heading = "Search")]
    #[arg(default_value_t = Size(2 << 30))]
    pub memory: Size,
    /// Stop at runs of so many steps
    #[arg(long, value_name = "STEPS", help_heading = "Search")]
    pub depth: Option<u32>,
    /// Stop after so many states
    #[arg(long, value_name = "N", help_heading = "Search")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub states: Option<u64>,
}

/// When timers run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TimersArg {
    /// At any moment, in any order.
    Anytime,
    /// Only when no message is on its way, in the order of their deadlines.
    Quiet,
}

impl From<TimersArg> for Timers {
    fn from(timers: TimersArg) -> Self {
        match timers {
            TimersArg::Anytime => Self::Anytime,
            TimersArg::Quiet => Self::Quiet,
        }
    }
}

impl Args {
    /// The flags as the laboratory takes them, with the files that they name.
    pub fn flags(&self) -> Result<CheckFlags, Failure> {
        let MakeUpArgs { topology, attributes, set } = self.system.make_up.clone();
        Ok(carry! {
            SystemArgs {
                nodes, requests, clients, no_detector, crashes, recoveries, amnesias, mortal, mid_step,
                losses, repeats, partitions, suspicions, joins, leaves, timer_budget, beyond_model,
                property; make_up, channels, timers
            } = self.system.clone(),
            SearchArgs {
                no_reduction, symmetry, memory, depth, states; hunt: _, threads
            } = self.search.clone()
            => CheckFlags {
                topology,
                attributes,
                set,
                channels: channels.map(Into::into),
                timers: timers.map(Into::into),
                count: self.count,
                threads: threads.or_else(|| u16::try_from(available()).ok()),
                files: make_up.files()?,
            }
        })
    }
}

/// How many threads the machine runs at once.
fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
