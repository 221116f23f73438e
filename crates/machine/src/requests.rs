//! Requests by number: each is carried out once, and its repetition has the same answer.

use crate::lock::Hold;
use crate::machine::Machine;
use crate::mutation::Mutation;
use crate::session::{First, Outcome};
use crate::waits::{Goal, Wait};
use crate::{Agent, Call, Error, Event, Reply, RequestId, SessionId, Token};

/// The highest number that a client can give a request.
const LAST_OF_CLIENTS: RequestId = RequestId(RequestId::ALLOTTED.0 - 1);

impl Machine {
    /// Carries out a request of a session, or answers its repetition.
    pub(crate) fn request(
        &mut self,
        id: SessionId,
        request: RequestId,
        received: RequestId,
        call: &Call,
    ) -> Result<Reply, Error> {
        let session = self.sessions.get_mut(&id).ok_or(Error::UnknownSession(id))?;
        session.replies.forget(received.min(LAST_OF_CLIENTS));
        if request.is_allotted() {
            // Only the machine allots such numbers, and no client can ask for them again.
            return Err(Error::Forgotten(request));
        }
        if request == RequestId(0) {
            let request = session.next_allotted;
            session.next_allotted.0 += 1;
            return self.answer_request(id, request, call);
        }
        let via = self.turn.via;
        let session = &self.sessions[&id];
        if !self.is_mutated(Mutation::Repeated) {
            if let Some(outcome) = session.replies.find(request) {
                return self.repeat(id, request, call, outcome);
            }
            if let Some(arrival) = session.wait_of(request) {
                self.waits.get_mut(&arrival).expect("it waits").via = via;
                return Ok(Reply::Waiting);
            }
        }
        if session.replies.has_forgotten(request) {
            // What is still held because of it tells what came of it.
            let outcome = match call {
                Call::Campaign(_) => Outcome::Elected,
                _ => Outcome::Granted,
            };
            let still = self.repeat(id, request, call, &outcome);
            return still.map_err(|_| Error::Forgotten(request));
        }
        self.answer_request(id, request, call)
    }

    /// Carries out a request that has not been made before, and remembers what came of it.
    fn answer_request(
        &mut self,
        id: SessionId,
        request: RequestId,
        call: &Call,
    ) -> Result<Reply, Error> {
        let reply = match call {
            Call::Acquire(acquire) => self.acquire(id, request, acquire),
            Call::Release { lock, token, to } => self.release(id, lock, *token, *to),
            Call::ReleaseAll { token } => self.release_all(id, *token),
            Call::Upgrade { lock, token, patience } => {
                self.upgrade(id, request, lock, *token, *patience)
            }
            Call::Downgrade { lock, token } => self.downgrade(id, request, lock, *token),
            Call::Cancel { request } => self.cancel(id, *request),
            Call::Campaign(campaign) => self.campaign(id, request, campaign),
            Call::Proclaim { election, term, value } => self.proclaim(id, election, *term, value),
            Call::Resign { election, term } => self.resign(id, election, *term),
        };
        if let Some(outcome) = Outcome::of(call, &reply) {
            self.remember(id, request, outcome);
        }
        reply
    }

    /// Answers a request that was made before as it was answered then.
    fn repeat(
        &self,
        id: SessionId,
        request: RequestId,
        call: &Call,
        outcome: &Outcome,
    ) -> Result<Reply, Error> {
        let of_request = |hold: &&Hold| hold.request == request;
        match (outcome, call) {
            (Outcome::Done, _) => Ok(Reply::Done),
            (Outcome::Released { left }, _) => Ok(Reply::Released { left: *left }),
            (Outcome::Failed(error), _) => Err((**error).clone()),
            (Outcome::Granted, Call::Acquire(acquire)) => {
                let held = acquire.wants.iter().map(|want| {
                    let hold = self.holds_on(id, &want.lock).find(of_request);
                    hold.map(|hold| (hold.token, self.locks[hold.lock].epoch))
                });
                let held: Vec<(Token, Token)> = held.collect::<Option<_>>().ok_or(Error::Lost)?;
                let token = held.first().ok_or(Error::Lost)?.0;
                let epochs = held.into_iter().map(|(_, epoch)| epoch).collect();
                Ok(Reply::Granted { token, epochs, depth: 1 })
            }
            (Outcome::Granted, Call::Upgrade { lock, .. } | Call::Downgrade { lock, .. }) => {
                let hold = self.holds_on(id, lock).find(of_request).ok_or(Error::Lost)?;
                Ok(self.granted(hold))
            }
            (Outcome::Nested { lock, owner }, _) => {
                let agent = Agent { session: id, owner: *owner };
                let hold = self.hold_of_name(agent, lock).ok_or(Error::Lost)?;
                Ok(self.granted(&self.holds[hold]))
            }
            (Outcome::Elected, Call::Campaign(campaign)) => {
                let election = self.elections.get(&campaign.election).ok_or(Error::Lost)?;
                let term = election.term_of(id, request).ok_or(Error::Lost)?;
                Ok(Reply::Elected { term })
            }
            (Outcome::Granted | Outcome::Elected, _) => Err(Error::Lost),
        }
    }

    /// Answers a request that waited; its repetition gets the same answer.
    pub(crate) fn answer(&mut self, wait: &Wait, answer: Result<Reply, Error>) {
        let session = wait.agent.session;
        let outcome = match (&answer, &wait.goal) {
            (Err(error), _) => Outcome::Failed(Box::new(error.clone())),
            (Ok(_), Goal::Locks(_) | Goal::Upgrade(..)) => Outcome::Granted,
            (Ok(_), Goal::Lead(_)) => Outcome::Elected,
        };
        self.remember(session, wait.request, outcome);
        if self.turn.asking == Some(wait.arrival) {
            self.turn.answer = Some(answer);
        } else {
            let request = wait.request;
            self.turn.events.push(Event::Answered { session, request, answer });
        }
    }

    pub(crate) fn remember(&mut self, session: SessionId, request: RequestId, outcome: Outcome) {
        let most = self.config.limits.replies;
        let drop = match self.is_mutated(Mutation::LateAnswerDropped) {
            true => First::Numbered,
            false => First::Stored,
        };
        let session = self.sessions.get_mut(&session).expect("who asks has a session");
        session.replies_to_mut(request).keep(request, outcome, most, drop);
    }
}
