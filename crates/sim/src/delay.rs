use std::time::Duration;

use conclave_protocol::{NodeId, Time};
use serde::{Deserialize, Serialize};

use crate::Rng;

/// How long a message is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delay {
    /// Always the same: the parallel model of the theory, where hops are times.
    Constant(Duration),
    /// Anything from the first to the second.
    Uniform(Duration, Duration),
    /// Memoryless, with this mean; no upper bound.
    Exponential(Duration),
    /// Partly synchronous: memoryless with this mean at first, and bounded in the end. No message
    /// sent after `at` takes longer than `bound`, and those sent before arrive by `at + bound`.
    Settling {
        /// The mean.
        mean: Duration,
        /// The bound that holds in the end.
        bound: Duration,
        /// From when on.
        at: Time,
    },
    /// A fixed time for each pair of nodes: row the sender, column the receiver.
    Matrix(Vec<Vec<Duration>>),
    /// A medium that carries one message at a time, each for this long.
    Serial(Duration),
}

/// The delays of a run: a model, and links that differ from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    /// What holds for every link not named below.
    pub model: Delay,
    /// Links slower or faster than that, the first match deciding.
    #[serde(default)]
    pub links: Vec<SlowLink>,
}

/// A link with a delay of its own, for a while or for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowLink {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// How long a message takes.
    pub delay: Duration,
    /// For messages sent from this moment on …
    pub since: Time,
    /// … and before this one.
    pub until: Time,
}

impl From<Delay> for Delays {
    fn from(model: Delay) -> Self {
        Self { model, links: Vec::new() }
    }
}

impl Delays {
    /// Every message takes one millisecond, the unit `T` of the theory.
    pub fn unit() -> Self {
        Delay::Constant(Duration::from_millis(1)).into()
    }

    /// The longest a message can take; `None` if there is no bound.
    pub fn bound(&self) -> Option<Duration> {
        let model = match &self.model {
            Delay::Constant(delay) => *delay,
            Delay::Uniform(_, most) => *most,
            Delay::Matrix(rows) => rows.iter().flatten().max().copied().unwrap_or_default(),
            Delay::Exponential(_) | Delay::Settling { .. } | Delay::Serial(_) => return None,
        };
        Some(self.links.iter().map(|link| link.delay).fold(model, Duration::max))
    }

    /// About how far ahead arrivals lie, for sizing the calendar.
    pub(crate) fn typical(&self) -> Duration {
        self.bound().unwrap_or(match &self.model {
            Delay::Exponential(mean) | Delay::Settling { mean, .. } => *mean * 4,
            Delay::Serial(each) => *each * 16,
            _ => Duration::from_millis(1),
        })
    }

    /// Whether two messages on the same link can never overtake each other.
    pub(crate) fn keeps_order(&self) -> bool {
        let by_chance = matches!(
            self.model,
            Delay::Uniform(..) | Delay::Exponential(_) | Delay::Settling { .. }
        );
        self.links.is_empty() && !by_chance
    }
}

/// Draws arrival times.
#[derive(Clone, Debug)]
pub(crate) struct Medium {
    delays: Delays,
    quick: Quick,
    /// When the serial medium is free again.
    free: Time,
}

/// The two common models, ready to draw from without a look at the rest.
#[derive(Clone, Copy, Debug)]
enum Quick {
    Uniform { least: u64, width: u64 },
    No,
}

impl Medium {
    pub(crate) fn new(delays: Delays) -> Self {
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let quick = match delays.model {
            _ if !delays.links.is_empty() => Quick::No,
            Delay::Constant(delay) => Quick::Uniform { least: nanos(delay), width: 1 },
            Delay::Uniform(least, most) => {
                let least = nanos(least);
                Quick::Uniform { least, width: nanos(most).saturating_sub(least) + 1 }
            }
            _ => Quick::No,
        };
        Self { delays, quick, free: Time::ZERO }
    }

    #[inline(always)]
    pub(crate) fn arrival(&mut self, from: NodeId, to: NodeId, now: Time, rng: &mut Rng) -> Time {
        match self.quick {
            Quick::Uniform { least, width: 1 } => Time::from_nanos(now.as_nanos() + least),
            Quick::Uniform { least, width } => {
                Time::from_nanos(now.as_nanos() + least + rng.below(width))
            }
            Quick::No => self.arrival_by_link(from, to, now, rng),
        }
    }

    fn arrival_by_link(&mut self, from: NodeId, to: NodeId, now: Time, rng: &mut Rng) -> Time {
        let of_link = |link: &&SlowLink| {
            link.from == from && link.to == to && link.since <= now && now < link.until
        };
        if let Some(link) = self.delays.links.iter().find(of_link) {
            return now + link.delay;
        }
        match &self.delays.model {
            Delay::Constant(delay) => now + *delay,
            Delay::Uniform(least, most) => crate::Spread::between(*least, *most).after(now, rng),
            Delay::Exponential(mean) => {
                now + Duration::from_nanos(rng.exponential(mean.as_nanos() as u64))
            }
            Delay::Settling { mean, bound, at } => {
                let free = now + Duration::from_nanos(rng.exponential(mean.as_nanos() as u64));
                free.min(now.max(*at) + *bound)
            }
            Delay::Matrix(rows) => now + rows[from.index()][to.index()],
            Delay::Serial(each) => {
                self.free = self.free.max(now) + *each;
                self.free
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_that_settle_are_bounded_from_then_on() {
        let unit = Duration::from_millis(1);
        let at = |t: u32| Time::ZERO + unit * t;
        let delays = Delay::Settling { mean: unit * 10, bound: unit * 2, at: at(100) };
        let (mut medium, mut rng) = (Medium::new(delays.into()), Rng::new(1));
        let (mut longest, mut cut) = (Duration::ZERO, 0);
        for t in (0..200).cycle().take(10_000) {
            let arrival = medium.arrival(NodeId(0), NodeId(1), at(t), &mut rng);
            assert!(arrival <= at(t.max(100) + 2), "{t}: {arrival:?}");
            longest = longest.max(arrival - at(t));
            cut += u32::from(arrival == at(t.max(100) + 2));
        }
        assert!(longest > unit * 40, "not bounded before: {longest:?}");
        // Of those after, exp(−2/10) are; of those before, few.
        assert!((3_500..6_000).contains(&cut), "{cut}");
    }
}
