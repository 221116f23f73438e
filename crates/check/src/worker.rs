//! One thread's view of the space: what it has learnt of the parts and steps, without locks, and
//! the moves out of a state.

use std::sync::Mutex;
use std::time::Duration;

use conclave_protocol::{NodeId, Property};
use rustc_hash::FxHashMap;

use crate::local::Watch;
use crate::nodes::Word;
use crate::space::{Event, Global, Happening, Kind, Space};
use crate::{CheckSpec, Timers};

/// What the search has to know of the system beside its parts.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) n: usize,
    /// The links, by sender and then receiver; in a state they come after the nodes.
    pub(crate) links: Vec<(u8, u8)>,
    pub(crate) timers: Timers,
    pub(crate) detector: bool,
    pub(crate) mid_step: bool,
    /// Whether nodes may be down, or the network apart.
    pub(crate) faulty: bool,
    pub(crate) watch: Watch,
    pub(crate) places: u32,
    /// Whether orders of events are compared.
    pub(crate) compare: bool,
    /// The properties that are said of states.
    pub(crate) safety: Vec<Property>,
    /// Those said of how runs end.
    pub(crate) liveness: Vec<Property>,
}

impl Shape {
    pub(crate) fn new(spec: &CheckSpec, watch: Watch) -> Self {
        let n = spec.setup.n() as usize;
        let nodes = 0..n as u8;
        let links = nodes.clone().flat_map(|from| nodes.clone().map(move |to| (from, to)));
        let (liveness, safety) =
            spec.properties.iter().partition(|property| crate::spec::is_liveness(**property));
        Self {
            n,
            links: links.filter(|(from, to)| from != to).collect(),
            timers: spec.timers,
            detector: spec.detector,
            mid_step: spec.budgets.mid_step,
            faulty: !spec.budgets.is_spent(),
            watch,
            places: spec.places,
            compare: spec.reduction,
            safety,
            liveness,
        }
    }

    /// How many numbers a state has.
    pub(crate) fn slots(&self) -> usize {
        self.n * self.n + 1
    }

    fn global_slot(&self) -> usize {
        self.n * self.n
    }

    /// The slot of a link.
    pub(crate) fn slot(&self, from: usize, to: usize) -> usize {
        self.n + self.link(from, to)
    }

    pub(crate) fn link(&self, from: usize, to: usize) -> usize {
        from * (self.n - 1) + to - usize::from(to > from)
    }

    /// Whether messages between the two do not get through.
    fn apart(&self, from: usize, to: usize, apart: u32) -> bool {
        (apart >> from ^ apart >> to) & 1 == 1
    }
}

/// A way out of a state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// The fingerprint of the state it leads to.
    pub(crate) print: u64,
    /// What happens, for those who compare orders.
    pub(crate) happening: Happening,
    pub(crate) mv: Move,
    /// The step of the node that moves, if one does.
    pub(crate) step: u32,
    /// The first of the slots that change, among all changes.
    pub(crate) first_change: u32,
    /// The state it leads from, as the caller numbers them.
    pub(crate) source: u32,
    /// The number of the event.
    pub(crate) event: u16,
    pub(crate) changes: u8,
    pub(crate) node: u8,
    /// After so many messages the node crashes.
    pub(crate) cut: u8,
    pub(crate) flags: u8,
}

/// It has to happen, if it may for ever.
pub(crate) const FAIR: u8 = 1;
/// It is not compared with other events.
pub(crate) const ALONE: u8 = 2;
/// It changes what is at no node.
pub(crate) const TOUCHES: u8 = 4;
/// It may change whether a property of states holds.
pub(crate) const TELLS: u8 = 8;
/// The step is carried out in full.
pub(crate) const WHOLE: u8 = u8::MAX;
/// No step.
pub(crate) const NO_STEP: u32 = u32::MAX;

/// What happens next. Nodes and links by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// The application asks, or a timer runs out: the node's own doing.
    Own {
        node: u8,
    },
    /// A message arrives.
    Deliver {
        link: u8,
        envelope: u32,
    },
    /// A message comes to a node that is down, or to a gap in the network.
    Vanish {
        link: u8,
        envelope: u32,
    },
    Lose {
        link: u8,
        envelope: u32,
    },
    Repeat {
        link: u8,
        envelope: u32,
    },
    Crash {
        node: u8,
    },
    Boot {
        node: u8,
    },
    /// A node is told something that is not a message.
    Told {
        node: u8,
    },
    Partition {
        apart: u32,
    },
    Heal,
}

