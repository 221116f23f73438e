//! Elections among very many nodes: time, memory, and what an event costs as systems grow.
//!
//! Every run is a process of its own, so that its memory is its own. `cargo bench -p conclave-bench
//! --bench large`; names after `--` pick runs.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

mod memory;

use std::process::Command;
use std::time::Instant;

use conclave_algorithms::election::{
    self, chang_roberts, ring_list, superpeer_dht, superpeer_tokens, tree_mattern, wireless_tree,
};
use conclave_protocol::{Entry, NodeId, Property, Setup};
use conclave_sim::{
    Arrivals, Ask, JudgeLimits, Outcome, Rng, RunSpec, Superpeers, Tracing, Workload, judge, shape,
};

type Run = (&'static str, &'static str, u32, &'static [(&'static str, &'static str)]);

/// The runs by name: a shape, how many nodes, and what is set.
const RUNS: &[Run] = &[
    ("chang-roberts", "ring", 100_000, &[]),
    ("chang-roberts-all-call", "ring", 100_000, &[]),
    ("ring-list", "complete", 100_000, &[]),
    ("wireless-tree", "geometric", 100_000, &[]),
    ("tree-mattern", "tree", 100_000, &[]),
    ("superpeer-dht", "dht", 1_000_000, &[("prefix", "10")]),
    ("superpeer-dht-groups-of-one", "dht", 1_000_000, &[("prefix", "20")]),
    ("superpeer-tokens", "geometric", 10_000, &[("tokens", "100")]),
    ("superpeer-tokens-corner", "geometric", 10_000, TOKENS_IN_A_CORNER),
    ("superpeer-tokens-3d", "geometric3", 10_000, &[("tokens", "100")]),
    // What an event costs, small and large.
    ("chang-roberts-small", "ring", 1_000, &[]),
    ("chang-roberts-huge", "ring", 1_000_000, &[]),
];
/// It takes a while from there, and a lower threshold gets more into the corner opposite.
const TOKENS_IN_A_CORNER: &[(&str, &str)] =
    &[("tokens", "100"), ("start", "corner"), ("periods", "800"), ("spacing", "160")];

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let first = args.next();
    if first.as_deref() == Some("--one") {
        let name = args.next().expect("which");
        return one(&name);
    }
    let picked: Vec<String> = first.into_iter().chain(args).collect();
    let program = std::env::current_exe().expect("it has a path");
    let begun = Instant::now();
    let mut cost = Vec::new();
    for (name, ..) in RUNS {
        if !picked.is_empty() && !picked.iter().any(|it| name.contains(it.as_str())) {
            continue;
        }
        let output = Command::new(&program).args(["--one", name]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        print!("{text}");
        let nanos = text.split_whitespace().skip_while(|it| *it != "event:").nth(1);
        cost.extend(nanos.and_then(|it| it.parse::<f64>().ok()).map(|nanos| (*name, nanos)));
    }
    println!("all of it: {:.0} s", begun.elapsed().as_secs_f64());
    let of = |wanted| cost.iter().find(|(name, _)| *name == wanted).map(|(_, nanos)| *nanos);
    if let (Some(small), Some(huge)) = (of("chang-roberts-small"), of("chang-roberts-huge")) {
        println!(
            "an event among 1,000 nodes {small:.1} ns, among 1,000,000 {huge:.1} ns: ratio {:.2} (at most 3)",
            huge / small
        );
    }
}

fn one(name: &str) {
    let run = RUNS.iter().find(|(it, ..)| *it == name);
    let &(_, shape_name, n, options) = run.expect("there is such a run");
    let drawn = Instant::now();
    let mut setup = Setup::new(shape(shape_name, n, 1).expect("there is such a shape"));
    for (option, value) in options {
        setup = setup.with(option, value);
    }
    println!("{name}: {n} nodes, {shape_name}, drawn in {:.1} s", drawn.elapsed().as_secs_f64());
    let id =
        name.trim_end_matches("-all-call").trim_end_matches("-small").trim_end_matches("-huge");
    match id {
        "chang-roberts" => {
            // Ids in random order round the ring.
            setup.attributes = (1..=u64::from(n)).collect();
            Rng::new(9).shuffle(&mut setup.attributes);
            election(&chang_roberts::PLAIN, setup, name.ends_with("all-call"), None);
        }
        "ring-list" => election(&ring_list::PLAIN, setup, false, None),
        "wireless-tree" => {
            // 4E − n + 1.
            let theory = 4 * setup.topology.links() + 1 - u64::from(n);
            election(&wireless_tree::PLAIN, setup, false, Some(theory));
        }
        "tree-mattern" => election(&tree_mattern::PLAIN, setup, false, None),
        id if id.starts_with("superpeer-dht") => superpeers(&superpeer_dht::PLAIN, setup),
        _ => superpeers(&superpeer_tokens::PLAIN, setup),
    }
}

/// Elects a leader; so many messages are sent, if theory says how many.
fn election<P: election::Algorithm>(
    entry: &Entry<P>,
    setup: Setup,
    all: bool,
    theory: Option<u64>,
) {
    let n = setup.n();
    let links = if setup.topology.is_complete() { None } else { Some(setup.topology.links()) };
    let mut spec = RunSpec::new(&entry.info, setup);
    let callers = if all { 0..n } else { 0..1 };
    let call = |node| Ask { node: NodeId(node), at: conclave_protocol::Time::ZERO, hold: None };
    let arrivals = Arrivals::Plan(callers.map(call).collect());
    spec.workload = Workload { arrivals, ..Workload::idle() };
    let outcome = run(entry, &mut spec);
    for property in [Property::OneLeader, Property::LeaderKnown, Property::BestLeads] {
        assert!(judge(property, &outcome.trace, JudgeLimits::default()).held(), "{property}");
    }
    let counts = outcome.trace.labels.iter().zip(&outcome.trace.counts);
    let counts: Vec<String> = counts.map(|(name, count)| format!("{name} {count}")).collect();
    let links = links.map_or_else(String::new, |links| format!(" over {links} links"));
    println!("  one leader, the best, known to all; {}{links}", counts.join(", "));
    if let Some(theory) = theory {
        println!("  theory says {theory}, sent {}", outcome.stats.sent);
        assert_eq!(outcome.stats.sent, theory);
    }
}

fn superpeers<P: election::Algorithm>(entry: &Entry<P>, setup: Setup) {
    let n = f64::from(setup.n());
    let wanted = entry.info.several.and_then(|wanted| wanted(&setup)).expect("it says how many");
    let mut spec = RunSpec::new(&entry.info, setup);
    let outcome = run(entry, &mut spec);
    let found = Superpeers::of(&outcome.trace.leaders(), &spec.setup.topology);
    println!("  {} messages a node; not served: {}", outcome.stats.sent as f64 / n, found.unserved);
    for (well, text) in found.judged(wanted) {
        println!("  {} {text}", if well { "✓" } else { "✗" });
    }
}

fn run<P: election::Algorithm>(entry: &Entry<P>, spec: &mut RunSpec) -> Outcome {
    spec.tracing = Tracing::Counts;
    let once = || conclave_sim::run(entry, spec).expect("it makes sense");
    // A short run is no measure.
    let times: u64 = if spec.setup.n() > 1_000 { 1 } else { 1_000 };
    let (begun, busy) = (Instant::now(), processor_time());
    for _ in 1..times {
        once();
    }
    let outcome = once();
    let busy = processor_time() - busy;
    let events = outcome.stats.events;
    println!(
        "  {:.1} s, {events} events, an event: {:.1} ns, memory at most {} MiB, {} pending at most",
        begun.elapsed().as_secs_f64(),
        busy as f64 / (events * times) as f64,
        memory::kib("VmHWM:") / 1024,
        outcome.stats.pending
    );
    outcome
}

/// How long this process has had a processor, in nanoseconds, whatever else goes on.
fn processor_time() -> u64 {
    // Brings the figure up to date.
    std::thread::yield_now();
    let status = std::fs::read_to_string("/proc/self/schedstat").expect("Linux has it");
    status.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).expect("a number")
}
