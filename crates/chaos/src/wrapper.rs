//! Commands under `conclave lock` and `conclave elect`, and clients in Rust: processes that are killed and stopped.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conclave_history::{Event, Kind, Mode, Time, Want};
use conclave_testing::MARK;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::clock::{nanos, now, pause};
use crate::node::{ending, last_line};
use crate::process_fault::{self, Plan, ProcessFault};
use crate::run::{World, draw};
use crate::session_client;

/// For how long, without faults, a process may live on after its command has ended.
const BOUND: u64 = 15_000_000_000;

/// Starts one process after the other until the world ends.
pub(crate) fn work(world: &World, kind: Kind, worker: usize, seed: u64) {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut count = 0;
    while !world.is_over() {
        count += 1;
        let letter = if kind == Kind::Lock { 'l' } else { 'e' };
        let name = format!("{letter}{worker}-{count}");
        one(world, kind, &name, &mut chance);
        pause(Duration::from_millis(chance.u64(0..200)));
    }
}

/// Starts a process, does something to it perhaps, and waits until it has ended.
fn one(world: &World, kind: Kind, name: &str, chance: &mut fastrand::Rng) {
    let ttl = Duration::from_millis(chance.u64(1_500..3_500));
    let plan = Plan::draw(chance, ttl);
    // What is struck may go on where it must not, for which it has to live long enough.
    let lifetime = match plan {
        Some(_) => ttl.mul_f64(1.5 + chance.f64()),
        None => Duration::from_millis(chance.u64(1..400)),
    };
    let code = if chance.u8(..4) == 0 { 3 } else { 0 };
    let want = match (kind, chance.u8(..8)) {
        (Kind::Elect, _) => Want::election("e"),
        (Kind::Lock, 0) => draw(chance),
        (Kind::Lock, 1) => Want::permits("p", chance.u32(1..3), 3),
        (Kind::Lock, 2) => Want::shared("w"),
        (Kind::Lock, _) => Want::exclusive("w"),
    };
    let kind = if want.lock.starts_with(Want::ELECTION) { Kind::Elect } else { kind };
    let try_once = kind == Kind::Lock && chance.u8(..10) == 0;
    let timeout = (!try_once && chance.u8(..3) > 0).then(|| Duration::from_secs(8));
    // A directory for each, since it is looked at often.
    let directory = world.directory.join(name);
    let (account, said) = (directory.join("command.account"), directory.join("stderr"));
    if fs::create_dir(&directory).is_err() {
        return;
    }
    let Ok(errors) = File::create(&said) else { return };
    let mut command = Command::new(&world.program);
    command.env(MARK, &world.directory);
    let election = want.lock.strip_prefix(Want::ELECTION);
    command.arg(if election.is_some() { "elect" } else { "lock" });
    command.arg("--ttl").arg(format!("{}ms", ttl.as_millis()));
    command.args(["--name", name, "--endpoints", &world.proxy.address.to_string()]);
    match want.mode {
        Mode::Exclusive => {}
        Mode::Shared => drop(command.arg("--shared")),
        Mode::Permits { take, of } => drop(command.args(["--permits", &format!("{take}/{of}")])),
    }
    if try_once {
        command.arg("--try");
    }
    if let Some(timeout) = timeout {
        command.args(["--timeout", &format!("{}s", timeout.as_secs())]);
    }
    if kind == Kind::Elect {
        command.args(["--rank", &chance.u8(..4).to_string(), "--preempt"]);
        if chance.bool() {
            command.arg("--once");
        }
    }
    command.arg(election.unwrap_or(&want.lock)).arg("--").arg(&world.this);
    command.arg("command").arg("--account").arg(&account);
    command.args(["--for", &lifetime.as_millis().to_string(), "--code", &code.to_string()]);
    if chance.u8(..3) == 0 {
        command.arg("--stubborn");
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).process_group(0);
    let started = Event::Started {
        name: name.to_owned(),
        kind,
        wants: vec![want.clone()],
        try_once,
        timeout: timeout.map(nanos),
        ttl: nanos(ttl),
        code,
        at: now(),
    };
    world.recorder.record(&started);
    let Ok(mut child) = command.spawn() else { return };
    let pid = pid_of(&child);
    let done = AtomicBool::new(false);
    let alive = || !done.load(Ordering::SeqCst) && !has_ended(pid);
    std::thread::scope(|threads| {
        if let Some(plan) = plan {
            let plan = Plan {
                // Whether the process hangs is seen when its command has ended.
                length: if plan.fault == ProcessFault::StopWatcher {
                    20 * ttl
                } else {
                    plan.length
                },
                ..plan
            };
            let fault = plan.fault;
            let how = move || {
                let how = fault.name().to_owned();
                world.recorder.record(&Event::Struck { name: name.to_owned(), how, at: now() });
            };
            let runs = || !accounts(&directory).is_empty();
            threads.spawn(move || process_fault::carry_out(plan, pid, runs, alive, how));
        }
        await_end(world, name, &directory, &said, pid);
        done.store(true, Ordering::SeqCst);
    });
    // It is taken from the table of processes only now that nothing sends signals to its number any more.
    let Ok(status) = child.wait() else { return };
    let at = now();
    let said = last_line(&said);
    let recorder = &world.recorder;
    recorder.record(&Event::Exited { name: name.to_owned(), ending: ending(status), said, at });
    recorder.record(&Event::Silent { name: name.to_owned(), ttl: nanos(ttl), at });
}

