//! How fast the simulator is, as ratios to a bare event queue measured in the same run.
//!
//! `cargo bench -p conclave-bench --bench simulator`

mod memory;

use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Duration;

use conclave_algorithms::mutex;
use conclave_algorithms::mutex::ricart_agrawala::{self, RicartAgrawala};
use conclave_algorithms::mutex::token_ring::{self, TokenRing};
use conclave_protocol::{Entry, Hosted, Setup, Topology};
use conclave_sim::{Arrivals, Delay, Rng, RunSpec, Spread, Tracing, Workload, World};

const ROUNDS: usize = 7;
const EVENTS: u64 = 1_000_000;
/// Runs measured as one: the clock of CPU time ticks every few milliseconds.
const REPEAT: u64 = 8;

fn main() {
    println!("Ricart–Agrawala, saturated, uniform delays; best of {ROUNDS} alternating rounds\n");
    let mut figures = Vec::new();
    for n in [16, 100] {
        let (mut bare, mut off, mut traced, mut pending) = (0.0_f64, 0.0_f64, 0.0_f64, 0);
        for _ in 0..ROUNDS {
            let run = saturated(n, EVENTS, Tracing::Off);
            off = off.max(run.rate);
            pending = run.pending;
            traced = traced.max(saturated(n, EVENTS, Tracing::Events).rate);
            bare = bare.max(bare_heap(run.pending, EVENTS * REPEAT));
        }
        println!("n = {n}, {pending} pending");
        println!("  bare BinaryHeap   {:8.2} M events/s", bare / 1e6);
        println!("  no trace          {:8.2} M events/s   ratio {:.2}", off / 1e6, off / bare);
        println!(
            "  full trace        {:8.2} M events/s   ratio {:.2}",
            traced / 1e6,
            traced / bare
        );
        figures.push((off, traced));
    }
    println!(
        "\nn = 100 against n = 16: no trace {:.2}, full trace {:.2}",
        figures[1].0 / figures[0].0,
        figures[1].1 / figures[0].1
    );

    println!("\nToken ring, one full round, no trace");
    let mut per_event = Vec::new();
    for n in [1_000, 1_000_000] {
        let best = (0..3).map(|_| ring(n)).fold(f64::MAX, f64::min);
        println!("  {n:>9} nodes: {:.1} ns per event", best * 1e9);
        per_event.push(best);
    }
    println!(
        "  ratio {:.2}; peak memory of this process {} MiB",
        per_event[1] / per_event[0],
        memory::kib("VmHWM:") / 1024
    );
}

struct Run {
    rate: f64,
    pending: usize,
}

/// CPU time of this thread, so that other programs on the machine do not count.
fn seconds(work: impl FnOnce()) -> f64 {
    let cpu = || {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
        let nanos = stat.split_whitespace().next().and_then(|text| text.parse::<u64>().ok());
        nanos.expect("its first field is the time on the CPU") as f64 / 1e9
    };
    let start = cpu();
    work();
    cpu() - start
}

fn spec<P: conclave_protocol::Protocol>(entry: &Entry<P>, n: u32, topology: Topology) -> RunSpec {
    let mut spec = RunSpec::new(&entry.info, Setup::new(topology));
    spec.delays = Delay::Uniform(Duration::from_micros(500), Duration::from_micros(1_500)).into();
    let zero = Spread::exactly(Duration::ZERO);
    spec.workload = Workload {
        arrivals: Arrivals::Closed { clients: 0..n, rounds: None, first: zero, think: zero },
        hold: zero,
    };
    spec
}

fn saturated(n: u32, events: u64, tracing: Tracing) -> Run {
    let entry = &ricart_agrawala::PLAIN;
    let mut spec = spec(entry, n, Topology::complete(n));
    (spec.events, spec.tracing) = (events, tracing);
    let mut pending = 0;
    let took = seconds(|| {
        for seed in 0..REPEAT {
            spec.seed = seed;
            let config = (entry.config)(&spec.setup).expect("it runs anywhere");
            let host = Hosted::<RicartAgrawala, mutex::Client>::new(config, n);
            let mut world = World::new(Box::new(host), &spec);
            while world.step().is_none() {}
            black_box(world.trace().records.len());
            pending = world.stats().pending;
        }
    });
    Run { rate: (events * REPEAT) as f64 / took, pending }
}

/// Pops the earliest event and pushes another, as often as the simulator would.
fn bare_heap(pending: usize, events: u64) -> f64 {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    struct Item {
        key: std::cmp::Reverse<(u64, u64)>,
        node: u32,
        payload: [u64; 3],
    }
    let mut rng = Rng::new(1);
    let mut heap = BinaryHeap::new();
    let mut seq = 0;
    let mut push = |heap: &mut BinaryHeap<Item>, now: u64, seq: &mut u64| {
        *seq += 1;
        let at = now + 500_000 + rng.below(1_000_001);
        heap.push(Item { key: std::cmp::Reverse((at, *seq)), node: 3, payload: [at, *seq, 7] });
    };
    for _ in 0..pending {
        push(&mut heap, 0, &mut seq);
    }
    let took = seconds(|| {
        for _ in 0..events {
            let item = heap.pop().expect("never empty");
            black_box((item.node, item.payload));
            push(&mut heap, item.key.0.0, &mut seq);
        }
    });
    events as f64 / took
}

/// Seconds per event of one revolution of the token.
fn ring(n: u32) -> f64 {
    let entry = &token_ring::PLAIN;
    let mut spec = spec(entry, n, Topology::ring(n));
    (spec.workload, spec.linger) = (Workload::idle(), None);
    let rounds = (1_000_000 / n).max(1);
    (spec.events, spec.tracing) = (u64::from(n) * u64::from(rounds), Tracing::Off);
    let config = (entry.config)(&spec.setup).expect("it runs anywhere");
    let host = Hosted::<TokenRing, mutex::Client>::new(config, n);
    let mut world = World::new(Box::new(host), &spec);
    seconds(|| while world.step().is_none() {}) / spec.events as f64
}
