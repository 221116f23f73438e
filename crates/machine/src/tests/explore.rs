//! Everything that three sessions can do with two locks: every state that can be reached, each looked
//! at, whatever happens next. Sessions expire at any moment, alone or together, and new ones come.
//!
//! What a deadlock is, is said here without a graph: let every agent that does not wait end its session,
//! and see which still wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::mutation::Mutation;
use crate::*;

const TTL: Duration = Duration::from_secs(10);
const LOCKS: [&str; 2] = ["a", "b"];

#[test]
fn three_sessions_and_two_locks_with_detection() {
    let explored = explore(Setup::new(Policy::default())).expect("it is sound");
    assert_eq!((explored.states, explored.deadlocks), (3646, 4240));
}

#[test]
fn three_sessions_and_two_locks_without_a_policy() {
    let explored = explore(Setup::new(Policy::None)).expect("it is sound");
    assert_eq!((explored.states, explored.deadlocks), (7938, 126_504));
}

#[test]
fn three_sessions_and_two_locks_under_wait_die() {
    let explored = explore(Setup::new(Policy::WaitDie)).expect("it is sound");
    assert_eq!((explored.states, explored.deadlocks), (1046, 0));
}

#[test]
fn three_sessions_and_two_locks_under_wound_wait() {
    let explored = explore(Setup::new(Policy::WoundWait)).expect("it is sound");
    assert_eq!((explored.states, explored.deadlocks), (4408, 0));
}

#[test]
fn three_sessions_and_two_locks_with_permits() {
    let setup = Setup { permits: true, ..Setup::new(Policy::default()) };
    let explored = explore(setup).expect("it is sound");
    assert_eq!((explored.states, explored.deadlocks), (2615, 7010));
}

#[test]
fn three_sessions_a_lock_and_an_election() {
    let mut seen = Vec::new();
    for policy in [Policy::default(), Policy::WaitDie, Policy::WoundWait, Policy::None] {
        let setup = Setup { election: true, ..Setup::new(policy) };
        let explored = explore(setup).expect("it is sound");
        seen.push((explored.states, explored.deadlocks));
    }
    assert_eq!(seen, [(2463, 1725), (1493, 0), (4662, 0), (3734, 27_469)]);
}

#[test]
fn what_is_spoilt_is_found() {
    let cases = [
        (Policy::default(), Mutation::Barging),
        (Policy::default(), Mutation::LostWakeUp),
        (Policy::default(), Mutation::GrantToDead),
        (Policy::default(), Mutation::SharersIgnored),
        (Policy::default(), Mutation::QueuesIgnored),
        (Policy::default(), Mutation::TokenHandedOn),
        (Policy::default(), Mutation::HalfReady),
        (Policy::WaitDie, Mutation::NoSecondLook),
        (Policy::WoundWait, Mutation::NoSecondLook),
        (Policy::WoundWait, Mutation::WoundsHeal),
    ];
    for (policy, mutation) in cases {
        let setup = Setup { mutation: Some(mutation), ..Setup::new(policy) };
        assert!(explore(setup).is_err(), "{mutation:?} goes unnoticed under {policy:?}");
    }
    let mutation = Some(Mutation::AnyPermitNeedsAll);
    let setup = Setup { mutation, permits: true, ..Setup::new(Policy::default()) };
    assert!(explore(setup).is_err(), "{mutation:?} goes unnoticed");
    for mutation in [Mutation::CandidatesIgnored, Mutation::StayingIgnored] {
        for policy in [Policy::default(), Policy::WaitDie, Policy::WoundWait] {
            let setup = Setup { mutation: Some(mutation), election: true, ..Setup::new(policy) };
            assert!(explore(setup).is_err(), "{mutation:?} goes unnoticed under {policy:?}");
        }
    }
}

#[derive(Clone, Copy)]
struct Setup {
    policy: Policy,
    mutation: Option<Mutation>,
    /// Whether the second lock has two permits.
    permits: bool,
    /// Whether there is an election instead of the second lock.
    election: bool,
}

impl Setup {
    fn new(policy: Policy) -> Self {
        Self { policy, mutation: None, permits: false, election: false }
    }
}

/// What was seen on the way.
struct Explored {
    states: usize,
    /// Steps at which a deadlock was broken, or was there.
    deadlocks: usize,
}

/// Something that may happen, as commands with the time since the last.
type Move = Vec<(Duration, Command)>;

