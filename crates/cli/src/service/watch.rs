//! Somebody who watches over a command when this program cannot.
//!
//! A command under a lock must end before another may hold the lock. This program sees to it; but it may be
//! killed, or stopped for a while, and then the command would go on. So there is a second process, which knows
//! until when the lease lasts: if the first one is gone, or is silent until the lease is about to end, the second
//! one ends the command.

use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::time::{ClockId, clock_gettime};

/// By which the program knows that it is the second process.
pub(crate) const ARGUMENT: &str = "__watch";

/// The time by the clock that leases are counted by.
#[expect(clippy::disallowed_methods, reason = "whoever watches has to know when a lease ends")]
fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// The way to the second process.
pub(crate) struct Watcher {
    process: std::process::Child,
    line: Option<ChildStdin>,
    until: Duration,
}

impl Watcher {
    /// Starts it. A command gets `grace` to end if this program is gone, and is gone `margin` before its lease ends.
    pub(crate) fn start(grace: Duration, margin: Duration) -> Option<Self> {
        // This very program, even if there is a newer one in its place by now.
        let mut process = Command::new("/proc/self/exe")
            .arg0("conclave")
            .arg(ARGUMENT)
            .args([grace, margin].map(|span| span.as_nanos().to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .ok()?;
        let line = process.stdin.take();
        Some(Self { process, line, until: Duration::ZERO })
    }

    /// It is to watch over this group.
    pub(crate) fn watch(&mut self, group: Pid) {
        self.say(&format!("group {group}"));
    }

    /// The lease lasts for so long from now.
    pub(crate) fn vouch(&mut self, remaining: Duration) {
        let until = now() + remaining;
        // What has changed by less is how long it took to say.
        if until > self.until + Duration::from_millis(10) {
            self.until = until;
            self.say(&format!("until {}", until.as_nanos()));
        }
    }

    /// The command has ended, or this program ends it.
    pub(crate) fn dismiss(mut self) {
        self.say("bye");
        self.line = None;
        let _ = self.process.wait();
    }

    fn say(&mut self, what: &str) {
        // If it is gone, there is only one who watches.
        if let Some(line) = &mut self.line {
            let _ = writeln!(line, "{what}");
        }
    }
}

/// What the second process does.
pub(crate) fn watch(arguments: &[String]) -> ExitCode {
    let nanos = |index| arguments.get(index).and_then(|text: &String| text.parse().ok());
    let [Some(grace), Some(margin)] = [0, 1].map(nanos) else { return ExitCode::from(2) };
    let (grace, margin) = (Duration::from_nanos(grace), Duration::from_nanos(margin));
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    let (mut group, mut end) = (None, Duration::MAX);
    // The first process ends the command earlier, if it can.
    let late = |until: Duration| until.saturating_sub(margin / 2);
    loop {
        let wait = late(end).saturating_sub(now()).min(Duration::from_secs(1));
        match told.recv_timeout(wait) {
            Ok(line) => match line.split_once(' ') {
                Some(("group", number)) => group = number.parse().ok().map(Pid::from_raw),
                Some(("until", nanos)) => {
                    end = nanos.parse().map_or(end, Duration::from_nanos);
                }
                _ => return ExitCode::SUCCESS,
            },
            Err(RecvTimeoutError::Timeout) if now() < late(end) => {}
            Err(RecvTimeoutError::Timeout) => {
                signal(group, Signal::SIGKILL);
                return ExitCode::SUCCESS;
            }
            Err(RecvTimeoutError::Disconnected) => {
                signal(group, Signal::SIGTERM);
                signal(group, Signal::SIGCONT);
                let until = late(end).min(now() + grace);
                while now() < until && !gone(group) {
                    pause(Duration::from_millis(20));
                }
                signal(group, Signal::SIGKILL);
                return ExitCode::SUCCESS;
            }
        }
    }
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _ = killpg(group, signal);
    }
}

fn gone(group: Option<Pid>) -> bool {
    group.is_none_or(|group| killpg(group, None) == Err(Errno::ESRCH))
}

#[expect(clippy::disallowed_methods, reason = "somebody is given time to end")]
fn pause(span: Duration) {
    thread::sleep(span);
}
