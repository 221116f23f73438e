//! A network that can be told to misbehave.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the network does with what is sent over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It passes everything on.
    Fine,
    /// What clients say arrives, what the server says does not.
    Deaf,
    /// Nothing arrives, and neither side is told.
    Silent,
    /// Connections break, and there are no new ones.
    Broken,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// And how often all connections have been broken.
    mood: Arc<watch::Sender<(Mood, u32)>>,
}

impl Proxy {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let address = listener.local_addr().expect("it has an address");
        let mood = Arc::new(watch::Sender::new((Mood::Fine, 0)));
        let shared = mood.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if shared.borrow().0 == Mood::Broken {
                    continue;
                }
                let Ok(server) = TcpStream::connect(server).await else { continue };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let mood = || shared.subscribe();
                tokio::spawn(pump(from_client, to_server, mood(), &[Mood::Fine, Mood::Deaf]));
                tokio::spawn(pump(from_server, to_client, mood(), &[Mood::Fine]));
            }
        });
        Self { address, mood }
    }

    pub(crate) fn set(&self, mood: Mood) {
        let breaks = u32::from(mood == Mood::Broken);
        self.mood.send_modify(|now| *now = (mood, now.1 + breaks));
    }

    /// Breaks all connections; new ones are fine.
    pub(crate) fn cut(&self) {
        self.set(Mood::Broken);
        self.set(Mood::Fine);
    }
}

/// Passes on what is said as long as the network is in one of these moods; what is said otherwise is lost.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mood: watch::Receiver<(Mood, u32)>,
    passing: &[Mood],
) {
    let mut said = vec![0; 1 << 16];
    let (_, breaks) = *mood.borrow();
    loop {
        let count = tokio::select! {
            read = from.read(&mut said) => read.unwrap_or(0),
            Ok(_) = mood.wait_for(|now| now.1 != breaks) => 0,
        };
        if count == 0 {
            return;
        }
        let passes = passing.contains(&mood.borrow().0);
        if passes && to.write_all(&said[..count]).await.is_err() {
            return;
        }
    }
}
