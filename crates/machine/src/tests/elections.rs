//! Elections, told as stories.

use std::time::Duration;

use super::world::{World, granted, waits};
use crate::*;

fn campaign(rank: i64) -> Campaign {
    Campaign {
        election: "web".into(),
        rank,
        preempt: false,
        grace: Duration::ZERO,
        value: b"me".to_vec(),
        patience: Patience::Forever,
        owner: None,
    }
}

fn deposed(session: SessionId, term: Token, cause: Cause, until: Option<u64>) -> Event {
    let until = until.map(Time::from_millis);
    Event::Deposed(Deposed { election: "web".into(), session, term, cause, until })
}

fn resign(world: &mut World, session: SessionId, term: Token) {
    let resign = Call::Resign { election: "web".into(), term };
    assert_eq!(world.call(session, resign), Ok(Reply::Done));
}

fn stand(world: &mut World, session: SessionId, campaign: Campaign) -> Result<Reply, Error> {
    world.call(session, Call::Campaign(campaign))
}

fn leader(world: &World) -> Option<SessionId> {
    world.machine.election("web")?.leader.map(|leader| leader.session)
}

#[test]
fn the_best_candidate_leads_and_of_equals_the_first() {
    let mut world = World::new(Policy::default());
    let [one, two, three, four] = world.open_several();
    let term = granted(&stand(&mut world, one, campaign(0)));
    for (session, rank) in [(two, 1), (three, 2), (four, 2)] {
        assert_eq!(stand(&mut world, session, campaign(rank)), waits());
    }
    assert_eq!(leader(&world), Some(one), "without preemption the leader stays");
    let resign = Call::Resign { election: "web".into(), term };
    assert_eq!(world.call(one, resign.clone()), Ok(Reply::Done));
    assert_eq!(leader(&world), Some(three));
    assert_eq!(world.call(one, resign), Err(Error::NotLeader("web".into())));
    world.apply(Command::Close { session: three }).expect("it lives");
    assert_eq!(leader(&world), Some(four));
    let view = world.machine.election("web").expect("it has a leader");
    assert!(view.leader.is_some_and(|leader| leader.term > term), "every leader has a later term");
    assert_eq!(view.candidates.len(), 1);
}

#[test]
fn a_better_candidate_takes_over_when_the_leader_has_confirmed_that_it_is_deposed() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    let term = granted(&stand(&mut world, one, campaign(1)));
    let preempt = |rank| Campaign { preempt: true, ..campaign(rank) };
    assert_eq!(stand(&mut world, two, preempt(1)), waits(), "it is no better");
    let tries = Campaign { patience: Patience::Try, ..preempt(2) };
    assert_eq!(stand(&mut world, three, tries), Err(Error::Conflict("web".into())));
    assert!(!world.events.contains(&deposed(one, term, Cause::Preempted, Some(10_000))));
    assert_eq!(stand(&mut world, three, preempt(2)), waits(), "the leader may not know yet");
    assert!(world.events.contains(&deposed(one, term, Cause::Preempted, Some(10_000))));
    assert_eq!(leader(&world), Some(one));
    resign(&mut world, one, term);
    assert_eq!(leader(&world), Some(three));
}

#[test]
fn a_leader_that_does_not_hear_that_it_is_deposed_leads_until_its_lease_ends() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    let slow = Campaign { grace: Duration::from_secs(2), ..campaign(1) };
    let term = granted(&stand(&mut world, one, slow.clone()));
    let request = world.last_request();
    let better = Campaign { preempt: true, ..campaign(5) };
    assert_eq!(stand(&mut world, two, better), waits());
    let by = Time::from_millis(2_000);
    let asked = Event::Yield { election: "web".into(), session: one, term, by };
    assert!(world.events.contains(&asked));
    // It renews its lease before it is deposed, and that counts.
    world.pass(1_000);
    world.keep_alive(one);
    world.pass(999);
    world.keep_alive(two);
    assert!(!world.events.contains(&deposed(one, term, Cause::Preempted, Some(11_000))));
    world.pass(1);
    assert!(world.events.contains(&deposed(one, term, Cause::Preempted, Some(11_000))));
    // Renewals after that keep the session, and say that they do not prolong the leadership.
    world.pass(4_000);
    world.keep_alive(two);
    let renewed = world.apply(Command::KeepAlive { sessions: vec![two, one] });
    let Event::Deposed(told) = deposed(one, term, Cause::Preempted, Some(11_000)) else {
        panic!("it is an event")
    };
    assert_eq!(renewed, Ok(Reply::Alive { gone: vec![], deposed: vec![told] }));
    // Asked again, its candidacy has come to nothing; it may not learn only now that it leads.
    let again = world.repeat(one, request, Call::Campaign(slow));
    assert_eq!(again, Err(Error::Lost));
    let proclaim = Call::Proclaim { election: "web".into(), term, value: vec![1] };
    assert_eq!(world.call(one, proclaim), Err(Error::NotLeader("web".into())));
    world.pass(4_999);
    assert_eq!(leader(&world), Some(one));
    let view = world.machine.election("web").expect("it is led");
    let left = Duration::from_millis(1);
    assert_eq!(view.tenure, Tenure::Deposed { cause: Cause::Preempted, left });
    world.pass(1);
    assert_eq!(leader(&world), Some(two));
    assert!(world.machine.session(one).is_some(), "its session lives on");
    let renewed = world.apply(Command::KeepAlive { sessions: vec![one] });
    assert_eq!(renewed, Ok(Reply::Alive { gone: vec![], deposed: vec![] }));
}

