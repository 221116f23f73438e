//! How commands and snapshots are written to disk: the tag of each field.
//!
//! A tag never changes its meaning and is never used again, so what an earlier version wrote can be read. A new field
//! needs a new tag here, and a value that an old record without it stands for. What changes what a command *does*
//! needs a new [`LEVEL`], too, and the machine has to do the old thing where the log says the old level.

use conclave_record::{Unreadable, Value, Wire, choice, codes, record, same_as_inside};

use crate::election::Leader;
use crate::ids::Arrival;
use crate::lock::By;
use crate::session::{Outcome, Replies};
use crate::snapshot::{GoalRecord, HoldRecord, LockRecord, SessionRecord, WaitRecord};
use crate::view::Forced;
use crate::waits::Candidacy;
use crate::{
    Acquire, Agent, Call, CallId, Campaign, Cause, Command, Config, Error, KeyDigest, Kind, Limits,
    Link, Mode, Name, NodeId, Open, Origin, Owner, Patience, Policy, RequestId, Scarce, SessionId,
    Snapshot, Span, Time, Token, Via, Victim, Want,
};

/// What this version's commands may contain, and what they do. Version 0.1 had level 1.
pub const LEVEL: u16 = 2;

same_as_inside!(SessionId, RequestId, Owner, Token, Arrival, NodeId);

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

impl Value for KeyDigest {
    const WIRE: Wire = Wire::Bytes;

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(input: &mut &[u8]) -> Result<Self, Unreadable> {
        Value::read(input).map(Self)
    }

    fn absent() -> Option<Self> {
        Some(Self::NONE)
    }
}

// Tag 2 was for something that no version wrote. Tag 3 renewed all sessions when a server of version 0.1 began, before
// log time stood still between two lives of a server; `conclave-machine-v1` reads it in logs of format 1, and in this
// format there is none.
choice!(Command;
    retired { 2, 3 }
    unit { 1 Tick }
    one { 4 Open }
    fields {
        5 KeepAlive { 1 sessions },
        6 Close { 1 session },
        7 Expel { 1 session, 2 reason },
        8 Request { 1 session, 2 request, 3 received, 4 call, 5 via },
        9 ForceRelease { 1 lock, 2 token, 3 reason },
        10 Depose { 1 election, 2 reason, 3 barred, 4 at_once },
        11 NodeStarted { 1 node },
        12 ExpelAll { 1 origin, 2 reason },
        13 HangUp { 1 session, 2 request, 3 call },
    }
);

record!(Open { 1 name, 2 host, 3 ttl, 4 priority, 5 key, 6 opened_by, 7 address, 8 quota });
choice!(Via; unit { 1 Stream } one { 2 Call } fields {});
record!(CallId { 1 node, 2 call });
choice!(Origin; unit {} one { 1 Token, 2 Host, 3 Address } fields {});

choice!(Call;
    unit {}
    one { 1 Acquire, 7 Campaign }
    fields {
        2 Release { 1 lock, 2 token, 3 to },
        3 ReleaseAll { 1 token },
        4 Upgrade { 1 lock, 2 token, 3 patience },
        5 Downgrade { 1 lock, 2 token },
        6 Cancel { 1 request },
        8 Proclaim { 1 election, 2 term, 3 value },
        9 Resign { 1 election, 2 term },
    }
);

record!(Acquire { 1 wants, 2 owner, 3 patience, 4 reentrant });
record!(Want { 1 lock, 2 mode });

choice!(Mode;
    unit { 1 Exclusive, 2 Shared }
    one {}
    fields { 3 Permits { 1 take, 2 of } }
);

choice!(Patience; unit { 1 Try, 3 Forever } one { 2 For } fields {});

record!(Campaign { 1 election, 2 rank, 3 preempt, 4 grace, 5 value, 6 patience, 7 owner });

