//! A search that is watched: its progress is shown, and Ctrl-C ends it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use conclave_check::{CheckSpec, Progress};
use conclave_lab::Refusal;
use conclave_lab::check::{Caught, Searched, Searcher, counted, grouped, short};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Terminal;
use crate::commands::run::stop_on_ctrl_c;

/// How often the progress is shown.
const EVERY: Duration = Duration::from_millis(100);

/// Runs searches, one after the other.
pub(super) struct Search {
    stop: Arc<AtomicBool>,
    bar: ProgressBar,
}

impl Search {
    /// Shows progress if there is a terminal to show it on.
    pub(super) fn begin(terminal: &Terminal) -> Self {
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        let spinner = if terminal.ascii { "{spinner:.dim}" } else { "{spinner}" };
        let style = ProgressStyle::with_template(&format!("{spinner} {{wide_msg}}"));
        let style = style.expect("the template is well-formed");
        bar.set_style(if terminal.ascii { style.tick_chars("|/-\\ ") } else { style });
        Self { stop: stop_on_ctrl_c(), bar }
    }

    /// Walks at random for a while, until something is violated.
    pub(super) fn hunt(&self, spec: &CheckSpec, seed: u64) -> Result<Option<Caught>, Refusal> {
        let (prey, time) =
            self.watched("at random", |progress| conclave_lab::walk(spec, seed, progress))?;
        let caught = prey.map(|(property, violation)| Caught { property, violation, time });
        if let Some(Caught { property, violation, .. }) = &caught {
            let steps = counted(violation.decisions.len() as u64, "step");
            self.bar.println(format!(
                "found at random: {property} violated after {steps}; now for a shortest run"
            ));
        }
        Ok(caught)
    }

    /// Does something that takes its time.
    fn watched<T>(
        &self,
        what: &str,
        work: impl FnOnce(&Progress) -> Result<T, Refusal>,
    ) -> Result<(T, Duration), Refusal> {
        let progress = Progress::default();
        let (finish, finished) = mpsc::channel::<()>();
        let began = now();
        let result = thread::scope(|scope| {
            scope.spawn(|| self.watch(&progress, finished, what, began));
            let result = work(&progress);
            // The progress display ends with the search.
            drop(finish);
            result
        });
        let time = began.elapsed();
        self.bar.set_message("");
        Ok((result?, time))
    }

    fn watch(&self, progress: &Progress, finished: mpsc::Receiver<()>, what: &str, began: Instant) {
        while let Err(RecvTimeoutError::Timeout) = finished.recv_timeout(EVERY) {
            if self.is_stopped() {
                progress.stop.store(true, Ordering::Relaxed);
            }
            let read = |it: &std::sync::atomic::AtomicU64| it.load(Ordering::Relaxed);
            let (states, transitions) = (read(&progress.states), read(&progress.transitions));
            let rate = transitions as f64 / began.elapsed().as_secs_f64();
            self.bar.set_message(format!(
                "{what}: {} states, {} transitions, depth {}, {} waiting, {} transitions/s",
                grouped(states),
                grouped(transitions),
                read(&progress.depth),
                grouped(read(&progress.queued)),
                short(rate),
            ));
            self.bar.tick();
        }
    }

    /// Removes what shows the progress.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Searcher for Search {
    /// `what` stands before the figures that show the progress.
    fn search(&self, spec: &CheckSpec, what: &str) -> Result<Searched, Refusal> {
        let (report, time) = self.watched(what, |progress| conclave_lab::search(spec, progress))?;
        Ok(Searched { report, time })
    }

    /// Whether the user has pressed Ctrl-C.
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[expect(clippy::disallowed_methods, reason = "how fast a search is, only a real clock can tell")]
fn now() -> Instant {
    Instant::now()
}