#[test]
fn the_next_candidate_leads_as_soon_as_the_session_of_a_deposed_leader_ends() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    let term = granted(&stand(&mut world, one, campaign(1)));
    let better = Campaign { preempt: true, ..campaign(5) };
    assert_eq!(stand(&mut world, two, better), waits());
    assert!(world.events.contains(&deposed(one, term, Cause::Preempted, Some(10_000))));
    world.apply(Command::Close { session: one }).expect("it lives");
    assert_eq!(leader(&world), Some(two));
}

#[test]
fn what_an_operator_deposes_may_not_stand_again_for_as_long_as_was_said() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    let best = Campaign { preempt: true, ..campaign(9) };
    let term = granted(&stand(&mut world, one, best.clone()));
    assert_eq!(stand(&mut world, two, campaign(0)), waits());
    let depose = |at_once| Command::Depose {
        election: "web".into(),
        reason: "it serves errors".into(),
        barred: Duration::from_secs(3),
        at_once,
    };
    assert_eq!(world.apply(depose(false)), Ok(Reply::Done));
    assert!(world.events.contains(&deposed(one, term, Cause::Forced, Some(10_000))));
    assert_eq!(leader(&world), Some(one), "it may not have heard");
    let again = stand(&mut world, one, best.clone());
    assert!(matches!(again, Err(Error::Barred { .. } | Error::AlreadyCandidate(_))), "{again:?}");
    resign(&mut world, one, term);
    assert_eq!(leader(&world), Some(two));
    world.pass(1_000);
    let left = Duration::from_secs(2);
    let barred = Err(Error::Barred { election: "web".into(), left });
    assert_eq!(stand(&mut world, one, best.clone()), barred);
    let elsewhere = Campaign { election: "other".into(), ..best.clone() };
    granted(&stand(&mut world, one, elsewhere));
    world.pass(2_000);
    assert_eq!(stand(&mut world, one, best), waits());
    // By force, the next one leads at once.
    let term = world.machine.election("web").and_then(|view| view.leader).expect("two leads").term;
    assert_eq!(world.apply(depose(true)), Ok(Reply::Done));
    assert!(world.events.contains(&deposed(two, term, Cause::Forced, None)));
    assert_eq!(leader(&world), Some(one));
}

#[test]
fn what_a_leader_was_asked_to_yield_can_be_seen_until_that_is_settled() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    let asked = |world: &World, session| {
        let asked = world.machine.asked_to_yield(session);
        asked.map(|(name, term, by)| (name.to_string(), term, by)).collect::<Vec<_>>()
    };
    let slow = Campaign { grace: Duration::from_secs(2), ..campaign(1) };
    let term = granted(&stand(&mut world, one, slow));
    assert_eq!(stand(&mut world, two, campaign(3)), waits());
    assert_eq!(asked(&world, one), [], "who waits for it does not want it at once");
    let better = Campaign { preempt: true, ..campaign(5) };
    assert_eq!(stand(&mut world, three, better.clone()), waits());
    let request = world.last_request();
    let by = Time::from_millis(2_000);
    assert_eq!(asked(&world, one), [("web".to_owned(), term, by)]);
    assert_eq!((asked(&world, two), asked(&world, three)), (vec![], vec![]));
    world.pass(700);
    assert_eq!(asked(&world, one), [("web".to_owned(), term, by)]);
    assert_eq!(world.call(three, Call::Cancel { request }), Ok(Reply::Done));
    assert_eq!(asked(&world, one), [], "no session wants it any more");
    assert_eq!(stand(&mut world, three, better), waits());
    let resign = Call::Resign { election: "web".into(), term };
    assert_eq!(world.call(one, resign), Ok(Reply::Done));
    assert_eq!((leader(&world), asked(&world, one)), (Some(three), vec![]));
    assert_eq!(asked(&world, SessionId(99)), [], "there is no such session");
}

