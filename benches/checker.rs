//! How fast and how small the search for states is, as ratios to Stateright in the same run.
//!
//! The system is Ricart–Agrawala by the conventions of the reference model, four nodes that ask
//! once each, its whole graph: 1,402,298 states and 7,398,198 transitions.
//!
//! `cargo bench -p conclave-bench --bench checker`

use std::process::Command;

use conclave_oracle::arrays::Arrays;
use conclave_oracle::packed::Packed;
use conclave_oracle::{Search, actors, explore};

const ROUNDS: usize = 3;
const STATES: usize = 1_402_298;
const TRANSITIONS: usize = 7_398_198;
/// The argument with which this program starts itself to measure the memory of one engine alone.
const PEAK: &str = "--peak";

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == PEAK) {
        let engine = Engine::ALL.into_iter().find(|engine| engine.name() == args[at + 1]);
        println!("{}", growth(|| engine.expect("one of ours").run()));
        return;
    }

    println!("Ricart–Agrawala, 4 nodes, 1 request each, whole graph: {STATES} states,");
    println!("{TRANSITIONS} transitions; one thread, best of {ROUNDS} alternating rounds\n");
    let mut rates = [0.0_f64; Engine::ALL.len()];
    for _ in 0..ROUNDS {
        for (engine, rate) in Engine::ALL.iter().zip(&mut rates) {
            *rate = rate.max(TRANSITIONS as f64 / seconds(|| engine.run()));
        }
    }
    for (engine, rate) in Engine::ALL.iter().zip(rates) {
        println!(
            "  {:<28} {:6.2} M transitions per CPU-second, {:4} bytes per state",
            engine.name(),
            rate / 1e6,
            peak(engine.name()) / STATES as u64
        );
    }
}

/// Something that explores the graph.
#[derive(Clone, Copy)]
enum Engine {
    Actors(Search),
    Arrays(Search),
    Packed(Search),
}

impl Engine {
    const ALL: [Self; 6] = [
        Self::Actors(Search::Depth),
        Self::Actors(Search::Breadth),
        Self::Arrays(Search::Depth),
        Self::Arrays(Search::Breadth),
        Self::Packed(Search::Depth),
        Self::Packed(Search::Breadth),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Actors(Search::Depth) => "Stateright actors, DFS",
            Self::Actors(Search::Breadth) => "Stateright actors, BFS",
            Self::Arrays(Search::Depth) => "Stateright arrays, DFS",
            Self::Arrays(Search::Breadth) => "Stateright arrays, BFS",
            Self::Packed(Search::Depth) => "Stateright packed, DFS",
            Self::Packed(Search::Breadth) => "Stateright packed, BFS",
        }
    }

    /// Explores the whole graph on one thread.
    fn run(self) {
        let counts = match self {
            Self::Actors(search) => explore(actors::model(4, 1), search, 1),
            Self::Arrays(search) => explore(Arrays::new(4, 1), search, 1),
            Self::Packed(search) => explore(Packed::new(4, 1), search, 1),
        };
        assert_eq!((counts.distinct, counts.generated), (STATES, TRANSITIONS + 1));
    }
}

/// CPU time of all threads of this program, so that other programs on the machine do not count.
fn seconds(work: impl FnOnce()) -> f64 {
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

/// The bytes by which the memory of an engine grows at its peak, in a process of its own.
fn peak(engine: &str) -> u64 {
    let program = std::env::current_exe().expect("Linux tells");
    let output = Command::new(program).args([PEAK, engine]).output().expect("it starts");
    assert!(output.status.success(), "{engine}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number of bytes")
}

/// The bytes by which the memory of this process grows at the peak of `work`.
fn growth(work: impl FnOnce()) -> u64 {
    let kib = |name: &str| {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
        let line = status.lines().find(|line| line.starts_with(name)).expect("it is there");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number")
    };
    let before = kib("VmRSS:");
    work();
    (kib("VmHWM:") - before) * 1024
}
