//! The bound on connections, and how a client beyond it is refused.
//!
//! A process may have so many files open and no more, and connections are files. If they took all of them, the
//! node could neither go on with its log nor write a snapshot. So some are kept for the node itself, and a client
//! beyond the bound is told why it is not let in.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::metrics::{self, Metrics};

/// Files that are kept for the log, snapshots, and clients that are being refused.
const RESERVE: usize = 128;
/// How many clients are told at the same time that there is no room; others wait in the system's queue.
const REFUSING: usize = 16;
/// How long a client may take to be told.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// How often at most a line is written about it.
const PAUSE: Duration = Duration::from_secs(10);

/// Lets this process have as many files open as the system allows it to, and says how many that are.
///
/// What a process may have at first is often 1,024, for programs that cannot deal with more; this one can.
pub fn raise_descriptor_limit() -> io::Result<usize> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    }
    Ok(descriptors())
}

/// How many files this process may have open.
fn descriptors() -> usize {
    let Rlimit { current, .. } = getrlimit(Resource::Nofile);
    current.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}

/// For how many connections there is room beside all that is open already and what is kept.
pub(crate) fn room() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let left = descriptors().saturating_sub(open);
    // Where there is little, the node still has the greater half.
    left.saturating_sub(RESERVE).max(left / 3).min(Semaphore::MAX_PERMITS)
}

/// Lets in so many and no more.
pub(crate) struct Admission {
    most: usize,
    slots: Arc<Semaphore>,
    refusing: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    /// When it was last said that there is no room.
    said: Mutex<Option<Instant>>,
}

/// A place among those who are let in.
pub(crate) struct Slot {
    _permit: OwnedSemaphorePermit,
    metrics: Arc<Metrics>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.metrics.connections.dec();
    }
}

impl Admission {
    pub(crate) fn of(most: usize, metrics: Arc<Metrics>) -> Self {
        metrics.most_connections.set(i64::try_from(most).unwrap_or(i64::MAX));
        Self {
            most,
            slots: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            refusing: Arc::new(Semaphore::new(REFUSING)),
            metrics,
            said: Mutex::new(None),
        }
    }

    /// A place, if there is one.
    pub(crate) fn admit(&self) -> Option<Slot> {
        let permit = self.slots.clone().try_acquire_owned().ok()?;
        self.metrics.connections.inc();
        Some(Slot { _permit: permit, metrics: self.metrics.clone() })
    }

    /// Waits until another client may be told that there is no room, and takes note of it.
    pub(crate) async fn turn_away(&self) -> OwnedSemaphorePermit {
        self.note_refusal();
        let refusing = self.refusing.clone().acquire_owned().await;
        refusing.expect("it is never closed")
    }

    fn note_refusal(&self) {
        self.metrics.connections_refused.inc();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let now = metrics::now();
        if said.is_none_or(|then| now.saturating_duration_since(then) >= PAUSE) {
            *said = Some(now);
            let refused = self.metrics.connections_refused.get();
            tracing::warn!(most = self.most, refused, "refuses connections: {}", self.reason());
        }
    }

    /// Why no other is let in.
    pub(crate) fn reason(&self) -> String {
        format!(
            "this node has {} connections, and may have no more; try again later, or raise --connections and the \
             limit of open files (ulimit -n)",
            self.most
        )
    }
}

/// How HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// Tells a client why it is not let in, in the language in which it asks.
pub(crate) async fn refuse(io: impl AsyncRead + AsyncWrite + Unpin, reason: &str) {
    // One that does not listen is not waited for.
    let _ = timeout(PATIENCE, try_refuse(io, reason)).await;
}

async fn try_refuse(mut io: impl AsyncRead + AsyncWrite + Unpin, reason: &str) -> io::Result<()> {
    let mut begun = Vec::new();
    while begun.len() < PREFACE.len() && PREFACE.starts_with(&begun) {
        if io.read_buf(&mut begun).await? == 0 {
            return Ok(());
        }
    }
    let answer = if begun.starts_with(PREFACE) { goodbye(reason) } else { unavailable(reason) };
    io.write_all(&answer).await?;
    io.shutdown().await?;
    // What it has sent is read, because to close before that would have the system discard the answer.
    tokio::io::copy(&mut io, &mut tokio::io::sink()).await.map(drop)
}

/// The refusal as HTTP/1 has it.
fn unavailable(reason: &str) -> Vec<u8> {
    let body =
        serde_json::json!({ "code": conclave_api::Code::Unavailable.as_str(), "message": reason });
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The refusal as HTTP/2 has it: no settings, and a farewell with the reason.
fn goodbye(reason: &str) -> Vec<u8> {
    const ENHANCE_YOUR_CALM: u32 = 0xb;
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let length = u32::try_from(8 + reason.len()).expect("it is short").to_be_bytes();
    let mut bytes = [settings.as_slice(), &length[1..], &[7, 0, 0, 0, 0, 0]].concat();
    bytes.extend_from_slice(&0_u32.to_be_bytes());
    bytes.extend_from_slice(&ENHANCE_YOUR_CALM.to_be_bytes());
    bytes.extend_from_slice(reason.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_are_kept_for_the_node_itself() {
        let room = room();
        assert!(room > 0 && room < descriptors(), "{room} of {}", descriptors());
    }

    #[tokio::test]
    async fn a_place_is_free_again_when_its_connection_is_gone() {
        let metrics = Arc::new(Metrics::new());
        let admission = Admission::of(2, metrics.clone());
        let first = admission.admit().expect("there is room");
        let _second = admission.admit().expect("there is room");
        assert!(admission.admit().is_none());
        assert_eq!(metrics.connections.get(), 2);
        drop(first);
        assert_eq!(metrics.connections.get(), 1);
        assert!(admission.admit().is_some());
    }

    #[tokio::test]
    async fn a_refusal_is_in_the_language_of_the_question() {
        let told = async |asked: &[u8]| {
            let (mut client, server) = tokio::io::duplex(1 << 16);
            client.write_all(asked).await.expect("there is room");
            let told = async {
                let mut told = Vec::new();
                client.read_to_end(&mut told).await.expect("it ends");
                drop(client);
                told
            };
            let ((), told) = tokio::join!(refuse(server, "it is full"), told);
            told
        };
        let http = told(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let http = String::from_utf8(http).expect("text");
        assert!(http.starts_with("HTTP/1.1 503 ") && http.contains("it is full"), "{http}");
        let http = told(b"PUT / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(http.starts_with(b"HTTP/1.1 503 "));
        let frames = told(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
        assert_eq!(frames[3], 4, "settings come first");
        assert_eq!(frames[9 + 3], 7, "then the farewell");
        assert!(frames.ends_with(b"it is full"), "{frames:?}");
    }
}
