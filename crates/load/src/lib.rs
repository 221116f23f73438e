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
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

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
    /// What the ratio should be.
    pub wanted: Bound,
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
            Bound::AtMost(most) => self.ratio <= most,
            Bound::AtLeast(least) => self.ratio >= least,
        }
    }
}

impl Figure {
    fn plain(what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { what: what.into(), value, unit, beside: None }
    }

    fn beside(mut self, what: impl Into<String>, ratio: f64, wanted: Bound) -> Self {
        self.beside = Some(Beside { what: what.into(), ratio, wanted });
        self
    }
}

/// Measures everything, and reports each figure as it is known.
pub async fn measure(options: &Options, report: &mut dyn FnMut(Figure)) -> Result<(), LoadError> {
    let etcd = etcd::throughput(options).await?;
    speed(options, etcd, report).await?;
    if options.large {
        size::waiters(options, report).await?;
        size::memory(options, report).await?;
    }
    Ok(())
}

/// How fast locks are taken and handed on.
async fn speed(
    options: &Options,
    etcd: Option<f64>,
    report: &mut dyn FnMut(Figure),
) -> Result<(), LoadError> {
    let server = process::Server::start(options, "speed").await?;
    let address = server.address();
    let span = options.span;
    let many = options.clients;

    let before = floor::measure(&options.directory, span / 4)?;
    let one = locks::uncontended(address, 1, span).await?;
    let floor = before.and(&floor::measure(&options.directory, span / 4)?);
    report(Figure::plain("one fdatasync of 128 bytes", floor.flush, "µs"));
    report(Figure::plain("one round trip over loopback", floor.trip, "µs"));
    let echo = echo::rate(address, 1, span).await?;
    report(Figure::plain("one echo over the stream", 1e6 / echo, "µs"));
    let least = floor.flush + floor.trip;
    let figure = Figure::plain("acquire, 1 client", one.acquire, "µs");
    report(figure.beside("fdatasync + round trip", one.acquire / least, Bound::AtMost(1.5)));

    let echo = echo::rate(address, many, span).await?;
    report(Figure::plain(format!("echo, {many} clients"), echo, "/s"));
    let all = locks::uncontended(address, many, span).await?;
    let what = format!("acquire and release, {many} clients, a lock each");
    let figure = Figure::plain(what, all.rate, "/s");
    report(figure.beside("echo", all.rate / echo, Bound::AtLeast(0.25)));
    if let Some(etcd) = etcd {
        let figure = Figure::plain(format!("the same with etcd, {many} clients"), etcd, "/s");
        report(figure.beside("ours to etcd's", all.rate / etcd, Bound::AtLeast(10.0)));
    }

    let before = floor::measure(&options.directory, span / 4)?;
    let contended = locks::contended(address, many, span).await?;
    let floor = before.and(&floor::measure(&options.directory, span / 4)?);
    let figure =
        Figure::plain(format!("hand-over, {many} clients, one lock"), contended.each, "µs");
    let ratio = contended.each / (floor.flush + floor.trip);
    report(figure.beside("fdatasync + round trip", ratio, Bound::AtMost(1.6)));
    let fairness = Figure::plain("least grants of a client", contended.least, "");
    let ratio = contended.least / contended.most;
    report(fairness.beside("most grants of a client", ratio, Bound::AtLeast(0.9)));
    server.stop().await
}

/// The value in the middle.
fn median(mut values: Vec<Duration>) -> f64 {
    values.sort_unstable();
    let middle = values.get(values.len() / 2).copied().unwrap_or_default();
    middle.as_secs_f64() * 1e6
}
