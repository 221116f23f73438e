//! What becomes of requests.

use std::sync::Arc;
use std::time::Duration;

use conclave_api::Code;
use conclave_api::v1;
use conclave_api::v1::ask::What;
use conclave_api::v1::tell::What as Told;
use tokio::sync::oneshot;

use crate::book::{ATTACH, Book, CLOSE, Held, Led, Outcome, Request, Tracked};
use crate::requests::Answer;
use crate::things::{Hold, Term};
use crate::{Error, Loss};

impl Book {
    /// An answer to a request, or to one whose outcome was known already.
    pub(crate) fn answered(&mut self, session: u64, number: u64, told: Told) {
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        if !tracked.vital.is_alive() && tracked.closing.is_none() {
            // Whatever it says, it came too late.
            return self.close(session, Loss::Expired, None);
        }
        if let Told::Failed(failed) = &told {
            match Code::parse(&failed.code) {
                Some(Code::Unavailable) => {
                    return self.unavailable(session, number, &failed.message);
                }
                // What comes next says why.
                Some(Code::SessionEnded) => return,
                _ => {}
            }
        }
        if matches!(told, Told::Waiting(_)) {
            let request = tracked.requests.get_mut(&number);
            request.and_then(|request| request.waits.take()).map(|waits| waits.send(()));
            tracked.leave_window(number);
            return self.send_held_back(session);
        }
        let Some(request) = tracked.requests.get_mut(&number) else {
            return self.confirmed(session, number, &told);
        };
        if request.abandoned && !matches!(request.what, What::Upgrade(_)) {
            // It counts as answered when its cancellation is.
            return;
        }
        let request = tracked.remove(number).expect("it was there");
        self.settle(session, number, request, told);
        self.send_held_back(session);
    }

