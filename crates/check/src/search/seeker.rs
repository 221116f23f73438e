//! One thread's part of the search: it expands states of a level and collects those of the next.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use conclave_protocol::Property;

use super::queue::{Queued, ROOM, Share, header};
use super::{Plan, Progress, Reached};
use crate::count::PENDING_SHIFT;
use crate::graph::{Edge, Edges};
use crate::space::Space;
use crate::symmetry::Canon;
use crate::table::Table;
use crate::worker::{
    ALONE, Candidate, FAIR, REST, TELLS, TOUCHES, Worker, bit, fingerprint, is_due,
};

/// One thread's part of the search. Each has cache lines of its own: what one writes all the time
/// must not lie beside what another does.
#[repr(align(128))]
pub(super) struct Seeker<'a> {
    worker: Worker<'a>,
    index: usize,
    threads: usize,
    pub(super) log: Vec<Reached>,
    pub(super) next: Vec<u32>,
    pub(super) edges: Edges,
    /// States that this thread was the first to visit.
    pub(super) states: usize,
    pub(super) transitions: u64,
    pub(super) terminal: u64,
    pub(super) violations: Vec<(Property, u32)>,
    /// The sleep sets of the candidates.
    sleeps: Vec<u64>,
    /// Finds the states that stand for others.
    canon: Option<Canon>,
    /// Fingerprints of states visited a short while ago, each where its lower bits say.
    recent: Vec<u64>,
}

/// How many fingerprints are remembered as recent.
const RECENT: usize = 1 << 16;

/// What the threads of a level share.
pub(super) struct Shared<'a> {
    pub(super) table: &'a Table,
    pub(super) shares: &'a [Share<'a>],
    pub(super) visited: &'a AtomicUsize,
    /// The bytes that are in use, but for what the threads have.
    pub(super) used: usize,
    pub(super) stride: usize,
    pub(super) plan: &'a Plan<'a>,
    pub(super) progress: &'a Progress,
}

impl Shared<'_> {
    /// The entry of a portion that a candidate comes from.
    fn queued<'q>(&self, portion: &'q [u32], place: u32) -> Queued<'q> {
        let first = place as usize * self.stride;
        Queued::new(&portion[first..first + self.stride], self.plan.shape.compare)
    }
}

