//! Keeps the processor of the node out of its idle states while commands come.
//!
//! An idle processor halts, and takes tens of microseconds to wake up in a virtual machine; a command pays that several
//! times, since it waits for the disk and then for the client. So a second process spins for a moment after each
//! command, on the processor of the thread that applies them, under `SCHED_IDLE`: any other thread preempts it, so
//! it costs power and no time. Where control groups share out processor time, as in containers, spinning would use up
//! the quota of the group, and the process is not started.
//!
//! A `SCHED_IDLE` thread is also the last to be scheduled for exit, so a killed node kept its port for up to 30 s; hence a
//! separate process.

#[cfg(test)]
mod tests;

use std::fs;
use std::hint::spin_loop;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio, read, write};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use crate::metrics;

/// How long the processor is kept awake for a command: until it is on disk and answered, and the client has had time
/// to send the next.
const MOMENT: Duration = Duration::from_micros(300);

/// It is not told of commands more often than so, in nanoseconds.
const OFTEN: u64 = 100_000;

/// How much memory a thread may need that does next to nothing.
const STACK: usize = 64 << 10;

/// Has a processor kept awake, until it is dropped.
pub(crate) struct IdleSpinner {
    /// To the second process: which processor, whenever it is to stay awake.
    line: ChildStdin,
    /// Time counts from here.
    begun: Instant,
    /// When it was last told.
    told: AtomicU64,
}

impl IdleSpinner {
    /// Starts this program again, which with this argument is to call [`run_idle_spinner`]. Nothing, where that would take
    /// time from others.
    pub(crate) fn new(argument: &str) -> Option<Self> {
        if is_rationed() {
            tracing::warn!(
                "the processor is not kept awake: control groups share out the time of processors here, and others \
                 may have a claim to it"
            );
            return None;
        }
        // This very program, even if there is a newer one in its place by now.
        let mut process = Command::new("/proc/self/exe")
            .arg0(std::env::args_os().next().unwrap_or_default())
            .arg(argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the first one; this one ends with it.
            .process_group(0)
            .spawn()
            .ok()?;
        let line = process.stdin.take()?;
        ioctl_fionbio(&line, true).ok()?;
        let spinner = Self { line, begun: metrics::now(), told: AtomicU64::new(0) };
        // Its exit status has to be read, or it stays as a zombie.
        let thread = thread::Builder::new().name("awake".to_owned()).stack_size(STACK);
        thread.spawn(move || process.wait()).ok()?;
        Some(spinner)
    }

    /// Something is to be done now, by this thread.
    pub(crate) fn stir(&self, now: Instant) {
        let now = now.duration_since(self.begun).as_nanos() as u64;
        if now.saturating_sub(self.told.load(Ordering::Relaxed)) > OFTEN {
            self.told.store(now, Ordering::Relaxed);
            // If it has not read for so long that there is no room, there is no use for it.
            let _ = write(&self.line, &(sched_getcpu() as u16).to_le_bytes());
        }
    }
}

/// What the second process does until the first one is gone. Returns if it cannot.
pub fn run_idle_spinner() -> io::Result<()> {
    // If it cannot be the last of all, it is not to be at all.
    let last = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, last)
        .map_err(|error| io::Error::other(format!("{error:?}")))?;
    let line = io::stdin();
    ioctl_fionbio(&line, true)?;
    let (mut here, mut until) = (None, metrics::now());
    let mut told = [0; 4096];
    loop {
        match read(line.as_fd(), &mut told) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                let processor =
                    told[..length].as_chunks().0.last().map(|&two| u16::from_le_bytes(two));
                if let Some(processor) = processor
                    && here != Some(processor)
                {
                    stay_on(processor);
                    here = Some(processor);
                }
                until = metrics::now() + MOMENT;
            }
            Err(Errno::AGAIN) if metrics::now() < until => (0..100).for_each(|_| spin_loop()),
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&line, PollFlags::IN)], None);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Runs nowhere else any more, if that may be.
fn stay_on(processor: u16) {
    let (mut only, processor) = (CpuSet::new(), usize::from(processor));
    if processor < CpuSet::MAX_CPU {
        only.set(processor);
        // It is of less use elsewhere, and does no harm.
        let _ = sched_setaffinity(None, &only);
    }
}

/// Whether the time of processors is shared out among groups of processes, to one of which this belongs: then those
/// of other groups do not come first, and a node keeps no processor awake.
pub fn is_rationed() -> bool {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups_of(&groups).iter().any(|group| has_share(group))
}

/// The groups that a process belongs to, as far as they may concern processors; each is part of the next.
fn groups_of(listed: &str) -> Vec<PathBuf> {
    let mut groups = Vec::new();
    for line in listed.lines() {
        // A number, what is controlled, and the group; in the second version, nothing is said of what.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controlled), Some(group)) = (parts.next(), parts.next()) else { continue };
        let root = match controlled {
            "" => "/sys/fs/cgroup",
            some if some.split(',').any(|one| one == "cpu") => "/sys/fs/cgroup/cpu",
            _ => continue,
        };
        let group = Path::new(group.trim_start_matches('/'));
        groups.extend(group.ancestors().map(|group| Path::new(root).join(group)));
    }
    groups
}

/// Whether a group has a share, and is not the one of all processes: that has no share in the second version, and
/// in the first it alone has an agent.
fn has_share(group: &Path) -> bool {
    let has = |file: &str| group.join(file).exists();
    has("cpu.max") || has("cpu.shares") && !has("release_agent")
}