fn explore(setup: Setup) -> Result<Explored, String> {
    let config = Config { deadlocks: setup.policy, ..Config::default() };
    let mut start = Machine::new(config);
    start.mutation = setup.mutation;
    let mut seen = BTreeSet::from([key(&start)]);
    let mut open = VecDeque::from([start]);
    let mut explored = Explored { states: 1, deadlocks: 0 };
    while let Some(machine) = open.pop_front() {
        for happens in moves(&machine, setup) {
            let mut next = machine.clone();
            let found = step(&mut next, &happens);
            let found = found.and_then(|(reply, events)| {
                next.audit()?;
                in_order(&machine, &next, &events)?;
                judge(&machine, &next, &happens, &reply, &events, setup)
            });
            match found {
                Ok(deadlock) => explored.deadlocks += usize::from(deadlock),
                Err(wrong) => {
                    let before: Vec<LockView> = machine.locks("", None).collect();
                    return Err(format!("{wrong}: {happens:?} in {before:#?}"));
                }
            }
            if seen.insert(key(&next)) {
                explored.states += 1;
                open.push_back(next);
            }
        }
    }
    Ok(explored)
}

fn step(
    machine: &mut Machine,
    happens: &Move,
) -> Result<(Result<Reply, Error>, Vec<Event>), String> {
    let mut events = Vec::new();
    let mut last = Ok(Reply::Done);
    for (later, command) in happens {
        let ends = matches!(command, Command::Tick);
        let reply = machine.apply(machine.now() + *later, command.clone(), &mut events);
        if ends {
            // What was granted within the same moment was not granted to the dead.
            dead_get_nothing(&events)?;
        }
        last = reply;
    }
    Ok((last, events))
}

fn dead_get_nothing(events: &[Event]) -> Result<(), String> {
    let ended: Vec<SessionId> = events
        .iter()
        .filter_map(|event| match event {
            Event::Ended { session, .. } => Some(*session),
            _ => None,
        })
        .collect();
    let granted = events.iter().any(|event| match event {
        Event::Granted { agent, .. } => ended.contains(&agent.session),
        _ => false,
    });
    if granted { Err("a lock was granted to a session that has ended".into()) } else { Ok(()) }
}

/// Whatever may happen in a state.
fn moves(machine: &Machine, setup: Setup) -> Vec<Move> {
    let sessions: Vec<SessionView> = machine.sessions(None).collect();
    let mut moves: Vec<Move> = Vec::new();
    if sessions.len() < 3 {
        let open = Open { name: "s".into(), host: "h".into(), ttl: TTL, ..Open::default() };
        moves.push(vec![(Duration::ZERO, Command::Open(open))]);
    }
    // Any of them expire, at the same moment.
    for dying in 1..1_usize << sessions.len() {
        let living = (0..sessions.len()).filter(|i| dying & 1 << i == 0);
        let living: Vec<SessionId> = living.map(|i| sessions[i].session).collect();
        let keep_alive = Command::KeepAlive { sessions: living };
        moves.push(vec![
            (TTL / 2, keep_alive.clone()),
            (TTL / 2, Command::Tick),
            (Duration::ZERO, keep_alive),
        ]);
    }
    let locks: BTreeMap<Name, LockView> =
        machine.locks("", None).map(|lock| (lock.name.clone(), lock)).collect();
    for view in &sessions {
        let session = view.session;
        let mut ask = |call: Call| {
            let request =
                RequestId(machine.last_token.0 + machine.last_arrival.0 * 1000 + 1_000_000);
            let received = RequestId(request.0 - 1);
            moves.push(vec![(
                Duration::ZERO,
                Command::Request { session, request, received, via: Via::Stream, call },
            )]);
        };
        for acquire in wishes(setup) {
            ask(Call::Acquire(acquire));
        }
        for (lock, token) in &view.holds {
            let (lock, token) = (lock.clone(), *token);
            ask(Call::Release { lock: lock.clone(), token, to: None });
            for waiter in &locks[&lock].waiters {
                let to = Some(waiter.who.agent.session);
                ask(Call::Release { lock: lock.clone(), token, to });
            }
            ask(Call::Upgrade { lock: lock.clone(), token, patience: Patience::Forever });
            ask(Call::Downgrade { lock, token });
        }
        if setup.election {
            for (rank, preempt) in [(0, false), (1, true)] {
                ask(Call::Campaign(campaign(rank, preempt)));
            }
        }
        for view in machine.elections() {
            let leads = view.leader.filter(|leader| leader.session == session);
            if let Some(Leadership { term, .. }) = leads {
                ask(Call::Resign { election: view.name, term });
            }
        }
        let candidates = machine.elections().flat_map(|view| view.candidates);
        let waits = locks.values().flat_map(|lock| lock.waiters.clone()).chain(candidates);
        if let Some(waiter) = waits.into_iter().find(|it| it.who.agent.session == session) {
            ask(Call::Cancel { request: waiter.request });
        }
    }
    moves
}

