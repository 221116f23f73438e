//! The state of a client, and a server whose messages a test chooses.

use std::time::Duration;

use conclave_api::v1::ask::What as Operation;
use conclave_api::v1::tell::What as ServerMessage;
use conclave_api::v1::{self, Ask, Tell};
use tokio::sync::{mpsc, oneshot};

use crate::requests::Answer;
use crate::state::{Outcome, State};
use crate::time::TimeSource;
use crate::{Acquire, Error, Loss};

const SESSION: u64 = 7;

/// The state of a client with a session that lives for a minute, and what it sends.
struct Fixture {
    state: State,
    sent: mpsc::UnboundedReceiver<Ask>,
}

impl Fixture {
    fn new() -> Self {
        let (outbox, sent) = mpsc::unbounded_channel();
        let mut state = State::default();
        state.outbox = Some(outbox);
        let mut opened = state.open(v1::Open::default());
        let mut fixture = Self { state, sent };
        let (_, id, _) = fixture.next().expect("it asks for a session");
        let ttl_ms = 60_000;
        fixture.receive(
            0,
            id,
            ServerMessage::Opened(v1::Opened {
                session: SESSION,
                key: 5,
                ttl_ms,
                window: 32,
                deposed: Vec::new(),
            }),
        );
        assert_eq!(opened.try_recv().expect("message").expect("given").id, SESSION);
        fixture
    }

    fn receive(&mut self, session: u64, id: u64, message: ServerMessage) {
        self.state.receive(Tell { session, id, what: Some(message) });
    }

    fn fail(&mut self, id: u64, code: &str) {
        let failed = v1::Failed { code: code.to_owned(), ..v1::Failed::default() };
        self.receive(SESSION, id, ServerMessage::Failed(Box::new(failed)));
    }

    fn grant(&mut self, id: u64, token: u64) {
        let granted = v1::Granted { token, epochs: vec![token], depth: 1 };
        self.receive(SESSION, id, ServerMessage::Granted(granted));
    }

    /// What was sent next: for which session, under which number, and what.
    fn next(&mut self) -> Option<(u64, u64, Operation)> {
        let ask = self.sent.try_recv().ok()?;
        Some((ask.session, ask.id, ask.what.expect("something is asked")))
    }

    fn sent(&mut self) -> Vec<(u64, &'static str)> {
        let mut sent = Vec::new();
        while let Some((_, id, operation)) = self.next() {
            let kind = match operation {
                Operation::Attach(_) => "attach",
                Operation::Acquire(_) => "acquire",
                Operation::Upgrade(_) => "upgrade",
                Operation::Release(_) => "release",
                Operation::ReleaseAll(_) => "release all",
                Operation::Cancel(_) => "cancel",
                Operation::Close(_) => "close",
                Operation::KeepAlive(_) => "renew",
                _ => "other",
            };
            sent.push((id & 0xff, kind));
        }
        sent
    }

    fn acquire(&mut self, acquire: Acquire) -> oneshot::Receiver<Answer> {
        let (reply, answer) = oneshot::channel();
        let (operation, _) = acquire.into_operation(0);
        self.state.request(SESSION, operation, Some(reply), None).expect("the session lives");
        answer
    }

    fn is_idle(&self) -> bool {
        let session = &self.state.sessions[&SESSION];
        session.requests.is_empty() && session.holds.is_empty()
    }
}

fn error(answer: &mut oneshot::Receiver<Answer>) -> Error {
    answer.try_recv().expect("it is answered").expect_err("it failed")
}

#[test]
fn what_a_server_cannot_do_now_is_asked_again_in_order() {
    let mut fixture = Fixture::new();
    let mut first = fixture.acquire(Acquire::exclusive("a"));
    let mut second = fixture.acquire(Acquire::exclusive("b"));
    assert_eq!(fixture.sent(), [(1, "acquire"), (2, "acquire")]);
    fixture.fail(1, "unavailable");
    // What comes meanwhile is not to overtake it.
    let mut third = fixture.acquire(Acquire::exclusive("c"));
    assert!(fixture.sent().is_empty());
    fixture.state.tick(TimeSource::Machine.now().plus(Duration::from_secs(1)));
    let expected = [(0, "attach"), (1, "acquire"), (2, "acquire"), (3, "acquire")];
    assert_eq!(fixture.sent(), expected);
    for (id, answer) in [(1, &mut first), (2, &mut second), (3, &mut third)] {
        fixture.grant(id, id + 10);
        assert!(matches!(answer.try_recv(), Ok(Ok(Outcome::Held(_)))));
    }
}

