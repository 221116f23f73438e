//! `conclave run`.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conclave_lab::flags::Limit;
use conclave_lab::report::{Claim, Report, claim, describe};
use conclave_lab::sweep::Sweep;
use conclave_lab::{find, simulate};
use conclave_protocol::{Info, Property};
use conclave_sim::{Beyond, RunSpec, TraceFile, Tracing, Verdict};
use indicatif::{ProgressBar, ProgressStyle};

use crate::diagram;
use crate::report::{cost_table, headline, verdicts};
use crate::spec_args::{Given, SpecArgs};
use crate::terminal::{BOLD, DIM, ERROR, GOOD, WARN, paint, style};
use crate::{Done, Failure, Terminal, print_json};

/// Flags of `conclave run`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The algorithm, such as mutex/ricart-agrawala; `conclave list` shows all
    pub id: String,
    /// What the run depends on.
    #[command(flatten)]
    pub spec: SpecArgs,
    /// Run so many seeds and report the first violation. Delays and workload are left to chance
    /// where flags do not fix them
    #[arg(long, value_name = "K", env = "CONCLAVE_SEEDS", help_heading = "System")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: Option<u64>,
    /// Write the run to a file, for `conclave replay`; with --seeds, the first that violates a
    /// promise
    #[arg(long, value_name = "FILE", env = "CONCLAVE_TRACE", help_heading = "Output")]
    pub trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// How the diagram looks.
    #[command(flatten)]
    pub diagram: DiagramArgs,
}

/// Flags about the space-time diagram.
#[derive(Clone, Debug, clap::Args)]
pub struct DiagramArgs {
    /// Leave out the space-time diagram
    #[arg(long, env = "CONCLAVE_NO_DIAGRAM", help_heading = "Output")]
    pub no_diagram: bool,
    /// How many events the diagram shows, or all
    #[arg(long, value_name = "N", env = "CONCLAVE_DIAGRAM_EVENTS", help_heading = "Output")]
    #[arg(default_value_t = Limit(60))]
    pub diagram_events: Limit,
}

/// Systems of more nodes are not recorded event by event, unless that is asked for.
const RECORDED: u32 = 20_000;

/// The states that nodes of a larger system record are not shown, unless a trace is asked for.
const SHOWN: u32 = 64;

/// Runs an algorithm once, or over many seeds.
pub fn perform(
    args: &Args,
    given: &Given,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let info = find(&args.id)?;
    if let Some(seeds) = args.seeds {
        return sweep(args, info, seeds, given, terminal, out);
    }
    let flags = args.spec.flags()?;
    let mut spec = flags.allowed(info)?;
    spec.tracing = match args.trace {
        Some(_) => Tracing::Full,
        None if spec.setup.n() > RECORDED => Tracing::Counts,
        None if info.shows.is_some() && spec.setup.n() <= SHOWN => Tracing::Full,
        None => Tracing::Sizes,
    };
    let outcome = simulate(&spec)?;
    if let Some(path) = &args.trace {
        save(path, &TraceFile::new(&spec, &outcome))?;
    }
    for useless in flags.without_effect(info, &outcome) {
        let (style, plain) = style(WARN);
        // Standard error may be closed; then there is no reader to warn.
        let _ = writeln!(terminal.stderr(), "{style}no effect:{plain} {useless}");
    }
    let report = Report::new(info, &spec, &outcome);
    if args.json {
        print_json(&report.data(), out)?;
    } else {
        print(&report, &args.diagram, terminal, out)?;
    }
    Ok(if report.violated() { Done::Violated } else { Done::Well })
}

/// Writes a run to a file.
pub(super) fn save(path: &Path, file: &TraceFile) -> Result<(), Failure> {
    fs::write(path, file.to_text()).map_err(|error| Failure::File { path: path.to_owned(), error })
}

/// Prints a run: what it was, what happened, what it cost, what held.
pub(crate) fn print(
    report: &Report<'_>,
    args: &DiagramArgs,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    writeln!(out, "{}", headline(report))?;
    for Beyond(text) in &report.beyond {
        writeln!(out, "{} {text}", paint(WARN, "beyond its model:"))?;
    }
    if report.outcome.trace.tracing < Tracing::Events {
        let text = format!("not recorded, for more than {RECORDED} nodes; --trace FILE does that");
        writeln!(out, "{}\n", paint(DIM, text))?;
    } else if !args.no_diagram {
        let (trace, remarks) = (&report.outcome.trace, report.remarks());
        let (unit, events) = (report.spec.setup.delay, args.diagram_events.0);
        writeln!(out, "\n{}", diagram::render(trace, &remarks, unit, events, terminal))?;
    }
    writeln!(out, "{}", cost_table(report, terminal))?;
    write!(out, "{}", verdicts(report, terminal))?;
    Ok(())
}

