//! Runs that follow decisions instead of a calendar.

use std::time::Duration;

use conclave_protocol::{Decision, Host, Mark, NodeId, Outside, Stimulus, Time, Turn, What};

use super::{End, Outcome, World};
use crate::course::{Course, Decided};
use crate::environment::Executor;
use crate::{Action, Event, Owner, SpecError};

#[cfg(test)]
mod tests;

impl World {
    /// Carries out one decision after the other: the first at `T`, the second at `2T`, and so on.
    pub(super) fn follow(
        mut self,
        decisions: &[Decision],
        unit: Duration,
    ) -> Result<Outcome, SpecError> {
        for (number, decision) in (1..).zip(decisions) {
            self.environment.now = Time::ZERO + unit.saturating_mul(number);
            self.carry_out(decision).map_err(|why| SpecError::Senseless {
                number: number as usize,
                what: decision.what.to_string(),
                why,
            })?;
        }
        let end = if self.is_quiet() { End::Quiet } else { End::Decisions };
        Ok(self.over(end))
    }

    /// Carries out a decision, or says why that makes no sense.
    fn carry_out(&mut self, decision: &Decision) -> Result<(), String> {
        let Decision { what, crash_after, .. } = decision;
        if let Some(why) = self.objection(decision) {
            return Err(why);
        }
        self.course().turn(decision);
        match *what {
            What::Ask { node, request } => self.ask(node, request as usize)?,
            What::Deliver { from, to, place } => {
                let it = self.course().link(from, to).remove(place as usize);
                self.arrive(from, to, it);
            }
            What::Lose { from, to, place } => {
                let it = self.course().link(from, to).remove(place as usize);
                self.lose(from, to, it);
            }
            What::Repeat { from, to, place } => {
                let (link, place) = (self.course().link(from, to), place as usize);
                let it = link[place];
                link.insert(place + 1, it);
                self.host.repeat(it.message);
            }
            What::Timer { node, ref timer } => self.ring(node, timer)?,
            ref what => {
                let action = Action::of(what).expect("everything else is done to the system");
                self.happen(action);
            }
        }
        if let Some(why) = self.course().take_objection() {
            return Err(why);
        }
        if let (Some(_), Some(node)) = (crash_after, what.actor()) {
            self.crash(node);
        }
        let pending = self.course().under_way(|_| true)
            + self.nodes.iter().map(|node| node.timers.len()).sum::<usize>();
        let course = self.course();
        course.most = course.most.max(pending);
        self.note_facts();
        Ok(())
    }

    /// The application makes one of the requests that it may make.
    fn ask(&mut self, id: NodeId, request: usize) -> Result<(), String> {
        let Some(mark) = self.host.request(id, request) else {
            let many = (0..).map_while(|place| self.host.request(id, place)).count();
            return Err(match many {
                0 => "its application may make none now".to_owned(),
                many => format!("the last that its application may make is number {}", many - 1),
            });
        };
        self.input(id, Event::Request(mark), Owner::Node(id), Stimulus::Ask(request));
        Ok(())
    }

    /// The timer that prints so runs out.
    fn ring(&mut self, id: NodeId, name: &str) -> Result<(), String> {
        let timers = &mut self.nodes[id.index()].timers;
        let name_of = |&(timer, _): &(_, u64)| format!("{:?}", self.host.timer(id, timer));
        let running: Vec<String> = timers.iter().map(name_of).collect();
        let Some(i) = running.iter().position(|running| running == name) else {
            return Err(match running.as_slice() {
                [] => "no timer runs there".to_owned(),
                running => format!("those that run there are {}", running.join(", ")),
            });
        };
        let (timer, _) = timers.swap_remove(i);
        self.run_out(id, timer);
        Ok(())
    }

    /// Why a decision cannot be carried out, as far as that can be seen beforehand.
    fn objection(&mut self, decision: &Decision) -> Option<String> {
        let Decision { what, crash_after, .. } = decision;
        let last = NodeId(self.topology.len() - 1);
        if what.nodes().into_iter().any(|node| node > last) {
            return Some(format!("there are only nodes p0 to {last}"));
        }
        if crash_after.is_some() && what.actor().is_none() {
            return Some("that is no step in whose middle a node could crash".to_owned());
        }
        match *what {
            What::Deliver { from, to, place }
            | What::Lose { from, to, place }
            | What::Repeat { from, to, place } => {
                let gone = self.is_down(to) || self.environment.apart(from, to);
                match self.course().link(from, to).len() {
                    0 => Some("none is on its way there".to_owned()),
                    many if place as usize >= many => {
                        Some(format!("the last on its way there is number {}", many - 1))
                    }
                    _ if gone && crash_after.is_some() => {
                        Some("it is lost, and nobody crashes getting it".to_owned())
                    }
                    _ => None,
                }
            }
            What::Recover(node) | What::RecoverEmpty(node) => {
                (!self.is_down(node)).then(|| format!("{node} is up"))
            }
            What::Ask { node, .. }
            | What::Timer { node, .. }
            | What::Crash(node)
            | What::Suspect { node, .. }
            | What::Trust { node, .. }
            | What::Join { node, .. }
            | What::Leave(node)
                if self.is_down(node) =>
            {
                Some(format!("{node} is down"))
            }
            What::Suspect { node, peer }
            | What::Trust { node, peer }
            | What::Join { node, sponsor: peer } => {
                (node == peer).then(|| "that takes another node".to_owned())
            }
            What::Heal => self.environment.groups.is_none().then(|| "it is not apart".to_owned()),
            What::Ask { .. }
            | What::Timer { .. }
            | What::Crash(_)
            | What::Leave(_)
            | What::Partition(_) => None,
        }
    }

    fn is_down(&self, id: NodeId) -> bool {
        !self.nodes[id.index()].up
    }

    fn course(&mut self) -> &mut Course {
        self.environment.course.as_mut().expect("the run follows decisions")
    }

    /// Whether nothing is left to happen but new requests and faults.
    fn is_quiet(&mut self) -> bool {
        let leaves = |id| {
            let mut requests = (0..).map_while(|place| self.host.request(id, place));
            requests.any(|mark| mark == Mark::Left)
        };
        let idle = self.nodes.iter().all(|node| node.timers.is_empty());
        let idle = idle && !self.topology.nodes().any(leaves);
        let up: Vec<bool> = self.nodes.iter().map(|node| node.up).collect();
        idle && self.course().under_way(|to| up[to.index()]) == 0
    }

    /// As [`apply`](Self::apply), in a step that was decided about.
    #[cold]
    pub(super) fn apply_decided(
        &mut self,
        id: NodeId,
        cause: u32,
        rule: impl FnOnce(&mut dyn Host, Turn<'_>, &mut dyn Outside) -> bool,
    ) {
        let now = self.course().clock(id);
        let (topology, environment) = (&self.topology, &mut self.environment);
        let local = &mut self.nodes[id.index()];
        let mut decided = Decided(Executor { me: id, cause, topology, environment, local });
        let turn = Turn { node: id, now, topology, settles: true };
        if rule(&mut *self.host, turn, &mut decided) {
            self.course().looked(id);
        }
        if !self.environment.notices.is_empty() {
            self.tell(id);
        }
    }
}
