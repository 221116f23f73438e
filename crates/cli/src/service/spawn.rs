//! Starting a process that may be stopped at any moment of its birth.
//!
//! The system call that starts a process suspends the calling thread until the child executes its program. A child
//! that receives SIGSTOP before that would suspend `conclave lock` with it, deaf to SIGTERM, while its lease runs out.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

/// Between two looks at the children.
const LOOK: Duration = Duration::from_millis(20);

/// Starts a process. If it is stopped before it executes its program, it is continued.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let (started, starting) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while starting.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                continue_stopped();
            }
        });
        let child = command.spawn();
        drop(started);
        child
    })
}

/// Continues a child that is stopped. Its stop is still there to be waited for.
fn continue_stopped() {
    let stopped = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    if let Ok(WaitStatus::Stopped(child, _)) = waitid(Id::All, stopped) {
        let _ = kill(child, Signal::SIGCONT);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use conclave_testing::LIMIT;
    use nix::unistd::{Pid, gettid};

    use super::*;

    /// Stops every child of a thread as soon as it is there, and counts them, until the count is dropped elsewhere.
    fn stop_children(parent: &str, stopped: &Arc<AtomicU32>) {
        let mut last = None;
        while Arc::strong_count(stopped) > 1 {
            let children = std::fs::read_to_string(parent).unwrap_or_default();
            let child = children.split_whitespace().next().and_then(|child| child.parse().ok());
            if child.is_some() && child != last {
                last = child;
                let is_stopped =
                    child.is_some_and(|child| kill(Pid::from_raw(child), Signal::SIGSTOP).is_ok());
                stopped.fetch_add(is_stopped.into(), Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn a_process_that_is_stopped_at_birth_does_not_stop_its_parent() {
        let (done, all_done) = mpsc::channel();
        thread::spawn(move || {
            let stopped = Arc::new(AtomicU32::new(0));
            let parent = format!("/proc/self/task/{}/children", gettid());
            let counted = Arc::clone(&stopped);
            thread::spawn(move || stop_children(&parent, &counted));
            for _ in 0..200 {
                let mut child = spawn(Command::new("sleep").arg("60")).expect("it starts");
                child.kill().expect("it is there");
                child.wait().expect("it has ended");
            }
            let _ = done.send(stopped.load(Ordering::Relaxed));
        });
        let stopped = all_done.recv_timeout(LIMIT).expect("all have started");
        assert_ne!(stopped, 0, "no child was stopped");
    }
}
