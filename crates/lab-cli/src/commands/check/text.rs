//! What is printed about a check.

use std::io::Write;

use conclave_check::{CheckSpec, Coverage, Judgement, Stop, Timers, Verdict};
use conclave_lab::catalogue;
use conclave_lab::check::{Caught, Checked, Witness, counted, describe, grouped, short};
use conclave_lab::flags::Size;
use conclave_lab::report::{Claim, claim};
use conclave_protocol::Property;

use super::{Args, messages};
use crate::diagram;
use crate::terminal::{BOLD, DIM, ERROR, GOOD, WARN, paint};
use crate::{Failure, Terminal};

/// So many steps of a loop are said in words.
const LOOP: usize = 24;

/// Prints everything.
pub(super) fn print(
    checked: &Checked<'_>,
    args: &Args,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    writeln!(out, "{} {}", paint(BOLD, checked.info.title), describe(checked.info, checked.spec))?;
    for text in &checked.beyond {
        writeln!(out, "{} {text}", paint(WARN, "beyond its model:"))?;
    }
    let coverage = &checked.report().coverage;
    if let Some(stop) = coverage.stop {
        let text = format!("stopped before it was done: {}", stopped(stop, checked.spec));
        writeln!(out, "{}", paint(WARN, text))?;
    }
    writeln!(out)?;
    for judgement in &checked.report().verdicts {
        writeln!(out, "{}", verdict(checked, judgement, terminal))?;
    }
    if let Some(mutant) = checked.info.mutant {
        let text = format!("A spoilt {}: {}.", mutant.of, mutant.defect);
        writeln!(out, "{}", paint(DIM, text))?;
    }
    writeln!(out)?;
    statistics(checked, out)?;
    messages::print(checked, terminal, out)?;
    let mut shown: Vec<&Witness> = Vec::new();
    for witness in &checked.witnesses {
        if !shown.iter().any(|known| known.is_same_run(witness)) {
            shown.push(witness);
            show(checked, witness, args, terminal, out)?;
        }
    }
    if let (Some(path), Some(witness)) = (&args.trace, checked.blamed()) {
        let (path, program) = (path.display(), catalogue::program());
        let what = format!("how {} is violated", witness.property);
        writeln!(out, "\nwrote {what} to {path}; `{program} replay {path}` runs it")?;
    }
    Ok(())
}

fn verdict(checked: &Checked<'_>, judgement: &Judgement, terminal: &Terminal) -> String {
    let Judgement { property, verdict } = judgement;
    let coverage = &checked.report().coverage;
    let (tick, cross) = if terminal.ascii { ("+", "x") } else { ("✓", "✗") };
    let states = grouped(coverage.states);
    let (mark, said) = match verdict {
        Verdict::Holds => (paint(GOOD, tick), format!("holds in all {states} states")),
        Verdict::Vacuous { why } => {
            (paint(WARN, "?"), format!("vacuous in all {states} states: {why}"))
        }
        Verdict::Open => {
            let depth = coverage.depth;
            let said = format!("holds so far ({states} states, runs of up to {depth} steps)");
            (paint(WARN, "~"), said)
        }
        Verdict::Violated(violation) => {
            let steps = counted(violation.decisions.len() as u64, "step");
            let said = match violation.loop_from {
                Some(_) => {
                    format!("violated by an endless run ({steps} to the end of its loop)")
                }
                None => format!("violated after {steps}"),
            };
            (paint(ERROR, cross), format!("{}: {}", paint(ERROR, said), violation.why))
        }
    };
    let violated = matches!(verdict, Verdict::Violated(_));
    let note = match (violated, claim(checked.info, *property)) {
        (true, Claim::Promised | Claim::Spoilt) if !checked.beyond.is_empty() => {
            " (outside its model)".to_owned()
        }
        (true, Claim::Spoilt) => " (as the sound algorithm never does)".to_owned(),
        (true, Claim::Fails(why)) => format!(" (known: {why})"),
        (true, Claim::None) => " (not promised)".to_owned(),
        (false, Claim::Fails(_) | Claim::None) => " (not promised)".to_owned(),
        (false, Claim::Spoilt) => " (though it is spoilt; a larger system may show it)".to_owned(),
        (_, Claim::Promised) => String::new(),
    };
    format!("{mark} {property:<8} {said}{}", paint(DIM, note))
}