#[test]
fn who_does_not_want_to_wait_is_told_that_the_server_cannot() {
    let mut fixture = Fixture::new();
    let mut answer = fixture.acquire(Acquire::exclusive("a").at_once());
    fixture.fail(1, "unavailable");
    assert!(matches!(error(&mut answer), Error::Unavailable(_)));
    fixture.state.tick(TimeSource::Machine.now().plus(Duration::from_secs(1)));
    // It may have been granted all the same, and is undone; it is not asked again.
    assert_eq!(fixture.sent(), [(1, "acquire"), (0, "attach"), (2, "cancel")]);
    fixture.grant(1, 11);
    fixture.receive(SESSION, 2, ServerMessage::Done(v1::Done {}));
    assert!(fixture.is_idle());
}

#[test]
fn a_request_whose_answer_was_forgotten_is_made_anew_and_can_still_be_given_up() {
    let mut fixture = Fixture::new();
    let mut answer = fixture.acquire(Acquire::exclusive("a"));
    fixture.fail(1, "forgotten");
    assert_eq!(fixture.sent(), [(1, "acquire"), (2, "acquire")]);
    assert!(answer.try_recv().is_err());
    fixture.state.abandon(SESSION, 1, &mut answer);
    assert_eq!(fixture.sent(), [(3, "cancel")]);
    fixture.receive(SESSION, 3, ServerMessage::Done(v1::Done {}));
    assert!(fixture.is_idle());
}

#[test]
fn what_is_given_up_is_undone_whenever_that_is() {
    // Before it is sent.
    let mut fixture = Fixture::new();
    let outbox = fixture.state.outbox.take();
    let mut answer = fixture.acquire(Acquire::exclusive("a"));
    fixture.state.abandon(SESSION, 1, &mut answer);
    assert!(fixture.is_idle());
    fixture.state.outbox = outbox;
    // Before it is answered; the answer that comes all the same changes nothing.
    let mut answer = fixture.acquire(Acquire::exclusive("a"));
    fixture.state.abandon(SESSION, 2, &mut answer);
    fixture.grant(2, 20);
    assert_eq!(fixture.sent(), [(2, "acquire"), (3, "cancel")]);
    fixture.state.repeat(SESSION);
    assert_eq!(fixture.sent(), [(0, "attach"), (3, "cancel")]);
    fixture.receive(SESSION, 3, ServerMessage::Done(v1::Done {}));
    assert!(fixture.is_idle());
    // After it was answered, before the caller looked.
    let mut answer = fixture.acquire(Acquire::exclusive("a"));
    fixture.grant(4, 40);
    fixture.state.abandon(SESSION, 4, &mut answer);
    assert_eq!(fixture.sent(), [(4, "acquire"), (5, "release")]);
    fixture.receive(SESSION, 5, ServerMessage::Released(v1::Released { left: 0 }));
    assert!(fixture.is_idle());
}

#[test]
fn a_new_connection_asks_for_what_is_held_and_learns_what_is_not() {
    let mut fixture = Fixture::new();
    let (mut a, mut b) =
        (fixture.acquire(Acquire::shared("a")), fixture.acquire(Acquire::shared("b")));
    fixture.grant(1, 10);
    fixture.grant(2, 20);
    let Ok(Ok(Outcome::Held(a))) = a.try_recv() else { panic!("it was granted") };
    let Ok(Ok(Outcome::Held(b))) = b.try_recv() else { panic!("it was granted") };
    drop(fixture.sent());
    fixture.state.repeat_all();
    let sent = fixture.sent();
    assert_eq!(sent[..3], [(0, "attach"), (1, "acquire"), (2, "acquire")]);
    assert!(sent.len() == 4 && sent[3].1 == "renew", "{sent:?}");
    fixture.grant(1, 10);
    fixture.fail(2, "forgotten");
    assert_eq!((a.loss.get(), b.loss.get()), (None, Some(Loss::Gone)));
}

