//! What the algorithms of a family have in common, as far as drivers and judges have to know it.
//!
//! A family states each of its properties once. The judge of traces asks after each event, the
//! model checker in each state; both show what is so by [`Now`].

mod base;
mod detector;
mod election;
mod mutex;
pub mod reports;
pub mod snapshot;
pub mod stable;
mod termination;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::{Info, NodeId, Note, Observation, Property, Time};

/// Every family. A new one adds its file and a line here.
static ALL: &[&Family] = &[
    &mutex::FAMILY,
    &election::FAMILY,
    &detector::FAMILY,
    &base::FAMILY,
    &snapshot::FAMILY,
    &stable::FAMILY,
    &termination::FAMILY,
];

/// A family of which nothing is promised.
const PLAIN: Family = Family {
    name: "",
    promises: &[],
    asking: Asking::One,
    inside: false,
    elects: false,
    settles: |_| 0,
    patience: |tempo| tempo.hop.max(tempo.timer).saturating_mul(20),
    notes: &[],
    records: None,
    watch: None,
};

/// A family of algorithms: what is promised by some of them, and what their runs are like.
pub struct Family {
    /// The part of their ids before the slash.
    pub name: &'static str,
    /// The properties that make sense for it, in the order of the catalogue.
    pub promises: &'static [Promise],
    /// Which applications ask in a run that does not say so.
    pub asking: Asking,
    /// Whether a client that is granted something is inside until it leaves.
    pub inside: bool,
    /// Whether nodes agree on the best of them, which one call is enough to bring about.
    pub elects: bool,
    /// For how many delays beyond the usual a run of so many nodes goes on when every request has
    /// been served.
    pub settles: fn(u32) -> u32,
    /// How long a request may wait, or the system may take to settle, in a run with this tempo.
    pub patience: fn(&Tempo) -> Duration,
    /// The kinds of its [notes](Observation::Note).
    pub notes: &'static [NoteKind],
    /// The kind of note by which a node says that it records its state for a snapshot of some
    /// number.
    pub records: Option<u8>,
    /// What is remembered of a run for its properties, if they speak of more than [`Now`] knows by
    /// itself.
    pub watch: Option<&'static Watch>,
}

/// What a note is called.
#[derive(Clone, Copy)]
pub struct NoteKind {
    /// In trace files.
    pub name: &'static str,
    /// In diagrams, with what it is about.
    pub words: fn(&Note) -> String,
}

/// What a family remembers of a run, as words: of each node, and of the whole system. All are none
/// at first. The words of a node follow the messages of applications: what the sender's say goes
/// with the message, and is handed to the receiver's.
pub struct Watch {
    /// A node has said something: what becomes of its words.
    pub see: fn(&mut Vec<u64>, NodeId, &Observation),
    /// A node has said something: what becomes of the system's.
    pub see_all: fn(&mut Vec<u64>, NodeId, &Observation),
    /// What goes with a message that leaves a node with these words.
    pub carries: fn(&[u64]) -> Vec<u64>,
    /// A message from a node has arrived with this, and the step is over that it caused: what the
    /// node said in this step, it said before it used the message.
    pub arrives: fn(&mut Vec<u64>, NodeId, &[u64]),
    /// Whether a node that crashes forgets its words.
    pub forgets: bool,
    /// What is remembered of each channel, if a property is about [what passes](Promise::traffic)
    /// there.
    pub traffic: Option<Traffic>,
}

/// What a family remembers of each channel, as words, which are none at first. What is wrong with
/// one goes into the words of the whole system.
pub struct Traffic {
    /// A message of the application leaves: what becomes of the words of its channel, and of the
    /// system's.
    pub sent: fn(&mut Vec<u64>, &mut Vec<u64>, &Passage<'_>),
    /// One has arrived, and the step is over that it caused.
    pub received: fn(&mut Vec<u64>, &mut Vec<u64>, &Passage<'_>),
    /// Which channel, from the first node to the second, it is about that a node says something.
    pub about: fn(NodeId, &Observation) -> Option<Channel>,
    /// Something is said about the channel.
    pub told: Told,
}

/// From the first node to the second.
pub type Channel = (NodeId, NodeId);

/// What becomes of the words of a channel, and of the system's, when something is said about it.
pub type Told = fn(&mut Vec<u64>, &mut Vec<u64>, Channel, &Observation);

/// A message of the application on its channel.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// Who sends it, and who gets it.
    pub channel: Channel,
    /// The fingerprint of what it [says](crate::Protocol::fingerprint).
    pub fingerprint: u32,
    /// What [goes](Watch::carries) with it.
    pub carried: &'a [u64],
    /// The words of its receiver, once it has arrived.
    pub receiver: &'a [u64],
}

/// Which applications ask in a run that does not say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// Every client.
    All,
    /// One, since its request is answered for all.
    One,
    /// None: there is nothing to ask for.
    None,
}

/// How long things took in a run.
#[derive(Clone, Copy, Debug)]
pub struct Tempo {
    /// How many nodes there are.
    pub nodes: u32,
    /// The longest that a message was on its way.
    pub hop: Duration,
    /// The longest stay of a node in the critical section.
    pub stay: Duration,
    /// The longest from one timer of a node to the next.
    pub timer: Duration,
}