fn statistics(checked: &Checked<'_>, out: &mut dyn Write) -> Result<(), Failure> {
    let coverage = &checked.report().coverage;
    let seconds = checked.searched.seconds();
    let Coverage { states, transitions, depth, terminal, parts, .. } = coverage;
    let bytes = coverage.bytes as f64 / (*states).max(1) as f64;
    let size = Size(usize::try_from(coverage.bytes).unwrap_or(usize::MAX));
    let [locals, messages, links, steps] = *parts;
    let all = |number: usize, what| counted(number as u64, what);
    let violated = |it: &Judgement| match &it.verdict {
        Verdict::Violated(violation) => violation.loop_from.is_none(),
        _ => false,
    };
    let early = coverage.stop.is_none() && checked.report().verdicts.iter().all(violated);
    let until = if early { ", until all was violated" } else { "" };
    let mut lines = vec![
        (
            "states",
            format!(
                "{} distinct, {} generated, {} terminal{until}",
                grouped(*states),
                // The first is no transition's doing.
                grouped(transitions + 1),
                grouped(*terminal)
            ),
        ),
        ("depth", format!("{}, of shortest runs", counted(u64::from(*depth), "step"))),
        (
            "rules",
            format!(
                "ran {} for {}, {} and {} of links",
                all(steps, "time"),
                all(locals, "local state"),
                all(messages, "message"),
                all(links, "content"),
            ),
        ),
        ("reduction", reduction(checked.spec, coverage)),
        (
            "collision",
            format!(
                "with probability {:.0e} two states were taken for one, and one left out",
                coverage.collision
            ),
        ),
        ("memory", format!("{size}, {bytes:.0} bytes per state")),
        (
            "time",
            format!(
                "{seconds:.2} s, {} transitions per second, {}",
                short(*transitions as f64 / seconds),
                counted(checked.spec.limits.threads as u64, "thread")
            ),
        ),
    ];
    let looks_back = |property: &&Property| {
        let history = [Property::FcfsHappenedBefore, Property::FcfsTimestamp, Property::FenceOrder];
        history.contains(property)
    };
    let history = checked.spec.properties.iter().filter(looks_back).map(|it| it.name());
    let history: Vec<&str> = history.collect();
    if !history.is_empty() {
        let text = format!("{}: states count as different by what was before", history.join(", "));
        lines.insert(1, ("history", text));
    }
    if let Some(Caught { property, violation, time }) = &checked.caught {
        let steps = counted(violation.decisions.len() as u64, "step");
        let text = format!("at random, {property} was violated within {time:.1?}, after {steps}");
        lines.push(("hunt", text));
    }
    if !coverage.unexercised.is_empty() {
        lines.push(("never seen", coverage.unexercised.join(", ")));
    }
    for (name, text) in lines {
        writeln!(out, "{} {text}", paint(DIM, format!("{name:<10}")))?;
    }
    Ok(())
}

/// Shows the run that violates a property, and others if it is the same for them.
fn show(
    checked: &Checked<'_>,
    witness: &Witness,
    args: &Args,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let also = |it: &&Witness| it.property != witness.property && it.is_same_run(witness);
    let also: Vec<&Witness> = checked.witnesses.iter().filter(also).collect();
    let steps = counted(witness.len() as u64, "step");
    let mut names: Vec<&str> = vec![witness.property.name()];
    names.extend(also.iter().map(|it| it.property.name()));
    let names = names.join(" and ");
    let shortest = if checked.report().coverage.stop.is_none() { "a shortest" } else { "a" };
    let what = match witness.loop_from() {
        Some(_) => format!("a run that violates {names} for ever"),
        None => format!("{shortest} run that violates {names}: {steps}"),
    };
    writeln!(out, "\n{}", paint(BOLD, what))?;
    if !args.diagram.no_diagram {
        let (trace, remarks) = (&witness.outcome.trace, witness.remarks(&also));
        let (unit, events) = (witness.spec.setup.delay, args.diagram.diagram_events.0);
        write!(out, "\n{}\n", diagram::render(trace, &remarks, unit, events, terminal))?;
    }
    match witness.loop_from() {
        None if witness.len() == 0 => writeln!(out, "It is violated from the beginning.")?,
        None => {
            let last = witness.len();
            writeln!(out, "Step {last} breaks it: {}.", witness.words(last))?;
        }
        Some(from) => {
            let last = witness.len();
            writeln!(out, "Steps {from} to {last} repeat for ever:")?;
            for step in (from..=last).take(LOOP) {
                writeln!(out, "  {step:>3} {}", witness.words(step))?;
            }
            let left = (last + 1 - from).saturating_sub(LOOP);
            if left > 0 {
                writeln!(out, "  … and {left} more")?;
            }
        }
    }
    Ok(())
}

fn stopped(stop: Stop, spec: &CheckSpec) -> String {
    let endless = spec.timers == Timers::Anytime && spec.budgets.timers.is_none();
    let timers = match endless {
        true => ", and --timer-budget an end to timers, if it sets any",
        false => "",
    };
    match stop {
        Stop::Depth => "--depth allows no longer runs".to_owned(),
        Stop::States => format!("--states allows no more{timers}"),
        Stop::Memory => {
            let size = Size(spec.limits.memory);
            format!("it would take more than {size}; --memory gives it more{timers}")
        }
        Stop::Asked => "Ctrl-C was pressed".to_owned(),
    }
}

/// Whether orders were left out, and why not.
fn reduction(spec: &CheckSpec, coverage: &Coverage) -> String {
    let ends = |property: &&Property| {
        matches!(
            property,
            Property::NoDeadlock
                | Property::NoStarvation
                | Property::OneLeader
                | Property::LeaderKnown
                | Property::BestLeads
                | Property::Completeness
        )
    };
    let ends: Vec<&str> =
        spec.properties.iter().filter(ends).map(|property| property.name()).collect();
    let mut text = if coverage.reduced {
        "on: orders that cannot be told apart were explored once".to_owned()
    } else if !spec.reduction {
        "off, as told".to_owned()
    } else if spec.count {
        "off: counting needs every transition".to_owned()
    } else if !ends.is_empty() {
        format!("off: {} may fail in endless runs, which need every transition", ends.join(", "))
    } else {
        "off".to_owned()
    };
    if coverage.symmetric {
        text.push_str("; states that differ in names only were taken for one");
    }
    text
}
