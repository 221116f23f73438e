//! A search that is watched: its progress is shown, and Ctrl-C ends it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use conclave_check::{CheckError, CheckSpec, Progress, Report, Verdict, Violation};
use conclave_protocol::Property;
use indicatif::{ProgressBar, ProgressStyle};

use super::text::{counted, grouped, short};
use crate::commands::run::stop_on_ctrl_c;
use crate::{Failure, Terminal, find};

/// How often the progress is shown.
const EVERY: Duration = Duration::from_millis(100);

/// Runs searches, one after the other.
pub(super) struct Search {
    stop: Arc<AtomicBool>,
    bar: ProgressBar,
}

/// What a search has found, and how long it took.
pub(super) struct Searched {
    pub(super) report: Report,
    pub(super) time: Duration,
}

/// A violation found at random, and how long that took.
pub(super) struct Prey {
    pub(super) property: Property,
    pub(super) violation: Violation,
    pub(super) time: Duration,
}

impl Searched {
    pub(super) fn seconds(&self) -> f64 {
        self.time.as_secs_f64().max(1e-6)
    }

    /// Counts what was found at random where the search has not come to an answer.
    pub(super) fn add(&mut self, prey: &Prey) {
        for judgement in &mut self.report.verdicts {
            if judgement.property == prey.property && judgement.verdict == Verdict::Open {
                judgement.verdict = Verdict::Violated(prey.violation.clone());
            }
        }
    }
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

    /// Whether the user has pressed Ctrl-C.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Checks; `what` stands before the figures that show the progress.
    pub(super) fn run(&self, spec: &CheckSpec, what: &str) -> Result<Searched, Failure> {
        let (report, time) =
            self.watched(spec, what, |progress| conclave_lab::check(spec, progress))?;
        Ok(Searched { report, time })
    }

    /// Walks at random for a while, until something is violated.
    pub(super) fn hunt(&self, spec: &CheckSpec, seed: u64) -> Result<Option<Prey>, Failure> {
        let (prey, time) =
            self.watched(spec, "at random", |progress| conclave_lab::hunt(spec, seed, progress))?;
        let prey = prey.map(|(property, violation)| Prey { property, violation, time });
        if let Some(Prey { property, violation, .. }) = &prey {
            let steps = counted(violation.decisions.len() as u64, "step");
            self.bar.println(format!(
                "found at random: {property} violated after {steps}; now for a shortest run"
            ));
        }
        Ok(prey)
    }

    /// Does something that takes its time.
    fn watched<T>(
        &self,
        spec: &CheckSpec,
        what: &str,
        work: impl FnOnce(&Progress) -> Option<Result<T, CheckError>>,
    ) -> Result<(T, Duration), Failure> {
        let progress = Progress::default();
        let (finish, finished) = mpsc::channel::<()>();
        let began = now();
        let result = thread::scope(|scope| {
            scope.spawn(|| self.watch(&progress, finished, what, began));
            let result = work(&progress);
            // Whoever watches may stop.
            drop(finish);
            result
        });
        let time = began.elapsed();
        self.bar.set_message("");
        let unknown =
            || find(&spec.algorithm).err().unwrap_or_else(|| unreachable!("it was found"));
        Ok((result.ok_or_else(unknown)??, time))
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

#[expect(clippy::disallowed_methods, reason = "how fast a search is, only a real clock can tell")]
fn now() -> Instant {
    Instant::now()
}

impl From<CheckError> for Failure {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Contradiction(text) => Self::Usage(text),
            other => Self::Impossible(other.to_string()),
        }
    }
}
