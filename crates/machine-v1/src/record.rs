//! The state in records of format 2, whose tags are those of `conclave-machine`.

use conclave_record::{
    Unreadable, Value, Wire, choice, codes, put_key, put_nested, record, same_as_inside,
};

use crate::election::Leader;
use crate::ids::Arrival;
use crate::lock::By;
use crate::session::{Outcome, Replies};
use crate::snapshot::{GoalRecord, HoldRecord, LockRecord, SessionRecord, WaitRecord};
use crate::view::Forced;
use crate::waits::Candidacy;
use crate::{
    Agent, Config, Error, Kind, Limits, Link, Mode, Name, Owner, Policy, RequestId, Scarce,
    SessionId, Snapshot, Time, Token, Victim,
};

same_as_inside!(SessionId, RequestId, Owner, Token, Arrival);

impl Value for Time {
    const WIRE: Wire = Wire::Number;

    fn write(&self, out: &mut Vec<u8>) {
        self.as_nanos().write(out);
    }

    fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
        u64::read(input).map(Self::from_nanos)
    }

    fn put(&self, tag: u32, out: &mut Vec<u8>) {
        self.as_nanos().put(tag, out);
    }

    fn absent() -> Option<Self> {
        Some(Self::ZERO)
    }
}

impl Value for Name {
    const WIRE: Wire = Wire::Bytes;

    fn write(&self, out: &mut Vec<u8>) {
        conclave_record::put_bytes(self.as_bytes(), out);
    }

    fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
        conclave_record::read_text(input).map(Self::from)
    }

    fn absent() -> Option<Self> {
        Some(Self::from(""))
    }
}

choice!(Mode;
    unit { 1 Exclusive, 2 Shared }
    one {}
    fields { 3 Permits { 1 take, 2 of } }
);

choice!(Policy; unit { 1 None, 3 WaitDie, 4 WoundWait } one { 2 Detect } fields {});
codes!(Victim { 1 Youngest, 2 FewestLocks, 3 LowestPriority });
record!(LockRecord { 1 name, 2 kind, 3 epoch, 4 holds });
record!(HoldRecord { 1 agent, 2 mode, 3 depth, 4 token, 5 since, 6 request, 7 by });
choice!(GoalRecord;
    unit {}
    one { 1 Locks, 3 Lead }
    fields { 2 Upgrade { 1 lock, 2 token } }
);
record!(Candidacy { 1 election, 2 rank, 3 preempt, 4 grace, 5 value });
record!(Leader { 1 session, 2 term, 3 request, 4 rank, 5 value, 6 grace, 7 since, 8 yield_by });
record!(Forced { 1 at, 2 name, 3 agent, 4 token, 5 reason });
record!(Agent { 1 session, 2 owner });
record!(Link { 1 waiter, 2 lock });
codes!(By { 1 Acquire, 2 Upgrade, 3 Downgrade });
choice!(Kind; unit { 1 ReadWrite } one { 2 Permits } fields {});

record!(Replies { 1 kept, 2 forgotten });
choice!(Outcome;
    unit { 1 Done, 2 Granted, 5 Elected }
    one { 6 Failed }
    fields { 3 Nested { 1 lock, 2 owner }, 4 Released { 1 left } }
);

// A grace period out of bounds has tag 1000 here, and is never written: format 2 says which bounds.
choice!(Error;
    unit {
        3 Lost, 4 SessionEnded, 6 NoName, 7 NoLocks, 9 ReentrantOnlyAlone, 1000 BadSpan, 13 Busy, 15 TimedOut, 16 Cancelled,
    }
    one {
        1 UnknownSession, 2 Forgotten, 8 Twice, 12 OtherKind, 14 Conflict, 17 AlreadyHeld, 18 NeedsUpgrade,
        19 NotShared, 20 NotExclusive, 21 NotHeld, 23 NotWaiting, 24 CannotTake, 28 AlreadyCandidate, 29 NotLeader,
        30 Free,
    }
    fields {
        5 Limit { 1 what, 2 most },
        11 BadPermits { 1 take, 2 of },
        22 StaleToken { 1 lock, 2 token },
        25 Deadlock { 1 cycle },
        26 Died { 1 lock, 2 elder },
        27 Wounded { 1 by },
    }
);
codes!(Scarce {
    1 NameBytes, 2 LabelBytes, 3 ValueBytes, 4 Sessions, 5 Names, 6 LocksPerSession, 7 WaitsPerSession,
    8 WaitersPerLock, 9 LocksPerRequest, 10 Permits, 11 Depth,
});

