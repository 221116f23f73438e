//! A specification in words.

use std::fmt::Write;

use conclave_protocol::{Channels, Family, Info, NodeId, Topology};
use conclave_sim::{Arrivals, Delay, RunSpec, Spread};

use super::number;

/// What a specification says, in one line.
pub fn describe(info: &Info, spec: &RunSpec) -> String {
    let nodes = counted(spec.setup.n() as usize, "node");
    let mut parts = vec![format!("({}), {nodes}, {}", info.id, shape(&spec.setup.topology))];
    match &spec.decisions {
        Some(decisions) => {
            parts.push(format!("follows {}, one each T", counted(decisions.len(), "decision")));
            parts.extend(spec.reliable.then(acknowledged));
            parts.extend(options(spec));
        }
        None => parts.extend(surroundings(info, spec)),
    }
    parts.join("; ")
}

fn acknowledged() -> String {
    "over acknowledged links".to_owned()
}

fn options(spec: &RunSpec) -> impl Iterator<Item = String> {
    spec.setup.options.iter().map(|(name, value)| format!("{name}={value}"))
}

/// What a run depends on that is left to itself.
fn surroundings(info: &Info, spec: &RunSpec) -> Vec<String> {
    let unit = spec.setup.delay;
    let mut parts = vec![format!("{}, T = {unit:?}", delays(spec)), workload(info, spec)];
    if spec.channels != Channels::Fifo {
        parts.push("messages may overtake each other".to_owned());
    }
    parts.extend(spec.reliable.then(acknowledged));
    let share = |millionths: u32| number(f64::from(millionths) / 10_000.0);
    if spec.faults.loss > 0 {
        parts.push(format!("{}% of messages lost", share(spec.faults.loss)));
    }
    if spec.faults.duplication > 0 {
        parts.push(format!("{}% of messages repeated", share(spec.faults.duplication)));
    }
    if spec.faults.skew > 0 {
        parts.push(format!("clocks off by up to {} ppm", spec.faults.skew));
    }
    let rates = [
        (spec.faults.crashes, "crashes"),
        (spec.faults.pauses, "pauses"),
        (spec.faults.suspicions, "wrong suspicions"),
    ];
    for (rate, what) in rates {
        if let Some(rate) = rate {
            parts.push(format!("{what} every {:?} on average", rate.every));
        }
    }
    if !spec.faults.plan.is_empty() {
        parts.push(counted(spec.faults.plan.len(), "planned fault"));
    }
    parts.extend((!spec.setup.attributes.is_empty()).then(|| "with attributes".to_owned()));
    parts.extend(options(spec));
    parts.push(format!("seed {}", spec.seed));
    parts
}

/// How the nodes are linked, in words.
pub(crate) fn shape(topology: &Topology) -> &'static str {
    match topology.shape() {
        "complete" => "each linked with each",
        "ring" => "in a ring",
        "line" => "in a line",
        "star" => "in a star",
        "binary" => "in a binary tree",
        "tree" => "in a tree",
        "grid" => "in a grid",
        "dht" => "on a ring of keys",
        _ => "in a graph",
    }
}

fn delays(spec: &RunSpec) -> String {
    let mut text = match &spec.delays.model {
        Delay::Constant(delay) if *delay == spec.setup.delay => "unit delays".to_owned(),
        Delay::Constant(delay) => format!("delays of {delay:?}"),
        Delay::Uniform(least, most) => format!("delays of {least:?} to {most:?}"),
        Delay::Exponential(mean) => format!("exponential delays of {mean:?} on average"),
        Delay::Settling { mean, bound, at } => format!(
            "exponential delays of {mean:?} on average, and of {bound:?} at most after {at:?}"
        ),
        Delay::Matrix(_) => "delays by link".to_owned(),
        Delay::Serial(each) => format!("a medium that takes {each:?} per message"),
    };
    if !spec.delays.links.is_empty() {
        let _ = write!(text, " with {}", counted(spec.delays.links.len(), "exception"));
    }
    text
}

fn workload(info: &Info, spec: &RunSpec) -> String {
    let inside = |hold: Spread| {
        if hold.least == hold.most {
            format!("{:?}", hold.least)
        } else {
            format!("{:?} to {:?}", hold.least, hold.most)
        }
    };
    // A family without a critical section has no stays in it.
    let own = matches!(&spec.workload.arrivals,
        Arrivals::Plan(asks) if !asks.is_empty() && asks.iter().all(|ask| ask.hold.is_some()));
    let hold = match (Family::of(info).inside, own) {
        (true, true) => ", each inside for a time of its own".to_owned(),
        (true, false) => format!(", inside for {}", inside(spec.workload.hold)),
        (false, _) => String::new(),
    };
    let often = |rounds: &Option<u32>| match rounds {
        Some(1) => "once".to_owned(),
        Some(rounds) => format!("{rounds} times"),
        None => "without end".to_owned(),
    };
    match &spec.workload.arrivals {
        Arrivals::Plan(asks) if asks.is_empty() => "no requests".to_owned(),
        Arrivals::Plan(asks) => {
            let mut who: Vec<NodeId> = asks.iter().map(|ask| ask.node).collect();
            who.sort_unstable();
            who.dedup();
            let asks = counted(asks.len(), "request");
            format!("{asks} by {}{hold}", counted(who.len(), "node"))
        }
        Arrivals::Closed { clients, rounds, .. } => {
            let clients = counted(clients.len(), "node");
            format!("{clients} asking {}{hold}", often(rounds))
        }
        Arrivals::Open { clients, rounds, every } => {
            let clients = counted(clients.len(), "node");
            format!("{clients} asking {} every {every:?} or so{hold}", often(rounds))
        }
    }
}

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
