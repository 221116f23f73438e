//! What is printed about a check.

use std::io::Write;

use conclave_check::{Budgets, CheckSpec, Coverage, Judgement, Requests, Stop, Timers, Verdict};
use conclave_protocol::{Channels, Info, Property};

use super::search::Prey;
use super::witness::Witness;
use super::{Args, Checked, messages};
use crate::report::{Claim, claim};
use crate::spec_args::values::Size;
use crate::terminal::{BOLD, DIM, ERROR, GOOD, WARN, paint};
use crate::{Failure, Terminal};

/// So many steps of a loop are said in words.
const LOOP: usize = 24;

impl Checked<'_> {
    /// Prints everything.
    pub(super) fn print(
        &self,
        args: &Args,
        terminal: &Terminal,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        writeln!(out, "{} {}", paint(BOLD, self.info.title), describe(self.info, self.spec))?;
        for text in &self.beyond {
            writeln!(out, "{} {text}", paint(WARN, "beyond its model:"))?;
        }
        let coverage = &self.report().coverage;
        if let Some(stop) = coverage.stop {
            let text = format!("stopped before it was done: {}", stopped(stop, self.spec));
            writeln!(out, "{}", paint(WARN, text))?;
        }
        writeln!(out)?;
        for judgement in &self.report().verdicts {
            writeln!(out, "{}", self.verdict(judgement, terminal))?;
        }
        if let Some(mutant) = self.info.mutant {
            let text = format!("A spoilt {}: {}.", mutant.of, mutant.defect);
            writeln!(out, "{}", paint(DIM, text))?;
        }
        writeln!(out)?;
        self.statistics(out)?;
        messages::print(self, terminal, out)?;
        let mut shown: Vec<&Witness> = Vec::new();
        for witness in &self.witnesses {
            if !shown.iter().any(|known| known.is_same_run(witness)) {
                shown.push(witness);
                self.show(witness, args, terminal, out)?;
            }
        }
        if let (Some(path), Some(witness)) = (&args.trace, self.blamed()) {
            let path = path.display();
            let what = format!("how {} is violated", witness.property);
            writeln!(out, "\nwrote {what} to {path}; `conclave replay {path}` runs it")?;
        }
        Ok(())
    }

    fn verdict(&self, judgement: &Judgement, terminal: &Terminal) -> String {
        let Judgement { property, verdict } = judgement;
        let coverage = &self.report().coverage;
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
        let note = match (violated, claim(self.info, *property)) {
            (true, Claim::Promised | Claim::Spoilt) if !self.beyond.is_empty() => {
                " (outside its model)".to_owned()
            }
            (true, Claim::Spoilt) => " (as the sound algorithm never does)".to_owned(),
            (true, Claim::Fails(why)) => format!(" (known: {why})"),
            (true, Claim::None) => " (not promised)".to_owned(),
            (false, Claim::Fails(_) | Claim::None) => " (not promised)".to_owned(),
            (false, Claim::Spoilt) => {
                " (though it is spoilt; a larger system may show it)".to_owned()
            }
            (_, Claim::Promised) => String::new(),
        };
        format!("{mark} {property:<8} {said}{}", paint(DIM, note))
    }

    fn statistics(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let coverage = &self.report().coverage;
        let seconds = self.searched.seconds();
        let Coverage { states, transitions, depth, terminal, parts, .. } = coverage;
        let bytes = coverage.bytes as f64 / (*states).max(1) as f64;
        let size = Size(usize::try_from(coverage.bytes).unwrap_or(usize::MAX));
        let [locals, messages, links, steps] = *parts;
        let all = |number: usize, what| counted(number as u64, what);
        let violated = |it: &Judgement| match &it.verdict {
            Verdict::Violated(violation) => violation.loop_from.is_none(),
            _ => false,
        };
        let early = coverage.stop.is_none() && self.report().verdicts.iter().all(violated);
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
            ("reduction", reduction(self.spec, coverage)),
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
                    counted(self.spec.limits.threads as u64, "thread")
                ),
            ),
        ];
        let looks_back = |property: &&Property| {
            let history =
                [Property::FcfsHappenedBefore, Property::FcfsTimestamp, Property::FenceOrder];
            history.contains(property)
        };
        let history = self.spec.properties.iter().filter(looks_back).map(|it| it.name());
        let history: Vec<&str> = history.collect();
        if !history.is_empty() {
            let text =
                format!("{}: states count as different by what was before", history.join(", "));
            lines.insert(1, ("history", text));
        }
        if let Some(Prey { property, violation, time }) = &self.prey {
            let steps = counted(violation.decisions.len() as u64, "step");
            let text =
                format!("at random, {property} was violated within {time:.1?}, after {steps}");
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
        &self,
        witness: &Witness,
        args: &Args,
        terminal: &Terminal,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let also = |it: &&Witness| it.property != witness.property && it.is_same_run(witness);
        let also: Vec<&Witness> = self.witnesses.iter().filter(also).collect();
        let steps = counted(witness.len() as u64, "step");
        let mut names: Vec<&str> = vec![witness.property.name()];
        names.extend(also.iter().map(|it| it.property.name()));
        let names = names.join(" and ");
        let shortest = if self.report().coverage.stop.is_none() { "a shortest" } else { "a" };
        let what = match witness.loop_from() {
            Some(_) => format!("a run that violates {names} for ever"),
            None => format!("{shortest} run that violates {names}: {steps}"),
        };
        writeln!(out, "\n{}", paint(BOLD, what))?;
        if !args.diagram.no_diagram {
            let events = args.diagram.diagram_events.0;
            write!(out, "\n{}\n", witness.diagram(&also, events, terminal))?;
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
}

/// What is checked, in one line.
pub(super) fn describe(info: &Info, spec: &CheckSpec) -> String {
    let n = u64::from(spec.setup.n());
    let shape = match spec.setup.topology.shape() {
        "complete" => "each linked with each",
        "ring" => "in a ring",
        "line" => "in a line",
        "star" => "in a star",
        "binary" => "in a binary tree",
        "tree" => "in a tree",
        _ => "in a graph",
    };
    let mut parts = vec![format!("({}), {}, {shape}", info.id, counted(n, "node"))];
    if info.family() != "fd" {
        let often = match spec.requests {
            Requests::AtMost(1) => "once".to_owned(),
            Requests::AtMost(often) => format!("{often} times"),
            Requests::Endless => "again and again".to_owned(),
        };
        let who = counted(spec.clients.len() as u64, "node");
        let verb = if spec.clients.len() == 1 { "asks" } else { "ask" };
        parts.push(format!("{who} {verb} {often}"));
    }
    parts.push(match spec.channels {
        Channels::Fifo => "messages keep their order".to_owned(),
        _ => "messages may overtake each other".to_owned(),
    });
    if spec.timers == Timers::Quiet {
        parts.push("time-outs are longer than messages take".to_owned());
    }
    parts.extend(faults(&spec.budgets));
    for (name, value) in &spec.setup.options {
        parts.push(format!("{name}={value}"));
    }
    parts.join("; ")
}

/// What may go wrong, in words.
pub(super) fn faults(budgets: &Budgets) -> Option<String> {
    let kinds = [
        (budgets.crashes, "crash", "crashes"),
        (budgets.recoveries, "recovery", "recoveries"),
        (budgets.amnesias, "recovery without memory", "recoveries without memory"),
        (budgets.losses, "lost message", "lost messages"),
        (budgets.repeats, "repeated message", "repeated messages"),
        (budgets.partitions, "partition", "partitions"),
        (budgets.suspicions, "wrong suspicion", "wrong suspicions"),
        (budgets.joins, "newcomer", "newcomers"),
        (budgets.leaves, "departure", "departures"),
        (budgets.timers.unwrap_or(0), "time-out", "time-outs"),
    ];
    let named = kinds.into_iter().filter(|(most, ..)| *most > 0).map(|(most, one, many)| {
        let what = if most == 1 { one } else { many };
        format!("{most} {what}")
    });
    let mut named: Vec<String> = named.collect();
    if budgets.mid_step {
        named.push("even in the middle of a step".to_owned());
    }
    (!named.is_empty()).then(|| format!("at most {}", named.join(", ")))
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

/// A whole number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A large number in a few characters.
pub(super) fn short(number: f64) -> String {
    match number {
        1e9.. => format!("{:.1} billion", number / 1e9),
        1e6.. => format!("{:.1} million", number / 1e6),
        1e4.. => format!("{:.0} thousand", number / 1e3),
        _ => format!("{number:.0}"),
    }
}

pub(super) fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_can_be_read() {
        assert_eq!(["0", "999", "1,000", "1,402,298"], [0, 999, 1000, 1_402_298].map(grouped)[..]);
        assert_eq!(short(5_489.0), "5489");
        assert_eq!(short(73_981.0), "74 thousand");
        assert_eq!(short(7_398_199.0), "7.4 million");
        assert_eq!(counted(1, "step"), "1 step");
    }

    #[test]
    fn budgets_are_said_in_words() {
        assert_eq!(faults(&Budgets::default()), None);
        let some = Budgets { crashes: 2, recoveries: 1, mid_step: true, ..Budgets::default() };
        let words = "at most 2 crashes, 1 recovery, even in the middle of a step";
        assert_eq!(faults(&some).as_deref(), Some(words));
    }
}
