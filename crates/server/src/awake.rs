//! Keeps a processor awake while there is something to do.
//!
//! A processor that has nothing to do falls asleep, and takes its time to wake up: tens of microseconds in a
//! virtual machine, and that several times for each command, which waits for the disk and then for the next
//! to come. So there is a thread that does nothing but run, for a moment after each command, where the
//! thread runs that carries them out, and only while nothing else wants to: any other thread comes before it.
//! So it takes power, and not time. But that holds among processes that share processors as they please;
//! where these are shared out to groups, as in containers, it would use up what others have a claim to, and is
//! not there.

#[cfg(test)]
mod tests;

use std::fs;
use std::hint::spin_loop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use crate::metrics;

/// How long a command keeps the processor awake: until it is on disk and answered, and whoever was answered has had
/// time to ask again.
const MOMENT: Duration = Duration::from_micros(300);

/// A thread is not moved to another processor more often than so, in nanoseconds.
const OFTEN: u64 = 20_000;

/// How much memory the thread may need.
const STACK: usize = 64 << 10;

/// Keeps a processor awake, until it is dropped.
pub(crate) struct Awake {
    state: Arc<State>,
    thread: Thread,
}

struct State {
    /// Time counts from here.
    begun: Instant,
    /// Until when to stay awake, in nanoseconds.
    until: AtomicU64,
    /// Which processor is to.
    processor: AtomicUsize,
    /// The thread has gone to sleep, or is about to.
    asleep: AtomicBool,
    over: AtomicBool,
}

impl Awake {
    /// Nothing, where it would take time from others.
    pub(crate) fn new() -> Option<Self> {
        if is_rationed() {
            return None;
        }
        let state = Arc::new(State {
            begun: metrics::now(),
            until: AtomicU64::new(0),
            processor: AtomicUsize::new(NONE),
            asleep: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let shared = state.clone();
        let builder = thread::Builder::new().name("awake".to_owned()).stack_size(STACK);
        let spawned = builder.spawn(move || {
            // If it cannot be the last of all, it is not to be at all.
            let last = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
            if set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, last).is_ok()
            {
                shared.run();
            }
        });
        Some(Self { state, thread: spawned.ok()?.thread().clone() })
    }

    /// Something is to be done now, by this thread.
    pub(crate) fn stir(&self, now: Instant) {
        let State { until, processor, asleep, .. } = &*self.state;
        let end = self.state.at(now + MOMENT);
        let before = until.swap(end, Ordering::SeqCst);
        // Not for each of many that come together: the system has to be asked.
        if end.saturating_sub(before) > OFTEN {
            processor.store(sched_getcpu(), Ordering::Relaxed);
        }
        if asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl State {
    fn at(&self, time: Instant) -> u64 {
        u64::try_from(time.duration_since(self.begun).as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_time(&self) -> bool {
        self.at(metrics::now()) < self.until.load(Ordering::SeqCst)
    }

    fn run(&self) {
        let mut here = NONE;
        while !self.over.load(Ordering::SeqCst) {
            if self.is_time() {
                let processor = self.processor.load(Ordering::Relaxed);
                if here != processor {
                    stay_on(processor);
                    here = processor;
                }
                (0..100).for_each(|_| spin_loop());
                continue;
            }
            self.asleep.store(true, Ordering::SeqCst);
            // Somebody may have looked whether it sleeps just before it did.
            if !self.is_time() {
                thread::park();
            }
            self.asleep.store(false, Ordering::SeqCst);
        }
    }
}

/// No processor.
const NONE: usize = usize::MAX;

/// Runs nowhere else any more, if that may be.
fn stay_on(processor: usize) {
    let mut only = CpuSet::new();
    if processor < CpuSet::MAX_CPU {
        only.set(processor);
        // It is of less use elsewhere, and does no harm.
        let _ = sched_setaffinity(None, &only);
    }
}

/// Whether the time of processors is shared out among groups of processes, to one of which this belongs: then those
/// of other groups do not come first.
fn is_rationed() -> bool {
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
