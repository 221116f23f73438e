//! At most so many at a time, however many machines they run on.
//!
//! ```text
//! conclave up &
//! cargo run -p conclave-client --example rate_limiter -- 3 20
//! ```
//!
//! Twenty tasks want to use something of which three may be used at once; run it in several terminals, and it
//! is three among all of them. Each permit is held for a second, so this is also a limit of three per
//! second. If a holder dies, its permit is free when its session has expired.

use std::time::{Duration, Instant};

use conclave_client::{Client, Error, Options, Session, SessionOptions};

/// How long a permit counts, at least.
const WINDOW: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1).map(|number| number.parse().ok());
    let permits = arguments.next().flatten().unwrap_or(3);
    let tasks = arguments.next().flatten().unwrap_or(20);

    let client = Client::connect(Options::from_env()?).await?;
    let session = client.open(SessionOptions::default()).await?;
    let begun = now();
    let calls = (0..tasks).map(|task| {
        // Each task is a thread of control of its own, and so has a clone.
        let session = session.clone();
        tokio::spawn(async move { call(&session, permits, task, begun).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.expect("no call panics")?;
    }
    println!("{tasks} calls in {:.1?}", begun.elapsed());
    session.close().await
}

/// Uses what may not be used too often.
async fn call(session: &Session, permits: u32, task: u32, begun: Instant) -> Result<(), Error> {
    let permit = session.permits("api-calls", 1, permits).await?;
    let window = tokio::time::sleep(WINDOW);
    println!("{:5.1?}: task {task} has a permit, token {}", begun.elapsed(), permit.token());
    // … the call …
    window.await;
    permit.release().await
}

#[expect(clippy::disallowed_methods, reason = "it shows how long things take")]
fn now() -> Instant {
    Instant::now()
}
