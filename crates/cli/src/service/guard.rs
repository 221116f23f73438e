//! The process that guards a command under a lock.
//!
//! A command under a lock must end before another session may hold the lock. `conclave lock` sees to that; but it may
//! be killed, or stopped for a while. So the command is started by a second process, the guard, which knows until when
//! the lease lasts before there is a command: if `conclave lock` is gone, or does not put the end of the lease off in
//! time, the guard ends the command.
//!
//! ```text
//!   conclave lock ──socket──▶ guard ──socket──▶ command, before it is executed
//!        run, until …           │  fork, group of its own, PR_SET_PDEATHSIG
//!        ◀── born PID           │
//!        go ───────────────▶    └── go ──▶ exec
//! ```
//!
//! The command is not executed before both processes know its group. If the guard is killed, the system kills the
//! command with it (the processes that the command has started are killed by `conclave lock`).

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use conclave_client::Credentials;
use nix::sys::prctl::{set_name, set_pdeathsig};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getpid, getppid};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::boottime::now;
use super::nested::dead;
use super::signals::is_ignored;
use super::{descriptors, release, spawn};

/// By which the program knows that it is the guard.
pub(crate) const GUARD: &str = "__guard";
/// By which the program knows that it is to become the command.
pub(crate) const BECOME: &str = "__become";
/// What the guard is called in lists of processes: `pkill conclave` is not to end it together with what it guards
/// against the end of.
pub(crate) const NAME: &str = "lock-guard";

/// What `conclave lock` tells its guard, in a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Prepare this command.
    Run(Vec<OsString>),
    /// The lease ends then, by the clock of [`now`].
    Until(Duration),
    /// This session is to be ended when the command has ended and `conclave lock` is gone.
    Release(Credentials),
    /// Commands are nested in this one, of whose end the guard does not hear: so the session is not to be ended, unless
    /// [`Order::Release`] is given again, which it is when they have ended.
    Nested,
    /// The command may begin.
    Go,
    /// The command has ended, or is not guarded any more.
    Bye,
}

/// What the guard tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// There is a process, which waits to become the command.
    Born(i32),
    /// It has become the command.
    Started,
    /// It could not, for this reason.
    Failed(i32),
    /// The command was stopped.
    Stopped,
    /// The command has ended, with what `wait` says of it.
    Ended(i32),
    /// The guard has killed the command, because the lease had ended for all that the guard was told.
    Overdue,
}

impl Order {
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Run(command) => {
                let bytes: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
                format!("run {}\n", serde_json::json!(bytes))
            }
            Self::Until(end) => format!("until {}\n", end.as_nanos()),
            Self::Release(credentials) => format!("release {}\n", credentials.reveal()),
            Self::Nested => "nested\n".to_owned(),
            Self::Go => "go\n".to_owned(),
            Self::Bye => "bye\n".to_owned(),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(match word {
            "run" => {
                let bytes: Vec<Vec<u8>> = serde_json::from_str(rest).ok()?;
                Self::Run(bytes.into_iter().map(OsString::from_vec).collect())
            }
            "until" => Self::Until(Duration::from_nanos(rest.parse().ok()?)),
            "release" => Self::Release(Credentials::parse(rest)?),
            "nested" => Self::Nested,
            "go" => Self::Go,
            "bye" => Self::Bye,
            _ => return None,
        })
    }
}

impl Report {
    fn line(self) -> String {
        match self {
            Self::Born(process) => format!("born {process}\n"),
            Self::Started => "started 0\n".to_owned(),
            Self::Failed(errno) => format!("failed {errno}\n"),
            Self::Stopped => "stopped 0\n".to_owned(),
            Self::Ended(status) => format!("ended {status}\n"),
            Self::Overdue => "overdue 0\n".to_owned(),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, number) = line.split_once(' ')?;
        let number = number.parse().ok()?;
        Some(match word {
            "born" => Self::Born(number),
            "started" => Self::Started,
            "failed" => Self::Failed(number),
            "stopped" => Self::Stopped,
            "ended" => Self::Ended(number),
            "overdue" => Self::Overdue,
            _ => return None,
        })
    }
}

/// This very program in another part, even if there is a newer one in its place by now.
pub(crate) fn own_program(part: &str) -> Command {
    let mut program = Command::new("/proc/self/exe");
    program.arg0(NAME).arg(part);
    program
}

/// What the guard goes by.
enum Event {
    Order(Order),
    /// `conclave lock` is gone.
    Alone,
    /// The command that this one is nested in has lost its lock, or the session.
    Kill,
    /// The command has begun, or could not.
    Begun(Result<(), i32>),
    Stopped,
    /// With what `wait` says of it.
    Ended(i32),
}

