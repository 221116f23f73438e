//! The baseline of a machine: a flush of the disk, and a round trip on the loopback.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::{LoadError, median};

/// In microseconds, the median of many. Where the system lets two threads run makes a great difference to
/// a round trip, and it tends to leave them there; so it is several pairs of threads that are measured.
pub(crate) struct Baseline {
    pub(crate) flush: f64,
    pub(crate) trip: f64,
}

/// What a flush writes, and what goes back and forth.
const BYTES: [u8; 128] = [7; 128];

/// Measures both, for so long each.
pub(crate) fn measure(directory: &Path, span: Duration) -> Result<Baseline, LoadError> {
    let io = |what: &str| {
        let what = what.to_owned();
        |error: io::Error| LoadError::Io { what, error }
    };
    let (mut flushes, mut trips) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        flushes.extend(flush(directory, span / PAIRS).map_err(io("cannot flush a file"))?);
        trips.extend(trip(span / PAIRS).map_err(io("cannot use loopback"))?);
    }
    Ok(Baseline { flush: median(flushes), trip: median(trips) })
}

/// How many pairs of threads send something back and forth, one pair after the other.
const PAIRS: u32 = 8;

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn repeat(span: Duration, mut work: impl FnMut() -> io::Result<()>) -> io::Result<Vec<Duration>> {
    let begun = Instant::now();
    let mut times = Vec::new();
    while begun.elapsed() < span {
        let begun = Instant::now();
        work()?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

fn flush(directory: &Path, span: Duration) -> io::Result<Vec<Duration>> {
    let path = directory.join("flushed");
    let mut file = File::create(&path)?;
    let flushed = repeat(span, || {
        file.write_all(&BYTES)?;
        file.sync_data()
    });
    std::fs::remove_file(path)?;
    flushed
}

fn trip(span: Duration) -> io::Result<Vec<Duration>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let other = thread::spawn(move || -> io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut bytes = BYTES;
        while stream.read_exact(&mut bytes).is_ok() {
            stream.write_all(&bytes)?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut bytes = BYTES;
    let trip = repeat(span, || {
        stream.write_all(&BYTES)?;
        stream.read_exact(&mut bytes)
    });
    drop(stream);
    other.join().map_err(|_| io::Error::other("the other end panicked"))??;
    trip
}