/// A property, and what it says.
#[derive(Clone, Copy)]
pub struct Promise {
    /// Its name.
    pub property: Property,
    /// What it says.
    pub says: Says,
    /// Whether every run of the family is judged by it, rather than those of algorithms that
    /// promise it.
    pub usual: bool,
    /// Whether what a trace of mere counts remembers is enough to judge it.
    pub counted: bool,
    /// Whether a run that was cut off shows it, because what it asks for comes to stay.
    pub stays: bool,
    /// What it speaks of, and what is true if there is none of it, so that it holds for want of
    /// anything to say.
    pub about: Option<About>,
    /// Whether it is about [facts](Now::facts).
    pub facts: bool,
    /// Whether it is about what passes on channels.
    pub traffic: bool,
}

/// What a property speaks of, and what is true if there is none of it.
pub type About = (fn(&Observation) -> bool, &'static str);

/// What a property says.
#[derive(Clone, Copy)]
pub enum Says {
    /// This is so at all times.
    Always(Law),
    /// This is so of a system at rest; and in a run that never rests, from some moment on.
    AtRest(Law),
    /// This does not last for ever.
    InTheEnd(Owed),
}

/// What must not be so.
#[derive(Clone, Copy)]
pub struct Law {
    /// What is wrong, if something is.
    pub broken: fn(&dyn Now) -> Option<Fault>,
    /// That in words.
    pub words: fn(&dyn Now, Fault) -> String,
}

/// The nodes and numbers that a violation is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// The nodes.
    pub nodes: [NodeId; 2],
    /// The numbers.
    pub numbers: [u64; 2],
}

/// What must not last for ever.
#[derive(Clone, Copy)]
pub struct Owed {
    /// Those to whom something has to happen.
    pub to: fn(&dyn Now) -> Those<'_>,
    /// Whether it has to happen to each of them, rather than to any one.
    pub each: bool,
    /// That it has not happened, in words.
    pub words: fn(&[NodeId], Lasting) -> String,
}

/// For how long something has not happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// For ever: nothing is left to happen.
    ForEver,
    /// Until a request that no application has to make.
    UntilAsked,
    /// For ever, since the run goes round.
    Round,
    /// For so long, which is longer than it can take.
    Span(Duration),
}

/// What is so at a moment of a run.
pub trait Now {
    /// How many nodes there are.
    fn nodes(&self) -> u32;

    /// How many may be inside at once.
    fn places(&self) -> u32;

    /// Those who are up.
    fn up(&self) -> Those<'_>;

    /// Those who have asked for the critical section and are not inside yet.
    fn waiting(&self) -> Those<'_>;

    /// Those who are inside.
    fn inside(&self) -> Those<'_>;

    /// Whether the latest request of `first` happened before that of `second`.
    fn precedes(&self, first: NodeId, second: NodeId) -> bool;

    /// The latest grant, if its token is not higher than all before: whose, its token, and the
    /// highest before.
    fn stale_grant(&self) -> Option<(NodeId, u64, u64)>;

    /// Whom a node takes for the leader.
    fn leader_of(&self, node: NodeId) -> Option<NodeId>;

    /// Two leaders of one epoch, and the epoch.
    fn rivals(&self) -> Option<(NodeId, NodeId, u64)>;

    /// The best leader there could be.
    fn best(&self) -> Option<NodeId>;

    /// Whether messages get through between the two.
    fn together(&self, a: NodeId, b: NodeId) -> bool;

    /// Those whom a node says it suspects.
    fn suspected_by(&self, node: NodeId) -> Those<'_>;

    /// What the family [remembers](Watch) of a node.
    fn noted(&self, node: NodeId) -> &[u64];

    /// What it remembers of the whole system.
    fn history(&self) -> &[u64];

    /// How many links there are, each direction counted.
    fn channels(&self) -> u64;

    /// What is true of the system that no node can see, if the algorithm
    /// [knows](crate::Protocol::facts).
    fn facts(&self) -> Option<u64>;
}

