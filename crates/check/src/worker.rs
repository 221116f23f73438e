//! One thread's view of the space: what it has learnt of the parts and steps, without locks, and
//! the moves out of a state.

use std::sync::Mutex;
use std::time::Duration;

use conclave_protocol::NodeId;
use rustc_hash::FxHashMap;

use crate::Timers;
pub(crate) use crate::shape::Shape;
use crate::space::{Event, Happening, Kind, Space};

mod judge;
mod rare;

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

/// The fingerprint of a state.
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

    #[inline]
    fn change(&mut self, print: &mut u64, slot: usize, old: u32, new: u32) {
        *print ^= spread(slot, old) ^ spread(slot, new);
        self.changes.push((slot as u16, new));
    }

    fn lock(&self) -> std::sync::MutexGuard<'a, Space> {
        self.space.lock().expect("no thread has failed")
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
        if space.renamings.is_some() {
            space.test_offer(id);
        }
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
