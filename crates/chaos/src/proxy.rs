//! A proxy between clients and the node that delays, drops and cuts connections.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the proxy does with what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Each piece is late by so much.
    Delay(Duration),
    /// What the node says stays here.
    HoldAnswers,
    /// Everything stays here.
    HoldAll,
    /// All connections are closed, and new ones at once.
    Cut,
}

/// A proxy on a port of its own.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    node: Arc<Mutex<SocketAddr>>,
    mode: Arc<watch::Sender<Mode>>,
    /// Counts how often all connections were closed, and says whether by a reset.
    closings: Arc<watch::Sender<(u64, bool)>>,
}

impl Proxy {
    pub(crate) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (mode, _) = watch::channel(Mode::Pass);
        let (closings, _) = watch::channel((0, false));
        let node = Arc::new(Mutex::new(address));
        let proxy = Self { address, node, mode: Arc::new(mode), closings: Arc::new(closings) };
        let accepting = proxy.clone();
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((client, _)) => drop(tokio::spawn(accepting.clone().serve(client))),
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        });
        Ok(proxy)
    }

    /// Where the node listens now.
    pub(crate) fn node(&self) -> SocketAddr {
        *self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lead_to(&self, node: SocketAddr) {
        *self.node.lock().unwrap_or_else(PoisonError::into_inner) = node;
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
        if mode == Mode::Cut {
            self.close_all(false);
        }
    }

    pub(crate) fn close_all(&self, reset: bool) {
        self.closings.send_modify(|(count, by_reset)| (*count, *by_reset) = (*count + 1, reset));
    }

    async fn serve(self, mut client: TcpStream) {
        if *self.mode.borrow() == Mode::Cut {
            return;
        }
        let mut closings = self.closings.subscribe();
        let Ok(mut node) = TcpStream::connect(self.node()).await else { return };
        let _ = (client.set_nodelay(true), node.set_nodelay(true));
        let closed = {
            let ((from_client, to_client), (from_node, to_node)) = (client.split(), node.split());
            let up = pump(from_client, to_node, self.mode.subscribe(), false);
            let down = pump(from_node, to_client, self.mode.subscribe(), true);
            tokio::select! {
                _ = async { tokio::join!(up, down) } => false,
                _ = closings.changed() => true,
            }
        };
        if closed && closings.borrow().1 {
            for stream in [&client, &node] {
                let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
            }
        }
    }
}

/// Passes on what comes, and that nothing more comes.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut mode: watch::Receiver<Mode>,
    answers: bool,
) {
    let mut chunk = vec![0; 16 << 10];
    loop {
        let count = from.read(&mut chunk).await.unwrap_or(0);
        let holds = |mode: &Mode| match mode {
            Mode::HoldAll => true,
            Mode::HoldAnswers => answers,
            Mode::Pass | Mode::Delay(_) | Mode::Cut => false,
        };
        let now = *mode.borrow_and_update();
        if let Mode::Delay(span) = now {
            tokio::time::sleep(span).await;
        }
        if mode.wait_for(|mode| !holds(mode)).await.is_err() {
            return;
        }
        if count == 0 {
            let _ = to.shutdown().await;
            return;
        }
        if to.write_all(&chunk[..count]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that says what it hears.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it has one");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    #[tokio::test]
    async fn what_is_held_comes_later_and_what_is_cut_is_closed() {
        let proxy = Proxy::start().await.expect("a port");
        proxy.lead_to(echo().await);
        let mut stream = TcpStream::connect(proxy.address).await.expect("it listens");
        let mut byte = [0];
        stream.write_all(b"a").await.expect("it is open");
        stream.read_exact(&mut byte).await.expect("it is answered");
        proxy.set(Mode::HoldAnswers);
        stream.write_all(b"b").await.expect("it is open");
        let early = tokio::time::timeout(Duration::from_millis(200), stream.read(&mut byte)).await;
        early.expect_err("the answer is held");
        proxy.set(Mode::Pass);
        stream.read_exact(&mut byte).await.expect("it is answered now");
        assert_eq!(&byte, b"b");
        proxy.set(Mode::Cut);
        assert_eq!(stream.read(&mut byte).await.unwrap_or(0), 0, "it is closed");
        let mut other = TcpStream::connect(proxy.address).await.expect("it listens");
        assert_eq!(other.read(&mut byte).await.unwrap_or(0), 0, "it is closed at once");
        proxy.set(Mode::Pass);
        let mut stream = TcpStream::connect(proxy.address).await.expect("it listens");
        stream.write_all(b"c").await.expect("it is open");
        stream.read_exact(&mut byte).await.expect("it is answered");
        proxy.close_all(true);
        stream.read(&mut byte).await.expect_err("it is reset");
    }
}
