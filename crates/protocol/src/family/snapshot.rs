//! What is promised of snapshots.
//!
//! A node notes when it records its state, when a channel's content is known and when its part is
//! finished. Which snapshots a node has recorded for goes with each message of the application; so
//! whether a cut is consistent is judged from the messages themselves.
//!
//! So is what is recorded of channels. Each message of the application has a fingerprint, and those
//! sent inside a cut and received outside are added up, whatever the algorithm makes of them; it
//! notes the fingerprints of what it has recorded, added up likewise.

mod restored;
mod resumed;

use std::time::Duration;

use super::{
    About, Family, Fault, Law, NoteKind, Now, PLAIN, Passage, Promise, Says, Tempo, Traffic, Watch,
};
use crate::{NodeId, Note, Observation, Property};

/// Snapshots.
pub(super) static FAMILY: Family = Family {
    name: "snapshot",
    promises: PROMISES,
    // A snapshot spreads from node to node.
    settles: |nodes| nodes.saturating_mul(4),
    patience,
    notes: NOTES,
    records: Some(RECORDS),
    watch: Some(&WATCH),
    ..PLAIN
};

/// At boot: what the node owns, as far as that adds up.
pub const OWNS: u8 = 0;
/// The application asks for a snapshot.
pub const STARTS: u8 = 1;
/// The node records its state.
pub const RECORDS: u8 = 2;
/// The marker on the channel from a node has come; the value says what was on its way there, as
/// [`in_order`] has it, or is 0 if that is not known by this.
pub const CLOSES: u8 = 3;
/// The node's part is finished; the value is what state and channels hold.
pub const HOLDS: u8 = 4;
/// The node that started a snapshot has all parts; the value is what they hold.
pub const COLLECTS: u8 = 5;
/// The node has used an input: how many it has used, and a fingerprint of its state.
pub const USES: u8 = 6;
/// It boots after a crash.
pub const BACK: u8 = 7;
/// While it is restored, it is in a state in which it has used so many inputs: the same of it.
pub const USES_AGAIN: u8 = 8;
/// It goes on.
pub const RESTORED: u8 = 9;
/// The node saves its part of a snapshot, or its initial state: a fingerprint of it.
pub const SAVES: u8 = 10;
/// It goes back to a part: the same of what it takes up, and the incarnation that begins.
pub const RESUMES: u8 = 11;

pub use self::resumed::{INITIAL, PRINT};

/// What was on its way from a node to another is known: the upper half of the value is the other
/// node, the lower half what it was, as [`in_any_order`] has it.
pub const KNOWS: u8 = 12;

/// What messages with these fingerprints in this order come to; never 0.
pub fn in_order(fingerprints: impl Iterator<Item = u32>) -> u64 {
    fingerprints.fold(EMPTY, behind)
}

/// The same in whatever order.
pub fn in_any_order(fingerprints: impl Iterator<Item = u32>) -> u32 {
    fingerprints.fold(0, u32::wrapping_add)
}

/// What no messages come to: their sum in the upper half, their order in the lower one.
const EMPTY: u64 = 1;

/// What they come to with one more behind them.
fn behind(messages: u64, fingerprint: u32) -> u64 {
    let sum = sum_of(messages).wrapping_add(fingerprint);
    let order = (messages as u32).wrapping_mul(0x0100_0193) ^ fingerprint;
    u64::from(sum) << 32 | u64::from(order.max(1))
}

fn sum_of(messages: u64) -> u32 {
    (messages >> 32) as u32
}

