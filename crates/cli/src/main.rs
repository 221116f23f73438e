//! `conclave`, the program. Everything is in the library, where tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    conclave_cli::main()
}
