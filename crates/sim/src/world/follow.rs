//! Runs that follow decisions instead of a calendar.

use std::time::Duration;

use conclave_protocol::{Client, Ctx, Decision, Input, Mark, Marked, NodeId, Protocol, Time, What};

use super::{End, Node, Outcome, World};
use crate::course::{Course, Decided};
use crate::environment::Outside;
use crate::{Action, Event, Owner, SpecError};

#[cfg(test)]
mod tests;

impl<P: Protocol, C: Client<P>> World<P, C> {
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
                self.arrive(from, to, it.msg, it.serial, it.owner, it.lamport, it.label);
            }
            What::Lose { from, to, place } => {
                let it = self.course().link(from, to).remove(place as usize);
                self.lose(from, to, it.serial, it.label);
            }
            What::Repeat { from, to, place } => {
                let (link, place) = (self.course().link(from, to), place as usize);
                link.insert(place + 1, link[place].clone());
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
            + self.nodes.iter().map(|node| node.local.timers.len()).sum::<usize>();
        let course = self.course();
        course.most = course.most.max(pending);
        Ok(())
    }

    /// The application makes one of the requests that it may make.
    fn ask(&mut self, id: NodeId, request: usize) -> Result<(), String> {
        let client = &mut self.nodes[id.index()].client;
        let Some(asked) = client.requests().into_iter().nth(request) else {
            return Err(match client.requests().into_iter().count() {
                0 => "its application may make none now".to_owned(),
                many => format!("the last that its application may make is number {}", many - 1),
            });
        };
        client.on_request(&asked);
        self.input(id, Event::Request(asked.mark()), Owner::Node(id), Input::Request(asked));
        Ok(())
    }

    /// The timer that prints so runs out.
    fn ring(&mut self, id: NodeId, name: &str) -> Result<(), String> {
        let timers = &mut self.nodes[id.index()].local.timers;
        let running: Vec<String> = timers.iter().map(|(timer, _)| format!("{timer:?}")).collect();
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
        self.nodes[id.index()].state.is_none()
    }

    fn course(&mut self) -> &mut Course<P> {
        self.environment.course.as_mut().expect("the run follows decisions")
    }

    /// Whether nothing is left to happen but new requests and faults.
    fn is_quiet(&mut self) -> bool {
        let leaves = |request: P::Request| request.mark() == Mark::Left;
        let idle = |node: &Node<P, C>| {
            node.local.timers.is_empty() && !node.client.requests().into_iter().any(leaves)
        };
        let up: Vec<bool> = self.nodes.iter().map(|node| node.state.is_some()).collect();
        self.nodes.iter().all(idle) && self.course().under_way(|to| up[to.index()]) == 0
    }

    /// As [`apply`](Self::apply), in a step that was decided about.
    #[cold]
    pub(super) fn apply_decided(
        &mut self,
        id: NodeId,
        cause: u32,
        rule: impl FnOnce(&mut Option<P>, &mut Ctx<P>),
    ) {
        let now = self.course().clock(id);
        let Node { state, local, .. } = &mut self.nodes[id.index()];
        let (topology, environment) = (&self.topology, &mut self.environment);
        let mut decided = Decided(Outside { me: id, cause, topology, environment, local });
        let mut ctx = Ctx::new(id, topology, &self.config, now, &mut decided);
        rule(state, &mut ctx);
        if ctx.looked_at_clock() {
            self.course().looked(id);
        }
        if !self.environment.notices.is_empty() {
            self.tell(id);
        }
    }
}