const NOTES: &[NoteKind] = &[
    NoteKind { name: "owns", words: |note| format!("owns {}", note.value) },
    NoteKind { name: "starts", words: |_| "starts a snapshot".to_owned() },
    NoteKind { name: "records", words: |note| format!("RECORDS #{}", note.number) },
    NoteKind {
        name: "closes",
        words: |note| match note.value {
            0 => format!("{} has recorded #{}", note.who, note.number),
            _ => format!("channel from {} done #{}", note.who, note.number),
        },
    },
    NoteKind { name: "holds", words: holds },
    NoteKind { name: "collects", words: collects },
    NoteKind { name: "uses", words: |note| format!("uses input {}", note.number) },
    NoteKind { name: "back", words: |_| "is back and asks what it has been".to_owned() },
    NoteKind { name: "uses-again", words: |note| format!("uses input {} again", note.number) },
    NoteKind { name: "restored", words: |_| "RESTORED".to_owned() },
    NoteKind { name: "saves", words: |note| format!("saves {}", part(note)) },
    NoteKind { name: "resumes", words: |note| format!("GOES BACK to {}", part(note)) },
    NoteKind {
        name: "knows",
        words: |note| {
            let to = NodeId((note.value >> 32) as u32);
            format!("knows channel {} to {to} #{}", note.who, note.number)
        },
    },
];

fn part(note: &Note) -> String {
    match note.number {
        INITIAL => "its initial state".to_owned(),
        number => format!("part #{number}"),
    }
}

fn holds(note: &Note) -> String {
    match note.value {
        0 => format!("part done #{}", note.number),
        value => format!("part done #{}: {value}", note.number),
    }
}

fn collects(note: &Note) -> String {
    match note.value {
        0 => format!("has all parts #{}", note.number),
        value => format!("has all parts #{}: {value}", note.number),
    }
}

const PROMISES: &[Promise] = &[
    Promise {
        about: SNAPSHOTS,
        ..Promise::new(Property::Cut, Says::Always(Law { broken: torn, words: torn_in_words }))
    },
    Promise {
        about: Some((
            |mark| noted(mark, CLOSES).or_else(|| noted(mark, KNOWS)).is_some(),
            "nothing is recorded of any channel",
        )),
        traffic: true,
        usual: false,
        ..Promise::new(
            Property::Channels,
            Says::Always(Law { broken: mistaken, words: mistaken_in_words }),
        )
    },
    Promise {
        about: Some((
            |mark| {
                let holds = noted(mark, HOLDS).or_else(|| noted(mark, COLLECTS));
                holds.is_some_and(|note| note.value > 0)
            },
            "no part of a snapshot holds anything that adds up",
        )),
        ..Promise::new(Property::Sum, Says::Always(Law { broken: odd, words: odd_in_words }))
    },
    Promise {
        about: SNAPSHOTS,
        ..Promise::new(
            Property::Done,
            Says::AtRest(Law { broken: unfinished, words: unfinished_in_words }),
        )
    },
    Promise {
        about: SNAPSHOTS,
        usual: false,
        ..Promise::new(
            Property::Collected,
            Says::AtRest(Law { broken: scattered, words: scattered_in_words }),
        )
    },
    Promise {
        facts: true,
        about: Some((
            |mark| noted(mark, OWNS).is_some_and(|note| note.value > 0),
            "no node owns anything that adds up",
        )),
        ..Promise::new(
            Property::Conserved,
            Says::Always(Law {
                broken: |now| now.facts().filter(|facts| facts & 1 == 0).map(|_| Fault::default()),
                words: |_, _| "accounts and channels do not hold every coin once".to_owned(),
            }),
        )
    },
    Promise {
        about: CRASHES,
        usual: false,
        ..Promise::new(
            Property::Restored,
            Says::Always(Law { broken: restored::changed, words: restored::changed_in_words }),
        )
    },
    Promise {
        about: Some((
            |mark| noted(mark, RESUMES).is_some(),
            "no node goes back to its part of a snapshot",
        )),
        usual: false,
        ..Promise::new(
            Property::Resumed,
            Says::Always(Law { broken: resumed::otherwise, words: resumed::otherwise_in_words }),
        )
    },
    Promise {
        about: CRASHES,
        usual: false,
        ..Promise::new(
            Property::Recovers,
            Says::AtRest(Law { broken: restored::waiting, words: restored::waiting_in_words }),
        )
    },
];

const CRASHES: Option<About> =
    Some((|mark| noted(mark, BACK).is_some(), "no node comes back after a crash"));

const SNAPSHOTS: Option<About> =
    Some((|mark| noted(mark, RECORDS).is_some(), "no node records for a snapshot"));

fn noted(mark: &Observation, kind: u8) -> Option<&Note> {
    match mark {
        Observation::Note(note) if note.kind == kind => Some(note),
        _ => None,
    }
}

