//! A whole check: the search, what it found, in words and as runs.

use std::sync::Mutex;

use conclave_protocol::{Client, Entry, NodeId, Protocol};

use crate::local::{Local, Rules, Stimulus, Watch};
use crate::search::{Found, Plan, Progress, search};
use crate::space::{Global, Space};
use crate::worker::{Shape, number_links};
use crate::{CheckError, CheckSpec};

/// The space of a check, and the state in which all nodes have booted.
pub(crate) fn begin<P: Protocol, C: Client<P>>(
    entry: &Entry<P>,
    spec: &CheckSpec,
    watch: Watch,
) -> Result<(Space<P, C>, Vec<u32>), CheckError> {
    let config = (entry.config)(&spec.setup)?;
    let topology = spec.setup.topology.clone();
    let (timers, requests) = (spec.timers, spec.requests);
    let shape = Shape::new(spec, watch);
    let rules = Rules { topology: topology.clone(), config, timers, requests, watch };
    let mut space = Space::new(rules, spec);
    number_links(&mut space, &topology);
    let mut start = vec![0; shape.slots()];
    for node in topology.nodes() {
        let asks = if spec.clients.contains(&node.0) { requests } else { 0 };
        let off = space.add_local(node, Local::off(asks));
        let boot = space.add_happening(Stimulus::Boot { remembers: true });
        let (step, ways) = space.take(off, boot);
        if ways > 1 {
            let id = &spec.algorithm;
            let why = format!("{id} makes a choice while it boots, which cannot be checked");
            return Err(CheckError::Contradiction(why));
        }
        let step = space.step(step).clone();
        start[node.index()] = step.local;
        for &(to, envelope) in &step.sends {
            let slot = shape.slot(node.index(), to.index());
            start[slot] = space.append(start[slot], envelope);
        }
    }
    let global = Global {
        budgets: spec.budgets,
        apart: 0,
        high: None,
        unfenced: false,
        leaders: Vec::new(),
        split: false,
        pending: 0,
    };
    start[shape.slots() - 1] = space.add_global(global);
    Ok((space, start))
}

/// Counts.
pub fn count<P: Protocol, C: Client<P>>(
    entry: &Entry<P>,
    spec: &CheckSpec,
    progress: &Progress,
) -> Result<(u64, u64, u32, Vec<(conclave_protocol::Property, usize)>, [usize; 4], usize), CheckError> {
    spec.validate()?;
    let watch = Watch::of(spec);
    let shape = Shape::new(spec, watch);
    let (space, start) = begin::<P, C>(entry, spec, watch)?;
    let space = Mutex::new(space);
    let plan = Plan { shape: &shape, limits: spec.limits, graph: false, exhaustive: true };
    let Found { states, transitions, depth, violations, log, bytes, .. } = search(&space, &start, &plan, progress);
    let violations = violations.into_iter().map(|(p, s)| (p, log.path(s).len())).collect();
    let sizes = space.lock().unwrap().sizes();
    let _ = NodeId(0);
    Ok((states, transitions, depth, violations, sizes, bytes))
}
