//! Where the command begins on a command line.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};

/// Puts in the `--` that may be left out: `conclave lock NAME COMMAND…` runs the command, as `flock` does. For several
/// names, the `--` is needed: what stands before it are names, then.
pub(crate) fn separate(program: &Command, mut arguments: Vec<OsString>) -> Vec<OsString> {
    if let Some(begin) = command_begins(program, &arguments) {
        arguments.insert(begin, "--".into());
    }
    arguments
}

fn command_begins(program: &Command, arguments: &[OsString]) -> Option<usize> {
    let mut command = None;
    let mut words = 0;
    let mut rest = arguments.iter().enumerate().skip(1);
    while let Some((index, argument)) = rest.next() {
        let text = argument.to_str();
        let flags = || {
            program
                .get_arguments()
                .chain(command.iter().flat_map(|it: &&Command| it.get_arguments()))
        };
        match text {
            Some("--") => return None,
            Some(text) if text.starts_with('-') && text.len() > 1 => {
                if flags().any(|flag| takes_next(flag, text)) {
                    rest.next();
                }
            }
            _ => match command {
                None => command = Some(runs_command(program, argument)?),
                Some(command) => {
                    words += 1;
                    if words == 2 {
                        let separated = arguments[index..].iter().any(|word| word == "--");
                        // There is one election only, so what comes next is the command.
                        return (!separated || command.get_name() == "elect").then_some(index);
                    }
                }
            },
        }
    }
    None
}

/// The subcommand of this name, if it is one that runs a command.
fn runs_command<'a>(program: &'a Command, name: &OsStr) -> Option<&'a Command> {
    let found = program.find_subcommand(name)?;
    ["lock", "elect"].contains(&found.get_name()).then_some(found)
}

/// Whether the value of a flag is the next word.
fn takes_next(flag: &Arg, text: &str) -> bool {
    let named = match text.strip_prefix("--") {
        Some(long) => flag.get_long() == Some(long),
        None => {
            let mut letters = text.chars().skip(1);
            flag.get_short().is_some()
                && flag.get_short() == letters.next()
                && letters.next().is_none()
        }
    };
    named && flag.get_action().takes_values()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn separated(line: &str) -> String {
        let arguments = line.split(' ').map(OsString::from).collect();
        let separated = separate(&crate::program(), arguments);
        separated
            .iter()
            .map(|word| word.to_str().expect("it is UTF-8"))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn one_name_and_then_the_command() {
        for (given, meant) in [
            ("conclave lock backup ./backup.sh", "conclave lock backup -- ./backup.sh"),
            ("conclave lock a ls -l --color", "conclave lock a -- ls -l --color"),
            (
                "conclave lock --ttl 5s -v a --try ls -v",
                "conclave lock --ttl 5s -v a --try -- ls -v",
            ),
            ("conclave --color never lock a ls", "conclave --color never lock a -- ls"),
            ("conclave lock a --ttl=5s ls", "conclave lock a --ttl=5s -- ls"),
            ("conclave lock a --and b ls x", "conclave lock a --and b -- ls x"),
            (
                "conclave elect web --rank -3 ./serve -p",
                "conclave elect web --rank -3 -- ./serve -p",
            ),
            ("conclave elect web sh -c x -- y", "conclave elect web -- sh -c x -- y"),
        ] {
            assert_eq!(separated(given), meant);
        }
    }

    #[test]
    fn what_is_clear_stays_as_it_is() {
        for line in [
            "conclave lock a",
            "conclave lock a -- ls -- x",
            "conclave lock a b -- ls",
            "conclave lock a --ttl 5s",
            "conclave lock --help",
            "conclave why a",
            "conclave run mutex/lamport --nodes 3",
            "conclave",
        ] {
            assert_eq!(separated(line), line);
        }
    }
}