/// Of each node the snapshots that it has recorded for, ascending, and then perhaps what it is
/// [restored](restored) to or [goes back](resumed) to, and a breach. Of the system what all own, how many nodes have said so and
/// which, then its [`Snapshot`]s, and then perhaps which channel was recorded wrongly.
static WATCH: Watch = Watch {
    see: |words, _, mark| {
        if let Some(note) = noted(mark, RECORDS)
            && let Err(place) = words.binary_search(&u64::from(note.number))
        {
            words.insert(place, u64::from(note.number));
        }
        if let Observation::Note(note) = mark {
            restored::see(words, note);
            resumed::see(words, note);
        }
    },
    see_all: |words, node, mark| {
        let Observation::Note(note) = mark else { return };
        if words.is_empty() {
            words.extend([0, 0]);
        }
        match note.kind {
            OWNS if note.value > 0 => own(words, node, note.value),
            RECORDS => Snapshot::change(words, note.number, |_| {}),
            CLOSES => Snapshot::change(words, note.number, |it| it.closed += 1),
            HOLDS => Snapshot::change(words, note.number, |it| {
                it.parts += 1;
                it.sum = it.sum.wrapping_add(note.value);
            }),
            COLLECTS => Snapshot::change(words, note.number, |it| {
                it.collected += 1;
                it.gathered = it.gathered.wrapping_add(note.value);
            }),
            _ => {}
        }
    },
    carries: |words| {
        let recorded = words.iter().copied().filter(|word| *word <= u64::from(u16::MAX));
        let incarnation = Some(resumed::incarnation(words)).filter(|word| *word > 0);
        recorded.chain(incarnation).collect()
    },
    arrives: |words, from, carried| {
        let recorded = carried.iter().take_while(|word| **word <= u64::from(u16::MAX)).count();
        let (carried, incarnation) = carried.split_at(recorded);
        // It is not used now.
        if incarnation.first().copied().unwrap_or(0) != resumed::incarnation(words) {
            return;
        }
        let unknown = carried.iter().find(|number| !words.contains(number));
        if let Some(number) = unknown
            && breach(words).is_none()
        {
            words.push(BREACH | u64::from(from.0) << 16 | number);
        }
    },
    forgets: false,
    traffic: Some(Traffic { sent, received, about, told }),
};

/// A node owns so much. One that comes back after a crash may say so again: that is nothing new.
fn own(history: &mut Vec<u64>, node: NodeId, value: u64) {
    let end = snapshots(history);
    if let Err(place) = history[2..end].binary_search(&u64::from(node.0)) {
        history[0] = history[0].wrapping_add(value);
        history[1] += 1;
        history.insert(2 + place, u64::from(node.0));
    }
}

/// Where what is remembered of snapshots begins.
fn snapshots(history: &[u64]) -> usize {
    history.get(1).map_or(0, |owners| 2 + *owners as usize)
}

/// The mark of a word that says who sent a message outside the cut of which snapshot, and it was
/// received inside.
const BREACH: u64 = 1 << 63;

fn breach(words: &[u64]) -> Option<(NodeId, u64)> {
    let word = words.last().filter(|word| **word & BREACH != 0)?;
    Some((NodeId((word >> 16) as u32), word & 0xffff))
}

/// What is remembered of a snapshot.
#[derive(Clone, Copy)]
struct Snapshot {
    number: u64,
    /// How many nodes have finished their parts.
    parts: u64,
    /// What these hold.
    sum: u64,
    /// Of how many channels the content is known.
    closed: u64,
    /// How often all parts have come together.
    collected: u64,
    /// What these held there.
    gathered: u64,
}

impl Snapshot {
    /// So many words are remembered of each.
    const WORDS: usize = 6;

    fn all(history: &[u64]) -> impl Iterator<Item = Self> {
        let rest = &history[snapshots(history)..];
        rest.chunks_exact(Self::WORDS).map(|words| Self {
            number: words[0],
            parts: words[1],
            sum: words[2],
            closed: words[3],
            collected: words[4],
            gathered: words[5],
        })
    }

