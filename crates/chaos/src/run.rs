//! A run: the node, its clients, the faults, and the end of it all.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use conclave_history::{Event, Kind, Want};
use nix::sys::signal::Signal;
use tokio::time::sleep;

use crate::clock::{nanos, now};
use crate::disk::Disk;
use crate::node::Node;
use crate::plan::{Fault, Plan, Step};
use crate::proxy::{Mode, Proxy};
use crate::recorder::Recorder;
use crate::{RunArguments, command, force, http_client, listing, report, wrapper};

/// How long everything may take to end when there are no faults any more.
const BOUND: Duration = Duration::from_secs(120);

/// What all clients share.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) proxy: Proxy,
    pub(crate) recorder: Recorder,
    /// Where processes write down what happens to them.
    pub(crate) directory: PathBuf,
    /// The program that is tried.
    pub(crate) program: PathBuf,
    /// This program.
    pub(crate) this: PathBuf,
    over: Arc<AtomicBool>,
    given_up: Arc<AtomicBool>,
    ended_at: Arc<AtomicU64>,
}

impl World {
    /// Nothing new is to be begun.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// What has not ended by now is recorded as hanging.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }

    /// When the last fault had ended.
    pub(crate) fn ended_at(&self) -> u64 {
        self.ended_at.load(Ordering::SeqCst)
    }

    pub(crate) fn address(&self, direct: bool) -> SocketAddr {
        if direct { self.proxy.node() } else { self.proxy.address }
    }

    pub(crate) fn draw(&self, chance: &mut fastrand::Rng) -> Want {
        draw(chance)
    }
}

/// What a client wants next. There are few names, so that many want the same.
pub(crate) fn draw(chance: &mut fastrand::Rng) -> Want {
    match chance.u8(..20) {
        0..=7 => Want::exclusive("a"),
        8..=9 => Want::shared("a"),
        10..=13 => Want::exclusive("b"),
        14..=16 => Want::permits("p", chance.u32(1..3), 3),
        17 => Want::shared("w"),
        18 => Want::exclusive("w"),
        _ => Want::election("e"),
    }
}

