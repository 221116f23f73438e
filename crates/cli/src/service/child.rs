//! A command that is run in a process group of its own, with a guard.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use conclave_client::Credentials;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::foreground::Foreground;
use super::guard::{GUARD, Order, Report, has_members, own_program};
use super::nested::Nest;
use super::supervise::LeaseBudget;
use super::{ServiceError, boottime, descriptors, spawn};

/// A command in a process group of its own, with a guard that has started it.
///
/// The guard keeps it in the table of processes until it is told that no signal will be sent any more, so that its
/// number is no other's; signals go to its whole group.
pub(crate) struct Child {
    guard: Guard,
    group: Pid,
    foreground: Option<Foreground>,
    /// It has had the terminal.
    has_terminal: bool,
    /// The command is finished: it gets no signal any more.
    over: bool,
}

/// The guard of a command, as this process knows it.
struct Guard {
    process: std::process::Child,
    line: UnixStream,
    reports: mpsc::UnboundedReceiver<Report>,
    ended: oneshot::Receiver<()>,
    /// When the lease ends, as far as the guard was told.
    until: Duration,
}

/// How a command and its guard are tied to other processes.
pub(crate) struct ChildOptions<'a> {
    /// If this process is killed, the guard ends this session.
    pub(crate) credentials: Option<Credentials>,
    /// Commands may be nested in it.
    pub(crate) nest: Option<&'a Nest>,
    /// It is itself nested: the guard's connection to the outer process.
    pub(crate) to_outer: Option<OwnedFd>,
}

/// What has happened to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildEvent {
    /// It has ended, like that.
    Ended(ExitStatus),
    /// It was stopped, by Ctrl-Z perhaps.
    Stopped,
    /// Its guard has killed it: for all that the guard was told, the lease had ended.
    Overdue,
    /// Its guard was killed, and the system has killed it, too.
    Unguarded,
}

/// How long the guard may take for what takes no time.
const PATIENCE: Duration = Duration::from_secs(5);