/// A guard.
struct Guard {
    line: UnixStream,
    events: Receiver<Event>,
    tell: Sender<Event>,
    grace: Duration,
    margin: Duration,
    /// When the lease ends.
    end: Duration,
    command: Option<Guarded>,
    session: Option<Credentials>,
    /// What the program that started it has open, and the command is to have open, too.
    inherited: Vec<RawFd>,
    /// The command is not to live any longer.
    killed: bool,
    /// The command was sent SIGKILL, because it was not to live any longer or the lease had ended.
    overdue: bool,
    /// If the command is nested: where to say that it is dead, if it was killed, until that is said.
    to_outer: Option<UnixStream>,
}

/// What is guarded.
struct Guarded {
    process: Pid,
    /// To tell it to begin, and with what as its standard input.
    begin: UnixStream,
    input: Option<OwnedFd>,
    begun: bool,
    ended: Option<i32>,
    reaped: bool,
}

/// What the guard does. Its standard input is the socket to `conclave lock`.
pub(crate) fn guard(arguments: &[String]) -> ExitCode {
    let _ = set_name(c"lock-guard");
    let nanos = |index| arguments.get(index).and_then(|text: &String| text.parse().ok());
    let [Some(grace), Some(margin)] = [0, 1].map(nanos) else { return ExitCode::from(2) };
    // It ends when it is told to, or is alone.
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        if !is_ignored(signal) {
            let _ = signal_hook::flag::register(signal as i32, Arc::new(AtomicBool::new(false)));
        }
    }
    let inherited = descriptors::inherited();
    let Ok(line) = descriptors::own_socket() else { return ExitCode::from(2) };
    let Ok(files) = descriptors::receive(&line) else { return ExitCode::SUCCESS };
    let mut files = files.into_iter();
    let Some(input) = files.next() else { return ExitCode::from(2) };
    let Ok(orders) = line.try_clone() else { return ExitCode::from(2) };
    let (tell, events) = mpsc::channel();
    let told = tell.clone();
    thread::spawn(move || {
        for line in BufReader::new(orders).lines().map_while(Result::ok) {
            if let Some(order) = Order::parse(&line) {
                let _ = told.send(Event::Order(order));
            }
        }
        let _ = told.send(Event::Alone);
    });
    let to_outer = files.next().map(UnixStream::from);
    // Both ends of it are open for as long as the guard lives, and with them what the nested command was granted.
    if let Some(hears) = to_outer.as_ref().and_then(|to_outer| to_outer.try_clone().ok()) {
        let told = tell.clone();
        thread::spawn(move || {
            for _ in BufReader::new(hears).lines().map_while(Result::ok) {
                let _ = told.send(Event::Kill);
            }
            // The outer process is gone: the lease is not put off any more, and that is enough.
            loop {
                thread::park();
            }
        });
    }
    let (grace, margin) = (Duration::from_nanos(grace), Duration::from_nanos(margin));
    let end = Duration::ZERO;
    let guard = Guard {
        line,
        events,
        tell,
        grace,
        margin,
        end,
        command: None,
        session: None,
        inherited,
        killed: false,
        overdue: false,
        to_outer,
    };
    guard.watch(input);
    ExitCode::SUCCESS
}

impl Guard {
    /// When the command has to be dead: `conclave lock` ends it earlier, if it can.
    fn late(&self) -> Duration {
        if self.killed { Duration::ZERO } else { self.end.saturating_sub(self.margin / 2) }
    }

    fn say(&mut self, report: Report) {
        let _ = self.line.write_all(report.line().as_bytes());
    }

