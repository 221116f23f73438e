//! The client side of nesting: a nested process uses the session of the outer one.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use conclave_client::view::Failed;
use conclave_client::{Error, Loss};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::super::{Log, boottime};
use super::{
    Candidate, KILLED, Message, OUTER_LOST, PLACE, Request, WantedLock, connect, line, own_user,
};

/// What a nested process has: a part in the outer one's session.
pub(crate) struct Nested {
    /// The number of the session.
    pub(crate) session: u64,
    /// How long it lives when it is not renewed.
    pub(crate) ttl: Duration,
    name: String,
    branch: u64,
    to: OwnedWriteHalf,
    answers: mpsc::UnboundedReceiver<Message>,
    state: Arc<State>,
}

/// What it is told without having asked.
struct State {
    /// When the lease ends, by the clock of the machine, in nanoseconds.
    until: AtomicU64,
    lost: watch::Sender<Option<String>>,
    /// Everything has to end, for good.
    killed: watch::Sender<bool>,
    yields: watch::Sender<Option<Duration>>,
    /// The outer process is gone.
    gone: watch::Sender<bool>,
}

/// How long the outer process may take to answer. It may be stopped.
const PATIENCE: Duration = Duration::from_secs(5);

impl Nested {
    /// Takes part in the session of the process that this one is nested in, if it is in one and would use the same
    /// node in the same way. If that process does not answer, says so.
    pub(crate) async fn join(node: u64, log: &Log) -> Option<Self> {
        let place = std::env::var(PLACE).ok()?;
        let (name, parent) = place.split_once(' ')?;
        let parent = parent.parse().ok()?;
        let why = match timeout(PATIENCE, Self::meet(name, parent, node)).await {
            Ok(Ok(met)) => return met,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it is stopped, perhaps".to_owned(),
        };
        let text = format!(
            "the process that this one is nested in does not answer ({why}), so it uses a session of its own"
        );
        log.info("not-nested", &text);
        None
    }

