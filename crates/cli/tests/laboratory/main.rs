//! One test for each row of the theory and each scenario, named after it:
//! `cargo test -p conclave-cli --test laboratory ricart-agrawala`.

mod scenarios;
mod theory;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = scenarios::trials().into_iter().chain(theory::trials()).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        theory::summary();
    }
    conclusion.exit_code()
}
