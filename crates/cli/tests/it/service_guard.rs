//! That a command under a lock has a guard before it begins, and none runs beside the next holder's.

use std::fs;
use std::io::{BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use crate::support::node::{Node, Process, eventually, is_alive, line_in, pause, program};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// A command that is deaf to SIGTERM and says if another runs at the same time: both want the lock on a file, which
/// the system takes from a process when that ends.
const ALONE: &str = "trap '' TERM; exec 9>>inside.$0; flock -n 9 || echo $0 twice >> verdict; \
                     echo $0 >> runs; for n in 1 2 3 4 5 6 7 8; do sleep 0.05 9>&-; done";

/// The guard of a command: the process that `conclave lock` has started.
fn guard_of(holder: &Process) -> Option<Pid> {
    let holder = holder.pid();
    let children = fs::read_to_string(format!("/proc/{holder}/task/{holder}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok().map(Pid::from_raw)
}

/// What is done to a holder.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Kill,
    Stop,
    /// Both processes at once.
    KillBoth,
    KillGuard,
    StopGuard,
}

impl Blow {
    fn fall_upon(self, holder: &Process) {
        let guard = |signal| guard_of(holder).map(|guard| kill(guard, signal));
        match self {
            Self::Kill => holder.signal(Signal::SIGKILL),
            Self::Stop => holder.signal(Signal::SIGSTOP),
            Self::KillBoth => {
                guard(Signal::SIGKILL);
                holder.signal(Signal::SIGKILL);
            }
            Self::KillGuard => drop(guard(Signal::SIGKILL)),
            Self::StopGuard => drop(guard(Signal::SIGSTOP)),
        }
    }
}

#[test]
fn at_no_stage_of_its_birth_does_a_command_run_beside_the_next_holders() {
    let node = Node::start(&[]);
    let blows = [Blow::Kill, Blow::Stop, Blow::KillBoth, Blow::KillGuard, Blow::StopGuard];
    // The lease leaves a guard time to be late in, on a busy machine.
    let ttl = "6s";
    let lock =
        |name: &str| ["lock", "--ttl", ttl, name, "--", "sh", "-c", ALONE, name].map(str::to_owned);
    let mut stopped = Vec::new();
    // Two moments of birth at a time for each blow, each with a lock of its own.
    for round in 0..3 {
        let names: Vec<String> =
            (0..2 * blows.len()).map(|index| format!("lock-{index}")).collect();
        let holders: Vec<Process> = names
            .iter()
            .map(|name| node.begin(&lock(name).each_ref().map(String::as_str)))
            .collect();
        for (index, holder) in holders.into_iter().enumerate() {
            // From before the grant until the command has run for a while.
            pause(Duration::from_millis((7 * round + 3 * index as u64) % 20));
            if index % 2 == 1 && round > 0 {
                let born = || guard_of(&holder).is_some().then_some(());
                let mut holder_ended = false;
                eventually("a guard, or the end", || {
                    holder_ended = !is_alive(&holder.pid().to_string());
                    born().or_else(|| holder_ended.then_some(()))
                });
            }
            blows[index / 2].fall_upon(&holder);
            stopped.push(holder);
        }
        let nexts: Vec<Process> = names
            .iter()
            .map(|name| node.begin(&lock(name).each_ref().map(String::as_str)))
            .collect();
        for mut next in nexts {
            next.ends_with(0);
        }
    }
    for mut holder in stopped {
        if holder.is_running() {
            let _ = kill(holder.pid(), Signal::SIGCONT);
            holder.status();
        }
    }
    let verdict = fs::read_to_string(node.file("verdict")).unwrap_or_default();
    assert_eq!(verdict, "", "two commands ran at once");
    let runs = fs::read_to_string(node.file("runs")).expect("some have run");
    assert!(runs.lines().count() >= 30, "each next one has run: {runs}");
}

/// A command that tells its number and that of a process it has started, and goes on for ever, deaf to SIGTERM.
const FAMILY: &str = "trap '' TERM; sh -c 'echo $$ > grandchild; while :; do sleep 0.05; done' & \
                      echo $$ > child; while :; do sleep 0.05; done";

fn family(node: &Node, flags: &[&str]) -> (Process, [String; 2]) {
    let holder = node.begin(&[&["lock"], flags, &["a", "--", "sh", "-c", FAMILY]].concat());
    let family = ["child", "grandchild"].map(|name| line_in(&node.file(name)));
    (holder, family)
}

#[test]
fn a_command_whose_guard_is_killed_ends_with_all_that_it_has_started() {
    let node = Node::start(&[]);
    let (mut holder, family) = family(&node, &["--ttl", "60s"]);
    let guard = guard_of(&holder).expect("it has one");
    kill(guard, Signal::SIGKILL).expect("it is there");
    holder.ends_with(12);
    assert!(family.iter().all(|pid| !is_alive(pid)), "{family:?}");
    assert!(holder.stderr().contains("the process that guards the command"), "{}", holder.stderr());
    node.ends_with(0, &["lock", "--try", "a", "--", "true"]);
}

#[test]
fn a_command_whose_guard_and_wrapper_are_killed_together_is_killed_by_the_system() {
    let node = Node::start(&[]);
    let (mut holder, [child, _]) = family(&node, &["--ttl", "60s"]);
    let guard = guard_of(&holder).expect("it has one");
    holder.signal(Signal::SIGSTOP);
    kill(guard, Signal::SIGKILL).expect("it is there");
    holder.signal(Signal::SIGKILL);
    holder.status();
    eventually("its end", || (!is_alive(&child)).then_some(()));
}

#[test]
fn a_guard_that_is_stopped_does_not_block_the_supervisor() {
    let node = Node::start(&[]);
    let script = "trap 'exit 3' TERM; echo > ready; while :; do sleep 0.05; done";
    let mut holder = node.begin(&["lock", "--ttl", "60s", "a", "--", "sh", "-c", script]);
    line_in(&node.file("ready"));
    let guard = guard_of(&holder).expect("it has one");
    for _ in 0..3 {
        kill(guard, Signal::SIGSTOP).expect("it is there");
        eventually("that it goes on", || {
            let stat = fs::read_to_string(format!("/proc/{guard}/stat")).ok()?;
            (!stat.contains(") T ")).then_some(())
        });
    }
    kill(guard, Signal::SIGSTOP).expect("it is there");
    holder.signal(Signal::SIGTERM);
    holder.ends_with(3);
}

#[test]
fn a_guard_is_not_called_as_what_it_guards_against_the_end_of() {
    let node = Node::start(&[]);
    let (mut holder, family) = family(&node, &["--ttl", "60s"]);
    let guard = guard_of(&holder).expect("it has one").to_string();
    for what in ["comm", "cmdline"] {
        let named = fs::read_to_string(format!("/proc/{guard}/{what}")).expect("it is there");
        assert!(named.starts_with("lock-guard") && !named.contains("conclave"), "{named}");
    }
    // It does not end when it is asked to, either.
    let process = Pid::from_raw(guard.parse().expect("a number"));
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        kill(process, signal).expect("it is there");
    }
    holder.signal(Signal::SIGKILL);
    holder.status();
    eventually("the end of all", || {
        family.iter().chain([&guard]).all(|pid| !is_alive(pid)).then_some(())
    });
}

/// By the clock that leases are counted by.
#[expect(clippy::disallowed_methods, reason = "a guard is told until when a lease lasts")]
fn end_in(span: Duration) -> u128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u128::from(now.tv_sec.unsigned_abs()) * 1_000_000_000
        + u128::from(now.tv_nsec.unsigned_abs())
        + span.as_nanos()
}

#[test]
fn a_guard_says_that_it_has_ended_a_command_whose_lease_was_not_put_off() {
    let (line, theirs) = UnixStream::pair().expect("a socket");
    let mut guard = program(&["__guard", "0", "0"])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .expect("the program runs");
    send_input(&line);
    let mut orders = line.try_clone().expect("a second handle");
    let command: Vec<&[u8]> = vec![b"sleep", b"3600"];
    let run = serde_json::json!(command);
    write!(orders, "until {}\nrun {run}\ngo\n", end_in(Duration::from_millis(300)))
        .expect("it listens");
    let mut reports = BufReader::new(line).lines().map_while(Result::ok);
    let told = reports.find(|line| line.starts_with("ended") || line.starts_with("overdue"));
    assert_eq!(told.as_deref(), Some("overdue 0"), "that is no end of its own");
    writeln!(orders, "bye").expect("it listens");
    assert!(guard.wait().expect("it ends").success());
}

/// Gives the guard what is to be the standard input of the command.
fn send_input(line: &UnixStream) {
    let input = fs::File::open("/dev/null").expect("it is there");
    let files = [input.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(line, &[IoSlice::new(b"\n")], &mut control, SendFlags::NOSIGNAL).expect("it is sent");
}
