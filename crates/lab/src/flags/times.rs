//! When, how long and how often, as a user writes it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use conclave_protocol::Time;
use conclave_sim::{Rate, Spread};

use super::text::as_text;

as_text!(Span, MeanRate, Spans, Window);

/// A length of time, absolute or in units of `T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// So many nanoseconds.
    Nanos(u64),
    /// So many thousand-millionths of `T`.
    Units(u64),
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self::Units(0);

    /// So many hundredths of `T`.
    pub(super) const fn hundredths(hundredths: u64) -> Self {
        Self::Units(hundredths * 10_000_000)
    }

    /// How long it is, given `T`.
    pub fn with(self, unit: Duration) -> Duration {
        match self {
            Self::Nanos(nanos) => Duration::from_nanos(nanos),
            Self::Units(units) => {
                let nanos = u128::from(units) * unit.as_nanos() / 1_000_000_000;
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }

    /// The moment so long after the beginning.
    pub fn at(self, unit: Duration) -> Time {
        Time::ZERO + self.with(unit)
    }
}

/// How often something happens, and how long it lasts: `500:50`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeanRate {
    every: Span,
    lasting: Option<Span>,
}

impl MeanRate {
    /// The rate, given `T`.
    pub fn with(self, unit: Duration) -> Rate {
        Rate {
            every: self.every.with(unit),
            lasting: self.lasting.map(|lasting| lasting.with(unit)),
        }
    }
}

impl fmt::Display for MeanRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lasting {
            Some(lasting) => write!(f, "{}:{lasting}", self.every),
            None => self.every.fmt(f),
        }
    }
}

impl FromStr for MeanRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (every, lasting) = match text.split_once(':') {
            Some((every, lasting)) => (every.parse()?, Some(lasting.parse()?)),
            None => (text.parse()?, None),
        };
        if matches!(every, Span::Nanos(0) | Span::Units(0)) {
            return Err("something that happens every 0 never ends; give a mean time".to_owned());
        }
        Ok(Self { every, lasting })
    }
}

const SPAN: &str = "a time is a number and ns, us, ms, s or T, as in 5ms; a bare number means T";

/// Exact: what is written is read as the same time.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
        let (number, unit, per_unit) = match *self {
            Self::Nanos(0) | Self::Units(0) => return f.write_str("0"),
            Self::Nanos(nanos) => {
                let fit = units.into_iter().find(|(_, per_unit)| nanos >= *per_unit);
                let (unit, per_unit) = fit.unwrap_or(("ns", 1));
                (nanos, unit, per_unit)
            }
            Self::Units(billionths) => (billionths, "T", 1_000_000_000),
        };
        let (whole, rest) = (number / per_unit, number % per_unit);
        if rest == 0 {
            return write!(f, "{whole}{unit}");
        }
        let digits = per_unit.ilog10() as usize;
        let fraction = format!("{rest:0digits$}");
        write!(f, "{whole}.{}{unit}", fraction.trim_end_matches('0'))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        // In thousand-millionths of the unit, by integers, so that 0.1ms is exactly that.
        let scale = |per_unit: u64| -> Option<u64> {
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if whole.is_empty() && fraction.is_empty() || fraction.len() > 9 {
                return None;
            }
            let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
            let digits: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
            let billionths = digits * 10_u128.pow(9 - fraction.len() as u32);
            let total = whole.checked_mul(1_000_000_000)? + billionths;
            u64::try_from(total.checked_mul(u128::from(per_unit))? / 1_000_000_000).ok()
        };
        let span = match unit.trim() {
            "ns" => scale(1).map(Self::Nanos),
            "us" | "µs" => scale(1_000).map(Self::Nanos),
            "ms" => scale(1_000_000).map(Self::Nanos),
            "s" => scale(1_000_000_000).map(Self::Nanos),
            "m" | "min" => scale(60_000_000_000).map(Self::Nanos),
            "T" | "" => scale(1_000_000_000).map(Self::Units),
            _ => None,
        };
        let digits = number.chars().any(|c| c.is_ascii_digit()) && !number.contains('.');
        let known = ["ns", "us", "µs", "ms", "s", "m", "min", "T", ""].contains(&unit.trim());
        span.ok_or_else(|| match digits && known {
            true => format!("{text:?} is too long a time"),
            false => format!("{text:?} is no time: {SPAN}"),
        })
    }
}

/// A span, or anything between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    /// The shortest.
    pub least: Span,
    /// The longest.
    pub most: Span,
}

impl Spans {
    /// The durations, given `T`.
    pub fn with(self, unit: Duration) -> Spread {
        Spread::between(self.least.with(unit), self.most.with(unit))
    }

    /// Whether the end comes before the beginning, given `T`.
    pub(super) fn is_backward(self, unit: Duration) -> bool {
        self.most.with(unit) < self.least.with(unit)
    }
}

impl fmt::Display for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.least == self.most {
            true => self.least.fmt(f),
            false => write!(f, "{}..{}", self.least, self.most),
        }
    }
}

impl FromStr for Spans {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        Ok(Self { least: least.parse()?, most: most.parse()? })
    }
}

/// `3ms..8ms`, `3ms..` or `3ms`: from a moment on, perhaps to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The beginning.
    pub from: Span,
    /// The end, if it has one.
    pub to: Option<Span>,
}

impl Window {
    /// Whether the end comes no later than the beginning, given `T`.
    pub(super) fn is_empty(self, unit: Duration) -> bool {
        self.to.is_some_and(|to| to.with(unit) <= self.from.with(unit))
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to {
            Some(to) => write!(f, "{}..{to}", self.from),
            None => self.from.fmt(f),
        }
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, ""));
        let to = if to.is_empty() { None } else { Some(to.parse()?) };
        Ok(Self { from: from.parse()?, to })
    }
}
