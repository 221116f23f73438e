//! A client in Rust, in a process of its own that can be killed and stopped.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser as _;
use conclave_client::{Acquire, Candidacy, Client, Error, Options, Session, SessionOptions};
use conclave_history::{Event, Mode, Time, Want, write_line};
use tokio::time::{sleep, timeout};

use crate::clock::{nanos, now};
use crate::run::draw;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where the node is
    #[arg(long)]
    endpoint: String,
    /// What its session is called
    #[arg(long)]
    name: String,
    #[arg(long)]
    seed: u64,
    /// Where it writes down what happens
    #[arg(long)]
    history: PathBuf,
    /// The time-to-live of its session, in milliseconds
    #[arg(long)]
    ttl: u64,
}

/// What is held.
enum Held {
    Lock(conclave_client::Guard),
    Leadership(conclave_client::Leadership),
}

impl Held {
    fn is_held(&self) -> bool {
        match self {
            Self::Lock(guard) => guard.is_held(),
            Self::Leadership(leadership) => leadership.is_leader(),
        }
    }

    fn token(&self) -> u64 {
        match self {
            Self::Lock(guard) => guard.token(),
            Self::Leadership(leadership) => leadership.term(),
        }
    }

    async fn give_back(self) -> Result<(), Error> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Leadership(leadership) => leadership.resign().await,
        }
    }

    /// Waits until it is to be given back, or is lost; says why, if it is lost.
    async fn over(&self) -> Option<String> {
        let word = |loss| format!("{loss:?}").to_lowercase();
        match self {
            Self::Lock(guard) => Some(word(guard.lost().await)),
            Self::Leadership(leadership) => tokio::select! {
                loss = leadership.lost() => Some(word(loss)),
                _ = leadership.yielding() => None,
            },
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let history = File::options().create(true).append(true).open(&arguments.history);
    let history = history.context("cannot write the history")?;
    let record = move |event: Event| {
        // A client that cannot say what it believes must not believe anything.
        if write_line(&history, &event).is_err() {
            std::process::exit(2);
        }
    };
    runtime.block_on(live(arguments, &record));
    Ok(true)
}

async fn live(arguments: &Arguments, record: &impl Fn(Event)) {
    let mut chance = fastrand::Rng::with_seed(arguments.seed);
    let Ok(client) = Client::connect(Options::new(&arguments.endpoint)).await else { return };
    let ttl = Duration::from_millis(arguments.ttl);
    let options = SessionOptions::ttl(ttl).name(arguments.name.clone());
    let Ok(session) = client.open(options).await else { return };
    for request in 1..chance.u64(2..10) {
        let want = draw(&mut chance);
        let (number, wants) = (session.id(), vec![want.clone()]);
        record(Event::Asked { session: number, request, wants, at: now() });
        let wait = Duration::from_millis([1, 500, 5_000][chance.usize(..3)]);
        let asking = ask(&session, &want, wait, &mut chance);
        // A server that cannot be reached is not waited for longer than this.
        match timeout(Duration::from_secs(30), asking).await {
            Ok(Ok(held)) => {
                let token = held.token();
                record(Event::Granted { session: number, request, token, at: now() });
                let length = Duration::from_millis(chance.u64(5..800));
                hold(&session, held, length, record).await;
            }
            Ok(Err(error)) => {
                let code = error.code().to_owned();
                record(Event::Refused { session: number, request, code, at: now() });
                if !session.is_alive() {
                    return;
                }
            }
            Err(_) => {
                record(Event::Dropped { session: number, request, at: now() });
                return;
            }
        }
    }
    let _ = timeout(Duration::from_secs(20), session.close()).await;
}

async fn ask(
    session: &Session,
    want: &Want,
    wait: Duration,
    chance: &mut fastrand::Rng,
) -> Result<Held, Error> {
    if let Some(election) = want.lock.strip_prefix(Want::ELECTION) {
        let candidacy = Candidacy::new(election).rank(chance.i64(0..4)).timeout(wait);
        let candidacy = candidacy.grace(Duration::from_millis(300));
        let candidacy = if chance.bool() { candidacy.preempt() } else { candidacy };
        return session.campaign(candidacy).await.map(Held::Leadership);
    }
    let acquire = match want.mode {
        Mode::Exclusive => Acquire::exclusive(&want.lock),
        Mode::Shared => Acquire::shared(&want.lock),
        Mode::Permits { take, of } => Acquire::permits(&want.lock, take, of),
    };
    session.acquire(acquire.timeout(wait)).await.map(Held::Lock)
}

/// Holds something for a while, and writes down for how long it was certain to.
async fn hold(session: &Session, held: Held, length: Duration, record: &impl Fn(Event)) {
    let (number, token) = (session.id(), held.token());
    let end = now() + nanos(length);
    let mut written: Time = 0;
    let mut last = None;
    let mut over = Box::pin(held.over());
    let lost = loop {
        // The clock is read first: what is found then was so at that time.
        let at = now();
        if !held.is_held() {
            break true;
        }
        let until = at + nanos(session.remaining());
        last = Some(Event::Believed { session: number, token, at, until });
        if at >= written + 50_000_000 {
            written = at;
            record(last.take().expect("it was just set"));
        }
        if at >= end {
            break false;
        }
        tokio::select! {
            biased;
            why = &mut over => {
                if let Some(why) = why {
                    record(Event::Lost { session: number, token, why, at: now() });
                }
                break false;
            }
            () = sleep(Duration::from_millis(5)) => {}
        }
    };
    drop(over);
    if let Some(last) = last {
        record(last);
    }
    if lost {
        return;
    }
    record(Event::Releasing { session: number, token, at: now() });
    match timeout(Duration::from_secs(20), held.give_back()).await {
        Ok(Ok(())) => record(Event::Released { session: number, token, at: now() }),
        Ok(Err(error)) => {
            let code = error.code().to_owned();
            record(Event::ReleaseRefused { session: number, token, code, at: now() });
        }
        Err(_) => {}
    }
}

/// The arguments with which this program is such a client.
pub(crate) fn arguments(of: &Arguments) -> Vec<String> {
    let mut list = vec!["client".to_owned()];
    let pairs = [
        ("--endpoint", of.endpoint.clone()),
        ("--name", of.name.clone()),
        ("--seed", of.seed.to_string()),
        ("--history", of.history.display().to_string()),
        ("--ttl", of.ttl.to_string()),
    ];
    list.extend(pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
    debug_assert!(
        crate::Arguments::try_parse_from(std::iter::once("chaos".to_owned()).chain(list.clone()))
            .is_ok()
    );
    list
}

impl Arguments {
    pub(crate) fn new(
        endpoint: String,
        name: String,
        seed: u64,
        history: PathBuf,
        ttl: u64,
    ) -> Self {
        Self { endpoint, name, seed, history, ttl }
    }
}
