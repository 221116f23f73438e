//! What sessions ask, and what becomes of it.
//!
//! A request has a number, and whatever is not answered is asked again under its number when there is a new
//! connection, in the same order; the server carries nothing out twice. Whoever stops waiting for an answer
//! leaves the book to see to it that nothing comes of the request.

use conclave_api::v1::ask::What;
use conclave_api::v1::{self, Ask};
use tokio::sync::oneshot;

use crate::book::{ATTACH, Book, Outcome, Request, Tracked};
use crate::things::{Hold, Term};
use crate::{Error, Loss};

pub(crate) type Answer = Result<Outcome, Error>;

impl Tracked {
    /// All answers up to this number are there.
    fn received(&self) -> u64 {
        self.requests.first_key_value().map_or(self.last, |(&number, _)| number - 1)
    }

    pub(crate) fn add(&mut self, mut request: Request) -> u64 {
        if let What::Acquire(acquire) = &mut request.what {
            // Until it is told that it waits, it takes up room in the window.
            acquire.tell_waiting |= acquire.reentrant;
        }
        self.last += 1;
        self.requests.insert(self.last, request);
        self.last
    }

    /// A request is answered, or its answer is not awaited any more.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Request> {
        self.leave_window(number);
        self.requests.remove(&number)
    }

    /// The answer to a request takes up no room any more.
    pub(crate) fn leave_window(&mut self, number: u64) {
        if let Some(request) = self.requests.get_mut(&number)
            && std::mem::take(&mut request.in_window)
        {
            self.open -= 1;
        }
    }

    /// Whether there is room for the answer to a request, and whether all requests before it are on their way.
    fn admits(&self, number: u64) -> bool {
        let counts = self.requests.get(&number).is_some_and(Request::is_answered_at_once);
        self.held_back.is_empty() && (!counts || self.open < self.window)
    }

    /// A request is sent.
    fn enter_window(&mut self, number: u64) {
        if let Some(request) = self.requests.get_mut(&number) {
            request.sent = true;
            if request.is_answered_at_once() && !request.in_window {
                request.in_window = true;
                self.open += 1;
            }
        }
    }
}

impl Request {
    pub(crate) fn new(what: What, reply: Option<oneshot::Sender<Answer>>) -> Self {
        Self { what, reply, waits: None, sent: false, in_window: false, abandoned: false }
    }

    /// Whether it is to be granted at once or not at all.
    pub(crate) fn is_impatient(&self) -> bool {
        match &self.what {
            What::Acquire(acquire) => acquire.timeout_ms == Some(0),
            What::Campaign(campaign) => campaign.timeout_ms == Some(0),
            _ => false,
        }
    }

