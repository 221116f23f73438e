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
    }
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
    let view = world.machine.election("web").expect("somebody leads");
    assert!(view.leader.is_some_and(|leader| leader.term > term), "every leader has a later term");
    assert_eq!(view.candidates.len(), 1);
}

#[test]
fn a_better_candidate_that_preempts_takes_over_at_once_if_the_leader_needs_no_time() {
    let mut world = World::new(Policy::default());
    let [one, two, three] = world.open_several();
    let term = granted(&stand(&mut world, one, campaign(1)));
    let preempt = |rank| Campaign { preempt: true, ..campaign(rank) };
    assert_eq!(stand(&mut world, two, preempt(1)), waits(), "it is no better");
    assert!(granted(&stand(&mut world, three, preempt(2))) > term);
    let election = Name::from("web");
    let deposed = Event::Deposed { election, session: one, term, cause: Cause::Preempted };
    assert!(world.events.contains(&deposed));
}

#[test]
fn a_leader_with_a_grace_period_is_asked_before_it_is_deposed() {
    let mut world = World::new(Policy::default());
    let [one, two] = world.open_several();
    let slow = Campaign { grace: Duration::from_secs(2), ..campaign(1) };
    let term = granted(&stand(&mut world, one, slow));
    let tries = Campaign { preempt: true, patience: Patience::Try, ..campaign(5) };
    assert_eq!(stand(&mut world, two, tries), Err(Error::Conflict("web".into())));
    let better = Campaign { preempt: true, ..campaign(5) };
    assert_eq!(stand(&mut world, two, better), waits());
    let (election, by) = (Name::from("web"), Time::from_millis(2_000));
    assert!(world.events.contains(&Event::Yield { election, session: one, term, by }));
    world.pass(1_999);
    assert_eq!(leader(&world), Some(one));
    world.pass(1);
    assert_eq!(leader(&world), Some(two));
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
    assert_eq!(asked(&world, one), [], "nobody wants it any more");
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
fn everybody_hears_what_a_leader_proclaims_and_when_nobody_leads() {
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
    let depose = Command::Depose { election: election.clone(), reason: "maintenance".into() };
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
