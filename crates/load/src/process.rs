//! The server as a process of its own, so that its memory and CPU time can be told from those of the clients.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use conclave_server::{ServeError, ServeOptions};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::{LoadError, Options};

/// A program that calls [`serve`] with the directory that comes after its arguments, and keeps a processor awake if
/// `--spin` comes after that.
#[derive(Clone, Debug)]
pub struct Start {
    /// The program.
    pub program: PathBuf,
    /// What comes before the directory.
    pub arguments: Vec<OsString>,
}

/// Serves what is in a directory on some port, says on standard output which, and goes on until killed. If there is
/// an argument, it is the one with which the program keeps a processor awake.
pub async fn serve(directory: &Path, awake: Option<&'static str>) -> Result<(), ServeError> {
    let listen = "127.0.0.1:0".parse().expect("it is an address");
    let node = conclave_server::Options { awake, ..conclave_server::Options::new(directory) };
    let server = conclave_server::Server::start(ServeOptions { listen, ..ServeOptions::new(node) });
    let server = server.await?;
    println!("{}", server.address());
    std::future::pending().await
}

/// With what the program is told to keep a processor awake, after the directory.
const SPIN: &str = "--spin";

/// A server that is measured.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    pub(crate) async fn start(options: &Options, name: &str) -> Result<Self, LoadError> {
        Self::start_with(options, name, options.spin).await
    }

    /// Starts one that keeps a processor awake, or one that does not.
    pub(crate) async fn start_with(
        options: &Options,
        name: &str,
        spin: bool,
    ) -> Result<Self, LoadError> {
        let failed = |error| LoadError::Io {
            what: format!("cannot start {}", options.start.program.display()),
            error,
        };
        let mut child = Command::new(&options.start.program)
            .args(&options.start.arguments)
            .arg(options.directory.join(name))
            .args(spin.then_some(SPIN))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        let said = child.stdout.take().expect("it is piped");
        BufReader::new(said).read_line(&mut line).await.map_err(failed)?;
        let address = line.trim().parse();
        let address = address.map_err(|_| LoadError::Dead("the server".to_owned()))?;
        Ok(Self { child, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn of_proc(&self, file: &str) -> Result<String, LoadError> {
        let id = self.child.id().ok_or_else(|| LoadError::Dead("the server".to_owned()))?;
        let path = format!("/proc/{id}/{file}");
        std::fs::read_to_string(&path).map_err(|error| LoadError::Io { what: path, error })
    }

    /// The memory it has, in bytes.
    pub(crate) fn memory(&self) -> Result<f64, LoadError> {
        let status = self.of_proc("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().unwrap_or(0.0);
        Ok(kib * 1024.0)
    }

    /// The time that processors have spent on it.
    pub(crate) fn work(&self) -> Result<Duration, LoadError> {
        let stat = self.of_proc("stat")?;
        // After the name, which may contain anything but ends with the last parenthesis.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks: f64 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|ticks| ticks.parse::<f64>().ok())
            .sum();
        Ok(Duration::from_secs_f64(ticks / rustix::param::clock_ticks_per_second() as f64))
    }

    pub(crate) async fn stop(mut self) -> Result<(), LoadError> {
        let stopped =
            |error: io::Error| LoadError::Io { what: "cannot stop the server".into(), error };
        self.child.kill().await.map_err(stopped)
    }
}
