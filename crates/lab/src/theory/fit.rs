//! Which case of the theory a run is an example of.

use std::time::Duration;

use conclave_algorithms::quorum::{Construction, Quorums};
pub use conclave_protocol::theory::About;
use conclave_protocol::theory::{Ask, Asks, Pace, Run, Seen};
use conclave_protocol::{Info, NodeId, Setup, Time};
use conclave_sim::{Arrivals, Delay, Fault, PlannedFault, RunSpec};

use super::formula::{Number, Params, whole};
use super::{Row, row};
use crate::askers;

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

/// The case of the theory that the run is an example of, if there is one.
pub fn fit(info: &Info, spec: &RunSpec) -> Option<Fit> {
    recognize(info, &run(spec)?)
}

/// The case in which `requester` asks while no other node does, and stays inside for so long.
pub fn alone(info: &Info, setup: &Setup, requester: NodeId, stay: Option<Duration>) -> Option<Fit> {
    let ask = Ask { node: requester, at: Time::ZERO, hold: stay };
    let fit = recognize(info, &Run::new(setup.clone(), Asks::Planned(vec![ask]), None));
    fit.filter(|fit| matches!(fit.about, About::Lone | About::Transmissions))
}

/// A run of the simulator as theory sees it; `None` if chance or faults play a part in it that
/// theory has nothing to say about.
fn run(spec: &RunSpec) -> Option<Run> {
    let unit = spec.setup.delay;
    let undisturbed = spec.faults.loss == 0 && spec.faults.duplication == 0 && !spec.reliable;
    let followed = spec.decisions.is_some();
    if followed || !undisturbed || !spec.delays.links.is_empty() {
        return None;
    }
    let crash = |happening: &PlannedFault| match happening.action {
        Fault::Crash(node) => Some((node, happening.at)),
        _ => None,
    };
    let asks = match &spec.workload.arrivals {
        Arrivals::Plan(asks) => Asks::Planned(asks.clone()),
        Arrivals::Closed { clients, rounds, think, .. } => {
            Asks::Again { clients: clients.clone(), rounds: *rounds, think: think.most }
        }
        Arrivals::Open { clients, .. } => Asks::Open { clients: clients.clone() },
    };
    let hold = &spec.workload.hold;
    Some(Run {
        crashes: spec.faults.plan.iter().map(crash).collect::<Option<_>>()?,
        pace: match spec.delays.model {
            Delay::Constant(delay) if delay == unit => Pace::Unit,
            Delay::Serial(delay) if delay == unit => Pace::Serial,
            _ => Pace::Varying,
        },
        ..Run::new(spec.setup.clone(), asks, (hold.least == hold.most).then_some(hold.least))
    })
}

/// The first of the algorithm's cases that the run is an example of, those about a special load
/// before those about any.
fn recognize(info: &Info, run: &Run) -> Option<Fit> {
    if info.cases.is_empty() {
        return None;
    }
    let clients = askers(info.id, &run.setup).unwrap_or(0..0);
    let seen = Seen { info, run, clients };
    [false, true].into_iter().find_map(|general| {
        let fits =
            info.cases.iter().flat_map(|case| case.fits.iter().map(move |fits| (case, fits)));
        let mut fits = fits.filter(|(_, fits)| fits.is_general() == general);
        fits.find_map(|(case, fits)| {
            let own = (fits.when)(&seen)?;
            let row = row(case.of.unwrap_or(info.id), case.scenario)?;
            let own = own.into_iter().map(|(name, value)| (name.to_owned(), whole(value)));
            let mut params = usual(&seen, fits.about);
            params.extend(own);
            Some(Fit { row, params, about: fits.about })
        })
    })
}

/// What the formulas mention of any run of this kind.
fn usual(seen: &Seen<'_>, about: About) -> Params {
    let Seen { info, run, .. } = seen;
    let asks: &[Ask] = match &run.asks {
        Asks::Planned(asks) => asks,
        Asks::Again { .. } | Asks::Open { .. } => &[],
    };
    let alone = matches!(about, About::Lone | About::Transmissions);
    let only = asks.first().filter(|_| alone);
    let mut params = parameters(info, &run.setup, only.map(|ask| ask.node));
    if alone || about == About::Burst {
        let stay = only.and_then(|ask| ask.hold).or(run.stay);
        let unit = run.setup.delay.as_nanos();
        params.extend(stay.map(|it| ("E".to_owned(), Number::fraction(it.as_nanos(), unit))));
    }
    if about == About::Burst {
        params.insert("M".to_owned(), whole(asks.len() as u64));
    }
    params
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
        params.push(("K", info.places(setup)));
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
