//! The search, level by level: every state within so many steps before any that takes more.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use conclave_protocol::Property;

use crate::graph::Edges;
use crate::space::Space;
use crate::symmetry::Group;
use crate::table::Table;
use crate::worker::SystemShape;
use crate::{Limits, Stop};

mod log;
mod queue;
mod seeker;

pub(crate) use log::{Log, Reached};
use queue::{ROOM, Share, header};
use seeker::{Seeker, Shared};

/// How far a search has come; read by progress displays, and used to stop the search.
#[derive(Debug, Default)]
pub struct Progress {
    /// States visited.
    pub states: AtomicU64,
    /// Transitions followed.
    pub transitions: AtomicU64,
    /// Steps from the beginning.
    pub depth: AtomicU64,
    /// States to be expanded at this depth.
    pub queued: AtomicU64,
    /// Set it to stop the search.
    pub stop: AtomicBool,
}

impl Progress {
    /// A search begins anew.
    pub(crate) fn restart(&self) {
        for count in [&self.states, &self.transitions, &self.depth, &self.queued] {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// What a search is to do.
pub(crate) struct Plan<'a> {
    pub(crate) shape: &'a SystemShape,
    pub(crate) limits: Limits,
    /// Whether edges are kept.
    pub(crate) graph: bool,
    /// How nodes may be renamed, if states that differ in names only are one.
    pub(crate) group: Option<&'a Group>,
    /// Whether to go on when every property of states has been violated.
    pub(crate) exhaustive: bool,
}

impl Plan<'_> {
    /// Whether the nodes may not be renamed after all.
    fn is_in_vain(&self) -> bool {
        self.group.is_some_and(Group::fails)
    }
}

/// What a search has found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) states: u64,
    pub(crate) transitions: u64,
    /// Steps to the state that is furthest from the beginning.
    pub(crate) depth: u32,
    /// The first state found that violates each property.
    pub(crate) violations: Vec<(Property, u32)>,
    pub(crate) log: Log,
    pub(crate) edges: Edges,
    pub(crate) stop: Option<Stop>,
    /// The most bytes that were in use.
    pub(crate) bytes: usize,
    /// States without a step that is no fault.
    pub(crate) terminal: u64,
}

/// A level of fewer states is not worth the time that it takes to wake other threads.
const FEW: usize = 256;

/// Visits every state that can be reached from `start`.
pub(crate) fn search(
    space: &Mutex<Space>,
    start: &[u32],
    plan: &Plan<'_>,
    progress: &Progress,
) -> Found {
    let threads = plan.limits.threads.max(1);
    let mut table = Table::new(plan.graph || plan.shape.compare);
    let seeker = |index| Seeker::new(index, threads, space, plan);
    let mut seekers: Vec<Seeker<'_>> = (0..threads).map(seeker).collect();
    seekers[0].begin(start, &table, plan);
    let mut found = Found::default();
    let mut level: Vec<Vec<u32>> = vec![Vec::new(); threads];
    let visited = AtomicUsize::new(1);
    let mut violations: Vec<(Property, u32)> = Vec::new();
    let stride = header(plan.shape.compare) + plan.shape.slots();
    loop {
        // A level is complete.
        for seeker in &mut seekers {
            for (property, state) in seeker.violations.drain(..) {
                if !violations.iter().any(|(known, _)| *known == property) {
                    violations.push((property, state));
                }
            }
        }
        let all = violations.len() == plan.shape.safety.len() + plan.shape.liveness.len();
        if all && !violations.is_empty() && !plan.exhaustive {
            break;
        }
        // The lists of the level before are used again, pages and all.
        for (seeker, list) in seekers.iter_mut().zip(&mut level) {
            std::mem::swap(&mut seeker.next, list);
            seeker.next.clear();
        }
        let queued: usize = level.iter().map(|it| it.len() / stride).sum();
        if queued == 0 {
            break;
        }
        if plan.limits.depth.is_some_and(|depth| found.depth >= depth) {
            found.stop = Some(Stop::Depth);
            break;
        }
        progress.depth.store(u64::from(found.depth), Ordering::Relaxed);
        progress.queued.store(queued as u64, Ordering::Relaxed);
        let shares: Vec<Share<'_>> = level.iter().map(|list| Share::new(list, stride)).collect();
        while shares.iter().any(|share| !share.is_taken()) {
            let left = table.room().saturating_sub(visited.load(Ordering::Relaxed));
            // As if all had as much as the one with the most, which is how they see it.
            let most = seekers.iter().map(Seeker::bytes).max().unwrap_or(0);
            let waiting = most * threads;
            let here = level.iter().map(|it| it.len() * 4).sum::<usize>() + waiting;
            found.bytes = found.bytes.max(table.bytes() + here);
            found.stop = if progress.stop.load(Ordering::Relaxed) || plan.is_in_vain() {
                Some(Stop::Asked)
            } else if here + table.bytes() > plan.limits.memory {
                Some(Stop::Memory)
            } else if plan
                .limits
                .states
                .is_some_and(|most| visited.load(Ordering::Relaxed) as u64 >= most)
            {
                Some(Stop::States)
            } else {
                None
            };
            if found.stop.is_none() && left < ROOM * threads {
                if here + table.bytes_grown() > plan.limits.memory {
                    found.stop = Some(Stop::Memory);
                } else {
                    table.grow(threads);
                    continue;
                }
            }
            if found.stop.is_some() {
                break;
            }
            let shared = Shared {
                table: &table,
                shares: &shares,
                visited: &visited,
                used: table.bytes() + here - waiting,
                stride,
                plan,
                progress,
            };
            let (first, others) = seekers.split_first_mut().expect("there is a thread");
            if queued < FEW || others.is_empty() {
                first.seek(&shared);
                continue;
            }
            #[expect(clippy::disallowed_methods, reason = "more than one thread was asked for")]
            std::thread::scope(|scope| {
                for seeker in others {
                    scope.spawn(|| seeker.seek(&shared));
                }
                first.seek(&shared);
            });
        }
        if found.stop.is_some() {
            break;
        }
        if seekers.iter().any(|seeker| !seeker.next.is_empty()) {
            found.depth += 1;
        }
    }
    found.states = visited.load(Ordering::Relaxed) as u64;
    found.violations = violations;
    for seeker in seekers {
        found.transitions += seeker.transitions;
        found.terminal += seeker.terminal;
        found.log.threads.push(seeker.log);
        found.edges.absorb(seeker.edges);
    }
    found
}
