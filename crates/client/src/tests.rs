//! The book, and a server that says whatever a test wants it to.

use std::time::Duration;

use conclave_api::v1::ask::What;
use conclave_api::v1::tell::What as Told;
use conclave_api::v1::{self, Ask, Tell};
use tokio::sync::{mpsc, oneshot};

use crate::book::{Book, Outcome};
use crate::requests::Answer;
use crate::time::TimeSource;
use crate::{Acquire, Error, Loss};

const SESSION: u64 = 7;

/// A book with a session that lives for a minute, and what it sends.
struct Desk {
    book: Book,
    sent: mpsc::UnboundedReceiver<Ask>,
}

impl Desk {
    fn new() -> Self {
        let (outbox, sent) = mpsc::unbounded_channel();
        let mut book = Book::default();
        book.outbox = Some(outbox);
        let mut opened = book.open(v1::Open::default());
        let mut desk = Self { book, sent };
        let (_, id, _) = desk.next().expect("it asks for a session");
        let ttl_ms = 60_000;
        desk.hear(
            0,
            id,
            Told::Opened(v1::Opened {
                session: SESSION,
                key: 5,
                ttl_ms,
                window: 32,
                deposed: Vec::new(),
            }),
        );
        assert_eq!(opened.try_recv().expect("told").expect("given").id, SESSION);
        desk
    }

    fn hear(&mut self, session: u64, id: u64, what: Told) {
        self.book.hear(Tell { session, id, what: Some(what) });
    }

    fn fail(&mut self, id: u64, code: &str) {
        let failed = v1::Failed { code: code.to_owned(), ..v1::Failed::default() };
        self.hear(SESSION, id, Told::Failed(Box::new(failed)));
    }

    fn grant(&mut self, id: u64, token: u64) {
        let granted = v1::Granted { token, epochs: vec![token], depth: 1 };
        self.hear(SESSION, id, Told::Granted(granted));
    }

    /// What was sent next: for which session, under which number, and what.
    fn next(&mut self) -> Option<(u64, u64, What)> {
        let ask = self.sent.try_recv().ok()?;
        Some((ask.session, ask.id, ask.what.expect("something is asked")))
    }

    fn sent(&mut self) -> Vec<(u64, &'static str)> {
        let mut sent = Vec::new();
        while let Some((_, id, what)) = self.next() {
            let kind = match what {
                What::Attach(_) => "attach",
                What::Acquire(_) => "acquire",
                What::Upgrade(_) => "upgrade",
                What::Release(_) => "release",
                What::ReleaseAll(_) => "release all",
                What::Cancel(_) => "cancel",
                What::Close(_) => "close",
                What::KeepAlive(_) => "renew",
                _ => "other",
            };
            sent.push((id & 0xff, kind));
        }
        sent
    }

    fn acquire(&mut self, acquire: Acquire) -> oneshot::Receiver<Answer> {
        let (reply, answer) = oneshot::channel();
        let (what, _) = acquire.into_ask(0);
        self.book.ask(SESSION, what, Some(reply), None).expect("the session lives");
        answer
    }

    fn is_idle(&self) -> bool {
        let session = &self.book.sessions[&SESSION];
        session.requests.is_empty() && session.holds.is_empty()
    }
}

fn error(answer: &mut oneshot::Receiver<Answer>) -> Error {
    answer.try_recv().expect("it is answered").expect_err("it failed")
}

#[test]
fn what_a_server_cannot_do_now_is_asked_again_in_order() {
    let mut desk = Desk::new();
    let mut first = desk.acquire(Acquire::exclusive("a"));
    let mut second = desk.acquire(Acquire::exclusive("b"));
    assert_eq!(desk.sent(), [(1, "acquire"), (2, "acquire")]);
    desk.fail(1, "unavailable");
    // What comes meanwhile is not to overtake it.
    let mut third = desk.acquire(Acquire::exclusive("c"));
    assert!(desk.sent().is_empty());
    desk.book.beat(TimeSource::Machine.now().plus(Duration::from_secs(1)));
    let expected = [(0, "attach"), (1, "acquire"), (2, "acquire"), (3, "acquire")];
    assert_eq!(desk.sent(), expected);
    for (id, answer) in [(1, &mut first), (2, &mut second), (3, &mut third)] {
        desk.grant(id, id + 10);
        assert!(matches!(answer.try_recv(), Ok(Ok(Outcome::Held(_)))));
    }
}