/// Makes a history and judges it; says whether nothing was found.
pub(crate) fn run(arguments: &RunArguments) -> Result<bool> {
    fs::create_dir_all(&arguments.output)
        .with_context(|| format!("cannot make {}", arguments.output.display()))?;
    let output = arguments.output.canonicalize()?;
    let program = arguments.program.canonicalize();
    let program = program
        .with_context(|| format!("there is no {}; build it first", arguments.program.display()))?;
    let disk = Disk::prepare(&output).context("cannot prepare the disk")?;
    let kinds = kinds(&arguments.only, disk.small)?;
    if !disk.small {
        conclave_testing::skipped("chaos: full disks", "no file system can be mounted here");
    }
    let history = output.join(format!("{}.jsonl", arguments.seed));
    let directory = output.join(format!("{}.work", arguments.seed));
    for old in [&directory, &disk.path.join("data")] {
        if old.exists() {
            fs::remove_dir_all(old).context("cannot remove what an earlier run has left")?;
        }
    }
    let _ = fs::remove_file(&history);
    fs::create_dir_all(&directory)?;
    let repeat = format!(
        "cargo xtask chaos --minutes {} --seed {}{}",
        arguments.minutes,
        arguments.seed,
        if arguments.only.is_empty() {
            String::new()
        } else {
            format!(" --only {}", arguments.only.join(","))
        }
    );
    let recorder = Recorder::create(&history)?;
    recorder.record(&Event::Begin { at: now(), seed: arguments.seed, command: repeat.clone() });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let made = runtime.block_on(async {
        let proxy = Proxy::start().await?;
        let world = World {
            proxy: proxy.clone(),
            recorder: recorder.clone(),
            directory: directory.clone(),
            program: program.clone(),
            this: std::env::current_exe()?,
            over: Arc::default(),
            given_up: Arc::default(),
            ended_at: Arc::default(),
        };
        let log = directory.join("node.log");
        let node = Node::new(&program, disk.path.join("data"), log, proxy, recorder.clone())?;
        make(&world, node, &disk, Plan::new(arguments.seed, kinds), arguments).await
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    // Commands that outlived their run, and what goes on trying to tell a node that a session is over.
    conclave_testing::end_marked(&directory);
    if let Err(error) = &made {
        eprintln!("chaos: {error:#}; what was recorded until then is judged");
    }
    collect(&recorder, &directory, &history)?;
    let events = conclave_history::read(BufReader::new(File::open(&history)?))?;
    let holds = report::print(&events);
    println!("\nhistory: {}\nagain:   {repeat}", history.display());
    if holds {
        let _ = fs::remove_dir_all(&directory);
    } else {
        println!("details: {}", directory.display());
    }
    Ok(holds && made.is_ok())
}

fn kinds(only: &[String], small: bool) -> Result<Vec<Fault>> {
    if let [none] = only
        && none == "none"
    {
        return Ok(Vec::new());
    }
    for name in only {
        if !Fault::ALL.iter().any(|fault| fault.name() == name) {
            let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
            bail!("there is no fault {name}; there are {}", names.join(", "));
        }
    }
    let wanted = |fault: &Fault| only.is_empty() || only.iter().any(|name| name == fault.name());
    let can = |fault: &Fault| small || !fault.needs_small_disk();
    Ok(Fault::ALL.into_iter().filter(|fault| wanted(fault) && can(fault)).collect())
}

/// Starts everything, makes faults, and ends everything.
async fn make(
    world: &World,
    mut node: Node,
    disk: &Disk,
    plan: Plan,
    arguments: &RunArguments,
) -> Result<()> {
    node.start().await?;
    let mut seeds = fastrand::Rng::with_seed(!arguments.seed);
    let mut tasks = Vec::new();
    for worker in 0..8 {
        tasks.push(tokio::spawn(http_client::work(world.clone(), worker, seeds.u64(..))));
    }
    let looking = tokio::spawn(listing::record_repeatedly(world.clone()));
    let mut threads = Vec::new();
    for worker in 0..7 {
        let (world, seed) = (world.clone(), seeds.u64(..));
        threads.push(std::thread::spawn(move || match worker {
            0..3 => wrapper::work(&world, Kind::Lock, worker, seed),
            3..5 => wrapper::work(&world, Kind::Elect, worker, seed),
            _ => wrapper::clients(&world, worker, seed),
        }));
    }
    let length = Duration::from_secs_f64(arguments.minutes * 60.0);
    let faults = make_faults(world, &mut node, disk, plan, now() + nanos(length));
    tokio::select! {
        () = faults => {}
        _ = tokio::signal::ctrl_c() => eprintln!("\nstopped by Ctrl-C; what was recorded is judged"),
    }
    // An interrupted fault leaves nothing behind.
    lift(world, &mut node, disk).await?;
    world.ended_at.store(now(), Ordering::SeqCst);
    world.over.store(true, Ordering::SeqCst);
    let end = now() + nanos(BOUND);
    let busy = |tasks: &[tokio::task::JoinHandle<()>], threads: &[std::thread::JoinHandle<()>]| {
        tasks.iter().filter(|task| !task.is_finished()).count()
            + threads.iter().filter(|thread| !thread.is_finished()).count()
    };
    while busy(&tasks, &threads) > 0 && now() < end {
        listing::record(world).await;
        sleep(Duration::from_millis(300)).await;
    }
    world.given_up.store(true, Ordering::SeqCst);
    for (worker, task) in tasks.into_iter().enumerate() {
        if !task.is_finished() {
            let (what, since) = (format!("client h{worker} over HTTP"), world.ended_at());
            world.recorder.record(&Event::Hung { what, since, at: now() });
            task.abort();
        }
    }
    for thread in threads {
        let _ = tokio::task::spawn_blocking(move || thread.join()).await;
    }
    let _ = looking.await;
    // The dead are forgotten within their time-to-live; how long that takes is judged.
    let end = now() + nanos(Duration::from_secs(40));
    while listing::record(world).await != Some(false) && now() < end {
        sleep(Duration::from_millis(300)).await;
    }
    node.end(Signal::SIGTERM).await;
    Ok(())
}

async fn make_faults(world: &World, node: &mut Node, disk: &Disk, plan: Plan, end: u64) {
    let mut last_line = 0;
    let mut steps = plan;
    loop {
        let step = steps.next();
        let after = step.as_ref().map_or(Duration::from_millis(500), |step| step.after);
        let begin = now() + nanos(after);
        while now() < begin.min(end) {
            sleep(Duration::from_millis(50)).await;
            if node.has_ended() {
                let kind = "ended-by-itself".to_owned();
                world.recorder.record(&Event::FaultBegan { kind: kind.clone(), at: now() });
                if let Err(error) = restart(node).await {
                    eprintln!("chaos: {error:#}");
                    return;
                }
                world.recorder.record(&Event::FaultEnded { kind, at: now() });
            }
            let tick = if std::io::stderr().is_terminal() { 1 } else { 20 };
            if now() >= last_line + tick * 1_000_000_000 {
                last_line = now();
                let left = end.saturating_sub(now()) / 1_000_000_000;
                eprintln!("{left:>5} s left: {}", world.recorder.progress());
            }
        }
        if now() >= end {
            return;
        }
        if let Some(step) = step {
            let kind = step.fault.name().to_owned();
            world.recorder.record(&Event::FaultBegan { kind: kind.clone(), at: now() });
            if let Err(error) = make_fault(world, node, disk, &step).await {
                eprintln!("chaos: {error:#}");
                return;
            }
            world.recorder.record(&Event::FaultEnded { kind, at: now() });
        }
    }
}

/// Starts a node that has ended; a directory may have to be opened more than once.
async fn restart(node: &mut Node) -> Result<()> {
    let mut last = Ok(());
    for _ in 0..5 {
        last = node.start().await;
        if last.is_ok() {
            break;
        }
        sleep(Duration::from_millis(500)).await;
    }
    last
}

async fn make_fault(world: &World, node: &mut Node, disk: &Disk, step: &Step) -> Result<()> {
    let Step { fault, length, detail, .. } = step;
    match fault {
        Fault::KillNode | Fault::TerminateNode => {
            let kills = *fault == Fault::KillNode;
            node.end(if kills { Signal::SIGKILL } else { Signal::SIGTERM }).await;
            // Half of the time it is back at once.
            sleep(if detail % 2 == 0 { *length } else { Duration::ZERO }).await;
            restart(node).await?;
        }
        Fault::StopNode => {
            node.signal(Signal::SIGSTOP);
            sleep(*length).await;
            node.signal(Signal::SIGCONT);
            node.until_well().await;
        }
        Fault::StutterNode => {
            let end = now() + nanos(*length);
            let mut chance = fastrand::Rng::with_seed(*detail);
            while now() < end {
                node.signal(Signal::SIGSTOP);
                sleep(Duration::from_millis(chance.u64(1..120))).await;
                node.signal(Signal::SIGCONT);
                sleep(Duration::from_millis(chance.u64(1..60))).await;
            }
            node.until_well().await;
        }
        Fault::Cut | Fault::Delay | Fault::HalfOpen | Fault::Silence => {
            world.proxy.set(match fault {
                Fault::Cut => Mode::Cut,
                Fault::Delay => Mode::Delay(Duration::from_millis(detail % 400)),
                Fault::HalfOpen => Mode::HoldAnswers,
                _ => Mode::HoldAll,
            });
            sleep(*length).await;
            world.proxy.set(Mode::Pass);
        }
        Fault::Reset => world.proxy.close_all(true),
        Fault::FullDisk | Fault::NoRoom => {
            disk.fill(if *fault == Fault::NoRoom { 0 } else { 4 << 20 });
            sleep(*length).await;
            disk.make_room();
            if node.has_ended() {
                restart(node).await?;
            }
            node.until_well().await;
        }
        Fault::Force | Fault::Depose => {
            let lock = match (fault, detail % 3) {
                (Fault::Depose, _) => Want::election("e"),
                (_, 0) => Want::exclusive("a"),
                (_, 1) => Want::exclusive("b"),
                (..) => Want::exclusive("w"),
            };
            force::take(&world.recorder, node.address(), lock.lock).await;
        }
    }
    Ok(())
}

/// Ends whatever fault lasts.
async fn lift(world: &World, node: &mut Node, disk: &Disk) -> Result<()> {
    let kind = "end".to_owned();
    world.recorder.record(&Event::FaultBegan { kind: kind.clone(), at: now() });
    world.proxy.set(Mode::Pass);
    disk.make_room();
    node.signal(Signal::SIGCONT);
    if node.has_ended() {
        restart(node).await?;
    }
    node.until_well().await;
    world.recorder.record(&Event::FaultEnded { kind, at: now() });
    Ok(())
}

/// Adds what processes have written down themselves.
fn collect(recorder: &Recorder, directory: &Path, history: &Path) -> Result<()> {
    let events = conclave_history::read(BufReader::new(File::open(history)?))?;
    let mut started = BTreeMap::new();
    for event in &events {
        if let Event::Started { name, wants, at, .. } = event {
            started.insert(name.as_str(), (wants, *at));
        }
    }
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".jsonl") {
            for event in conclave_history::read(BufReader::new(File::open(&path)?))? {
                recorder.record(&event);
            }
        }
        let Some((wants, at)) = started.get(name) else { continue };
        for account in wrapper::accounts(&path).iter().filter_map(|file| command::read(file)) {
            recorder.record(&Event::Ran {
                name: name.to_owned(),
                session: account.session,
                token: account.token,
                wants: (*wants).clone(),
                started: *at,
                begin: account.begin,
                last: account.last,
                code: account.code,
            });
        }
    }
    Ok(())
}
