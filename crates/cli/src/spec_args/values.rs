//! The small languages in which flags say when, where and how long.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use conclave_protocol::{NodeId, Time};
use conclave_sim::{Rate, Spread};

/// A length of time, absolute or in units of `T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// So many nanoseconds.
    Nanos(u64),
    /// So many thousand-millionths of `T`.
    Units(u64),
}

impl Span {
    /// So many halves of `T`.
    pub(crate) const fn halves(halves: u64) -> Self {
        Self::Units(halves * 500_000_000)
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
pub struct RateArg {
    every: Span,
    lasting: Option<Span>,
}

impl RateArg {
    /// The rate, given `T`.
    pub fn with(self, unit: Duration) -> Rate {
        Rate {
            every: self.every.with(unit),
            lasting: self.lasting.map(|lasting| lasting.with(unit)),
        }
    }
}

impl FromStr for RateArg {
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
pub struct Range {
    /// The shortest.
    pub least: Span,
    /// The longest.
    pub most: Span,
}

impl Range {
    /// The durations, given `T`.
    pub fn with(self, unit: Duration) -> Spread {
        Spread::between(self.least.with(unit), self.most.with(unit))
    }

    /// Whether the end comes before the beginning, given `T`.
    pub(crate) fn is_backward(self, unit: Duration) -> bool {
        self.most.with(unit) < self.least.with(unit)
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        Ok(Self { least: least.parse()?, most: most.parse()? })
    }
}

fn node(text: &str) -> Result<NodeId, String> {
    let number = text.trim();
    let id = number.strip_prefix('p').unwrap_or(number).parse();
    id.map(NodeId).map_err(|_| format!("{text:?} is no node; nodes are 0, 1, 2, …"))
}

fn split<'a>(text: &'a str, at: &str, shape: &str) -> Result<(&'a str, &'a str), String> {
    text.split_once(at).ok_or_else(|| format!("{text:?} should look like {shape}"))
}

/// `3@5ms`: a node and a moment.
#[derive(Clone, Copy, Debug)]
pub struct NodeAt {
    /// The node.
    pub node: NodeId,
    /// The moment.
    pub at: Span,
}

impl FromStr for NodeAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (who, at) = split(text, "@", "NODE@TIME, as in 3@5ms")?;
        Ok(Self { node: node(who)?, at: at.parse()? })
    }
}

/// `2@1ms:5ms`: a node that asks, when, and how long it stays inside.
#[derive(Clone, Copy, Debug)]
pub struct AskAt {
    /// The node.
    pub node: NodeId,
    /// When it asks.
    pub at: Span,
    /// How long it stays inside, if not as long as the others.
    pub hold: Option<Span>,
}

impl FromStr for AskAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // At once, if nothing else is said.
        let (who, when) = text.split_once('@').unwrap_or((text, "0"));
        let (at, hold) = when.split_once(':').map_or((when, None), |(at, hold)| (at, Some(hold)));
        Ok(Self { node: node(who)?, at: at.parse()?, hold: hold.map(str::parse).transpose()? })
    }
}

/// `3ms..8ms`, `3ms..` or `3ms`: from a moment on, perhaps to another.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The beginning.
    pub from: Span,
    /// The end, if it has one.
    pub to: Option<Span>,
}

impl Window {
    /// Whether the end comes no later than the beginning, given `T`.
    pub(crate) fn is_empty(self, unit: Duration) -> bool {
        self.to.is_some_and(|to| to.with(unit) <= self.from.with(unit))
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

/// `2@3ms..8ms`: a node, for a while.
#[derive(Clone, Copy, Debug)]
pub struct NodeWhile {
    /// The node.
    pub node: NodeId,
    /// The while.
    pub window: Window,
}

impl FromStr for NodeWhile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (who, window) = split(text, "@", "NODE@FROM..TO, as in 2@3ms..8ms")?;
        Ok(Self { node: node(who)?, window: window.parse()? })
    }
}

/// `0,1|2,3@5ms..9ms`: groups that do not hear each other, for a while.
#[derive(Clone, Debug)]
pub struct GroupsWhile {
    /// The groups.
    pub groups: Vec<Vec<NodeId>>,
    /// The while.
    pub window: Window,
}

impl FromStr for GroupsWhile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (groups, window) = split(text, "@", "0,1|2,3@FROM..TO, as in 0,1|2,3@5ms..9ms")?;
        let group = |text: &str| text.split(',').map(node).collect();
        let groups: Vec<Vec<NodeId>> = groups.split('|').map(group).collect::<Result<_, _>>()?;
        let mut members = groups.concat();
        members.sort_unstable();
        match members.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("{} is in two groups", pair[0])),
            None => Ok(Self { groups, window: window.parse()? }),
        }
    }
}

/// `1:0@3ms`: one node about another, at a moment.
#[derive(Clone, Copy, Debug)]
pub struct PairAt {
    /// The node.
    pub node: NodeId,
    /// The other.
    pub peer: NodeId,
    /// The moment.
    pub at: Span,
}