    fn of(history: &[u64], number: u64) -> Self {
        let known = Self::all(history).find(|it| it.number == number);
        let none = Self { number, parts: 0, sum: 0, closed: 0, collected: 0, gathered: 0 };
        known.unwrap_or(none)
    }

    fn change(history: &mut Vec<u64>, number: u16, change: impl FnOnce(&mut Self)) {
        let number = u64::from(number);
        let mut it = Self::of(history, number);
        change(&mut it);
        let words = [it.number, it.parts, it.sum, it.closed, it.collected, it.gathered];
        let size = Self::WORDS;
        let first = snapshots(history);
        let mut known = history[first..].chunks_exact(size);
        let all = known.len();
        let place = first + size * known.position(|it| it[0] >= number).unwrap_or(all);
        match history.get(place) {
            Some(known) if *known == number => {
                history[place..place + size].copy_from_slice(&words);
            }
            _ => drop(history.splice(place..place, words)),
        }
    }

    /// What it is called: snapshots are numbered round by round, in each by their initiators.
    fn name(self, now: &dyn Now) -> String {
        let nodes = u64::from(now.nodes());
        let (round, initiator) = (self.number / nodes, NodeId((self.number % nodes) as u32));
        format!("snapshot #{} ({initiator}'s number {})", self.number, round + 1)
    }
}

/// A message was received inside the cut of a snapshot and sent outside.
fn torn(now: &dyn Now) -> Option<Fault> {
    (0..now.nodes()).map(NodeId).find_map(|node| {
        let (from, number) = breach(now.noted(node))?;
        Some(Fault { nodes: [node, from], numbers: [number, 0] })
    })
}

fn torn_in_words(now: &dyn Now, fault: Fault) -> String {
    let ([node, from], [number, _]) = (fault.nodes, fault.numbers);
    let name = Snapshot::of(now.history(), number).name(now);
    format!(
        "{node} received a message before it recorded for {name} that {from} sent after it had \
         recorded"
    )
}

/// What is remembered of a channel, in words: what is on its way there, and then of each snapshot
/// three: its number, what was sent inside its cut and received outside less what is on its way now,
/// and of this what has arrived, as [`in_order`] has it.
///
/// The first two are sums of fingerprints. When neither end has recorded, what is on its way is what
/// would be sent inside and received outside; after that the two differ by what is sent outside, and
/// by what arrives outside.
fn snapshot_of(channel: &mut Vec<u64>, number: u64) -> &mut [u64] {
    if channel.is_empty() {
        channel.push(0);
    }
    let known = channel[1..].chunks_exact(3).position(|it| it[0] & !KNOWN == number);
    let place = known.map_or(channel.len(), |known| 1 + 3 * known);
    if known.is_none() {
        channel.extend([number, 0, EMPTY]);
    }
    &mut channel[place..place + 3]
}

/// The snapshots that a node has recorded for, of all its words.
fn numbers(words: &[u64]) -> impl Iterator<Item = u64> {
    words.iter().copied().filter(|word| *word <= u64::from(u16::MAX))
}

/// The mark of the number of a snapshot for which it has been said what the channel held.
const KNOWN: u64 = 1 << 63;

fn sent(channel: &mut Vec<u64>, system: &mut Vec<u64>, message: &Passage<'_>) {
    let fingerprint = u64::from(message.fingerprint);
    for number in numbers(message.carried) {
        let it = snapshot_of(channel, number);
        if it[0] & KNOWN == 0 {
            it[1] = it[1].wrapping_sub(fingerprint);
        }
    }
    if channel.is_empty() {
        channel.push(0);
    }
    channel[0] = channel[0].wrapping_add(fingerprint);
    // It belongs to what the channel holds, of which something has been said already.
    let too_early =
        |it: &&[u64]| it[0] & KNOWN != 0 && !message.carried.contains(&(it[0] & !KNOWN));
    if let Some(it) = channel[1..].chunks_exact(3).find(too_early) {
        note_mistake(system, message.channel, it[0] & !KNOWN);
    }
}

