//! What can be asked about a cut, as text: facts, `and`, `or`, `not` and brackets.

use conclave_protocol::NodeId;

use super::{Computation, Status};

/// What can be asked, in one line.
pub const POSSIBLE: &str = "facts are inside(p0), waiting(p0), down(p0), leads(p0), leader(p0)=p1 or =none, \
     suspects(p0,p1); numbers, compared by =, !=, <, <=, > or >=, are inside, waiting, down, leads, events(p0), \
     channel(p0,p1) and messages; not, and, or and brackets combine them";

/// Something that is so in a cut, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// It is not.
    Not(Box<Self>),
    /// Both are.
    And(Box<Self>, Box<Self>),
    /// One of them is.
    Or(Box<Self>, Box<Self>),
    /// This is so of a node.
    Node(Flag, NodeId),
    /// The first takes the second for its leader, or knows none.
    Leader(NodeId, Option<NodeId>),
    /// The first suspects the second.
    Suspects(NodeId, NodeId),
    /// A number compares so with another.
    Compare(Number, Sign, u64),
}

/// What is so of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// It is in the critical section.
    Inside,
    /// It has asked and not been answered.
    Waiting,
    /// It has crashed.
    Down,
    /// It takes itself for the leader.
    Leads,
}

/// What can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// How many nodes something is so of.
    Nodes(Flag),
    /// How many events of a node there are.
    Events(NodeId),
    /// How many messages are on their way from one node to another.
    Channel(NodeId, NodeId),
    /// How many are on their way in all.
    Messages,
}

/// How two numbers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Equal.
    Same,
    /// Not equal.
    Other,
    /// Less.
    Less,
    /// Less or equal.
    AtMost,
    /// Greater.
    More,
    /// Greater or equal.
    AtLeast,
}

impl Sign {
    fn holds(self, a: u64, b: u64) -> bool {
        match self {
            Self::Same => a == b,
            Self::Other => a != b,
            Self::Less => a < b,
            Self::AtMost => a <= b,
            Self::More => a > b,
            Self::AtLeast => a >= b,
        }
    }
}

impl Fact {
    /// Reads a fact about so many nodes.
    pub fn parse(text: &str, nodes: u32) -> Result<Self, String> {
        let mut reader = Reader { text, words: words(text), at: 0, nodes };
        let fact = reader.any()?;
        match reader.words.get(reader.at) {
            None => Ok(fact),
            Some(word) => Err(reader.wrong(word)),
        }
    }
}

/// Names, numbers, signs and brackets.
fn words(text: &str) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let name = |c: char| c.is_alphanumeric() || c == '_';
        let length = if name(first) {
            rest.find(|c| !name(c)).unwrap_or(rest.len())
        } else if ["<=", ">=", "!=", "==", "&&", "||"].iter().any(|two| rest.starts_with(two)) {
            2
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(length);
        words.push(word);
        rest = after.trim_start();
    }
    words
}

struct Reader<'a> {
    text: &'a str,
    words: Vec<&'a str>,
    at: usize,
    nodes: u32,
}

impl<'a> Reader<'a> {
    fn wrong(&self, word: &str) -> String {
        format!("{word:?} in {:?} is not understood: {POSSIBLE}", self.text)
    }

    fn ended(&self) -> String {
        format!("{:?} ends too soon: {POSSIBLE}", self.text)
    }

    fn take(&mut self, wanted: &[&str]) -> bool {
        let there = self.words.get(self.at).is_some_and(|word| wanted.contains(word));
        self.at += usize::from(there);
        there
    }

