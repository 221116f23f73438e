//! Orders of an operator: forced releases and depositions.

use std::net::SocketAddr;
use std::time::Duration;

use conclave_history::{Event, Taken, Want};
use serde_json::{Value, json};

use crate::clock::now;
use crate::http;
use crate::recorder::Recorder;

/// For so long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes a lock, or ends a leadership, and asks the node which grants that were. If there is no answer, they are unknown.
pub(crate) async fn take(recorder: &Recorder, node: SocketAddr, lock: String) {
    let sent = now();
    // By its reason the order is known again.
    let reason = format!("chaos {sent}");
    let election = lock.strip_prefix(Want::ELECTION);
    let (path, order) = match election {
        Some(election) => {
            ("/v1/admin/depose", json!({"election": election, "reason": reason.clone()}))
        }
        None => ("/v1/admin/release", json!({"lock": lock, "reason": reason.clone()})),
    };
    let why = format!("/v1/why?name={}", election.unwrap_or(&lock));
    recorder.record(&Event::Forcing { lock: lock.clone(), at: sent });
    let answer = tokio::time::timeout(PATIENCE, http::post(node, path, &order)).await;
    let answered = now();
    let Ok(Ok(answer)) = answer else { return };
    let taken = match answer.status {
        200 => {
            let why = tokio::time::timeout(PATIENCE, http::get(node, &why)).await;
            let Ok(Ok(why)) = why else { return };
            let Some(taken) = taken(&why.body, &reason).filter(|_| why.is_ok()) else { return };
            taken
        }
        // The node says that it has not done it.
        400..=499 => Vec::new(),
        _ => return,
    };
    recorder.record(&Event::Forced { lock, taken, sent, answered });
}

/// What was taken for a reason.
fn taken(why: &Value, reason: &str) -> Option<Vec<Taken>> {
    let forced = why["forced"].as_array()?.iter().filter(|forced| forced["reason"] == reason);
    let taken = forced.map(|forced| {
        Some(Taken { session: forced["session"].as_u64()?, token: forced["token"].as_u64()? })
    });
    taken.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_order_took_is_known_by_its_reason() {
        let why = json!({"forced": [
            {"session": 3, "token": 8, "reason": "chaos 12"},
            {"session": 2, "token": 7, "reason": "chaos 11"},
            {"session": 1, "token": 6, "reason": "chaos 12"},
        ]});
        let both = [Taken { session: 3, token: 8 }, Taken { session: 1, token: 6 }];
        assert_eq!(taken(&why, "chaos 12").as_deref(), Some(&both[..]));
        assert_eq!(taken(&why, "chaos 1").as_deref(), Some(&[][..]));
        assert_eq!(taken(&json!({}), "chaos 12"), None);
    }
}
