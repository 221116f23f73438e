//! A file that is written under a lock, and protects itself against those who lost it.
//!
//! ```text
//! conclave up &
//! cargo run -p conclave-client --example fenced_file -- /tmp/ledger "first line"
//! cargo run -p conclave-client --example fenced_file -- /tmp/ledger "second line"
//! ```
//!
//! A lock keeps others away as long as it is held. But a program can be stopped between its last look at the
//! lock and its write, for a second or for an hour, and then write though another session holds the lock by
//! now. Only what is written to can prevent that: it remembers the highest token that it has seen,
//! and refuses lower ones. Here that is a store in front of the file; it would be a column in a database, or
//! a condition on a write to an object store.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use conclave_client::blocking::Client;
use conclave_client::{Options, SessionOptions};

/// Lines in a file, behind the highest token that a line was written with.
struct Store(File);

/// The token takes so many bytes at the beginning of the file, and a line of its own.
const TOKEN: usize = 20;

impl Store {
    fn open(path: &Path) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        Ok(Self(file))
    }

    /// The highest token so far.
    fn highest(&mut self) -> io::Result<u64> {
        self.0.rewind()?;
        let mut token = String::new();
        (&self.0).take(TOKEN as u64).read_to_string(&mut token)?;
        match token.trim() {
            "" => Ok(0),
            token => token.parse().map_err(io::Error::other),
        }
    }

    /// Writes a line, unless a holder with a higher token has written already.
    fn append(&mut self, token: u64, line: &str) -> io::Result<()> {
        // The store does one thing at a time. It is here that this matters, and it takes no more than that:
        // the store and its own lock are in one place, and no message is under way between them.
        self.0.lock()?;
        let written = self.append_alone(token, line);
        self.0.unlock()?;
        written
    }

    fn append_alone(&mut self, token: u64, line: &str) -> io::Result<()> {
        let highest = self.highest()?;
        if token < highest {
            let why = format!("token {token} is out of date: {highest} has written already");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        // First the token: if the machine stops in between, a lower one is refused afterwards.
        self.0.rewind()?;
        writeln!(self.0, "{token:0TOKEN$}")?;
        self.0.sync_data()?;
        self.0.seek(SeekFrom::End(0))?;
        writeln!(self.0, "{line}")?;
        self.0.sync_data()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, line] = arguments.as_slice() else {
        return Err("usage: fenced_file FILE LINE".into());
    };
    let mut store = Store::open(Path::new(path))?;

    let client = Client::connect(Options::from_env()?)?;
    let session = client.open(SessionOptions::default())?;
    let guard = session.lock(format!("file:{path}"))?;
    println!("the lock is held with token {}", guard.token());

    // It saves work to look, but it proves nothing: whatever happens after the look, the store judges.
    if guard.is_held() {
        store.append(guard.token(), line)?;
        println!("written");
    }
    guard.release()?;

    // What a program would see that was asleep all the while, and wakes up with an old token.
    if let Err(refused) = store.append(0, "from a holder that slept for an hour") {
        println!("and as it should be, {refused}");
    }
    Ok(())
}