/// What a thread has learnt of a local state.
#[derive(Clone, Copy, Debug, Default)]
struct LocalMeta {
    known: bool,
    up: bool,
    waiting: bool,
    inside: bool,
    own: u8,
    first_own: u32,
}

/// More of it, for properties and faults.
#[derive(Clone, Copy, Debug, Default)]
struct Opinion {
    follows: Option<NodeId>,
    suspects: u32,
    told: u32,
    preceded: u64,
    request: u64,
    /// How long until its next timer.
    soonest: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Own {
    kind: Kind,
    after: Duration,
    happening: Happening,
    steps: Steps,
}

#[derive(Clone, Copy, Debug)]
struct Steps {
    first: u32,
    count: u16,
    event: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct StepMeta {
    local: u32,
    first_send: u32,
    sends: u8,
    /// Whether two messages go to one node.
    twice: bool,
    touches: bool,
    tells: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct LinkMeta {
    known: bool,
    heads: u8,
    first_head: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct GlobalMeta {
    known: bool,
    faults: bool,
    no_timers: bool,
    unfenced: bool,
    split: bool,
    apart: u32,
    pending: u32,
}

/// What is computed at most once for a pair of numbers.
type Memo<V> = FxHashMap<u64, V>;

pub(crate) struct Worker<'a> {
    pub(crate) space: &'a Mutex<Space>,
    pub(crate) shape: &'a Shape,
    locals: Vec<LocalMeta>,
    opinions: Vec<Opinion>,
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
    commuting: FxHashMap<(u32, Happening, Happening), bool>,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) changes: Vec<(u16, u32)>,
    /// Events of the state that was expanded last: what they are, for those numbered below 63.
    pub(crate) happenings: [Happening; COMPARED],
    /// Those of them that change what is at no node.
    pub(crate) touching: u64,
    /// The events of each node.
    pub(crate) at_node: Vec<u64>,
}

/// So many events are compared with each other; the rest never are.
pub(crate) const COMPARED: usize = 63;

/// Stands for all events that are not compared.
pub(crate) const REST: u64 = 1 << COMPARED;

/// The bit of an event among those that are compared.
#[inline]
pub(crate) fn bit(event: u16) -> u64 {
    if usize::from(event) < COMPARED { 1 << event } else { 0 }
}

/// How much a part contributes to the fingerprint: an even spread of all bits.
#[inline(always)]
pub(crate) fn spread(slot: usize, id: u32) -> u64 {
    let mut x = (slot as u64) << 32 | u64::from(id);
    x = (x ^ 0x6a09_e667_f3bc_c908).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 32;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 29
}

/// The fingerprint of a state; never 0.
pub(crate) fn fingerprint(state: &[u32]) -> u64 {
    state.iter().enumerate().fold(0, |print, (slot, &id)| print ^ spread(slot, id))
}

impl<'a> Worker<'a> {
    pub(crate) fn new(space: &'a Mutex<Space>, shape: &'a Shape) -> Self {
        let mut worker = Self {
            space,
            shape,
            locals: Vec::new(),
            opinions: Vec::new(),
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
            happenings: [Happening::Other(0); COMPARED],
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
                let Own { kind, happening, steps, .. } = self.owns[own as usize];
                let timer = kind == Kind::Timer;
                if timer && (shape.timers == Timers::Quiet || global.no_timers) {
                    continue;
                }
                if self.is_asleep(happening, steps, timer, asleep) {
                    sleeping += 1;
                    continue;
                }
                let mut maker = Maker::new(state, print, source, node, steps.event, happening);
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
                let happening = Happening::Deliver { from, envelope };
                if lost {
                    if asleep & REST != 0 {
                        continue;
                    }
                    let mut maker =
                        Maker::new(state, print, source, usize::from(to), link as u16, happening);
                    maker.mv = Move::Vanish { link: link as u8, envelope };
                    maker.flags = FAIR | ALONE;
                    maker.rest = Some((shape.n + link, rest));
                    self.make_quiet(&maker, Quiet::default());
                    continue;
                }
                let steps = self.deliver(local, from, envelope, link);
                if self.is_asleep(happening, steps, false, asleep) {
                    sleeping += 1;
                    continue;
                }
                let mut maker =
                    Maker::new(state, print, source, usize::from(to), steps.event, happening);
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
            told = self.detect(state, print, source);
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

    /// Notes an event of the present state; returns whether it is asleep.
    #[inline]
    fn is_asleep(&mut self, happening: Happening, steps: Steps, timer: bool, asleep: u64) -> bool {
        if !self.shape.compare {
            return false;
        }
        if usize::from(steps.event) >= COMPARED {
            return asleep & REST != 0;
        }
        let bit = 1 << steps.event;
        self.happenings[usize::from(steps.event)] = happening;
        let own = steps.first..steps.first + u32::from(steps.count);
        if timer || own.into_iter().any(|step| self.steps[step as usize].touches) {
            self.touching |= bit;
        }
        asleep & bit != 0
    }

    /// Whether the two events of one node may change places.
    pub(crate) fn commute(&mut self, local: u32, a: Happening, b: Happening) -> bool {
        if let Some(&known) = self.commuting.get(&(local, a, b)) {
            return known;
        }
        let commute = self.space.lock().expect("no thread has failed").commute(local, a, b);
        self.commuting.insert((local, a, b), commute);
        self.commuting.insert((local, b, a), commute);
        commute
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
        let local = if cut == WHOLE { meta.local } else { self.crash(meta.local, maker.state) };
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
            happening: maker.happening,
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

    /// The same, where speed does not matter.
    #[cold]
    fn make_rarely(&mut self, maker: &Maker<'_>, step: u32, cut: u8) {
        self.make_step(maker, step, cut);
    }

    #[inline]
    fn change(&mut self, print: &mut u64, slot: usize, old: u32, new: u32) {
        *print ^= spread(slot, old) ^ spread(slot, new);
        self.changes.push((slot as u16, new));
    }

    /// A candidate without a step of a node: its changes are those of the maker, and any that have
    /// been noted since `first_change`.
    fn make_quiet(&mut self, maker: &Maker<'_>, quiet: Quiet) {
        let first_change = self.changes.len();
        let mut print = maker.print;
        if let Some((slot, rest)) = maker.rest {
            self.change(&mut print, slot, maker.state[slot], rest);
        }
        if let Some(global) = quiet.global {
            let slot = self.shape.global_slot();
            self.change(&mut print, slot, maker.state[slot], global);
        }
        if let Some(local) = quiet.local {
            self.change(&mut print, maker.node, maker.state[maker.node], local);
        }
        for &(slot, new) in &quiet.more {
            self.change(&mut print, slot, maker.state[slot], new);
        }
        self.candidates.push(Candidate {
            print: print.max(1),
            happening: maker.happening,
            mv: maker.mv,
            step: NO_STEP,
            first_change: first_change as u32,
            source: maker.source,
            event: maker.event,
            changes: (self.changes.len() - first_change) as u8,
            node: maker.node as u8,
            cut: WHOLE,
            flags: maker.flags | TELLS,
        });
    }

    /// What a step changes that is at no node: what is kept about the past, and the budgets.
    #[cold]
    fn touch(&mut self, maker: &Maker<'_>, step: u32, cut: u8, print: &mut u64, flags: &mut u8) {
        let slot = self.shape.global_slot();
        let old = maker.state[slot];
        let mut global = old;
        if self.steps[step as usize].touches && cut == WHOLE {
            global = match self.noted.get(&pair(global, step)) {
                Some(&after) => after,
                None => {
                    let after = self.lock().note(global, step);
                    self.noted.insert(pair(global, step), after);
                    after
                }
            };
        }
        if maker.timer || cut != WHOLE {
            global = self.spend(global, |budgets| {
                if maker.timer {
                    budgets.timers = budgets.timers.map(|left| left - 1);
                }
                if cut != WHOLE {
                    budgets.crashes -= 1;
                }
            });
        }
        *flags |= TELLS;
        if global != old {
            *flags |= TOUCHES;
            self.change(print, slot, old, global);
        }
    }

    fn spend(&mut self, global: u32, change: impl FnOnce(&mut crate::Budgets)) -> u32 {
        self.alter(global, |global| change(&mut global.budgets))
    }

    fn alter(&mut self, global: u32, change: impl FnOnce(&mut Global)) -> u32 {
        let mut space = self.lock();
        let mut altered = space.global(global).clone();
        change(&mut altered);
        space.add_global(altered)
    }

    fn lock(&self) -> std::sync::MutexGuard<'a, Space> {
        self.space.lock().expect("no thread has failed")
    }

    /// Whether a message put on this link will never arrive.
    fn is_in_vain(&mut self, state: &[u32], slot: usize) -> bool {
        let (from, to) = self.shape.links[slot - self.shape.n];
        let (from, to) = (usize::from(from), usize::from(to));
        let global_id = state[self.shape.global_slot()];
        let global = self.global(global_id);
        self.shape.apart(from, to, global.apart)
            || !self.local(state[to]).up && !self.comes_back(global_id)
    }

    /// Whether a node that is down may boot again.
    fn comes_back(&self, global: u32) -> bool {
        let budgets = self.lock().global(global).budgets;
        budgets.recoveries > 0 || budgets.amnesias > 0
    }

    fn crash(&mut self, local: u32, state: &[u32]) -> u32 {
        let for_good = !self.comes_back(state[self.shape.global_slot()]);
        self.lock().nodes.crash(local, for_good)
    }

    /// The node crashes in the middle of the step, some of its messages having left.
    #[cold]
    fn cut(&mut self, maker: &Maker<'_>, step: u32) {
        let global = maker.state[self.shape.global_slot()];
        let sends = self.steps[step as usize].sends;
        if self.lock().global(global).budgets.crashes == 0 {
            return;
        }
        let mut maker = maker.clone();
        maker.flags = ALONE;
        for sent in 1..sends {
            self.make_rarely(&maker, step, sent);
        }
    }

    /// The failure detector has something to say. Returns whether it has.
    #[cold]
    fn detect(&mut self, state: &[u32], print: u64, source: u32) -> bool {
        let up = self.up(state);
        let mut says = false;
        for node in (0..self.shape.n).filter(|node| up >> node & 1 == 1) {
            self.local(state[node]);
            let told = self.opinions[state[node] as usize].told;
            for peer in (0..self.shape.n).filter(|&peer| peer != node) {
                let (dead, suspected) = (up >> peer & 1 == 0, told >> peer & 1 == 1);
                if dead == suspected {
                    continue;
                }
                says = true;
                let peer = NodeId(peer as u32);
                let stimulus = if dead { Word::Suspect(peer) } else { Word::Trust(peer) };
                self.tell(state, print, source, node, stimulus, FAIR | ALONE, None);
            }
        }
        says
    }

    /// Something is told to a node, or it boots.
    #[expect(clippy::too_many_arguments, reason = "the rare kinds of moves are told apart here")]
    fn tell(
        &mut self,
        state: &[u32],
        print: u64,
        source: u32,
        node: usize,
        stimulus: Word,
        flags: u8,
        global: Option<u32>,
    ) {
        let boots = matches!(stimulus, Word::Boot { .. });
        let mut space = self.lock();
        let happening = space.nodes.word(stimulus);
        let Happening::Other(number) = happening else { unreachable!("it is no message") };
        let event = space.add_event(NodeId(node as u32), Event::Other(number));
        let (first, count) = space.take(state[node], happening);
        drop(space);
        self.learn_steps();
        let state = match global {
            Some(global) => {
                let mut paid = state.to_vec();
                paid[self.shape.global_slot()] = global;
                paid
            }
            None => state.to_vec(),
        };
        let mut maker = Maker::new(&state, print, source, node, event, happening);
        let slot = self.shape.global_slot();
        maker.mv =
            if boots { Move::Boot { node: node as u8 } } else { Move::Told { node: node as u8 } };
        maker.flags = flags | TELLS;
        for step in first..first + count {
            let before = self.candidates.len();
            self.make_rarely(&maker, step, WHOLE);
            // The budget was spent before the step: that, too, is a change.
            if let Some(global) = global {
                let candidate = &mut self.candidates[before];
                let changed = &self.changes[candidate.first_change as usize..];
                if !changed.iter().any(|(it, _)| usize::from(*it) == slot) {
                    self.changes.push((slot as u16, global));
                    candidate.changes += 1;
                }
            }
        }
    }

    /// Nothing is on its way: time passes, until the next timers run out.
    #[cold]
    fn wait(&mut self, state: &[u32], print: u64, source: u32) {
        for &local in &state[..self.shape.n] {
            self.local(local);
        }
        let soonest = |local: &u32| self.opinions[*local as usize].soonest;
        let Some(span) = state[..self.shape.n].iter().filter_map(soonest).min() else { return };
        let mut later = state.to_vec();
        if !span.is_zero() {
            for local in &mut later[..self.shape.n] {
                *local = self.lock().nodes.later(*local, span);
            }
        }
        let later_print = fingerprint(&later);
        debug_assert_eq!(fingerprint(state).max(1), print);
        for node in 0..self.shape.n {
            let local = self.local(later[node]);
            for own in local.first_own..local.first_own + u32::from(local.own) {
                let Own { kind, happening, steps, after } = self.owns[own as usize];
                if kind != Kind::Timer || !after.is_zero() {
                    continue;
                }
                let mut maker =
                    Maker::new(&later, later_print, source, node, steps.event, happening);
                maker.mv = Move::Own { node: node as u8 };
                maker.flags = FAIR | ALONE;
                maker.timer = true;
                let before = self.candidates.len();
                for step in steps.first..steps.first + u32::from(steps.count) {
                    self.make_rarely(&maker, step, WHOLE);
                    if self.shape.mid_step {
                        self.cut(&maker, step);
                    }
                }
                // Time has passed at the other nodes, too.
                for made in before..self.candidates.len() {
                    self.rebase(made, state, &later);
                }
            }
        }
    }

    /// Turns changes from `later` into changes from `state`.
    fn rebase(&mut self, made: usize, state: &[u32], later: &[u32]) {
        let candidate = self.candidates[made];
        let first = candidate.first_change as usize;
        let own = self.changes[first..first + usize::from(candidate.changes)].to_vec();
        let mut whole = later.to_vec();
        for (slot, new) in own {
            whole[usize::from(slot)] = new;
        }
        let first_change = self.changes.len();
        for (slot, (old, new)) in state.iter().zip(&whole).enumerate() {
            if old != new {
                self.changes.push((slot as u16, *new));
            }
        }
        let candidate = &mut self.candidates[made];
        candidate.first_change = first_change as u32;
        candidate.changes = (self.changes.len() - first_change) as u8;
    }

    #[cold]
    fn heal(&mut self, state: &[u32], print: u64, source: u32) {
        let global = self.alter(state[self.shape.global_slot()], |global| global.apart = 0);
        let event = self.lock().add_event(NodeId(0), Event::Other(u32::MAX));
        let mut maker = Maker::new(state, print, source, 0, event, Happening::Other(u32::MAX));
        maker.mv = Move::Heal;
        maker.flags = FAIR | ALONE;
        self.make_quiet(&maker, Quiet { global: Some(global), ..Quiet::default() });
    }

    /// Whatever the budgets allow.
    #[cold]
    fn faults(&mut self, state: &[u32], print: u64, source: u32) {
        let n = self.shape.n;
        let here = state[self.shape.global_slot()];
        let Global { budgets, apart, .. } = self.lock().global(here).clone();
        let up = self.up(state);
        let no_event = u16::MAX;
        let nothing = Happening::Other(u32::MAX);
        if budgets.crashes > 0 {
            let for_good = budgets.recoveries == 0 && budgets.amnesias == 0;
            for node in (0..n).filter(|node| up >> node & 1 == 1) {
                let mut maker = Maker::new(state, print, source, node, no_event, nothing);
                maker.mv = Move::Crash { node: node as u8 };
                maker.flags = ALONE;
                let mut quiet = Quiet {
                    global: Some(self.spend(here, |budgets| budgets.crashes -= 1)),
                    local: Some(self.lock().nodes.crash(state[node], for_good)),
                    more: Vec::new(),
                };
                if for_good {
                    // What is on its way to it will not arrive.
                    let inbox = (0..n).filter(|&from| from != node);
                    let inbox = inbox.map(|from| self.shape.slot(from, node));
                    quiet.more = inbox.filter(|&it| state[it] != 0).map(|it| (it, 0)).collect();
                }
                self.make_quiet(&maker, quiet);
            }
        }
        for node in (0..n).filter(|node| up >> node & 1 == 0) {
            if budgets.recoveries > 0 {
                let paid = self.spend(here, |budgets| budgets.recoveries -= 1);
                let boot = Word::Boot { remembers: true };
                self.tell_paid(state, source, node, boot, paid);
            }
            if budgets.amnesias > 0 {
                let paid = self.spend(here, |budgets| budgets.amnesias -= 1);
                let boot = Word::Boot { remembers: false };
                self.tell_paid(state, source, node, boot, paid);
            }
        }
        for link in 0..self.shape.links.len() {
            let slot = n + link;
            if state[slot] == 0 || budgets.losses == 0 && budgets.repeats == 0 {
                continue;
            }
            let heads = self.link(state[slot]);
            for head in heads.first_head..heads.first_head + u32::from(heads.heads) {
                let (envelope, rest) = self.heads[head as usize];
                let mut maker = Maker::new(state, print, source, 0, no_event, nothing);
                maker.flags = ALONE;
                if budgets.losses > 0 {
                    maker.mv = Move::Lose { link: link as u8, envelope };
                    maker.rest = Some((slot, rest));
                    let global = Some(self.spend(here, |budgets| budgets.losses -= 1));
                    self.make_quiet(&maker, Quiet { global, ..Quiet::default() });
                }
                if budgets.repeats > 0 {
                    maker.mv = Move::Repeat { link: link as u8, envelope };
                    maker.rest = Some((slot, self.lock().repeat(state[slot], envelope)));
                    let global = Some(self.spend(here, |budgets| budgets.repeats -= 1));
                    self.make_quiet(&maker, Quiet { global, ..Quiet::default() });
                }
            }
        }
        if budgets.partitions > 0 && apart == 0 && n > 1 {
            // Each way to part the nodes into two groups, named by the one without the last node.
            for group in 1..1_u32 << (n - 1) {
                let mut maker = Maker::new(state, print, source, 0, no_event, nothing);
                maker.mv = Move::Partition { apart: group };
                maker.flags = ALONE;
                let global = Some(self.alter(here, |global| {
                    global.budgets.partitions -= 1;
                    global.apart = group;
                }));
                self.make_quiet(&maker, Quiet { global, ..Quiet::default() });
            }
        }
        for node in (0..n).filter(|node| up >> node & 1 == 1) {
            let told = self.opinions[state[node] as usize].told;
            for peer in (0..n).filter(|&peer| peer != node) {
                let name = NodeId(peer as u32);
                if budgets.suspicions > 0 && up >> peer & 1 == 1 && told >> peer & 1 == 0 {
                    let paid = self.spend(here, |budgets| budgets.suspicions -= 1);
                    self.tell_paid(state, source, node, Word::Suspect(name), paid);
                }
                if budgets.joins > 0 && up >> peer & 1 == 1 {
                    let paid = self.spend(here, |budgets| budgets.joins -= 1);
                    self.tell_paid(state, source, node, Word::Join(name), paid);
                }
            }
            if budgets.leaves > 0 {
                let paid = self.spend(here, |budgets| budgets.leaves -= 1);
                self.tell_paid(state, source, node, Word::Leave, paid);
            }
        }
    }

    /// A node is told something, or boots, for which `paid` is what is left of the budgets.
    fn tell_paid(&mut self, state: &[u32], source: u32, node: usize, stimulus: Word, paid: u32) {
        let mut after = state.to_vec();
        after[self.shape.global_slot()] = paid;
        let print = fingerprint(&after);
        self.tell(state, print, source, node, stimulus, ALONE, Some(paid));
    }

    /// The nodes that are up, one bit each.
    pub(crate) fn up(&mut self, state: &[u32]) -> u32 {
        let nodes = 0..self.shape.n;
        nodes.fold(0, |up, node| up | u32::from(self.local(state[node]).up) << node)
    }

    /// The nodes that wait for the critical section and those inside, one bit each.
    pub(crate) fn standing(&mut self, state: &[u32]) -> (u32, u32) {
        let mut standing = (0, 0);
        for node in 0..self.shape.n {
            let local = self.local(state[node]);
            standing.0 |= u32::from(local.waiting) << node;
            standing.1 |= u32::from(local.inside) << node;
        }
        standing
    }

    /// How many messages whoever enters next pays for.
    pub(crate) fn pending(&mut self, state: &[u32]) -> u32 {
        self.global(state[self.shape.global_slot()]).pending
    }

    /// The properties of states that this one violates, as places in the list of them.
    pub(crate) fn broken(&mut self, state: &[u32]) -> u32 {
        let shape = self.shape;
        let mut broken = 0;
        for (place, property) in shape.safety.iter().enumerate() {
            let is = match property {
                Property::Exclusion => {
                    let (_, inside) = self.standing(state);
                    inside.count_ones() > shape.places
                }
                Property::FenceOrder | Property::FcfsTimestamp => {
                    self.global(state[shape.global_slot()]).unfenced
                }
                Property::OneLeaderPerEpoch => self.global(state[shape.global_slot()]).split,
                Property::FcfsHappenedBefore => self.overtaken(state).is_some(),
                Property::Accuracy => {
                    let up = self.up(state);
                    let wrong = |local: &u32| self.opinions[*local as usize].suspects & up != 0;
                    state[..shape.n].iter().any(wrong)
                }
                _ => false,
            };
            broken |= u32::from(is) << place;
        }
        broken
    }

    /// Who waits although its request happened before that of somebody inside.
    pub(crate) fn overtaken(&mut self, state: &[u32]) -> Option<(NodeId, NodeId)> {
        let (waiting, inside) = self.standing(state);
        let nodes = |mask: u32| (0..self.shape.n).filter(move |node| mask >> node & 1 == 1);
        for second in nodes(inside) {
            let preceded = self.opinions[state[second] as usize].preceded;
            for first in nodes(waiting) {
                if preceded & self.opinions[state[first] as usize].request != 0 {
                    return Some((NodeId(first as u32), NodeId(second as u32)));
                }
            }
        }
        None
    }

    /// Whether what is said of a system at rest is true of this state.
    pub(crate) fn at_rest(&mut self, property: Property, state: &[u32]) -> bool {
        let up = self.up(state);
        let n = self.shape.n;
        let apart = self.global(state[self.shape.global_slot()]).apart;
        let live: Vec<usize> = (0..n).filter(|node| up >> node & 1 == 1).collect();
        let opinion = |node: usize| self.opinions[state[node] as usize];
        match property {
            Property::NoDeadlock | Property::NoStarvation => self.standing(state).0 == 0,
            Property::OneLeader => {
                let leads = |node: &&usize| opinion(**node).follows == Some(NodeId(**node as u32));
                let leaders: Vec<usize> = live.iter().filter(leads).copied().collect();
                let together = |a: usize, b: usize| !self.shape.apart(a, b, apart);
                let pairs = leaders.iter().enumerate();
                pairs.into_iter().all(|(i, a)| leaders[i + 1..].iter().all(|b| !together(*a, *b)))
            }
            Property::LeaderKnown => live
                .iter()
                .all(|&node| opinion(node).follows.is_some_and(|leader| up >> leader.0 & 1 == 1)),
            Property::BestLeads => live.iter().all(|&node| {
                let best = live.last().map(|best| NodeId(*best as u32));
                opinion(node).follows.is_none_or(|leader| Some(leader) == best)
            }),
            Property::Completeness => {
                let down = !up & ((1 << n) - 1);
                live.iter().all(|&node| opinion(node).suspects & down == down)
            }
            _ => true,
        }
    }

    #[inline]
    fn local(&mut self, id: u32) -> LocalMeta {
        match self.locals.get(id as usize) {
            Some(&meta) if meta.known => meta,
            _ => self.learn_local(id),
        }
    }

    #[cold]
    fn learn_local(&mut self, id: u32) -> LocalMeta {
        let mut space = self.lock();
        let view = space.nodes.view(id);
        let first_own = self.owns.len() as u32;
        let mut soonest = None;
        for own in space.nodes.spontaneous(id) {
            let Happening::Other(number) = own.happening else { unreachable!("it is no message") };
            let event = space.add_event(view.node, Event::Other(number));
            self.at_node[view.node.index()] |= bit(event);
            // A timer that is not due yet does nothing yet.
            let quiet = own.kind == Kind::Timer && self.shape.timers == Timers::Quiet;
            let (first, count) = match quiet && !own.after.is_zero() {
                true => (0, 0),
                false => space.take(id, own.happening),
            };
            if own.kind == Kind::Timer {
                soonest = soonest.into_iter().chain([own.after]).min();
            }
            let steps = Steps { first, count: count as u16, event };
            let (kind, after, happening) = (own.kind, own.after, own.happening);
            self.owns.push(Own { kind, after, happening, steps });
        }
        drop(space);
        let meta = LocalMeta {
            known: true,
            up: view.up,
            waiting: view.waiting,
            inside: view.inside,
            own: (self.owns.len() as u32 - first_own) as u8,
            first_own,
        };
        put(&mut self.locals, id, meta);
        let opinion = Opinion {
            follows: view.follows,
            suspects: view.suspects,
            told: view.told,
            preceded: view.preceded,
            request: view.request,
            soonest,
        };
        put(&mut self.opinions, id, opinion);
        self.learn_steps();
        meta
    }

    /// Copies the steps that others have computed.
    fn learn_steps(&mut self) {
        let space = self.lock();
        let watch = &self.shape.watch;
        while self.steps.len() < space.steps() {
            let step = space.step(self.steps.len() as u32);
            let node = step.node;
            let first_send = self.sends.len() as u32;
            let slot = |to: NodeId| self.shape.slot(node.index(), to.index()) as u16;
            self.sends.extend(step.sends.iter().map(|(to, envelope)| (slot(*to), *envelope)));
            let sent = &self.sends[first_send as usize..];
            let twice = (1..sent.len()).any(|i| sent[..i].iter().any(|(it, _)| *it == sent[i].0));
            let keeps = watch.tokens || watch.epochs || watch.owners;
            self.steps.push(StepMeta {
                local: step.local,
                first_send,
                sends: u8::try_from(sent.len()).expect("a step sends fewer than 256 messages"),
                twice,
                touches: keeps && !step.marks.is_empty() || step.pending > 0,
                tells: !step.marks.is_empty() || watch.suspects,
            });
        }
    }

    #[inline]
    fn link(&mut self, id: u32) -> LinkMeta {
        match self.links.get(id as usize) {
            Some(&meta) if meta.known => meta,
            _ => self.learn_link(id),
        }
    }

    #[cold]
    fn learn_link(&mut self, id: u32) -> LinkMeta {
        let heads = self.lock().heads(id);
        let first_head = self.heads.len() as u32;
        let count = u8::try_from(heads.len()).expect("fewer than 256 messages on a link");
        self.heads.extend(heads);
        let meta = LinkMeta { known: true, heads: count, first_head };
        put(&mut self.links, id, meta);
        meta
    }

    #[inline]
    fn global(&mut self, id: u32) -> GlobalMeta {
        match self.globals.get(id as usize) {
            Some(&meta) if meta.known => meta,
            _ => self.learn_global(id),
        }
    }

    #[cold]
    fn learn_global(&mut self, id: u32) -> GlobalMeta {
        let global = self.lock().global(id).clone();
        let meta = GlobalMeta {
            known: true,
            faults: !global.budgets.is_spent(),
            no_timers: global.budgets.timers == Some(0),
            unfenced: global.unfenced,
            split: global.split,
            apart: global.apart,
            pending: global.pending,
        };
        put(&mut self.globals, id, meta);
        meta
    }

    #[inline]
    fn deliver(&mut self, local: u32, from: u8, envelope: u32, link: usize) -> Steps {
        debug_assert!(envelope < 1 << 24);
        let key = pair(local, u32::from(from) << 24 | envelope);
        match self.delivered.get(&key) {
            Some(&steps) => steps,
            None => self.learn_delivery(local, from, envelope, link, key),
        }
    }

    #[cold]
    fn learn_delivery(
        &mut self,
        local: u32,
        from: u8,
        envelope: u32,
        link: usize,
        key: u64,
    ) -> Steps {
        let mut space = self.lock();
        assert!(envelope < 1 << 24, "fewer than 2^24 different messages");
        let (first, count) = space.take(local, Happening::Deliver { from, envelope });
        let event = if space.ordered {
            link as u16
        } else {
            let node = NodeId(u32::from(self.shape.links[link].1));
            let event = Event::Message(NodeId(u32::from(from)), envelope);
            let event = space.add_event(node, event);
            self.at_node[node.index()] |= bit(event);
            event
        };
        drop(space);
        self.learn_steps();
        let steps = Steps { first, count: count as u16, event };
        self.delivered.insert(key, steps);
        steps
    }

    #[inline]
    fn append(&mut self, link: u32, envelope: u32) -> u32 {
        let key = pair(link, envelope);
        if let Some(&appended) = self.appended.get(&key) {
            return appended;
        }
        let appended = self.lock().append(link, envelope);
        self.appended.insert(key, appended);
        appended
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
    happening: Happening,
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
        happening: Happening,
    ) -> Self {
        Self {
            state,
            print,
            source,
            node,
            event,
            happening,
            mv: Move::Heal,
            flags: 0,
            timer: false,
            rest: None,
        }
    }
}

#[inline(always)]
fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn put<T: Default + Clone>(list: &mut Vec<T>, id: u32, item: T) {
    let id = id as usize;
    if list.len() <= id {
        list.resize(id + 1, T::default());
    }
    list[id] = item;
}
