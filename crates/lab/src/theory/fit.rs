//! Which case of the theory a run is an example of.

use std::time::Duration;

use conclave_algorithms::quorum::{Construction, Quorums};
use conclave_protocol::{Info, Links, NodeId, Ranks, Setup, Time};
use conclave_sim::{Action, Arrivals, Ask, Delay, RunSpec};

use super::formula::{Number, Params, whole};
use super::{Row, row};
use crate::{askers, places};

/// The row of the theory that a run is an example of, with the values of its parameters.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The row.
    pub row: &'static Row,
    /// The parameters, `T` being one.
    pub params: Params,
    /// What the row's figures are about.
    pub about: About,
}

/// What the figures of a row are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The only request of the run.
    Lone,
    /// The same, on a medium that multicasts in one transmission.
    Transmissions,
    /// The run as a whole, in which everybody asks at once.
    Burst,
    /// The messages of each entry, whatever the load.
    Each,
    /// The mean of the messages per entry, which is no more than this.
    AtMost,
    /// An election.
    Election,
}

/// Rows whose messages per entry are the same under any load, or bound it.
const ANY_LOAD: &[(&str, &str, About)] = &[
    ("mutex/centralized", "idle", About::Each),
    ("mutex/lamport", "idle", About::Each),
    ("mutex/ricart-agrawala", "idle", About::Each),
    ("mutex/lamport-ack-suppression", "idle", About::AtMost),
    ("mutex/ricart-agrawala-token", "non-holder", About::AtMost),
    ("mutex/suzuki-kasami", "non-holder", About::AtMost),
    ("mutex/maekawa-sanders", "contended-bound", About::AtMost),
];

/// The case of the theory that the run is an example of, if there is one.
pub fn fit(info: &Info, spec: &RunSpec) -> Option<Fit> {
    let unit = spec.setup.delay;
    let serial = spec.delays.model == Delay::Serial(unit);
    let unit_delays = spec.delays.model == Delay::Constant(unit);
    let undisturbed = spec.faults.loss == 0 && spec.faults.duplication == 0 && !spec.reliable;
    let followed = spec.decisions.is_some();
    if followed || !undisturbed || !spec.delays.links.is_empty() {
        return None;
    }
    if info.family() == "election" {
        return if unit_delays { election(info, spec) } else { None };
    }
    if !spec.faults.plan.is_empty() {
        return None;
    }
    if let Arrivals::Plan(asks) = &spec.workload.arrivals {
        let hold = &spec.workload.hold;
        let usual = (hold.least == hold.most).then_some(hold.least);
        if let [ask] = asks[..] {
            // A token that never rests is where the row has it only at the beginning.
            let moving = info.model.links == Links::Ring && ask.at > Time::ZERO;
            if (unit_delays || serial) && !moving {
                let stay = ask.hold.or(usual);
                return alone(info, &spec.setup, ask.node, stay, serial);
            }
        } else if unit_delays && let Some(fit) = burst(info, &spec.setup, asks, usual) {
            return Some(fit);
        }
    }
    let always = matches!(&spec.workload.arrivals, Arrivals::Closed { rounds, think, .. }
        if think.most.is_zero() && rounds.is_none_or(|rounds| rounds > 1));
    let params = parameters(info, &spec.setup, None);
    if always && let Some(row) = row(info.id, "saturated") {
        return Some(Fit { row, params, about: About::Each });
    }
    let found = ANY_LOAD.iter().find(|(id, ..)| *id == info.id);
    let &(id, scenario, about) = found?;
    // A coordinator's own requests cost nothing.
    let own = id == "mutex/centralized" && spec.workload.clients().contains(&NodeId(0));
    let row = row(id, scenario)?;
    (!own).then_some(Fit { row, params, about })
}

/// The case in which `requester` asks while nobody else does, and stays inside for so long.
pub fn alone(
    info: &Info,
    setup: &Setup,
    requester: NodeId,
    stay: Option<Duration>,
    serial: bool,
) -> Option<Fit> {
    let mut params = parameters(info, setup, Some(requester));
    params.extend(
        stay.map(|stay| {
            ("E".to_owned(), Number::fraction(stay.as_nanos(), setup.delay.as_nanos()))
        }),
    );
    let of = |id: &str, scenario: &str, about| {
        let row = row(id, scenario)?;
        Some(Fit { row, params: params.clone(), about })
    };
    let here = |scenario: &str| of(info.id, scenario, About::Lone);
    // A replica need not send itself anything.
    let replicas = setup.option("coordinators", setup.n() / 2).unwrap_or(0);
    let replicated = info.options.iter().any(|option| option.name == "coordinators");
    if replicated && requester.0 < replicas {
        return None;
    }
    if serial {
        return here("idle-serial-medium");
    }
    if info.id == "mutex/ricart-agrawala-multicast" {
        return of("mutex/ricart-agrawala", "idle-hardware-multicast", About::Transmissions);
    }
    if requester == holder(setup) {
        // Where the place of the token or of the coordinator matters, this is another case.
        if let Some(fit) = here("holder").or_else(|| here("coordinator-is-requester")) {
            return Some(fit);
        }
        let server = ["mutex/centralized-deny", "mutex/physical-clock-order"];
        let special = here("non-holder").or_else(|| here("first")).or_else(|| here("just-missed"));
        if special.is_some() || server.contains(&info.id) {
            return None;
        }
    }
    if setup.options.get("mode").is_some_and(|mode| mode == "ask-all") {
        return None;
    }
    let scenarios = ["idle", "idle-projective", "idle-ask-m", "non-holder", "first"];
    let scenarios = scenarios.into_iter().chain(["first-entry-of-id-i", "distance-d"]);
    scenarios.filter_map(here).next()
}