#[test]
fn a_leader_stays_if_the_better_candidate_has_gone_when_its_grace_is_over() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    let slow = Campaign { grace: Duration::from_secs(2), ..campaign(1) };
    granted(&stand(&mut world, one, slow));
    let better = Campaign { preempt: true, ..campaign(5) };
    assert_eq!(stand(&mut world, two, better), waits());
    let request = world.last_request();
    assert_eq!(world.call(two, Call::Cancel { request }), Ok(Reply::Done));
    world.pass(3_000);
    assert_eq!(leader(&world), Some(one));
}

#[test]
fn observers_hear_what_a_leader_proclaims_and_when_there_is_none() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    let term = granted(&stand(&mut world, one, campaign(0)));
    let election = Name::from("web");
    let proclaim =
        |value: &[u8]| Call::Proclaim { election: "web".into(), term, value: value.to_vec() };
    assert_eq!(world.call(two, proclaim(b"no")), Err(Error::NotLeader("web".into())));
    assert_eq!(world.call(one, proclaim(b"10.0.0.1")), Ok(Reply::Done));
    let leader = Leadership { session: one, term, value: b"10.0.0.1".to_vec() };
    let heard = Event::Leader { election: election.clone(), leader: Some(leader) };
    assert_eq!(world.events.last(), Some(&heard));
    let depose = Command::Depose {
        election: election.clone(),
        reason: "maintenance".into(),
        barred: Duration::ZERO,
        at_once: true,
    };
    assert_eq!(world.apply(depose), Ok(Reply::Done));
    assert_eq!(world.events.last(), Some(&Event::Leader { election, leader: None }));
    assert_eq!(world.machine.counts().elections, 0);
    assert_eq!(
        world.machine.forced().next().map(|it| it.reason.to_string()),
        Some("maintenance".into())
    );
}

#[test]
fn a_session_stands_once_and_what_it_wins_is_gone_with_it() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    granted(&stand(&mut world, one, campaign(0)));
    let again = stand(&mut world, one, campaign(1));
    assert_eq!(again, Err(Error::AlreadyCandidate("web".into())));
    assert_eq!(stand(&mut world, two, campaign(0)), waits());
    let again = stand(&mut world, two, campaign(1));
    assert_eq!(again, Err(Error::AlreadyCandidate("web".into())));
    world.pass(5_000);
    world.keep_alive(two);
    world.pass(5_000);
    assert_eq!(leader(&world), Some(two));
}

#[test]
fn to_end_a_session_costs_as_much_as_it_leads_and_no_more() {
    let mut machine = Machine::new(Config::default());
    let mut apply = |command| machine.apply(Time::ZERO, command, &mut Vec::new());
    let ttl = std::time::Duration::from_secs(10);
    let opened = apply(Command::Open(Open { ttl, ..Open::default() }));
    let Ok(Reply::Opened { session, .. }) = opened else { panic!("{opened:?}") };
    let count = 1000;
    for number in 1..=count {
        let call = Call::Campaign(Campaign {
            election: format!("e{number}").as_str().into(),
            rank: 0,
            preempt: false,
            grace: std::time::Duration::ZERO,
            value: Vec::new(),
            patience: Patience::Try,
            owner: None,
        });
        let (request, received, via) = (RequestId(number), RequestId(0), Via::Stream);
        apply(Command::Request { session, request, received, via, call }).expect("it leads");
    }
    machine.steps.set(0);
    let mut events = Vec::new();
    machine.apply(Time::ZERO, Command::Close { session }, &mut events).expect("it lives");
    let deposed = events.iter().filter(|event| matches!(event, Event::Deposed(_))).count() as u64;
    assert_eq!((deposed, machine.counts().elections), (count, 0));
    let looked_at = machine.steps.get();
    assert!(looked_at <= count, "{looked_at} for {count} elections");
}
