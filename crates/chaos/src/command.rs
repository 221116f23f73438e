//! The command that runs under a lock: it records that it is alive.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use conclave_history::Time;

use crate::clock::{nanos, now, pause};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where it writes down that it lives
    #[arg(long)]
    account: PathBuf,
    /// For how many milliseconds it lives
    #[arg(long = "for")]
    lifetime: u64,
    /// Its exit code
    #[arg(long)]
    code: u8,
    /// It does not end when it is told to
    #[arg(long)]
    stubborn: bool,
}

/// What a command wrote down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) session: u64,
    pub(crate) token: u64,
    pub(crate) begin: Time,
    pub(crate) last: Time,
    pub(crate) code: Option<i32>,
}

/// Fields have a fixed width, so that each is overwritten in one piece.
const WIDTH: u64 = 24;

fn put(file: &File, field: u64, value: u64) {
    let _ = file.write_all_at(format!("{value:>23}\n").as_bytes(), field * WIDTH);
}

/// Lives, and writes that down.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let begin = now();
    let variable = |name| std::env::var(name).ok()?.parse().ok();
    // Several runs of one process have an account each.
    let path = arguments.account.with_extension(std::process::id().to_string());
    let Ok(file) = File::create(path) else { return ExitCode::from(99) };
    for (field, value) in
        [variable("CONCLAVE_SESSION"), variable("CONCLAVE_TOKEN"), Some(begin), Some(begin)]
            .into_iter()
            .enumerate()
    {
        put(&file, field as u64, value.unwrap_or_default());
    }
    if arguments.stubborn {
        let ignored = Arc::new(AtomicBool::new(false));
        let _ = signal_hook::flag::register(signal_hook::consts::SIGTERM, ignored);
    }
    let end = begin + nanos(Duration::from_millis(arguments.lifetime));
    loop {
        let now = now();
        put(&file, 3, now);
        if now >= end {
            break;
        }
        pause(Duration::from_millis(2));
    }
    put(&file, 4, u64::from(arguments.code) + 1);
    ExitCode::from(arguments.code)
}

/// Reads what a command wrote; nothing if it was killed before it had written where it stands.
pub(crate) fn read(path: &Path) -> Option<Account> {
    let text = std::fs::read_to_string(path).ok()?;
    let fields: Vec<u64> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    let [session, token, begin, last, rest @ ..] = fields.as_slice() else { return None };
    let code = rest.first().and_then(|code| i32::try_from(code - 1).ok());
    Some(Account { session: *session, token: *token, begin: *begin, last: *last, code })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_writes_down_is_read_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let account = directory.path().join("a.account");
        let arguments = Arguments { account, lifetime: 5, code: 3, stubborn: false };
        run(&arguments);
        let path = directory.path().join(format!("a.{}", std::process::id()));
        let account = read(&path).expect("it was written");
        assert!(account.last >= account.begin + 5_000_000, "{account:?}");
        assert_eq!(account.code, Some(3));
    }
}
