//! What the service can bear: locks per second, hand-overs, memory, each beside what this machine can do
//! at best in the same minute, and beside etcd.
//!
//! Machines differ and are shared with others, so a number of locks per second says little. What counts are
//! ratios within one run: an acquisition is held against one flush of the disk and one round trip, all
//! clients together against an echo over the same kind of stream, and all of it against etcd doing the same.
//! They are measured in turns.

mod baseline;
mod echo;
mod etcd;
mod locks;
mod process;
mod scale;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

use baseline::Baseline;
use etcd::Etcd;
use locks::Release;
pub use process::{Start, serve};

/// What is measured, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the server is started.
    pub start: Start,
    /// Where the server keeps its data while it is measured.
    pub directory: PathBuf,
    /// How many clients there are.
    pub clients: usize,
    /// For how long each thing is measured.
    pub span: Duration,
    /// Where etcd is, if it is to be measured, too.
    pub etcd: Option<PathBuf>,
    /// Whether the server keeps a processor awake.
    pub spin: bool,
    /// Whether many locks, sessions and waiters are tried, too.
    pub large: bool,
}

/// Why something could not be measured.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A program or a file is not as it should be.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        error: io::Error,
    },
    /// The service refused.
    #[error(transparent)]
    Client(#[from] conclave_client::Error),
    /// The stream broke.
    #[error("the stream broke: {0}")]
    Stream(Box<tonic::Status>),
    /// The server cannot be reached.
    #[error("cannot connect: {0}")]
    Connect(#[from] tonic::transport::Error),
    /// A server did not come up.
    #[error("{0} did not come up")]
    Dead(String),
}

impl From<tonic::Status> for LoadError {
    fn from(status: tonic::Status) -> Self {
        Self::Stream(Box::new(status))
    }
}

/// A measurement, and what it is held against.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// What it is held against.
    pub beside: Option<Beside>,
}

/// What a measurement is held against.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// What that is.
    pub what: String,
    /// The measurement, as so many times that.
    pub ratio: f64,
    /// What the ratio should be, if that has been said.
    pub wanted: Option<Bound>,
}

/// What a ratio should be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Beside {
    /// Whether the ratio is what it should be.
    pub fn is_met(&self) -> bool {
        match self.wanted {
            None => true,
            Some(Bound::AtMost(most)) => self.ratio <= most,
            Some(Bound::AtLeast(least)) => self.ratio >= least,
        }
    }
}

impl Figure {
    fn plain(what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { what: what.into(), value, unit, beside: None }
    }

    fn beside(
        mut self,
        what: impl Into<String>,
        ratio: f64,
        wanted: impl Into<Option<Bound>>,
    ) -> Self {
        self.beside = Some(Beside { what: what.into(), ratio, wanted: wanted.into() });
        self
    }
}

/// How many clients there are, and how many connections they share.
#[derive(Clone, Copy, Debug)]
struct Arrangement {
    clients: usize,
    connections: usize,
}

impl std::fmt::Display for Arrangement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} clients, ", self.clients)?;
        match self.connections {
            1 => f.write_str("one connection"),
            connections => write!(f, "{connections} connections"),
        }
    }
}

/// Measures everything, and reports each figure as it is known.
pub async fn measure(options: &Options, report: &mut dyn FnMut(Figure)) -> Result<(), LoadError> {
    let server = process::Server::start(options, "speed").await?;
    let address = server.address();
    acquisition(options, address, report).await?;
    for connections in [options.clients, 1] {
        let arrangement = Arrangement { clients: options.clients, connections };
        throughput(options, address, arrangement, report).await?;
    }
    hand_over(options, address, report).await?;
    server.stop().await?;
    spinner(options, report).await?;
    if options.large {
        scale::waiters(options, report).await?;
        scale::memory(options, report).await?;
    }
    Ok(())
}

/// Each thing is measured so often, in turns with what it is held against, for that part of the time; what counts is
/// the ratio in the middle. For what else happens on the machine changes from one second to the next.
const ROUNDS: u32 = 5;

