//! Faults of a process of `conclave lock` or `conclave elect`, killed or stopped at a stage from its birth on.

use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clock::{nanos, now, pause};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessFault {
    KillWrapper,
    StopWrapper,
    TerminateWrapper,
    KillWatcher,
    StopWatcher,
    KillBoth,
}

impl ProcessFault {
    const ALL: [Self; 6] = [
        Self::KillWrapper,
        Self::StopWrapper,
        Self::TerminateWrapper,
        Self::KillWatcher,
        Self::StopWatcher,
        Self::KillBoth,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KillWrapper => "kill-wrapper",
            Self::StopWrapper => "stop-wrapper",
            Self::TerminateWrapper => "terminate-wrapper",
            Self::KillWatcher => "kill-watcher",
            Self::StopWatcher => "stop-watcher",
            Self::KillBoth => "kill-both",
        }
    }
}

/// When it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// So long after the start.
    Start(Duration),
    /// So long after the process has started this many others, itself or by one of them.
    Children(usize, Duration),
    /// So long after the command runs.
    Command(Duration),
}

/// A fault of a process at a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) fault: ProcessFault,
    pub(crate) stage: Stage,
    /// For how long something is stopped.
    pub(crate) length: Duration,
}

impl Plan {
    /// Half of the processes are left alone.
    pub(crate) fn draw(chance: &mut fastrand::Rng, ttl: Duration) -> Option<Self> {
        if chance.bool() {
            return None;
        }
        let fault = ProcessFault::ALL[chance.usize(..ProcessFault::ALL.len())];
        let micros = |chance: &mut fastrand::Rng, most| Duration::from_micros(chance.u64(0..most));
        let stage = match chance.u8(..6) {
            0 => Stage::Start(micros(chance, 200_000)),
            1 => Stage::Children(1, micros(chance, 20_000)),
            2 | 3 => Stage::Children(2, micros(chance, 2_000)),
            _ => Stage::Command(micros(chance, 500_000)),
        };
        let length = ttl.mul_f64(0.1 + 2.4 * chance.f64());
        Some(Self { fault, stage, length })
    }
}

/// A process that another one has started, or a child of such a one.
struct Descendant {
    id: Pid,
    /// The other one has started it itself.
    child: bool,
    /// It runs what is run under the lock.
    command: bool,
}

/// What a process has started, and what that has started.
fn descendants(of: Pid) -> Vec<Descendant> {
    // The younger have mostly the greater numbers.
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut numbers: Vec<i32> =
        numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.retain(|number| *number > of.as_raw());
    numbers.sort_unstable();
    let mut found: Vec<Descendant> = Vec::new();
    for number in numbers {
        let Ok(stat) = fs::read_to_string(format!("/proc/{number}/stat")) else { continue };
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let mut fields = fields.split_whitespace();
        let alive = fields.next() != Some("Z");
        let parent = fields.next().and_then(|parent| parent.parse().ok()).map(Pid::from_raw);
        let child = parent == Some(of);
        if alive && (child || found.iter().any(|other| Some(other.id) == parent)) {
            // Between fork and exec a process has the arguments of its parent.
            let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            let has = |word: &[u8]| line.windows(word.len()).any(|part| part == word);
            let command = has(b"--account") && !has(b"--ttl") && !has(b"__guard");
            found.push(Descendant { id: Pid::from_raw(number), child, command });
        }
    }
    found
}

/// Waits for the stage and makes the fault, on a thread of its own. Records which processes it was made to; none if the
/// stage never came.
/// What was stopped goes on when this returns.
pub(crate) fn carry_out(
    plan: Plan,
    wrapper: Pid,
    runs: impl Fn() -> bool,
    alive: impl Fn() -> bool,
    struck: impl FnOnce(),
) -> bool {
    let wait = match plan.stage {
        Stage::Start(wait) => wait,
        Stage::Children(count, wait) => {
            while alive() && descendants(wrapper).len() < count && !runs() {
                pause(Duration::from_micros(100));
            }
            wait
        }
        Stage::Command(wait) => {
            while alive() && !runs() {
                pause(Duration::from_millis(1));
            }
            wait
        }
    };
    pause(wait);
    if !alive() {
        return false;
    }
    let watchers: Vec<Pid> = match plan.fault {
        ProcessFault::KillWatcher | ProcessFault::StopWatcher | ProcessFault::KillBoth => {
            let guards = descendants(wrapper).into_iter().filter(|one| one.child && !one.command);
            guards.map(|one| one.id).collect()
        }
        _ => Vec::new(),
    };
    let whom: Vec<Pid> = match plan.fault {
        ProcessFault::KillWrapper | ProcessFault::StopWrapper | ProcessFault::TerminateWrapper => {
            vec![wrapper]
        }
        ProcessFault::KillWatcher | ProcessFault::StopWatcher => watchers,
        ProcessFault::KillBoth => [vec![wrapper], watchers].concat(),
    };
    if whom.is_empty() {
        return false;
    }
    let signal = match plan.fault {
        ProcessFault::KillWrapper | ProcessFault::KillWatcher | ProcessFault::KillBoth => {
            Signal::SIGKILL
        }
        ProcessFault::StopWrapper | ProcessFault::StopWatcher => Signal::SIGSTOP,
        ProcessFault::TerminateWrapper => Signal::SIGTERM,
    };
    struck();
    for process in &whom {
        let _ = kill(*process, signal);
    }
    if signal == Signal::SIGSTOP {
        let end = now() + nanos(plan.length);
        while alive() && now() < end {
            pause(Duration::from_millis(10));
        }
        for process in &whom {
            let _ = kill(*process, Signal::SIGCONT);
        }
    }
    true
}
