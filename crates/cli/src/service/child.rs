//! A command that is run, with all that it starts.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::sync::mpsc;

use super::Trouble;
use super::foreground::Foreground;
use super::watch::Watcher;

/// A command in a process group of its own.
///
/// It stays in the table of processes until it is reaped, so that its number is nobody else's; signals go to
/// its whole group.
pub(crate) struct Child {
    process: std::process::Child,
    group: Pid,
    happenings: mpsc::UnboundedReceiver<Happening>,
    foreground: Option<Foreground>,
    /// It has had the terminal.
    has_terminal: bool,
    watcher: Option<Watcher>,
    reaped: bool,
}

/// What happens to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// It has ended.
    Ended,
    /// It was stopped, by Ctrl-Z perhaps.
    Stopped,
}

impl Child {
    /// Runs a command, with this in its environment.
    pub(crate) fn spawn(
        command: &[OsString],
        environment: Vec<(&'static str, String)>,
        mut watcher: Option<Watcher>,
    ) -> Result<Self, Trouble> {
        let [program, arguments @ ..] = command else {
            return Err(Trouble::NotFound("there is no command".to_owned()));
        };
        let process = Command::new(program)
            .args(arguments)
            .envs(environment)
            .process_group(0)
            .spawn()
            .map_err(|error| cannot(program, &error))?;
        let group = Pid::from_raw(i32::try_from(process.id()).expect("a process has a number"));
        if let Some(watcher) = &mut watcher {
            watcher.watch(group);
        }
        let foreground = Foreground::find();
        let has_terminal = foreground.as_ref().is_some_and(|terminal| terminal.give(group));
        if has_terminal {
            // It may have been stopped for reading before it was allowed to.
            let _ = killpg(group, Signal::SIGCONT);
        }
        let (tell, happenings) = mpsc::unbounded_channel();
        std::thread::spawn(move || look(group, &tell));
        let reaped = false;
        Ok(Self { process, group, happenings, foreground, has_terminal, watcher, reaped })
    }

    /// Waits for something to happen to it.
    pub(crate) async fn happening(&mut self) -> Happening {
        self.happenings.recv().await.unwrap_or(Happening::Ended)
    }

    /// Sends a signal to all of its group.
    pub(crate) fn signal(&self, signal: Signal) {
        // Nobody may be left.
        let _ = killpg(self.group, signal);
    }

    /// Whoever started this program is to see that the command is stopped, as if there was nothing between.
    pub(crate) fn stop_with_it(&self) {
        if let Some(foreground) = &self.foreground {
            foreground.take_back(self.group);
            let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
        }
    }

    /// This program goes on, and with it the command.
    pub(crate) fn go_on(&mut self) {
        if let Some(foreground) = &self.foreground {
            self.has_terminal |= foreground.give(self.group);
            self.signal(Signal::SIGCONT);
        }
    }

    /// Whether signals from the keyboard go to it and not to this program.
    pub(crate) fn has_terminal(&self) -> bool {
        self.has_terminal
    }

    /// It may go on for so long, whatever happens to this program.
    pub(crate) fn vouch(&mut self, remaining: Duration) {
        if let Some(watcher) = &mut self.watcher {
            watcher.vouch(remaining);
        }
    }

    /// Ends all of its group, if it has not ended by itself, and says how it ended.
    pub(crate) fn kill(self) -> ExitStatus {
        self.signal(Signal::SIGKILL);
        self.reap()
    }

    /// Says how it ended. What it may have left behind goes on.
    pub(crate) fn reap(mut self) -> ExitStatus {
        self.finish().unwrap_or_default()
    }

    fn finish(&mut self) -> io::Result<ExitStatus> {
        self.reaped = true;
        // Before its number may be somebody else's.
        if let Some(watcher) = self.watcher.take() {
            watcher.dismiss();
        }
        let status = self.process.wait();
        if let Some(foreground) = &self.foreground {
            foreground.take_back(self.group);
        }
        status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::SIGKILL);
            let _ = self.finish();
        }
    }
}

/// Tells what happens to a process, until it ends; but does not take it from the table of processes.
fn look(process: Pid, tell: &mpsc::UnboundedSender<Happening>) {
    let ends = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::Pid(process), ends | WaitPidFlag::WSTOPPED) {
            Err(Errno::EINTR) => {}
            Ok(WaitStatus::Stopped(..)) => {
                // Else it would be told over and over.
                let stopped = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
                let taken = waitid(Id::Pid(process), stopped);
                if matches!(taken, Ok(WaitStatus::Stopped(..))) {
                    let _ = tell.send(Happening::Stopped);
                }
            }
            _ => {
                let _ = tell.send(Happening::Ended);
                return;
            }
        }
    }
}

/// Whether there is such a command, before anybody waits for a lock to run it with.
pub(crate) fn find(program: &OsStr) -> Result<(), Trouble> {
    let path = Path::new(program);
    if path.components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        return match path.metadata() {
            Ok(_) => Ok(()),
            Err(error) => Err(cannot(program, &error)),
        };
    }
    // Without a path, the system has its own idea.
    let Some(paths) = std::env::var_os("PATH") else { return Ok(()) };
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    if std::env::split_paths(&paths).any(|folder| is_program(&folder.join(path))) {
        return Ok(());
    }
    Err(cannot(program, &io::ErrorKind::NotFound.into()))
}

fn cannot(program: &OsStr, error: &io::Error) -> Trouble {
    let program = program.to_string_lossy();
    match error.kind() {
        io::ErrorKind::NotFound => Trouble::NotFound(format!(
            "there is no command {program:?}; for a line of shell, run sh -c '…'"
        )),
        io::ErrorKind::PermissionDenied => {
            Trouble::NotExecutable(format!("{program:?} is not executable; try chmod +x"))
        }
        _ => Trouble::NotExecutable(format!("{program:?} cannot be run: {error}")),
    }
}