    fn next(&mut self) -> Result<&'a str, String> {
        let word = self.words.get(self.at).copied().ok_or_else(|| self.ended())?;
        self.at += 1;
        Ok(word)
    }

    fn demand(&mut self, wanted: &str) -> Result<(), String> {
        let word = self.next()?;
        if word == wanted { Ok(()) } else { Err(self.wrong(word)) }
    }

    fn any(&mut self) -> Result<Fact, String> {
        let mut fact = self.all()?;
        while self.take(&["or", "||", "|"]) {
            fact = Fact::Or(Box::new(fact), Box::new(self.all()?));
        }
        Ok(fact)
    }

    fn all(&mut self) -> Result<Fact, String> {
        let mut fact = self.one()?;
        while self.take(&["and", "&&", "&"]) {
            fact = Fact::And(Box::new(fact), Box::new(self.one()?));
        }
        Ok(fact)
    }

    fn one(&mut self) -> Result<Fact, String> {
        if self.take(&["not", "!"]) {
            return Ok(Fact::Not(Box::new(self.one()?)));
        }
        if self.take(&["("]) {
            let fact = self.any()?;
            self.demand(")")?;
            return Ok(fact);
        }
        let word = self.next()?;
        let flag = match word {
            "inside" => Some(Flag::Inside),
            "waiting" => Some(Flag::Waiting),
            "down" => Some(Flag::Down),
            "leads" => Some(Flag::Leads),
            _ => None,
        };
        let number = match (word, flag) {
            (_, Some(flag)) if self.take(&["("]) => {
                let node = self.node()?;
                self.demand(")")?;
                return Ok(Fact::Node(flag, node));
            }
            (_, Some(flag)) => Number::Nodes(flag),
            ("leader", _) => {
                self.demand("(")?;
                let node = self.node()?;
                self.demand(")")?;
                let sign = self.next()?;
                let fact = match self.words.get(self.at) {
                    Some(&"none") => {
                        self.at += 1;
                        Fact::Leader(node, None)
                    }
                    _ => Fact::Leader(node, Some(self.node()?)),
                };
                return match sign {
                    "=" | "==" => Ok(fact),
                    "!=" => Ok(Fact::Not(Box::new(fact))),
                    other => Err(self.wrong(other)),
                };
            }
            ("suspects", _) => {
                let (a, b) = self.pair()?;
                return Ok(Fact::Suspects(a, b));
            }
            ("events", _) => {
                self.demand("(")?;
                let node = self.node()?;
                self.demand(")")?;
                Number::Events(node)
            }
            ("channel", _) => {
                let (a, b) = self.pair()?;
                Number::Channel(a, b)
            }
            ("messages", _) => Number::Messages,
            _ => return Err(self.wrong(word)),
        };
        let sign = match self.next()? {
            "=" | "==" => Sign::Same,
            "!=" => Sign::Other,
            "<" => Sign::Less,
            "<=" => Sign::AtMost,
            ">" => Sign::More,
            ">=" => Sign::AtLeast,
            other => return Err(self.wrong(other)),
        };
        let word = self.next()?;
        let value = word.parse().map_err(|_| self.wrong(word))?;
        Ok(Fact::Compare(number, sign, value))
    }

    fn pair(&mut self) -> Result<(NodeId, NodeId), String> {
        self.demand("(")?;
        let a = self.node()?;
        self.demand(",")?;
        let b = self.node()?;
        self.demand(")")?;
        Ok((a, b))
    }

    fn node(&mut self) -> Result<NodeId, String> {
        let word = self.next()?;
        let number: Option<u32> = word.strip_prefix('p').unwrap_or(word).parse().ok();
        match number {
            Some(number) if number < self.nodes => Ok(NodeId(number)),
            Some(_) => {
                let (text, last) = (self.text, self.nodes - 1);
                Err(format!("there is no {word}, as in {text:?}: the nodes are p0 to p{last}"))
            }
            None => Err(self.wrong(word)),
        }
    }
}

/// A fact with all that it takes to find out whether it is so in a cut.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    fact: &'a Fact,
    statuses: &'a [Vec<Status>],
    /// Of each channel that it is about, and of all of them at the end: how many messages the sender
    /// has sent by so many events, and the receiver got.
    channels: Vec<Channel>,
    sent: Vec<Vec<u32>>,
    got: Vec<Vec<u32>>,
}

