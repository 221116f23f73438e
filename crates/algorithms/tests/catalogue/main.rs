//! Tests that are one for each entry of the catalogue, named after the kind of test and the entry's id:
//! `cargo test -p conclave-algorithms --test catalogue lamport` runs all of Lamport's algorithm,
//! `--test catalogue -- "holds mutex/lamport"` one of them.

#![expect(clippy::disallowed_macros, reason = "a test may say what it did")]

mod churn;
mod claims;
mod holds;
mod recorded;
mod reduction;
#[path = "../it/support/mod.rs"]
mod support;

use libtest_mimic::Arguments;

fn main() {
    let kinds = [
        holds::trials(),
        reduction::trials(),
        recorded::trials(),
        claims::trials(),
        churn::trials(),
    ];
    let trials = kinds.into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
