//! Random sequences of commands, each carried out by the machine and by the model: every reply and
//! every event has to be the same, and after every command the machine must be sound, and equal to
//! one that was restored from its snapshot.

use std::time::Duration;

use super::model::Model;
use crate::mutation::Mutation;
use crate::*;

/// How many sequences are tried by default. `CONCLAVE_SEQUENCES` asks for another number.
const SEQUENCES: u64 = 100_000;
const STEPS: u64 = 30;

#[test]
fn the_machine_does_what_the_model_says() {
    #[expect(clippy::disallowed_methods, reason = "a test may be told how long to run")]
    let asked = std::env::var("CONCLAVE_SEQUENCES").ok();
    let sequences = asked.and_then(|text| text.parse().ok()).unwrap_or(SEQUENCES);
    let mut seen = Seen::default();
    for seed in 0..sequences {
        if let Err(wrong) = run(seed, None, &mut seen) {
            panic!("sequence {seed}: {wrong}");
        }
    }
    // The sequences are worth something only if everything happens in them.
    let missing: Vec<&str> =
        WANTED.iter().copied().filter(|&code| !seen.codes.contains(code)).collect();
    assert!(missing.is_empty(), "never happened: {missing:?}");
}

/// Errors and events that have to occur somewhere.
const WANTED: [&str; 40] = [
    "Err UnknownSession",
    "Err Forgotten",
    "Err Lost",
    "Err SessionEnded",
    "Err Limit",
    "Err NoName",
    "Err NoLocks",
    "Err Twice",
    "Err ReentrantOnlyAlone",
    "Err BadSpan",
    "Err BadPermits",
    "Err OtherKind",
    "Err Busy",
    "Err Conflict",
    "Err TimedOut",
    "Err Cancelled",
    "Err AlreadyHeld",
    "Err NeedsUpgrade",
    "Err NotShared",
    "Err NotExclusive",
    "Err NotHeld",
    "Err StaleToken",
    "Err NotWaiting",
    "Err CannotTake",
    "Err Deadlock",
    "Err Died",
    "Err Wounded",
    "Err AlreadyCandidate",
    "Err Barred",
    "Err NotLeader",
    "Err Free",
    "Err UnknownReceiver",
    "Err KeyTaken",
    "Deadlock",
    "Wounded",
    "Yield",
    "Deposed",
    "Leader",
    "Ended",
    "Answered",
];

#[test]
fn every_mutation_of_the_machine_is_noticed() {
    for mutation in [
        Mutation::Barging,
        Mutation::LostWakeUp,
        Mutation::GrantToDead,
        Mutation::SharersIgnored,
        Mutation::QueuesIgnored,
        Mutation::AnyPermitNeedsAll,
        Mutation::NoSecondLook,
        Mutation::TokenHandedOn,
        Mutation::Repeated,
        Mutation::HalfReady,
        Mutation::LateAnswerDropped,
        Mutation::HangUpIgnored,
        Mutation::OpenedTwice,
        Mutation::WoundsHeal,
        Mutation::DeposedAtOnce,
        Mutation::SilentRenewals,
        Mutation::SilentOpenings,
        Mutation::CandidatesIgnored,
    ] {
        let mut seen = Seen::default();
        let noticed = (0..80_000).find(|&seed| run(seed, Some(mutation), &mut seen).is_err());
        assert!(noticed.is_some(), "{mutation:?} goes unnoticed");
    }
}

/// What has happened in the sequences so far.
#[derive(Default)]
struct Seen {
    codes: std::collections::BTreeSet<String>,
}

impl Seen {
    fn note(&mut self, reply: &Result<Reply, Error>, events: &[Event]) {
        if let Err(error) = reply {
            self.codes.insert(format!("Err {}", variant(error)));
        }
        for event in events {
            if let Event::Answered { answer: Err(error), .. } = event {
                self.codes.insert(format!("Err {}", variant(error)));
            }
            self.codes.insert(variant(event));
        }
    }
}