    /// Whether its answer is the only thing that tells what came of it: it does not wait, or holds once more what
    /// is held.
    fn is_answered_at_once(&self) -> bool {
        match &self.what {
            What::Acquire(acquire) => acquire.reentrant || acquire.timeout_ms == Some(0),
            What::Campaign(campaign) => campaign.timeout_ms == Some(0),
            What::Upgrade(upgrade) => upgrade.timeout_ms == Some(0),
            _ => true,
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
        waits: Option<oneshot::Sender<()>>,
    ) -> Option<u64> {
        let tracked =
            self.sessions.get_mut(&session).filter(|tracked| tracked.closing.is_none())?;
        if let What::Upgrade(v1::Upgrade { token, .. })
        | What::Downgrade(v1::Downgrade { token, .. }) = &what
            && let Some(held) = tracked.holds.get_mut(token)
        {
            held.changing = true;
        }
        let number = tracked.add(Request { waits, ..Request::new(what, reply) });
        self.send_request(session, number);
        Some(number)
    }

    pub(crate) fn send_request(&mut self, session: u64, number: u64) {
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        if tracked.paused.is_some() || self.outbox.is_none() {
            return;
        }
        if !tracked.admits(number) {
            tracked.held_back.push_back(number);
            return;
        }
        tracked.enter_window(number);
        let received = tracked.received();
        let Some(request) = tracked.requests.get(&number) else { return };
        let what = Some(request.what.clone());
        self.send(Ask { session, id: number, received, what, key: 0 });
    }

    /// Sends what was held back, as far as there is room for the answers.
    pub(crate) fn send_held_back(&mut self, session: u64) {
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        let mut waiting = std::mem::take(&mut tracked.held_back);
        while let Some(number) = waiting.pop_front() {
            let Some(tracked) = self.sessions.get_mut(&session) else { return };
            if !tracked.admits(number) {
                waiting.push_front(number);
                tracked.held_back = waiting;
                return;
            }
            self.send_request(session, number);
        }
    }

    /// Gives up waiting for the answer to a request. If that came just now, what came of it is given back.
    pub(crate) fn abandon(
        &mut self,
        session: u64,
        number: u64,
        answer: &mut oneshot::Receiver<Answer>,
    ) {
        answer.close();
        match answer.try_recv() {
            Ok(Ok(Outcome::Held(hold))) => return self.release(session, &hold),
            Ok(Ok(Outcome::Leads(term))) => return self.resign(session, &term),
            Ok(_) => return,
            Err(_) => {}
        }
        let Some(tracked) = self.sessions.get(&session) else { return };
        if tracked.requests.contains_key(&number) {
            return self.give_up(session, number);
        }
        // It was asked again under another number.
        let closed =
            |request: &Request| request.reply.as_ref().is_some_and(oneshot::Sender::is_closed);
        let again = tracked.requests.iter().find(|(_, request)| closed(request));
        if let Some((&number, _)) = again {
            self.give_up(session, number);
        }
    }

    /// Sees to it that nothing comes of a request.
    pub(crate) fn give_up(&mut self, session: u64, number: u64) {
        let Some(tracked) = self.sessions.get_mut(&session) else { return };
        let Some(request) = tracked.requests.get_mut(&number) else { return };
        (request.reply, request.waits) = (None, None);
        match request.what.clone() {
            What::Acquire(_) | What::Campaign(_) if !request.sent => {
                tracked.remove(number);
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

    /// What has to be asked for a leadership to be given up, or to confirm that it is over.
    pub(crate) fn resignation_of(&mut self, session: u64, term: &Term) -> Option<What> {
        let led = self.sessions.get_mut(&session)?.terms.remove(&term.number);
        led.map(|_| {
            let (election, term) = (term.election.clone(), term.number);
            What::Resign(v1::Resign { election, term })
        })
    }

    /// Asks whether something is still held, by asking for it again: who has it is told, and who has lost it is
    /// told that.
    pub(crate) fn confirm(&self, session: u64, token: u64) {
        let Some(tracked) = self.sessions.get(&session) else { return };
        if let Some(held) = tracked.holds.get(&token) {
            let (id, received) = (held.request, tracked.received());
            self.send(Ask { session, id, received, key: 0, what: Some(held.what.clone()) });
        }
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
            let led = tracked.terms.values().filter(|led| !led.over);
            let led = led.map(|led| (led.request, &led.what));
            for (id, what) in held.chain(led) {
                asks.push(Ask { session, id, received, key: 0, what: Some(what.clone()) });
            }
            tracked.open = 0;
            tracked.held_back.clear();
            tracked.requests.values_mut().for_each(|request| request.in_window = false);
            let again = tracked.requests.iter().filter(|(_, request)| request.is_repeated());
            for id in again.map(|(&id, _)| id).collect::<Vec<_>>() {
                if !tracked.admits(id) {
                    tracked.held_back.push_back(id);
                    continue;
                }
                tracked.enter_window(id);
                let what = Some(tracked.requests[&id].what.clone());
                asks.push(Ask { session, id, received, key: 0, what });
            }
        }
        let closing = tracked.closing.is_some();
        asks.into_iter().for_each(|ask| self.send(ask));
        if closing {
            self.send_close(session);
        }
    }
}