/// How many messages were sent and received on a channel, by the number of the node's events.
#[derive(Debug)]
struct Channel {
    from: NodeId,
    to: NodeId,
    sent: Vec<u32>,
    got: Vec<u32>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(fact: &'a Fact, run: &Computation, statuses: &'a [Vec<Status>]) -> Self {
        let empty = |node: usize| vec![0; run.events[node].len() + 1];
        let mut sent: Vec<Vec<u32>> = (0..run.nodes()).map(empty).collect();
        let mut got = sent.clone();
        let mut channels = Vec::new();
        fact.channels(&mut |from, to| {
            let (sent, got) = (empty(from.index()), empty(to.index()));
            channels.push(Channel { from, to, sent, got });
        });
        for message in run.messages.iter().filter(|message| !message.lost) {
            let (from, to) = (message.from, message.to);
            sent[from.index()][message.sent as usize] += 1;
            if let Some(received) = message.received {
                got[to.index()][received as usize] += 1;
            }
            for channel in channels.iter_mut().filter(|it| it.from == from && it.to == to) {
                channel.sent[message.sent as usize] += 1;
                if let Some(received) = message.received {
                    channel.got[received as usize] += 1;
                }
            }
        }
        sent.iter_mut().chain(&mut got).for_each(|counts| add_up(counts));
        for channel in &mut channels {
            add_up(&mut channel.sent);
            add_up(&mut channel.got);
        }
        Self { fact, statuses, channels, sent, got }
    }

    /// Whether it is so in a consistent cut.
    pub(super) fn holds(&self, cut: &[u32]) -> bool {
        self.decide(self.fact, cut)
    }

    fn decide(&self, fact: &Fact, cut: &[u32]) -> bool {
        match fact {
            Fact::Not(fact) => !self.decide(fact, cut),
            Fact::And(a, b) => self.decide(a, cut) && self.decide(b, cut),
            Fact::Or(a, b) => self.decide(a, cut) || self.decide(b, cut),
            Fact::Node(flag, node) => self.status(*node, cut).is(*flag, *node),
            Fact::Leader(node, leader) => self.status(*node, cut).leader == *leader,
            Fact::Suspects(node, peer) => self.status(*node, cut).suspects.contains(peer),
            Fact::Compare(number, sign, value) => sign.holds(self.count(*number, cut), *value),
        }
    }

    fn status(&self, node: NodeId, cut: &[u32]) -> &Status {
        &self.statuses[node.index()][cut[node.index()] as usize]
    }

    fn count(&self, number: Number, cut: &[u32]) -> u64 {
        match number {
            Number::Nodes(flag) => {
                let nodes = (0..cut.len() as u32).map(NodeId);
                nodes.filter(|node| self.status(*node, cut).is(flag, *node)).count() as u64
            }
            Number::Events(node) => cut[node.index()].into(),
            Number::Channel(from, to) => {
                let channel = self.channels.iter().find(|it| it.from == from && it.to == to);
                let channel = channel.expect("the fact was searched for channels");
                let (sent, got) = (cut[from.index()] as usize, cut[to.index()] as usize);
                u64::from(channel.sent[sent] - channel.got[got])
            }
            Number::Messages => {
                let of = |counts: &[Vec<u32>]| -> u64 {
                    let of = counts.iter().zip(cut).map(|(by, count)| by[*count as usize]);
                    of.map(u64::from).sum()
                };
                of(&self.sent) - of(&self.got)
            }
        }
    }
}

fn add_up(counts: &mut [u32]) {
    let mut sum = 0;
    for count in counts {
        sum += *count;
        *count = sum;
    }
}

impl Fact {
    /// The channels that it is about.
    fn channels(&self, found: &mut impl FnMut(NodeId, NodeId)) {
        match self {
            Self::Not(fact) => fact.channels(found),
            Self::And(a, b) | Self::Or(a, b) => {
                a.channels(found);
                b.channels(found);
            }
            Self::Compare(Number::Channel(from, to), ..) => found(*from, *to),
            Self::Node(..) | Self::Leader(..) | Self::Suspects(..) | Self::Compare(..) => {}
        }
    }
}

impl Status {
    pub(super) fn is(&self, flag: Flag, node: NodeId) -> bool {
        match flag {
            Flag::Inside => self.inside,
            Flag::Waiting => self.waiting,
            Flag::Down => self.down,
            Flag::Leads => self.leader == Some(node),
        }
    }
}