fn sweep(
    args: &Args,
    info: &'static Info,
    seeds: u64,
    given: &Given,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<Done, Failure> {
    let (flags, mut added) = args.spec.flags()?.with_chance();
    let base = flags.allowed(info)?;
    let beyond = base.beyond(info);
    let first_seed = base.seed;
    let stop = stop_on_ctrl_c();
    let bar = progress(seeds);
    let found = Sweep::over(info, &base, seeds, || {
        let on = !stop.load(Ordering::Relaxed);
        bar.inc(u64::from(on));
        on
    })?;
    bar.finish_and_clear();
    let first = found.first.as_ref();
    if let (Some((seed, _)), Some(path)) = (first, &args.trace) {
        let spec = RunSpec { seed: *seed, tracing: Tracing::Full, ..base.clone() };
        save(path, &TraceFile::new(&spec, &simulate(&spec)?))?;
    }
    let repeat = first.map(|(seed, _)| {
        added.push(("seed".to_owned(), Some(seed.to_string())));
        given.command(&["seed", "seeds", "trace", "json"], added)
    });
    if args.json {
        print_json(&found.data(info, &base, &beyond, seeds, repeat.as_deref()), out)?;
    } else {
        let line = describe(info, &base);
        let line = line.strip_suffix(&format!("; seed {first_seed}")).unwrap_or(&line);
        writeln!(out, "{} {line}", paint(BOLD, info.title))?;
        for Beyond(text) in &beyond {
            writeln!(out, "{} {text}", paint(WARN, "beyond its model:"))?;
        }
        print_sweep(&found, info, seeds, first_seed, terminal, out)?;
        if let (Some((seed, judged)), Some(repeat)) = (first, &repeat) {
            if let Verdict::Violated { why, .. } = &judged.verdict {
                let what = format!("{} violated first with seed {seed}:", judged.property);
                writeln!(out, "\n{} {why}", paint(ERROR, what))?;
            }
            writeln!(out, "{} {repeat}", paint(DIM, "see it:"))?;
        }
    }
    Ok(if found.first.is_some() && beyond.is_empty() {
        Done::Violated
    } else if found.runs < seeds {
        Done::Interrupted
    } else {
        Done::Well
    })
}

/// Says how often each property held.
fn print_sweep(
    sweep: &Sweep,
    info: &'static Info,
    seeds: u64,
    first: u64,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (runs, events, entries) = (sweep.runs, sweep.events, sweep.entries);
    let last = first.wrapping_add(runs.saturating_sub(1));
    if runs < seeds {
        writeln!(out, "{}", paint(WARN, format!("stopped after {runs} of {seeds} seeds")))?;
    }
    if runs == 0 {
        return Ok(());
    }
    writeln!(out, "{runs} runs (seeds {first} to {last}), {events} events, {entries} entries")?;
    let (tick, cross) = if terminal.ascii { ("+", "x") } else { ("✓", "✗") };
    for property in Property::ALL {
        let claim = claim(info, property);
        let violated = sweep.violations.get(&property).copied().unwrap_or(0);
        let open = sweep.open.get(&property).copied().unwrap_or(0);
        if claim == Claim::None && violated == 0 {
            continue;
        }
        if property == Property::FcfsTimestamp && matches!(claim, Claim::Fails(_)) {
            continue;
        }
        let (mark, word) = if violated > 0 {
            (paint(ERROR, cross), format!("violated in {violated} of {runs} runs"))
        } else if open == runs {
            (paint(WARN, "?"), "held in none".to_owned())
        } else {
            (paint(GOOD, tick), format!("held in {} of {runs} runs", runs - open))
        };
        let undecided = if open > 0 { format!(", undecided in {open}") } else { String::new() };
        let note = match claim {
            Claim::Promised => "",
            Claim::Spoilt => " (what this mutant is there to break)",
            Claim::Fails(_) => " (known to fail)",
            Claim::None => " (not promised)",
        };
        writeln!(out, "{mark} {property:<8} {word}{undecided}{}", paint(DIM, note))?;
    }
    Ok(())
}

/// Set when the user presses Ctrl-C; a second time ends the program at once.
pub(super) fn stop_on_ctrl_c() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    // Where signals cannot be handled, Ctrl-C ends the program as it always does.
    let _ = ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    stop
}

fn progress(seeds: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left");
    let bar = ProgressBar::new(seeds);
    bar.set_style(style.expect("the template is well-formed"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
