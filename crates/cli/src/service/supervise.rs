//! To see to it that a command ends before another may have what it was run for.

use std::pin::Pin;
use std::process::ExitStatus;
use std::time::Duration;

use conclave_client::Loss;
use nix::sys::signal::Signal;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::child::{Child, Happening};
use super::signals::Signals;
use super::spell;
use crate::Failure;

/// How long a session lives unrenewed, and how long a command may take to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stay {
    pub(crate) ttl: Duration,
    pub(crate) grace: Duration,
}

/// However long a session lives, no more than that is set aside at its end, unless told otherwise.
const LONGEST: Duration = Duration::from_secs(60);

impl Stay {
    /// A fifth of the time-to-live is for the command to end, a minute at most, unless told otherwise. No more than half of it
    /// may be: the rest is to renew it in.
    pub(crate) fn new(ttl: Duration, grace: Option<Duration>) -> Result<Self, Failure> {
        let stay = Self { ttl, grace: grace.unwrap_or_else(|| (ttl / 5).min(LONGEST)) };
        if stay.grace + stay.margin() > ttl / 2 {
            let enough = Duration::from_millis(
                u64::try_from((stay.grace * 16 / 7).as_millis()).unwrap_or(u64::MAX).div_ceil(100)
                    * 100,
            );
            return Err(Failure::Usage(format!(
                "a command that may take --grace {} to end has to be told long before its lease ends; \
                 for that --ttl has to be {} or more",
                spell(stay.grace),
                spell(enough),
            )));
        }
        Ok(stay)
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

/// What a command is run for.
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

/// What came of it.
#[derive(Debug)]
pub(crate) enum Attended {
    /// The command has ended by itself.
    Ended {
        /// How.
        status: ExitStatus,
        /// It had the terminal, so that whatever was typed came to it only.
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

/// Stays with a command until it has ended.
pub(crate) async fn attend(
    mut child: Child,
    signals: &mut Signals,
    stay: Stay,
    holding: Holding<'_>,
) -> Attended {
    let Holding { remaining, silence, mut lost, mut asked_back } = holding;
    let mut look = interval((stay.ttl / 64).max(Duration::from_millis(1)));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            why = &mut lost => {
                // It may be another's by now.
                child.kill().await;
                return Attended::Lost(why);
            }
            // Before what would end it: a command that has ended by itself has not given way.
            happening = child.happening() => match happening {
                // This program may have slept all along.
                Happening::Ended(_) if remaining().is_zero() => {
                    child.kill().await;
                    return Attended::Lost(Loss::Expired.to_string());
                }
                Happening::Ended(status) => {
                    let had_terminal = child.has_terminal();
                    child.finish().await;
                    return Attended::Ended { status, had_terminal };
                }
                Happening::Stopped => child.stop_with_it(),
                Happening::Overdue => {
                    child.kill().await;
                    return Attended::Lost(OVERDUE.to_owned());
                }
                Happening::Unguarded => {
                    child.kill().await;
                    return Attended::Unguarded;
                }
            },
            _ = look.tick() => {
                let left = remaining();
                if left.is_zero() {
                    child.kill().await;
                    return Attended::Lost(Loss::Expired.to_string());
                }
                if left < stay.reserve() {
                    let within = stay.grace.min(left.saturating_sub(stay.margin()));
                    let why = silence();
                    end(child, signals, within).await;
                    return Attended::Lost(why);
                }
                child.vouch(remaining);
            }
            within = &mut asked_back => {
                let left = within.min(remaining());
                let within = stay.grace.min(left.saturating_sub(stay.margin()));
                end(child, signals, within).await;
                return Attended::GaveWay;
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
            happening = child.happening() => {
                if happening != Happening::Stopped {
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
        let stay = Stay::new(seconds(15), None).expect("it fits");
        assert_eq!(stay.grace, seconds(3));
        assert!(Stay::new(seconds(16), Some(seconds(7))).is_ok());
        let error = Stay::new(seconds(10), Some(seconds(7))).expect_err("it does not fit");
        assert!(error.to_string().contains("--ttl has to be 16s or more"), "{error}");
        assert!(Stay::new(Duration::ZERO, None).is_ok(), "the node refuses that by itself");
    }
}
