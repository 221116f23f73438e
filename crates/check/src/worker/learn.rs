//! What a thread has learnt of parts and steps. It asks the space, under a lock, only for what it
//! meets for the first time.

use std::sync::MutexGuard;
use std::time::Duration;

use conclave_protocol::NodeId;

use super::{Worker, bit};
use crate::Timers;
use crate::space::{Kind, LocalEvent, Space, Spontaneous};

/// What a thread has learnt of a local state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LocalMeta {
    pub(super) known: bool,
    pub(super) up: bool,
    pub(super) waiting: bool,
    pub(super) inside: bool,
    pub(super) own: u8,
    pub(super) first_own: u32,
}

/// More of it, for properties and faults.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opinion {
    pub(super) follows: Option<NodeId>,
    pub(super) suspects: u32,
    pub(super) told: u32,
    pub(super) preceded: u64,
    pub(super) request: u64,
    /// How long until its next timer.
    pub(super) soonest: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) kind: Kind,
    pub(super) after: Duration,
    pub(super) event: LocalEvent,
    pub(super) steps: Steps,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) first: u32,
    pub(super) count: u16,
    pub(super) event: u16,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepMeta {
    pub(super) local: u32,
    pub(super) first_send: u32,
    pub(super) sends: u8,
    /// Whether two messages go to one node.
    pub(super) twice: bool,
    pub(super) touches: bool,
    pub(super) tells: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkMeta {
    pub(super) known: bool,
    pub(super) heads: u8,
    pub(super) first_head: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GlobalMeta {
    pub(super) known: bool,
    pub(super) faults: bool,
    pub(super) no_timers: bool,
    pub(super) unfenced: bool,
    pub(super) split: bool,
    pub(super) apart: u32,
    pub(super) pending: u32,
}

impl<'a> Worker<'a> {
    /// Whether the two events of one node may change places.
    pub(crate) fn commute(&mut self, local: u32, a: LocalEvent, b: LocalEvent) -> bool {
        let (code_a, code_b) = (a.code(), b.code());
        if let Some(&known) = self.commuting.get(&(code_a, code_b, local)) {
            return known;
        }
        let commute = self.space.lock().expect("no thread has failed").commute(local, a, b);
        self.commuting.insert((code_a, code_b, local), commute);
        self.commuting.insert((code_b, code_a, local), commute);
        commute
    }

    pub(super) fn lock(&self) -> MutexGuard<'a, Space> {
        self.space.lock().expect("no thread has failed")
    }

    #[inline]
    pub(super) fn local(&mut self, id: u32) -> LocalMeta {
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
            let event = space.add_event(view.node, own.event);
            self.at_node[view.node.index()] |= bit(event);
            // A timer that is not due yet does nothing yet.
            let quiet = own.kind == Kind::Timer && self.shape.timers == Timers::Quiet;
            let (first, count) = match quiet && !own.after.is_zero() {
                true => (0, 0),
                false => space.take(id, own.event),
            };
            if own.kind == Kind::Timer {
                soonest = soonest.into_iter().chain([own.after]).min();
            }
            let steps = Steps { first, count: count as u16, event };
            let Spontaneous { kind, after, event } = own;
            self.owns.push(Own { kind, after, event, steps });
        }
        if self.shape.watch.words.is_some() {
            put(&mut self.words, id, space.nodes.words(id).to_vec());
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
    pub(super) fn learn_steps(&mut self) {
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
            let remembers = watch.words.is_some();
            let keeps = watch.tokens || watch.epochs || watch.owners || remembers;
            self.steps.push(StepMeta {
                local: step.local,
                first_send,
                sends: u8::try_from(sent.len()).expect("a step sends fewer than 256 messages"),
                twice,
                touches: keeps && step.is_seen() || step.pending > 0,
                tells: !step.marks.is_empty() || watch.suspects || remembers || watch.facts,
            });
        }
    }

    #[inline]
    pub(super) fn link(&mut self, id: u32) -> LinkMeta {
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
    pub(super) fn global(&mut self, id: u32) -> GlobalMeta {
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
        if self.shape.watch.words.is_some() {
            put(&mut self.histories, id, global.history);
        }
        put(&mut self.globals, id, meta);
        meta
    }

    #[inline]
    pub(super) fn deliver(&mut self, local: u32, from: u8, envelope: u32, link: usize) -> Steps {
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
        let arrival = LocalEvent::arrival(from, envelope);
        let (first, count) = space.take(local, arrival);
        let event = if space.ordered {
            link as u16
        } else {
            let node = NodeId(u32::from(self.shape.links[link].1));
            let event = space.add_event(node, arrival);
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
    pub(super) fn append(&mut self, link: u32, envelope: u32) -> u32 {
        let key = pair(link, envelope);
        if let Some(&appended) = self.appended.get(&key) {
            return appended;
        }
        let appended = self.lock().append(link, envelope);
        self.appended.insert(key, appended);
        appended
    }
}

#[inline(always)]
pub(super) fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn put<T: Default + Clone>(list: &mut Vec<T>, id: u32, item: T) {
    let id = id as usize;
    if list.len() <= id {
        list.resize(id + 1, T::default());
    }
    list[id] = item;
}
