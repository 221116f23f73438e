//! `conclave lattice`: every global state that the processes of a run could have been in.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use conclave_lab::check::{counted, grouped};
use conclave_lab::flags::Size;
use conclave_lab::lattice::{
    AvoidedData, CutData, Known, KnownData, LatticeData, Request, Scope, Stop, cut_in_words, dot,
    lattice, svg,
};
use conclave_lab::{find, simulate};
use conclave_protocol::NodeId;
use conclave_sim::{RunSpec, Trace, TraceFile, Tracing};
use indicatif::{ProgressBar, ProgressStyle};

use super::cut::{channel_words, node_words};
use super::run::stop_on_ctrl_c;
use crate::report::headline_of;
use crate::spec_args::{Given, SpecArgs};
use crate::terminal::{BOLD, DIM, ERROR, GOOD, WARN, paint};
use crate::{Done, Failure, Terminal, print_json};

/// Flags of `conclave lattice`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A trace that `conclave run --trace` wrote, or an algorithm to run, such as
    /// mutex/ricart-agrawala
    #[arg(value_name = "FILE|ID")]
    pub subject: String,
    /// What the run depends on, if it is an algorithm.
    #[command(flatten)]
    pub spec: SpecArgs,
    /// Is this so in some consistent cut? Such as 'inside>=2' or 'channel(p0,p1)=1 and not down(p2)'
    #[arg(long, value_name = "FACT", help_heading = "Questions")]
    pub possibly: Option<String>,
    /// Does every run in which the same happened pass through a cut in which this is so?
    #[arg(long, value_name = "FACT", help_heading = "Questions")]
    pub definitely: Option<String>,
    /// Count control messages, such as markers, and the steps that they cause, too
    #[arg(long, help_heading = "Questions")]
    pub control: bool,
    /// Stop when the cuts of two levels would take more memory
    #[arg(long, value_name = "SIZE", env = "CONCLAVE_MEMORY", help_heading = "Questions")]
    #[arg(default_value_t = Size(2 << 30))]
    pub memory: Size,
    /// Print the lattice for Graphviz
    #[arg(long, help_heading = "Output", conflicts_with_all = ["svg", "json"])]
    pub dot: bool,
    /// Print the lattice as a picture
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub svg: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// A lattice of more cuts is neither drawn nor listed cut by cut for programs …
const DRAWN: usize = 2_000;
/// … and one of more than this not for people.
const LISTED: usize = 60;
/// So many levels have a line each; of more, so many are picked out.
const LEVELS: usize = 40;
/// What is said about a file, not about how to run an algorithm.
const OF_FILES: [&str; 10] = [
    "possibly",
    "definitely",
    "control",
    "memory",
    "dot",
    "svg",
    "json",
    "color",
    "width",
    "ascii",
];

/// A recorded run.
pub(super) struct Recorded {
    pub(super) trace: Trace,
    pub(super) file: TraceFile,
}

/// Reads a trace file.
pub(super) fn read(path: &Path) -> Result<Recorded, Failure> {
    let path = path.to_owned();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return Err(Failure::File { path, error }),
    };
    match TraceFile::parse(&text).and_then(|file| Ok(Recorded { trace: file.trace()?, file })) {
        Ok(recorded) => Ok(recorded),
        Err(error) => Err(Failure::Trace { path, error }),
    }
}

/// Walks through the consistent cuts of a run.
pub fn perform(
    args: &Args,
    given: &Given,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let Recorded { trace, file } = args.recorded(given)?;
    let request = Request {
        scope: if args.control { Scope::Everything } else { Scope::Application },
        possibly: args.possibly.clone(),
        definitely: args.definitely.clone(),
        memory: args.memory.0 as u64,
        keep: if args.json || args.dot || args.svg { DRAWN } else { LISTED },
    };
    let (stop, bar) = (stop_on_ctrl_c(), progress());
    let data = lattice(&trace, Some(&file), &request, |size, of, cuts| {
        bar.set_message(format!(
            "cuts with {size} of {of} events: {} so far",
            counted(cuts, "consistent cut")
        ));
        !stop.load(Ordering::Relaxed)
    })?;
    bar.finish_and_clear();
    if args.json {
        print_json(&data, out)?;
    } else if args.dot || args.svg {
        if data.states.is_empty() {
            return Err(Failure::Refused(conclave_lab::Refusal::Impossible(too_large(&data))));
        }
        write!(out, "{}", if args.dot { dot(&data) } else { svg(&data) })?;
    } else {
        writeln!(out, "{}\n", headline_of(&file.spec))?;
        print(&data, terminal, out)?;
    }
    Ok(match data.stopped.as_ref().map(|stopped| stopped.why) {
        None => Done::Well,
        Some(Stop::Memory) => Done::Stopped,
        Some(Stop::Told) => Done::Interrupted,
    })
}

