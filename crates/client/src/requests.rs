//! What sessions ask, and what becomes of it.
//!
//! A request has a number, and whatever is not answered is asked again under its number when there is a new
//! connection, in the same order; the server carries nothing out twice. Whoever stops waiting for an answer
//! leaves the book to see to it that nothing comes of the request.

use std::sync::Arc;

use conclave_api::codes;
use conclave_api::v1::ask::What;
use conclave_api::v1::tell::What as Told;
use conclave_api::v1::{self, Ask};
use tokio::sync::oneshot;

use crate::book::{ATTACH, Book, CLOSE, Chore, Held, Led, Outcome, Request, Tracked};
use crate::lease::Moment;
use crate::things::{Hold, Term};
use crate::{Error, Loss};

pub(crate) type Answer = Result<Outcome, Error>;

impl Tracked {
    /// All answers up to this number are there.
    fn received(&self) -> u64 {
        self.requests.first_key_value().map_or(self.last, |(&number, _)| number - 1)
    }

    fn add(&mut self, request: Request) -> u64 {
        self.last += 1;
        self.requests.insert(self.last, request);
        self.last
    }
}

impl Request {
    pub(crate) fn new(what: What, reply: Option<oneshot::Sender<Answer>>) -> Self {
        Self { what, reply, on_waiting: None, sent: false, abandoned: false }
    }

    /// Whether it is to be granted at once or not at all.
    fn is_impatient(&self) -> bool {
        match &self.what {
            What::Acquire(acquire) => acquire.timeout_ms == Some(0),
            What::Campaign(campaign) => campaign.timeout_ms == Some(0),
            _ => false,
        }
    }

    /// Whether it is repeated over a new connection. Of what was given up, its cancellation is.
    fn is_repeated(&self) -> bool {
        !self.abandoned || matches!(self.what, What::Upgrade(_))
    }
}

impl Book {
    /// Asks something on behalf of a session. The number is that of the request.
    pub(crate) fn ask(
        &mut self,
        session: u64,
        what: What,
        reply: Option<oneshot::Sender<Answer>>,
        on_waiting: Option<Chore>,
    ) -> Option<u64> {
        let tracked =
            self.sessions.get_mut(&session).filter(|tracked| tracked.closing.is_none())?;
        if let What::Upgrade(v1::Upgrade { token, .. })
        | What::Downgrade(v1::Downgrade { token, .. }) = &what
            && let Some(held) = tracked.holds.get_mut(token)
        {
            held.changing = true;
        }
        let number = tracked.add(Request { on_waiting, ..Request::new(what, reply) });
        self.send_request(session, number);
        Some(number)
    }

    fn send_request(&mut self, session: u64, number: u64) {
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        if tracked.paused.is_some() || self.outbox.is_none() {
            return;
        }
        let received = tracked.received();
        let Some(request) = tracked.requests.get_mut(&number) else { return };
        request.sent = true;
        let what = Some(request.what.clone());
        self.send(Ask { session, id: number, received, what, key: 0 });
    }

    /// Gives up waiting for the answer to a request. If that came just now, what came of it is given back.
    pub(crate) fn abandon(
        &mut self,
        session: u64,
        number: u64,
        answer: &mut oneshot::Receiver<Answer>,
    ) {
        match answer.try_recv() {
            Ok(Ok(Outcome::Held(hold))) => return self.release(session, &hold),
            Ok(Ok(Outcome::Leads(term))) => return self.resign(session, &term),
            Ok(_) => return,
            Err(_) => {}
        }
        self.give_up(session, number);
    }

    /// Sees to it that nothing comes of a request.
    fn give_up(&mut self, session: u64, number: u64) {
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        let Some(request) = tracked.requests.get_mut(&number) else { return };
        (request.reply, request.on_waiting) = (None, None);
        match request.what.clone() {
            What::Acquire(_) | What::Campaign(_) if !request.sent => {
                tracked.requests.remove(&number);
            }
            What::Acquire(_) | What::Campaign(_) => {
                request.abandoned = true;
                let cancel = What::Cancel(v1::Cancel { request: number });
                self.ask(session, cancel, None, None);
            }
            What::Upgrade(v1::Upgrade { token, .. }) => {
                // Nobody can tell which token it has by now, so it is given back with either.
                request.abandoned = true;
                if let Some(held) = tracked.holds.remove(&token) {
                    held.hold.lose(Loss::Abandoned);
                }
                self.ask(session, What::ReleaseAll(v1::ReleaseAll { token }), None, None);
            }
            // The rest is done, or not, whoever waits for it.
            _ => {}
        }
    }

    /// Gives back one level of a hold.
    pub(crate) fn release(&mut self, session: u64, hold: &Hold) {
        if let Some(what) = self.release_of(session, hold, None) {
            self.ask(session, what, None, None);
        }
    }

    /// What has to be asked for a level of a hold to be given back, if anything.
    pub(crate) fn release_of(
        &mut self,
        session: u64,
        hold: &Hold,
        to: Option<u64>,
    ) -> Option<What> {
        let token = hold.token();
        let tracked = self.sessions.get_mut(&session)?;
        if let Some(held) = tracked.holds.get_mut(&token)
            && to.is_none()
        {
            held.levels -= 1;
            if held.levels == 0 {
                tracked.holds.remove(&token);
            }
        }
        match (hold.locks.as_slice(), hold.loss()) {
            ([_], Some(_)) => None,
            ([lock], None) => Some(What::Release(v1::Release { lock: lock.clone(), token, to })),
            // If one of several was lost, the others were not.
            _ => Some(What::ReleaseAll(v1::ReleaseAll { token })),
        }
    }

