//! Supervises a command: it has ended before another session may hold its lock or lead its election.

use std::pin::Pin;
use std::process::ExitStatus;
use std::time::Duration;

use conclave_client::Loss;
use nix::sys::signal::Signal;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::child::{Child, ChildEvent};
use super::signals::Signals;
use super::spell;
use crate::Failure;

/// The time-to-live of a session, and how much of it is for the command to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseBudget {
    pub(crate) ttl: Duration,
    pub(crate) grace: Duration,
}

/// However long a session lives, no more than that is set aside at its end, unless told otherwise.
const LONGEST: Duration = Duration::from_secs(60);

impl LeaseBudget {
    /// A fifth of the time-to-live is for the command to end, a minute at most, unless told otherwise. No more than half of it
    /// may be: the rest is to renew it in.
    pub(crate) fn new(ttl: Duration, grace: Option<Duration>) -> Result<Self, Failure> {
        let budget = Self { ttl, grace: grace.unwrap_or_else(|| (ttl / 5).min(LONGEST)) };
        if budget.grace + budget.margin() > ttl / 2 {
            let enough = Duration::from_millis(
                u64::try_from((budget.grace * 16 / 7).as_millis())
                    .unwrap_or(u64::MAX)
                    .div_ceil(100)
                    * 100,
            );
            return Err(Failure::Usage(format!(
                "a command that may take --grace {} to end has to be told long before its lease ends; \
                 for that --ttl has to be {} or more",
                spell(budget.grace),
                spell(enough),
            )));
        }
        Ok(budget)
    }

    /// How long before the end of a lease the command is to be dead.
    pub(crate) fn margin(self) -> Duration {
        (self.ttl / 16).min(LONGEST)
    }

    /// How long before the end of a lease it is told to end.
    fn reserve(self) -> Duration {
        self.grace + self.margin()
    }
}

/// The lock or leadership that a command is run for.
pub(crate) struct Holding<'a> {
    /// How much of the lease remains.
    pub(crate) remaining: &'a (dyn Fn() -> Duration + Sync),
    /// Why it could not be renewed in time.
    pub(crate) silence: &'a (dyn Fn() -> String + Sync),
    /// It is not held any more.
    pub(crate) lost: Pin<Box<dyn Future<Output = String> + Send>>,
    /// It is to be given back within so long.
    pub(crate) asked_back: Pin<Box<dyn Future<Output = Duration> + Send>>,
}

/// How a supervised command has ended.
#[derive(Debug)]
pub(crate) enum Supervised {
    /// The command has ended by itself.
    Ended {
        /// How.
        status: ExitStatus,
        /// It had the terminal, so that keys such as Ctrl-C came to it only.
        had_terminal: bool,
    },
    /// It was ended, because this was lost.
    Lost(String),
    /// It was ended, because it was asked to give way.
    GaveWay,
    /// Its guard was killed, and it with its guard.
    Unguarded,
}

/// Why the guard has ended a command while the lease lasts.
const OVERDUE: &str = "the guard of the command was not told in time that the lease was renewed \
                       (is this machine overloaded, or was this program stopped?)";

/// Waits for the end of a command, or ends it when it may hold no longer.
pub(crate) async fn supervise(
    mut child: Child,
    signals: &mut Signals,
    budget: LeaseBudget,
    holding: Holding<'_>,
) -> Supervised {
    let Holding { remaining, silence, mut lost, mut asked_back } = holding;
    let mut look = interval((budget.ttl / 64).max(Duration::from_millis(1)));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            why = &mut lost => {
                // It may be another's by now.
                child.kill().await;
                return Supervised::Lost(why);
            }
            // Before what would end it: a command that has ended by itself has not given way.
            event = child.event() => match event {
                // This program may have slept all along.
                ChildEvent::Ended(_) if remaining().is_zero() => {
                    child.kill().await;
                    return Supervised::Lost(Loss::Expired.to_string());
                }
                ChildEvent::Ended(status) => {
                    let had_terminal = child.has_terminal();
                    child.finish().await;
                    return Supervised::Ended { status, had_terminal };
                }
                ChildEvent::Stopped => child.stop_with_it(),
                ChildEvent::Overdue => {
                    child.kill().await;
                    return Supervised::Lost(OVERDUE.to_owned());
                }
                ChildEvent::Unguarded => {
                    child.kill().await;
                    return Supervised::Unguarded;
                }
            },
            _ = look.tick() => {
                let left = remaining();
                if left.is_zero() {
                    child.kill().await;
                    return Supervised::Lost(Loss::Expired.to_string());
                }
                if left < budget.reserve() {
                    let within = budget.grace.min(left.saturating_sub(budget.margin()));
                    let why = silence();
                    end(child, signals, within).await;
                    return Supervised::Lost(why);
                }
                child.report_lease(remaining);
            }
            within = &mut asked_back => {
                let left = within.min(remaining());
                let within = budget.grace.min(left.saturating_sub(budget.margin()));
                end(child, signals, within).await;
                return Supervised::GaveWay;
            }
            signal = signals.next() => match signal {
                Signal::SIGCONT if !remaining().is_zero() => child.go_on(),
                Signal::SIGCONT => {}
                signal => child.signal(signal),
            },
        }
    }
}

/// Tells a command to end, and ends it if it does not within so long. Nothing of its group is left.
async fn end(mut child: Child, signals: &mut Signals, within: Duration) {
    child.signal(Signal::SIGTERM);
    // What is stopped would not hear of it.
    child.signal(Signal::SIGCONT);
    let late = sleep_until(Instant::now() + within);
    tokio::pin!(late);
    loop {
        tokio::select! {
            biased;
            () = &mut late => break,
            event = child.event() => {
                if event != ChildEvent::Stopped {
                    break;
                }
            }
            signal = signals.next() => child.signal(signal),
        }
    }
    child.kill().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_time_to_renew_and_time_to_end() {
        let seconds = Duration::from_secs;
        let budget = LeaseBudget::new(seconds(15), None).expect("it fits");
        assert_eq!(budget.grace, seconds(3));
        assert!(LeaseBudget::new(seconds(16), Some(seconds(7))).is_ok());
        let error = LeaseBudget::new(seconds(10), Some(seconds(7))).expect_err("it does not fit");
        assert!(error.to_string().contains("--ttl has to be 16s or more"), "{error}");
        assert!(LeaseBudget::new(Duration::ZERO, None).is_ok(), "the node refuses that by itself");
    }
}
