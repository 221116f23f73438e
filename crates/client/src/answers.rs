//! Applies answers to requests.

use std::sync::Arc;
use std::time::Duration;

use conclave_api::Code;
use conclave_api::v1;
use conclave_api::v1::ask::What as Operation;
use conclave_api::v1::tell::What as ServerMessage;
use tokio::sync::oneshot;

use crate::handles::{Hold, Term};
use crate::requests::Answer;
use crate::state::{ATTACH, CLOSE, Held, Led, Outcome, Request, SessionState, State};
use crate::{Error, Loss};

impl State {
    /// An answer to a request, or to one whose outcome was known already.
    pub(crate) fn answered(&mut self, session: u64, number: u64, message: ServerMessage) {
        let Some(session_state) = self.sessions.get_mut(&session) else { return };
        if !session_state.liveness.is_alive() && session_state.closing.is_none() {
            // Whatever the answer is, it came too late.
            return self.close(session, Loss::Expired, None);
        }
        if let ServerMessage::Failed(failed) = &message {
            match Code::parse(&failed.code) {
                Some(Code::Unavailable) => {
                    return self.unavailable(session, number, &failed.message);
                }
                // What comes next says why.
                Some(Code::SessionEnded) => return,
                _ => {}
            }
        }
        if matches!(message, ServerMessage::Waiting(_)) {
            let request = session_state.requests.get_mut(&number);
            request.and_then(|request| request.waits.take()).map(|waits| waits.send(()));
            session_state.leave_window(number);
            return self.send_held_back(session);
        }
        let Some(request) = session_state.requests.get_mut(&number) else {
            return self.confirmed(session, number, &message);
        };
        if request.abandoned && !matches!(request.operation, Operation::Upgrade(_)) {
            // It counts as answered when its cancellation is.
            return;
        }
        let request = session_state.remove(number).expect("it was there");
        self.settle(session, number, request, message);
        self.send_held_back(session);
    }

    /// What came of a request.
    fn settle(&mut self, session: u64, number: u64, request: Request, message: ServerMessage) {
        let Request { operation, reply, waits, abandoned, .. } = request;
        let session_state = self.sessions.get_mut(&session).expect("it was there");
        let answer = match (message, operation) {
            (ServerMessage::Granted(granted), operation @ Operation::Acquire(_)) => {
                Ok(Outcome::Held(session_state.granted(number, operation, granted)))
            }
            (ServerMessage::Granted(granted), Operation::Upgrade(_)) if abandoned => {
                let token = granted.token;
                self.request(session, Operation::ReleaseAll(v1::ReleaseAll { token }), None, None);
                Ok(Outcome::Done)
            }
            (ServerMessage::Granted(granted), operation) => {
                session_state.regranted(number, operation, granted)
            }
            (ServerMessage::Elected(v1::Elected { term }), operation @ Operation::Campaign(_)) => {
                let Operation::Campaign(campaign) = &operation else {
                    unreachable!("it is a campaign")
                };
                let led_term = Arc::new(Term::new(campaign.election.clone(), term));
                let led = Led { term: led_term.clone(), request: number, operation, over: false };
                session_state.terms.insert(term, led);
                Ok(Outcome::Leads(led_term))
            }
            (ServerMessage::Failed(failed), operation) => {
                let again = Request { waits, ..Request::new(operation, None) };
                return self.failed(session, *failed, again, reply);
            }
            (_, Operation::Cancel(v1::Cancel { request })) => {
                session_state.remove(request);
                Ok(Outcome::Done)
            }
            (_, Operation::Release(v1::Release { token, to: Some(_), .. })) => {
                // Handed over, at all levels.
                if let Some(held) = session_state.holds.remove(&token) {
                    held.hold.loss.set(Loss::Released);
                }
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Done),
        };
        reply.map(|reply| reply.send(answer));
    }

    /// A request failed. What it asked for is there to be asked again.
    fn failed(
        &mut self,
        session: u64,
        failed: v1::Failed,
        again: Request,
        reply: Option<oneshot::Sender<Answer>>,
    ) {
        let session_state = self.sessions.get_mut(&session).expect("it was there");
        let code = Code::parse(&failed.code);
        let forgotten = code == Some(Code::Forgotten);
        match &again.operation {
            // It is not held, or the answer would have been another; and the caller has had no answer.
            Operation::Acquire(_) | Operation::Campaign(_) if forgotten => {
                let number = session_state.add(Request { reply, ..again });
                return self.send_request(session, number);
            }
            Operation::Cancel(v1::Cancel { request }) => {
                session_state.remove(*request);
            }
            Operation::Upgrade(v1::Upgrade { token, .. })
            | Operation::Downgrade(v1::Downgrade { token, .. }) => {
                let gone = [Code::Lost, Code::NotHeld, Code::StaleToken].map(Some).contains(&code);
                if gone && let Some(held) = session_state.holds.remove(token) {
                    held.hold.loss.set(Loss::Gone);
                } else if let Some(held) = session_state.holds.get_mut(token) {
                    held.changing = false;
                    // If the client has reconnected since, it did not ask then.
                    self.confirm(session, *token);
                }
            }
            _ => {}
        }
        let answer = match Error::from(failed) {
            Error::SessionLost(loss) => {
                self.ended(session, loss);
                Err(Error::SessionLost(loss))
            }
            // What was forgotten was done.
            _ if forgotten && again.operation.only_gives_back() => Ok(Outcome::Done),
            error => Err(error),
        };
        reply.map(|reply| reply.send(answer));
    }