/// What an error or an event is called.
fn variant(thing: &impl std::fmt::Debug) -> String {
    let shown = format!("{thing:?}");
    shown.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn run(seed: u64, mutation: Option<Mutation>, seen: &mut Seen) -> Result<(), String> {
    let mut dice = Dice(seed);
    let config = config(&mut dice);
    let mut machine = Machine::new(config.clone());
    machine.mutation = mutation;
    let mut model = Model::new(config);
    let mut at = Time::ZERO;
    let mut requests = 0;
    for step in 0..STEPS {
        let longest = if dice.one_in(8) { 400 } else { 40 };
        at = at + Duration::from_millis(dice.below(longest));
        let command = command(&mut dice, &model, &mut requests);
        let bytes = conclave_record::encode(&command);
        if conclave_record::decode(&bytes).as_ref() != Ok(&command) {
            return Err(format!("{command:?} does not survive being written"));
        }
        let (expected, expected_events) = model.apply(at, &command);
        let mut events = Vec::new();
        let reply = machine.apply(at, command.clone(), &mut events);
        seen.note(&reply, &events);
        let wrong = |what: &str, found: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
            Err(format!(
                "step {step}, {:?}, {command:?}: {what} {found:#?}, expected {expected:#?}",
                machine.config.deadlocks
            ))
        };
        if reply != expected {
            return wrong("the reply was", &reply, &expected);
        }
        if events != expected_events {
            return wrong("the events were", &events, &expected_events);
        }
        if let Err(why) = machine.audit() {
            return wrong("it is unsound:", &why, &"");
        }
        let snapshot = machine.snapshot();
        let mut restored = match Machine::restore(snapshot.clone()) {
            Ok(restored) => restored,
            Err(bad) => return wrong("it cannot be restored:", &bad, &""),
        };
        restored.mutation = mutation;
        if restored.snapshot() != snapshot {
            return wrong("it was restored as", &restored.snapshot(), &snapshot);
        }
        if dice.one_in(50) {
            through_bytes(&snapshot)?;
        }
        if dice.one_in(4) {
            machine = restored;
        }
    }
    // What is held and wanted is the same in both, found in another way.
    let locks: Vec<LockView> = machine.locks("", None).collect();
    let held: usize = locks.iter().map(|lock| lock.holders.len()).sum();
    let mut stuck = machine.deadlocked();
    let mut expected = model.deadlocked();
    stuck.sort();
    expected.sort();
    if held != model.holds.len() || stuck != expected {
        return Err(format!("at the end {stuck:?} are stuck, expected {expected:?}"));
    }
    Ok(())
}

/// Whatever is read, a decoder says that it cannot, and nothing worse.
fn no_bytes_are_too_strange(good: &[u8]) {
    let mut dice = Dice(good.len() as u64);
    for _ in 0..3 {
        let mut bad = good.to_vec();
        for _ in 0..=dice.below(3) {
            let at = dice.below(bad.len() as u64) as usize;
            bad[at] = dice.below(256) as u8;
        }
        if dice.one_in(3) {
            bad.truncate(dice.below(bad.len() as u64) as usize);
        }
        let _ = conclave_record::decode::<Snapshot>(&bad);
        let _ = conclave_record::decode::<Command>(&bad);
    }
}

fn through_bytes(snapshot: &Snapshot) -> Result<(), String> {
    let bytes = conclave_record::encode(snapshot);
    let back: Snapshot = conclave_record::decode(&bytes).map_err(|error| error.to_string())?;
    no_bytes_are_too_strange(&bytes);
    let text = serde_json::to_string(snapshot).map_err(|error| error.to_string())?;
    let read: Snapshot = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    if back != *snapshot || read != *snapshot {
        return Err("a snapshot does not survive being written".to_owned());
    }
    Ok(())
}

fn config(dice: &mut Dice) -> Config {
    let policies = [
        Policy::None,
        Policy::Detect(Victim::Youngest),
        Policy::Detect(Victim::FewestLocks),
        Policy::Detect(Victim::LowestPriority),
        Policy::WaitDie,
        Policy::WoundWait,
    ];
    let limits = Limits {
        name_bytes: 8,
        label_bytes: 8,
        value_bytes: 2,
        sessions: 5,
        sessions_per_token: 3,
        sessions_per_address: 3,
        names: 4,
        locks_per_session: 5,
        waits_per_session: 3,
        waiters_per_lock: 4,
        locks_per_request: 3,
        permits: 3,
        depth: 3,
        replies: 4,
        records: 2,
        shortest_ttl: Duration::from_millis(100),
        longest_ttl: Duration::from_millis(1000),
        longest_grace: Duration::from_millis(100),
    };
    Config { deadlocks: *dice.pick(&policies), limits }
}

