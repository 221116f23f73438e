//! How fast and how small the model checker is, as ratios to Stateright in the same run.
//!
//! The system is Ricart–Agrawala by the conventions of the reference model, four nodes that ask
//! once each, its whole graph: 1,402,298 states and 7,398,198 transitions.
//!
//! `cd benches/peers && cargo bench --bench checker`, or only one part of it, by its name: `speed`,
//! `threads`, `reduction`, `memory` or `bug` after `--`.

#[path = "../../memory.rs"]
mod memory;

use std::process::Command;
use std::time::{Duration, Instant};

use conclave_algorithms::mutex::ricart_agrawala;
use conclave_check::{CheckSpec, Limits, Progress, Report, Verdict, check};
use conclave_peers::arrays::Arrays;
use conclave_peers::packed::Packed;
use conclave_peers::reference::{self, REFERENCE};
use conclave_peers::{Search, actors, explore};
use conclave_protocol::{Algorithm, Channels, Property, Setup, Topology};

const ROUNDS: usize = 3;
const STATES: u64 = 1_402_298;
const TRANSITIONS: u64 = 7_398_198;
/// The argument with which this program starts itself to measure the memory of one engine alone.
const PEAK: &str = "--peak";
/// What the checker may use: as much as a graph of a hundred million states may need.
const MEMORY: usize = 12 << 30;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == PEAK) {
        child(&args[at + 1]);
        return;
    }
    println!("Ricart–Agrawala, 4 nodes, 1 request each, whole graph:");
    println!("{STATES} states, {TRANSITIONS} transitions\n");
    let parts: [(&str, fn()); 5] = [
        ("speed", one_thread),
        ("threads", two_threads),
        ("reduction", reduction),
        ("memory", memory),
        ("bug", counter_example),
    ];
    let named = |name: &str| args.iter().any(|arg| arg == name);
    let all = !parts.iter().any(|(name, _)| named(name));
    for (name, part) in parts {
        if all || named(name) {
            part();
        }
    }
}

/// Something that explores the graph.
#[derive(Clone, Copy)]
enum Engine {
    Actors(Search),
    Arrays(Search),
    Packed(Search),
    Ours,
}

impl Engine {
    const ALL: [Self; 7] = [
        Self::Actors(Search::Depth),
        Self::Actors(Search::Breadth),
        Self::Arrays(Search::Depth),
        Self::Arrays(Search::Breadth),
        Self::Packed(Search::Depth),
        Self::Packed(Search::Breadth),
        Self::Ours,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Actors(Search::Depth) => "Stateright actors, DFS",
            Self::Actors(Search::Breadth) => "Stateright actors, BFS",
            Self::Arrays(Search::Depth) => "Stateright arrays, DFS",
            Self::Arrays(Search::Breadth) => "Stateright arrays, BFS",
            Self::Packed(Search::Depth) => "Stateright packed, DFS",
            Self::Packed(Search::Breadth) => "Stateright packed, BFS",
            Self::Ours => "conclave-check",
        }
    }

    /// Explores the whole graph on one thread.
    fn run(self) {
        let counts = match self {
            Self::Actors(search) => explore(actors::model(4, 1), search, 1),
            Self::Arrays(search) => explore(Arrays::new(4, 1), search, 1),
            Self::Packed(search) => explore(Packed::new(4, 1), search, 1),
            Self::Ours => {
                ours(1);
                return;
            }
        };
        let expected = (STATES as usize, TRANSITIONS as usize + 1);
        assert_eq!((counts.distinct, counts.generated), expected);
    }
}

/// Checks the reference model, its whole graph.
fn ours(threads: usize) {
    let mut spec = spec(&REFERENCE, 1);
    spec.limits.threads = threads;
    let coverage = run(&REFERENCE, &spec).coverage;
    assert_eq!((coverage.states, coverage.transitions), (STATES, TRANSITIONS));
}

/// Four nodes on FIFO links; at most one may be inside.
fn spec(algorithm: &dyn Algorithm, requests: u32) -> CheckSpec {
    CheckSpec {
        requests: requests.into(),
        channels: Channels::Fifo,
        properties: vec![Property::Exclusion],
        reduction: false,
        limits: Limits { memory: MEMORY, ..Limits::default() },
        ..CheckSpec::new(algorithm.info(), Setup::new(Topology::complete(4)), 0..4)
    }
}

fn run(algorithm: &dyn Algorithm, spec: &CheckSpec) -> Report {
    check(algorithm, spec, &Progress::default()).expect("it fits")
}

fn one_thread() {
    println!("one thread, best of {ROUNDS} alternating rounds");
    let mut rates = [0.0_f64; Engine::ALL.len()];
    for _ in 0..ROUNDS {
        for (engine, rate) in Engine::ALL.iter().zip(&mut rates) {
            *rate = rate.max(TRANSITIONS as f64 / cpu_seconds(|| engine.run()));
        }
    }
    let ours = rates[Engine::ALL.len() - 1];
    for (engine, rate) in Engine::ALL.iter().zip(rates) {
        println!(
            "  {:<24} {:6.2} M transitions per CPU-second, {:4} bytes per state; ours is {:5.2} times",
            engine.name(),
            rate / 1e6,
            peak(engine.name()) / STATES,
            ours / rate,
        );
    }
}