record!(Config { 1 deadlocks, 2 limits });
choice!(Policy; unit { 1 None, 3 WaitDie, 4 WoundWait } one { 2 Detect } fields {});
codes!(Victim { 1 Youngest, 2 FewestLocks, 3 LowestPriority });
record!(Limits {
    1 name_bytes, 2 label_bytes, 3 value_bytes, 4 sessions, 5 names, 6 locks_per_session, 7 waits_per_session,
    8 waiters_per_lock, 9 locks_per_request, 10 permits, 11 depth, 12 replies, 13 records, 14 shortest_ttl,
    15 longest_ttl, 16 longest_grace, 17 sessions_per_token, 18 sessions_per_address,
});

// Tag 4 was for something that no version wrote.
record!(Snapshot {
    1 version, 2 config, 3 now, 5 last_token, 6 last_session, 7 last_arrival, 8 sessions, 9 locks,
    10 waits, 11 wounded, 12 elections, 13 forced,
});
record!(SessionRecord {
    1 id, 2 name, 3 host, 4 ttl, 5 priority, 6 key, 7 opened, 8 deadline, 9 replies, 10 opened_by, 11 address,
    12 allotted, 13 next_allotted, 14 barred,
});
record!(LockRecord { 1 name, 2 kind, 3 epoch, 4 holds });
record!(HoldRecord { 1 agent, 2 mode, 3 depth, 4 token, 5 since, 6 request, 7 by });
record!(WaitRecord { 1 arrival, 2 agent, 3 request, 4 since, 5 until, 6 goal, 7 via });
choice!(GoalRecord;
    unit {}
    one { 1 Locks, 3 Lead }
    fields { 2 Upgrade { 1 lock, 2 token } }
);
record!(Candidacy { 1 election, 2 rank, 3 preempt, 4 grace, 5 value, 6 blocks });
record!(Leader {
    1 session, 2 term, 3 request, 4 rank, 5 value, 6 grace, 7 since, 8 yield_by, 9 owner, 10 deposed,
});
codes!(Cause {
    1 Released, 2 HandedOver, 3 Cancelled, 4 Closed, 5 Expired, 6 Expelled, 7 Forced, 8 Preempted,
});
record!(Forced { 1 at, 2 name, 3 agent, 4 token, 5 reason });
record!(Agent { 1 session, 2 owner });
record!(Link { 1 waiter, 2 lock, 3 election });
codes!(By { 1 Acquire, 2 Upgrade, 3 Downgrade });
choice!(Kind; unit { 1 ReadWrite } one { 2 Permits } fields {});

record!(Replies { 1 kept, 2 forgotten });
choice!(Outcome;
    unit { 1 Done, 2 Granted, 5 Elected }
    one { 6 Failed }
    fields { 3 Nested { 1 lock, 2 owner }, 4 Released { 1 left } }
);

choice!(Error;
    unit {
        3 Lost, 4 SessionEnded, 6 NoName, 7 NoLocks, 9 ReentrantOnlyAlone, 13 Busy, 15 TimedOut, 16 Cancelled,
        32 KeyTaken,
    }
    one {
        1 UnknownSession, 2 Forgotten, 8 Twice, 12 OtherKind, 14 Conflict, 17 AlreadyHeld, 18 NeedsUpgrade,
        19 NotShared, 20 NotExclusive, 21 NotHeld, 23 NotWaiting, 24 CannotTake, 28 AlreadyCandidate, 29 NotLeader,
        30 Free, 31 UnknownReceiver,
    }
    fields {
        5 Limit { 1 what, 2 most },
        10 BadSpan { 1 what, 2 least, 3 most },
        11 BadPermits { 1 take, 2 of },
        22 StaleToken { 1 lock, 2 token },
        25 Deadlock { 1 cycle },
        26 Died { 1 lock, 2 elder },
        27 Wounded { 1 by },
        33 Barred { 1 election, 2 left },
    }
);
codes!(Span { 1 TimeToLive, 2 Grace, 3 Barred });
codes!(Scarce {
    1 NameBytes, 2 LabelBytes, 3 ValueBytes, 4 Sessions, 5 Names, 6 LocksPerSession, 7 WaitsPerSession,
    8 WaitersPerLock, 9 LocksPerRequest, 10 Permits, 11 Depth, 12 SessionsPerToken, 13 SessionsPerAddress,
});