    async fn meet(name: &str, parent: u64, node: u64) -> io::Result<Option<Self>> {
        let connection = connect(name)?;
        connection.set_nonblocking(true)?;
        let connection = UnixStream::from_std(connection)?;
        if connection.peer_cred()?.uid() != own_user() {
            return Err(io::Error::other("another user's process has its name"));
        }
        let (from, mut to) = connection.into_split();
        to.write_all(line(&Request::Hello { parent, node }).as_bytes()).await?;
        let mut lines = BufReader::new(from).lines();
        let welcome = lines.next_line().await?.unwrap_or_default();
        let (branch, session, ttl_ms, until) = match serde_json::from_str(&welcome) {
            Ok(Message::Welcome { branch, session, ttl_ms, until }) => {
                (branch, session, ttl_ms, until)
            }
            Ok(Message::Stranger) => return Ok(None),
            _ => return Err(io::Error::other("it does not know the command that this one is in")),
        };
        let state = Arc::new(State {
            until: AtomicU64::new(until),
            lost: watch::Sender::new(None),
            killed: watch::Sender::new(false),
            yields: watch::Sender::new(None),
            gone: watch::Sender::new(false),
        });
        let (tell, answers) = mpsc::unbounded_channel();
        let hears = state.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str(&line) {
                    Ok(Message::Until(until)) => {
                        hears.until.fetch_max(until, Ordering::SeqCst);
                    }
                    Ok(Message::Lost(why)) => drop(hears.lost.send_replace(Some(why))),
                    Ok(Message::Kill) => drop(hears.killed.send_replace(true)),
                    Ok(Message::Yield(within)) => {
                        hears.yields.send_replace(Some(Duration::from_millis(within)));
                    }
                    Ok(told) => drop(tell.send(told)),
                    Err(_) => {}
                }
            }
            hears.gone.send_replace(true);
        });
        let (name, ttl) = (name.to_owned(), Duration::from_millis(ttl_ms));
        Ok(Some(Self { session, ttl, name, branch, to, answers, state }))
    }

    /// What its own command has to know.
    pub(crate) fn environment(&self) -> (&'static str, String) {
        (PLACE, format!("{} {}", self.name, self.branch))
    }

    /// The connection of the guard. While it is open, what was granted is not given back.
    pub(crate) fn guard_connection(&self) -> io::Result<OwnedFd> {
        let mut connection = connect(&self.name)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.write_all(line(&Request::Guard { branch: self.branch }).as_bytes())?;
        // It is known before there is anything to guard. What comes after that line is for the guard.
        let mut byte = [0];
        while byte != *b"\n" {
            connection.read_exact(&mut byte)?;
        }
        connection.set_read_timeout(None)?;
        Ok(connection.into())
    }

    /// How much of the lease remains.
    pub(crate) fn remaining(&self) -> Duration {
        let until = Duration::from_nanos(self.state.until.load(Ordering::SeqCst));
        until.saturating_sub(boottime::now())
    }

    /// Waits until what was granted is lost.
    pub(crate) fn lost(&self) -> impl Future<Output = String> + Send + 'static {
        let (lost, mut killed) = (said(self.state.lost.subscribe()), self.state.killed.subscribe());
        async move {
            let killed = async {
                if killed.wait_for(|&killed| killed).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                () = killed => KILLED.to_owned(),
                why = lost => why,
            }
        }
    }

    /// Whether everything that is nested has to end, for good.
    pub(crate) fn is_killed(&self) -> bool {
        *self.state.killed.borrow()
    }

    /// Waits until what was granted is to be given back, or the outer process is gone.
    pub(crate) fn asked_back(&self) -> impl Future<Output = Duration> + Send + 'static {
        let (yields, mut gone) = (said(self.state.yields.subscribe()), self.state.gone.subscribe());
        async move {
            tokio::select! {
                within = yields => within,
                _ = gone.wait_for(|&gone| gone) => Duration::MAX,
            }
        }
    }

    /// Whether the outer process is gone.
    pub(crate) fn is_alone(&self) -> bool {
        *self.state.gone.borrow()
    }

    /// Asks for locks. If it has to wait, `waiting` is called.
    pub(crate) async fn acquire(
        &mut self,
        wants: Vec<WantedLock>,
        patience: Option<Duration>,
        reentrant: bool,
        waiting: impl FnOnce(),
    ) -> Result<(u64, Vec<u64>), Error> {
        let timeout_ms = patience.map(millis);
        self.ask(&Request::Acquire { wants, timeout_ms, reentrant }).await?;
        let mut waiting = Some(waiting);
        loop {
            match self.answer().await? {
                Message::Granted { token, epochs } => return Ok((token, epochs)),
                Message::Waiting => {
                    if let Some(waiting) = waiting.take() {
                        waiting();
                    }
                }
                _ => {}
            }
        }
    }

    /// Stands in an election until it leads.
    pub(crate) async fn campaign(&mut self, stands: Candidate) -> Result<u64, Error> {
        self.state.lost.send_replace(None);
        self.state.yields.send_replace(None);
        self.ask(&Request::Campaign(stands)).await?;
        loop {
            if let Message::Elected { term } = self.answer().await? {
                return Ok(term);
            }
        }
    }

    /// Gives back what was granted.
    pub(crate) async fn release(&mut self) {
        let released = async {
            self.ask(&Request::Release).await?;
            while !matches!(self.answer().await?, Message::Released) {}
            Ok::<_, Error>(())
        };
        // The outer process does it in any case, as soon as it can.
        let _ = timeout(PATIENCE, released).await;
    }

    async fn ask(&mut self, ask: &Request) -> Result<(), Error> {
        self.to.write_all(line(ask).as_bytes()).await.map_err(|_| alone())
    }

    async fn answer(&mut self) -> Result<Message, Error> {
        match self.answers.recv().await {
            None => Err(alone()),
            Some(Message::Failed { code, message, .. }) if code == "unreachable" => {
                Err(Error::Unreachable(message))
            }
            Some(Message::Failed { code, message, .. }) if code == "session-lost" => {
                let loss = LOSSES.into_iter().find(|loss| loss.to_string() == message);
                Err(Error::SessionLost(loss.unwrap_or(Loss::Gone)))
            }
            Some(Message::Failed { code, message, .. }) if code == OUTER_LOST => {
                Err(Error::Refused { code, message })
            }
            Some(Message::Failed { code, message, retry_ms }) => {
                Err(Failed { code, message, retry_ms, ..Failed::default() }.into())
            }
            Some(told) => Ok(told),
        }
    }
}

/// Why a session may be lost.
const LOSSES: [Loss; 5] = [Loss::Expired, Loss::Expelled, Loss::Forced, Loss::Closed, Loss::Gone];

async fn said<T: Clone + Send + Sync>(mut said: watch::Receiver<Option<T>>) -> T {
    let heard = said.wait_for(Option::is_some).await.ok().and_then(|said| said.clone());
    match heard {
        Some(said) => said,
        None => std::future::pending().await,
    }
}

fn alone() -> Error {
    let message = "the process that this one is nested in is gone".to_owned();
    Error::Refused { code: "outer-gone".to_owned(), message }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
