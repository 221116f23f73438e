//! The foreground process group of the terminal.

use std::fs::File;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal that this program was started from.
pub(crate) struct Foreground {
    terminal: File,
    own: Pid,
}

impl Foreground {
    /// If there is one.
    pub(crate) fn find() -> Option<Self> {
        let terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self { terminal, own: getpgrp() })
    }

    /// Lets a group of processes have the terminal, if it is this program's to give.
    pub(crate) fn give(&self, group: Pid) -> bool {
        tcgetpgrp(&self.terminal) == Ok(self.own) && self.set(group)
    }

    /// Takes the terminal back from a group of processes, if that has it.
    pub(crate) fn take_back(&self, group: Pid) {
        if tcgetpgrp(&self.terminal) == Ok(group) {
            self.set(self.own);
        }
    }

    fn set(&self, group: Pid) -> bool {
        // Who is not in the foreground is stopped for trying, unless it does not want to hear of that.
        let stop = SigSet::from(Signal::SIGTTOU);
        let blocked = stop.thread_block().is_ok();
        let set = tcsetpgrp(&self.terminal, group).is_ok();
        if blocked {
            let _ = stop.thread_unblock();
        }
        set
    }
}
