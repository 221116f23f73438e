//! Runs that follow decisions instead of a calendar, and runs that are written down as some.

use conclave_protocol::{
    Action, Decision, Host, Input, NodeId, Observation, Outside, Ran, Time, Turn,
};

use super::{End, Outcome, World};
use crate::environment::Executor;
use crate::schedule::{Decided, Schedule};
use crate::{Event, Fault, Owner, RunSpec, SpecError, Then};

#[cfg(test)]
mod tests;

impl World {
    /// Says how a node boots at the beginning, if the decisions do.
    pub(super) fn decide_boot(&mut self, id: NodeId, decisions: Option<&[Decision]>) {
        let Some(schedule) = &mut self.environment.schedule else { return };
        if !schedule.follows {
            return schedule.write(Action::Boot(id), Time::ZERO);
        }
        let decisions = boots(decisions.unwrap_or_default());
        schedule.turn_boot(id, decisions.iter().find(|it| it.what == Action::Boot(id)));
    }

    /// Carries out one decision after the other, each at its time or one `T` after the one before.
    pub(super) fn follow(
        mut self,
        decisions: &[Decision],
        spec: &RunSpec,
    ) -> Result<(Outcome, Vec<Decision>), SpecError> {
        for (number, decision) in (1..).zip(decisions) {
            self.come_to(number, decision, spec).map_err(|why| SpecError::Senseless {
                number,
                what: decision.what.to_string(),
                why,
            })?;
            if !self.is_unfinished(decision, &decisions[number..]) {
                self.note_facts();
            }
        }
        if spec.then == Then::Continue {
            self.go_on(spec);
            return Ok(self.end());
        }
        let end = if self.is_quiet() { End::Quiet } else { End::Decisions };
        Ok(self.over(end))
    }

    /// Whether the next decision is part of the same step, as steps by the calendar are: a repetition
    /// by chance, the loss of what waited for a paused node that crashes, the boot that follows a
    /// crash at once.
    fn is_unfinished(&mut self, decision: &Decision, rest: &[Decision]) -> bool {
        let now = self.environment.now;
        let rest = rest.iter().take_while(|next| next.at == Some(now)).map(|next| &next.what);
        let crashed = match decision.what {
            Action::Crash(node) => Some(node),
            Action::Deliver { to, .. } if self.is_down(to) => Some(to),
            _ => None,
        };
        let lost =
            |what: &&Action| matches!(what, Action::Deliver { to, .. } if crashed == Some(*to));
        let boots = rest.clone().find(|what| !lost(what));
        let interrupted =
            crashed.is_some_and(|node| self.schedule().interrupted == Some((node, now)));
        match rest.clone().next() {
            Some(Action::Repeat { .. }) => true,
            Some(what) if lost(&what) && interrupted => true,
            _ => matches!(boots, Some(Action::RecoverEmpty(node)) if crashed == Some(*node)),
        }
    }

    /// Carries out a decision when its time has come, or says why that makes no sense.
    fn come_to(
        &mut self,
        number: usize,
        decision: &Decision,
        spec: &RunSpec,
    ) -> Result<(), String> {
        let now = self.environment.now;
        if let Action::Boot(_) = decision.what {
            // It was carried out when the run began.
            let decisions = spec.decisions.as_deref().unwrap_or_default();
            return match self.objection(decision).or_else(|| self.schedule().take_objection()) {
                Some(why) => Err(why),
                None if number > boots(decisions).len() => Err("all nodes have booted".to_owned()),
                None => Ok(()),
            };
        }
        let at = decision.at.unwrap_or(now + spec.setup.delay);
        if at < now {
            return Err(format!("{at:?} is earlier than the decision before it, at {now:?}"));
        }
        self.reach(at, &decision.what);
        self.environment.now = at;
        self.decided(decision)
    }

    /// Carries out a decision, or says why that makes no sense.
    fn decided(&mut self, decision: &Decision) -> Result<(), String> {
        let Decision { what, crash_after, due, .. } = decision;
        if let Some(why) = self.objection(decision) {
            return Err(why);
        }
        let now = self.environment.now;
        self.schedule().turn(decision, now);
        match *what {
            Action::Ask { node, request } => self.ask(node, request as usize, *due)?,
            Action::Deliver { from, to, place } => {
                let it = self.schedule().take(from, to, place as usize);
                self.arrive(from, to, it);
            }
            Action::Lose { from, to, place } => {
                let it = self.schedule().take(from, to, place as usize);
                self.lose(from, to, it);
            }
            Action::Repeat { from, to, place } => {
                let message = self.schedule().link(from, to)[place as usize].envelope.message;
                self.environment.repeat(from, to, place as usize);
                self.host.repeat(message);
            }
            Action::Timer { node, ref timer } => self.ring(node, timer)?,
            ref what => {
                let action = Fault::of(what).expect("everything else is done to the system");
                self.happen(action);
            }
        }
        if let Some(why) = self.schedule().take_objection() {
            return Err(why);
        }
        if let (Some(_), Some(node)) = (crash_after, what.actor()) {
            self.crash(node);
        }
        let pending = self.schedule().under_way(|_| true)
            + self.nodes.iter().map(|node| node.timers.len()).sum::<usize>();
        let schedule = self.schedule();
        schedule.most = schedule.most.max(pending);
        Ok(())
    }

