//! `conclave bench`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use conclave_load::{Bound, Figure, LoadError, Options, Start};
use serde_json::json;

use crate::service::{IDLE_SPINNER, ServiceError, one_thread};
use crate::terminal::{BOLD, ERROR, GOOD, paint};
use crate::{Done, Failure};

/// What to know, for `--help`.
pub const HELP: &str = "\
Examples:
  conclave bench                        everything, beside etcd if it is installed; about a minute
  conclave bench --quick --no-etcd      only locks per second and hand-overs
  conclave bench --data /var/lib        on the disk that counts
  conclave bench --spin                 as with `conclave up --spin`: a processor is kept awake

A lock is taken and given back, and both are on disk before they are acknowledged. What the machine can do at
best is measured in turns with it: ratios count, not seconds. The node is as `conclave up` is, or as with --spin; what
--spin gives is measured in any case, in turns. During a flush, a round trip or an echo of the machine alone, no
processor is kept awake. It ends with 6 if a ratio is not what it should be, which a busy machine may be to blame for.";

/// Flags of `conclave bench`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How many clients there are
    #[arg(long, value_name = "CLIENTS", env = "CONCLAVE_BENCH_CLIENTS", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub clients: u32,
    /// For how many seconds each thing is measured
    #[arg(long, value_name = "SECONDS", env = "CONCLAVE_BENCH_SECONDS", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: u32,
    /// Where the data is while it is measured: in a folder of its own, which is removed afterwards
    #[arg(long, value_name = "FOLDER", env = "CONCLAVE_BENCH_DATA", default_value = ".")]
    pub data: PathBuf,
    /// The program `etcd`, to be measured beside; where it usually is, if that is not said
    #[arg(long, value_name = "FILE", env = "CONCLAVE_BENCH_ETCD")]
    pub etcd: Option<PathBuf>,
    /// Not beside etcd
    #[arg(long, conflicts_with = "etcd", env = "CONCLAVE_BENCH_NO_ETCD")]
    pub no_etcd: bool,
    /// Without what takes long: many waiters, locks and sessions
    #[arg(long, env = "CONCLAVE_BENCH_QUICK")]
    pub quick: bool,
    /// Have the node keep a processor awake, as `conclave up --spin` does
    #[arg(long, env = "CONCLAVE_BENCH_SPIN")]
    pub spin: bool,
    /// Print JSON
    #[arg(long, env = "CONCLAVE_JSON")]
    pub json: bool,
    /// Be the server that is measured
    #[arg(long, hide = true, value_name = "FOLDER")]
    pub serve: Option<PathBuf>,
}

/// Where Debian puts etcd.
const USUAL: &str = "/usr/bin/etcd";

/// Measures the service, and says what it is held against.
pub fn perform(args: &Args, out: &mut dyn Write) -> Result<Done, Failure> {
    // A thread for all clients, and one for the server.
    let runtime = one_thread()?;
    if let Some(directory) = &args.serve {
        let served =
            runtime.block_on(conclave_load::serve(directory, args.spin.then_some(IDLE_SPINNER)));
        served.map_err(|error| ServiceError::Stopped(error.to_string()))?;
        return Ok(Done::Well);
    }
    let file = |error| Failure::File { path: args.data.clone(), error };
    let directory = tempfile::Builder::new().prefix("conclave-bench-").tempdir_in(&args.data);
    let directory = directory.map_err(file)?;
    let usual = Path::new(USUAL);
    let etcd = args.etcd.clone().or_else(|| usual.exists().then(|| usual.to_owned()));
    let etcd = etcd.filter(|_| !args.no_etcd);
    if etcd.is_none() && !args.no_etcd && !args.json {
        writeln!(
            out,
            "etcd is not installed and not measured (Debian's package is etcd-server)\n"
        )?;
    }
    let options = Options {
        start: Start {
            program: std::env::current_exe().map_err(file)?,
            arguments: ["bench", "--serve"].map(Into::into).to_vec(),
        },
        directory: directory.path().to_owned(),
        clients: args.clients as usize,
        span: Duration::from_secs(args.seconds.into()),
        etcd,
        spin: args.spin,
        large: !args.quick,
    };
    let mut figures: Vec<Figure> = Vec::new();
    let mut written = Ok(());
    let measured = runtime.block_on(async {
        let mut report = |figure: Figure| {
            if !args.json && written.is_ok() {
                written = show(&figure, out);
            }
            figures.push(figure);
        };
        tokio::select! {
            measured = conclave_load::measure(&options, &mut report) => measured.map(Some),
            _ = tokio::signal::ctrl_c() => Ok(None),
        }
    });
    written?;
    if args.json {
        writeln!(out, "{:#}", json!(figures))?;
    }
    match measured {
        Ok(None) => Ok(Done::Interrupted),
        Ok(Some(())) if figures.iter().all(is_met) => Ok(Done::Well),
        Ok(Some(())) => Ok(Done::Stopped),
        Err(LoadError::Io { what, error }) => {
            Err(ServiceError::Stopped(format!("{what}: {error}")).into())
        }
        Err(error) => Err(ServiceError::Stopped(error.to_string()).into()),
    }
}

fn is_met(figure: &Figure) -> bool {
    figure.beside.as_ref().is_none_or(conclave_load::Beside::is_met)
}

fn show(figure: &Figure, out: &mut dyn Write) -> std::io::Result<()> {
    write!(out, "{:<52} {:>10} {:<5}", figure.what, number(figure.value), figure.unit)?;
    if let Some(beside) = &figure.beside {
        let verdict = match (beside.wanted, beside.is_met()) {
            (None, _) => " ".to_owned(),
            (Some(_), true) => paint(GOOD, "✓"),
            (Some(_), false) => paint(ERROR, "✗"),
        };
        let ratio = paint(BOLD, format!("{:.2}", beside.ratio));
        write!(out, " {verdict} {ratio} times {}", beside.what)?;
        match beside.wanted {
            None => {}
            Some(Bound::AtMost(most)) => write!(out, " (at most {most})")?,
            Some(Bound::AtLeast(least)) => write!(out, " (at least {least})")?,
        }
    }
    writeln!(out)?;
    out.flush()
}

fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}