    fn watch(mut self, input: OwnedFd) {
        let mut input = Some(input);
        loop {
            let left = self.late().saturating_sub(now());
            if left.is_zero() {
                self.kill_overdue();
            }
            // Timers stand still while the machine sleeps.
            let over = self.command.as_ref().is_some_and(|command| command.ended.is_some());
            let pause = if self.killed && !self.is_said_dead() {
                LOOK
            } else if over {
                LONGEST_PAUSE
            } else {
                left.clamp(PAUSE, LONGEST_PAUSE)
            };
            let event = self.events.recv_timeout(pause);
            match event {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::Order(Order::Until(end))) => self.end = self.end.max(end),
                Ok(Event::Order(Order::Run(command))) => {
                    match self.prepare(&command, input.take()) {
                        Ok(process) => self.say(Report::Born(process.as_raw())),
                        Err(error) => {
                            self.say(Report::Failed(error.raw_os_error().unwrap_or_default()));
                        }
                    }
                }
                Ok(Event::Order(Order::Release(session))) => self.session = Some(session),
                Ok(Event::Order(Order::Nested)) => self.session = None,
                Ok(Event::Kill) => self.killed = true,
                Ok(Event::Order(Order::Go)) => self.begin(),
                Ok(Event::Order(Order::Bye)) => return self.reap(),
                Ok(Event::Alone) | Err(RecvTimeoutError::Disconnected) => return self.end_alone(),
                Ok(event) => self.note(event),
            }
        }
    }

    /// After a kill: tells the outer process that nothing of the command runs any more, as soon as that is so. The
    /// program that started this one may be stopped, and could not.
    fn is_said_dead(&mut self) -> bool {
        let Some(to_outer) = &mut self.to_outer else { return true };
        let command = self.command.as_ref().filter(|command| !command.reaped);
        if command.is_some_and(|command| has_members(command.process)) {
            return false;
        }
        // If the outer process is gone, there is nothing to give back.
        let _ = to_outer.write_all(dead().as_bytes());
        // The thread that listens has the same connection, and keeps it open.
        self.to_outer = None;
        true
    }

    /// Takes note of what happens to the command.
    fn note(&mut self, event: Event) {
        let overdue = self.overdue;
        let Some(command) = &mut self.command else { return };
        let report = match event {
            Event::Begun(begun) => {
                command.begun = true;
                Some(match begun {
                    Ok(()) => Report::Started,
                    Err(errno) => Report::Failed(errno),
                })
            }
            Event::Ended(status) => {
                command.ended = Some(status);
                None
            }
            Event::Stopped => Some(Report::Stopped),
            Event::Order(_) | Event::Alone | Event::Kill => None,
        };
        // Whether it has begun is said first.
        let ended = command.ended.filter(|_| command.begun && report != Some(Report::Stopped));
        report.into_iter().for_each(|report| self.say(report));
        // A command that ended by itself in the same moment has a status of its own.
        let is_killed = |status| overdue && status == Signal::SIGKILL as i32;
        ended.into_iter().for_each(|status| {
            self.say(if is_killed(status) { Report::Overdue } else { Report::Ended(status) });
        });
    }

    /// The lease has ended for all that the guard was told: kills the command, and remembers why it ended.
    fn kill_overdue(&mut self) {
        self.overdue |= self.command.as_ref().is_some_and(|command| command.ended.is_none());
        self.signal(Signal::SIGKILL);
    }

    /// Has a process that waits to become the command.
    fn prepare(&mut self, command: &[OsString], input: Option<OwnedFd>) -> io::Result<Pid> {
        let (begin, theirs) = UnixStream::pair()?;
        // By this thread, which lasts as long as the guard: the system kills the command when the thread ends.
        let mut program = own_program(BECOME);
        program
            .arg(getpid().to_string())
            .args(command)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0);
        let process = spawn::spawn(&mut program)?;
        // The command has them now, and closes them when it likes.
        self.inherited.drain(..).for_each(descriptors::close);
        let process = Pid::from_raw(i32::try_from(process.id()).expect("a process has a number"));
        let answer = begin.try_clone();
        self.command =
            Some(Guarded { process, begin, input, begun: false, ended: None, reaped: false });
        let (tell, mut answer) = (self.tell.clone(), answer?);
        thread::spawn(move || {
            let mut text = String::new();
            let _ = answer.read_to_string(&mut text);
            let _ = tell.send(Event::Begun(text.parse().map_or(Ok(()), Err)));
        });
        let tell = self.tell.clone();
        thread::spawn(move || look(process, &tell));
        Ok(process)
    }

    /// Lets the process become the command, unless it is too late for that.
    fn begin(&mut self) {
        if now() >= self.late() {
            return self.kill_overdue();
        }
        if let Some(command) = &mut self.command
            && let Some(input) = command.input.take()
        {
            let _ = descriptors::send(&command.begin, &[input.as_fd()]);
        }
    }

    /// `conclave lock` is gone: ends the command, and all of its group.
    fn end_alone(mut self) {
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
        let grace = now() + self.grace;
        self.wait_for_end(|guard| guard.late().min(grace));
        self.signal(Signal::SIGKILL);
        let soon = now() + Duration::from_secs(5);
        let ended = self.wait_for_end(|_| soon);
        self.reap();
        // What surely does not run any more, others need not wait for.
        if let Some(session) = self.session.filter(|_| ended) {
            let _ = release::in_background(&session, Vec::new());
        }
    }

    /// Waits until nothing of the group is left, but no longer than so.
    fn wait_for_end(&mut self, until: impl Fn(&Self) -> Duration) -> bool {
        let Some(group) = self.command.as_ref().map(|command| command.process) else { return true };
        while has_members(group) {
            if now() >= until(self) {
                return false;
            }
            match self.events.recv_timeout(LOOK) {
                Ok(Event::Kill) => self.killed = true,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::park_timeout(LOOK),
            }
        }
        true
    }

    fn signal(&self, signal: Signal) {
        if let Some(command) = self.command.as_ref().filter(|command| !command.reaped) {
            let _ = killpg(command.process, signal);
        }
    }

    /// Takes the command from the table of processes.
    fn reap(&mut self) {
        if let Some(command) = self.command.as_mut().filter(|command| !command.reaped) {
            let _ = waitpid(command.process, None);
            command.reaped = true;
        }
    }
}