fn received(channel: &mut Vec<u64>, _: &mut Vec<u64>, message: &Passage<'_>) {
    let fingerprint = u64::from(message.fingerprint);
    let outside = numbers(message.carried).filter(|it| !message.receiver.contains(it));
    for number in numbers(message.receiver).chain(outside) {
        let it = snapshot_of(channel, number);
        if it[0] & KNOWN == 0 {
            it[1] = it[1].wrapping_add(fingerprint);
            if !message.carried.contains(&number) {
                it[2] = behind(it[2], message.fingerprint);
            }
        }
    }
    if let Some(on_its_way) = channel.first_mut() {
        *on_its_way = on_its_way.wrapping_sub(fingerprint);
    }
}

/// Which channel a note says the content of.
fn about(node: NodeId, mark: &Observation) -> Option<(NodeId, NodeId)> {
    match mark {
        Observation::Note(note) if note.kind == CLOSES && note.value != 0 => Some((note.who, node)),
        Observation::Note(note) if note.kind == KNOWS => {
            Some((note.who, NodeId((note.value >> 32) as u32)))
        }
        _ => None,
    }
}

fn told(channel: &mut Vec<u64>, system: &mut Vec<u64>, ends: (NodeId, NodeId), mark: &Observation) {
    let Observation::Note(note) = mark else { return };
    let number = u64::from(note.number);
    let on_its_way = channel.first().copied().unwrap_or(0);
    let it = snapshot_of(channel, number);
    let held = on_its_way.wrapping_add(it[1]) as u32;
    let said = if note.kind == CLOSES { sum_of(note.value) } else { note.value as u32 };
    // Of messages that have all arrived it is known in which order they did, which is the order in
    // which they were sent where channels keep it.
    let arrived = sum_of(it[2]) == held;
    let disordered = note.kind == CLOSES && arrived && note.value != it[2];
    if it[0] & KNOWN != 0 || said != held || disordered {
        note_mistake(system, ends, number);
    }
    it.copy_from_slice(&[number | KNOWN, 0, 0]);
}

fn note_mistake(system: &mut Vec<u64>, (from, to): (NodeId, NodeId), number: u64) {
    if system.is_empty() {
        system.extend([0, 0]);
    }
    if mistake(system).is_none() {
        system.push(MISTAKE | number << 44 | u64::from(from.0) << 22 | u64::from(to.0));
    }
}

/// The mark of a word that says which channel was recorded wrongly, and in which snapshot.
const MISTAKE: u64 = 1 << 63;

fn mistake(system: &[u64]) -> Option<u64> {
    let behind = system.len().checked_sub(snapshots(system))? % Snapshot::WORDS;
    system.last().copied().filter(|_| behind == 1)
}

/// Something else was recorded of a channel than was sent inside the cut and received outside.
fn mistaken(now: &dyn Now) -> Option<Fault> {
    let word = mistake(now.history())?;
    let node = |word: u64| NodeId((word & 0x3f_ffff) as u32);
    let number = word >> 44 & u64::from(u16::MAX);
    Some(Fault { nodes: [node(word >> 22), node(word)], numbers: [number, 0] })
}

fn mistaken_in_words(now: &dyn Now, fault: Fault) -> String {
    let ([from, to], [number, _]) = (fault.nodes, fault.numbers);
    let name = Snapshot::of(now.history(), number).name(now);
    format!(
        "{name} has something else on the channel from {from} to {to} than was sent inside the \
         cut and received outside"
    )
}

/// The parts of a snapshot do not add up to what there is.
fn odd(now: &dyn Now) -> Option<Fault> {
    let history = now.history();
    let all = u64::from(now.nodes());
    // One that is read off records has no parts, and is complete at once.
    let sum = |it: &Snapshot| match (it.parts, it.collected) {
        (0, 1..) => Some(it.gathered),
        (parts, _) => (parts == all).then_some(it.sum),
    };
    let mut sums = Snapshot::all(history).filter_map(|it| Some((it.number, sum(&it)?)));
    let (number, sum) = sums.find(|(_, sum)| Some(sum) != history.first())?;
    Some(Fault { numbers: [number, sum], ..Fault::default() })
}

fn odd_in_words(now: &dyn Now, fault: Fault) -> String {
    let [number, sum] = fault.numbers;
    let name = Snapshot::of(now.history(), number).name(now);
    let total = now.history().first().copied().unwrap_or_default();
    format!("the parts of {name} add up to {sum}, and all there is to {total}")
}

