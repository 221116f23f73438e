//! The search, level by level: every state within so many steps before any that takes more.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use conclave_protocol::Property;

use crate::count::PENDING_SHIFT;
use crate::graph::{Edge, Edges};
use crate::space::Space;
use crate::symmetry::{Canon, Group};
use crate::table::Table;
use crate::worker::{
    ALONE, Candidate, FAIR, REST, Shape, TELLS, TOUCHES, Worker, bit, fingerprint,
};
use crate::{Limits, Stop};

/// How far a search has come; for whoever watches it, and for stopping it.
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
    pub(crate) shape: &'a Shape,
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

/// Where each state was first reached from, and half its fingerprint.
///
/// A state's number tells which thread found it: that is its remainder by the number of threads.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) threads: Vec<Vec<Reached>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    pub(crate) parent: u32,
    pub(crate) print: u32,
}

impl Log {
    fn get(&self, state: u32) -> Reached {
        let threads = self.threads.len();
        self.threads[state as usize % threads][state as usize / threads]
    }

    /// The halves of the fingerprints along the way from the beginning to `state`.
    pub(crate) fn path(&self, mut state: u32) -> Vec<u32> {
        let mut path = Vec::new();
        while state != 0 {
            let reached = self.get(state);
            path.push(reached.print);
            state = reached.parent;
        }
        path.reverse();
        path
    }

    /// A number above those of all states.
    pub(crate) fn end(&self) -> usize {
        let threads = self.threads.len();
        let last = |(t, it): (usize, &Vec<Reached>)| match it.len() {
            0 => 0,
            len => (len - 1) * threads + t + 1,
        };
        self.threads.iter().enumerate().map(last).max().unwrap_or(0)
    }
}

/// States are handed to threads in portions of so many.
const PORTION: usize = 32;
/// How many states a portion may lead to, at the least that is made room for.
const ROOM: usize = PORTION * 128;

/// A state that waits to be expanded. Before its parts stand its number, its fingerprint, and if
/// orders are compared, the events that sleep in it and those that alone are to be explored.
struct Queued<'q> {
    entry: &'q [u32],
    header: usize,
}

/// How long the header is with sleep sets and without.
fn header(compare: bool) -> usize {
    if compare { 7 } else { 3 }
}

impl Queued<'_> {
    fn state(&self) -> &[u32] {
        &self.entry[self.header..]
    }

    fn number(&self) -> u32 {
        self.entry[0]
    }

    fn wide(&self, at: usize) -> u64 {
        match self.entry[..self.header].get(at..at + 2) {
            Some(words) => u64::from(words[0]) | u64::from(words[1]) << 32,
            None => 0,
        }
    }

    fn print(&self) -> u64 {
        self.wide(1)
    }

    fn asleep(&self) -> u64 {
        self.wide(3)
    }

    fn only(&self) -> u64 {
        self.wide(5)
    }
}

/// The entry of a portion that a candidate comes from.
fn queued<'q>(portion: &'q [u32], place: u32, shared: &Shared<'_>) -> Queued<'q> {
    let first = place as usize * shared.stride;
    let entry = &portion[first..first + shared.stride];
    Queued { entry, header: header(shared.plan.shape.compare) }
}

/// One thread's part of the search. Each has cache lines of its own: what one writes all the time
/// must not lie beside what another does.
#[repr(align(128))]
struct Seeker<'a> {
    worker: Worker<'a>,
    index: usize,
    threads: usize,
    log: Vec<Reached>,
    next: Vec<u32>,
    edges: Edges,
    /// States that this thread was the first to visit.
    states: usize,
    transitions: u64,
    terminal: u64,
    violations: Vec<(Property, u32)>,
    /// The sleep sets of the candidates.
    sleeps: Vec<u64>,
    /// Finds the states that stand for others.
    canon: Option<Canon>,
    /// Fingerprints of states visited a short while ago, each where its lower bits say.
    recent: Vec<u64>,
}

/// How many fingerprints are remembered as recent.
const RECENT: usize = 1 << 16;

/// Visits every state that can be reached from `start`.
pub(crate) fn search(
    space: &Mutex<Space>,
    start: &[u32],
    plan: &Plan<'_>,
    progress: &Progress,
) -> Found {
    let threads = plan.limits.threads.max(1);
    let mut table = Table::new(plan.graph || plan.shape.compare);
    let seeker = |index| Seeker {
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
    };
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
            match &mut seekers[..] {
                [alone] => alone.seek(&shared),
                several => std::thread::scope(|scope| {
                    for seeker in several {
                        scope.spawn(|| seeker.seek(&shared));
                    }
                }),
            }
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

/// What one thread has found in the level before, handed out in portions.
struct Share<'a> {
    list: &'a [u32],
    portion: usize,
    taken: AtomicUsize,
}

impl<'a> Share<'a> {
    fn new(list: &'a [u32], stride: usize) -> Self {
        Self { list, portion: stride * PORTION, taken: AtomicUsize::new(0) }
    }

    fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.list.len()
    }

    fn take(&self) -> Option<&'a [u32]> {
        if self.is_taken() {
            return None;
        }
        let from = self.taken.fetch_add(self.portion, Ordering::Relaxed);
        let rest = self.list.get(from..).filter(|rest| !rest.is_empty())?;
        Some(&rest[..rest.len().min(self.portion)])
    }
}

/// What the threads of a level share.
struct Shared<'a> {
    table: &'a Table,
    shares: &'a [Share<'a>],
    visited: &'a AtomicUsize,
    /// The bytes that are in use, but for what the threads have.
    used: usize,
    stride: usize,
    plan: &'a Plan<'a>,
    progress: &'a Progress,
}

impl Seeker<'_> {
    fn bytes(&self) -> usize {
        self.next.len() * 4
            + self.log.len() * size_of::<Reached>()
            + self.edges.bytes()
            + self.worker.bytes()
            + self.canon.as_ref().map_or(0, Canon::bytes)
    }

    /// Visits the first state.
    fn begin(&mut self, start: &[u32], table: &Table, plan: &Plan<'_>) {
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
    fn seek(&mut self, shared: &Shared<'_>) {
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
            let queued = Queued { entry, header: header(compare) };
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
                let source = queued(portion, self.worker.candidates[at].source, shared);
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
            let source = queued(portion, candidate.source, shared);
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
        let source = queued(portion, candidate.source, shared);
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
                    let happening = worker.happenings[other as usize];
                    if !worker.commute(state[node], candidate.happening, happening) {
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
            self.blame(self.worker.shape.safety[place], number);
        }
    }

    /// Nothing has to happen any more; and if it is the `end`, nothing but faults can.
    fn rest(&mut self, state: &[u32], number: u32, end: bool) {
        self.terminal += u64::from(end);
        for place in 0..self.worker.shape.liveness.len() {
            let property = self.worker.shape.liveness[place];
            if self.worker.is_due(property, end) && !self.worker.at_rest(property, state) {
                self.blame(property, number);
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
            let property = self.worker.shape.liveness[place];
            let rest = u64::from(self.worker.at_rest(property, state));
            label |= rest << (32 + place);
        }
        label |= u64::from(self.worker.pending(state)) << PENDING_SHIFT;
        label
    }
}
