//! The node, as a process.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use conclave_history::{Ending, Event};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::clock::now;
use crate::http;
use crate::proxy::Proxy;
use crate::recorder::Recorder;

/// How long a node may take to start or to stop on a machine that has much else to do.
const BOUND: Duration = Duration::from_secs(90);

pub(crate) struct Node {
    program: PathBuf,
    options: Vec<String>,
    data: PathBuf,
    log: PathBuf,
    proxy: Proxy,
    recorder: Recorder,
    running: Option<Running>,
}

struct Running {
    child: Child,
    /// It is kept so that the node may write.
    _said: Lines<BufReader<ChildStdout>>,
}

impl Node {
    pub(crate) fn new(
        program: &Path,
        data: PathBuf,
        log: PathBuf,
        proxy: Proxy,
        recorder: Recorder,
    ) -> Result<Self> {
        let help = std::process::Command::new(program).args(["up", "--help"]).output();
        let help = help.with_context(|| format!("cannot start {}", program.display()))?;
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        // Snapshots are to be written while things happen.
        let often = ["--snapshot-every", "200"].map(str::to_owned);
        let options = if help.contains(&often[0]) { often.to_vec() } else { Vec::new() };
        let program = program.to_owned();
        Ok(Self { program, options, data, log, proxy, recorder, running: None })
    }

    /// Starts it, and waits until it answers.
    pub(crate) async fn start(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut child = Command::new(&self.program)
            .args(["up", "--listen", "127.0.0.1:0", "--json", "--data"])
            .arg(&self.data)
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let mut said = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let begun = now();
        let line = tokio::time::timeout(BOUND, said.next_line()).await;
        let Ok(line) = line else {
            let what = "the start of the node".to_owned();
            self.recorder.record(&Event::Hung { what, since: begun, at: now() });
            bail!("the node does not start");
        };
        let line = line.ok().flatten().unwrap_or_default();
        let address = serde_json::from_str::<serde_json::Value>(&line).ok();
        let address = address.and_then(|value| value["listens"].as_str()?.parse().ok());
        let Some(address) = address else {
            let status = child.wait().await?;
            self.exited(status, None);
            bail!("the node does not start: {}", self.last_words());
        };
        self.proxy.lead_to(address);
        self.running = Some(Running { child, _said: said });
        self.until_well().await;
        Ok(())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.proxy.node()
    }

    /// Waits until it grants again.
    pub(crate) async fn until_well(&mut self) {
        let begun = now();
        let well = async {
            loop {
                let health = http::get(self.address(), "/healthz");
                let health = tokio::time::timeout(Duration::from_secs(5), health).await;
                if matches!(health, Ok(Ok(answer)) if answer.is_ok()) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(BOUND, well).await.is_err() {
            let what = format!("the illness of the node ({})", self.last_words());
            self.recorder.record(&Event::Hung { what, since: begun, at: now() });
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.running.as_ref().and_then(|running| running.child.id());
        if let Some(id) = id.and_then(|id| i32::try_from(id).ok()) {
            let _ = kill(Pid::from_raw(id), signal);
        }
    }

    /// Ends it in this way, and waits for that.
    pub(crate) async fn end(&mut self, signal: Signal) {
        let expected = match signal {
            Signal::SIGTERM => Ending::Code(0),
            other => Ending::Signal(other as i32),
        };
        self.signal(signal);
        let Some(mut running) = self.running.take() else { return };
        let begun = now();
        match tokio::time::timeout(BOUND, running.child.wait()).await {
            Ok(Ok(status)) => self.exited(status, Some(expected)),
            _ => {
                let what = format!("the node after {signal}");
                self.recorder.record(&Event::Hung { what, since: begun, at: now() });
                let _ = running.child.kill().await;
            }
        }
    }

    /// Whether it has ended by itself; that is recorded.
    pub(crate) fn has_ended(&mut self) -> bool {
        let Some(running) = &mut self.running else { return true };
        let Ok(Some(status)) = running.child.try_wait() else { return false };
        self.running = None;
        self.exited(status, None);
        true
    }

    fn exited(&self, status: ExitStatus, expected: Option<Ending>) {
        let said = self.last_words();
        let ending = ending(status);
        self.recorder.record(&Event::NodeExited { ending, expected, said, at: now() });
    }

    /// The last line that it wrote to standard error.
    fn last_words(&self) -> String {
        last_line(&self.log)
    }
}

pub(crate) fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Code(code),
        (None, signal) => Ending::Signal(signal.unwrap_or_default()),
    }
}

/// The last line of a file, if it is not too long.
pub(crate) fn last_line(file: &Path) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(2000)..]).into_owned();
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
}
