//! The small languages in which flags say where, when and how much.

use std::fmt;
use std::str::FromStr;

use conclave_protocol::{Channels, NodeId};
use serde::{Deserialize, Serialize};

use super::text::as_text;
use super::times::{Span, Spans, Window};

as_text!(
    NodeAt,
    AskAt,
    NodeWhile,
    GroupsWhile,
    PairAt,
    LabelAt,
    Slow,
    Share,
    Setting,
    DelayModel,
    Rounds,
    DetectorModel,
    Nodes,
);

fn node(text: &str) -> Result<NodeId, String> {
    let number = text.trim();
    let id = number.strip_prefix('p').unwrap_or(number).parse();
    id.map(NodeId).map_err(|_| format!("{text:?} is no node; nodes are 0, 1, 2, …"))
}

fn split<'a>(text: &'a str, at: &str, shape: &str) -> Result<(&'a str, &'a str), String> {
    text.split_once(at).ok_or_else(|| format!("{text:?} should look like {shape}"))
}

/// `3@5ms`: a node and a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAt {
    /// The node.
    pub node: NodeId,
    /// The moment.
    pub at: Span,
}

impl fmt::Display for NodeAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.node.0, self.at)
    }
}

impl FromStr for NodeAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (who, at) = split(text, "@", "NODE@TIME, as in 3@5ms")?;
        Ok(Self { node: node(who)?, at: at.parse()? })
    }
}

/// `2@1ms:5ms`: a node that asks, when, and how long it stays inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskAt {
    /// The node.
    pub node: NodeId,
    /// When it asks.
    pub at: Span,
    /// How long it stays inside, if not as long as the others.
    pub hold: Option<Span>,
}

impl fmt::Display for AskAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.node.0, self.at)?;
        self.hold.map_or(Ok(()), |hold| write!(f, ":{hold}"))
    }
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

/// `2@3ms..8ms`: a node, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeWhile {
    /// The node.
    pub node: NodeId,
    /// The while.
    pub window: Window,
}

impl fmt::Display for NodeWhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.node.0, self.window)
    }
}

impl FromStr for NodeWhile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (who, window) = split(text, "@", "NODE@FROM..TO, as in 2@3ms..8ms")?;
        Ok(Self { node: node(who)?, window: window.parse()? })
    }
}

/// `0,1|2,3@5ms..9ms`: groups that do not hear each other, for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupsWhile {
    /// The groups.
    pub groups: Vec<Vec<NodeId>>,
    /// The while.
    pub window: Window,
}

impl fmt::Display for GroupsWhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, group) in self.groups.iter().enumerate() {
            let members: Vec<String> = group.iter().map(|node| node.0.to_string()).collect();
            write!(f, "{}{}", if i > 0 { "|" } else { "" }, members.join(","))?;
        }
        write!(f, "@{}", self.window)
    }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairAt {
    /// The node.
    pub node: NodeId,
    /// The other.
    pub peer: NodeId,
    /// The moment.
    pub at: Span,
}

impl fmt::Display for PairAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}@{}", self.node.0, self.peer.0, self.at)
    }
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelAt {
    /// The name.
    pub label: String,
    /// The moment.
    pub at: Span,
}

impl fmt::Display for LabelAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.label, self.at)
    }
}

impl FromStr for LabelAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (label, at) = split(text, "@", "MESSAGE@TIME, as in Token@3ms")?;
        Ok(Self { label: label.to_owned(), at: at.parse()? })
    }
}

/// `1->0:10ms@2ms..5ms`: a link with a delay of its own, perhaps for a while only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}->{}:{}", self.from.0, self.to.0, self.delay)?;
        self.window.map_or(Ok(()), |window| write!(f, "@{window}"))
    }
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

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_multiple_of(10_000) {
            true => write!(f, "{}%", self.0 / 10_000),
            false => write!(f, "{}ppm", self.0),
        }
    }
}

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
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
pub enum DelayModel {
    /// `T`.
    Unit,
    /// Always the same.
    Constant(Span),
    /// Anything between.
    Uniform(Spans),
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

impl fmt::Display for DelayModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit => f.write_str("unit"),
            Self::Constant(delay) => write!(f, "const:{delay}"),
            Self::Uniform(range) => write!(f, "uniform:{range}"),
            Self::Exponential(mean) => write!(f, "exp:{mean}"),
            Self::Settling { mean, bound, at } => write!(f, "settling:{mean}:{bound}:{at}"),
            Self::Serial(each) => write!(f, "serial:{each}"),
            Self::Matrix(file) => write!(f, "matrix:{file}"),
        }
    }
}

impl FromStr for DelayModel {
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

impl fmt::Display for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Some(rounds) => rounds.fmt(f),
            Self::Endless => f.write_str("endless"),
        }
    }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetectorModel {
    /// No node is told of crashes.
    Off,
    /// Every node is told, so long after.
    After(Span),
}

impl fmt::Display for DetectorModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::After(delay) => delay.fmt(f),
        }
    }
}

impl FromStr for DetectorModel {
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

/// So many bytes: `2GiB`, `500MB`, or a bare number. In JSON it is the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
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

/// Rounded, for people.
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

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.0.start, self.0.end)
    }
}

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
            true => Err(format!("{text:?} names no node; 0..2 is p0 and p1")),
            false => Ok(Self(range)),
        }
    }
}

/// Whether messages of one link keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// They do.
    Fifo,
    /// They may overtake each other.
    Reordering,
}

impl From<Order> for Channels {
    fn from(order: Order) -> Self {
        match order {
            Order::Fifo => Self::Fifo,
            Order::Reordering => Self::Reliable,
        }
    }
}
