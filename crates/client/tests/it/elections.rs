//! Elections, as candidates and observers see them; and what can be seen of everything.

use std::time::Duration;

use crate::support::{LONG, World, open, until};
use conclave_client::{Candidacy, Error, Loss, Observation, Want};

/// The next leader that is shown: its term and what it is known for.
async fn next(observation: &mut Observation) -> Option<(u64, Vec<u8>)> {
    let leader = observation.next().await.expect("it goes on").expect("it may be seen");
    leader.leader.map(|leader| (leader.term, leader.value))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_candidate_follows_and_observers_see_every_change() {
    let mut world = World::new().await;
    let client = world.client().await;
    let mut seen = client.observe("web");
    assert_eq!(next(&mut seen).await, None);
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let three = world.session("three", LONG).await;
    let first = one.campaign(Candidacy::new("web").value("one")).await.expect("there is no leader");
    assert!(first.is_leader() && first.election() == "web" && first.session() == one.id());
    assert_eq!(next(&mut seen).await, Some((first.term(), b"one".to_vec())));
    let error = two.campaign(Candidacy::new("web").timeout(Duration::ZERO)).await;
    assert_eq!(error.expect_err("there is a leader").code(), "conflict");
    let error = one.campaign(Candidacy::new("web")).await.expect_err("it leads already");
    assert_eq!(error.code(), "already-candidate");
    let low = tokio::spawn(async move { two.campaign(Candidacy::new("web").value("two")).await });
    let candidates = async || client.elections("w").await.expect("ok")[0].candidates.len();
    until("one stands", async || candidates().await == 1).await;
    let high = Candidacy::new("web").rank(5).value("three");
    let high = tokio::spawn(async move { three.campaign(high).await });
    until("two stand", async || candidates().await == 2).await;
    first.proclaim("one more").await.expect("it leads");
    assert_eq!(next(&mut seen).await, Some((first.term(), b"one more".to_vec())));
    // An observer does not notice that the server was away, but for what changed.
    world.stop().await;
    world.start().await;
    first.resign().await.expect("it leads");
    let high = high.await.expect("no panic").expect("it is the best");
    assert_eq!(next(&mut seen).await, Some((high.term(), b"three".to_vec())));
    client.depose("web", "it is slow").await.expect("it leads");
    assert_eq!(high.lost().await, Loss::Forced);
    assert!(!high.is_leader());
    let leads =
        client.elections("w").await.expect("ok")[0].leader.clone().expect("until it confirms");
    assert!(leads.term == high.term() && leads.deposed_ms.is_some(), "{leads:?}");
    assert!(matches!(high.resign().await, Err(Error::Lost(Loss::Forced))));
    let low = low.await.expect("no panic").expect("no other is left");
    assert_eq!(next(&mut seen).await, Some((low.term(), b"two".to_vec())));
    drop(low);
    assert_eq!(next(&mut seen).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_has_to_yield_is_asked_and_has_the_time_it_needs() {
    let world = World::new().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let candidacy = Candidacy::new("web").grace(LONG);
    let leader = one.campaign(candidacy).await.expect("there is no leader");
    let better =
        tokio::spawn(
            async move { (two.campaign(Candidacy::new("web").rank(1).preempt()).await, two) },
        );
    let left = leader.yielding().await;
    assert!(!left.is_zero() && left <= LONG && leader.is_leader());
    let term = leader.term();
    leader.resign().await.expect("it leads");
    let (better, two) = better.await.expect("no panic");
    let better = better.expect("it is better");
    assert!(better.term() > term);
    // One that does not heed it is deposed; but it is for the program to say when it has stopped.
    better.resign().await.expect("it leads");
    let candidacy = Candidacy::new("web").grace(Duration::from_millis(300));
    let leader = one.campaign(candidacy).await.expect("there is no leader");
    let better =
        tokio::spawn(async move { two.campaign(Candidacy::new("web").rank(1).preempt()).await });
    assert_eq!(leader.lost().await, Loss::Preempted);
    assert!(!leader.is_leader() && leader.remaining().is_zero());
    let client = world.client().await;
    let leads =
        client.elections("w").await.expect("ok")[0].leader.clone().expect("it has not said");
    assert!(leads.term == leader.term() && leads.deposed_ms.is_some(), "{leads:?}");
    assert!(!better.is_finished());
    drop(leader);
    let better = better.await.expect("no panic").expect("it is better");
    assert!(better.is_leader());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_that_is_dropped_leaves_no_candidate_and_no_leader() {
    let world = World::new().await;
    let client = world.client().await;
    let (one, two) = (world.session("one", LONG).await, world.session("two", LONG).await);
    let leader = one.campaign(Candidacy::new("web")).await.expect("there is no leader");
    let given_up = two.campaign(Candidacy::new("web"));
    assert!(tokio::time::timeout(Duration::from_millis(50), given_up).await.is_err());
    until("no candidate stands", async || {
        client.elections("").await.expect("ok")[0].candidates.is_empty()
    })
    .await;
    drop(leader);
    for pause in 0..20 {
        let pause = Duration::from_micros(pause * 100);
        drop(tokio::time::timeout(pause, two.campaign(Candidacy::new("web"))).await);
        one.campaign(Candidacy::new("web"))
            .await
            .expect("no other is left")
            .resign()
            .await
            .expect("ok");
    }
    until("there is no leader", async || client.elections("").await.expect("ok").is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_locks_and_sessions_are_seen_however_many_there_are() {
    let world = World::new().await;
    let client = world.client().await;
    let one = open(&client, "one", LONG).await;
    let mut guards = Vec::new();
    for group in 0..40 {
        let wants = (0..60).map(|n| Want::exclusive(format!("many/{:04}", group * 60 + n)));
        guards.push(one.lock_all(wants).await.expect("free"));
    }
    let locks = client.locks("many/").await.expect("it answers");
    assert!(
        locks.iter().map(|lock| lock.name.clone()).eq((0..2400).map(|n| format!("many/{n:04}")))
    );
    assert!(client.locks("few/").await.expect("it answers").is_empty());
    let opened = (0..1500).map(|_| open(&client, "more", LONG));
    let opened = futures_util::future::join_all(opened).await;
    assert_eq!(client.sessions().await.expect("it answers").len(), 1501);
    assert_eq!(client.status().await.expect("it answers").sessions, 1501);
    assert!(client.graph().await.expect("it answers").waits.is_empty());
    drop((opened, guards));
}
