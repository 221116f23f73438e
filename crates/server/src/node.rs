use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use conclave_machine::{
    Call, Command, Config, Error, Machine, NodeId, Patience, Reply, SessionId, Time,
};
use futures_util::future::BoxFuture;
use openraft::Raft;
use openraft::async_runtime::watch::WatchReceiver;
use tokio::sync::oneshot;

use crate::clock::{Clock, TimeSource};
use crate::directory::{self, Opened, claim};
use crate::disk_watch::DiskWatch;
use crate::dispatch::{Dispatch, Renewal, Target, refuse};
use crate::idle_spinner::IdleSpinner;
use crate::log::Log;
use crate::metrics::{Metrics, Vitals};
use crate::migrate;
use crate::network::Alone;
use crate::proposer::{Haste, Proposer};
use crate::snapshots::Snapshots;
use crate::state::{MachineAt, State};
use crate::ticker::{Renewals, Ticker, TickerTask};
use crate::{Member, Types};

/// The only member of a cluster of one.
pub(crate) const ID: u64 = 1;

/// How a node is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it keeps everything.
    pub directory: PathBuf,
    /// What the machine is made with, if there is none in the directory.
    pub config: Config,
    /// After so many commands the whole state is written down, and the log is cut; sooner if they are long.
    pub snapshot_every: u64,
    /// With what argument this program, started again, calls [`run_idle_spinner`](crate::run_idle_spinner). Without it, processors
    /// may sleep between two commands, which takes less power and more time. With it, a process of the lowest
    /// priority keeps one awake, except where control groups share out the time of processors.
    pub awake: Option<&'static str>,
    /// Where it takes the time from.
    pub time: TimeSource,
}

impl Options {
    /// A node that keeps everything in this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        let (directory, config) = (directory.into(), Config::default());
        Self {
            directory,
            config,
            snapshot_every: 100_000,
            awake: None,
            time: TimeSource::default(),
        }
    }
}

/// A node that is up.
pub struct Node {
    raft: Raft<Types, State>,
    state: State,
    proposer: Proposer,
    renewals: Arc<Renewals>,
    disk: Arc<DiskWatch>,
    clock: Arc<Clock>,
    log: Log,
    pub(crate) metrics: Arc<Metrics>,
    ticker: TickerTask,
    /// Whether it is about to stop, and takes no more commands.
    draining: RwLock<bool>,
    snapshots: Snapshots,
    /// What there was to say of the directory.
    said: Vec<String>,
    directory: PathBuf,
    /// When it was started, by its clock.
    begun: Time,
    /// Before this it grants nothing.
    grants_from: Option<Time>,
    /// Held for as long as the node is up.
    _lock: File,
}

/// What can be done about damage.
const HELP: &str = "put a copy of the directory in its place, or make a new one from a backup or from the directory's file \
                    `snapshot` (conclave restore FILE --data NEW), which ends all sessions";

