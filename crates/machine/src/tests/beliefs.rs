//! Who believes that it leads: a machine, a leader and a better candidate, and every way in which messages
//! are late or lost, the leader is stopped, renewals cross with what happens, and time passes. At no moment do two
//! of them believe.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::mutation::Mutation;
use crate::*;

/// Moments are told apart by seconds.
const UNIT: Duration = Duration::from_secs(1);
/// The leader's time-to-live, in units.
const TTL: u64 = 2;
/// So many states are looked at, those that take the fewest steps first.
const MOST: usize = 20_000;
/// So far time passes.
const HORIZON: u64 = 5;

#[test]
fn no_two_believe_that_they_lead() {
    for grace in [0, 1] {
        let explored = explore(grace, None).expect("no two lead");
        assert!(explored.states > 1000 && explored.successions > 0, "{explored:?}");
    }
}

#[test]
fn it_is_found_if_a_successor_does_not_wait_or_a_renewal_says_nothing() {
    for mutation in [Mutation::DeposedAtOnce, Mutation::SilentRenewals, Mutation::SilentOpenings] {
        assert!(explore(1, Some(mutation)).is_err(), "{mutation:?} goes unnoticed");
    }
}

#[derive(Debug, Default)]
struct Explored {
    states: usize,
    /// States in which the better candidate believes that it leads.
    successions: usize,
}

/// What the server has said and the client has not heard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Elected(Token),
    Over(Token),
    Renewed { sent: u64, over: Vec<Token> },
    Ended,
}

/// A client, as the documented rules say it is to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Believer {
    session: SessionId,
    campaign: bool,
    /// The answer to that has come; what comes again is no news.
    answered: bool,
    /// Until when its session is certain to live.
    lease: u64,
    ttl: u64,
    leads: Option<Token>,
    /// It has been told that this is over, and has not confirmed it.
    unconfirmed: Option<Token>,
    /// A renewal that is on its way.
    renewal: Option<u64>,
    unheard: VecDeque<Said>,
}

impl Believer {
    fn believes(&self, now: u64) -> bool {
        self.leads.is_some() && now < self.lease
    }

    fn hear(&mut self, now: u64) {
        match self.unheard.pop_front().expect("there is something to hear") {
            Said::Elected(_) if self.answered => {}
            Said::Elected(term) => (self.leads, self.answered) = (Some(term), true),
            Said::Over(term) => self.over(term),
            Said::Renewed { sent, over } => {
                over.into_iter().for_each(|term| self.over(term));
                if now < self.lease {
                    self.lease = self.lease.max(sent + self.ttl);
                }
            }
            Said::Ended => (self.leads, self.lease) = (None, 0),
        }
    }

    fn over(&mut self, term: Token) {
        if self.leads == Some(term) {
            (self.leads, self.unconfirmed) = (None, Some(term));
        }
    }
}

#[derive(Clone)]
struct World {
    machine: Machine,
    now: u64,
    believers: [Believer; 2],
    grace: u64,
    /// An operator may depose a leader, once.
    operator: bool,
}

impl World {
    fn new(grace: u64, mutation: Option<Mutation>) -> Self {
        let mut machine = Machine::new(Config::default());
        machine.mutation = mutation;
        let believers = [TTL, 100].map(|ttl| {
            let opened = machine.apply(Time::ZERO, open(ttl), &mut Vec::new());
            let Ok(Reply::Opened { session, .. }) = opened else { panic!("{opened:?}") };
            Believer {
                session,
                campaign: false,
                answered: false,
                lease: ttl,
                ttl,
                leads: None,
                unconfirmed: None,
                renewal: None,
                unheard: VecDeque::new(),
            }
        });
        Self { machine, now: 0, believers, grace, operator: true }
    }

    /// Carries out a command now, and says what is to be said, in the order in which the server does.
    fn apply(&mut self, command: Command, asker: Option<(usize, u64)>) {
        let mut events = Vec::new();
        let at = Time::ZERO + UNIT * u32::try_from(self.now).expect("small");
        let reply = self.machine.apply(at, command, &mut events);
        self.machine.audit().expect("it is sound");
        let (answers, others): (Vec<Event>, Vec<Event>) =
            events.into_iter().partition(|event| matches!(event, Event::Answered { .. }));
        self.say(answers);
        if let Some((who, sent)) = asker {
            match reply {
                Ok(Reply::Elected { term }) => {
                    self.believers[who].unheard.push_back(Said::Elected(term));
                }
                // Its session was gone, and this is another.
                Ok(Reply::Opened { session, .. }) if session != self.believers[who].session => {
                    self.machine
                        .apply(at, Command::Close { session }, &mut Vec::new())
                        .expect("it was opened");
                    self.believers[who].unheard.push_back(Said::Ended);
                }
                Ok(Reply::Alive { deposed, .. } | Reply::Opened { deposed, .. }) => {
                    let over = deposed.into_iter().map(|deposed| deposed.term).collect();
                    self.believers[who].unheard.push_back(Said::Renewed { sent, over });
                }
                Err(Error::Lost) => {
                    let leads = self.believers[who].leads;
                    self.believers[who].unheard.extend(leads.map(Said::Over));
                }
                _ => {}
            }
        }
        self.say(others);
    }

