//! The lock manager as one pure state machine: sessions, locks, elections and deadlocks.
//!
//! Commands and their times go in; replies and events come out. Nothing here reads a clock, draws a
//! random number or does any I/O, so the machine can stand behind a replicated log, be checked
//! exhaustively, and be replayed to the last bit.
//!
//! ```
//! use std::time::Duration;
//! use conclave_machine::{
//!     Acquire, Call, Command, Config, Event, Machine, Open, Reply, RequestId, Time, Via,
//! };
//!
//! let mut machine = Machine::new(Config::default());
//! let mut events = Vec::new();
//! let mut open = |machine: &mut Machine, name: &str| {
//!     let (name, host, ttl) = (name.into(), "host".into(), Duration::from_secs(10));
//!     let open = Command::Open(Open { name, host, ttl, priority: 0, ..Open::default() });
//!     match machine.apply(Time::ZERO, open, &mut Vec::new()) {
//!         Ok(Reply::Opened { session, .. }) => session,
//!         other => panic!("{other:?}"),
//!     }
//! };
//! let (backup, restore) = (open(&mut machine, "backup"), open(&mut machine, "restore"));
//!
//! // The first has the lock at once, with a fencing token; the second waits.
//! let request = |session, number, call| Command::Request {
//!     session,
//!     request: RequestId(number),
//!     received: RequestId(number - 1),
//!     via: Via::Stream,
//!     call,
//! };
//! let acquire = Call::Acquire(Acquire::exclusive("disk"));
//! let at = Time::from_millis(1);
//! let reply = machine.apply(at, request(backup, 1, acquire.clone()), &mut events);
//! let Ok(Reply::Granted { token, .. }) = reply else { panic!("the lock is free") };
//! let reply = machine.apply(at, request(restore, 1, acquire), &mut events);
//! assert_eq!(reply, Ok(Reply::Waiting));
//!
//! // When it is released, the second is told, and its token is greater.
//! events.clear();
//! let release = Call::Release { lock: "disk".into(), token, to: None };
//! machine.apply(Time::from_millis(2), request(backup, 2, release), &mut events)?;
//! let answered = events.iter().find_map(|event| match event {
//!     Event::Answered { session, answer: Ok(Reply::Granted { token, .. }), .. } => {
//!         Some((*session, *token))
//!     }
//!     _ => None,
//! });
//! assert!(answered.is_some_and(|(session, later)| session == restore && later > token));
//! # Ok::<(), conclave_machine::Error>(())
//! ```
//!
//! # Time
//!
//! Every command comes with the time at which it was written to the log, by the clock of the
//! writer of the log. Whatever was due by then happens first: sessions that were not kept alive end, waits run out.
//! When something is due and no command comes, the writer of the log writes a [`Command::Tick`]
//! ([`Machine::next_due`] says when). Copies of the machine thus agree on which sessions expired,
//! whatever their own clocks say. The writer of the log leaves out the time in which no lease could be renewed.
//!
//! A client renews its lease from when it *sent* the renewal, and the machine from when that was
//! written, which is later. So the client's lease ends first, as far as the two clocks run alike.
//!
//! # Rules
//!
//! 1. A lock is held exclusively, shared, or as so many of its permits. A request that
//!    cannot be granted at once waits, in the order of arrival. No request overtakes another: not a reader a writer
//!    that waits, nor a small request a large one. An upgrade from shared to exclusive comes first, and a holder may hand
//!    a lock to a waiter by name.
//! 2. A request for several locks has all of them at once or none. It has a place in each queue and holds
//!    nothing while it waits. All its places are taken at the same moment, so of two such requests one is
//!    ahead everywhere, and they cannot be in each other's way.
//! 3. Every grant has a token greater than all before, of any lock ([`Token`]); there is one counter, so
//!    a lock can be forgotten when no session holds or wants it.
//! 4. Whatever ends at a moment has ended before anything is granted at that moment. A session that has
//!    ended is in no queue, so nothing is granted to it.
//! 5. A wait that would close a cycle is answered as the [`Policy`] says.
//! 6. The best candidate of an election leads. A leader that has to yield to a better one is asked, and
//!    has the time it said it needs. Then it is deposed: it is told so, renewals prolong this leadership no
//!    more, and another leads when it has confirmed or its lease has ended, and not before.
//! 7. A request has a number; made again, it is answered again and not carried out twice. So a client that
//!    lost a connection may repeat whatever it has no answer to. One without a number is allotted one, of a range
//!    of its own; it cannot be repeated, so what it was granted is undone if its client hangs up.
//! 8. There is so much of everything and no more ([`Limits`]), and what goes beyond is refused before
//!    memory is taken.
//!
//! # Where to read
//!
//! `command` and `reply` are the language; `machine` takes commands and lets time pass; `requests` answers
//! repetitions, `cancel` undoes requests; `lock` is one
//! lock with its queue; `grants` grants and releases; `waits` keeps the waits and applies the policy, `deadlock`
//! finds cycles; `election`, `session` and `view` are what they say; `snapshot` encodes and decodes the whole state.
//! `tests` compares the machine with a simple model, and explores every state of a small system.

#[cfg(test)]
mod audit;
mod cancel;
mod command;
mod deadlock;
mod election;
mod error;
mod grants;
mod ids;
mod limits;
mod lock;
mod machine;
mod mutation;
mod record;
mod reply;
mod requests;
mod session;
mod slab;
mod snapshot;
#[cfg(test)]
mod tests;
mod time;
mod view;
mod waits;

pub use command::{Acquire, Call, Campaign, Command, Mode, Open, Patience, Want};
pub use error::{Error, Link, Span};
pub use ids::{
    Agent, CallId, KeyDigest, Name, NodeId, Origin, Owner, RequestId, SessionId, Token, Via,
};
pub use limits::{Config, Limits, Policy, Scarce, Victim};
pub use lock::Kind;
pub use machine::Machine;
pub use record::LEVEL;
pub use reply::{Cause, Deposed, Event, Leadership, Reply};
pub use snapshot::{BadSnapshot, Snapshot};
pub use time::Time;
pub use view::{
    Counts, Edge, ElectionView, Forced, HolderView, LockView, SessionView, Tenure, WaiterView,
    Wants, Who, Why,
};
