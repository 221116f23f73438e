//! Records events while they happen.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conclave_history::{Event, Time, write_line};

use crate::clock::now;

/// Writes events to a file, each as soon as it happens, and counts them.
#[derive(Clone)]
pub(crate) struct Recorder {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    file: File,
    counts: BTreeMap<&'static str, u64>,
    /// Faults that last, since when that is so, and how much time without any there was before.
    faults: u32,
    since: Time,
    calm: u64,
}

impl Recorder {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        let inner = Inner { file, counts: BTreeMap::new(), faults: 0, since: now(), calm: 0 };
        Ok(Self { inner: Arc::new(Mutex::new(inner)) })
    }

    pub(crate) fn record(&self, event: &Event) {
        let mut inner = self.lock();
        if let Err(error) = write_line(&inner.file, event) {
            // A history with a hole could be judged wrongly.
            eprintln!("chaos: the history cannot be written: {error}");
            std::process::exit(2);
        }
        let now = now();
        let (count, change) = match event {
            Event::Granted { .. } => ("grants", 0),
            Event::FaultBegan { .. } => ("faults", 1),
            Event::FaultEnded { .. } => ("", -1),
            Event::Started { .. } => ("processes", 0),
            Event::Looked { .. } => ("lists", 0),
            _ => ("", 0),
        };
        if change != 0 {
            if inner.faults == 0 {
                inner.calm += now - inner.since;
            }
            inner.faults = inner.faults.saturating_add_signed(change);
            inner.since = now;
        }
        if !count.is_empty() {
            *inner.counts.entry(count).or_default() += 1;
        }
    }

    /// How much time without faults there was.
    pub(crate) fn calm(&self) -> u64 {
        let inner = self.lock();
        inner.calm + if inner.faults == 0 { now() - inner.since } else { 0 }
    }

    /// How many there were, for a line that says how far it is.
    pub(crate) fn progress(&self) -> String {
        let inner = self.lock();
        let counts = inner.counts.iter().map(|(what, count)| format!("{count} {what}"));
        counts.collect::<Vec<_>>().join(", ")
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
