//! Moves that are rare: faults, words of the failure detector, time that passes.

use conclave_protocol::{Input, NodeId};

use super::{
    ALONE, Candidate, FAIR, Maker, Move, NO_STEP, Own, Quiet, TELLS, TOUCHES, WHOLE, Worker,
    fingerprint, pair,
};
use crate::Timers;
use crate::space::{Global, Kind, LocalEvent};

impl Worker<'_> {
    /// The same, where speed does not matter.
    #[cold]
    pub(super) fn make_rarely(&mut self, maker: &Maker<'_>, step: u32, cut: u8) {
        self.make_step(maker, step, cut);
    }

    /// A candidate without a step of a node: its changes are those of the maker, and any that have
    /// been noted since `first_change`.
    pub(super) fn make_quiet(&mut self, maker: &Maker<'_>, quiet: Quiet) {
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
            local_event: maker.local_event,
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
    pub(super) fn touch(
        &mut self,
        maker: &Maker<'_>,
        step: u32,
        cut: u8,
        print: &mut u64,
        flags: &mut u8,
    ) {
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
        // What leaves the memory of the family as it is may not do so after another step.
        if self.steps[step as usize].touches && self.shape.watch.words.is_some() {
            *flags |= TOUCHES;
        }
        if global != old {
            *flags |= TOUCHES;
            self.change(print, slot, old, global);
        }
    }

    pub(super) fn spend(&mut self, global: u32, change: impl FnOnce(&mut crate::Budgets)) -> u32 {
        self.alter(global, |global| change(&mut global.budgets))
    }

    pub(super) fn alter(&mut self, global: u32, change: impl FnOnce(&mut Global)) -> u32 {
        let mut space = self.lock();
        let mut altered = space.global(global).clone();
        change(&mut altered);
        space.add_global(altered)
    }

    /// Whether a message put on this link will never arrive.
    pub(super) fn is_in_vain(&mut self, state: &[u32], slot: usize) -> bool {
        let (from, to) = self.shape.links[slot - self.shape.n];
        let (from, to) = (usize::from(from), usize::from(to));
        let global_id = state[self.shape.global_slot()];
        let global = self.global(global_id);
        self.shape.apart(from, to, global.apart)
            || !self.local(state[to]).up && !self.comes_back(global_id)
    }

    /// Whether a node that is down may boot again.
    pub(super) fn comes_back(&self, global: u32) -> bool {
        let budgets = self.lock().global(global).budgets;
        budgets.recoveries > 0 || budgets.amnesias > 0
    }

    /// The node when it crashes after so many messages of a step.
    pub(super) fn crash_after(&mut self, step: u32, sent: u8, state: &[u32]) -> u32 {
        let comes_back = self.comes_back(state[self.shape.global_slot()]);
        let mut space = self.lock();
        let local = space.step(step).local;
        match comes_back {
            true => space.step(step).cuts[usize::from(sent) - 1],
            false => space.nodes.crash(local, true),
        }
    }

    /// The node crashes in the middle of the step, some of its messages having left.
    #[cold]
    pub(super) fn cut(&mut self, maker: &Maker<'_>, step: u32) {
        let global = maker.state[self.shape.global_slot()];
        let sends = self.steps[step as usize].sends;
        let immortal = self.shape.mortal >> maker.node & 1 == 0;
        if immortal || self.lock().global(global).budgets.crashes == 0 {
            return;
        }
        let mut maker = maker.clone();
        maker.flags = ALONE;
        for sent in 1..sends {
            self.make_rarely(&maker, step, sent);
        }
    }

    /// The failure detector has something to say. Returns whether it has, now or soon.
    ///
    /// Where time is known, it takes longer to notice a crash or a recovery than messages take:
    /// whatever was on its way has arrived when the detector first speaks of it.
    #[cold]
    pub(super) fn detect(&mut self, state: &[u32], print: u64, source: u32, quiet: bool) -> bool {
        let (n, up) = (self.shape.n, self.up(state));
        let late = self.shape.timers == Timers::Quiet && !quiet;
        let told = |worker: &Self, node: usize| worker.opinions[state[node] as usize].told;
        let mut says = false;
        for node in (0..n).filter(|node| up >> node & 1 == 1) {
            for peer in (0..n).filter(|&peer| peer != node) {
                let dead = up >> peer & 1 == 0;
                if dead == (told(self, node) >> peer & 1 == 1) {
                    continue;
                }
                says = true;
                let mut others = (0..n).filter(|&it| it != peer && up >> it & 1 == 1);
                let known = others.any(|it| (told(self, it) >> peer & 1 == 1) == dead);
                if late && !known {
                    continue;
                }
                let peer = NodeId(peer as u32);
                let word = if dead { Input::Suspect(peer) } else { Input::Restore(peer) };
                let word = LocalEvent::Input(word);
                self.tell(state, print, source, node, word, FAIR | ALONE, None);
            }
        }
        says
    }

    /// Something is told to a node, or it boots.
    #[expect(clippy::too_many_arguments, reason = "the rare kinds of moves are told apart here")]
    pub(super) fn tell(
        &mut self,
        state: &[u32],
        print: u64,
        source: u32,
        node: usize,
        event: LocalEvent,
        flags: u8,
        global: Option<u32>,
    ) {
        let mut space = self.lock();
        let number = space.add_event(NodeId(node as u32), event);
        let (first, count) = space.take(state[node], event);
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
        let mut maker = Maker::new(&state, print, source, node, number, Some(event));
        let slot = self.shape.global_slot();
        maker.mv = Move::Own { node: node as u8 };
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
    pub(super) fn wait(&mut self, state: &[u32], print: u64, source: u32) {
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
                let Own { kind, event, steps, after } = self.owns[own as usize];
                if kind != Kind::Timer || !after.is_zero() {
                    continue;
                }
                let mut maker =
                    Maker::new(&later, later_print, source, node, steps.event, Some(event));
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
    pub(super) fn rebase(&mut self, made: usize, state: &[u32], later: &[u32]) {
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
    pub(super) fn heal(&mut self, state: &[u32], print: u64, source: u32) {
        let global = self.alter(state[self.shape.global_slot()], |global| global.apart = 0);
        let event = self.lock().add_heal();
        let mut maker = Maker::new(state, print, source, 0, event, None);
        maker.mv = Move::Heal;
        maker.flags = FAIR | ALONE;
        self.make_quiet(&maker, Quiet { global: Some(global), ..Quiet::default() });
    }

    /// Whatever the budgets allow.
    #[cold]
    pub(super) fn faults(&mut self, state: &[u32], print: u64, source: u32) {
        let n = self.shape.n;
        let here = state[self.shape.global_slot()];
        let Global { budgets, apart, .. } = self.lock().global(here).clone();
        let up = self.up(state);
        let no_event = u16::MAX;
        if budgets.crashes > 0 {
            let for_good = budgets.recoveries == 0 && budgets.amnesias == 0;
            let mortal = up & self.shape.mortal;
            for node in (0..n).filter(|node| mortal >> node & 1 == 1) {
                let mut maker = Maker::new(state, print, source, node, no_event, None);
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
                let boot = LocalEvent::Boot { remembers: true };
                self.tell_paid(state, source, node, boot, paid);
            }
            if budgets.amnesias > 0 {
                let paid = self.spend(here, |budgets| budgets.amnesias -= 1);
                let boot = LocalEvent::Boot { remembers: false };
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
                let mut maker = Maker::new(state, print, source, 0, no_event, None);
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
                let mut maker = Maker::new(state, print, source, 0, no_event, None);
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
                    self.tell_paid(
                        state,
                        source,
                        node,
                        LocalEvent::Input(Input::Suspect(name)),
                        paid,
                    );
                }
                if budgets.joins > 0 && up >> peer & 1 == 1 {
                    let paid = self.spend(here, |budgets| budgets.joins -= 1);
                    self.tell_paid(state, source, node, LocalEvent::Input(Input::Join(name)), paid);
                }
            }
            if budgets.leaves > 0 {
                let paid = self.spend(here, |budgets| budgets.leaves -= 1);
                self.tell_paid(state, source, node, LocalEvent::Input(Input::Leave), paid);
            }
        }
    }

    /// A node is told something, or boots, for which `paid` is what is left of the budgets.
    pub(super) fn tell_paid(
        &mut self,
        state: &[u32],
        source: u32,
        node: usize,
        event: LocalEvent,
        paid: u32,
    ) {
        let mut after = state.to_vec();
        after[self.shape.global_slot()] = paid;
        let print = fingerprint(&after);
        self.tell(state, print, source, node, event, ALONE, Some(paid));
    }
}
