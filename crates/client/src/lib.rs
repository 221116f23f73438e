//! A client of Conclave's lock service.
//!
//! ```no_run
//! use conclave_client::{Client, Options, SessionOptions};
//!
//! # async fn example() -> Result<(), conclave_client::Error> {
//! let client = Client::connect(Options::new("127.0.0.1:7411")).await?;
//! let session = client.open(SessionOptions::default()).await?;
//!
//! let guard = session.lock("backup").await?;
//! println!("held with token {}", guard.token());
//! // … the critical section …
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Client`] has one connection to one of the servers it knows, and finds another when that breaks. A
//! [`Session`] lives on meanwhile, as long as it is renewed in time; its requests without an answer are
//! repeated, and carried out once. A [`Guard`] stands for locks that are held, a [`Leadership`] for an election
//! that was won. [`blocking`] is the same for programs that do not use async functions.
//!
//! # When a lock is lost
//!
//! A session is kept by the server for its time-to-live after the last renewal, and then others may have what
//! it held. A program must therefore stop *before* that, and without a message from the server, which may
//! be out of reach. This is how it knows:
//!
//! 1. A lease counts from the moment at which its renewal was **sent**. The server counts from when it
//!    wrote the renewal down, which is later. So the client's lease ends first, however long messages take.
//! 2. It is counted by a clock that cannot be set and that runs on while the machine sleeps
//!    (`CLOCK_BOOTTIME`), and one part in 64 of it ([`DRIFT`]) is given up for the difference between the
//!    rates of two clocks. As long as they differ by less than that, the client's lease ends first.
//! 3. [`Session::is_alive`], [`Guard::is_held`] and [`Leadership::is_leader`] read that clock each time. A
//!    program that was stopped for longer than its lease finds that it holds nothing as soon as it asks,
//!    before anything else has run.
//! 4. What is over stays over: an answer that comes late renews nothing, and a grant that comes after the end
//!    of the lease is not reported as one.
//! 5. When a session is lost, all its guards are, its requests end with [`Error::SessionLost`], what was
//!    registered with [`Session::on_loss`] is called, and [`Session::lost`] and [`Guard::lost`] tell why. Only
//!    then is the server told that others may have what it held.
//!
//! Two things no client can know: what happens between its last look at the clock and what it does then, and
//! that an operator has just taken a lock by force (it hears of that as soon as the message arrives). For both
//! there are fencing tokens ([`Guard::token`], [`Leadership::term`]): what is protected remembers the highest
//! token it has seen and refuses lower ones. The example `fenced_file` shows how.

mod acquire;
mod answers;
pub mod blocking;
mod certificate;
mod client;
mod connection;
mod election;
mod endpoint;
mod error;
mod guard;
mod handles;
mod keepalive;
mod lease;
mod observe;
mod options;
mod requests;
mod session;
mod state;
#[cfg(test)]
mod tests;
mod time;
mod views;

pub use conclave_api::{DEFAULT_ADDRESS, v1 as view};

pub use acquire::{Acquire, Want};
pub use client::Client;
pub use election::{Candidacy, Leadership};
pub use error::{Error, Loss};
pub use guard::Guard;
pub use lease::DRIFT;
pub use observe::Observation;
pub use options::{Options, Secret, Tls};
pub use session::{Credentials, Session, SessionOptions};
pub use time::{ManualTime, TimeSource};
pub use views::{Deposition, Origin};
