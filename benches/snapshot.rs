//! Snapshots of very many nodes under load, and what a wrapper costs while no snapshot is under way.
//!
//! Every run among many nodes is a process of its own, so that its memory is its own. `cargo bench -p
//! conclave-bench --bench snapshot`.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

mod memory;

use std::process::Command;
use std::time::{Duration, Instant};

use conclave_algorithms::snapshot;
use conclave_algorithms::snapshot::chandy_lamport::{self, ChandyLamport, Config};
use conclave_protocol::{
    Client, Ctx, Host, Hosted, Never, NodeId, Protocol, Setup, Time, Topology,
};
use conclave_sim::{Arrivals, Ask, RunSpec, Tracing, Workload, World, shape};
use serde::{Deserialize, Serialize};

/// How many nodes, and in which shapes.
const MANY: u32 = 100_000;
const SHAPES: [&str; 2] = ["ring", "geometric"];
/// A snapshot of them takes no more memory than this.
const MOST_MEBIBYTES: u64 = 1024;
/// A wrapped application keeps at least this share of its events per second.
const LEAST_SHARE: f64 = 0.5;
const ROUNDS: usize = 7;

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    if args.next().as_deref() == Some("--one") {
        return snapshot_of(&args.next().expect("which shape"));
    }
    let program = std::env::current_exe().expect("it has a path");
    for shape in SHAPES {
        let output = Command::new(&program).args(["--one", shape]).output().expect("it runs");
        print!("{}", String::from_utf8_lossy(&output.stdout));
        assert!(output.status.success(), "{shape}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for n in [16, 1_000] {
        overhead(n);
    }
}

/// A program that does nothing but talk: each node sends a word to one of its neighbours each `T`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Talker {
    left: u32,
    heard: u64,
}

/// How many words each node says, and how long from one to the next.
#[derive(Clone, Copy, Debug)]
struct Words {
    words: u32,
    every: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Msg {
    Word(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Timer {
    Talk,
}

impl Protocol for Talker {
    type Config = Words;
    type Request = Never;
    type Notice = Never;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        ctx.set_timer(Timer::Talk, ctx.config.every);
        Self { left: ctx.config.words, heard: 0 }
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, _: NodeId, Msg::Word(word): Msg, _: &mut Ctx<Self>) {
        self.heard += u64::from(word);
    }

    fn on_timer(&mut self, Timer::Talk: Timer, ctx: &mut Ctx<Self>) {
        let neighbors = ctx.neighbors().count() as u32;
        let place = ctx.choose(neighbors) as usize;
        let to = ctx.neighbors().nth(place).expect("no node is alone");
        ctx.send(to, Msg::Word(self.left));
        self.left -= 1;
        if self.left > 0 {
            ctx.set_timer(Timer::Talk, ctx.config.every);
        }
    }
}

/// One who asks a talker for nothing.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Nothing;

impl Client<Talker> for Nothing {
    fn requests(&self) -> impl IntoIterator<Item = Never> {
        None
    }

    fn on_request(&mut self, request: &Never) {
        match *request {}
    }

    fn on_notice(&mut self, notice: &Never) {
        match *notice {}
    }
}

fn wrapped(n: u32, words: Words) -> Box<dyn Host> {
    let config = Config::<Talker>::new(words, None);
    Box::new(Hosted::<ChandyLamport<Talker>, snapshot::Client>::new(config, n))
}

/// A snapshot while every node says a word each `T`.
fn snapshot_of(shape_name: &str) {
    let drawn = Instant::now();
    let setup = Setup::new(shape(shape_name, MANY, 1).expect("there is such a shape"));
    let channels = setup.topology.channels();
    println!(
        "{shape_name}: {MANY} nodes, {channels} channels, drawn in {:.1} s",
        drawn.elapsed().as_secs_f64()
    );
    let (at, words) = (Time::ZERO + setup.delay * 5, Words { words: 20, every: setup.delay });
    let mut spec = RunSpec::new(&chandy_lamport::PLAIN.info, setup);
    let ask = Ask { node: NodeId(0), at, hold: None };
    spec.workload = Workload { arrivals: Arrivals::Plan(vec![ask]), ..Workload::idle() };
    (spec.tracing, spec.events) = (Tracing::Counts, u64::MAX);
    spec.linger = None;
    let begun = Instant::now();
    let mut world = World::new(wrapped(MANY, words), &spec);
    while world.step().is_none() {}
    let trace = world.trace();
    let counts = trace.labels.iter().zip(&trace.counts);
    let count = |wanted: &str| {
        let found = counts.clone().find(|(name, _)| *name == wanted);
        found.map_or(0, |(_, count)| *count)
    };
    let (markers, mebibytes) = (count("Marker"), memory::kib("VmHWM:") / 1024);
    println!(
        "  {:.1} s, {} events, {markers} markers, {} words, memory at most {mebibytes} MiB",
        begun.elapsed().as_secs_f64(),
        world.stats().events,
        count("Word"),
    );
    assert_eq!(markers, channels, "one marker on each channel");
    assert!(mebibytes <= MOST_MEBIBYTES, "no more than {MOST_MEBIBYTES} MiB");
}

/// How many events per second a talker has by itself, and inside a wrapper that takes no snapshot.
fn overhead(n: u32) {
    let (mut bare, mut inside) = (0.0_f64, 0.0_f64);
    let setup = || Setup::new(Topology::complete(n));
    let words = Words { words: u32::MAX, every: setup().delay };
    for _ in 0..ROUNDS {
        bare = bare.max(rate(Box::new(Hosted::<Talker, Nothing>::new(words, n)), setup()));
        inside = inside.max(rate(wrapped(n, words), setup()));
    }
    let share = inside / bare;
    println!(
        "n = {n}: bare {:.2} M events/s, wrapped {:.2} M events/s, ratio {share:.2} (at least \
         {LEAST_SHARE}); best of {ROUNDS} alternating rounds",
        bare / 1e6,
        inside / 1e6
    );
    assert!(share >= LEAST_SHARE, "at least {LEAST_SHARE} of the events per second");
}

/// Events per second of processor time.
fn rate(host: Box<dyn Host>, setup: Setup) -> f64 {
    let mut spec = RunSpec::new(&chandy_lamport::PLAIN.info, setup);
    spec.workload = Workload::idle();
    (spec.tracing, spec.events) = (Tracing::Off, 1_000_000);
    spec.linger = None;
    let mut world = World::new(host, &spec);
    let begun = processor_time();
    while world.step().is_none() {}
    world.stats().events as f64 / (processor_time() - begun)
}

/// For how many seconds this process has had a processor, whatever else goes on.
fn processor_time() -> f64 {
    // Brings the figure up to date.
    std::thread::yield_now();
    let status = std::fs::read_to_string("/proc/self/schedstat").expect("Linux has it");
    let nanos = status.split_whitespace().next().and_then(|nanos| nanos.parse::<u64>().ok());
    nanos.expect("its first field is the time on the processor") as f64 / 1e9
}
