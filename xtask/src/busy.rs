//! A busy machine, for tests that have to pass on one.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};

/// How many loops run for each processor: what else runs gets a third of the machine, or less.
const PER_PROCESSOR: usize = 2;

/// Busy loops, until this is dropped.
pub(crate) struct Loops {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Loops {
    pub(crate) fn start() -> Result<Self> {
        let processors =
            thread::available_parallelism().context("how many processors are there?")?;
        let stop = Arc::new(AtomicBool::new(false));
        let run = |_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    (0..1000).for_each(|_| hint::black_box(()));
                }
            })
        };
        let threads: Vec<_> = (0..PER_PROCESSOR * processors.get()).map(run).collect();
        println!("   beside {} busy loops", threads.len());
        Ok(Self { stop, threads })
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}