fn command(dice: &mut Dice, model: &Model, requests: &mut u64) -> Command {
    let sessions = model.sessions.len() as u64;
    if sessions < 2 && !dice.one_in(4) {
        return open(dice);
    }
    match dice.below(40) {
        0 | 1 => open(dice),
        2 => Command::Tick,
        3 if dice.one_in(4) => Command::NodeStarted { node: node(dice) },
        3 => hang_up(dice, model),
        4..=6 => {
            let count = dice.below(4);
            Command::KeepAlive { sessions: (0..count).map(|_| session(dice, model)).collect() }
        }
        7 if dice.one_in(2) => Command::Close { session: session(dice, model) },
        7 if dice.one_in(2) => {
            Command::Expel { session: session(dice, model), reason: label(dice) }
        }
        7 if dice.one_in(4) => {
            let origin = match dice.below(3) {
                0 => Origin::Token(who(dice)),
                1 => Origin::Host("h".into()),
                _ => Origin::Address(who(dice)),
            };
            Command::ExpelAll { origin, reason: label(dice) }
        }
        8 if dice.one_in(2) => Command::ForceRelease {
            lock: name(dice),
            token: (!dice.one_in(3)).then(|| held(dice, model).1),
            reason: label(dice),
        },
        8 if dice.one_in(2) => Command::Depose {
            election: if dice.one_in(3) { name(dice) } else { led(dice, model).0 },
            reason: label(dice),
            barred: Duration::from_millis(if dice.one_in(8) { 2000 } else { dice.below(200) }),
            at_once: dice.one_in(3),
        },
        _ => {
            let call = call(dice, model);
            // Mostly the session that has to do with it.
            let session = match &call {
                Call::Release { token, .. }
                | Call::ReleaseAll { token }
                | Call::Upgrade { token, .. }
                | Call::Downgrade { token, .. }
                    if !dice.one_in(10) =>
                {
                    let hold = model.holds.iter().find(|hold| hold.token == *token);
                    hold.map_or(SessionId(1), |hold| hold.agent.session)
                }
                Call::Resign { term, .. } | Call::Proclaim { term, .. } if !dice.one_in(10) => {
                    let leader = model.leaders.iter().find(|leader| leader.term == *term);
                    leader.map_or(SessionId(1), |leader| leader.session)
                }
                Call::Cancel { request } if !dice.one_in(10) => {
                    let wait = model.waits.iter().find(|wait| wait.request == *request);
                    wait.map_or_else(|| session(dice, model), |wait| wait.agent.session)
                }
                _ => session(dice, model),
            };
            let again = dice.one_in(10);
            if !again {
                *requests += 1;
            }
            let request = RequestId(requests.saturating_sub(if again { dice.below(8) } else { 0 }));
            let received =
                if dice.one_in(10) { requests.saturating_sub(dice.below(10)) } else { 0 };
            // Some come without a number, and some over calls of their own.
            let request = if dice.one_in(5) { RequestId(0) } else { request };
            let via = match dice.below(3) {
                0 => Via::Call(call_id(dice)),
                _ => Via::Stream,
            };
            Command::Request { session, request, received: RequestId(received), via, call }
        }
    }
}

/// The connection of some call has ended.
fn hang_up(dice: &mut Dice, model: &Model) -> Command {
    let (session, request) = match model.waits.len() as u64 {
        waits if waits > 0 && dice.one_in(2) => {
            let wait = &model.waits[dice.below(waits) as usize];
            (wait.agent.session, wait.request)
        }
        _ if !model.holds.is_empty() => {
            let hold = &model.holds[dice.below(model.holds.len() as u64) as usize];
            (hold.agent.session, hold.request)
        }
        _ => (session(dice, model), RequestId(RequestId::ALLOTTED.0 + dice.below(4))),
    };
    let request = match dice.one_in(4) {
        true => RequestId(RequestId::ALLOTTED.0 + dice.below(6)),
        false => request,
    };
    Command::HangUp { session, request, call: call_id(dice) }
}

fn call_id(dice: &mut Dice) -> CallId {
    CallId { node: node(dice), call: u64::from(dice.one_in(6)) }
}

fn node(dice: &mut Dice) -> NodeId {
    NodeId(u64::from(dice.one_in(4)))
}

fn who(dice: &mut Dice) -> Name {
    ["", "", "x", "y"][dice.below(4) as usize].into()
}

fn open(dice: &mut Dice) -> Command {
    Command::Open(Open {
        name: label(dice),
        host: "h".into(),
        ttl: Duration::from_millis(if dice.one_in(20) { 5000 } else { 200 + dice.below(500) }),
        priority: i32::try_from(dice.below(3)).expect("small"),
        key: KeyDigest([u8::try_from(dice.below(9)).expect("small"); 32]),
        opened_by: who(dice),
        address: who(dice),
        quota: dice.one_in(4).then(|| dice.small(3)),
    })
}

