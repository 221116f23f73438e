//! `conclave up`.

mod logging;
mod systemd;

use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{PathBuf, absolute};
use std::time::Duration;

use conclave_api::DEFAULT_ADDRESS;
use conclave_machine::{Config, Policy};
use conclave_server::{
    NodeError, Options, ServeError, ServeOptions, Server, Tls, raise_descriptor_limit,
};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{error, info, warn};

use self::logging::LogArgs;
use self::systemd::Manager;
use crate::service::{IDLE_SPINNER, ServiceError, Signals, one_thread, plural};
use crate::terminal::{BOLD, DIM, paint};
use crate::{Done, Failure, Terminal};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave up                                   a node on this machine, in ./conclave-data
  conclave up --data /var/lib/conclave          with its data elsewhere
  conclave up --listen 127.0.0.1:0 --json       on any free port, which is printed
  conclave up --deadlocks wound-wait            with another policy (a new directory only)
  conclave up --listen 0.0.0.0:7411 --tls-cert node.pem --tls-key node.key --tokens tokens.toml
                                                for other machines: in secret, and for those who are known

Whatever it has granted is on disk before it says so. Ctrl-C or SIGTERM stops it, a second one at once;
sessions live on meanwhile: time does not count while it is down, and their leases go on where they were when it is up
again. What a power failure left half-written is cut off and logged; damaged data is refused. If the disk fails, it says
so, and opens its directory again every second until that works. Deadlocks, and what operators take by
force and why, are logged to standard error, and so are sessions that expire and what they held. A log that is not read
delays nothing: lines are left out and counted. SIGHUP has it read the files of --tokens, --tls-cert,
--tls-key and --client-ca again: clients whose token is gone or has other rights are cut off, new connections use the new
certificate, and what cannot be read stays as it was. Without these files, SIGHUP stops it, unless a service manager
has started it (NOTIFY_SOCKET).

With --spin, while there is something to do, a second process of the lowest priority keeps the processor awake, because
to wake it up may take as long as all else: in a virtual machine locks then change hands about 1.4 times as often. It
gives way to every other process, but shows as time of a processor, up to one while locks change hands without a break. It
is not there where control groups share out the time of processors, as in containers, for others may have a claim to
what it would use. The kernel can do the same for all programs: see docs/operations.md on cpuidle_haltpoll.

Each connection is an open file. It raises its limit of open files as far as it may (ulimit -Hn), keeps 128 for itself,
and refuses connections beyond that, or beyond --connections, with the reason. One on which nothing is asked for 30
seconds is closed.

Under systemd it says when it is ready and when it stops, and feeds the watchdog (Type=notify, WatchdogSec).

Policies for --deadlocks:
  detect                  the youngest session of a cycle gets an error that names the cycle
  detect-fewest-locks     the one that holds the fewest locks
  detect-lowest-priority  the one with the lowest --priority
  wait-die                only older sessions wait for younger ones; others get an error at once
  wound-wait              only younger ones wait for older ones
  none                    nothing; `conclave why` and `conclave graph` show deadlocks all the same";

/// Flags of `conclave up`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where it keeps everything
    #[arg(long, value_name = "FOLDER", env = "CONCLAVE_DATA", default_value = "conclave-data")]
    pub data: PathBuf,
    /// Where it listens: host:port; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", env = "CONCLAVE_LISTEN", value_parser = address)]
    #[arg(default_value = DEFAULT_ADDRESS)]
    pub listen: SocketAddr,
    /// What is done about deadlocks, in a new directory; see below
    #[arg(long, value_name = "POLICY", env = "CONCLAVE_DEADLOCKS")]
    pub deadlocks: Option<Policy>,
    /// After how many commands everything is written down, and the log is cut; sooner after 16 MiB of log
    #[arg(long, value_name = "COMMANDS", env = "CONCLAVE_SNAPSHOT_EVERY")]
    #[arg(default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub snapshot_every: u64,
    /// How many connections there may be; as many as this process may have open files, less some, if nothing is said
    #[arg(long, value_name = "COUNT", env = "CONCLAVE_CONNECTIONS")]
    pub connections: Option<usize>,
    /// Keep a processor awake while there is something to do: takes power, and grants sooner; see below
    #[arg(long, env = "CONCLAVE_SPIN")]
    pub spin: bool,
    /// Has no effect any more: the processor may sleep unless --spin is given
    #[arg(long, env = "CONCLAVE_FRUGAL", hide = true, conflicts_with = "spin")]
    pub frugal: bool,
    /// Its certificate, in PEM: use TLS
    #[arg(long, value_name = "FILE", env = "CONCLAVE_TLS_CERT", help_heading = "Security")]
    #[arg(requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of its certificate, in PEM
    #[arg(long, value_name = "FILE", env = "CONCLAVE_TLS_KEY", help_heading = "Security")]
    #[arg(requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Only let in who has a certificate of this authority, in PEM
    #[arg(long, value_name = "FILE", env = "CONCLAVE_CLIENT_CA", help_heading = "Security")]
    #[arg(requires = "tls_cert")]
    pub client_ca: Option<PathBuf>,
    /// Only let in who is known by a token of this file, which `conclave token` writes
    #[arg(long, value_name = "FILE", env = "CONCLAVE_TOKENS", help_heading = "Security")]
    pub tokens: Option<PathBuf>,
    /// Let in any client from anywhere, in the clear
    #[arg(long, env = "CONCLAVE_INSECURE", help_heading = "Security")]
    pub insecure: bool,
    /// What is logged, and how.
    #[command(flatten)]
    pub log: LogArgs,
    /// Print where it listens as JSON
    #[arg(long, env = "CONCLAVE_JSON", help_heading = "Output")]
    pub json: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let bad = |why: String| format!("{text:?} is no address{why}; write host:port");
    let mut found = text.to_socket_addrs().map_err(|error| bad(format!(" ({error})")))?;
    found.next().ok_or_else(|| bad(String::new()))
}