/// Some of the nodes.
#[derive(Clone, Copy, Debug)]
pub enum Those<'a> {
    /// One bit each, of a few.
    Bits(u32),
    /// Those that are set, by node.
    Flags(&'a [bool]),
    /// Since when each has been one of them.
    Since(&'a BTreeMap<NodeId, Time>),
}

impl Those<'_> {
    /// The empty set.
    pub const NOBODY: Self = Self::Bits(0);

    /// How many there are.
    pub fn len(self) -> usize {
        match self {
            Self::Bits(bits) => bits.count_ones() as usize,
            Self::Flags(flags) => flags.iter().filter(|is| **is).count(),
            Self::Since(times) => times.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        match self {
            Self::Bits(bits) => bits == 0,
            Self::Flags(flags) => !flags.contains(&true),
            Self::Since(times) => times.is_empty(),
        }
    }

    /// Whether `node` is one of them.
    pub fn has(self, node: NodeId) -> bool {
        match self {
            Self::Bits(bits) => bits.checked_shr(node.0).unwrap_or(0) & 1 == 1,
            Self::Flags(flags) => flags.get(node.index()).is_some_and(|is| *is),
            Self::Since(times) => times.contains_key(&node),
        }
    }

    /// The first of them that `which` is true of.
    pub fn find(self, mut which: impl FnMut(NodeId) -> bool) -> Option<NodeId> {
        match self {
            Self::Bits(mut bits) => {
                while bits != 0 {
                    let node = NodeId(bits.trailing_zeros());
                    if which(node) {
                        return Some(node);
                    }
                    bits &= bits - 1;
                }
                None
            }
            Self::Flags(flags) => {
                let nodes = (0..).map(NodeId).zip(flags).filter(|(_, is)| **is);
                nodes.map(|(node, _)| node).find(|node| which(*node))
            }
            Self::Since(times) => times.keys().copied().find(|node| which(*node)),
        }
    }

    /// All of them that `which` is true of, ascending.
    pub fn those(self, which: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let mut all = Vec::new();
        self.find(|node| {
            all.extend(Some(node).filter(|node| which(*node)));
            false
        });
        all
    }

    /// All of them, ascending.
    pub fn all(self) -> Vec<NodeId> {
        self.those(|_| true)
    }

    /// Since when `node` has been one of them, if that is known.
    pub fn since(self, node: NodeId) -> Option<Time> {
        match self {
            Self::Since(times) => times.get(&node).copied(),
            Self::Bits(_) | Self::Flags(_) => None,
        }
    }
}

impl Family {
    /// The number of the snapshot that a node says it records its state for.
    pub fn recorded(&self, mark: &Observation) -> Option<u16> {
        match mark {
            Observation::Note(note) if Some(note.kind) == self.records => Some(note.number),
            _ => None,
        }
    }

    /// That of the algorithm.
    pub fn of(info: &Info) -> &'static Self {
        Self::of_id(info.id)
    }

    /// That of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|family| family.name == name).copied()
    }

    /// Every family, in the order of the catalogue.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        ALL.iter().copied()
    }

    /// That of the algorithm with this id.
    pub fn of_id(id: &str) -> &'static Self {
        static OTHER: Family = PLAIN;
        let name = id.split_once('/').map_or(id, |(family, _)| family);
        Self::named(name).unwrap_or(&OTHER)
    }

    /// What has to be remembered of a run for a property.
    pub fn watch_of(property: Property) -> Option<&'static Watch> {
        let states = |family: &&&Self| family.promises.iter().any(|it| it.property == property);
        ALL.iter().find(states)?.watch
    }

    /// A note in words.
    pub fn words(&self, note: &Note) -> String {
        match self.notes.get(usize::from(note.kind)) {
            Some(kind) => (kind.words)(note),
            None => "notes something".to_owned(),
        }
    }
}

impl Promise {
    /// A property that runs of its family are judged by if they were recorded.
    const fn new(property: Property, says: Says) -> Self {
        Self {
            property,
            says,
            usual: true,
            counted: false,
            stays: false,
            about: None,
            facts: false,
            traffic: false,
        }
    }

    /// What a property says.
    pub fn of(property: Property) -> &'static Self {
        let mut all = ALL.iter().flat_map(|family| family.promises);
        all.find(|promise| promise.property == property).expect("every property is some family's")
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Family").field(&self.name).finish()
    }
}

impl fmt::Debug for NoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NoteKind").field(&self.name).finish()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl fmt::Debug for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traffic").finish_non_exhaustive()
    }
}

impl fmt::Debug for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Promise").field(&self.property).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_is_stated_once() {
        for property in Property::ALL {
            let states = |family: &&&Family| {
                family.promises.iter().any(|promise| promise.property == property)
            };
            // Families that report have all their statements in common. Which, and not where they
            // are: each unit of code may have its own copy.
            let properties = |family: &&'static Family| {
                family.promises.iter().map(|it| it.property).collect::<Vec<_>>()
            };
            let mut statements: Vec<_> = ALL.iter().filter(states).map(properties).collect();
            statements.dedup();
            assert_eq!(statements.len(), 1, "{property}");
            assert_eq!(Promise::of(property).property, property);
        }
    }

    #[test]
    fn those_are_the_same_however_they_are_kept() {
        let times = BTreeMap::from([(NodeId(1), Time::ZERO), (NodeId(3), Time::MAX)]);
        let flags = [false, true, false, true];
        for those in [Those::Bits(0b1010), Those::Flags(&flags), Those::Since(&times)] {
            assert_eq!((those.len(), those.is_empty()), (2, false));
            assert_eq!(those.all(), [NodeId(1), NodeId(3)]);
            assert_eq!(those.find(|node| node.0 > 1), Some(NodeId(3)));
            assert!(those.has(NodeId(3)) && !those.has(NodeId(2)) && !those.has(NodeId(40)));
        }
        assert!(Those::NOBODY.is_empty() && Those::NOBODY.all().is_empty());
    }
}