/// How long it takes to acquire a lock without contention.
async fn acquisition(
    options: &Options,
    address: SocketAddr,
    report: &mut dyn FnMut(Figure),
) -> Result<(), LoadError> {
    let (span, alone) = (options.span / ROUNDS, Arrangement { clients: 1, connections: 1 });
    let (mut baselines, mut echoes) =
        (vec![baseline::measure(&options.directory, span / 2)?], Vec::new());
    let mut acquired = Vec::new();
    for _ in 0..ROUNDS {
        acquired.push(locks::uncontended(address, alone, Release::Confirmed, span).await?.acquire);
        baselines.push(baseline::measure(&options.directory, span / 2)?);
        echoes.push(1e6 / echo::rate(address, alone, span / 2).await?);
    }
    let flushes = baselines.iter().map(|baseline| baseline.flush);
    report(Figure::plain("one fdatasync of 128 bytes", middle(flushes), "µs"));
    let trips = baselines.iter().map(|baseline| baseline.trip);
    report(Figure::plain("one round trip over loopback", middle(trips), "µs"));
    report(Figure::plain("one echo over the stream", middle(echoes), "µs"));
    let ratio = middle(over_baselines(&acquired, &baselines));
    let figure = Figure::plain("acquire, 1 client", middle(acquired), "µs");
    let most = if options.spin { 1.5 } else { 2.0 };
    report(figure.beside("fdatasync + round trip", ratio, Bound::AtMost(most)));
    Ok(())
}

/// What it gives to keep a processor awake: the same with and without, in turns.
async fn spinner(options: &Options, report: &mut dyn FnMut(Figure)) -> Result<(), LoadError> {
    let servers = [
        process::Server::start_with(options, "plain", false).await?,
        process::Server::start_with(options, "spin", true).await?,
    ];
    let (span, clients) = (options.span / ROUNDS, options.clients);
    let alone = Arrangement { clients: 1, connections: 1 };
    let apart = Arrangement { clients, connections: clients };
    // For each thing, without and with.
    let (mut acquired, mut rates, mut handed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let [mut acquire, mut rate, mut each] = [[0.0; 2]; 3];
        for (i, server) in servers.iter().enumerate() {
            let address = server.address();
            let one = locks::uncontended(address, alone, Release::Confirmed, span).await?;
            let all = locks::uncontended(address, apart, Release::Confirmed, span).await?;
            (acquire[i], rate[i]) = (one.acquire, all.rate);
            each[i] = locks::contended(address, apart, span).await?.each;
        }
        acquired.push(acquire);
        rates.push(rate);
        handed.push(each);
    }
    for (what, unit, pairs) in [
        ("acquire, 1 client".to_owned(), "µs", acquired),
        ("own locks, each release confirmed".to_owned(), "/s", rates),
        (format!("hand-over, {clients} clients, one lock"), "µs", handed),
    ] {
        let without = middle(pairs.iter().map(|[without, _]| *without));
        report(Figure::plain(format!("{what}, without --spin"), without, unit));
        let with = middle(pairs.iter().map(|[_, with]| *with));
        let ratio = middle(pairs.iter().map(|[without, with]| with / without));
        let with = Figure::plain(format!("{what}, with --spin"), with, unit);
        report(with.beside("without --spin", ratio, None));
    }
    for server in servers {
        server.stop().await?;
    }
    Ok(())
}

/// Each of these as so many times a flush and a round trip, as they were just before and just after it.
fn over_baselines(times: &[f64], baselines: &[Baseline]) -> Vec<f64> {
    let baselines = baselines.windows(2).map(|pair| {
        let [before, after] = pair else { unreachable!("there are two in each") };
        f64::midpoint(before.flush, after.flush) + f64::midpoint(before.trip, after.trip)
    });
    times.iter().zip(baselines).map(|(time, baseline)| time / baseline).collect()
}

/// Locks per second, and what they are held against.
struct Rates {
    echo: f64,
    confirmed: f64,
    dropped: f64,
    etcd: Option<f64>,
}