    /// What came of a request.
    fn settle(&mut self, session: u64, number: u64, request: Request, told: Told) {
        let Request { what, reply, waits, abandoned, .. } = request;
        let tracked = self.sessions.get_mut(&session).expect("it was there");
        let answer = match (told, what) {
            (Told::Granted(granted), what @ What::Acquire(_)) => {
                Ok(Outcome::Held(tracked.granted(number, what, granted)))
            }
            (Told::Granted(granted), What::Upgrade(_)) if abandoned => {
                let token = granted.token;
                self.ask(session, What::ReleaseAll(v1::ReleaseAll { token }), None, None);
                Ok(Outcome::Done)
            }
            (Told::Granted(granted), what) => tracked.regranted(number, what, granted),
            (Told::Elected(v1::Elected { term }), what @ What::Campaign(_)) => {
                let What::Campaign(campaign) = &what else { unreachable!("it is a campaign") };
                let thing = Arc::new(Term::new(campaign.election.clone(), term));
                let led = Led { term: thing.clone(), request: number, what, over: false };
                tracked.terms.insert(term, led);
                Ok(Outcome::Leads(thing))
            }
            (Told::Failed(failed), what) => {
                let again = Request { waits, ..Request::new(what, None) };
                return self.failed(session, *failed, again, reply);
            }
            (_, What::Cancel(v1::Cancel { request })) => {
                tracked.remove(request);
                Ok(Outcome::Done)
            }
            (_, What::Release(v1::Release { token, to: Some(_), .. })) => {
                // Handed over, at all levels.
                if let Some(held) = tracked.holds.remove(&token) {
                    held.hold.lose(Loss::Released);
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
        let tracked = self.sessions.get_mut(&session).expect("it was there");
        let code = Code::parse(&failed.code);
        let forgotten = code == Some(Code::Forgotten);
        match &again.what {
            // It is not held, or the answer would have been another; and nobody was told what came of it.
            What::Acquire(_) | What::Campaign(_) if forgotten => {
                let number = tracked.add(Request { reply, ..again });
                return self.send_request(session, number);
            }
            What::Cancel(v1::Cancel { request }) => {
                tracked.remove(*request);
            }
            What::Upgrade(v1::Upgrade { token, .. })
            | What::Downgrade(v1::Downgrade { token, .. }) => {
                let gone = [Code::Lost, Code::NotHeld, Code::StaleToken].map(Some).contains(&code);
                if gone && let Some(held) = tracked.holds.remove(token) {
                    held.hold.lose(Loss::Gone);
                } else if let Some(held) = tracked.holds.get_mut(token) {
                    held.changing = false;
                    // There may have been a new connection since, and nobody asked then.
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
            _ if forgotten && again.what.only_gives_back() => Ok(Outcome::Done),
            error => Err(error),
        };
        reply.map(|reply| reply.send(answer));
    }

    /// An answer to a request that was repeated to learn whether what it was granted is still there.
    fn confirmed(&mut self, session: u64, number: u64, told: &Told) {
        let failed = match told {
            Told::Failed(failed) => Code::parse(&failed.code),
            _ => None,
        };
        let unknown = failed == Some(Code::UnknownSession);
        match number {
            ATTACH | CLOSE if unknown => return self.ended(session, Loss::Gone),
            CLOSE => return self.ended(session, Loss::Closed),
            _ if matches!(told, Told::Failed(_)) => {}
            _ => return,
        }
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        let held = tracked.holds.iter().find(|(_, held)| held.request == number);
        if let Some(token) = held.map(|(&token, _)| token) {
            tracked.holds.remove(&token).expect("it was there").hold.lose(Loss::Gone);
        }
        let led = tracked.terms.iter().find(|(_, led)| led.request == number);
        if let Some(term) = led.map(|(&term, _)| term) {
            // Another may not lead yet: it does as soon as this one has been given up.
            tracked.depose(term, Loss::Gone, true);
        }
    }

    /// The server cannot do anything for a session now: everything is asked again, in order, in a while. But
    /// who does not want to wait does not.
    fn unavailable(&mut self, session: u64, number: u64, why: &str) {
        let until = self.time.now().plus(Duration::from_millis(fastrand::u64(50..500)));
        self.wake_by(until);
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        tracked.paused.get_or_insert(until);
        if let Some(request) = tracked.requests.get_mut(&number)
            && request.is_impatient()
            && let Some(reply) = request.reply.take()
        {
            let _ = reply.send(Err(Error::Unavailable(why.to_owned())));
            self.give_up(session, number);
        }
    }
}

impl Tracked {
    /// A leadership is over. If it is to be confirmed, it is remembered until the program gives it up.
    pub(crate) fn depose(&mut self, term: u64, loss: Loss, confirm: bool) {
        let Some(led) = self.terms.get_mut(&term) else { return };
        led.term.lose(loss);
        led.over = true;
        if !confirm {
            self.terms.remove(&term);
        }
    }

    fn granted(&mut self, number: u64, what: What, granted: v1::Granted) -> Arc<Hold> {
        let v1::Granted { token, epochs, .. } = granted;
        let What::Acquire(acquire) = &what else { unreachable!("only who asks is granted") };
        let locks = acquire.wants.iter().map(|want| want.lock.clone()).collect();
        // If it was held before, this is one level more.
        let held = self.holds.entry(token).or_insert_with(|| Held {
            hold: Arc::new(Hold::new(locks, token, epochs)),
            levels: 0,
            request: number,
            what,
            changing: false,
        });
        held.levels += 1;
        held.hold.clone()
    }

    fn regranted(&mut self, number: u64, what: What, granted: v1::Granted) -> Answer {
        let (What::Upgrade(v1::Upgrade { token, .. })
        | What::Downgrade(v1::Downgrade { token, .. })) = &what
        else {
            return Ok(Outcome::Done);
        };
        let held = self.holds.remove(token).ok_or(Error::Lost(Loss::Gone))?;
        held.hold.regrant(granted.token, granted.epochs);
        let held = Held { request: number, what, changing: false, ..held };
        self.holds.insert(granted.token, held);
        Ok(Outcome::Done)
    }
}

/// Whether nothing is left to be done if this was done already.
trait GivesBack {
    fn only_gives_back(&self) -> bool;
}

impl GivesBack for What {
    fn only_gives_back(&self) -> bool {
        matches!(self, Self::Release(_) | Self::ReleaseAll(_) | Self::Cancel(_) | Self::Resign(_))
    }
}
