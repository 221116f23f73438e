//! How long a user is ready to wait (`--timeout`, `--try`), from the start of the command.

use std::future::{Future, pending};
use std::time::Duration;

use conclave_client::{Client, Error};
use tokio::time::{Instant, sleep, timeout};

/// How long a node may say nothing to a user who wants an answer at once.
pub(crate) const HASTE: Duration = Duration::from_secs(2);

/// What `--timeout` or `--try` said.
pub(crate) struct Patience {
    limit: Option<Duration>,
    began: Instant,
}

impl Patience {
    /// No time means at once; nothing means for as long as it takes.
    pub(crate) fn begin(limit: Option<Duration>) -> Self {
        Self { limit, began: Instant::now() }
    }

    /// How much of it has passed.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// What is left of it, if it is bounded.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_sub(self.elapsed()))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// Whether a node that cannot be reached is not worth a second attempt.
    pub(crate) fn is_short(&self) -> bool {
        self.left().is_some_and(|left| left < HASTE)
    }

    /// For how long a node may say nothing from now on; nothing if the user gave no bound. A node has to be given some
    /// time also where the user gave none.
    pub(crate) fn silence(&self) -> Option<Duration> {
        match self.limit {
            Some(Duration::ZERO) => Some(HASTE),
            _ => self.left(),
        }
    }

    /// The bound as it was given, for people.
    pub(crate) fn stated(&self) -> Option<Duration> {
        self.limit.map(|limit| if limit.is_zero() { HASTE } else { limit })
    }

    /// Waits until nothing more may come; for ever if the user gave no bound.
    pub(crate) async fn over(&self) {
        match self.silence() {
            Some(silence) => sleep(silence).await,
            None => pending().await,
        }
    }

    /// What comes of a question to a node, or that it has said nothing for too long.
    pub(crate) async fn bound<T>(
        &self,
        client: &Client,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(silence) = self.silence() else { return answer.await };
        match timeout(silence, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(client
                .last_error()
                .unwrap_or_else(|| Error::Unreachable("it did not answer in time".to_owned()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_from_the_start_and_ends() {
        let second = Duration::from_secs;
        let after = |limit, passed| {
            let began = Instant::now();
            Patience { limit, began: began.checked_sub(passed).expect("the machine is up") }
        };
        let most = after(Some(second(3600)), second(1));
        let left = most.left().expect("it is bounded");
        assert!(left <= second(3599) && !most.is_short() && !most.is_over());
        assert!(most.silence().is_some_and(|silence| silence <= left));
        let little = after(Some(second(3)), second(2));
        assert!(little.left() <= Some(second(1)) && little.is_short());
        let none = after(Some(second(3)), second(3));
        assert_eq!((none.left(), none.silence()), (Some(Duration::ZERO), Some(Duration::ZERO)));
        assert!(none.is_over());
        let endless = after(None, second(5));
        assert_eq!((endless.left(), endless.silence(), endless.is_over()), (None, None, false));
        // A user who wants it at once cannot be answered in no time.
        let at_once = after(Some(Duration::ZERO), second(1));
        assert_eq!((at_once.silence(), at_once.is_over()), (Some(HASTE), true));
    }
}