/// How many locks are acquired and released in a second, without contention.
///
/// What is wanted concerns clients with a connection each that wait for every release to be confirmed, as those
/// of etcd have to: its calls are not ordered, and what is given back later would be what has been taken
/// again. Here a client's requests are one stream, so a guard can be dropped; that is measured, too, and
/// clients that share a connection.
async fn throughput(
    options: &Options,
    address: SocketAddr,
    arrangement: Arrangement,
    report: &mut dyn FnMut(Figure),
) -> Result<(), LoadError> {
    let span = options.span / ROUNDS;
    let etcd = match &options.etcd {
        Some(program) => Some(Etcd::start(program, options, arrangement).await?),
        None => None,
    };
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let locks = |release| locks::uncontended(address, arrangement, release, span);
        rounds.push(Rates {
            echo: echo::rate(address, arrangement, span).await?,
            dropped: locks(Release::Dropped).await?.rate,
            confirmed: locks(Release::Confirmed).await?.rate,
            etcd: match &etcd {
                Some(etcd) => Some(etcd.throughput(arrangement, span).await?),
                None => None,
            },
        });
    }
    let with_etcd = etcd.is_some();
    if let Some(etcd) = etcd {
        etcd.stop().await;
    }
    let middle_of = |what: fn(&Rates) -> f64| middle(rounds.iter().map(what));
    let wanted = |bound| (arrangement.connections == arrangement.clients).then_some(bound);
    let confirmed = Figure::plain(
        "own locks, each release confirmed",
        middle_of(|rates| rates.confirmed),
        "/s",
    );
    let dropped =
        Figure::plain("own locks, guards dropped", middle_of(|rates| rates.dropped), "/s");
    let echo = middle_of(|rates| rates.echo);
    report(Figure::plain(format!("echo, {arrangement}"), echo, "/s"));
    let ratio = middle_of(|rates| rates.confirmed / rates.echo);
    report(confirmed.clone().beside(
        "echo",
        ratio,
        wanted(Bound::AtLeast(if options.spin { 0.25 } else { 0.2 })),
    ));
    let ratio = middle_of(|rates| rates.dropped / rates.echo);
    report(dropped.clone().beside("echo", ratio, None));
    if with_etcd {
        let of_etcd = |what: fn(&Rates) -> f64| {
            middle(rounds.iter().filter_map(|rates| Some(what(rates) / rates.etcd?)))
        };
        let etcd = middle(rounds.iter().filter_map(|rates| rates.etcd));
        report(Figure::plain("etcd, each release confirmed", etcd, "/s"));
        let ratio = of_etcd(|rates| rates.confirmed);
        report(confirmed.beside(
            "etcd",
            ratio,
            wanted(Bound::AtLeast(if options.spin { 10.0 } else { 8.0 })),
        ));
        report(dropped.beside("etcd", of_etcd(|rates| rates.dropped), None));
    }
    Ok(())
}

/// How long it takes until the next has a lock that all want, and whether all get it equally often.
async fn hand_over(
    options: &Options,
    address: SocketAddr,
    report: &mut dyn FnMut(Figure),
) -> Result<(), LoadError> {
    let (span, clients) = (options.span / ROUNDS, options.clients);
    let apart = Arrangement { clients, connections: clients };
    let mut baselines = vec![baseline::measure(&options.directory, span / 2)?];
    let (mut times, mut fairness) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let contended = locks::contended(address, apart, span).await?;
        baselines.push(baseline::measure(&options.directory, span / 2)?);
        times.push(contended.each);
        fairness.push((contended.least, contended.least / contended.most));
    }
    let ratio = middle(over_baselines(&times, &baselines));
    let figure =
        Figure::plain(format!("hand-over, {clients} clients, one lock"), middle(times), "µs");
    let most = if options.spin { 1.6 } else { 2.2 };
    report(figure.beside("fdatasync + round trip", ratio, Bound::AtMost(most)));
    let least = middle(fairness.iter().map(|(least, _)| *least));
    let ratio = middle(fairness.iter().map(|(_, ratio)| *ratio));
    let figure = Figure::plain("least grants of a client", least, "");
    report(figure.beside("most grants of a client", ratio, Bound::AtLeast(0.9)));
    Ok(())
}

/// The number in the middle.
fn middle(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The time in the middle, in microseconds.
fn median(times: Vec<Duration>) -> f64 {
    middle(times.into_iter().map(|time| time.as_secs_f64() * 1e6))
}