/// A candidate that does nothing else meanwhile.
fn campaign(rank: i64, preempt: bool) -> Campaign {
    Campaign {
        election: "e".into(),
        rank,
        preempt,
        grace: TTL / 10,
        value: Vec::new(),
        patience: Patience::Forever,
        owner: Some(Owner(0)),
    }
}

/// What a session may ask for.
fn wishes(setup: Setup) -> Vec<Acquire> {
    let want = |lock: &str, mode| Want { lock: lock.into(), mode };
    let [a, b] = LOCKS;
    if setup.election {
        return vec![Acquire::exclusive(a), Acquire::shared(a)];
    }
    if setup.permits {
        let some = |take| Mode::Permits { take, of: 2 };
        return vec![
            Acquire::all([want(a, Mode::Exclusive)]),
            Acquire::all([want(b, some(1))]),
            Acquire::all([want(b, some(2))]),
            Acquire::all([want(a, Mode::Exclusive), want(b, some(1))]),
        ];
    }
    vec![
        Acquire::exclusive(a),
        Acquire::shared(a),
        Acquire::exclusive(b),
        Acquire::shared(b),
        Acquire::all([want(a, Mode::Exclusive), want(b, Mode::Exclusive)]),
        Acquire::all([want(b, Mode::Shared), want(a, Mode::Shared)]),
    ]
}

/// Tokens rise from grant to grant, and no request overtakes another.
fn in_order(before: &Machine, after: &Machine, events: &[Event]) -> Result<(), String> {
    let mut last: BTreeMap<&Name, Token> = BTreeMap::new();
    let handed = events
        .iter()
        .any(|event| matches!(event, Event::Released { cause: Cause::HandedOver, .. }));
    for event in events {
        let Event::Granted { lock, agent, token, .. } = event else { continue };
        if *token <= before.last_token || last.get(lock).is_some_and(|last| token <= last) {
            return Err("a token does not exceed the one before".into());
        }
        last.insert(lock, *token);
        let Some(queue) = before.lock(lock).map(|lock| lock.waiters) else { continue };
        let upgraded = before
            .lock(lock)
            .is_some_and(|lock| lock.holders.iter().any(|holder| holder.who.agent == *agent));
        if handed || upgraded {
            continue;
        }
        let still = after.lock(lock).map(|lock| lock.waiters).unwrap_or_default();
        let ahead = queue.iter().take_while(|waiter| waiter.who.agent != *agent);
        if ahead.into_iter().any(|one| still.iter().any(|it| it.request == one.request)) {
            return Err(format!("{agent} has overtaken a waiter for {lock}"));
        }
    }
    Ok(())
}

/// Whether deadlocks are dealt with as the policy says, and whether there was one.
fn judge(
    before: &Machine,
    after: &Machine,
    happens: &Move,
    reply: &Result<Reply, Error>,
    events: &[Event],
    setup: Setup,
) -> Result<bool, String> {
    let stuck = stuck(after);
    match setup.policy {
        Policy::None => {
            let mut told = after.deadlocked();
            told.sort();
            if told != stuck {
                return Err(format!("{stuck:?} are stuck, and {told:?} are said to be"));
            }
            Ok(!stuck.is_empty())
        }
        Policy::WaitDie | Policy::WoundWait if stuck.is_empty() => Ok(false),
        Policy::WaitDie | Policy::WoundWait => Err(format!("{stuck:?} are stuck")),
        Policy::Detect(_) => {
            if !stuck.is_empty() {
                return Err(format!("{stuck:?} are stuck, and no deadlock was reported"));
            }
            let told = events.iter().find_map(|event| match event {
                Event::Deadlock { cycle, .. } => Some(cycle),
                _ => None,
            });
            let refused = matches!(reply, Err(Error::Deadlock { .. }));
            if refused && told.is_none() {
                return Err("a deadlock is told to its victim only".into());
            }
            let Some(cycle) = told else { return Ok(false) };
            // Without detection there would be a deadlock, and this one.
            let mut without = before.clone();
            without.config.deadlocks = Policy::None;
            let _ = step(&mut without, happens)?;
            let members = stuck_in(&without);
            if members.is_empty() {
                return Err("a deadlock was invented".into());
            }
            real(&without, cycle, &members)?;
            Ok(true)
        }
    }
}