#[test]
fn nothing_is_granted_to_a_session_whose_lease_is_over() {
    let mut fixture = Fixture::new();
    let mut answer = fixture.acquire(Acquire::exclusive("a"));
    let liveness = fixture.state.sessions[&SESSION].liveness.clone();
    // The client has not noticed yet, and does not renew it any more.
    assert!(!liveness.lease.lasts(TimeSource::Machine.now().plus(Duration::from_secs(60))));
    fixture.grant(1, 10);
    assert!(matches!(error(&mut answer), Error::SessionLost(Loss::Expired)));
    assert_eq!(fixture.sent(), [(1, "acquire"), (1, "close")]);
    fixture.receive(
        SESSION,
        0,
        ServerMessage::Ended(v1::Ended { cause: v1::Cause::Closed.into() }),
    );
    assert!(fixture.state.sessions.is_empty());
}

#[test]
fn renewals_are_shared_and_a_server_that_does_not_confirm_them_is_suspected() {
    let mut fixture = Fixture::new();
    let begun = TimeSource::Machine.now();
    let at = |seconds| begun.plus(Duration::from_secs(seconds));
    assert!(!fixture.state.tick(at(10)) && fixture.sent().is_empty());
    assert!(!fixture.state.tick(at(20)));
    assert_eq!(fixture.sent().len(), 1);
    // Not confirmed by the time of the next: an echo is asked for, and there is none.
    assert!(!fixture.state.tick(at(40)));
    assert_eq!(fixture.sent().iter().map(|one| one.1).collect::<Vec<_>>(), ["other", "renew"]);
    assert!(!fixture.state.tick(at(44)) && fixture.state.tick(at(48)));
    // Anything that is heard dispels the suspicion.
    assert!(!fixture.state.tick(at(50)));
    fixture.state.repeat_all();
    assert!(fixture.state.suspect.is_none());
}

#[test]
fn a_server_that_falls_silent_is_suspected_also_when_nothing_is_wanted_of_it() {
    let (outbox, mut sent) = mpsc::unbounded_channel();
    let mut state = State::default();
    let begun = TimeSource::Machine.now();
    let at = |seconds| begun.plus(Duration::from_secs(seconds));
    // No server is connected.
    assert!(!state.tick(at(0)) && !state.tick(at(9)));
    state.outbox = Some(outbox);
    assert!(!state.tick(at(10)) && !state.tick(at(14)));
    assert!(sent.try_recv().is_err(), "it is too early to ask");
    assert!(!state.tick(at(15)));
    let asked = sent.try_recv().expect("it asks");
    assert!(matches!(asked.what, Some(Operation::Echo(_))), "{asked:?}");
    // An answer is enough for a while.
    state.receive(Tell {
        id: asked.id,
        what: Some(ServerMessage::Echo(v1::Echo::default())),
        session: 0,
    });
    assert!(!state.tick(at(16)) && !state.tick(at(20)) && !state.tick(at(24)));
    assert!(sent.try_recv().is_err(), "it was heard of");
    assert!(!state.tick(at(25)) && sent.try_recv().is_ok());
    assert!(!state.tick(at(29)) && state.tick(at(30)), "it is given up");
}

#[test]
fn no_more_answers_are_outstanding_than_the_server_keeps() {
    let mut fixture = Fixture::new();
    fixture.state.sessions.get_mut(&SESSION).expect("it lives").window = 2;
    let again = || Acquire::exclusive("a").reentrant();
    let mut nested: Vec<_> = (0..4).map(|_| fixture.acquire(again())).collect();
    // What may wait takes up no room, but nothing overtakes what was asked before.
    let mut patient = fixture.acquire(Acquire::exclusive("b"));
    assert_eq!(fixture.sent(), [(1, "acquire"), (2, "acquire")]);
    fixture.grant(1, 11);
    assert!(matches!(nested[0].try_recv(), Ok(Ok(Outcome::Held(_)))));
    assert_eq!(fixture.sent(), [(3, "acquire")]);
    // One that is told to wait makes room.
    fixture.receive(SESSION, 2, ServerMessage::Waiting(v1::Waiting {}));
    assert_eq!(fixture.sent(), [(4, "acquire"), (5, "acquire")]);
    // Over a new connection it is the same.
    fixture.state.repeat_all();
    let expected = [(0, "attach"), (1, "acquire"), (2, "acquire"), (3, "acquire")];
    assert_eq!(fixture.sent()[..4], expected);
    for (id, token) in [(2, 11), (3, 11), (4, 11), (5, 12)] {
        fixture.grant(id, token);
    }
    assert_eq!(fixture.sent(), [(4, "acquire"), (5, "acquire")]);
    assert!(matches!(patient.try_recv(), Ok(Ok(Outcome::Held(_)))));
}
