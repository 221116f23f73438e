//! Cancelling requests: a client gives up, or its connection is gone.

use crate::ids::Arrival;
use crate::lock::By;
use crate::machine::Machine;
use crate::mutation::Mutation;
use crate::session::Outcome;
use crate::waits::Wait;
use crate::{Agent, CallId, Cause, Error, Event, NodeId, Reply, RequestId, SessionId, Via};

impl Machine {
    /// Undoes a request, whatever has become of it.
    pub(crate) fn cancel(&mut self, id: SessionId, request: RequestId) -> Result<Reply, Error> {
        let session = &self.sessions[&id];
        if let Some(arrival) = session.wait_of(request) {
            let wait = self.withdraw(arrival);
            self.answer(&wait, Err(Error::Cancelled));
            return Ok(Reply::Done);
        }
        let replies = session.replies_to(request);
        let outcome = replies.find(request).cloned();
        // Also if it has not come yet: it shall not be carried out when it does. One without a number
        // has come.
        let may_come = !request.is_allotted() && !replies.has_forgotten(request);
        let remember = outcome.is_some() || may_come;
        match outcome {
            Some(Outcome::Done | Outcome::Released { .. } | Outcome::Failed(_)) => {
                return Ok(Reply::Done);
            }
            Some(Outcome::Nested { lock, owner }) => {
                let agent = Agent { session: id, owner };
                if let Some(hold) = self.hold_of_name(agent, &lock) {
                    self.release_level(hold, Cause::Cancelled);
                }
            }
            Some(Outcome::Granted | Outcome::Elected) | None => self.undo(id, request),
        }
        if remember {
            self.remember(id, request, Outcome::Failed(Box::new(Error::Cancelled)));
        }
        Ok(Reply::Done)
    }

    /// The connection of a single call is gone. Its wait ends, and nothing is remembered of it. A
    /// grant is undone only if no repetition can ask for it.
    pub(crate) fn hang_up(
        &mut self,
        id: SessionId,
        request: RequestId,
        call: CallId,
    ) -> Result<Reply, Error> {
        let Some(arrival) = self.sessions[&id].wait_of(request) else {
            if request.is_allotted() && !self.is_mutated(Mutation::HangUpIgnored) {
                return self.cancel(id, request);
            }
            return Ok(Reply::Done);
        };
        if self.waits[&arrival].via == Via::Call(call) {
            self.drop_wait(arrival);
        }
        Ok(Reply::Done)
    }

    /// A node has lost all its connections.
    pub(crate) fn node_started(&mut self, node: NodeId) {
        let there = |wait: &&Wait| matches!(wait.via, Via::Call(call) if call.node == node);
        let calls = self.waits.values().filter(there);
        let calls: Vec<Arrival> = calls.map(|wait| wait.arrival).collect();
        calls.into_iter().for_each(|arrival| self.drop_wait(arrival));
    }

    /// Ends a wait of which nothing is remembered.
    fn drop_wait(&mut self, arrival: Arrival) {
        let Wait { agent, request, .. } = self.withdraw(arrival);
        let (session, answer) = (agent.session, Err(Error::Cancelled));
        self.turn.events.push(Event::Answered { session, request, answer });
    }

    /// Takes back what a request was granted, as far as it is still there.
    fn undo(&mut self, id: SessionId, request: RequestId) {
        for hold in self.holds_by_name(id, |hold| hold.request == request) {
            match self.holds[hold].by {
                By::Acquire => {
                    self.release_level(hold, Cause::Cancelled);
                }
                By::Upgrade => {
                    self.convert(hold, By::Downgrade, request);
                }
                By::Downgrade => {}
            }
        }
        self.resign_of(id, request);
    }
}
