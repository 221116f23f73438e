//! All locks and elections, as the node lists them.

use std::time::Duration;

use conclave_history::{Event, Held, LockView, Waiter, Want};
use serde_json::Value;

use crate::clock::now;
use crate::http;
use crate::run::World;

/// Lists again and again until the world ends.
pub(crate) async fn record_repeatedly(world: World) {
    while !world.is_over() {
        record(&world).await;
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
}

/// Lists once; returns whether anything is held or waited for, if there was an answer.
pub(crate) async fn record(world: &World) -> Option<bool> {
    let node = world.proxy.node();
    let sent = now();
    let both = async {
        let locks = http::get(node, "/v1/locks?limit=1000").await.ok()?;
        let elections = http::get(node, "/v1/elections?limit=1000").await.ok()?;
        Some((locks, elections))
    };
    let (locks, elections) = tokio::time::timeout(Duration::from_secs(10), both).await.ok()??;
    let answered = now();
    let whole = |answer: &http::Answer| answer.is_ok() && answer.body["more"] == false;
    if !whole(&locks) || !whole(&elections) {
        return None;
    }
    let mut views = Vec::new();
    for lock in locks.body["locks"].as_array()? {
        let holders = lock["holders"].as_array()?.iter();
        let waiters = lock["waiters"].as_array()?.iter();
        views.push(LockView {
            lock: lock["name"].as_str()?.to_owned(),
            holders: holders.filter_map(|holder| held(holder, "token")).collect(),
            waiters: waiters.filter_map(waiter).collect(),
        });
    }
    for election in elections.body["elections"].as_array()? {
        let candidates = election["candidates"].as_array()?.iter();
        views.push(LockView {
            lock: Want::election(election["name"].as_str()?).lock,
            holders: held(&election["leader"], "term").into_iter().collect(),
            waiters: candidates.filter_map(waiter).collect(),
        });
    }
    let anything = views.iter().any(|view| !view.holders.is_empty() || !view.waiters.is_empty());
    world.recorder.record(&Event::Looked { sent, answered, locks: views });
    Some(anything)
}

fn held(holder: &Value, token: &str) -> Option<Held> {
    let (session, name) = who(holder)?;
    Some(Held { session, name, token: holder[token].as_u64()? })
}

fn waiter(waiter: &Value) -> Option<Waiter> {
    let (session, name) = who(waiter)?;
    Some(Waiter { session, name })
}

fn who(of: &Value) -> Option<(u64, String)> {
    let who = &of["who"];
    Some((who["session"].as_u64()?, who["name"].as_str()?.to_owned()))
}
