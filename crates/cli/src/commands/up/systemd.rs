//! `sd_notify` for a service with `Type=notify`: ready, stopping, and the watchdog.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tokio::task::AbortHandle;
use tracing::warn;

/// The socket of the service manager, if there is one.
pub(super) struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Watchdog>,
}

/// Feeds the manager's watchdog until it is dropped.
struct Watchdog(AbortHandle);

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Manager {
    /// Whether a service manager has started this process.
    pub(super) fn is_there() -> bool {
        env::var_os("NOTIFY_SOCKET").is_some_and(|name| !name.is_empty())
    }

    /// As the environment says.
    pub(super) fn find() -> Self {
        let socket = env::var("NOTIFY_SOCKET").ok().and_then(|name| {
            let connected = connect(&name);
            if let Err(error) = &connected {
                warn!("cannot tell the service manager anything at NOTIFY_SOCKET={name}: {error}");
            }
            connected.ok()
        });
        Self { socket, watchdog: None }
    }

    /// It listens. From now on, the manager is also told that it lives, if it wants to know: by a task of the thread
    /// that does everything, so that silence means that this thread hangs.
    pub(super) fn ready(&mut self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
        if let (Some((socket, to)), Some(every)) = (&self.socket, watched())
            && let Ok(socket) = socket.try_clone()
        {
            let to = to.clone();
            let fed = tokio::spawn(async move {
                loop {
                    // If there is no room, the manager has not read the last one yet.
                    let _ = socket.send_to_addr(b"WATCHDOG=1", &to);
                    tokio::time::sleep(every).await;
                }
            });
            self.watchdog = Some(Watchdog(fed.abort_handle()));
        }
    }

    /// How it does, in words.
    pub(super) fn status(&self, status: &str) {
        self.tell(&format!("STATUS={status}"));
    }

    /// It stops.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stops");
    }

    fn tell(&self, message: &str) {
        if let Some((socket, to)) = &self.socket {
            // A manager that does not listen is not waited for.
            let _ = socket.send_to_addr(message.as_bytes(), to);
        }
    }
}

fn connect(name: &str) -> io::Result<(UnixDatagram, SocketAddr)> {
    let to = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, to))
}

/// How often the manager is told that this process lives: twice in the time that it gives.
fn watched() -> Option<Duration> {
    let variable = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
    let whose = variable("WATCHDOG_PID");
    if whose.is_some_and(|whose| whose != u64::from(std::process::id())) {
        return None;
    }
    let span = variable("WATCHDOG_USEC").filter(|&span| span > 0)?;
    Some(Duration::from_micros(span) / 2)
}
