//! `conclave check`: every run of a small system, or a shortest one that violates a property.

mod all;
pub mod args;
mod crashes;
mod grid;
mod messages;
mod search;
mod table;
mod text;
mod witness;

use std::io::Write;

use conclave_check::{CheckSpec, Report, Stop, Verdict};
use conclave_protocol::{Info, Property};
use serde_json::{Value, json};

pub use self::args::Args;
use self::search::{Prey, Search, Searched};
use self::witness::Witness;
use crate::report::{Claim, claim};
use crate::{Done, Failure, Terminal, find};

/// What to know about the end of a check, for `--help`.
pub const ENDS: &str = "\
Examples:
  conclave check mutex/ricart-agrawala --nodes 3
  conclave check mutex/ra-no-tie-break --nodes 3 --trace broken.json
  conclave check election --crash-table
  conclave check --all

How a check ends:
  A violation that breaks a promise of the algorithm within its model, or is what a mutant is there
  to break, ends it with 1. One that the algorithm never denied, or beyond its model, is shown, and
  ends it with 0. A search that a limit stops before it is done ends it with 6, unless it has found
  a broken promise by then; what is violated after so many steps is violated, what holds so far is
  said to. With --all, a failure that the catalogue claims and that is not found is as bad as a
  broken promise.";

/// Checks an algorithm, or the whole catalogue.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    let search = Search::begin(terminal);
    let Some(id) = &args.id else {
        return all::perform(args, &search, terminal, out);
    };
    if args.deep {
        return Err(Failure::Usage("--deep is about --all".to_owned()));
    }
    if args.crash_table {
        return crashes::perform(id, args, &search, terminal, out);
    }
    let info = find(id)?;
    let spec = args.spec(info)?;
    let beyond = spec.beyond(info);
    if !beyond.is_empty() && !args.system.beyond_model && !args.budget_table {
        let beyond = beyond.into_iter().map(conclave_sim::Beyond).collect();
        return Err(Failure::BeyondModel { id: info.id, beyond });
    }
    if args.budget_table {
        return table::perform(args, info, &spec, &search, terminal, out);
    }
    let prey = match args.search.hunt {
        Some(seed) => search.hunt(&spec, seed)?,
        None => None,
    };
    let mut searched = search.run(&spec, info.id)?;
    search.clear();
    if let Some(prey) = &prey {
        searched.add(prey);
    }
    let checked = Checked { prey, ..Checked::new(info, &spec, &searched, beyond)? };
    if let Some(path) = &args.trace {
        match checked.blamed() {
            Some(witness) => witness.save(path)?,
            None => {
                let path = path.display();
                // Standard error may be closed; then there is nobody to tell.
                let _ = writeln!(terminal.stderr(), "nothing was violated: {path} is not written");
            }
        }
    }
    if args.json {
        writeln!(out, "{:#}", checked.json())?;
    } else {
        checked.print(args, terminal, out)?;
    }
    Ok(checked.done())
}

/// A check, what it found, and the runs that show it.
struct Checked<'a> {
    info: &'static Info,
    spec: &'a CheckSpec,
    searched: &'a Searched,
    beyond: Vec<String>,
    /// The run of each violation.
    witnesses: Vec<Witness>,
    /// What was found at random before the search.
    prey: Option<Prey>,
}

impl<'a> Checked<'a> {
    fn new(
        info: &'static Info,
        spec: &'a CheckSpec,
        searched: &'a Searched,
        beyond: Vec<String>,
    ) -> Result<Self, Failure> {
        let violations = searched.report.violations();
        let witness = |(property, violation)| Witness::new(info, spec, property, violation);
        let witnesses = violations.map(witness).collect::<Result<_, _>>()?;
        Ok(Self { info, spec, searched, beyond, witnesses, prey: None })
    }

    fn report(&self) -> &Report {
        &self.searched.report
    }

    /// The violation that matters most: of a promise, if there is one.
    fn blamed(&self) -> Option<&Witness> {
        let promised = |witness: &&Witness| is_promised(self.info, witness.property);
        self.witnesses.iter().find(promised).or_else(|| self.witnesses.first())
    }

    /// Whether a promise was broken, or the search cut short.
    fn done(&self) -> Done {
        done(self.info, self.report(), self.beyond.is_empty())
    }

    /// Everything, for programs.
    fn json(&self) -> Value {
        let (report, seconds) = (self.report(), self.searched.seconds());
        json!({
            "algorithm": self.info.id,
            "spec": self.spec,
            "beyond_model": self.beyond,
            "properties": self.properties(),
            "coverage": report.coverage,
            "messages": report.messages,
            "theory": messages::theory_json(self.info, self.spec, report),
            "hunt": self.prey.as_ref().map(|prey| json!({
                "property": prey.property,
                "steps": prey.violation.decisions.len(),
                "seconds": prey.time.as_secs_f64(),
            })),
            "seconds": seconds,
            "transitions_per_second": report.coverage.transitions as f64 / seconds,
            "violated": self.done() == Done::Violated,
        })
    }

    fn properties(&self) -> Vec<Value> {
        let judgements = self.report().verdicts.iter();
        let value = judgements.map(|judgement| {
            let mut value = json!(judgement);
            value["meaning"] = json!(judgement.property.meaning());
            value["promised"] = json!(claim(self.info, judgement.property) == Claim::Promised);
            if let Claim::Fails(why) = claim(self.info, judgement.property) {
                value["known_failure"] = json!(why);
            }
            let witness = self.witnesses.iter().find(|it| it.property == judgement.property);
            if let Some(witness) = witness {
                value["steps"] = json!(witness.steps().collect::<Vec<_>>());
            }
            value
        });
        value.collect()
    }
}

/// Whether a violation of it is a broken promise: of the algorithm, or of what it spoils.
fn is_promised(info: &Info, property: Property) -> bool {
    matches!(claim(info, property), Claim::Promised | Claim::Spoilt)
}

/// How a check ends.
fn done(info: &Info, report: &Report, within_model: bool) -> Done {
    let mut violations = report.violations();
    if within_model && violations.any(|(property, _)| is_promised(info, property)) {
        return Done::Violated;
    }
    match report.coverage.stop {
        None => Done::Well,
        Some(Stop::Asked) => Done::Interrupted,
        Some(_) if report.verdicts.iter().all(|it| it.verdict != Verdict::Open) => Done::Well,
        Some(_) => Done::Stopped,
    }
}
