//! Signals to this program.

use std::fs;
use std::io;

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Those that are heard: a command that is run gets them, too.
const HEARD: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
];

/// Signals as they come.
pub(crate) struct Signals(mpsc::UnboundedReceiver<Signal>);

impl Signals {
    /// Listens. What was ignored when the program was started stays ignored, for it and for what it runs:
    /// that is how `nohup` works.
    pub(crate) fn listen() -> io::Result<Self> {
        Self::listen_even(None)
    }

    /// The same, but this one is heard even if it was ignored: under `nohup`, too, a node has to hear that it is to
    /// read its files again.
    pub(crate) fn listen_even(to: Option<Signal>) -> io::Result<Self> {
        let (tell, told) = mpsc::unbounded_channel();
        for one in HEARD {
            if is_ignored(one) && to != Some(one) {
                continue;
            }
            let mut comes = signal(SignalKind::from_raw(one as i32))?;
            let tell = tell.clone();
            tokio::spawn(
                async move { while comes.recv().await.is_some() && tell.send(one).is_ok() {} },
            );
        }
        Ok(Self(told))
    }

    /// Waits for the next.
    pub(crate) async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            // All are ignored.
            None => std::future::pending().await,
        }
    }

    /// Waits for one that says to stop.
    pub(crate) async fn stop(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT)
            {
                return signal;
            }
        }
    }
}

/// Whether a signal was ignored when the program was started.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask & (1 << (signal as i32 - 1)) != 0
}