impl FromStr for PairAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = "NODE:OTHER@TIME, as in 1:0@3ms";
        let (pair, at) = split(text, "@", shape)?;
        let (who, whom) = split(pair, ":", shape)?;
        Ok(Self { node: node(who)?, peer: node(whom)?, at: at.parse()? })
    }
}

/// `Token@3ms`: the next message of this name from a moment on.
#[derive(Clone, Debug)]
pub struct LabelAt {
    /// The name.
    pub label: String,
    /// The moment.
    pub at: Span,
}

impl FromStr for LabelAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (label, at) = split(text, "@", "MESSAGE@TIME, as in Token@3ms")?;
        Ok(Self { label: label.to_owned(), at: at.parse()? })
    }
}

/// `1->0:10ms@2ms..5ms`: a link with a delay of its own, perhaps for a while only.
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// How long messages take.
    pub delay: Span,
    /// When they do.
    pub window: Option<Window>,
}

impl FromStr for Slow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = "FROM->TO:DELAY or FROM->TO:DELAY@FROM..TO, as in 1->0:10ms@2ms..5ms";
        let (link, rest) = split(text, ":", shape)?;
        let (from, to) = split(link, "->", shape)?;
        let (delay, window) = rest.split_once('@').map_or((rest, None), |(d, w)| (d, Some(w)));
        Ok(Self {
            from: node(from)?,
            to: node(to)?,
            delay: delay.parse()?,
            window: window.map(str::parse).transpose()?,
        })
    }
}

/// `5%`, `0.05` or `50000ppm`: a share, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(pub u32);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, scale) = match (text.strip_suffix('%'), text.strip_suffix("ppm")) {
            (Some(percent), _) => (percent, 10_000.0),
            (_, Some(ppm)) => (ppm, 1.0),
            _ => (text, 1_000_000.0),
        };
        let millionths = number.trim().parse::<f64>().map(|share| (share * scale).round());
        match millionths {
            Ok(share) if (0.0..=1_000_000.0).contains(&share) => Ok(Self(share as u32)),
            _ => Err(format!("{text:?} is no share of all messages; write 5% or 0.05")),
        }
    }
}

/// `name=value`.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = split(text, "=", "NAME=VALUE, as in units=2")?;
        Ok(Self { name: name.trim().to_owned(), value: value.trim().to_owned() })
    }
}

/// How long messages take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelayArg {
    /// `T`.
    Unit,
    /// Always the same.
    Constant(Span),
    /// Anything between.
    Uniform(Range),
    /// Memoryless, with this mean.
    Exponential(Span),
    /// The same, but bounded from some moment on.
    Settling {
        /// The mean.
        mean: Span,
        /// The bound.
        bound: Span,
        /// From when on it holds.
        at: Span,
    },
    /// One message at a time, each for this long.
    Serial(Span),
    /// By sender and receiver, from a file.
    Matrix(String),
}

impl FromStr for DelayArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "unit" if rest.is_empty() => Ok(Self::Unit),
            "const" | "constant" => rest.parse().map(Self::Constant),
            "uniform" => rest.parse().map(Self::Uniform),
            "exp" | "exponential" => rest.parse().map(Self::Exponential),
            "settling" => {
                let parts: Vec<&str> = rest.split(':').collect();
                let [mean, bound, at] = parts[..] else {
                    return Err(format!(
                        "{text:?} needs the mean, the bound and when it begins to hold: \
                         settling:1ms:2ms:100ms"
                    ));
                };
                Ok(Self::Settling { mean: mean.parse()?, bound: bound.parse()?, at: at.parse()? })
            }
            "serial" => rest.parse().map(Self::Serial),
            "matrix" if !rest.is_empty() => Ok(Self::Matrix(rest.to_owned())),
            _ => Err(format!(
                "{text:?} is no delay: there are unit, const:1ms, uniform:0.5ms..1.5ms, exp:1ms, \
                 settling:1ms:2ms:100ms, serial:1ms and matrix:FILE"
            )),
        }
    }
}

/// How often each client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// So often.
    Some(u32),
    /// Until the run ends.
    Endless,
}

impl FromStr for Rounds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(rounds) => Ok(Self::Some(rounds)),
            Err(_) if text == "endless" => Ok(Self::Endless),
            Err(_) => Err(format!("{text:?} is no number of rounds; write 3 or endless")),
        }
    }
}

/// A failure detector's delay, or none.
#[derive(Clone, Copy, Debug)]
pub enum DetectorArg {
    /// Nobody is told of crashes.
    Off,
    /// Everybody is told, so long after.
    After(Span),
}

impl FromStr for DetectorArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" { Ok(Self::Off) } else { text.parse().map(Self::After) }
    }
}

/// A number, or all there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub usize);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) => Ok(Self(number)),
            Err(_) if text == "all" => Ok(Self(usize::MAX)),
            Err(_) => Err(format!("{text:?} is neither a number nor \"all\"")),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == usize::MAX { f.write_str("all") } else { self.0.fmt(f) }
    }
}