/// How many sessions one token or address may have; version 0.1 had no such limit.
const PER_ORIGIN: usize = 25_000;
/// The first number that later versions allot to requests without one.
const ALLOTTED: u64 = 1 << 63;

impl Snapshot {
    /// The state as a record of format 2, in which sessions have digests of their keys.
    pub fn to_records(mut self, digest: impl Fn(u64) -> [u8; 32]) -> Vec<u8> {
        // Version 0.1 counted leases by a clock that stood still while it was stalled; there is one clock now.
        let stalled = std::mem::take(&mut self.stalled);
        for session in &mut self.sessions {
            session.deadline = session.deadline + stalled;
            // A request that is made again without an answer is carried out again, and fails again.
            let bounds = |outcome: &Outcome| matches!(outcome, Outcome::Failed(error) if **error == Error::BadSpan);
            session.replies.kept.retain(|(_, outcome)| !bounds(outcome));
        }
        for wait in &mut self.waits {
            wait.until = wait.until.map(|until| until + stalled);
        }
        for leader in self.elections.iter_mut().filter_map(|(_, leader)| leader.as_mut()) {
            leader.yield_by = leader.yield_by.map(|by| by + stalled);
        }
        let mut out = Vec::new();
        put_nested(&mut out, |out| {
            2_u32.put(1, out);
            put_config(&self.config, 2, out);
            self.now.put(3, out);
            self.last_token.put(5, out);
            self.last_session.put(6, out);
            self.last_arrival.put(7, out);
            for session in &self.sessions {
                put_session(session, digest(session.key), 8, out);
            }
            self.locks.put(9, out);
            for wait in &self.waits {
                put_wait(wait, 10, out);
            }
            self.wounded.put(11, out);
            self.elections.put(12, out);
            self.forced.put(13, out);
        });
        out
    }
}

fn put_config(config: &Config, tag: u32, out: &mut Vec<u8>) {
    let Config { deadlocks, limits } = config;
    put_key(tag, Wire::Bytes, out);
    put_nested(out, |out| {
        deadlocks.put(1, out);
        put_key(2, Wire::Bytes, out);
        put_nested(out, |out| put_limits(limits, out));
    });
}

fn put_limits(limits: &Limits, out: &mut Vec<u8>) {
    let sizes = [
        limits.name_bytes,
        limits.label_bytes,
        limits.value_bytes,
        limits.sessions,
        limits.names,
        limits.locks_per_session,
        limits.waits_per_session,
        limits.waiters_per_lock,
        limits.locks_per_request,
    ];
    (1..).zip(sizes).for_each(|(tag, size)| size.put(tag, out));
    limits.permits.put(10, out);
    limits.depth.put(11, out);
    limits.replies.put(12, out);
    limits.records.put(13, out);
    limits.shortest_ttl.put(14, out);
    limits.longest_ttl.put(15, out);
    limits.longest_grace.put(16, out);
    PER_ORIGIN.put(17, out);
    PER_ORIGIN.put(18, out);
}

fn put_session(session: &SessionRecord, digest: [u8; 32], tag: u32, out: &mut Vec<u8>) {
    put_key(tag, Wire::Bytes, out);
    put_nested(out, |out| {
        session.id.put(1, out);
        session.name.put(2, out);
        session.host.put(3, out);
        session.ttl.put(4, out);
        session.priority.put(5, out);
        digest.put(6, out);
        session.opened.put(7, out);
        session.deadline.put(8, out);
        session.replies.put(9, out);
        Replies::default().put(12, out);
        ALLOTTED.put(13, out);
    });
}

/// Version 0.1 did not know whether the client of a request keeps a stream; as if it did, the request waits on.
fn put_wait(wait: &WaitRecord, tag: u32, out: &mut Vec<u8>) {
    put_key(tag, Wire::Bytes, out);
    put_nested(out, |out| {
        wait.arrival.put(1, out);
        wait.agent.put(2, out);
        wait.request.put(3, out);
        wait.since.put(4, out);
        wait.until.put(5, out);
        wait.goal.put(6, out);
        put_key(7, Wire::Bytes, out);
        // A record with one field, the first, which is empty.
        out.extend([2, 0x0a, 0]);
    });
}