/// Runs a node until a signal says to stop.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    let runtime = one_thread()?;
    let log = args.log.start(terminal);
    let done = runtime.block_on(serve(args, out));
    // Clients that are still connected are not waited for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    log.finish();
    done
}

/// How often it is looked at how the node does, and tried to start it again.
const LOOK: Duration = Duration::from_secs(1);
/// For how long a node that has failed may take to let go of its directory.
const PATIENCE: Duration = Duration::from_secs(10);

async fn serve(args: &Args, out: &mut dyn Write) -> Result<Done, Failure> {
    // A service manager reloads what it has started by SIGHUP, whether there is something to read or not.
    let reloads = args.tokens.is_some() || args.tls_cert.is_some() || Manager::is_there();
    let mut signals =
        Signals::listen_even(reloads.then_some(Signal::SIGHUP)).map_err(Failure::Output)?;
    // A file that may not grow any more is a fault of the disk as any other, and no reason to be killed.
    let _heard = signal(SignalKind::from_raw(Signal::SIGXFSZ as i32)).map_err(Failure::Output)?;
    if args.frugal {
        warn!("--frugal has no effect any more: the processor may sleep unless --spin is given");
    }
    // Each connection is an open file, and 1,024 of them, as is usual, would not be many.
    if let Err(error) = raise_descriptor_limit() {
        warn!(%error, "cannot have more open files than at first");
    }
    let mut options = args.options();
    let mut server = Server::start(options.clone()).await.map_err(failure)?;
    // After a failure it is to be found where it was.
    options.listen = server.address();
    let policy = server.node().look(|machine| machine.config().deadlocks);
    if args.deadlocks.is_some_and(|wanted| wanted != policy) {
        warn!("the directory was made with --deadlocks {policy}, and that stays so");
    }
    let (version, address) = (env!("CARGO_PKG_VERSION"), server.address());
    info!(version, data = %args.data.display(), "listens on {address}");
    args.greet(address, policy, out)?;
    let mut manager = Manager::find();
    manager.ready(&format!("listens on {address}"));
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut trouble = None;
    loop {
        tokio::select! {
            signal = signals.stop() => {
                if signal == Signal::SIGHUP && reloads {
                    read_again(&server, args);
                    continue;
                }
                info!("{signal}: stops");
                manager.stopping();
                tokio::select! {
                    stopped = server.stop() => stopped.map_err(failure)?,
                    signal = stop(&mut signals, reloads) => return Ok(Done::signal(signal as i32)),
                }
                info!("has stopped; sessions live on when it is up again");
                return Ok(Done::Well);
            }
            why = ended(&server) => {
                error!("the node has failed: {why}");
                manager.status(&format!("has failed: {why}"));
                // Whatever that says, what failed is logged.
                let _ = timeout(PATIENCE, server.stop()).await;
                tokio::select! {
                    started = start_again(&options) => server = started,
                    signal = stop(&mut signals, reloads) => return Ok(Done::signal(signal as i32)),
                }
                info!("is up again");
                manager.status("is up again");
            }
            _ = look.tick() => {
                let now = server.node().trouble();
                match (&trouble, &now) {
                    (None, Some(why)) => {
                        error!("grants nothing: {why}");
                        manager.status(&format!("grants nothing: {why}"));
                    }
                    (Some(_), None) => {
                        info!("grants again");
                        manager.status("grants again");
                    }
                    _ => {}
                }
                trouble = now;
            }
        }
    }
}

/// Reads tokens and certificates again. What cannot be read stays as it was.
fn read_again(server: &Server, args: &Args) {
    let signal = Signal::SIGHUP;
    if args.tokens.is_none() && args.tls_cert.is_none() {
        info!("{signal}: there are no tokens and no certificate to read again");
    }
    if args.tokens.is_some() {
        match server.read_tokens_again() {
            Ok(count) => info!("{signal}: knows {} now", plural(count as u64, "token")),
            Err(error) => error!("{signal}: {error}; the tokens stay as they were"),
        }
    }
    match server.read_certificates_again() {
        Ok(true) => info!("{signal}: new connections use the certificate as it is now"),
        Ok(false) => {}
        Err(error) => error!("{signal}: {error}; the certificates stay as they were"),
    }
}