    /// The application makes one of the requests that it may make.
    fn ask(&mut self, id: NodeId, request: usize, due: Option<Time>) -> Result<(), String> {
        let Some(mark) = self.host.request(id, request) else {
            let many = (0..).map_while(|place| self.host.request(id, place)).count();
            return Err(match many {
                0 => "its application may make none now".to_owned(),
                many => format!("the last that its application may make is number {}", many - 1),
            });
        };
        let due = due.filter(|_| mark == Observation::Asked);
        if self.schedule().calendar {
            self.nodes[id.index()].ask = None;
            self.expect_request(id, mark);
            self.request(id, request, mark, due);
            return Ok(());
        }
        let begun = self.environment.trace.records.len();
        self.input(id, Event::Request(mark), Owner::Node(id), Input::Request(request));
        if let Some(due) = due {
            self.environment.trace.records.change(begun, |asked| asked.overdue(due));
        }
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
        if let Some(node) = what.actor().filter(|node| self.nodes[node.index()].backlog.is_some()) {
            return Some(format!("{node} pauses"));
        }
        match *what {
            Action::Deliver { from, to, place }
            | Action::Lose { from, to, place }
            | Action::Repeat { from, to, place } => {
                let gone = self.is_down(to) || self.environment.apart(from, to);
                match self.schedule().link(from, to).len() {
                    0 => Some("none is on its way there".to_owned()),
                    many if place as usize >= many => {
                        Some(format!("the last on its way there is number {}", many - 1))
                    }
                    _ if gone && crash_after.is_some() => {
                        Some("it is lost, and no node crashes receiving it".to_owned())
                    }
                    _ => None,
                }
            }
            Action::Recover(node) | Action::RecoverEmpty(node) => {
                (!self.is_down(node)).then(|| format!("{node} is up"))
            }
            Action::Ask { node, .. }
            | Action::Timer { node, .. }
            | Action::Crash(node)
            | Action::Pause(node)
            | Action::Resume(node)
            | Action::Suspect { node, .. }
            | Action::Trust { node, .. }
            | Action::Join { node, .. }
            | Action::Leave(node)
                if self.is_down(node) =>
            {
                Some(format!("{node} is down"))
            }
            Action::Suspect { node, peer }
            | Action::Trust { node, peer }
            | Action::Join { node, sponsor: peer } => {
                (node == peer).then(|| "that takes another node".to_owned())
            }
            Action::Resume(node) => {
                let pauses = self.nodes[node.index()].backlog.is_some();
                (!pauses).then(|| format!("{node} does not pause"))
            }
            Action::Pause(node) => {
                let pauses = self.nodes[node.index()].backlog.is_some();
                pauses.then(|| format!("{node} pauses already"))
            }
            Action::Heal => self.environment.groups.is_none().then(|| "it is not apart".to_owned()),
            Action::Boot(_)
            | Action::Ask { .. }
            | Action::Timer { .. }
            | Action::Crash(_)
            | Action::Leave(_)
            | Action::Partition(_) => None,
        }
    }

    fn is_down(&self, id: NodeId) -> bool {
        !self.nodes[id.index()].up
    }

    pub(super) fn schedule(&mut self) -> &mut Schedule {
        self.environment.schedule.as_mut().expect("the run follows decisions")
    }

    /// Whether nothing is left to happen but new requests and faults.
    fn is_quiet(&mut self) -> bool {
        let leaves = |id| {
            let mut requests = (0..).map_while(|place| self.host.request(id, place));
            requests.any(|mark| mark == Observation::Left)
        };
        let idle = self.nodes.iter().all(|node| node.timers.is_empty());
        let idle = idle && !self.topology.nodes().any(leaves);
        let up: Vec<bool> = self.nodes.iter().map(|node| node.up).collect();
        idle && self.schedule().under_way(|to| up[to.index()]) == 0
    }

    /// As [`apply`](Self::apply), in a step that was decided about or is written down.
    #[cold]
    pub(super) fn apply_decided(
        &mut self,
        id: NodeId,
        cause: u32,
        rule: impl FnOnce(&mut dyn Host, Turn<'_>, &mut dyn Outside) -> Ran,
    ) -> Ran {
        let (topology, environment) = (&self.topology, &mut self.environment);
        let local = &mut self.nodes[id.index()];
        let mut decided = Decided(Executor { me: id, cause, topology, environment, local });
        let now = decided.clock();
        let turn = Turn { node: id, now, topology, settles: true };
        let ran = rule(&mut *self.host, turn, &mut decided);
        if ran.looked {
            self.schedule().looked(id);
        }
        if !self.environment.notices.is_empty() {
            self.tell(id);
        }
        ran
    }
}

/// What is decided about how nodes boot at the beginning: it comes before all else.
fn boots(decisions: &[Decision]) -> &[Decision] {
    let other = decisions.iter().position(|it| !matches!(it.what, Action::Boot(_)));
    &decisions[..other.unwrap_or(decisions.len())]
}
