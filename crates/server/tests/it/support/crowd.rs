//! Ten thousand clients in one process, which tests kill.

#![allow(dead_code, reason = "the test starts the process, and the process has the clients")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use conclave_api::v1;
use prost::Message;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use v1::ask::What as Ask;
use v1::tell::What as Told;

/// As many as there are to be.
pub(crate) const CROWD: usize = 10_000;
/// Files that are used for other things than clients.
const OTHERS: u64 = 500;
/// How long the clients' sessions live on.
pub(crate) const TTL: Duration = Duration::from_secs(10);

/// Lets this process have as many files as it may, and says how many clients that makes.
pub(crate) fn room_for_clients() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    raised.expect("the limit may be raised so far");
    maximum.map_or(CROWD, |files| CROWD.min(files.saturating_sub(OTHERS) as usize))
}

/// The least that can talk to a server.
struct Client {
    tcp: TcpStream,
    /// What has come and was not looked at: frames of HTTP/2, and what they carried.
    read: Vec<u8>,
    carried: Vec<u8>,
}

/// A frame of HTTP/2.
fn http2(kind: u8, flags: u8, stream: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("it is short").to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], content].concat()
}

/// A header that is not to be remembered.
fn header(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).expect("it is short");
    let (name_length, value_length) = ([0, length(name)], [length(value)]);
    [&name_length, name.as_bytes(), &value_length, value.as_bytes()].concat()
}

impl Client {
    /// Connects, and begins a stream.
    fn connect(address: &str) -> Self {
        let mut tcp = TcpStream::connect(address).expect("it listens");
        let headers = [
            header(":method", "POST"),
            header(":scheme", "http"),
            header(":path", "/conclave.v1.Conclave/Talk"),
            header(":authority", "localhost"),
            header("content-type", "application/grpc"),
            header("te", "trailers"),
        ];
        let (settings, headers) = (http2(4, 0, 0, &[]), http2(1, 4, 1, &headers.concat()));
        let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings, &headers];
        tcp.write_all(&hello.concat()).expect("it listens");
        Self { tcp, read: Vec::new(), carried: Vec::new() }
    }

    fn ask(&mut self, session: u64, what: Ask) {
        let ask = v1::Ask { session, id: 1, what: Some(what), ..v1::Ask::default() };
        let length = u32::try_from(ask.encoded_len()).expect("it is short");
        let message = [&[0], length.to_be_bytes().as_slice(), &ask.encode_to_vec()].concat();
        self.tcp.write_all(&http2(0, 0, 1, &message)).expect("it listens");
    }

    /// What it is told next.
    fn told(&mut self) -> Told {
        loop {
            if let Some((&[compressed, a, b, c, d], rest)) = self.carried.split_first_chunk()
                && let Some(message) = rest.get(..u32::from_be_bytes([a, b, c, d]) as usize)
            {
                assert_eq!(compressed, 0);
                let tell = v1::Tell::decode(message).expect("a message");
                self.carried.drain(..5 + message.len());
                return tell.what.expect("it says something");
            }
            self.take_frame();
        }
    }

    fn take_frame(&mut self) {
        loop {
            if let Some((&[a, b, c, kind, ..], rest)) = self.read.split_first_chunk::<9>()
                && let Some(content) = rest.get(..u32::from_be_bytes([0, a, b, c]) as usize)
            {
                if kind == 0 {
                    self.carried.extend(content);
                }
                self.read.drain(..9 + content.len());
                return;
            }
            let mut more = [0; 1024];
            let length = self.tcp.read(&mut more).expect("it answers");
            assert_ne!(length, 0, "the connection is ended");
            self.read.extend(&more[..length]);
        }
    }
}

/// All the clients. It says how far it is, and does the next when it is told to.
pub(crate) fn clients(address: &str, count: usize, say: impl Fn(&str)) {
    let count = room_for_clients().min(count);
    let mut clients: Vec<Client> = (0..count).map(|_| Client::connect(address)).collect();
    let mut orders = std::io::stdin().lines();
    say("connected");
    orders.next();
    let ttl_ms = TTL.as_millis() as u64;
    for client in &mut clients {
        let open = v1::Open { name: "one of many".into(), ttl_ms, ..v1::Open::default() };
        client.ask(0, Ask::Open(open));
    }
    // Each waits for what the first of them holds.
    for client in &mut clients {
        let told = client.told();
        let Told::Opened(v1::Opened { session, .. }) = told else { panic!("{told:?}") };
        let wants = vec![v1::Want { lock: "disk".into(), ..v1::Want::default() }];
        client.ask(session, Ask::Acquire(v1::Acquire { wants, ..v1::Acquire::default() }));
    }
    say("asked");
    orders.next();
}