    /// An answer to a request that was repeated to learn whether what it was granted is still there.
    fn confirmed(&mut self, session: u64, number: u64, message: &ServerMessage) {
        let failed = match message {
            ServerMessage::Failed(failed) => Code::parse(&failed.code),
            _ => None,
        };
        let unknown = failed == Some(Code::UnknownSession);
        match number {
            ATTACH | CLOSE if unknown => return self.ended(session, Loss::Gone),
            CLOSE => return self.ended(session, Loss::Closed),
            _ if matches!(message, ServerMessage::Failed(_)) => {}
            _ => return,
        }
        let Some(session_state) = self.sessions.get_mut(&session) else { return };
        let held = session_state.holds.iter().find(|(_, held)| held.request == number);
        if let Some(token) = held.map(|(&token, _)| token) {
            session_state.holds.remove(&token).expect("it was there").hold.loss.set(Loss::Gone);
        }
        let led = session_state.terms.iter().find(|(_, led)| led.request == number);
        if let Some(term) = led.map(|(&term, _)| term) {
            // Another may not lead yet: it does as soon as this one has been given up.
            session_state.depose(term, Loss::Gone, true);
        }
    }

    /// The server cannot serve a session now: its requests are repeated, in order, a little later. A request that is
    /// to be answered at once fails.
    fn unavailable(&mut self, session: u64, number: u64, why: &str) {
        let until = self.time.now().plus(Duration::from_millis(fastrand::u64(50..500)));
        self.check_by(until);
        let Some(session_state) = self.sessions.get_mut(&session) else { return };
        session_state.paused.get_or_insert(until);
        if let Some(request) = session_state.requests.get_mut(&number)
            && request.is_impatient()
            && let Some(reply) = request.reply.take()
        {
            let _ = reply.send(Err(Error::Unavailable(why.to_owned())));
            self.give_up(session, number);
        }
    }
}

impl SessionState {
    /// A leadership is over. If it is to be confirmed, it is remembered until the program gives it up.
    pub(crate) fn depose(&mut self, term: u64, loss: Loss, confirm: bool) {
        let Some(led) = self.terms.get_mut(&term) else { return };
        led.term.loss.set(loss);
        led.over = true;
        if !confirm {
            self.terms.remove(&term);
        }
    }

    fn granted(&mut self, number: u64, operation: Operation, granted: v1::Granted) -> Arc<Hold> {
        let v1::Granted { token, epochs, .. } = granted;
        let Operation::Acquire(acquire) = &operation else {
            unreachable!("only a request is granted")
        };
        let locks = acquire.wants.iter().map(|want| want.lock.clone()).collect();
        // If it was held before, this is one level more.
        let held = self.holds.entry(token).or_insert_with(|| Held {
            hold: Arc::new(Hold::new(locks, token, epochs)),
            levels: 0,
            request: number,
            operation,
            changing: false,
        });
        held.levels += 1;
        held.hold.clone()
    }

    fn regranted(&mut self, number: u64, operation: Operation, granted: v1::Granted) -> Answer {
        let (Operation::Upgrade(v1::Upgrade { token, .. })
        | Operation::Downgrade(v1::Downgrade { token, .. })) = &operation
        else {
            return Ok(Outcome::Done);
        };
        let held = self.holds.remove(token).ok_or(Error::Lost(Loss::Gone))?;
        held.hold.regrant(granted.token, granted.epochs);
        let held = Held { request: number, operation, changing: false, ..held };
        self.holds.insert(granted.token, held);
        Ok(Outcome::Done)
    }
}

/// Whether nothing is left to be done if this was done already.
trait GivesBack {
    fn only_gives_back(&self) -> bool;
}

impl GivesBack for Operation {
    fn only_gives_back(&self) -> bool {
        matches!(self, Self::Release(_) | Self::ReleaseAll(_) | Self::Cancel(_) | Self::Resign(_))
    }
}
