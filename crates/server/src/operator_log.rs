//! The operator log: sessions that expired and what they held, deadlocks that were broken, and what was taken by force.
//!
//! Each is one event of `tracing`, with the text for people and the parts of it for programs. Names and reasons are
//! chosen by clients; they are written without control characters, so that none can forge a line of its own.

use std::fmt::Write as _;

use conclave_machine::{
    Agent, Cause, Command, Deposed, Event, Link, Machine, Name, Origin, Owner, SessionId, Time,
};

/// How many waits of a cycle are named, and how many things that an expired session held.
const NAMED: usize = 8;
/// How many sessions that expire at once are named; the others are counted.
const EXPIRED: usize = 64;

/// What will not be known any more when a command is done.
#[derive(Default)]
pub(crate) struct Before {
    /// What an operator has ordered.
    order: Option<Order>,
    /// Sessions whose time is over, and the names that people know them by.
    overdue: Vec<(SessionId, String)>,
}

/// A command by an operator.
struct Order {
    reason: Name,
    /// Whose session is to end.
    whose: String,
    /// Whether that is all sessions of an origin.
    all: bool,
    /// Which operator, if that is known.
    by: Option<String>,
}

/// A line of the log.
#[derive(Debug, Default, PartialEq, Eq)]
struct Entry {
    /// What programs go by.
    event: &'static str,
    text: String,
    session: Option<u64>,
    lock: Option<String>,
    election: Option<String>,
    token: Option<u64>,
    by: Option<String>,
    reason: Option<String>,
    /// Whether it is what happens every day.
    is_usual: bool,
}

impl Before {
    /// Takes note of what a command that is written at `at` may end.
    pub(crate) fn of(at: Time, command: &Command, by: Option<&str>, machine: &Machine) -> Self {
        let overdue = machine.overdue(at).take(EXPIRED);
        let overdue = overdue.map(|session| (session, whose(session, machine))).collect();
        Self { order: Order::of(command, by, machine), overdue }
    }

    /// Writes down what has come of it.
    pub(crate) fn log(&self, events: &[Event], machine: &Machine) {
        self.entries(events, machine).iter().for_each(Entry::write);
    }

    fn entries(&self, events: &[Event], machine: &Machine) -> Vec<Entry> {
        let mut entries = Vec::new();
        // What an expired session held is released just before it ends.
        let (mut held, mut expired, mut expelled) = (Vec::new(), 0_usize, 0_usize);
        for event in events {
            match (event, &self.order) {
                (Event::Deadlock { victim, cycle }, _) => {
                    entries.push(deadlock(*victim, cycle, machine));
                }
                (Event::Released { lock, agent, token, cause: Cause::Forced }, Some(order)) => {
                    let from = who(*agent, machine);
                    entries.push(order.entry(Entry {
                        event: "lock-forced",
                        text: format!("{} was taken from {from}, token {}", clean(lock), token.0),
                        session: Some(agent.session.0),
                        lock: Some(clean(lock)),
                        token: Some(token.0),
                        ..Entry::default()
                    }));
                }
                (
                    Event::Deposed(Deposed {
                        election, session, term, cause: Cause::Forced, ..
                    }),
                    Some(order),
                ) => {
                    let (whose, election) = (whose(*session, machine), clean(election));
                    entries.push(order.entry(Entry {
                        event: "leader-deposed",
                        text: format!(
                            "{whose} was deposed as leader of {election}, term {}",
                            term.0
                        ),
                        session: Some(session.0),
                        election: Some(election),
                        token: Some(term.0),
                        ..Entry::default()
                    }));
                }
                (Event::Ended { cause: Cause::Expelled, .. }, Some(order)) if order.all => {
                    expelled += 1;
                }
                (Event::Ended { session, cause: Cause::Expelled }, Some(order)) => {
                    entries.push(order.entry(Entry {
                        event: "session-expelled",
                        text: format!("{} was expelled", order.whose),
                        session: Some(session.0),
                        ..Entry::default()
                    }));
                }
                (Event::Released { lock, token, cause: Cause::Expired, .. }, _) => {
                    held.push(format!("{} (token {})", clean(lock), token.0));
                }
                (Event::Deposed(Deposed { election, term, cause: Cause::Expired, .. }), _) => {
                    held.push(format!("the election {} (term {})", clean(election), term.0));
                }
                (Event::Ended { session, cause: Cause::Expired }, _) => {
                    let held = std::mem::take(&mut held);
                    match self.overdue.iter().find(|(overdue, _)| overdue == session) {
                        Some((_, whose)) => entries.push(expiry(*session, whose, &held)),
                        None => expired += 1,
                    }
                }
                _ => {}
            }
        }
        if let Some(order) = &self.order
            && expelled > 0
        {
            let text = format!("{expelled} sessions {} were expelled", order.whose);
            let entry = Entry { event: "sessions-expelled", text, ..Entry::default() };
            entries.push(order.entry(entry));
        }
        if expired > 0 {
            let text = format!("{expired} more sessions expired at the same time");
            entries.push(Entry { event: "sessions-expired", text, ..Entry::default() });
        }
        entries
    }
}