/// Why a node cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Another process uses the directory.
    #[error("{0} is in use by another node; stop that one, or use another directory")]
    InUse(PathBuf),
    /// The directory cannot be used.
    #[error("cannot use {path}: {error}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The log cannot be read.
    #[error("the log in {path} cannot be read: {error}; {HELP}")]
    Log {
        /// Where it is.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What the machine was made with cannot be read.
    #[error("the settings in {path} cannot be read: {error}; {HELP}")]
    Settings {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The snapshot cannot be read.
    #[error("the snapshot in {path} cannot be read: {error}; {HELP}")]
    Snapshot {
        /// Where it is.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A backup cannot be read.
    #[error("this is no backup that can be restored: {0}")]
    Backup(io::Error),
    /// A directory that a backup was to be restored to has something in it.
    #[error("{0} is not empty; restore to a new directory")]
    NotEmpty(PathBuf),
    /// The node has stopped, and answers nothing any more.
    #[error("the node has stopped: {0}")]
    Stopped(String),
}

impl Node {
    /// Starts a node with what is in its directory. Leases go on where they were: the time during which it was down does
    /// not count.
    pub fn open(options: Options) -> BoxFuture<'static, Result<Self, NodeError>> {
        // Boxed, so that it is compiled here and not in every program that calls it.
        Box::pin(Self::start(options))
    }

    async fn start(options: Options) -> Result<Self, NodeError> {
        let Options { directory, config, snapshot_every, awake, time } = options;
        let lock = claim(&directory).await?;
        let metrics = Arc::new(Metrics::new());
        let Opened { state, log, said } = directory::open(&directory, config, &metrics)?;
        for line in &said {
            tracing::warn!(directory = %directory.display(), "{line}");
        }
        let raft = openraft::Config {
            cluster_name: "conclave".to_owned(),
            // A node that is alone is its own majority, and waits for no other.
            election_timeout_min: 100,
            election_timeout_max: 200,
            heartbeat_interval: 50,
            // By bytes and commands, and written before the log is told: `snapshots`.
            snapshot_policy: openraft::SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: 0,
            ..openraft::Config::default()
        };
        let raft = Arc::new(raft.validate().map_err(stopped)?);
        let raft = Raft::new(ID, raft, Alone, log.clone(), state.clone()).await.map_err(stopped)?;
        if !raft.is_initialized().await.map_err(stopped)? {
            let members = BTreeMap::from([(ID, Member::default())]);
            raft.initialize(members).await.map_err(stopped)?;
        }
        // Alone, it need not wait until an election timeout has passed.
        raft.trigger().elect(false).await.map_err(stopped)?;
        let wait = raft.wait(Some(Duration::from_secs(30)));
        wait.current_leader(ID, "alone, it leads").await.map_err(stopped)?;
        // What had been acknowledged is there once everything in the log was carried out.
        let linear = raft.ensure_linearizable(openraft::ReadPolicy::ReadIndex).await;
        linear.map_err(stopped)?;
        state.measure(metrics.clone());
        let clock = Arc::new(Clock::from(state.look(Machine::now), time));
        let spinner = awake.and_then(IdleSpinner::new);
        let proposer = Proposer::new(raft.clone(), state.clone(), clock.clone(), spinner);
        let renewals = Arc::new(Renewals::default());
        let disk = Arc::new(DiskWatch::new(directory.clone()));
        let snapshots = Snapshots::new(raft.clone(), state.clone(), log.clone(), snapshot_every);
        let ticker = Ticker {
            state: state.clone(),
            clock: clock.clone(),
            proposer: proposer.clone(),
            renewals: renewals.clone(),
            disk: disk.clone(),
            snapshots: snapshots.clone(),
        };
        let ticker = TickerTask(tokio::spawn(ticker.run()).abort_handle());
        let (begun, grants_from) = (clock.now(), state.grants_from());
        let node = Self {
            raft,
            state,
            proposer,
            renewals,
            disk,
            clock,
            log,
            metrics,
            ticker,
            draining: RwLock::new(false),
            snapshots,
            said,
            directory,
            begun,
            grants_from,
            _lock: lock,
        };
        // No call of the node's last life is answered any more.
        let started = Command::NodeStarted { node: node.id() };
        node.propose(started).await?.expect("a node can always start");
        Ok(node)
    }

    /// What there was to say of the directory when it was opened: what was cut off, whether it was migrated.
    pub fn said(&self) -> &[String] {
        &self.said
    }

    /// How much of the log a restart would have to read: commands, and bytes.
    pub fn since_snapshot(&self) -> (u64, u64) {
        (self.state.since_snapshot(), self.log.live_bytes())
    }

    /// Has a command written and carried out. The answer means that it is on disk.
    pub async fn propose(&self, command: Command) -> Result<Result<Reply, Error>, NodeError> {
        let (task, told) = oneshot::channel();
        self.submit(command, Target::Task(task));
        told.await.map_err(stopped)?.map_err(NodeError::Stopped)
    }

    /// Has a command written and carried out, and its target told what came of it. While the disk is
    /// nearly full, only what helps is done: to give something back, and to keep what one has.
    pub(crate) fn submit(&self, command: Command, target: Target) {
        // Held until the command is in the queue, so that none comes after the last.
        let draining = self.draining.read().unwrap_or_else(PoisonError::into_inner);
        if *draining {
            refuse(target, STOPPING);
        } else if takes(&command)
            && let Some(trouble) = self.trouble()
        {
            refuse(target, &trouble);
        } else {
            let haste = self.haste(&command);
            self.proposer.submit(command, target, haste);
        }
    }

    /// Takes no more commands, and waits until all that it has taken are carried out and answered. From then on
    /// nothing is granted and no lease ends, because the time of the log stands still.
    pub(crate) async fn drain(&self) {
        *self.draining.write().unwrap_or_else(PoisonError::into_inner) = true;
        self.ticker.stop();
        self.renewals.refuse_all(STOPPING);
        let (task, last) = oneshot::channel();
        // It changes nothing, and comes after all others.
        let nothing = Command::KeepAlive { sessions: Vec::new() };
        self.proposer.submit(nothing, Target::Task(task), Haste::Urgent);
        // If the node has failed, nothing more comes.
        let _ = last.await;
    }

    /// A request that must queue anyway is not latency-critical: it may wait, so that the next release shares its flush.
    fn haste(&self, command: &Command) -> Haste {
        if let Command::Request { call: Call::Acquire(acquire), .. } = command
            && acquire.patience != Patience::Try
            && let [want] = acquire.wants.as_slice()
            && self.state.look(|machine| machine.is_waited_for(&want.lock))
        {
            return Haste::Patient;
        }
        Haste::Urgent
    }

    /// Lets sessions live on: with all others for which that is asked at about the same time.
    pub(crate) fn keep_alive(&self, renewal: Renewal) {
        let draining = self.draining.read().unwrap_or_else(PoisonError::into_inner);
        if *draining {
            refuse(renewal.target, STOPPING);
        } else {
            self.renewals.add(renewal);
        }
    }

    /// The time, by its clock.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// For how long it has been up.
    pub(crate) fn up(&self) -> Duration {
        self.clock.now().since(self.begun)
    }

    /// Why nothing is granted at present, if nothing is.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.disk.trouble().or_else(|| self.snapshots.trouble());
        trouble.or_else(|| self.waits_for_leases())
    }

    /// Whether leases that were granted before the directory was restored may last.
    fn waits_for_leases(&self) -> Option<String> {
        let left = self.grants_from?.since(self.clock.now());
        // Rounded up, so that the last second is told, too.
        let seconds = left.as_millis().div_ceil(1000);
        (!left.is_zero()).then(|| {
            format!(
                "the directory was restored from a backup, and for {seconds} s more leases of before may last \
                 (conclave restore --wait)"
            )
        })
    }

    /// Why nothing at all is granted, or will be until an operator intervenes.
    pub(crate) fn illness(&self) -> Option<String> {
        self.trouble().or_else(|| {
            let stopped = self.raft.metrics().borrow_watched().running_state.clone().err()?;
            Some(format!("the node has stopped: {stopped}"))
        })
    }

    /// All that is counted and measured, as Prometheus reads it.
    pub(crate) fn figures(&self) -> String {
        let (counts, is_ready) = (self.look(Machine::counts), self.illness().is_none());
        self.metrics.text(&Vitals { counts, is_ready, disk: self.disk.space() })
    }

    /// Works with the registrations of clients and the machine, between two commands.
    pub(crate) fn with_both<T>(&self, work: impl FnOnce(&mut Dispatch, &Machine) -> T) -> T {
        self.state.with_both(work)
    }

    /// Looks at the machine, and at the time.
    pub(crate) fn see<T>(&self, see: impl FnOnce(MachineAt<'_>) -> T) -> T {
        self.see_with_dispatch(|_, at| see(at))
    }

    /// The same, with the registrations of clients.
    pub(crate) fn see_with_dispatch<T>(
        &self,
        see: impl FnOnce(&mut Dispatch, MachineAt<'_>) -> T,
    ) -> T {
        self.state.see(self.clock.moment(), see)
    }

    /// For how long a session lives on if it is not renewed.
    pub(crate) fn left(&self, session: SessionId) -> Option<Duration> {
        let now = self.clock.now();
        self.state.look(|machine| {
            let passed = now.max(machine.now()).since(machine.now());
            machine.left(session).map(|left| left.saturating_sub(passed))
        })
    }

    /// Which node it is.
    pub(crate) fn id(&self) -> NodeId {
        NodeId(ID)
    }

    /// Looks at the machine as it is.
    pub fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        self.state.look(look)
    }

    /// Waits until it cannot go on, because its disk fails, say, and tells why. What is asked of it after that is
    /// not done, and to open the directory again is all that helps.
    pub async fn ended(&self) -> String {
        let mut metrics = self.raft.metrics();
        loop {
            if let Err(error) = &metrics.borrow_watched().running_state {
                return error.to_string();
            }
            if metrics.changed().await.is_err() {
                return "it has stopped".to_owned();
            }
        }
    }

    /// The whole state as of one moment, for [`restore`](crate::restore).
    pub async fn backup(&self) -> Result<Vec<u8>, NodeError> {
        let present = self.state.present();
        tokio::task::spawn_blocking(move || present.to_file()).await.map_err(stopped)
    }

    /// Writes everything down, so that the next start is quick.
    pub async fn snapshot(&self) -> Result<(), NodeError> {
        self.snapshots.write().await.map_err(stopped)
    }

    /// Stops. What was acknowledged is on disk in any case.
    pub fn stop(self) -> BoxFuture<'static, Result<(), NodeError>> {
        Box::pin(self.shut_down())
    }

    async fn shut_down(self) -> Result<(), NodeError> {
        let Self { raft, ticker, mut log, _lock, state, proposer, snapshots, directory, .. } = self;
        drop((ticker, state, proposer, snapshots));
        raft.shutdown().await.map_err(stopped)?;
        drop(raft);
        // Its tasks let go of the files one after the other.
        loop {
            match log.close() {
                Ok(()) => break,
                Err(used) => log = used,
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        migrate::forget_before(&directory)
            .map_err(|error| NodeError::Directory { path: directory, error })
    }
}

/// Why nothing is done any more.
pub(crate) const STOPPING: &str =
    "the node is stopping; ask again when it is up, with the same number if there was one";

/// Whether a command takes something, room for what is proclaimed too, rather than to give it back or to keep it.
fn takes(command: &Command) -> bool {
    match command {
        Command::Open(_) => true,
        Command::Request { call, .. } => {
            matches!(
                call,
                Call::Acquire(_) | Call::Upgrade { .. } | Call::Campaign(_) | Call::Proclaim { .. }
            )
        }
        _ => false,
    }
}

fn stopped(error: impl std::fmt::Display) -> NodeError {
    NodeError::Stopped(error.to_string())
}