#[test]
fn who_does_not_want_to_wait_is_told_that_the_server_cannot() {
    let mut desk = Desk::new();
    let mut answer = desk.acquire(Acquire::exclusive("a").at_once());
    desk.fail(1, "unavailable");
    assert!(matches!(error(&mut answer), Error::Unavailable(_)));
    desk.book.beat(TimeSource::Machine.now().plus(Duration::from_secs(1)));
    // It may have been granted all the same, and is undone; it is not asked again.
    assert_eq!(desk.sent(), [(1, "acquire"), (0, "attach"), (2, "cancel")]);
    desk.grant(1, 11);
    desk.hear(SESSION, 2, Told::Done(v1::Done {}));
    assert!(desk.is_idle());
}

#[test]
fn a_request_whose_answer_was_forgotten_is_made_anew_and_can_still_be_given_up() {
    let mut desk = Desk::new();
    let mut answer = desk.acquire(Acquire::exclusive("a"));
    desk.fail(1, "forgotten");
    assert_eq!(desk.sent(), [(1, "acquire"), (2, "acquire")]);
    assert!(answer.try_recv().is_err());
    desk.book.abandon(SESSION, 1, &mut answer);
    assert_eq!(desk.sent(), [(3, "cancel")]);
    desk.hear(SESSION, 3, Told::Done(v1::Done {}));
    assert!(desk.is_idle());
}

#[test]
fn what_is_given_up_is_undone_whenever_that_is() {
    // Before it is sent.
    let mut desk = Desk::new();
    let outbox = desk.book.outbox.take();
    let mut answer = desk.acquire(Acquire::exclusive("a"));
    desk.book.abandon(SESSION, 1, &mut answer);
    assert!(desk.is_idle());
    desk.book.outbox = outbox;
    // Before it is answered; the answer that comes all the same changes nothing.
    let mut answer = desk.acquire(Acquire::exclusive("a"));
    desk.book.abandon(SESSION, 2, &mut answer);
    desk.grant(2, 20);
    assert_eq!(desk.sent(), [(2, "acquire"), (3, "cancel")]);
    desk.book.repeat(SESSION);
    assert_eq!(desk.sent(), [(0, "attach"), (3, "cancel")]);
    desk.hear(SESSION, 3, Told::Done(v1::Done {}));
    assert!(desk.is_idle());
    // After it was answered, before anybody looked.
    let mut answer = desk.acquire(Acquire::exclusive("a"));
    desk.grant(4, 40);
    desk.book.abandon(SESSION, 4, &mut answer);
    assert_eq!(desk.sent(), [(4, "acquire"), (5, "release")]);
    desk.hear(SESSION, 5, Told::Released(v1::Released { left: 0 }));
    assert!(desk.is_idle());
}

#[test]
fn a_new_connection_asks_for_what_is_held_and_learns_what_is_not() {
    let mut desk = Desk::new();
    let (mut a, mut b) = (desk.acquire(Acquire::shared("a")), desk.acquire(Acquire::shared("b")));
    desk.grant(1, 10);
    desk.grant(2, 20);
    let Ok(Ok(Outcome::Held(a))) = a.try_recv() else { panic!("it was granted") };
    let Ok(Ok(Outcome::Held(b))) = b.try_recv() else { panic!("it was granted") };
    drop(desk.sent());
    desk.book.repeat_all();
    let sent = desk.sent();
    assert_eq!(sent[..3], [(0, "attach"), (1, "acquire"), (2, "acquire")]);
    assert!(sent.len() == 4 && sent[3].1 == "renew", "{sent:?}");
    desk.grant(1, 10);
    desk.fail(2, "forgotten");
    assert_eq!((a.loss(), b.loss()), (None, Some(Loss::Gone)));
}

