//! How `cargo xtask test` runs the tests.

use std::time::Duration;

use anyhow::{Context, Result, bail};

/// What can be asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// How often the tests run.
    pub(crate) repeat: u32,
    /// Whether they run beside busy loops.
    pub(crate) busy: bool,
    /// Within which no further run of the tests begins that would not end in it.
    pub(crate) within: Option<Duration>,
}

impl Options {
    pub(crate) fn read(arguments: &[String]) -> Result<Self> {
        let mut options = Self { repeat: 1, busy: false, within: None };
        let mut arguments = arguments.iter().map(String::as_str);
        while let Some(argument) = arguments.next() {
            match argument {
                "--busy" => options.busy = true,
                "--repeat" => {
                    let times = arguments.next().context("--repeat needs a number")?;
                    let number = times.parse().ok().filter(|times| *times > 0);
                    options.repeat = number.with_context(|| {
                        format!("--repeat needs a number from 1 on, not {times:?}")
                    })?;
                }
                "--within" => {
                    let minutes = arguments.next().context("--within needs minutes")?;
                    let number: Option<u64> = minutes.parse().ok().filter(|minutes| *minutes > 0);
                    let number = number.with_context(|| {
                        format!("--within needs minutes from 1 on, not {minutes:?}")
                    })?;
                    options.within = Some(Duration::from_secs(number.saturating_mul(60)));
                }
                other => bail!("unknown argument {other:?}"),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options> {
        Options::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn tests_run_once_on_an_idle_machine_unless_asked_otherwise() {
        assert_eq!(read("").expect("it is fine"), Options { repeat: 1, busy: false, within: None });
        assert_eq!(
            read("--busy --repeat 5").expect("it is fine"),
            Options { repeat: 5, busy: true, within: None }
        );
        let within = Some(Duration::from_secs(3_600));
        assert_eq!(
            read("--repeat 5 --within 60").expect("it is fine"),
            Options { repeat: 5, busy: false, within }
        );
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, named) in [
            ("--repeat", "needs a number"),
            ("--repeat 0", "from 1 on, not \"0\""),
            ("--repeat x", "from 1 on, not \"x\""),
            ("--within", "needs minutes"),
            ("--within 0", "from 1 on, not \"0\""),
            ("--bussy", "unknown argument \"--bussy\""),
        ] {
            let error = read(line).expect_err("it is wrong").to_string();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
