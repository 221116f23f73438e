//! From states found to runs that can be followed.

use conclave_protocol::{
    Action, Decision, Lasting, NodeId, Observation, Promise, Property, Says, Time,
};

use crate::explore::sides;
use crate::space::Space;
use crate::symmetry::Canon;
use crate::worker::{Candidate, Move, NO_STEP, Step, WHOLE, Worker, fingerprint};

/// How a state on a path is recognised among those that its predecessor leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pick {
    /// By half its fingerprint.
    Print(u32),
    /// By its place.
    Place(usize),
}

/// The beginning of all runs.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) state: Vec<u32>,
    /// What the nodes sent while booting: link and message.
    pub(crate) sent: Vec<(usize, u32)>,
}

/// A run found again, step by step.
pub(crate) struct Retraced {
    pub(crate) decisions: Vec<Decision>,
    /// The state it ends in.
    pub(crate) state: Vec<u32>,
    /// What the last step told the application.
    pub(crate) marks: Vec<Observation>,
    /// The node that took the last step.
    pub(crate) node: NodeId,
}

/// Takes the path again and writes down the decisions.
///
/// If it is one of states that stand for others, those of the run are renamings of them.
pub(crate) fn retrace(
    worker: &mut Worker<'_>,
    start: &Start,
    path: &[Pick],
    mut canon: Option<&mut Canon>,
) -> Retraced {
    let mut state = start.state.clone();
    // Messages in the order in which they were sent, which a state need not know.
    let mut links: Vec<Vec<u32>> = vec![Vec::new(); worker.shape.links.len()];
    for &(link, envelope) in &start.sent {
        links[link].push(envelope);
    }
    let (mut decisions, mut marks, mut node) = (Vec::new(), Vec::new(), NodeId(0));
    for pick in path {
        worker.candidates.clear();
        worker.changes.clear();
        worker.expand(&state, fingerprint(&state), 0, 0);
        let at = match *pick {
            Pick::Place(place) => place,
            Pick::Print(print) => {
                let mut all = 0..worker.candidates.len();
                let found = all.find(|&at| {
                    let reached = match &mut canon {
                        Some(canon) => canon.print_of(worker, at, &state),
                        None => worker.candidates[at].print,
                    };
                    reached as u32 == print
                });
                found.expect("a state is reached from its parent")
            }
        };
        let candidate = worker.candidates[at];
        let after = worker.led_to(at, &state);
        let before = std::mem::replace(&mut state, after);
        let space = worker.space.lock().expect("no thread has failed");
        decisions.push(decision(&space, &candidate, &before, &state, &mut links, worker));
        node = NodeId(u32::from(candidate.node));
        marks = match candidate.step {
            NO_STEP => Vec::new(),
            step => space.step(step).marks.to_vec(),
        };
    }
    Retraced { decisions, state, marks, node }
}

/// A way out of a state as a decision. `links` has the messages on their way in the order in which
/// they were sent; they become those of the state after it.
pub(crate) fn decision(
    space: &Space,
    candidate: &Candidate,
    before: &[u32],
    after: &[u32],
    links: &mut [Vec<u32>],
    worker: &Worker<'_>,
) -> Decision {
    let name = |node: u8| NodeId(u32::from(node));
    let shape = worker.shape;
    let ends = |link: u8| {
        let (from, to) = shape.links[usize::from(link)];
        (name(from), name(to))
    };
    let place = |links: &[Vec<u32>], link: u8, envelope: u32| {
        let place = links[usize::from(link)].iter().position(|it| *it == envelope);
        place.expect("the message is on its way") as u32
    };
    let what = match candidate.mv {
        Move::Own { node } => {
            let event = candidate.local_event.expect("it is an event at the node");
            space.nodes.what(before[usize::from(node)], event)
        }
        Move::Deliver { link, envelope } | Move::Vanish { link, envelope } => {
            let place = place(links, link, envelope);
            links[usize::from(link)].remove(place as usize);
            let (from, to) = ends(link);
            Action::Deliver { from, to, place }
        }
        Move::Lose { link, envelope } => {
            let place = place(links, link, envelope);
            links[usize::from(link)].remove(place as usize);
            let (from, to) = ends(link);
            Action::Lose { from, to, place }
        }
        Move::Repeat { link, envelope } => {
            let place = place(links, link, envelope);
            links[usize::from(link)].insert(place as usize, envelope);
            let (from, to) = ends(link);
            Action::Repeat { from, to, place }
        }
        Move::Crash { node } => Action::Crash(name(node)),
        Move::Partition { apart } => Action::Partition(sides(apart, shape.n as u32)),
        Move::Heal => Action::Heal,
    };
    let mut decision = Decision::from(what);
    if candidate.step != NO_STEP {
        let step = space.step(candidate.step);
        decision.choices = step.choices.to_vec();
        decision.clock = space.nodes.view(after[usize::from(candidate.node)]).clock;
        let mut sent = step.sends.len();
        if candidate.cut != WHOLE {
            sent = usize::from(candidate.cut);
            decision.crash_after = Some(u32::from(candidate.cut));
        }
        let apart = space.global(after[shape.slots() - 1]).apart;
        for &(to, envelope) in &step.sends[..sent] {
            let from = usize::from(candidate.node);
            // What is sent across a gap is lost at once.
            if (apart >> from ^ apart >> to.0) & 1 == 0 {
                links[shape.link(from, to.index())].push(envelope);
            }
        }
    }
    debug_assert!(decision.clock == Time::ZERO || shape.watch.clock);
    decision
}

/// What is wrong in the state that a run ends in.
pub(crate) fn explain(worker: &mut Worker<'_>, property: Property, run: &Retraced) -> String {
    let state = &run.state;
    let step = last_step(worker, run);
    match Promise::of(property).says {
        Says::Always(law) | Says::AtRest(law) => {
            let scene = worker.scene(state, step);
            let fault = (law.broken)(&scene).expect("the state violates the property");
            (law.words)(&scene, fault)
        }
        Says::InTheEnd(owed) => {
            let end = worker.moves(state) == 0;
            let lasting = if end { Lasting::ForEver } else { Lasting::UntilAsked };
            let scene = worker.scene(state, step);
            (owed.words)(&(owed.to)(&scene).all(), lasting)
        }
    }
}

/// What the last step of a run told the application, as far as words are about it.
fn last_step(worker: &Worker<'_>, run: &Retraced) -> Step {
    let space = worker.space.lock().expect("no thread has failed");
    let global = space.global(run.state[worker.shape.global_slot()]);
    let mut step = Step::default();
    for mark in &run.marks {
        match *mark {
            Observation::Entered { token } => {
                let token = token.max(step.grant.1);
                step.grant = (run.node, token, global.high.unwrap_or_default());
            }
            Observation::Follows { leader, epoch } => {
                let known = global.leaders.iter().find(|(it, _)| *it == epoch);
                if let Some((_, first)) = known.filter(|(_, first)| *first != leader) {
                    step.rivals = (*first, leader, epoch);
                }
            }
            _ => {}
        }
    }
    step
}