/// Between two looks at the clock.
const PAUSE: Duration = Duration::from_millis(20);
/// Between two looks at the processes of the machine.
const LOOK: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Whether a group has members that have not ended.
pub(crate) fn has_members(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    let lives_in_it = |entry: std::fs::DirEntry| {
        let _: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name is in parentheses, and may contain anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, member) = (fields.next()?, fields.nth(1)?.parse::<i32>().ok()?);
        Some(member == group.as_raw() && !["Z", "X"].contains(&state))
    };
    processes.flatten().any(|entry| lives_in_it(entry) == Some(true))
}

/// Tells what happens to a process, until it ends; but does not take it from the table of processes.
fn look(process: Pid, tell: &Sender<Event>) {
    let one = || rustix::process::Pid::from_raw(process.as_raw()).map(WaitId::Pid);
    let ends = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Some(id) = one() {
        match waitid(id, ends | WaitIdOptions::STOPPED) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(Some(status)) if status.stopped() => {
                // Else it would be told over and over.
                let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
                let taken = one().and_then(|id| waitid(id, stopped).ok().flatten());
                if taken.is_some() {
                    let _ = tell.send(Event::Stopped);
                }
            }
            ended => {
                let status = ended.ok().flatten();
                let code = status.as_ref().and_then(|status| status.exit_status());
                let signal = status.as_ref().and_then(|status| status.terminating_signal());
                // As `wait` has it.
                let status =
                    code.map_or_else(|| signal.unwrap_or_default(), |code| (code & 0xff) << 8);
                let _ = tell.send(Event::Ended(status));
                return;
            }
        }
    }
}

/// Waits for the guard's word, and becomes the command.
pub(crate) fn become_command(arguments: &[OsString]) -> ExitCode {
    let gone = ExitCode::from(1);
    let _ = set_name(c"lock-command");
    let [guard, program, arguments @ ..] = arguments else { return ExitCode::from(2) };
    let Ok(line) = descriptors::own_socket() else { return gone };
    // The parent is the guard, unless the guard is gone already.
    let guarded = set_pdeathsig(Signal::SIGKILL).is_ok();
    if !guarded || OsStr::new(&getppid().to_string()) != guard {
        return gone;
    }
    let Ok(files) = descriptors::receive(&line) else { return gone };
    let Some(input) = files.into_iter().next() else { return gone };
    let error = Command::new(program).args(arguments).stdin(Stdio::from(input)).exec();
    let _ = write!(&line, "{}", error.raw_os_error().unwrap_or_default());
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_says_the_other_understands() {
        let command = vec!["sh".into(), OsString::from_vec(vec![b'a', b'\n', 0xff, b' '])];
        let orders = [
            Order::Run(command),
            Order::Until(Duration::from_nanos(12_345_678_901)),
            Order::Release(Credentials::parse("1 2 3").expect("it is well-formed")),
            Order::Release(Credentials::parse("1 2 3 a token").expect("it is well-formed")),
            Order::Nested,
            Order::Go,
            Order::Bye,
        ];
        for order in orders {
            let line = order.line();
            assert_eq!(line.lines().count(), 1, "{line}");
            assert_eq!(Order::parse(line.trim_end()), Some(order));
        }
        let reports = [
            Report::Born(4711),
            Report::Started,
            Report::Failed(2),
            Report::Stopped,
            Report::Ended(0x0300),
            Report::Overdue,
        ];
        for report in reports {
            assert_eq!(Report::parse(report.line().trim_end()), Some(report));
        }
    }
}