/// So many bytes: `2GiB`, `500MB`, or a bare number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let scale: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "kb" => 1_000,
            "m" | "mib" => 1 << 20,
            "mb" => 1_000_000,
            "g" | "gib" => 1 << 30,
            "gb" => 1_000_000_000,
            "t" | "tib" => 1 << 40,
            "tb" => 1_000_000_000_000,
            _ => 0,
        };
        let bytes = number.parse::<f64>().ok().filter(|_| scale > 0).map(|it| it * scale as f64);
        let fits = bytes.filter(|bytes| (1.0..2_f64.powi(62)).contains(bytes));
        let bytes = fits.and_then(|bytes| usize::try_from(bytes as u64).ok());
        bytes.map(Self).ok_or_else(|| {
            format!("{text:?} is no size: write a number and KiB, MiB or GiB, as in 2GiB")
        })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let fit = units.into_iter().find(|(_, bits)| self.0 >> bits > 0);
        let Some((unit, bits)) = fit else { return write!(f, "{} bytes", self.0) };
        let value = self.0 as f64 / (1_u64 << bits) as f64;
        let text = format!("{value:.1}");
        write!(f, "{}{unit}", text.trim_end_matches(".0"))
    }
}

/// Nodes in a row: `0..2` is p0 and p1, `3` is p3 alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes(pub std::ops::Range<u32>);

impl FromStr for Nodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = match text.split_once("..") {
            Some((first, end)) => node(first)?.0..node(end)?.0,
            None => {
                let NodeId(one) = node(text)?;
                one..one.saturating_add(1)
            }
        };
        match range.is_empty() {
            true => Err(format!("{text:?} is nobody; 0..2 is p0 and p1")),
            false => Ok(Self(range)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn times_are_read_exactly() {
        let read = |text: &str| text.parse::<Span>().map(|span| span.with(MS * 2).as_nanos());
        assert_eq!(read("5ms"), Ok(5_000_000));
        assert_eq!(read("0.1ms"), Ok(100_000));
        assert_eq!(read(".5us"), Ok(500));
        assert_eq!(read("3T"), Ok(6_000_000));
        assert_eq!(read("1.5"), Ok(3_000_000));
        assert_eq!(read("2s"), Ok(2_000_000_000));
        assert_eq!(read("0"), Ok(0));
        for bad in ["", "ms", "5 parsecs", "-1ms", "1e3", "99999999999999s"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_flags_of_the_manual_are_understood() {
        let slow: Slow = "1->0:10ms@2ms..5ms".parse().unwrap();
        assert_eq!(
            (slow.from, slow.to, slow.delay),
            (NodeId(1), NodeId(0), Span::Nanos(10_000_000))
        );
        assert!(slow.window.is_some_and(|window| window.to == Some(Span::Nanos(5_000_000))));
        let ask: AskAt = "p2@1ms:5ms".parse().unwrap();
        assert_eq!((ask.node, ask.hold), (NodeId(2), Some(Span::Nanos(5_000_000))));
        let apart: GroupsWhile = "0,1|2,3@5ms..9ms".parse().unwrap();
        assert_eq!(apart.groups.len(), 2);
        assert_eq!("5%".parse(), Ok(Share(50_000)));
        assert_eq!("0.5%".parse(), Ok(Share(5_000)));
        assert_eq!("0.05".parse(), Ok(Share(50_000)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_an_example() {
        assert!("3".parse::<NodeAt>().unwrap_err().contains("3@5ms"));
        assert!("x@5".parse::<NodeAt>().unwrap_err().contains("no node"));
        assert!("0,1|1,2@5".parse::<GroupsWhile>().unwrap_err().contains("two groups"));
        assert!("150%".parse::<Share>().is_err());
        let settling: DelayArg = "settling:1ms:2T:100".parse().unwrap();
        let (mean, bound, at) =
            (Span::Nanos(1_000_000), "2T".parse().unwrap(), "100".parse().unwrap());
        assert_eq!(settling, DelayArg::Settling { mean, bound, at });
        assert!("settling:1ms:2ms".parse::<DelayArg>().unwrap_err().contains("1ms:2ms:100ms"));
        assert!("gauss:1ms".parse::<DelayArg>().unwrap_err().contains("uniform:0.5ms..1.5ms"));
    }

    #[test]
    fn sizes_have_units_of_two_kinds() {
        let size = |text: &str| text.parse::<Size>().map(|Size(bytes)| bytes);
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(size("1.5M"), Ok(3 << 19));
        assert_eq!(size("500MB"), Ok(500_000_000));
        assert_eq!(size("4096"), Ok(4096));
        for wrong in ["", "0", "GiB", "2parsecs", "-1G", "99999999TiB"] {
            assert!(size(wrong).unwrap_err().contains("2GiB"), "{wrong}");
        }
        assert_eq!(Size(2 << 30).to_string(), "2GiB");
        assert_eq!(Size(3 << 19).to_string(), "1.5MiB");
        assert_eq!(Size(100).to_string(), "100 bytes");
    }

    #[test]
    fn nodes_in_a_row_end_before_the_last_number() {
        assert_eq!("0..2".parse(), Ok(Nodes(0..2)));
        assert_eq!("p1".parse(), Ok(Nodes(1..2)));
        assert!("2..2".parse::<Nodes>().unwrap_err().contains("nobody"));
    }
}