impl Order {
    fn of(command: &Command, by: Option<&str>, machine: &Machine) -> Option<Self> {
        let (reason, whose) = match command {
            Command::ForceRelease { reason, .. } | Command::Depose { reason, .. } => {
                (reason, String::new())
            }
            Command::Expel { session, reason } => (reason, whose(*session, machine)),
            Command::ExpelAll { origin, reason } => {
                let theirs = match origin {
                    Origin::Token(name) => format!("opened with the token {}", clean(name)),
                    Origin::Host(host) => format!("of the host {}", clean(host)),
                    Origin::Address(address) => format!("from {}", clean(address)),
                };
                (reason, theirs)
            }
            _ => return None,
        };
        let all = matches!(command, Command::ExpelAll { .. });
        Some(Self { reason: reason.clone(), whose, all, by: by.map(clean) })
    }

    /// Adds which operator did it, and why.
    fn entry(&self, mut entry: Entry) -> Entry {
        let reason = clean(&self.reason);
        if let Some(by) = &self.by {
            let _ = write!(entry.text, " by {by}");
        }
        let _ = write!(entry.text, ": {reason}");
        Entry { by: self.by.clone(), reason: Some(reason), ..entry }
    }
}

impl Entry {
    fn write(&self) {
        let Self { event, text, session, token, is_usual, .. } = self;
        let (lock, election) = (self.lock.as_deref(), self.election.as_deref());
        let (by, reason) = (self.by.as_deref(), self.reason.as_deref());
        if *is_usual {
            tracing::info!(event, session, lock, election, token, by, reason, "{text}");
        } else {
            tracing::warn!(event, session, lock, election, token, by, reason, "{text}");
        }
    }
}

/// A session that was not renewed in time.
fn expiry(session: SessionId, whose: &str, held: &[String]) -> Entry {
    let mut text = format!("{whose} expired");
    let mut named: Vec<&str> = held.iter().take(NAMED).map(String::as_str).collect();
    let more = format!("{} more", held.len().saturating_sub(NAMED));
    if held.len() > NAMED {
        named.push(&more);
    }
    if !named.is_empty() {
        let _ = write!(text, " and lost {}", named.join(", "));
    }
    let (session, is_usual) = (Some(session.0), held.is_empty());
    Entry { event: "session-expired", text, session, is_usual, ..Entry::default() }
}

fn deadlock(victim: Agent, cycle: &[Link], machine: &Machine) -> Entry {
    let waits =
        |link: &Link| format!("{} waits for {}", who(link.waiter, machine), clean(&link.lock));
    let mut links: Vec<String> = cycle.iter().take(NAMED).map(waits).collect();
    if cycle.len() > NAMED {
        links.push(format!("and {} more", cycle.len() - NAMED));
    }
    let refused = cycle.iter().find(|link| link.waiter == victim).map(|link| clean(&link.lock));
    let lock = refused.clone();
    let refused = refused.map_or_else(String::new, |lock| format!(" {lock}"));
    let text =
        format!("deadlock: {}; {} was refused{refused}", links.join(", "), who(victim, machine));
    Entry { event: "deadlock", text, session: Some(victim.session.0), lock, ..Entry::default() }
}

/// A session, as people know it.
fn whose(session: SessionId, machine: &Machine) -> String {
    who(Agent { session, owner: Owner(0) }, machine)
}

/// An agent, as people know it.
fn who(agent: Agent, machine: &Machine) -> String {
    match machine.who(agent) {
        Some(known) => format!("{}@{} ({agent})", clean(&known.name), clean(&known.host)),
        None => agent.to_string(),
    }
}

