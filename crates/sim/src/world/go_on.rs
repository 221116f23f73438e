//! Runs that follow decisions and then go on by the calendar.
//!
//! While decisions are followed, the calendar is kept as if there were none: what a decision is about
//! is found there and taken for done. What the calendar has before the time of the last decision, and
//! no decision spoke of, happens at once when the run goes on.

use std::collections::BTreeSet;

use conclave_protocol::{Action, NodeId, Observation, Time};

use super::World;
use crate::environment::{Pending, skewed};
use crate::schedule::Word;
use crate::{Class, Event, Fault, Key, RunSpec};

#[cfg(test)]
mod tests;

impl World {
    /// A decision is made about a request: if it is none of the workload's, there is one more.
    pub(super) fn expect_request(&mut self, id: NodeId, mark: Observation) {
        if mark.is_ask() && self.agenda.remaining(id) == Some(0) {
            self.environment.open = self.environment.open.map(|open| open + 1);
            self.environment.note_served();
        }
    }

    /// Time passes up to a decision. Of the plan, what was due before is taken for done, and so is
    /// what the decision is about.
    pub(super) fn reach(&mut self, at: Time, what: &Action) {
        if !self.schedule().calendar {
            return;
        }
        self.forget_vain_words(at);
        while self.schedule().plan.front().is_some_and(|(due, _)| *due < at) {
            self.pass();
        }
        // It belongs to the step that sent the message.
        if matches!(what, Action::Repeat { .. }) {
            return;
        }
        let gone = match what {
            Action::Deliver { to, .. } => Some(*to).filter(|to| !self.nodes[to.index()].up),
            _ => None,
        };
        let unfinished = self.schedule().unfinished.take();
        self.schedule().unfinished = unfinished.filter(|it| gone.is_some_and(|to| *it == (to, at)));
        let Some(action) = Fault::of(what) else {
            // Faults come first at any moment, so those of this one are over; but a crash loses what
            // waited for a paused node before the next of them.
            if gone.is_none() {
                self.pass_all(at, u32::MAX);
            }
            return;
        };
        let same = |planned: &Fault| match (planned, &action) {
            (Fault::Reset(id), Fault::Crash(it) | Fault::RecoverEmpty(it)) => id == it,
            (planned, action) => planned == action,
        };
        let now: Vec<u32> = {
            let plan = &self.schedule().plan;
            plan.iter().take_while(|(due, _)| *due == at).map(|(_, item)| *item).collect()
        };
        let planned = now.iter().copied().find(|&item| same(&self.plan[item as usize]));
        // What was put off during a pause may come before it.
        let told = self.schedule().words.iter().filter_map(|word| match word.pending {
            Pending::Told(item) if word.at <= at => Some(item),
            _ => None,
        });
        let told: Vec<u32> = told.collect();
        let earlier =
            |item: u32| told.iter().any(|&told| told < item && self.plan[told as usize] == action);
        if let Some(item) = planned.filter(|&item| !earlier(item)) {
            if let (Fault::Reset(_), Fault::Crash(id)) = (&self.plan[item as usize], &action) {
                self.schedule().unfinished = Some((*id, at));
            }
            self.pass_all(at, item);
            return;
        }
        match self.forget_word(what) {
            Some(Pending::Told(item)) => self.pass_all(at, item),
            Some(_) => self.pass_all(at, u32::MAX),
            None => {}
        }
    }

    /// What is planned for this moment is in the past, up to an item.
    fn pass_all(&mut self, at: Time, last: u32) {
        while self.schedule().plan.front().is_some_and(|&(due, item)| due <= at && item <= last) {
            self.pass();
        }
    }

    /// The next item of the plan is in the past: it has been decided about, or came to nothing.
    fn pass(&mut self) {
        let Some((due, item)) = self.schedule().plan.pop_front() else { return };
        let now = std::mem::replace(&mut self.environment.now, due);
        if (item as usize) < self.planned {
            self.environment.close();
        }
        self.environment.now = now;
        let action = &self.plan[item as usize];
        if let Fault::Lose { label } = action {
            self.environment.lose.push(label.clone());
        }
        let number = u64::from(item) + 1;
        if let Some(node) = action.told()
            && let Some(backlog) = &mut self.nodes[node.index()].backlog
        {
            let pending = Pending::Told(item);
            backlog.push((Key::new(due, Class::Fault, NodeId(0), number), pending));
            self.schedule().words.push(Word { at: due, number, node, pending });
        }
    }