/// Waits until a process has ended; ends it if it hangs.
fn await_end(world: &World, name: &str, directory: &Path, said: &Path, pid: Pid) {
    let (mut ended, mut since): (Option<u64>, Time) = (None, 0);
    while !has_ended(pid) {
        pause(Duration::from_millis(10));
        if ended.is_none() {
            let accounts = accounts(directory);
            let last = accounts.iter().filter_map(|path| crate::command::read(path));
            if last.max_by_key(|account| account.begin).is_some_and(|last| last.code.is_some()) {
                (ended, since) = (Some(world.recorder.calm()), now());
            }
        } else if stands_again(directory, said) {
            ended = None;
        }
        let late = ended.is_some_and(|calm| world.recorder.calm() > calm + BOUND);
        if late || world.is_given_up() {
            let what =
                format!("{name}, whose command {}", if late { "had ended" } else { "did not" });
            let since = if late { since } else { world.ended_at() };
            world.recorder.record(&Event::Hung { what, since, at: now() });
            let _ = kill(pid, Signal::SIGKILL);
            return;
        }
    }
}

/// Whether a candidate has given way in the moment in which its command ended by itself: it stands again, and runs its
/// command again when it leads.
fn stands_again(directory: &Path, said: &Path) -> bool {
    let said = fs::read_to_string(said).unwrap_or_default();
    said.lines().filter(|line| line.contains("leads no more")).count() >= accounts(directory).len()
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("numbers of processes are small"))
}

/// Whether a child has ended; it stays in the table of processes.
fn has_ended(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let id = rustix::process::Pid::from_raw(pid.as_raw()).expect("it is not zero");
    !matches!(waitid(WaitId::Pid(id), options), Ok(None))
}

/// What the commands of a process wrote down.
pub(crate) fn accounts(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_account = |path: &PathBuf| {
        let extension = path.extension().and_then(|end| end.to_str());
        extension.is_some_and(|end| end.parse::<u32>().is_ok())
    };
    paths.filter(is_account).collect()
}

/// Starts one client in Rust after the other until the world ends.
pub(crate) fn clients(world: &World, worker: usize, seed: u64) {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut count = 0;
    while !world.is_over() {
        count += 1;
        let name = format!("c{worker}-{count}");
        let ttl = Duration::from_millis(chance.u64(1_500..3_500));
        let history = world.directory.join(format!("{name}.jsonl"));
        let endpoint = world.proxy.address.to_string();
        let arguments = session_client::Arguments::new(
            endpoint,
            name.clone(),
            chance.u64(..),
            history,
            ttl.as_millis() as u64,
        );
        let mut command = Command::new(&world.this);
        command.env(MARK, &world.directory);
        command.args(session_client::arguments(&arguments)).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return };
        let pid = pid_of(&child);
        let mut fault = (chance.u8(..3) > 0)
            .then(|| now() + chance.u64(0..8_000) * 1_000_000)
            .zip(Some(chance.bool()));
        while !has_ended(pid) {
            pause(Duration::from_millis(2));
            if world.is_given_up() {
                let (what, since) = (format!("{name}, a client in Rust"), world.ended_at());
                world.recorder.record(&Event::Hung { what, since, at: now() });
                let _ = kill(pid, Signal::SIGKILL);
                break;
            }
            let Some((_, kills)) = fault.filter(|(at, _)| now() >= *at) else { continue };
            fault = None;
            let how = if kills { "kill-client" } else { "stop-client" }.to_owned();
            world.recorder.record(&Event::Struck { name: name.clone(), how, at: now() });
            if kills {
                let _ = kill(pid, Signal::SIGKILL);
            } else {
                let _ = kill(pid, Signal::SIGSTOP);
                pause(ttl.mul_f64(0.1 + 2.0 * chance.f64()));
                let _ = kill(pid, Signal::SIGCONT);
            }
        }
        let _ = child.wait();
        world.recorder.record(&Event::Silent { name, ttl: nanos(ttl), at: now() });
        pause(Duration::from_millis(chance.u64(50..300)));
    }
}
