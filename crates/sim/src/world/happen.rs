//! What is done to a system: crashes, pauses, partitions.

use conclave_protocol::{Action, Input, NodeId, Time};

use super::World;
use crate::environment::Pending;
use crate::schedule::Word;
use crate::{Class, Event, Fault, Owner};

impl World {
    /// Something is done to the system, or said to a node by its operator or failure detector.
    pub(super) fn happen(&mut self, action: Fault) {
        self.environment.lossy |= matches!(action, Fault::Partition(_) | Fault::Lose { .. });
        match action {
            Fault::Crash(id) => self.crash(id),
            Fault::Recover(id) => self.recover(id, true, Event::Recover),
            Fault::RecoverEmpty(id) => self.recover(id, false, Event::RecoverEmpty),
            Fault::Reset(id) => {
                self.crash(id);
                self.recover(id, false, Event::RecoverEmpty);
            }
            Fault::Pause(id) => {
                let node = &mut self.nodes[id.index()];
                if node.up && node.backlog.is_none() {
                    node.backlog = Some(Box::default());
                    self.write(|| Action::Pause(id));
                    self.note(id, Event::Pause);
                }
            }
            Fault::Resume(id) => {
                if let Some(backlog) = self.nodes[id.index()].backlog.take() {
                    self.write(|| Action::Resume(id));
                    self.note(id, Event::Resume);
                    for (key, pending) in *backlog {
                        self.environment.reschedule(key, id, pending);
                    }
                    // What was said meanwhile is heard now.
                    let now = self.environment.now;
                    let words = self.environment.schedule.iter_mut().flat_map(|it| &mut it.words);
                    for word in words.filter(|word| word.node == id) {
                        word.at = word.at.max(now);
                    }
                }
            }
            Fault::Partition(groups) => {
                // A node that is in no group is alone: its number is like no group's.
                let n = self.topology.len();
                let mut of: Vec<u32> = (0..n).map(|node| groups.len() as u32 + node).collect();
                for (group, members) in (0..).zip(&groups) {
                    for member in members {
                        of[member.index()] = group;
                    }
                }
                self.write(|| Action::Partition(groups));
                self.environment.groups = Some(of.clone());
                let event = self.environment.trace.partition(of);
                self.note(NodeId(0), event);
            }
            Fault::Heal => {
                self.write(|| Action::Heal);
                self.environment.groups = None;
                self.note(NodeId(0), Event::Heal);
            }
            Fault::Suspect { node, peer } => {
                self.input(node, Event::Suspect(peer), Owner::Node(node), Input::Suspect(peer));
            }
            Fault::Trust { node, peer } => {
                self.input(node, Event::Restore(peer), Owner::Node(node), Input::Restore(peer));
            }
            Fault::Lose { label } => self.environment.lose.push(label),
            Fault::Join { node, sponsor } => {
                self.input(node, Event::Join(sponsor), Owner::Nobody, Input::Join(sponsor));
            }
            Fault::Leave(node) => {
                self.input(node, Event::Leave, Owner::Nobody, Input::Leave);
            }
        }
    }

    pub(super) fn crash(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if !std::mem::take(&mut node.up) {
            return;
        }
        node.timers.clear();
        node.ask = None;
        let paused = node.backlog.is_some();
        let outstanding = u64::from(std::mem::take(&mut node.outstanding));
        self.write(|| Action::Crash(id));
        if let Some(schedule) = self.environment.schedule.as_mut().filter(|_| paused) {
            let now = self.environment.now;
            schedule.interrupted = Some((id, now));
            // What waited for it is lost; what the detector says at this moment does not wait yet.
            schedule.words.retain(|word| {
                let told = matches!(word.pending, Pending::Told(_));
                word.node != id || word.at >= now && !told
            });
        }
        self.host.crash(id);
        let lost = self.agenda.remaining(id).map(|remaining| remaining + outstanding);
        self.environment.open = self.environment.open.zip(lost).map(|(open, lost)| open - lost);
        self.environment.note_served();
        self.note(id, Event::Crash);
        // It pauses no longer, and what waited for it is lost with it.
        let backlog = self.nodes[id.index()].backlog.take();
        for (key, pending) in backlog.into_iter().flat_map(|backlog| *backlog) {
            if let Pending::Message(envelope) = pending {
                if self.environment.writes() {
                    self.environment.write_arrival(key.sender(), id, envelope.serial);
                }
                self.lose(key.sender(), id, envelope);
            }
        }
        if let Some(delay) = self.environment.detector {
            for peer in self.topology.nodes().filter(|&peer| peer != id) {
                let at = self.environment.now + delay;
                self.announce(at, id, peer, Pending::Suspect(id));
            }
        }
    }

    pub(super) fn recover(&mut self, id: NodeId, remembers: bool, event: Event) {
        if self.nodes[id.index()].up {
            return;
        }
        self.write(|| if remembers { Action::Recover(id) } else { Action::RecoverEmpty(id) });
        let begun = self.environment.trace.records.len();
        self.note(id, event);
        let more = self.agenda.remaining(id);
        self.environment.open = self.environment.open.zip(more).map(|(open, more)| open + more);
        self.environment.note_served();
        self.boot(id, remembers, Some(begun));
        if let Some(delay) = self.environment.detector {
            let at = self.environment.now + delay;
            for peer in self.topology.nodes().filter(|&peer| peer != id) {
                self.announce(at, id, peer, Pending::Restore(id));
                if !self.nodes[peer.index()].up {
                    self.announce(at, peer, id, Pending::Suspect(peer));
                }
            }
        }
    }

    /// The failure detector will say something at a node that `by` is the cause of.
    fn announce(&mut self, at: Time, by: NodeId, node: NodeId, pending: Pending) {
        let number = self.environment.schedule(at, Class::Timer, by, node, pending);
        if let Some(schedule) =
            self.environment.schedule.as_mut().filter(|schedule| schedule.follows)
        {
            schedule.words.push(Word { at, number, node, pending });
        }
    }

    /// In a run that is written down, writes down what happens next.
    fn write(&mut self, what: impl FnOnce() -> Action) {
        if self.environment.writes() {
            self.environment.write(what());
        }
    }
}