    /// Words that came to nothing before this moment, because the node was down or knew better, are
    /// in the calendar no more.
    fn forget_vain_words(&mut self, at: Time) {
        let nodes = &self.nodes;
        let schedule = self.environment.schedule.as_mut().expect("the run follows decisions");
        schedule.words.retain(|word| {
            let node = &nodes[word.node.index()];
            let vain = match word.pending {
                Pending::Suspect(peer) => nodes[peer.index()].up,
                Pending::Restore(peer) => !nodes[peer.index()].up,
                _ => false,
            };
            word.at >= at || node.backlog.is_some() || node.up && !vain
        });
    }

    /// A decision is about a word to a node: that is in the calendar no more.
    fn forget_word(&mut self, what: &Action) -> Option<Pending> {
        let (plan, schedule) = (&self.plan, self.environment.schedule.as_mut());
        let words = &mut schedule.expect("the run follows decisions").words;
        let same = |word: &Word| match (word.pending, what) {
            (Pending::Suspect(it), Action::Suspect { node, peer })
            | (Pending::Restore(it), Action::Trust { node, peer }) => {
                word.node == *node && it == *peer
            }
            (Pending::Told(item), what) => Fault::of(what).as_ref() == Some(&plan[item as usize]),
            _ => false,
        };
        // Those that were put off during a pause come first.
        let key = |word: &Word| (!matches!(word.pending, Pending::Told(_)), word.at, word.number);
        let which = (0..words.len()).filter(|&place| same(&words[place]));
        let place = which.min_by_key(|&place| key(&words[place]))?;
        Some(words.remove(place).pending)
    }

    /// No decision is left: what is in the calendar happens.
    pub(super) fn go_on(&mut self, spec: &RunSpec) {
        // No clock goes back.
        let shown: Vec<(NodeId, Time)> = self.schedule().shown().collect();
        for (node, shown) in shown {
            let skew = self.nodes[node.index()].skew;
            while skewed(self.environment.now, skew) < shown {
                let behind = shown - skewed(self.environment.now, skew);
                self.environment.now = self.environment.now + behind;
            }
        }
        let now = self.environment.now;
        while self.schedule().plan.front().is_some_and(|(due, _)| *due < now) {
            self.pass();
        }
        for copy in std::mem::take(&mut self.schedule().dormant) {
            self.host.repeat(copy.envelope.message);
            self.schedule().wake(copy, now);
        }
        let schedule = self.schedule();
        let arrivals: BTreeSet<u64> = schedule.arrivals().collect();
        let words: BTreeSet<u64> = schedule.words.iter().map(|word| word.number).collect();
        let plan: BTreeSet<u32> = schedule.plan.iter().map(|(_, item)| *item).collect();
        let (nodes, mut lost) = (&mut self.nodes, Vec::new());
        self.environment.sift(spec.delays.typical(), |key, id, pending| {
            let left = match pending {
                Pending::Message(_) => arrivals.contains(&key.number()),
                Pending::Suspect(_) | Pending::Restore(_) | Pending::Told(_) => {
                    words.contains(&key.number())
                }
                Pending::Fault(item) => plan.contains(item),
                // They are known by their numbers when their time comes.
                Pending::Timer | Pending::Ask => true,
            };
            if !left || key.at >= now {
                return Some(key).filter(|_| left);
            }
            let node = &mut nodes[id.index()];
            match (&mut node.backlog, pending) {
                (_, Pending::Fault(_)) => {}
                (Some(backlog), _) => {
                    backlog.push((key, *pending));
                    return None;
                }
                (None, Pending::Message(envelope)) if !node.up => {
                    lost.push((key.sender(), id, *envelope));
                    return None;
                }
                _ => {}
            }
            Some(key.postponed(now))
        });
        self.schedule().stop_following();
        for (from, to, envelope) in lost {
            self.environment.write_arrival(from, to, envelope.serial);
            self.lose(from, to, envelope);
        }
        if let Some((id, _)) = self.schedule().unfinished.take() {
            self.recover(id, false, Event::RecoverEmpty);
        }
        let schedule = self.schedule();
        if schedule.written.is_none() {
            self.environment.schedule = None;
            let environment = &mut self.environment;
            environment.lossy = spec.faults.loss > 0
                || environment.groups.is_some()
                || !environment.lose.is_empty();
        }
    }
}