/// A snapshot lacks a part, or not every channel was closed exactly once.
fn unfinished(now: &dyn Now) -> Option<Fault> {
    let all = u64::from(now.nodes());
    let read = |it: &Snapshot| it.parts == 0 && it.collected > 0;
    let lacks = |it: &Snapshot| (it.parts != all || it.closed != now.channels()) && !read(it);
    let number = Snapshot::all(now.history()).find(lacks)?.number;
    Some(Fault { numbers: [number, 0], ..Fault::default() })
}

fn unfinished_in_words(now: &dyn Now, fault: Fault) -> String {
    let it = Snapshot::of(now.history(), fault.numbers[0]);
    let (name, nodes, channels) = (it.name(now), now.nodes(), now.channels());
    let Snapshot { parts, closed, .. } = it;
    format!("{name} has {parts} parts of {nodes}, and {closed} markers of {channels} channels")
}

/// A snapshot has not come together where it was started, or not as it was recorded.
fn scattered(now: &dyn Now) -> Option<Fault> {
    let wrong = |it: &Snapshot| it.collected != 1 || it.gathered != it.sum;
    let number = Snapshot::all(now.history()).find(wrong)?.number;
    Some(Fault { numbers: [number, 0], ..Fault::default() })
}

fn scattered_in_words(now: &dyn Now, fault: Fault) -> String {
    let it = Snapshot::of(now.history(), fault.numbers[0]);
    let (name, Snapshot { collected, gathered, sum, .. }) = (it.name(now), it);
    match collected {
        0 => format!("the parts of {name} never come together at its initiator"),
        1 => format!("the parts of {name} hold {sum}, and {gathered} where they come together"),
        times => format!("{name} comes together {times} times at its initiator"),
    }
}