/// The case in which all clients ask once, at the very beginning.
fn burst(info: &Info, setup: &Setup, asks: &[Ask], usual: Option<Duration>) -> Option<Fit> {
    let mut who: Vec<u32> = asks.iter().map(|ask| ask.node.0).collect();
    who.sort_unstable();
    let everybody = who.into_iter().eq(askers(info.id, setup).ok()?);
    let alike = asks.iter().all(|ask| ask.at == Time::ZERO && ask.hold.is_none());
    // Who is probed or sent to the queue more than once costs more.
    let probed = info.id == "mutex/ricart-agrawala-queued"
        && setup.options.get("probe").is_none_or(|probe| probe != "0");
    if !everybody || !alike || probed || holder(setup) != NodeId(0) {
        return None;
    }
    let scenario = match (info.model.links, setup.topology.shape()) {
        (Links::Tree, "line") => "burst-chain",
        (Links::Tree, "star") => "burst-star",
        (Links::Tree, _) => return None,
        _ => "burst",
    };
    let row = row(info.id, scenario)?;
    let mut params = parameters(info, setup, None);
    params.insert("M".to_owned(), whole(asks.len() as u64));
    params.extend(
        usual.map(|stay| {
            ("E".to_owned(), Number::fraction(stay.as_nanos(), setup.delay.as_nanos()))
        }),
    );
    Some(Fit { row, params, about: About::Burst })
}

/// The case of an election that some call for at the same moment, nobody having crashed, or nobody
/// but the top node.
fn election(info: &Info, spec: &RunSpec) -> Option<Fit> {
    let (n, top) = (spec.setup.n(), NodeId(spec.setup.n() - 1));
    let Arrivals::Plan(asks) = &spec.workload.arrivals else { return None };
    let first = asks.first()?;
    let together = asks.iter().all(|ask| ask.at == first.at);
    let dead = match &spec.faults.plan[..] {
        [] => false,
        [crash] => crash.action == Action::Crash(top) && crash.at < first.at,
        _ => return None,
    };
    if !together || dead && asks.iter().any(|ask| ask.node == top) {
        return None;
    }
    let calls = asks.len() as u64;
    let mut params = parameters(info, &spec.setup, None);
    let mut set = |name: &str, value: u64| params.insert(name.to_owned(), whole(value));
    let scenario = match (info.id, dead, calls) {
        // With nobody to tell, the last hop is missing.
        ("election/bully", true, 1) if n >= 3 => {
            let above = u64::from(top.0 - first.node.0);
            set("a", above);
            set("b", above - 1);
            let probing = spec.setup.options.get("mode").is_none_or(|mode| mode == "probing");
            if probing { "probing" } else { "known-dead" }
        }
        ("election/ring-list", ..) => {
            set("L", u64::from(n - u32::from(dead)));
            set("I", calls);
            "I-initiators"
        }
        ("election/chang-roberts" | "election/by-attribute", false, 1) => {
            let best = Ranks::new(&spec.setup.attributes).best(spec.setup.topology.nodes())?;
            set("d", u64::from((best.0 + n - first.node.0) % n));
            "single-initiator"
        }
        ("election/chang-roberts", false, calls) if calls == u64::from(n) => {
            let attributes = &spec.setup.attributes;
            match attributes.windows(2).all(|pair| pair[0] < pair[1]) {
                true => "all-start-ascending",
                false if attributes.windows(2).all(|pair| pair[0] > pair[1]) => {
                    "all-start-descending"
                }
                false => return None,
            }
        }
        ("election/wireless-tree", false, 1) => {
            set("n", u64::from(n));
            set("E", spec.setup.topology.links());
            "connected-graph"
        }
        ("election/tree-mattern", false, calls) => {
            set("n", u64::from(n));
            set("k", calls);
            "k-initiators"
        }
        _ => return None,
    };
    let id = if info.id == "election/by-attribute" { "election/chang-roberts" } else { info.id };
    Some(Fit { row: row(id, scenario)?, params, about: About::Election })
}

/// Who has the token at first, or is the coordinator.
fn holder(setup: &Setup) -> NodeId {
    NodeId(setup.option("holder", 0).unwrap_or(0))
}

/// Everything about a system that the formulas of the theory mention.
fn parameters(info: &Info, setup: &Setup, requester: Option<NodeId>) -> Params {
    let n = setup.n();
    let replicas = setup.option("coordinators", n / 2).unwrap_or(n / 2);
    let agree = setup.option("majority", replicas / 2 + 1).unwrap_or(replicas / 2 + 1);
    let mut params = vec![("N", n), ("n", replicas), ("m", agree), ("T", 1)];
    let has = |name| info.options.iter().any(|option| option.name == name);
    if has("units") {
        params.push(("K", places(info, setup)));
    } else if has("quorum") {
        let construction = setup.option("quorum", Construction::Best);
        let quorums = construction.and_then(|construction| Quorums::new(construction, n));
        let voters = |quorums: Quorums| quorums.of(requester.unwrap_or(NodeId(0))).len() as u32;
        params.extend(quorums.ok().map(|quorums| ("K", voters(quorums))));
    }
    if let Some(requester) = requester {
        params.push(("i", requester.0));
        let holder = holder(setup);
        if holder.0 < n && requester.0 < n {
            let distance = match setup.topology.shape() {
                "complete" => 0,
                "ring" => (requester.0 + n - holder.0) % n,
                _ => setup.topology.distances(holder)[requester.index()],
            };
            params.push(("d", distance));
        }
    }
    params.into_iter().map(|(name, value)| (name.to_owned(), whole(value))).collect()
}

impl Fit {
    /// What theory says about a quantity, if it can be worked out.
    pub fn figure(&self, quantity: &str) -> Option<Number> {
        self.row.figure(quantity, &self.params)?.ok()
    }
}