/// Whether the members of a cycle wait for each other as it says.
fn real(machine: &Machine, cycle: &[Link], stuck: &[Agent]) -> Result<(), String> {
    for (i, Link { waiter, lock, election }) in cycle.iter().enumerate() {
        let next = cycle[(i + 1) % cycle.len()].waiter;
        if *election {
            let election = machine.election(lock).ok_or("a cycle leads over no election")?;
            let mut before =
                election.candidates.iter().take_while(|candidate| candidate.who.agent != *waiter);
            let ahead = before.any(|candidate| candidate.who.agent == next);
            let leads = election.who.is_some_and(|(who, _)| who.agent == next);
            let stands = election.candidates.iter().any(|it| it.who.agent == *waiter);
            if !stuck.contains(waiter) || !stands || !(ahead || leads) {
                return Err(format!("{waiter} does not stand behind {next}"));
            }
            continue;
        }
        let lock = machine.lock(lock).ok_or("a cycle leads over a lock that is not there")?;
        let before = lock.waiters.iter().take_while(|it| it.who.agent != *waiter);
        let ahead = before.into_iter().any(|it| it.who.agent == next);
        let holds = lock.holders.iter().any(|it| it.who.agent == next);
        let waits = lock.waiters.iter().any(|it| it.who.agent == *waiter);
        if !stuck.contains(waiter) || !waits || !(ahead || holds) {
            return Err(format!("{waiter} does not wait for {next}"));
        }
    }
    Ok(())
}

fn stuck(machine: &Machine) -> Vec<Agent> {
    // Without a wait, no agent is stuck.
    if machine.counts().waits == 0 { Vec::new() } else { stuck_in(machine) }
}

/// The agents that still wait after all others have ended their sessions, again and again, and after leaders
/// that have to yield have had their time.
fn stuck_in(machine: &Machine) -> Vec<Agent> {
    let mut world = machine.clone();
    loop {
        let waiting: Vec<Agent> = world.waiting.keys().copied().collect();
        let idle = world.sessions.keys().copied();
        let mut idle = idle.filter(|&id| !waiting.iter().any(|agent| agent.session == id));
        let Some(session) = idle.next() else {
            for _ in 0..4 {
                let sessions = world.sessions.keys().copied().collect();
                let later = world.now() + TTL / 2;
                let renewed = world.apply(later, Command::KeepAlive { sessions }, &mut Vec::new());
                assert!(renewed.is_ok_and(|alive| matches!(alive, Reply::Alive { .. })));
            }
            if world.waiting.keys().copied().eq(waiting.iter().copied()) {
                return waiting;
            }
            continue;
        };
        let closed = world.apply(world.now(), Command::Close { session }, &mut Vec::new());
        assert_eq!(closed, Ok(Reply::Done));
    }
}

/// What matters of a state for what may happen next: sessions by seniority, who holds what, who waits
/// for what in which order, who is wounded.
fn key(machine: &Machine) -> Vec<u8> {
    let ids: Vec<SessionId> = machine.sessions.keys().copied().collect();
    let number = |agent: Agent| ids.binary_search(&agent.session).expect("it lives") as u8;
    let mode = |mode: Mode| match mode {
        Mode::Exclusive => 10,
        Mode::Shared => 11,
        Mode::Permits { take, .. } => 12 + take as u8,
    };
    let mut key = vec![ids.len() as u8];
    for name in LOCKS {
        key.push(100);
        let Some(lock) = machine.lock(name) else { continue };
        let holders = lock.holders.iter().map(|it| (number(it.who.agent), mode(it.mode)));
        let mut holders: Vec<(u8, u8)> = holders.collect();
        holders.sort_unstable();
        key.extend(holders.into_iter().flat_map(|(who, how)| [who, how]));
        key.push(101);
        for waiter in &lock.waiters {
            let how = match waiter.wants {
                Wants::Hold(how) => mode(how) + 20 * waiter.locks.len() as u8,
                Wants::Upgrade | Wants::Lead { .. } => 99,
            };
            key.extend([number(waiter.who.agent), how]);
        }
    }
    for view in machine.elections() {
        key.push(103);
        let leader = view.leader.map(|leader| leader.session);
        let leader = leader.map(|session| Agent { session, owner: Owner(0) });
        let election = &machine.elections[&view.name];
        let tenure = match view.tenure {
            Tenure::Unquestioned => 0,
            Tenure::Yields { .. } => 1,
            Tenure::Deposed { .. } => 2,
        };
        let rank = election.leader.as_ref().map_or(0, |leader| leader.rank as u8);
        key.extend([leader.map_or(99, number), tenure, rank]);
        for waiter in view.candidates {
            let Wants::Lead { rank } = waiter.wants else { continue };
            key.extend([number(waiter.who.agent), rank as u8]);
        }
    }
    key.push(102);
    key.extend(machine.wounded.keys().map(|&agent| number(agent)));
    key
}