/// Text that a client has chosen, on one line.
pub(crate) fn clean(text: &str) -> String {
    let escaped = text.chars().flat_map(|c| {
        let odd = c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        if odd { c.escape_default().collect::<Vec<_>>() } else { vec![c] }
    });
    escaped.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use conclave_machine::{
        Acquire, Call, Config, Open, Reply, RequestId, SessionId, Time, Token, Via,
    };

    use super::*;

    /// A machine, and what is logged of it.
    struct World {
        machine: Machine,
        log: Vec<Entry>,
        now: Time,
        requests: u64,
    }

    impl World {
        fn new() -> Self {
            let machine = Machine::new(Config::default());
            Self { machine, log: Vec::new(), now: Time::ZERO, requests: 0 }
        }

        fn apply(&mut self, command: Command) -> Result<Reply, conclave_machine::Error> {
            let before = Before::of(self.now, &command, Some("ops"), &self.machine);
            let mut events = Vec::new();
            let reply = self.machine.apply(self.now, command, &mut events);
            self.log.append(&mut before.entries(&events, &self.machine));
            reply
        }

        fn open(&mut self, name: &str) -> SessionId {
            let (name, host, ttl) = (name.into(), "here".into(), Duration::from_secs(10));
            match self.apply(Command::Open(Open { name, host, ttl, ..Open::default() })) {
                Ok(Reply::Opened { session, .. }) => session,
                other => panic!("{other:?}"),
            }
        }

        fn acquire(&mut self, session: SessionId, lock: &str) {
            self.requests += 1;
            let (request, received) = (RequestId(self.requests), RequestId(0));
            let call = Call::Acquire(Acquire::exclusive(lock));
            // Whether it has to wait, or may not even do that, is seen otherwise.
            let via = Via::Stream;
            let _ = self.apply(Command::Request { session, request, received, via, call });
        }

        /// The text of all that was logged.
        fn lines(&self) -> Vec<&str> {
            self.log.iter().map(|entry| entry.text.as_str()).collect()
        }
    }

    #[test]
    fn a_deadlock_is_told_with_all_who_are_in_it_and_who_was_refused() {
        let mut world = World::new();
        let (one, two) = (world.open("one"), world.open("two"));
        for (session, lock) in [(one, "x"), (two, "y"), (one, "y"), (two, "x")] {
            world.acquire(session, lock);
        }
        let lines = world.lines();
        let [line] = lines.as_slice() else { panic!("there was one deadlock: {lines:?}") };
        for part in [
            "deadlock: ",
            "one@here (session 1) waits for y",
            "two@here (session 2) waits for x",
            "; two@here (session 2) was refused x",
        ] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn what_is_taken_by_force_is_told_with_the_reason_and_on_one_line() {
        let mut world = World::new();
        let one = world.open("one\nconclave: forged");
        world.acquire(one, "x\u{1b}[2J");
        let reason: Name = "it\r\nhangs".into();
        let lock: Name = "x\u{1b}[2J".into();
        let take = Command::ForceRelease { lock, token: Some(Token(1)), reason: reason.clone() };
        world.apply(take).expect("it is held");
        world.apply(Command::Expel { session: one, reason }).expect("it is there");
        // What is refused is not told.
        let again = Command::Expel { session: one, reason: "again".into() };
        world.apply(again).expect_err("it is gone");
        let whose = "one\\nconclave: forged@here (session 1)";
        assert_eq!(
            world.lines(),
            [
                format!("x\\u{{1b}}[2J was taken from {whose}, token 1 by ops: it\\r\\nhangs"),
                format!("{whose} was expelled by ops: it\\r\\nhangs"),
            ]
        );
    }

    #[test]
    fn an_expired_session_is_logged_with_what_it_lost() {
        let mut world = World::new();
        let one = world.open("one");
        world.acquire(one, "x");
        world.open("two");
        world.now = Time::from_millis(10_000);
        world.apply(Command::Tick).expect("time passes");
        let lines =
            ["one@here (session 1) expired and lost x (token 1)", "two@here (session 2) expired"];
        assert_eq!(world.lines(), lines);
        assert_eq!([false, true], [world.log[0].is_usual, world.log[1].is_usual]);
    }

    #[test]
    fn of_many_sessions_that_expire_at_once_some_are_named_and_the_others_counted() {
        let mut world = World::new();
        for _ in 0..EXPIRED + 10 {
            world.open("one");
        }
        world.now = Time::from_millis(10_000);
        world.apply(Command::Tick).expect("time passes");
        assert_eq!(world.log.len(), EXPIRED + 1);
        assert_eq!(world.log[EXPIRED].text, "10 more sessions expired at the same time");
    }

    #[test]
    fn text_and_parts_are_written_as_one_event() {
        use std::sync::{Arc, Mutex};
        #[derive(Clone, Default)]
        struct Capture(Arc<Mutex<Vec<String>>>);
        impl tracing::field::Visit for Capture {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.lock().expect("sound").push(format!("{}={value:?}", field.name()));
            }
        }
        impl tracing::Subscriber for Capture {
            fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
                true
            }
            fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
                tracing::span::Id::from_u64(1)
            }
            fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
            fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
            fn event(&self, event: &tracing::Event<'_>) {
                event.record(&mut self.clone());
            }
            fn enter(&self, _: &tracing::span::Id) {}
            fn exit(&self, _: &tracing::span::Id) {}
        }
        let seen = Capture::default();
        let (text, session) = ("one expired".to_owned(), Some(7));
        let entry = Entry { event: "session-expired", text, session, ..Entry::default() };
        tracing::subscriber::with_default(seen.clone(), || entry.write());
        let seen = seen.0.lock().expect("sound");
        assert_eq!(*seen, ["message=one expired", "event=\"session-expired\"", "session=7"]);
    }
}