fn patience(tempo: &Tempo) -> Duration {
    tempo.hop.max(tempo.timer).saturating_mul(tempo.nodes.saturating_mul(4) + 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u8, number: u16, value: u64) -> Observation {
        Observation::Note(Note { kind, number, who: NodeId(0), value })
    }

    #[test]
    fn snapshots_are_kept_in_the_order_of_their_numbers() {
        let mut words = Vec::new();
        let mut owner =
            |node, value| (WATCH.see_all)(&mut words, NodeId(node), &note(OWNS, 0, value));
        // A node that comes back says again what it owned at first.
        for (node, value) in [(5, 4), (2, 1), (3, 0), (5, 4)] {
            owner(node, value);
        }
        let marks = [
            note(RECORDS, 7, 0),
            note(RECORDS, 2, 0),
            note(CLOSES, 7, 0),
            note(HOLDS, 7, 5),
            note(HOLDS, 2, 3),
            note(RECORDS, 4, 0),
            note(COLLECTS, 7, 5),
        ];
        marks.iter().for_each(|mark| (WATCH.see_all)(&mut words, NodeId(1), mark));
        assert_eq!(words[..4], [5, 2, 2, 5]);
        assert_eq!(words[4..], [2, 1, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 7, 1, 5, 1, 1, 5]);
    }

    #[test]
    fn a_message_from_outside_the_cut_breaks_it_unless_the_receiver_has_recorded_too() {
        let (mut sender, mut receiver) = (Vec::new(), Vec::new());
        (WATCH.see)(&mut sender, NodeId(0), &note(RECORDS, 3, 0));
        (WATCH.see)(&mut receiver, NodeId(1), &note(RECORDS, 3, 0));
        (WATCH.arrives)(&mut receiver, NodeId(0), &(WATCH.carries)(&sender));
        assert_eq!((breach(&receiver), &receiver), (None, &vec![3]));
        (WATCH.see)(&mut sender, NodeId(0), &note(RECORDS, 1, 0));
        (WATCH.arrives)(&mut receiver, NodeId(0), &(WATCH.carries)(&sender));
        assert_eq!(breach(&receiver), Some((NodeId(0), 1)));
        assert_eq!((WATCH.carries)(&receiver), [3]);
    }

    /// Sends and receives messages on the channel from p0 to p1, as drivers tell of them.
    #[derive(Default)]
    struct Wire {
        channel: Vec<u64>,
        system: Vec<u64>,
        ends: [Vec<u64>; 2],
        under_way: Vec<(u32, Vec<u64>)>,
    }

    impl Wire {
        const ENDS: (NodeId, NodeId) = (NodeId(0), NodeId(1));

        fn send(&mut self, fingerprint: u32) {
            let carried = (WATCH.carries)(&self.ends[0]);
            let channel = Self::ENDS;
            let passage = Passage { channel, fingerprint, carried: &carried, receiver: &[] };
            sent(&mut self.channel, &mut self.system, &passage);
            self.under_way.push((fingerprint, carried));
        }

        /// The message at this place arrives.
        fn arrive(&mut self, place: usize) {
            let (fingerprint, carried) = self.under_way.remove(place);
            let (channel, receiver) = (Self::ENDS, &self.ends[1]);
            let passage = Passage { channel, fingerprint, carried: &carried, receiver };
            received(&mut self.channel, &mut self.system, &passage);
        }

        fn record(&mut self, end: usize) {
            (WATCH.see)(&mut self.ends[end], NodeId(end as u32), &note(RECORDS, 3, 0));
        }

        /// Whether it is right that the channel held these.
        fn held(&mut self, messages: &[u32]) -> bool {
            self.say(CLOSES, in_order(messages.iter().copied()))
        }

        fn say(&mut self, kind: u8, value: u64) -> bool {
            let mark = note(kind, 3, value);
            let ends = about(NodeId(1), &mark).expect("it is about a channel");
            assert_eq!(ends, Self::ENDS);
            told(&mut self.channel, &mut self.system, ends, &mark);
            mistake(&self.system).is_none()
        }
    }

    #[test]
    fn a_channel_holds_what_was_sent_inside_and_received_outside_in_order() {
        let recorded = || {
            let mut wire = Wire::default();
            [5, 6, 7].into_iter().for_each(|it| wire.send(it));
            wire.arrive(0);
            wire.record(1);
            wire.arrive(0);
            wire.send(8);
            wire.record(0);
            wire.send(9);
            wire.arrive(0);
            wire.arrive(0);
            wire
        };
        assert!(recorded().held(&[6, 7, 8]));
        for wrong in [&[6, 7][..], &[6, 7, 8, 9], &[7, 6, 8], &[5, 6, 7, 8], &[]] {
            assert!(!recorded().held(wrong), "{wrong:?}");
        }
        // A wrapper that does not know of an order does not say one.
        let sum = |messages: &[u32]| u64::from(in_any_order(messages.iter().copied()));
        assert!(recorded().say(KNOWS, 1 << 32 | sum(&[8, 6, 7])));
        assert!(!recorded().say(KNOWS, 1 << 32 | sum(&[8, 6])));
    }

    #[test]
    fn what_is_still_on_its_way_counts_when_it_is_reported_before_it_arrives() {
        let mut wire = Wire::default();
        wire.record(1);
        wire.send(5);
        wire.send(6);
        wire.record(0);
        wire.arrive(1);
        assert!(wire.say(KNOWS, 1 << 32 | 11));
        wire.arrive(0);
        assert_eq!(wrong(&wire), None);
        assert!(!wire.say(KNOWS, 1 << 32 | 11), "twice is once too often");
    }

    #[test]
    fn a_channel_is_closed_too_early_if_more_is_sent_inside() {
        let mut wire = Wire::default();
        wire.record(1);
        assert!(wire.held(&[]));
        wire.send(5);
        assert_eq!(wrong(&wire), Some([NodeId(0), NodeId(1)]));
        let mut wire = Wire::default();
        wire.record(1);
        assert!(wire.held(&[]));
        wire.record(0);
        wire.send(5);
        wire.arrive(0);
        assert_eq!(wrong(&wire), None);
    }

    fn wrong(wire: &Wire) -> Option<[NodeId; 2]> {
        let node = |word: u64| NodeId((word & 0x3f_ffff) as u32);
        mistake(&wire.system).map(|word| [node(word >> 22), node(word)])
    }
}
