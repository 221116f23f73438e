use std::time::Duration;

use conclave_protocol::Time;
use serde::{Deserialize, Serialize};

/// SplitMix64: small, fast, and the same on every machine.
///
/// Written out here because its values are part of what a seed means: a library that improves
/// its generator would change every recorded run.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator whose values follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Puts `items` in any order, all orders being as likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// True with the given probability, in millionths.
    pub fn chance(&mut self, millionths: u32) -> bool {
        millionths > 0 && self.below(1_000_000) < u64::from(millionths)
    }

    /// An exponentially distributed number with the given mean.
    ///
    /// By von Neumann's comparison method: integers only, so that no machine's logarithm can
    /// change a run.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let mut whole: u64 = 0;
        loop {
            let first = self.bits();
            let (mut last, mut run) = (first, 1_u32);
            loop {
                let next = self.bits();
                if next >= last {
                    break;
                }
                (last, run) = (next, run + 1);
            }
            if run % 2 == 1 {
                let fraction = ((u128::from(first) * u128::from(mean)) >> 64) as u64;
                return whole.saturating_mul(mean).saturating_add(fraction);
            }
            whole += 1;
        }
    }

    /// A generator for another purpose whose values do not depend on how much this one is used.
    #[must_use]
    pub fn fork(&self, purpose: u64) -> Self {
        Self(Self(self.0 ^ purpose.wrapping_mul(0xa076_1d64_78bd_642f)).bits())
    }
}

/// A range of durations to draw from, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The shortest.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
}

impl Spread {
    /// Always the same duration.
    pub const fn exactly(duration: Duration) -> Self {
        Self { least: duration, most: duration }
    }

    /// Anything from `least` to `most`.
    pub const fn between(least: Duration, most: Duration) -> Self {
        Self { least, most }
    }

    /// A moment after `now`, by a duration out of the range.
    pub fn after(self, now: Time, rng: &mut Rng) -> Time {
        let (least, most) = (self.least.as_nanos() as u64, self.most.as_nanos() as u64);
        let extra = if most > least { rng.below(most - least + 1) } else { 0 };
        Time::from_nanos(now.as_nanos().saturating_add(least).saturating_add(extra))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_a_seed_never_change() {
        let mut rng = Rng::new(7);
        let first: Vec<u64> = (0..3).map(|_| rng.bits()).collect();
        assert_eq!(
            first,
            [7_191_089_600_892_374_487, 309_689_372_594_955_804, 16_616_101_746_815_609_346]
        );
    }

    #[test]
    fn exponential_delays_have_their_mean_and_their_tail() {
        let mut rng = Rng::new(1);
        let (mean, draws) = (1_000_000_u64, 200_000);
        let values: Vec<u64> = (0..draws).map(|_| rng.exponential(mean)).collect();
        let average = values.iter().sum::<u64>() / draws;
        assert!(average.abs_diff(mean) < mean / 100, "mean {average}");
        // P(X > 3·mean) = e⁻³ ≈ 0.0498.
        let tail = values.iter().filter(|&&v| v > 3 * mean).count() as f64 / draws as f64;
        assert!((tail - 0.0498).abs() < 0.003, "tail {tail}");
    }

    #[test]
    fn spreads_reach_both_ends() {
        let mut rng = Rng::new(3);
        let spread = Spread::between(Duration::from_nanos(2), Duration::from_nanos(4));
        let mut seen: Vec<u64> =
            (0..100).map(|_| spread.after(Time::ZERO, &mut rng).as_nanos()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [2, 3, 4]);
    }
}
