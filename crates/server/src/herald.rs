//! What operators are told as it happens: deadlocks that were broken, and what was taken by force.
//!
//! Each is one line of text, made only if somebody reads it. So many may wait to be read and no more; who is
//! further behind is told how many it has missed. What others have chosen, names and reasons, is shown without
//! control characters, so that nobody can write a line of its own.

use std::sync::Arc;

use conclave_machine::{Agent, Cause, Command, Event, Link, Machine, Name, Owner};
use tokio::sync::broadcast::{self, error::RecvError};

/// How many lines may wait to be read.
const BEHIND: usize = 256;
/// How many waits of a cycle are named.
const NAMED: usize = 8;

/// Tells whoever listens.
pub(crate) struct Herald(broadcast::Sender<Arc<str>>);

impl Default for Herald {
    fn default() -> Self {
        Self(broadcast::Sender::new(BEHIND))
    }
}

/// What an operator has ordered, with what will not be known any more when it is done.
pub(crate) struct Order {
    reason: Name,
    /// Whose session is to end.
    whose: String,
    /// Which operator, if that is known.
    by: Option<String>,
}

impl Herald {
    /// From now on, somebody listens.
    pub(crate) fn listen(&self) -> Notices {
        Notices(self.0.subscribe())
    }

    /// Takes note of a command by an operator, before it is carried out.
    pub(crate) fn order(
        &self,
        command: &Command,
        by: Option<&str>,
        machine: &Machine,
    ) -> Option<Order> {
        let (reason, whose) = match command {
            Command::ForceRelease { reason, .. } | Command::Depose { reason, .. } => {
                (reason, String::new())
            }
            Command::Expel { session, reason } => {
                let agent = Agent { session: *session, owner: Owner(0) };
                (reason, who(agent, machine))
            }
            _ => return None,
        };
        if self.0.receiver_count() == 0 {
            return None;
        }
        Some(Order { reason: reason.clone(), whose, by: by.map(str::to_owned) })
    }

    /// Tells what has come of a command.
    pub(crate) fn tell(&self, order: Option<&Order>, events: &[Event], machine: &Machine) {
        for event in events {
            let line = match (event, order) {
                (Event::Deadlock { victim, cycle }, _) if self.0.receiver_count() > 0 => {
                    deadlock(*victim, cycle, machine)
                }
                (Event::Released { lock, agent, token, cause: Cause::Forced }, Some(order)) => {
                    let from = who(*agent, machine);
                    let token = token.0;
                    format!("{} was taken from {from}, token {token}{}", clean(lock), order.why())
                }
                (Event::Deposed { election, session, term, cause: Cause::Forced }, Some(order)) => {
                    let agent = Agent { session: *session, owner: Owner(0) };
                    let (whose, term) = (who(agent, machine), term.0);
                    let election = clean(election);
                    format!(
                        "{whose} was deposed as leader of {election}, term {term}{}",
                        order.why()
                    )
                }
                (Event::Ended { cause: Cause::Expelled, .. }, Some(order)) => {
                    format!("{} was expelled{}", order.whose, order.why())
                }
                _ => continue,
            };
            // If nobody listens any more, that is their affair.
            let _ = self.0.send(line.into());
        }
    }
}

impl Order {
    fn why(&self) -> String {
        let by = self.by.as_ref().map_or_else(String::new, |by| format!(" by {}", clean(by)));
        format!("{by}: {}", clean(&self.reason))
    }
}

fn deadlock(victim: Agent, cycle: &[Link], machine: &Machine) -> String {
    let waits =
        |link: &Link| format!("{} waits for {}", who(link.waiter, machine), clean(&link.lock));
    let mut links: Vec<String> = cycle.iter().take(NAMED).map(waits).collect();
    if cycle.len() > NAMED {
        links.push(format!("and {} more", cycle.len() - NAMED));
    }
    let refused = cycle.iter().find(|link| link.waiter == victim);
    let refused = refused.map_or_else(String::new, |link| format!(" {}", clean(&link.lock)));
    format!("deadlock: {}; {} was refused{refused}", links.join(", "), who(victim, machine))
}