impl<'a> Seeker<'a> {
    /// The `index`-th of so many threads.
    pub(super) fn new(
        index: usize,
        threads: usize,
        space: &'a Mutex<Space>,
        plan: &Plan<'a>,
    ) -> Self {
        Self {
            worker: Worker::new(space, plan.shape),
            index,
            threads,
            log: Vec::new(),
            next: Vec::new(),
            edges: Edges::default(),
            states: 0,
            transitions: 0,
            terminal: 0,
            violations: Vec::new(),
            sleeps: Vec::new(),
            canon: plan.group.map(|group| Canon::new(group, plan.shape)),
            recent: vec![0; RECENT],
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.next.len() * 4
            + self.log.len() * size_of::<Reached>()
            + self.edges.bytes()
            + self.worker.bytes()
            + self.canon.as_ref().map_or(0, Canon::bytes)
    }

    /// Visits the first state.
    pub(super) fn begin(&mut self, start: &[u32], table: &Table, plan: &Plan<'_>) {
        let print = fingerprint(start);
        let (_, place) = table.insert(print);
        if plan.graph || plan.shape.compare {
            table.write(place, 0);
        }
        self.log.push(Reached { parent: 0, print: print as u32 });
        self.enqueue(start, print, 0, 0, 0);
        self.judge(start, 0);
        if plan.graph {
            let label = self.label(start);
            self.edges.label(label);
        }
    }

    /// Expands states of this level until there are none left, or the table has to grow.
    pub(super) fn seek(&mut self, shared: &Shared<'_>) {
        loop {
            let visited = shared.visited.load(Ordering::Relaxed);
            if shared.table.room().saturating_sub(visited) < ROOM * self.threads
                || shared.progress.stop.load(Ordering::Relaxed)
                || shared.plan.is_in_vain()
                || shared.plan.limits.states.is_some_and(|most| visited as u64 >= most)
                || shared.used + self.bytes() * self.threads > shared.plan.limits.memory
            {
                return;
            }
            // First what this thread has found itself, which leads to what it has seen lately.
            let (own, others) = (&shared.shares[self.index..], &shared.shares[..self.index]);
            let portion = own.iter().chain(others).find_map(Share::take);
            let Some(portion) = portion else { return };
            let (before, transitions) = (self.states, self.transitions);
            self.expand(portion, shared);
            let new = self.states - before;
            shared.visited.fetch_add(new, Ordering::Relaxed);
            shared.progress.states.fetch_add(new as u64, Ordering::Relaxed);
            let followed = self.transitions - transitions;
            shared.progress.transitions.fetch_add(followed, Ordering::Relaxed);
        }
    }

    fn expand(&mut self, portion: &[u32], shared: &Shared<'_>) {
        self.worker.candidates.clear();
        self.worker.changes.clear();
        self.sleeps.clear();
        let compare = shared.plan.shape.compare;
        for (place, entry) in portion.chunks_exact(shared.stride).enumerate() {
            let queued = Queued::new(entry, compare);
            let first = self.worker.candidates.len();
            let (sleeping, only) = (queued.asleep(), queued.only());
            let skip = if only == 0 { sleeping } else { !only };
            let progress = self.worker.expand(queued.state(), queued.print(), place as u32, skip);
            let made = &self.worker.candidates[first..];
            let forced = made.iter().any(|candidate| candidate.flags & FAIR != 0);
            if !forced && only == 0 {
                self.rest(queued.state(), queued.number(), progress == 0);
            }
            self.transitions += (self.worker.candidates.len() - first) as u64;
            if compare {
                self.send_to_sleep(queued.state(), sleeping, first);
            }
            if shared.plan.graph {
                self.edges.begin(queued.number(), self.worker.candidates.len() - first);
            }
        }
        if let Some(canon) = &mut self.canon {
            for at in 0..self.worker.candidates.len() {
                let source = shared.queued(portion, self.worker.candidates[at].source);
                canon.fold(&mut self.worker, at, source.state());
            }
        }
        if !shared.plan.graph && !compare {
            self.forget_recent();
        }
        // All reads of the table wait at the same time.
        let mut at_hand = 0;
        for candidate in &self.worker.candidates {
            at_hand |= shared.table.touch(candidate.print);
        }
        std::hint::black_box(at_hand);
        if shared.plan.graph || compare {
            for at in 0..self.worker.candidates.len() {
                self.follow_and_note(at, portion, shared);
            }
            return;
        }
        for at in 0..self.worker.candidates.len() {
            if shared.table.insert(self.worker.candidates[at].print).0 {
                self.arrive(at, portion, 0, shared);
            }
        }
    }

    /// Drops the candidates that lead where others have led a short while ago: a look into a small
    /// memory spares one into a large.
    fn forget_recent(&mut self) {
        let recent = &mut self.recent;
        self.worker.candidates.retain(|candidate| {
            let slot = &mut recent[candidate.print as usize % RECENT];
            std::mem::replace(slot, candidate.print) != candidate.print
        });
    }

    /// Goes where a candidate leads, and notes how: as an edge, or in the sleep set.
    fn follow_and_note(&mut self, at: usize, portion: &[u32], shared: &Shared<'_>) {
        let candidate = self.worker.candidates[at];
        let (new, place) = shared.table.insert(candidate.print);
        if shared.plan.graph {
            let number = self.number();
            if new {
                shared.table.write(place, u64::from(number));
            }
            let target = if new { number } else { shared.table.read(place) as u32 };
            let Candidate { step, event, node, flags, .. } = candidate;
            self.edges.push(Edge { target, step, event, node, flags });
            if new {
                self.arrive(at, portion, 0, shared);
            }
            return;
        }
        let asleep = self.sleeps[at];
        if new {
            shared.table.write(place, asleep);
            self.arrive(at, portion, asleep, shared);
            return;
        }
        // Events that slept whenever the state was reached before, and do not now.
        let before = shared.table.keep(place, asleep);
        let awake = before & !asleep;
        if awake != 0 {
            let source = shared.queued(portion, candidate.source);
            // Another name for the state, by which paths through it are found.
            let number = self.number();
            self.log.push(Reached { parent: source.number(), print: candidate.print as u32 });
            self.push_header(number, candidate.print, before & asleep, awake);
            self.push_state(&source, at);
        }
    }

    /// Visits the state that a candidate leads to, for the first time.
    #[inline]
    fn arrive(&mut self, at: usize, portion: &[u32], asleep: u64, shared: &Shared<'_>) {
        let candidate = &self.worker.candidates[at];
        let (print, tells) = (candidate.print, candidate.flags & TELLS != 0);
        let source = shared.queued(portion, candidate.source);
        let number = self.number();
        self.states += 1;
        self.log.push(Reached { parent: source.number(), print: print as u32 });
        self.push_header(number, print, asleep, 0);
        let from = self.next.len();
        self.push_state(&source, at);
        if tells || shared.plan.graph {
            let state = self.next[from..].to_vec();
            if tells {
                self.judge(&state, number);
            }
            if shared.plan.graph {
                let label = self.label(&state);
                self.edges.label(label);
            }
        }
    }

    fn number(&self) -> u32 {
        u32::try_from(self.log.len() * self.threads + self.index).expect("fewer than 2^32 states")
    }

    fn enqueue(&mut self, state: &[u32], print: u64, number: u32, asleep: u64, only: u64) {
        self.push_header(number, print, asleep, only);
        self.next.extend_from_slice(state);
    }

    fn push_header(&mut self, number: u32, print: u64, asleep: u64, only: u64) {
        let wide = |it: u64| [it as u32, (it >> 32) as u32];
        let [print, asleep, only] = [print, asleep, only].map(wide);
        let whole = [number, print[0], print[1], asleep[0], asleep[1], only[0], only[1]];
        self.next.extend_from_slice(&whole[..header(self.worker.shape.compare)]);
    }

    fn push_state(&mut self, source: &Queued<'_>, at: usize) {
        let candidate = &self.worker.candidates[at];
        let from = self.next.len();
        self.next.extend_from_slice(source.state());
        let first = candidate.first_change as usize;
        for &(slot, new) in &self.worker.changes[first..first + usize::from(candidate.changes)] {
            self.next[from + usize::from(slot)] = new;
        }
    }

    /// Finds the sleep sets of the states that the candidates since `first` lead to: what was
    /// explored here before, or slept here, and comes to the same afterwards.
    fn send_to_sleep(&mut self, state: &[u32], asleep: u64, first: usize) {
        let worker = &mut self.worker;
        let mut explored = 0;
        for at in first..worker.candidates.len() {
            let candidate = worker.candidates[at];
            let own = bit(candidate.event);
            let mut sleeping = 0;
            if candidate.flags & ALONE == 0 {
                sleeping = (asleep | explored) & !own;
                if candidate.flags & TOUCHES != 0 {
                    sleeping &= !worker.touching;
                }
                let node = usize::from(candidate.node);
                let mut here = sleeping & worker.at_node[node];
                while here != 0 {
                    let other = here.trailing_zeros();
                    here &= here - 1;
                    let other_event = worker.local_events[other as usize];
                    let events = candidate.local_event.zip(other_event);
                    let (a, b) = events.expect("events that are compared are events at a node");
                    if !worker.commute(state[node], a, b) {
                        sleeping &= !(1 << other);
                    }
                }
                explored |= own;
            }
            debug_assert_eq!(sleeping & REST, 0);
            self.sleeps.push(sleeping);
        }
    }

    /// Notes the properties of states that this one violates.
    fn judge(&mut self, state: &[u32], number: u32) {
        let mut broken = self.worker.broken(state);
        while broken != 0 {
            let place = broken.trailing_zeros() as usize;
            broken &= broken - 1;
            self.blame(self.worker.shape.safety[place].property, number);
        }
    }

    /// Nothing has to happen any more; and if it is the `end`, nothing but faults can.
    fn rest(&mut self, state: &[u32], number: u32, end: bool) {
        self.terminal += u64::from(end);
        for place in 0..self.worker.shape.liveness.len() {
            let promise = self.worker.shape.liveness[place];
            if is_due(promise, end) && !self.worker.at_rest(promise, state) {
                self.blame(promise.property, number);
            }
        }
    }

    fn blame(&mut self, property: Property, number: u32) {
        if !self.violations.iter().any(|(known, _)| *known == property) {
            self.violations.push((property, number));
        }
    }

    /// What a stored graph has to know of a state: who waits, who is inside, and what is true of
    /// it that is said of a system at rest.
    fn label(&mut self, state: &[u32]) -> u64 {
        let (waiting, inside) = self.worker.standing(state);
        let mut label = u64::from(waiting) | u64::from(inside) << 16;
        for place in 0..self.worker.shape.liveness.len() {
            let promise = self.worker.shape.liveness[place];
            let rest = u64::from(self.worker.at_rest(promise, state));
            label |= rest << (32 + place);
        }
        label |= u64::from(self.worker.pending(state)) << PENDING_SHIFT;
        label
    }
}