impl Child {
    /// Runs a command, with this in its environment, while so much of a lease remains.
    pub(crate) async fn spawn(
        command: &[OsString],
        environment: Vec<(&'static str, String)>,
        budget: LeaseBudget,
        child_options: ChildOptions<'_>,
        remaining: impl Fn() -> Duration,
    ) -> Result<Self, ServiceError> {
        let Some(program) = command.first() else {
            return Err(ServiceError::NotFound("there is no command".to_owned()));
        };
        let unguarded = |error: io::Error| {
            ServiceError::NotExecutable(format!(
                "the process that guards the command cannot be started: {error}"
            ))
        };
        let ChildOptions { credentials, nest, to_outer } = child_options;
        let mut guard = Guard::start(environment, budget, to_outer).map_err(unguarded)?;
        guard.report_lease(&remaining);
        if let Some(credentials) = credentials {
            guard.order(&Order::Release(credentials));
        }
        if let Some(nest) = nest {
            nest.tell(guard.line.try_clone().map_err(unguarded)?);
        }
        guard.order(&Order::Run(command.to_vec()));
        let group = match guard.reports.recv().await {
            Some(Report::Born(process)) => Pid::from_raw(process),
            Some(Report::Failed(errno)) => {
                return Err(unguarded(io::Error::from_raw_os_error(errno)));
            }
            _ => return Err(ServiceError::never_guarded()),
        };
        let foreground = Foreground::find();
        let has_terminal = foreground.as_ref().is_some_and(|terminal| terminal.give(group));
        let mut child = Self { guard, group, foreground, has_terminal, over: false };
        child.report_lease(&remaining);
        child.guard.order(&Order::Go);
        match child.guard.reports.recv().await {
            Some(Report::Started) => Ok(child),
            Some(Report::Failed(errno)) => {
                child.finish().await;
                Err(cannot(program, &io::Error::from_raw_os_error(errno)))
            }
            // It has ended before it began, because the lease has; that is found out next.
            _ => Ok(child),
        }
    }

    /// Waits for the next event.
    pub(crate) async fn event(&mut self) -> ChildEvent {
        loop {
            return match self.guard.reports.recv().await {
                Some(Report::Ended(status)) => ChildEvent::Ended(ExitStatus::from_raw(status)),
                Some(Report::Stopped) => ChildEvent::Stopped,
                Some(Report::Overdue) => ChildEvent::Overdue,
                Some(_) => continue,
                None => ChildEvent::Unguarded,
            };
        }
    }

    /// Sends a signal to all of its group.
    pub(crate) fn signal(&self, signal: Signal) {
        // It may have no member any more.
        let _ = killpg(self.group, signal);
    }

    /// The shell that started this program is to see that the command is stopped, as if there was nothing between.
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

    /// Tells the guard how much of the lease remains.
    pub(crate) fn report_lease(&mut self, remaining: impl FnOnce() -> Duration) {
        self.guard.report_lease(remaining);
    }

    /// Ends all of its group, and waits until that has happened.
    pub(crate) async fn kill(self) {
        self.signal(Signal::SIGKILL);
        let ended = async {
            while has_members(self.group) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        // What is deaf to SIGKILL waits for a disk, and does nothing meanwhile.
        let _ = timeout(PATIENCE, ended).await;
        self.finish().await;
    }

    /// Lets go of it. What it may have left behind goes on.
    pub(crate) async fn finish(mut self) {
        self.over = true;
        // From here on no signal is sent: its number may soon be another's.
        self.guard.dismiss().await;
        if let Some(foreground) = &self.foreground {
            foreground.take_back(self.group);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.over {
            // The guard does the rest when it finds itself alone.
            self.signal(Signal::SIGKILL);
        }
    }
}

impl Guard {
    fn start(
        environment: Vec<(&'static str, String)>,
        budget: LeaseBudget,
        to_outer: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let (line, theirs) = UnixStream::pair()?;
        let reports = line.try_clone()?;
        let mut program = own_program(GUARD);
        program
            .args([budget.grace, budget.margin()].map(|span| span.as_nanos().to_string()))
            .envs(environment)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0);
        let process = spawn::spawn(&mut program)?;
        // It has its end of the socket; while this process had it, too, the guard's end would go unnoticed.
        drop(program);
        let input = io::stdin();
        let files: Vec<_> =
            [input.as_fd()].into_iter().chain(to_outer.as_ref().map(AsFd::as_fd)).collect();
        // If it is gone already, that is found out by its silence.
        let _ = descriptors::send(&line, &files);
        let number = Pid::from_raw(i32::try_from(process.id()).expect("a process has a number"));
        let (tell, told) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(reports).lines().map_while(Result::ok) {
                if let Some(report) = Report::parse(&line) {
                    let _ = tell.send(report);
                }
            }
        });
        let (end, ended) = oneshot::channel();
        std::thread::spawn(move || {
            keep_going(number);
            let _ = end.send(());
        });
        Ok(Self { process, line, reports: told, ended, until: Duration::ZERO })
    }

    fn order(&mut self, order: &Order) {
        // If it is gone, that is found out by its silence.
        let _ = self.line.write_all(order.line().as_bytes());
    }

    fn report_lease(&mut self, remaining: impl FnOnce() -> Duration) {
        let until = boottime::end_of(remaining);
        // What has changed by less is how long it took to say.
        if until > self.until + Duration::from_millis(10) {
            self.until = until;
            self.order(&Order::Until(until));
        }
    }

    /// Tells it that it is not needed any more, and waits for its end.
    async fn dismiss(&mut self) {
        self.order(&Order::Bye);
        if timeout(PATIENCE, &mut self.ended).await.is_err() {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

/// Waits until the guard has ended. It must not be stopped while this process is not: it could not guard.
fn keep_going(guard: Pid) {
    let ends = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::Pid(guard), ends | WaitPidFlag::WSTOPPED) {
            Err(Errno::EINTR) => {}
            Ok(WaitStatus::Stopped(..)) => {
                let _ = kill(guard, Signal::SIGCONT);
                let _ = waitid(Id::Pid(guard), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG);
            }
            _ => return,
        }
    }
}

/// Whether there is such a command, before a lock is waited for to run it with.
pub(crate) fn find(program: &OsStr) -> Result<(), ServiceError> {
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

fn cannot(program: &OsStr, error: &io::Error) -> ServiceError {
    let program = program.to_string_lossy();
    match error.kind() {
        io::ErrorKind::NotFound => ServiceError::NotFound(format!(
            "there is no command {program:?}; for a line of shell, run sh -c '…'"
        )),
        io::ErrorKind::PermissionDenied => {
            ServiceError::NotExecutable(format!("{program:?} is not executable; try chmod +x"))
        }
        _ => ServiceError::NotExecutable(format!("{program:?} cannot be run: {error}")),
    }
}
