//! A worker of which many run, and one works.
//!
//! ```text
//! conclave up &
//! cargo run -p conclave-client --example leader_worker -- ann 1 &
//! cargo run -p conclave-client --example leader_worker -- bob 2
//! ```
//!
//! The one with the higher rank leads. It takes over from one with a lower rank, which is asked to yield and has
//! two seconds to finish what it does. Kill one and another goes on.

use std::time::Duration;

use conclave_client::{Candidacy, Client, Error, Leadership, Options, Session, SessionOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "worker".to_owned());
    let rank = arguments.next().and_then(|rank| rank.parse().ok()).unwrap_or(0);

    let client = Client::connect(Options::from_env()?.name(&name)).await?;
    tokio::spawn(tell_who_leads(client.clone()));
    loop {
        // A session that was lost is lost for good; the next one starts from nothing.
        let session = client.open(SessionOptions::ttl(Duration::from_secs(5))).await?;
        match serve(&session, &name, rank).await {
            Ok(()) => println!("{name}: resigned, and stands again"),
            Err(error @ (Error::Lost(_) | Error::SessionLost(_))) => println!("{name}: {error}"),
            Err(error) => return Err(error),
        }
    }
}

/// Waits until it leads, works, and stops when it has to.
async fn serve(session: &Session, name: &str, rank: i64) -> Result<(), Error> {
    let candidacy = Candidacy::new("worker").rank(rank).preempt().value(name);
    let leader = session.campaign(candidacy.grace(Duration::from_secs(2))).await?;
    println!("{name}: leads, term {}", leader.term());
    tokio::select! {
        // Nothing is finished, and nothing that it does from here on counts.
        loss = leader.lost() => return Err(Error::Lost(loss)),
        left = leader.yielding() => println!("{name}: asked to yield within {left:?}"),
        () = work(&leader, name) => {}
    }
    leader.resign().await
}

/// The work that only the leader does. The term goes with all of it, so that what receives it can refuse
/// what comes from an earlier leader.
async fn work(leader: &Leadership, name: &str) {
    for step in 1.. {
        if !leader.is_leader() {
            return;
        }
        println!("{name}: step {step} of term {}", leader.term());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn tell_who_leads(client: Client) {
    let mut seen = client.observe("worker");
    while let Some(Ok(change)) = seen.next().await {
        match change.leader {
            Some(leader) => {
                let name = String::from_utf8_lossy(&leader.value);
                println!("   {name} leads, term {}", leader.term);
            }
            None => println!("   no leader"),
        }
    }
}