fn call(dice: &mut Dice, model: &Model) -> Call {
    let patience = match dice.below(6) {
        0 => Patience::Try,
        1 => Patience::For(Duration::from_millis(dice.below(100))),
        _ => Patience::Forever,
    };
    let (lock, token) = held(dice, model);
    match dice.below(24) {
        0..=10 => {
            let count = match dice.below(8) {
                0 => 2,
                1 if dice.one_in(3) => 3,
                2 if dice.one_in(10) => 0,
                3 if dice.one_in(10) => 4,
                _ => 1,
            };
            let wants = (0..count).map(|_| {
                let lock = name(dice);
                let mode = match dice.below(12) {
                    11 => Mode::Permits { take: dice.small(5), of: dice.small(5) },
                    _ if &*lock == "c" => Mode::Permits { take: 1 + dice.small(2), of: 3 },
                    0..=4 => Mode::Shared,
                    _ => Mode::Exclusive,
                };
                Want { lock, mode }
            });
            Call::Acquire(Acquire {
                wants: wants.collect(),
                owner: Owner(u32::from(dice.one_in(6))),
                patience,
                reentrant: dice.one_in(6),
            })
        }
        11..=13 => {
            let to = dice.one_in(3).then(|| match model.waits.len() as u64 {
                0 => session(dice, model),
                waits => model.waits[dice.below(waits) as usize].agent.session,
            });
            Call::Release { lock, token, to }
        }
        14 => Call::ReleaseAll { token },
        15 | 16 => Call::Upgrade { lock, token, patience },
        17 => Call::Downgrade { lock, token },
        18 => {
            let waits = model.waits.len() as u64;
            let request = match waits {
                0 => RequestId(dice.below(30)),
                _ if dice.one_in(3) => RequestId(dice.below(30)),
                _ => model.waits[dice.below(waits) as usize].request,
            };
            Call::Cancel { request }
        }
        19..=21 => Call::Campaign(Campaign {
            election: name(dice),
            rank: i64::try_from(dice.below(4)).expect("small"),
            preempt: dice.one_in(2),
            grace: Duration::from_millis(if dice.one_in(2) { 0 } else { dice.below(110) }),
            value: vec![7; if dice.one_in(10) { 3 } else { 1 }],
            patience,
            owner: (!dice.one_in(3)).then(|| Owner(u32::from(dice.one_in(6)))),
        }),
        22 => {
            let (election, term) = led(dice, model);
            Call::Proclaim { election, term, value: vec![8] }
        }
        _ => {
            let (election, term) = led(dice, model);
            Call::Resign { election, term }
        }
    }
}

fn session(dice: &mut Dice, model: &Model) -> SessionId {
    match model.sessions.len() as u64 {
        0 => SessionId(dice.below(5)),
        _ if dice.one_in(30) => SessionId(dice.below(9)),
        count => model.sessions[dice.below(count) as usize].id,
    }
}

fn held(dice: &mut Dice, model: &Model) -> (Name, Token) {
    match model.holds.len() as u64 {
        0 => (name(dice), Token(dice.below(9))),
        count => {
            let hold = &model.holds[dice.below(count) as usize];
            let lock = if dice.one_in(20) { name(dice) } else { hold.lock.clone() };
            let token = if dice.one_in(20) { Token(dice.below(9)) } else { hold.token };
            (lock, token)
        }
    }
}

fn led(dice: &mut Dice, model: &Model) -> (Name, Token) {
    match model.leaders.len() as u64 {
        0 => (name(dice), Token(dice.below(9))),
        count => {
            let leader = &model.leaders[dice.below(count) as usize];
            (leader.election.clone(), leader.term)
        }
    }
}

fn name(dice: &mut Dice) -> Name {
    match dice.below(60) {
        0 => "".into(),
        1 => "much-too-long".into(),
        2..=4 => "d".into(),
        5..=7 => "e".into(),
        n => ["a", "a", "b", "b", "c"][n as usize % 5].into(),
    }
}

fn label(dice: &mut Dice) -> Name {
    if dice.one_in(30) { "much-too-long".into() } else { "it".into() }
}

/// Chance with a seed (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn small(&mut self, n: u64) -> u32 {
        u32::try_from(self.below(n)).expect("small")
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}
