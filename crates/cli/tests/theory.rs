//! Every figure of the theory comes out of a run, exactly.
//!
//! One test per row, with the parameters that `theory.json` works out and with others:
//! `cargo test -p conclave-cli --test theory ricart-agrawala`.

use conclave_algorithms::catalogue;
use conclave_cli::theory::measure::examine;
use conclave_cli::theory::setups::parameters;
use conclave_cli::theory::{Row, formula::Params, theory};
use libtest_mimic::{Arguments, Failed, Trial};

/// Rows that no run can bear out yet, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("election/chang-roberts", "the catalogue has no elections on a ring yet"),
    ("election/ring-list", "the catalogue has no elections on a ring yet"),
    ("election/ring-modified", "the catalogue has no elections on a ring yet"),
    ("election/frederickson-lynch", "the catalogue has no elections on a ring yet"),
    ("election/wireless-tree", "the catalogue has no elections on a tree yet"),
    ("election/tree-mattern", "the catalogue has no elections on a tree yet"),
    ("election/superpeer-dht", "it is about random ids, not about a run"),
    ("snapshot/", "the catalogue has no snapshots yet"),
    ("termination/", "the catalogue has no detection of termination yet"),
    ("deadlock/", "the catalogue has no detection of deadlock yet"),
    ("multicast/", "the catalogue has no multicast yet"),
    ("txn/", "the catalogue has no transactions yet"),
];

fn main() {
    let mut trials: Vec<Trial> = rows()
        .map(|row| Trial::test(row.to_string(), move || check(row).map(drop).map_err(Failed::from)))
        .collect();
    trials.push(Trial::test("every-row-is-run-or-says-why-not", summary));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// The rows that are run: those of mutual exclusion and the bully, whether or not the algorithm
/// exists, and whatever else is in the catalogue.
fn rows() -> impl Iterator<Item = &'static Row> {
    theory().rows.iter().filter(|row| reason(row).is_none())
}

fn reason(row: &Row) -> Option<&'static str> {
    let listed = NOT_RUN.iter().find(|(begin, _)| row.id.starts_with(begin));
    let missing = catalogue::find(&row.id).is_none();
    listed.filter(|_| missing).map(|(_, reason)| *reason)
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

fn summary() -> Result<(), Failed> {
    let (mut run, mut exact, mut figures) = (0, 0, 0);
    for row in &theory().rows {
        if let Some(reason) = reason(row) {
            println!("not run: {row}: {reason}");
            continue;
        }
        run += 1;
        if let Ok(found) = check(row) {
            exact += 1;
            figures += found;
        }
    }
    println!("{run} rows run, {exact} exact, {figures} figures found");
    let mutex = theory().rows.iter().filter(|row| row.family == "mutex").count();
    if exact < run || run < mutex {
        return Err(format!("{exact} of {run} rows are exact").into());
    }
    Ok(())
}

fn show(params: &Params) -> String {
    let values: Vec<_> = params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    values.join(" ")
}