    /// Leads no more.
    pub(crate) fn resign(&mut self, session: u64, term: &Term) {
        if let Some(what) = self.resignation_of(session, term) {
            self.ask(session, what, None, None);
        }
    }

    pub(crate) fn resignation_of(&mut self, session: u64, term: &Term) -> Option<What> {
        let led = self.sessions.get_mut(&session)?.terms.remove(&term.number);
        led.map(|_| {
            let (election, term) = (term.election.clone(), term.number);
            What::Resign(v1::Resign { election, term })
        })
    }

    /// Says everything about a session again that may not have been heard, over a new connection.
    pub(crate) fn repeat(&mut self, session: u64) {
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        tracked.paused = None;
        let (key, received) = (tracked.key, tracked.received());
        let attach = Some(What::Attach(v1::Attach {}));
        let mut asks = vec![Ask { session, id: ATTACH, key, what: attach, received: 0 }];
        if tracked.closing.is_none() {
            // What was lost meanwhile, nobody could tell: whoever asks again for what it has is told.
            let held = tracked.holds.values().filter(|held| !held.changing);
            let held = held.map(|held| (held.request, &held.what));
            let led = tracked.terms.values().map(|led| (led.request, &led.what));
            for (id, what) in held.chain(led) {
                asks.push(Ask { session, id, received, key: 0, what: Some(what.clone()) });
            }
            for (&id, request) in tracked.requests.iter_mut().filter(|(_, one)| one.is_repeated()) {
                request.sent = true;
                let what = Some(request.what.clone());
                asks.push(Ask { session, id, received, key: 0, what });
            }
        }
        let closing = tracked.closing.is_some();
        asks.into_iter().for_each(|ask| self.send(ask));
        if closing {
            self.send_close(session);
        }
    }

    /// An answer to a request, or to one whose outcome was known already.
    pub(crate) fn answered(&mut self, session: u64, number: u64, told: Told) {
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        if !tracked.vital.is_alive() && tracked.closing.is_none() {
            // Whatever it says, it came too late.
            return self.close(session, Loss::Expired, None);
        }
        if let Told::Failed(failed) = &told {
            match failed.code.as_str() {
                codes::UNAVAILABLE => return self.unavailable(session, number, &failed.message),
                // What comes next says why.
                "session-ended" => return,
                _ => {}
            }
        }
        if matches!(told, Told::Waiting(_)) {
            let request = tracked.requests.get_mut(&number);
            self.chores.extend(request.and_then(|request| request.on_waiting.take()));
            return;
        }
        let Some(request) = tracked.requests.get_mut(&number) else {
            return self.confirmed(session, number, &told);
        };
        if request.abandoned && !matches!(request.what, What::Upgrade(_)) {
            // It counts as answered when its cancellation is.
            return;
        }
        let request = tracked.requests.remove(&number).expect("it was there");
        self.settle(session, number, request, told);
    }

    /// What came of a request.
    fn settle(&mut self, session: u64, number: u64, request: Request, told: Told) {
        let Request { what, reply, on_waiting, abandoned, .. } = request;
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
                tracked.terms.insert(term, Led { term: thing.clone(), request: number, what });
                Ok(Outcome::Leads(thing))
            }
            (Told::Failed(failed), what) => {
                let again = Request { on_waiting, ..Request::new(what, None) };
                return self.failed(session, failed, again, reply);
            }
            (_, What::Cancel(v1::Cancel { request })) => {
                tracked.requests.remove(&request);
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
        let forgotten = failed.code == "forgotten";
        match &again.what {
            // It is not held, or the answer would have been another; and nobody was told what came of it.
            What::Acquire(_) | What::Campaign(_) if forgotten => {
                let number = tracked.add(Request { reply, ..again });
                return self.send_request(session, number);
            }
            What::Cancel(v1::Cancel { request }) => {
                tracked.requests.remove(request);
            }
            What::Upgrade(v1::Upgrade { token, .. })
            | What::Downgrade(v1::Downgrade { token, .. }) => {
                let gone = matches!(failed.code.as_str(), "lost" | "not-held" | "stale-token");
                if gone && let Some(held) = tracked.holds.remove(token) {
                    held.hold.lose(Loss::Gone);
                } else if let Some(held) = tracked.holds.get_mut(token) {
                    held.changing = false;
                }
            }
            _ => {}
        }
        let handing_over = matches!(&again.what, What::Release(v1::Release { to: Some(_), .. }));
        let answer = match Error::from(failed) {
            Error::SessionLost(_) if handing_over => Err(Error::Refused {
                code: codes::UNKNOWN_SESSION.to_owned(),
                message: "there is no such session to hand it to".to_owned(),
            }),
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
        let unknown = matches!(told, Told::Failed(one) if one.code == codes::UNKNOWN_SESSION);
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
            tracked.terms.remove(&term).expect("it was there").term.lose(Loss::Gone);
        }
    }

    /// The server cannot do anything for a session now: everything is asked again, in order, in a while. But
    /// who does not want to wait does not.
    fn unavailable(&mut self, session: u64, number: u64, why: &str) {
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        if let Some(request) = tracked.requests.get_mut(&number)
            && request.is_impatient()
            && let Some(reply) = request.reply.take()
        {
            let _ = reply.send(Err(Error::Unreachable(why.to_owned())));
            self.give_up(session, number);
        }
        let until = Moment::now().plus(std::time::Duration::from_millis(fastrand::u64(50..500)));
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        tracked.paused.get_or_insert(until);
        self.wake_by(until);
    }
}

impl Tracked {
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
        let hold = held.hold.clone();
        let held = Held { request: number, what, changing: false, ..held };
        self.holds.insert(granted.token, held);
        Ok(Outcome::Held(hold))
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