#[test]
fn nothing_is_granted_to_a_session_whose_lease_is_over() {
    let mut desk = Desk::new();
    let mut answer = desk.acquire(Acquire::exclusive("a"));
    let vital = desk.book.sessions[&SESSION].vital.clone();
    // Nobody has noticed yet, and nobody renews it any more.
    assert!(!vital.lease.lasts(TimeSource::Machine.now().plus(Duration::from_secs(60))));
    desk.grant(1, 10);
    assert!(matches!(error(&mut answer), Error::SessionLost(Loss::Expired)));
    assert_eq!(desk.sent(), [(1, "acquire"), (1, "close")]);
    desk.hear(SESSION, 0, Told::Ended(v1::Ended { cause: v1::Cause::Closed.into() }));
    assert!(desk.book.sessions.is_empty());
}

#[test]
fn renewals_are_shared_and_a_server_that_does_not_confirm_them_is_suspected() {
    let mut desk = Desk::new();
    let begun = TimeSource::Machine.now();
    let at = |seconds| begun.plus(Duration::from_secs(seconds));
    assert!(!desk.book.beat(at(10)) && desk.sent().is_empty());
    assert!(!desk.book.beat(at(20)));
    assert_eq!(desk.sent().len(), 1);
    // Not confirmed by the time of the next: an echo is asked for, and there is none.
    assert!(!desk.book.beat(at(40)));
    assert_eq!(desk.sent().iter().map(|one| one.1).collect::<Vec<_>>(), ["other", "renew"]);
    assert!(!desk.book.beat(at(44)) && desk.book.beat(at(48)));
    // Anything that is heard dispels the suspicion.
    assert!(!desk.book.beat(at(50)));
    desk.book.repeat_all();
    assert!(desk.book.suspect.is_none());
}

#[test]
fn a_server_that_falls_silent_is_suspected_also_when_nothing_is_wanted_of_it() {
    let (outbox, mut sent) = mpsc::unbounded_channel();
    let mut book = Book::default();
    let begun = TimeSource::Machine.now();
    let at = |seconds| begun.plus(Duration::from_secs(seconds));
    // Nobody is there to ask.
    assert!(!book.beat(at(0)) && !book.beat(at(9)));
    book.outbox = Some(outbox);
    assert!(!book.beat(at(10)) && !book.beat(at(14)));
    assert!(sent.try_recv().is_err(), "it is too early to ask");
    assert!(!book.beat(at(15)));
    let asked = sent.try_recv().expect("it asks");
    assert!(matches!(asked.what, Some(What::Echo(_))), "{asked:?}");
    // An answer is enough for a while.
    book.hear(Tell { id: asked.id, what: Some(Told::Echo(v1::Echo::default())), session: 0 });
    assert!(!book.beat(at(16)) && !book.beat(at(20)) && !book.beat(at(24)));
    assert!(sent.try_recv().is_err(), "it was heard of");
    assert!(!book.beat(at(25)) && sent.try_recv().is_ok());
    assert!(!book.beat(at(29)) && book.beat(at(30)), "it is given up");
}

#[test]
fn no_more_answers_are_outstanding_than_the_server_keeps() {
    let mut desk = Desk::new();
    desk.book.sessions.get_mut(&SESSION).expect("it lives").window = 2;
    let again = || Acquire::exclusive("a").reentrant();
    let mut nested: Vec<_> = (0..4).map(|_| desk.acquire(again())).collect();
    // What may wait takes up no room, but nothing overtakes what was asked before.
    let mut patient = desk.acquire(Acquire::exclusive("b"));
    assert_eq!(desk.sent(), [(1, "acquire"), (2, "acquire")]);
    desk.grant(1, 11);
    assert!(matches!(nested[0].try_recv(), Ok(Ok(Outcome::Held(_)))));
    assert_eq!(desk.sent(), [(3, "acquire")]);
    // One that is told to wait makes room.
    desk.hear(SESSION, 2, Told::Waiting(v1::Waiting {}));
    assert_eq!(desk.sent(), [(4, "acquire"), (5, "acquire")]);
    // Over a new connection it is the same.
    desk.book.repeat_all();
    let expected = [(0, "attach"), (1, "acquire"), (2, "acquire"), (3, "acquire")];
    assert_eq!(desk.sent()[..4], expected);
    for (id, token) in [(2, 11), (3, 11), (4, 11), (5, 12)] {
        desk.grant(id, token);
    }
    assert_eq!(desk.sent(), [(4, "acquire"), (5, "acquire")]);
    assert!(matches!(patient.try_recv(), Ok(Ok(Outcome::Held(_)))));
}
