//! One thread's view of the space: what it has learnt of the parts and steps, without locks, and
//! the moves out of a state.

use std::sync::Mutex;

use rustc_hash::FxHashMap;

use crate::Timers;
pub(crate) use crate::shape::SystemShape;
use crate::space::{Kind, LocalEvent, Space};

mod candidate;
mod judge;
mod learn;
mod rare;

pub(crate) use judge::{Labelled, Step, is_due};

pub(crate) use candidate::{
    ALONE, COMPARED, Candidate, FAIR, Move, NO_STEP, REST, TELLS, TOUCHES, WHOLE, bit, fingerprint,
    spread,
};
use learn::{GlobalMeta, LinkMeta, LocalMeta, Opinion, Own, StepMeta, Steps, pair};

/// What is computed at most once for a pair of numbers.
type Memo<V> = FxHashMap<u64, V>;

pub(crate) struct Worker<'a> {
    pub(crate) space: &'a Mutex<Space>,
    pub(crate) shape: &'a SystemShape,
    locals: Vec<LocalMeta>,
    opinions: Vec<Opinion>,
    /// What the family remembers, by the numbers of nodes and of what is at no node.
    words: Vec<Vec<u64>>,
    histories: Vec<Vec<u64>>,
    owns: Vec<Own>,
    links: Vec<LinkMeta>,
    heads: Vec<(u32, u32)>,
    globals: Vec<GlobalMeta>,
    /// By the number that the space gives them.
    steps: Vec<StepMeta>,
    sends: Vec<(u16, u32)>,
    delivered: Memo<Steps>,
    appended: Memo<u32>,
    noted: Memo<u32>,
    /// By the codes of two events and the local state.
    commuting: FxHashMap<(u64, u64, u32), bool>,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) changes: Vec<(u16, u32)>,
    /// Events of the state that was expanded last: what they are, for those numbered below 63.
    pub(crate) local_events: [Option<LocalEvent>; COMPARED],
    /// Those of them that change what is at no node.
    pub(crate) touching: u64,
    /// The events of each node.
    pub(crate) at_node: Vec<u64>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(space: &'a Mutex<Space>, shape: &'a SystemShape) -> Self {
        let mut worker = Self {
            space,
            shape,
            locals: Vec::new(),
            opinions: Vec::new(),
            words: Vec::new(),
            histories: Vec::new(),
            owns: Vec::new(),
            links: vec![LinkMeta { known: true, heads: 0, first_head: 0 }],
            heads: Vec::new(),
            globals: Vec::new(),
            steps: Vec::new(),
            sends: Vec::new(),
            delivered: Memo::default(),
            appended: Memo::default(),
            noted: Memo::default(),
            commuting: FxHashMap::default(),
            candidates: Vec::new(),
            changes: Vec::new(),
            local_events: [None; COMPARED],
            touching: 0,
            at_node: vec![0; shape.n],
        };
        for (link, &(_, to)) in shape.links.iter().enumerate() {
            worker.at_node[usize::from(to)] |= bit(link as u16);
        }
        worker
    }

    /// The bytes that its memory of steps takes, about.
    pub(crate) fn bytes(&self) -> usize {
        (self.delivered.capacity() + self.appended.capacity() + self.noted.capacity()) * 20
            + self.locals.capacity() * (size_of::<LocalMeta>() + size_of::<Opinion>())
            + self.steps.capacity() * size_of::<StepMeta>()
            + self.links.capacity() * size_of::<LinkMeta>()
            + self.commuting.capacity() * 28
    }

    /// Collects the ways out of `state` among the candidates, but for the events in `asleep`; with
    /// [`REST`], nothing but compared events.
    /// Returns how many there are that are no faults.
    pub(crate) fn expand(&mut self, state: &[u32], print: u64, source: u32, asleep: u64) -> usize {
        let shape = self.shape;
        let before = self.candidates.len();
        let global = self.global(state[shape.global_slot()]);
        self.touching = 0;
        let mut sleeping = 0;
        for node in 0..shape.n {
            let local = self.local(state[node]);
            for own in local.first_own..local.first_own + u32::from(local.own) {
                let Own { kind, event, steps, .. } = self.owns[own as usize];
                let timer = kind == Kind::Timer;
                if timer && (shape.timers == Timers::Quiet || global.no_timers) {
                    continue;
                }
                if self.is_asleep(event, steps, timer, asleep) {
                    sleeping += 1;
                    continue;
                }
                let mut maker = Maker::new(state, print, source, node, steps.event, Some(event));
                maker.mv = Move::Own { node: node as u8 };
                maker.flags = if kind == Kind::Ask { 0 } else { FAIR };
                maker.timer = timer;
                self.make(&maker, steps);
            }
        }
        let mut on_their_way = false;
        for link in 0..shape.links.len() {
            let content = state[shape.n + link];
            if content == 0 {
                continue;
            }
            on_their_way = true;
            let (from, to) = shape.links[link];
            let local = state[usize::from(to)];
            let lost = shape.faulty
                && (!self.local(local).up
                    || shape.apart(usize::from(from), usize::from(to), global.apart));
            let heads = self.link(content);
            for head in heads.first_head..heads.first_head + u32::from(heads.heads) {
                let (envelope, rest) = self.heads[head as usize];
                let event = LocalEvent::arrival(from, envelope);
                if lost {
                    if asleep & REST != 0 {
                        continue;
                    }
                    let mut maker =
                        Maker::new(state, print, source, usize::from(to), link as u16, Some(event));
                    maker.mv = Move::Vanish { link: link as u8, envelope };
                    maker.flags = FAIR | ALONE;
                    maker.rest = Some((shape.n + link, rest));
                    self.make_quiet(&maker, Quiet::default());
                    continue;
                }
                let steps = self.deliver(local, from, envelope, link);
                if self.is_asleep(event, steps, false, asleep) {
                    sleeping += 1;
                    continue;
                }
                let mut maker =
                    Maker::new(state, print, source, usize::from(to), steps.event, Some(event));
                maker.mv = Move::Deliver { link: link as u8, envelope };
                maker.flags = FAIR;
                maker.rest = Some((shape.n + link, rest));
                self.make(&maker, steps);
            }
        }
        if asleep & REST != 0 {
            return self.candidates.len() - before + sleeping;
        }
        let mut told = false;
        if shape.faulty && shape.detector {
            told = self.detect(state, print, source, !on_their_way);
        }
        if shape.timers == Timers::Quiet && !on_their_way && !told && !global.no_timers {
            self.wait(state, print, source);
        }
        if global.apart != 0 {
            self.heal(state, print, source);
        }
        let progress = self.candidates.len() - before + sleeping;
        if global.faults {
            self.faults(state, print, source);
        }
        progress
    }

    /// How many ways out of `state` there are that are no faults.
    pub(crate) fn moves(&mut self, state: &[u32]) -> usize {
        self.candidates.clear();
        self.changes.clear();
        self.expand(state, fingerprint(state), 0, 0)
    }

    /// The state that a candidate leads to from `source`.
    pub(crate) fn led_to(&self, at: usize, source: &[u32]) -> Vec<u32> {
        let candidate = &self.candidates[at];
        let first = candidate.first_change as usize;
        let mut state = source.to_vec();
        for &(slot, new) in &self.changes[first..first + usize::from(candidate.changes)] {
            state[usize::from(slot)] = new;
        }
        state
    }

    /// Notes an event of the present state; returns whether it is asleep.
    #[inline]
    fn is_asleep(&mut self, event: LocalEvent, steps: Steps, timer: bool, asleep: u64) -> bool {
        if !self.shape.compare {
            return false;
        }
        if usize::from(steps.event) >= COMPARED {
            return asleep & REST != 0;
        }
        let bit = 1 << steps.event;
        self.local_events[usize::from(steps.event)] = Some(event);
        let own = steps.first..steps.first + u32::from(steps.count);
        if timer || own.into_iter().any(|step| self.steps[step as usize].touches) {
            self.touching |= bit;
        }
        asleep & bit != 0
    }

    /// A candidate for each step that may come of it.
    #[inline(always)]
    fn make(&mut self, maker: &Maker<'_>, steps: Steps) {
        for step in steps.first..steps.first + u32::from(steps.count) {
            self.make_step(maker, step, WHOLE);
            if self.shape.mid_step {
                self.cut(maker, step);
            }
        }
    }

    /// A candidate for a step.
    #[inline(always)]
    fn make_step(&mut self, maker: &Maker<'_>, step: u32, cut: u8) {
        let meta = self.steps[step as usize];
        let first_change = self.changes.len();
        let mut print = maker.print;
        let mut flags = maker.flags;
        if let Some((slot, rest)) = maker.rest {
            self.change(&mut print, slot, maker.state[slot], rest);
        }
        let old = maker.state[maker.node];
        let sends = if cut == WHOLE { meta.sends } else { cut };
        let local =
            if cut == WHOLE { meta.local } else { self.crash_after(step, cut, maker.state) };
        if local != old {
            self.change(&mut print, maker.node, old, local);
        }
        let careful = self.shape.faulty;
        for send in meta.first_send..meta.first_send + u32::from(sends) {
            let (slot, envelope) = self.sends[send as usize];
            let slot = usize::from(slot);
            if careful && self.is_in_vain(maker.state, slot) {
                continue;
            }
            let mut content = maker.state[slot];
            if meta.twice {
                let earlier = self.changes[first_change..].iter().rev();
                let changed = earlier.into_iter().find(|(it, _)| usize::from(*it) == slot);
                content = changed.map_or(content, |(_, now)| *now);
            }
            let appended = self.append(content, envelope);
            self.change(&mut print, slot, content, appended);
        }
        if meta.tells {
            flags |= TELLS;
        }
        if meta.touches || maker.timer || cut != WHOLE {
            self.touch(maker, step, cut, &mut print, &mut flags);
        }
        self.candidates.push(Candidate {
            print: print.max(1),
            local_event: maker.local_event,
            mv: maker.mv,
            step,
            first_change: first_change as u32,
            source: maker.source,
            event: maker.event,
            changes: (self.changes.len() - first_change) as u8,
            node: maker.node as u8,
            cut,
            flags,
        });
    }

    #[inline]
    fn change(&mut self, print: &mut u64, slot: usize, old: u32, new: u32) {
        *print ^= spread(slot, old) ^ spread(slot, new);
        self.changes.push((slot as u16, new));
    }
}

/// What the candidates of one event have in common.
#[derive(Clone, Debug)]
struct Maker<'s> {
    state: &'s [u32],
    print: u64,
    source: u32,
    node: usize,
    event: u16,
    local_event: Option<LocalEvent>,
    mv: Move,
    flags: u8,
    timer: bool,
    /// A link, and what is left of it.
    rest: Option<(usize, u32)>,
}

/// What changes by a move that is no step of a node.
#[derive(Clone, Debug, Default)]
struct Quiet {
    global: Option<u32>,
    local: Option<u32>,
    more: Vec<(usize, u32)>,
}

impl<'s> Maker<'s> {
    #[inline]
    fn new(
        state: &'s [u32],
        print: u64,
        source: u32,
        node: usize,
        event: u16,
        local_event: Option<LocalEvent>,
    ) -> Self {
        Self {
            state,
            print,
            source,
            node,
            event,
            local_event,
            mv: Move::Heal,
            flags: 0,
            timer: false,
            rest: None,
        }
    }
}