impl Args {
    /// The run: read, or made.
    fn recorded(&self, given: &Given) -> Result<Recorded, Failure> {
        let path = PathBuf::from(&self.subject);
        // No id has a dot in it.
        if path.is_file() || path.extension().is_some() {
            if let Some(flag) = given.typed().find(|name| !OF_FILES.contains(name)) {
                let subject = &self.subject;
                let text = format!("--{flag} is about a run to be made, and {subject} is a file");
                return Err(Failure::Usage(text));
            }
            return read(&path);
        }
        let info = find(&self.subject)?;
        let spec = self.spec.flags()?.allowed(info)?;
        let spec = RunSpec { tracing: Tracing::Full, ..spec };
        let outcome = simulate(&spec)?;
        let file = TraceFile::new(&spec, &outcome);
        Ok(Recorded { trace: outcome.trace, file })
    }
}

fn too_large(data: &LatticeData) -> String {
    let cuts = match &data.stopped {
        Some(_) => format!("has more than {}", counted(data.consistent, "consistent cut")),
        None => format!("has {}", counted(data.consistent, "consistent cut")),
    };
    format!(
        "the lattice {cuts}, and one of up to {} is drawn; --json has its levels",
        grouped(DRAWN as u64)
    )
}

fn progress() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    bar.set_style(style.expect("the template is well-formed"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn print(data: &LatticeData, terminal: &Terminal, out: &mut dyn Write) -> Result<(), Failure> {
    let events = data.events.iter().enumerate().map(|(node, count)| format!("p{node} {count}"));
    let events: Vec<String> = events.collect();
    writeln!(
        out,
        "{}: {}; {} between them{}",
        counted(data.run.len() as u64, "event"),
        events.join(", "),
        counted(data.messages as u64, "message"),
        match data.on_their_way {
            0 => String::new(),
            some => format!(", {some} still on their way"),
        }
    )?;
    let consistent = paint(BOLD, counted(data.consistent, "consistent cut"));
    let so_far = if data.stopped.is_some() { "so far " } else { "" };
    let cuts = grouped_digits(&data.cuts);
    writeln!(out, "{so_far}{consistent} of {cuts} cuts{}", linearizations(data))?;
    levels(data, terminal, out)?;
    states(data, terminal, out)?;
    run(data, out)?;
    for snapshot in &data.snapshots {
        let number = snapshot.number;
        let line = match (
            snapshot.recorded.iter().copied().collect::<Option<Vec<u32>>>(),
            snapshot.consistent,
        ) {
            (Some(cut), Some(true)) => {
                format!("{}, {}", cut_in_words(&cut), paint(GOOD, "a consistent cut"))
            }
            (Some(cut), _) => format!("{}, {}", cut_in_words(&cut), paint(ERROR, "not consistent")),
            (None, _) => {
                let missing = snapshot.recorded.iter().filter(|it| it.is_none()).count();
                format!("{} did not record", counted(missing as u64, "node"))
            }
        };
        writeln!(out, "{} {line}", paint(BOLD, format!("snapshot #{number}:")))?;
    }
    if let Some(known) = &data.possibly {
        possibly(known, out)?;
    }
    if let Some(avoided) = &data.definitely {
        definitely(avoided, out)?;
    }
    if let Some(stopped) = &data.stopped {
        let why = match stopped.why {
            Stop::Memory => "the memory is used up; --memory gives it more",
            Stop::Told => "interrupted",
        };
        let (level, of) = (stopped.level, stopped.of);
        let line = format!("stopped after the cuts with {level} of {of} events: {why}");
        writeln!(out, "{}", paint(WARN, line))?;
    }
    Ok(())
}

fn linearizations(data: &LatticeData) -> String {
    match (&data.linearizations, data.capped) {
        (None, _) => String::new(),
        (Some(_), true) => "; more than 2^128 linearizations".to_owned(),
        (Some(one), false) if one == "1" => "; 1 linearization".to_owned(),
        (Some(number), false) => format!("; {} linearizations", grouped_digits(number)),
    }
}

fn grouped_digits(digits: &str) -> String {
    match digits.parse() {
        Ok(number) => grouped(number),
        // Longer than anything one would read out.
        Err(_) => digits.to_owned(),
    }
}

/// How many cuts there are of each size, as bars.
fn levels(data: &LatticeData, terminal: &Terminal, out: &mut dyn Write) -> Result<(), Failure> {
    let widest = data.levels.iter().copied().max().unwrap_or(1);
    let digits = grouped(widest).len();
    let bar = if terminal.ascii { "#" } else { "█" };
    let room = terminal.width.saturating_sub(digits + 12).min(60) as u64;
    let every = data.levels.len().div_ceil(LEVELS).max(1);
    writeln!(out, "\n{}", paint(DIM, "events  consistent cuts"))?;
    for (size, &cuts) in data.levels.iter().enumerate() {
        if size % every == 0 || size + 1 == data.levels.len() {
            let length = if widest <= room { cuts } else { (cuts * room).div_ceil(widest) };
            let bar = bar.repeat(length as usize);
            writeln!(out, "{size:>6}  {:>digits$}  {}", grouped(cuts), paint(DIM, bar))?;
        }
    }
    if every > 1 {
        let text = format!("one of {every} levels is shown; the widest has {}", grouped(widest));
        writeln!(out, "{}", paint(DIM, text))?;
    }
    Ok(())
}

/// Each cut with what it is like, if they are few.
fn states(data: &LatticeData, terminal: &Terminal, out: &mut dyn Write) -> Result<(), Failure> {
    if data.states.is_empty() {
        return Ok(());
    }
    let marks = |cut: &CutData| {
        let mut marks = String::from(if cut.run { "*" } else { " " });
        marks.extend(cut.snapshots.iter().map(|number| format!("#{number}")));
        marks.push_str(if cut.possibly == Some(true) { "?" } else { "" });
        marks.push_str(if cut.definitely == Some(true) { "!" } else { "" });
        marks
    };
    let width = data.states.iter().map(|cut| marks(cut).len()).max().unwrap_or(1);
    let names: Vec<String> = (0..data.events.len()).map(|node| format!("p{node}")).collect();
    let snapshots = if data.snapshots.is_empty() { "" } else { ", #: recorded by that snapshot" };
    let asked = match (&data.possibly, &data.definitely) {
        (None, None) => "",
        (Some(_), None) => ", ?: what is asked about is so",
        (None, Some(_)) => ", !: what is asked about is so",
        (Some(_), Some(_)) => ", ? and !: what is asked about is so",
    };
    let head = format!("{}  (*: of the run that happened{snapshots}{asked})", names.join(","));
    writeln!(out, "\n{}", paint(DIM, head))?;
    for cut in &data.states {
        let counts: Vec<String> = cut.cut.iter().map(ToString::to_string).collect();
        let (counts, marks) = (counts.join(","), marks(cut));
        let nodes = cut.state.nodes.iter().filter_map(node_words);
        let channels = cut.state.channels.iter().map(|it| channel_words(it, terminal.ascii));
        let said: Vec<String> = nodes.chain(channels).collect();
        writeln!(out, "{counts} {marks:<width$} {}", paint(DIM, said.join("; ")))?;
    }
    Ok(())
}

fn run(data: &LatticeData, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "\n{} {}", paint(BOLD, "the run that happened:"), events(&data.run))?;
    Ok(())
}

/// Whose events come one after the other.
fn events(run: &[NodeId]) -> String {
    const SHOWN: usize = 40;
    let mut said: Vec<String> = run.iter().take(SHOWN).map(ToString::to_string).collect();
    if run.is_empty() {
        said.push("nothing happened".to_owned());
    }
    if run.len() > SHOWN {
        said.push(format!("… and {} more", run.len() - SHOWN));
    }
    said.join(" ")
}

fn possibly(known: &KnownData, out: &mut dyn Write) -> Result<(), Failure> {
    let question = paint(BOLD, format!("possibly {}:", known.fact));
    match (&known.cut, known.answer) {
        (Some(cut), _) => {
            let happened = match known.in_run {
                true => "and it was so in the run that happened",
                false => "though it was not so in the run that happened",
            };
            let at = cut_in_words(cut);
            writeln!(out, "{question} {}, at {at}, {happened}", paint(BOLD, "yes"))?;
        }
        (None, Known::Unknown) => {
            writeln!(out, "{question} {}, so far in no cut", paint(WARN, "not known"))?;
        }
        (None, _) => writeln!(out, "{question} {}, in no consistent cut", paint(BOLD, "no"))?,
    }
    Ok(())
}

fn definitely(avoided: &AvoidedData, out: &mut dyn Write) -> Result<(), Failure> {
    let question = paint(BOLD, format!("definitely {}:", avoided.fact));
    match (avoided.answer, avoided.by, &avoided.avoiding) {
        (Known::Yes, by, _) => {
            let by = by.unwrap_or_default();
            let words = format!("every run has passed through it when {by} events have happened");
            writeln!(out, "{question} {}, {words}", paint(BOLD, "yes"))?;
        }
        (Known::No, _, Some(run)) if !avoided.in_run => {
            let words = "not even the run that happened passed through it";
            writeln!(out, "{question} {}, {words}, nor does {}", paint(BOLD, "no"), events(run))?;
        }
        (Known::No, _, Some(run)) => {
            writeln!(out, "{question} {}, not in the run {}", paint(BOLD, "no"), events(run))?;
        }
        (Known::No, _, None) => {
            let words = "some run avoids it, which took too much memory to keep";
            writeln!(out, "{question} {}, {words}", paint(BOLD, "no"))?;
        }
        (Known::Unknown, ..) => {
            let words = "so far some run avoids it";
            writeln!(out, "{question} {}, {words}", paint(WARN, "not known"))?;
        }
    }
    Ok(())
}
