//! What the service can bear: locks per second, hand-overs, memory, each beside what this machine can do
//! at best in the same minute, and beside etcd.
//!
//! Machines differ and are shared with others, so a number of locks per second says little. What counts are
//! ratios within one run: an acquisition is held against one flush of the disk and one round trip, all
//! clients together against an echo over the same kind of stream, and all of it against etcd doing the same.
//! What the machine can do is measured just before and just after each of these.

mod echo;
mod etcd;
mod floor;
mod locks;
mod process;
mod size;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

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
    if options.large {
        size::waiters(options, report).await?;
        size::memory(options, report).await?;
    }
    Ok(())
}

/// How long it takes to have a lock that nobody else wants.
async fn acquisition(
    options: &Options,
    address: SocketAddr,
    report: &mut dyn FnMut(Figure),
) -> Result<(), LoadError> {
    let (span, alone) = (options.span, Arrangement { clients: 1, connections: 1 });
    let before = floor::measure(&options.directory, span / 4)?;
    let one = locks::uncontended(address, alone, Release::Confirmed, span).await?;
    let floor = before.and(&floor::measure(&options.directory, span / 4)?);
    let echo = echo::rate(address, alone, span).await?;
    report(Figure::plain("one fdatasync of 128 bytes", floor.flush, "µs"));
    report(Figure::plain("one round trip over loopback", floor.trip, "µs"));
    report(Figure::plain("one echo over the stream", 1e6 / echo, "µs"));
    let figure = Figure::plain("acquire, 1 client", one.acquire, "µs");
    let ratio = one.acquire / (floor.flush + floor.trip);
    report(figure.beside("fdatasync + round trip", ratio, Bound::AtMost(1.5)));
    Ok(())
}

/// How many locks are taken and given back in a second, if nobody wants another's.
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
    let span = options.span;
    let apart = arrangement.connections == arrangement.clients;
    let wanted = |bound| apart.then_some(bound);
    let confirmed = |rate| Figure::plain("own locks, each release confirmed", rate, "/s");
    let dropped = |rate| Figure::plain("own locks, guards dropped", rate, "/s");
    let echo = echo::rate(address, arrangement, span).await?;
    report(Figure::plain(format!("echo, {arrangement}"), echo, "/s"));
    let waits = locks::uncontended(address, arrangement, Release::Confirmed, span).await?.rate;
    report(confirmed(waits).beside("echo", waits / echo, wanted(Bound::AtLeast(0.25))));
    let goes_on = locks::uncontended(address, arrangement, Release::Dropped, span).await?.rate;
    report(dropped(goes_on).beside("echo", goes_on / echo, None));
    if let Some(etcd) = &options.etcd {
        let etcd = etcd::throughput(etcd, options, arrangement).await?;
        report(Figure::plain("etcd, each release confirmed", etcd, "/s"));
        report(confirmed(waits).beside("etcd", waits / etcd, wanted(Bound::AtLeast(10.0))));
        report(dropped(goes_on).beside("etcd", goes_on / etcd, None));
    }
    Ok(())
}

/// How long it takes until the next has a lock that all want, and whether all get it equally often.
async fn hand_over(
    options: &Options,
    address: SocketAddr,
    report: &mut dyn FnMut(Figure),
) -> Result<(), LoadError> {
    let (span, clients) = (options.span, options.clients);
    let before = floor::measure(&options.directory, span / 4)?;
    let apart = Arrangement { clients, connections: clients };
    let contended = locks::contended(address, apart, span).await?;
    let floor = before.and(&floor::measure(&options.directory, span / 4)?);
    let figure =
        Figure::plain(format!("hand-over, {clients} clients, one lock"), contended.each, "µs");
    let ratio = contended.each / (floor.flush + floor.trip);
    report(figure.beside("fdatasync + round trip", ratio, Bound::AtMost(1.6)));
    let fairness = Figure::plain("least grants of a client", contended.least, "");
    let ratio = contended.least / contended.most;
    report(fairness.beside("most grants of a client", ratio, Bound::AtLeast(0.9)));
    Ok(())
}

/// The value in the middle.
fn median(mut values: Vec<Duration>) -> f64 {
    values.sort_unstable();
    let middle = values.get(values.len() / 2).copied().unwrap_or_default();
    middle.as_secs_f64() * 1e6
}