    fn say(&mut self, events: Vec<Event>) {
        for event in events {
            let (to, said) = match event {
                Event::Answered { session, answer: Ok(Reply::Elected { term }), .. } => {
                    (session, Said::Elected(term))
                }
                Event::Deposed(Deposed { session, term, .. }) => (session, Said::Over(term)),
                Event::Ended { session, .. } => (session, Said::Ended),
                _ => continue,
            };
            let believer = self.believers.iter_mut().find(|it| it.session == to);
            believer.expect("it is one of them").unheard.push_back(said);
        }
    }

    fn request(&self, who: usize, number: u64, call: Call) -> Command {
        let session = self.believers[who].session;
        let (request, received) = (RequestId(number), RequestId(0));
        Command::Request { session, request, received, via: Via::Stream, call }
    }

    fn campaign(&self, who: usize) -> Call {
        Call::Campaign(Campaign {
            election: "e".into(),
            rank: i64::from(who == 1),
            preempt: true,
            grace: UNIT * u32::try_from(self.grace).expect("small"),
            value: Vec::new(),
            patience: Patience::Forever,
            owner: None,
        })
    }

    /// Whatever may happen next.
    fn moves(&self) -> Vec<Self> {
        let mut moves = Vec::new();
        let mut happens = |then: &dyn Fn(&mut Self)| {
            let mut next = self.clone();
            then(&mut next);
            moves.push(next);
        };
        if self.now < HORIZON {
            happens(&|world| world.now += 1);
        }
        happens(&|world| world.apply(Command::Tick, None));
        if self.operator && self.machine.election("e").is_some() {
            happens(&|world| {
                world.operator = false;
                let (election, reason) = ("e".into(), "r".into());
                let barred = Duration::ZERO;
                let depose = Command::Depose { election, reason, barred, at_once: false };
                world.apply(depose, None);
            });
        }
        for who in [0, 1] {
            let believer = &self.believers[who];
            if !believer.campaign {
                happens(&|world| {
                    world.believers[who].campaign = true;
                    world.apply(world.request(who, 1, world.campaign(who)), Some((who, 0)));
                });
            }
            if !believer.unheard.is_empty() {
                happens(&|world| world.believers[who].hear(world.now));
            }
            if let Some(term) = believer.unconfirmed.or(believer.leads) {
                // It has stopped, and says so.
                happens(&|world| {
                    (world.believers[who].leads, world.believers[who].unconfirmed) = (None, None);
                    let resign = Call::Resign { election: "e".into(), term };
                    world.apply(world.request(who, 2, resign), None);
                });
            }
        }
        // Only the first renews its lease; that of the other is long.
        let leader = &self.believers[0];
        match leader.renewal {
            None if self.now < leader.lease => {
                happens(&|world| world.believers[0].renewal = Some(world.now));
            }
            None => {}
            Some(sent) => {
                // It asks that its session live on, or asks for its session once more.
                let sessions = vec![leader.session];
                for renewal in [Command::KeepAlive { sessions }, open(leader.ttl)] {
                    happens(&|world| {
                        world.believers[0].renewal = None;
                        world.apply(renewal.clone(), Some((0, sent)));
                    });
                }
            }
        }
        if !leader.unheard.is_empty() || leader.renewal.is_some() {
            // The connection breaks. Over the next one it asks again for what it has asked and has.
            happens(&|world| {
                world.believers[0].unheard.clear();
                world.believers[0].renewal = None;
                let deposed = world.machine.deposed(world.believers[0].session).into_iter();
                world.believers[0].unheard.extend(deposed.map(|it| Said::Over(it.term)));
                if world.believers[0].campaign {
                    world.apply(world.request(0, 1, world.campaign(0)), Some((0, 0)));
                }
            });
        }
        moves
    }

    fn key(&self) -> Vec<u8> {
        let snapshot = self.machine.snapshot();
        let mut key = postcard::to_allocvec(&snapshot).expect("it can be written");
        key.extend(format!("{} {} {:?}", self.now, self.operator, self.believers).bytes());
        key
    }
}

/// Asks for a session. Those with the same time-to-live have the same key, and are one.
fn open(ttl: u64) -> Command {
    let (name, host) = ("s".into(), "h".into());
    let key = KeyDigest([u8::try_from(ttl).expect("small"); 32]);
    let ttl = UNIT * u32::try_from(ttl).expect("small");
    Command::Open(Open { name, host, ttl, key, ..Open::default() })
}

fn explore(grace: u64, mutation: Option<Mutation>) -> Result<Explored, String> {
    let mut start = World::new(grace, mutation);
    if mutation.is_some() {
        // What is spoilt shows only after the leader was asked to yield.
        for who in [0, 1] {
            start.believers[who].campaign = true;
            start.apply(start.request(who, 1, start.campaign(who)), Some((who, 0)));
        }
        start.believers[0].hear(0);
        start.operator = false;
    }
    let mut seen = BTreeSet::from([start.key()]);
    let mut open = VecDeque::from([start]);
    let mut explored = Explored { states: 1, successions: 0 };
    while let Some(world) = open.pop_front() {
        if explored.states >= MOST {
            break;
        }
        for next in world.moves() {
            let [one, two] = [0, 1].map(|who: usize| next.believers[who].believes(next.now));
            if one && two {
                return Err(format!("both believe at {}: {:#?}", next.now, next.believers));
            }
            if seen.insert(next.key()) {
                explored.states += 1;
                explored.successions += usize::from(two);
                open.push_back(next);
            }
        }
    }
    Ok(explored)
}