/// Waits for a signal that says to stop.
async fn stop(signals: &mut Signals, reloads: bool) -> Signal {
    loop {
        let signal = signals.stop().await;
        // The tokens are read whenever it starts.
        if !(reloads && signal == Signal::SIGHUP) {
            return signal;
        }
    }
}

async fn ended(server: &Server) -> String {
    server.node().ended().await
}

async fn start_again(options: &ServeOptions) -> Server {
    let mut said = String::new();
    loop {
        sleep(LOOK).await;
        match Server::start(options.clone()).await {
            Ok(server) => return server,
            Err(error) => {
                let error = error.to_string();
                if error != said {
                    error!("cannot start again: {error}");
                    said = error;
                }
            }
        }
    }
}

impl Args {
    fn options(&self) -> ServeOptions {
        let config = Config { deadlocks: self.deadlocks.unwrap_or_default(), ..Config::default() };
        let mut node = Options::new(&self.data);
        node.config = config;
        node.snapshot_every = self.snapshot_every;
        node.awake = self.spin.then_some(IDLE_SPINNER);
        let mut options = ServeOptions::new(node);
        options.listen = self.listen;
        options.bounds.connections = self.connections;
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            let (certificate, key) = (certificate.clone(), key.clone());
            options.tls = Some(Tls { certificate, key, client_ca: self.client_ca.clone() });
        }
        options.tokens = self.tokens.clone();
        options.insecure = self.insecure;
        options
    }

    /// Says where it is and what to try.
    fn greet(
        &self,
        listens: SocketAddr,
        policy: Policy,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let data = absolute(&self.data).unwrap_or_else(|_| self.data.clone());
        let version = env!("CARGO_PKG_VERSION");
        if self.json {
            let value = json!({
                "listens": listens.to_string(),
                "data": data.to_string_lossy(),
                "deadlocks": policy.to_string(),
                "version": version,
            });
            writeln!(out, "{value}")?;
            out.flush()?;
            return Ok(());
        }
        writeln!(out, "{} {version} listens on {}", paint(BOLD, "conclave"), paint(BOLD, listens))?;
        writeln!(out, "data in {}, deadlocks: {policy}", data.display())?;
        writeln!(out, "\n{}", paint(DIM, "Try in another terminal:"))?;
        if listens.to_string() != DEFAULT_ADDRESS {
            writeln!(out, "  export CONCLAVE_ENDPOINTS={}", reachable(listens))?;
        }
        if self.tls_cert.is_some() {
            writeln!(
                out,
                "  export CONCLAVE_CA=…               # the authority of its certificate"
            )?;
        }
        if self.client_ca.is_some() {
            writeln!(out, "  export CONCLAVE_CERT=… CONCLAVE_KEY=…   # yours")?;
        }
        if self.tokens.is_some() {
            writeln!(out, "  export CONCLAVE_AUTH_TOKEN_FILE=…  # what `conclave token` printed")?;
        }
        writeln!(out, "  conclave lock backup -- sleep 60")?;
        writeln!(out, "  conclave why backup")?;
        writeln!(
            out,
            "  conclave elect web -- sh -c 'echo leads with term $CONCLAVE_TERM; sleep 60'"
        )?;
        out.flush()?;
        Ok(())
    }
}

/// How a client on this machine finds it.
fn reachable(listens: SocketAddr) -> SocketAddr {
    let mut address = listens;
    match listens {
        SocketAddr::V4(it) if it.ip().is_unspecified() => {
            address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        SocketAddr::V6(it) if it.ip().is_unspecified() => {
            address.set_ip(std::net::Ipv6Addr::LOCALHOST.into());
        }
        _ => {}
    }
    address
}

fn failure(error: ServeError) -> Failure {
    let text = error.to_string();
    let failure = match error {
        ServeError::Open(..) | ServeError::Room { .. } => return Failure::Usage(text),
        ServeError::Tls(_) | ServeError::Tokens { .. } => ServiceError::Security(text),
        ServeError::Listen { .. } => ServiceError::Listen(format!("{text} with --listen")),
        ServeError::Node(NodeError::InUse(_)) => ServiceError::InUse(format!("{text} with --data")),
        ServeError::Node(NodeError::Directory { .. }) => ServiceError::Directory(format!(
            "{text}; choose one that can be written to with --data"
        )),
        ServeError::Node(
            NodeError::Log { error, .. }
            | NodeError::Snapshot { error, .. }
            | NodeError::Settings { error, .. },
        ) if !is_corrupt(&error) => ServiceError::Directory(text),
        ServeError::Node(
            NodeError::Log { .. } | NodeError::Snapshot { .. } | NodeError::Settings { .. },
        ) => ServiceError::Corrupt(text),
        _ => ServiceError::Stopped(text),
    };
    failure.into()
}

/// Whether the contents of a file are to blame, and not that it cannot be opened.
fn is_corrupt(error: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull};
    !matches!(error.kind(), NotFound | PermissionDenied | ReadOnlyFilesystem | StorageFull)
}