/// Wall-clock says how much faster two threads are only while nothing else runs; the CPU time that
/// they take beside that of one bounds it from above at any time.
fn two_threads() {
    let (mut wall, mut cpu) = ([f64::MAX; 2], [f64::MAX; 2]);
    for _ in 0..ROUNDS * 2 {
        for threads in 1..=2 {
            let mut took = Duration::ZERO;
            let used = cpu_seconds(|| took = elapsed(|| ours(threads)));
            wall[threads - 1] = took.as_secs_f64().min(wall[threads - 1]);
            cpu[threads - 1] = used.min(cpu[threads - 1]);
        }
    }
    println!("\ntwo threads, best of {} alternating rounds", ROUNDS * 2);
    println!("  {:.3} s on one, {:.3} s on two: {:.2} times", wall[0], wall[1], wall[0] / wall[1]);
    println!(
        "  {:.2} and {:.2} CPU-seconds: at most {:.2} times",
        cpu[0],
        cpu[1],
        2.0 * cpu[0] / cpu[1]
    );
}

fn reduction() {
    let mut spec = spec(&REFERENCE, 1);
    spec.reduction = true;
    let mut transitions = 0;
    let took = cpu_seconds(|| {
        let coverage = run(&REFERENCE, &spec).coverage;
        assert_eq!(coverage.states, STATES);
        transitions = coverage.transitions;
    });
    println!("\nreduction");
    println!(
        "  {TRANSITIONS} transitions without, {transitions} with: {:.2} times fewer; {took:.2} CPU-seconds",
        TRANSITIONS as f64 / transitions as f64
    );
}

/// What only a process of its own can measure: the peak of a search's memory.
fn child(what: &str) {
    if what == LARGE {
        let mut states = 0;
        let bytes = growth(|| states = run(&REFERENCE, &spec(&REFERENCE, 2)).coverage.states);
        println!("{} {states}", bytes);
        return;
    }
    let engine = Engine::ALL.into_iter().find(|engine| engine.name() == what);
    println!("{} {STATES}", growth(|| engine.expect("one of ours").run()));
}

const LARGE: &str = "large";

fn memory() {
    let (bytes, states) = measure(LARGE);
    println!("\nmemory, 4 nodes, 2 requests each");
    println!(
        "  {states} states, peak {} MiB: {:.1} bytes per state with parent links",
        bytes >> 20,
        bytes as f64 / states as f64
    );
}

fn counter_example() {
    println!("\nwithout the tie-break, 4 nodes, 2 requests each, one thread");
    for (name, found) in [
        ("of the reference model", find(&reference::NO_TIE_BREAK)),
        ("of the catalogue", find(&ricart_agrawala::NO_TIE_BREAK)),
    ] {
        let (steps, took) = found;
        println!("  {name}: a trace of {steps} steps after {:.2} s", took.as_secs_f64());
    }
    let mut spec = spec(&reference::NO_TIE_BREAK, 2);
    spec.properties.clear();
    let mut states = 0;
    let took = elapsed(|| {
        let coverage = run(&reference::NO_TIE_BREAK, &spec).coverage;
        assert_eq!(coverage.stop, None, "it has all the memory it needs");
        states = coverage.states;
    });
    println!("  all {states} states of the former, breadth first: {:.1} s", took.as_secs_f64());
}

/// Finds a run in which two are inside: its steps, and the time it took.
fn find(algorithm: &dyn Algorithm) -> (usize, Duration) {
    let spec = CheckSpec { reduction: true, ..spec(algorithm, 2) };
    let mut steps = 0;
    let took = elapsed(|| match run(algorithm, &spec).verdict(Property::Exclusion) {
        Some(Verdict::Violated(violation)) => steps = violation.decisions.len(),
        verdict => panic!("it lets two in: {verdict:?}"),
    });
    (steps, took)
}

/// CPU time of all threads of this program, so that other programs on the machine do not count.
fn cpu_seconds(work: impl FnOnce()) -> f64 {
    let cpu = || {
        let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
        let (_, fields) = stat.rsplit_once(") ").expect("the name of the program in brackets");
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.map(|text| text.parse::<u64>().expect("a number")).sum();
        ticks as f64 / 100.0
    };
    let start = cpu();
    work();
    cpu() - start
}

#[expect(clippy::disallowed_methods, reason = "measures how much two threads are faster")]
fn elapsed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// The bytes by which the memory of an engine grows at its peak.
fn peak(engine: &str) -> u64 {
    measure(engine).0
}

/// Runs this program again for one measurement of memory: bytes, and states.
fn measure(what: &str) -> (u64, u64) {
    let program = std::env::current_exe().expect("Linux tells");
    let output = Command::new(program).args([PEAK, what]).output().expect("it starts");
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let (bytes, states) = text.trim().split_once(' ').expect("two numbers");
    (bytes.parse().expect("a number"), states.parse().expect("a number"))
}

/// The bytes by which the memory of this process grows at the peak of `work`.
fn growth(work: impl FnOnce()) -> u64 {
    let before = memory::kib("VmRSS:");
    work();
    (memory::kib("VmHWM:") - before) * 1024
}
