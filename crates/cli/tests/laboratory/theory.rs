//! Every figure of the theory comes out of a run, exactly.
//!
//! One test per row, with the parameters that `theory.json` works out and with others:
//! `cargo test -p conclave-cli --test laboratory theory`.

use std::sync::atomic::{AtomicUsize, Ordering};

use conclave_algorithms::catalogue;
use conclave_lab::theory::measure::examine;
use conclave_lab::theory::setups::parameters;
use conclave_lab::theory::{Row, formula::Params, theory};
use conclave_protocol::Family;
use libtest_mimic::Trial;

/// What the trials have found so far.
static ROWS: AtomicUsize = AtomicUsize::new(0);
static FIGURES: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |row: &'static Row| {
        Trial::test(format!("theory {row}"), move || {
            let figures = check(row)?;
            ROWS.fetch_add(1, Ordering::Relaxed);
            FIGURES.fetch_add(figures, Ordering::Relaxed);
            Ok(())
        })
    };
    let mut trials: Vec<Trial> = rows().map(trial).collect();
    trials.push(Trial::test("theory every-row-of-mutual-exclusion-and-elections-is-run", || {
        let whole = |family: &Family| family.inside || family.elects;
        let whole = |row: &&Row| Family::named(&row.family).is_some_and(whole);
        let missing = |row: &&Row| catalogue::find(&row.id).is_none();
        let missing = theory().rows.iter().filter(whole).filter(missing);
        let missing: Vec<String> = missing.map(ToString::to_string).collect();
        if missing.is_empty() { Ok(()) } else { Err(missing.join(" ").into()) }
    }));
    trials
}

/// Prints which rows were not run and why, and how many figures were found.
pub(crate) fn summary() {
    for row in &theory().rows {
        if let Some(reason) = reason(row) {
            println!("not run: {row}: {reason}");
        }
    }
    let (exact, figures) = (ROWS.load(Ordering::Relaxed), FIGURES.load(Ordering::Relaxed));
    println!("{} rows, {exact} run and exact, {figures} figures found", rows().count());
}

/// The rows that are run: of what is in the catalogue all but those about chance.
fn rows() -> impl Iterator<Item = &'static Row> {
    theory().rows.iter().filter(|row| reason(row).is_none())
}

/// Why no run bears it out.
fn reason(row: &Row) -> Option<String> {
    let Some(info) = catalogue::find(&row.id) else {
        return Some(format!("the catalogue has no {} yet", row.id));
    };
    let case = info.cases.iter().find(|case| case.of.is_none() && case.scenario == row.scenario);
    case.and_then(|case| case.left_out).map(str::to_owned)
}

/// How many figures were found as theory has them.
fn check(row: &'static Row) -> Result<usize, String> {
    let mut found = 0;
    let worked_out: Vec<_> = row.instances().collect();
    for (i, params) in parameters(row).into_iter().enumerate() {
        let findings =
            examine(row, &params).map_err(|why| format!("{row} {}: {why}", show(&params)))?;
        for finding in &findings {
            if !finding.agrees {
                return Err(format!("{row} {}: {finding:?}", show(&params)));
            }
        }
        // The worked-out figures are those of the formulas, and so those of the runs.
        let figures = worked_out.get(i).map(|(_, figures)| figures).into_iter().flatten();
        for (quantity, figure) in figures {
            let expected = findings.iter().filter(|finding| finding.quantity == *quantity);
            for finding in expected {
                assert_eq!(finding.expected, *figure, "{row}: {quantity}");
            }
        }
        found += findings.len();
    }
    if found == 0 { Err(format!("{row}: nothing was measured")) } else { Ok(found) }
}

fn show(params: &Params) -> String {
    let values: Vec<_> = params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    values.join(" ")
}
