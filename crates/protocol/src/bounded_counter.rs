use crate::{Opt, Setup, Unfit};

/// Counters that start again after so many, as the option `wrap` says; never, by default.
///
/// A counter that only grows makes every state new, so that a model checker meets none again and
/// finds no run that goes round for ever. What counters number must then be out of use when its
/// number comes again, and fencing tokens, which repeat, are in no order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BoundedCounter(u64);

impl BoundedCounter {
    /// The option, for the list of an algorithm's.
    pub const OPTION: Opt = Opt {
        name: "wrap",
        default: "0",
        help: "counters start again after so many, so that the model checker meets a state again; \
               0 for never",
    };

    /// What `setup` says.
    pub fn of(setup: &Setup) -> Result<Self, Unfit> {
        setup.option(Self::OPTION.name, 0).map(Self)
    }

    /// Whether any number comes again.
    pub fn repeats(self) -> bool {
        self.0 > 0
    }

    /// The number after `count`. Numbers begin with 1; so they do when they begin again.
    pub fn after(self, count: u64) -> u64 {
        if self.repeats() { count % self.0 + 1 } else { count + 1 }
    }

    /// Whether `a` was counted after `b`. Of numbers that come again, those ahead of `b` by less
    /// than half of all are taken for later ones.
    pub fn is_later(self, a: u64, b: u64) -> bool {
        match self {
            Self(0) => a > b,
            Self(all) => (1..all.div_ceil(2)).contains(&((a + all - b % all) % all)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_on_for_ever_or_begins_again_with_one() {
        let count = |wrap: BoundedCounter| {
            let mut at = 0;
            [(); 5].map(|()| {
                at = wrap.after(at);
                at
            })
        };
        assert_eq!(count(BoundedCounter(0)), [1, 2, 3, 4, 5]);
        assert_eq!(count(BoundedCounter(3)), [1, 2, 3, 1, 2]);
        assert_eq!(count(BoundedCounter(1)), [1; 5]);
    }

    #[test]
    fn what_is_less_than_half_ahead_is_later() {
        let wrap = BoundedCounter(4);
        assert!(wrap.is_later(2, 1) && wrap.is_later(1, 4));
        assert!(!wrap.is_later(1, 2) && !wrap.is_later(4, 1) && !wrap.is_later(3, 3));
        assert!(BoundedCounter(0).is_later(7, 2) && !BoundedCounter(0).is_later(2, 7));
    }
}