/// Somebody, as people know it.
fn who(agent: Agent, machine: &Machine) -> String {
    match machine.who(agent) {
        Some(known) => format!("{}@{} ({agent})", clean(&known.name), clean(&known.host)),
        None => agent.to_string(),
    }
}

/// Text that somebody else has chosen, on one line.
fn clean(text: &str) -> String {
    let escaped = text.chars().flat_map(|c| {
        let odd = c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        if odd { c.escape_default().collect::<Vec<_>>() } else { vec![c] }
    });
    escaped.collect()
}

/// What operators want to know of, line by line: deadlocks that were broken, and what was taken by force and
/// why. It ends with the node.
///
/// To wait for the next blocks, so that whatever writes them down can take its time: it needs a thread of its own.
pub struct Notices(broadcast::Receiver<Arc<str>>);

impl Iterator for Notices {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        match self.0.blocking_recv() {
            Ok(line) => Some(line.to_string()),
            Err(RecvError::Lagged(missed)) => {
                Some(format!("too much happens to write it all down: {missed} lines are missing"))
            }
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use conclave_machine::{Acquire, Call, Config, Open, Reply, RequestId, SessionId, Time, Token};

    use super::*;

    /// A machine, and whoever reads what is told of it.
    struct World {
        machine: Machine,
        herald: Herald,
        requests: u64,
    }

    impl World {
        fn new() -> Self {
            let machine = Machine::new(Config::default());
            Self { machine, herald: Herald::default(), requests: 0 }
        }

        fn apply(&mut self, command: Command) -> Result<Reply, conclave_machine::Error> {
            let order = self.herald.order(&command, Some("ops"), &self.machine);
            let mut events = Vec::new();
            let reply = self.machine.apply(Time::ZERO, command, &mut events);
            self.herald.tell(order.as_ref(), &events, &self.machine);
            reply
        }

        fn open(&mut self, name: &str) -> SessionId {
            let (name, host, ttl) = (name.into(), "here".into(), Duration::from_secs(10));
            match self.apply(Command::Open(Open { name, host, ttl, priority: 0, key: 0xfeed })) {
                Ok(Reply::Opened { session }) => session,
                other => panic!("{other:?}"),
            }
        }

        fn acquire(&mut self, session: SessionId, lock: &str) {
            self.requests += 1;
            let (request, received) = (RequestId(self.requests), RequestId(0));
            let call = Call::Acquire(Acquire::exclusive(lock));
            // Whether it has to wait, or may not even do that, is seen otherwise.
            let _ = self.apply(Command::Request { session, request, received, call });
        }

        /// All lines that were told until now.
        fn read(self, notices: Notices) -> Vec<String> {
            drop(self);
            notices.collect()
        }
    }

    #[test]
    fn a_deadlock_is_told_with_all_who_are_in_it_and_who_was_refused() {
        let mut world = World::new();
        let notices = world.herald.listen();
        let (one, two) = (world.open("one"), world.open("two"));
        for (session, lock) in [(one, "x"), (two, "y"), (one, "y"), (two, "x")] {
            world.acquire(session, lock);
        }
        let lines = world.read(notices);
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
        let notices = world.herald.listen();
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
            world.read(notices),
            [
                format!("x\\u{{1b}}[2J was taken from {whose}, token 1 by ops: it\\r\\nhangs"),
                format!("{whose} was expelled by ops: it\\r\\nhangs"),
            ]
        );
    }

    #[test]
    fn who_does_not_read_is_told_how_much_it_has_missed() {
        let mut world = World::new();
        let notices = world.herald.listen();
        for _ in 0..BEHIND + 10 {
            let session = world.open("one");
            world.apply(Command::Expel { session, reason: "full".into() }).expect("it is there");
        }
        let lines = world.read(notices);
        assert_eq!(lines.len(), BEHIND + 1);
        assert!(lines[0].contains("10 lines are missing"), "{}", lines[0]);
    }
}
