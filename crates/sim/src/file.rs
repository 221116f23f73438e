//! Traces as files: one JSON format for every driver.
//!
//! `docs/trace-format.md` describes it for readers of files; this is the same for the compiler.

use std::fmt::{self, Write};

use conclave_protocol::{Family, NodeId, NodeSet, Note, Observation, Property, Ranks, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::{Alarm, End, Event, Outcome, Owner, Record, RunSpec, Step, Trace};

/// The version of the format that this program writes, and the latest that it reads.
pub const VERSION: u32 = 3;
/// The fingerprints of more messages than this are not read.
const MOST_MESSAGES: usize = 1 << 28;

const FORMAT: &str = "conclave-trace";

/// Vector clocks are written for systems of up to so many nodes.
const CLOCKED: u32 = 64;

/// A run in a file: what it was, and what happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceFile {
    /// Always `conclave-trace`.
    pub format: String,
    /// The version of the format.
    pub version: u32,
    /// Everything the run depended on.
    pub spec: RunSpec,
    /// What the run was written down to show, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Finding>,
    /// How the run ended; missing in files of earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Ending>,
    /// What the nodes were like after booting for the first time, by node; missing in files of
    /// versions 1 and 2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub booted: Vec<FileBoot>,
    /// What happened, in order.
    pub events: Vec<FileEvent>,
}

/// What a node is like after booting for the first time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileBoot {
    /// Its state.
    pub state: Value,
    /// The numbered rules that ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<u32>,
    /// The timers that were set or cancelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<Alarm>,
    /// Whom the node waits for.
    #[serde(default, skip_serializing_if = "NodeSet::is_empty")]
    pub waits: NodeSet,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Why.
    pub why: End,
    /// When, in nanoseconds of virtual time.
    pub at: u64,
}

/// What a run shows that was found rather than drawn: a counter-example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The property that is violated.
    pub property: Property,
    /// In words.
    pub why: String,
    /// The number of the decision that violates it, or the last of an endless loop. They are
    /// counted from 1, so that decision `n` is carried out at `n` times `T`.
    pub step: usize,
    /// The number of the decision that the endless loop begins with, if the run is one that would
    /// go on for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_from: Option<usize>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { property, why, step, loop_from } = self;
        match loop_from {
            None => write!(f, "{property} violated at step {step}: {why}"),
            Some(from) if from == step => {
                write!(f, "{property} violated: {why}; step {step} repeats for ever")
            }
            Some(from) => {
                write!(f, "{property} violated: {why}; steps {from} to {step} repeat for ever")
            }
        }
    }
}

/// One event of a [`TraceFile`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileEvent {
    /// When, in nanoseconds of virtual time.
    pub at: u64,
    /// Where.
    pub node: u32,
    /// What: `send`, `deliver`, `lose`, `request`, `notice`, `timer`, `crash`, …
    pub event: String,
    /// The other node, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<u32>,
    /// The number of the message, the same where it is sent and where it arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<u32>,
    /// The name of the message or timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whose entry a message is counted for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The size of a message on the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// Whether a message is a further copy of a broadcast.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copy: bool,
    /// Whether a message is a control message of what is wrapped around the application.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// The fingerprint of what an application says by a message, if something is wrapped around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<u32>,
    /// What a request or notice means, if it is no note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Observation>,
    /// What a family notes by a request or a notice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<FileNote>,
    /// What is true of the whole system, a bit each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<u64>,
    /// When a request was due, if that was earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<u64>,
    /// The groups into which the network falls apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<Vec<u32>>>,
    /// The content of the message, request, notice or timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The state of the node after the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
    /// The numbered rules that ran in the step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<u32>,
    /// The timers that the step set or cancelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<Alarm>,
    /// Whom the node waits for after the step.
    #[serde(default, skip_serializing_if = "NodeSet::is_empty")]
    pub waits: NodeSet,
    /// The node's Lamport clock.
    pub lamport: u32,
    /// The event's vector clock, in systems of up to 64 nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock: Vec<u64>,
}

/// What a family notes of a run, as its file in the catalogue says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileNote {
    /// What kind of thing.
    pub what: String,
    /// Which of several it is about.
    pub number: u16,
    /// Which node it is about.
    pub who: u32,
    /// How much or which.
    pub value: u64,
}

impl FileNote {
    fn new(note: Note, family: &Family) -> Self {
        let Note { kind, number, who, value } = note;
        let known = family.notes.get(usize::from(kind));
        let what = known.map_or_else(|| kind.to_string(), |kind| kind.name.to_owned());
        Self { what, number, who: who.0, value }
    }

    /// The note, if the family knows such.
    fn note(&self, family: &Family) -> Result<Note, String> {
        let known = family.notes.iter().position(|kind| kind.name == self.what);
        let kind = known.and_then(|kind| u8::try_from(kind).ok());
        let kind = kind.or_else(|| self.what.parse().ok());
        let kind = kind.ok_or_else(|| format!("nothing notes {:?}", self.what))?;
        Ok(Note { kind, number: self.number, who: NodeId(self.who), value: self.value })
    }
}

/// Why a file is not a trace that can be used.
#[derive(Debug, Error)]
pub enum TraceError {
    /// It is not JSON, or ends too soon.
    #[error("not a trace: {0}")]
    Corrupt(#[from] serde_json::Error),
    /// It is JSON, but of something else.
    #[error("not a trace: its format is {0:?}, not \"conclave-trace\"")]
    WrongFormat(String),
    /// There is no such version.
    #[error("the trace has version 0, and versions count from 1")]
    NoVersion,
    /// It comes from a later program.
    #[error(
        "the trace has version {0}, and this program reads up to version {VERSION}; use the program that wrote it or a later one"
    )]
    FutureVersion(u32),
    /// One of its events is none.
    #[error("event {number} of the trace makes no sense: {why}")]
    Senseless {
        /// Which, counted from 1.
        number: usize,
        /// What is wrong with it.
        why: String,
    },
}

impl TraceFile {
    /// The file of a run that was traced in full.
    pub fn new(spec: &RunSpec, outcome: &Outcome) -> Self {
        let trace = &outcome.trace;
        let clocks = if trace.nodes <= CLOCKED { trace.vector_clocks() } else { Vec::new() };
        let clocks = clocks.into_iter().map(|clock| clock.as_slice().to_vec());
        let clocks = clocks.chain(std::iter::repeat(Vec::new()));
        let events = (0..trace.records.len()).zip(clocks).map(|(i, clock)| event(trace, i, clock));
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            spec: spec.clone(),
            verdict: None,
            end: Some(Ending { why: trace.end, at: trace.ended.as_nanos() }),
            booted: trace.booted.iter().map(boot).collect(),
            events: events.collect(),
        }
    }

    /// The trace that was written down, to be judged and counted like that of a run: without what
    /// messages and states said. If the file does not say how the run ended, it ended with the last
    /// event, and more could have happened.
    pub fn trace(&self) -> Result<Trace, TraceError> {
        let setup = &self.spec.setup;
        let last = self.events.last().map_or(0, |event| event.at);
        let end = self.end.unwrap_or(Ending { why: End::Decisions, at: last });
        let mut trace = Trace {
            algorithm: self.spec.algorithm.clone(),
            channels: setup.topology.channels(),
            nodes: setup.n(),
            ranks: Ranks::new(&setup.attributes),
            end: end.why,
            ended: Time::from_nanos(end.at),
            ..Trace::default()
        };
        for (number, event) in (1..).zip(&self.events) {
            let record = event.record(&mut trace);
            let record = record.map_err(|why| TraceError::Senseless { number, why })?;
            trace.records.push(record);
        }
        Ok(trace)
    }

    /// Reads a file.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        // The header first, so that a file from the future is told from a broken one.
        #[derive(Deserialize)]
        struct Header {
            format: String,
            version: u32,
        }
        let header: Header = serde_json::from_str(text)?;
        if header.format != FORMAT {
            return Err(TraceError::WrongFormat(header.format));
        }
        if header.version == 0 {
            return Err(TraceError::NoVersion);
        }
        if header.version > VERSION {
            return Err(TraceError::FutureVersion(header.version));
        }
        Ok(serde_json::from_str(text)?)
    }

    /// The text of the file, one event to a line.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{{\"format\":{},\"version\":{},\"spec\":{},",
            json(&self.format),
            self.version,
            json(&self.spec)
        );
        if let Some(verdict) = &self.verdict {
            let _ = write!(text, "\"verdict\":{},", json(verdict));
        }
        if let Some(end) = &self.end {
            let _ = write!(text, "\"end\":{},", json(end));
        }
        if !self.booted.is_empty() {
            text.push_str("\"booted\":[");
            for (i, boot) in self.booted.iter().enumerate() {
                text.push_str(if i == 0 { "\n" } else { ",\n" });
                text.push_str(&json(boot));
            }
            text.push_str("\n],");
        }
        text.push_str("\"events\":[");
        for (i, event) in self.events.iter().enumerate() {
            text.push_str(if i == 0 { "\n" } else { ",\n" });
            text.push_str(&json(event));
        }
        text.push_str("\n]}\n");
        text
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data can be serialised")
}

fn boot((state, step): &(Box<str>, Step)) -> FileBoot {
    FileBoot {
        state: serde_json::from_str(state).unwrap_or_default(),
        rules: rules(step.rules),
        timers: step.alarms.clone(),
        waits: step.waits.clone(),
    }
}

/// The numbers of rules, of which there is one bit each.
fn rules(mask: u32) -> Vec<u32> {
    (0..u32::BITS).filter(|rule| mask >> rule & 1 == 1).collect()
}

fn event(trace: &Trace, i: usize, clock: Vec<u64>) -> FileEvent {
    let record = &trace.records[i];
    let parse = |text: &str| serde_json::from_str(text).ok();
    let data = trace.notes.get(&i).and_then(|text| parse(text));
    let step = trace.steps.get(&i).cloned().unwrap_or_default();
    let base = FileEvent {
        rules: rules(step.rules),
        timers: step.alarms,
        waits: step.waits,
        at: record.at.as_nanos(),
        node: record.node.0,
        lamport: record.lamport,
        data,
        state: trace.states.get(&i).and_then(|text| parse(text)),
        clock,
        ..FileEvent::default()
    };
    let named = |event: &str| FileEvent { event: event.to_owned(), ..base.clone() };
    let peer = |event: &str, peer: u32| FileEvent { peer: Some(peer), ..named(event) };
    let label = |label| Some(trace.name(label).to_owned());
    let meant = |event: &str, mark: Observation| match mark {
        Observation::Note(note) => {
            let note = FileNote::new(note, Family::of_id(&trace.algorithm));
            FileEvent { note: Some(note), ..named(event) }
        }
        mark => FileEvent { mark: Some(mark), ..named(event) },
    };
    match record.event() {
        Event::Send { to, serial, label: l, owner, bytes, copy, control } => FileEvent {
            message: Some(serial),
            label: label(l),
            owner: Some(owner),
            bytes: (bytes > 0).then_some(bytes),
            copy,
            control,
            fingerprint: trace.fingerprints.get(serial as usize).copied().filter(|it| *it != 0),
            data: trace.messages.get(serial as usize).and_then(|text| parse(text)),
            ..peer("send", to.0)
        },
        Event::Deliver { from, serial, label: l } => {
            FileEvent { message: Some(serial), label: label(l), ..peer("deliver", from.0) }
        }
        Event::Lose { to, serial, label: l } => {
            FileEvent { message: Some(serial), label: label(l), ..peer("lose", to.0) }
        }
        Event::Timer { label: l } => FileEvent { label: label(l), ..named("timer") },
        Event::Request(mark) => {
            let due = Some(record.due()).filter(|due| *due < record.at).map(Time::as_nanos);
            FileEvent { due, ..meant("request", mark) }
        }
        Event::Notice(mark) => meant("notice", mark),
        Event::Crash => named("crash"),
        Event::Recover => named("recover"),
        Event::RecoverEmpty => named("recover-empty"),
        Event::Pause => named("pause"),
        Event::Resume => named("resume"),
        Event::Partition(number) => {
            FileEvent { groups: Some(groups(trace, number)), ..named("partition") }
        }
        Event::Heal => named("heal"),
        Event::Suspect(p) => peer("suspect", p.0),
        Event::Restore(p) => peer("restore", p.0),
        Event::Join(p) => peer("join", p.0),
        Event::Leave => named("leave"),
        Event::Facts(facts) => FileEvent { facts: Some(facts), ..named("facts") },
    }
}

/// Who is together after a partition, each group by its first member.
fn groups(trace: &Trace, number: u32) -> Vec<Vec<u32>> {
    let mut groups: Vec<(u32, Vec<u32>)> = Vec::new();
    for (node, &group) in (0..).zip(trace.partitions.get(number as usize).into_iter().flatten()) {
        match groups.iter_mut().find(|(it, _)| *it == group) {
            Some((_, members)) => members.push(node),
            None => groups.push((group, vec![node])),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

impl FileEvent {
    /// The record of it, whose names and groups become those of `trace`.
    fn record(&self, trace: &mut Trace) -> Result<Record, String> {
        let nodes = trace.nodes;
        let known = |node: u32| match node < nodes {
            true => Ok(NodeId(node)),
            false => Err(format!("p{node} is none of its {nodes} nodes")),
        };
        let node = known(self.node)?;
        let missing = |what: &str| format!("{} says no {what}", self.event);
        let peer = || known(self.peer.ok_or_else(|| missing("peer"))?);
        let serial = || self.message.ok_or_else(|| missing("message"));
        let family = Family::of_id(&trace.algorithm);
        let mark = || match (&self.note, self.mark) {
            (Some(note), _) => note.note(family).map(Observation::Note),
            (None, mark) => mark.ok_or_else(|| missing("mark")),
        };
        let label = |trace: &mut Trace| match &self.label {
            Some(name) => trace.intern(name),
            None => Err(missing("label")),
        };
        let event = match self.event.as_str() {
            "send" => Event::Send {
                to: peer()?,
                serial: serial()?,
                owner: match self.owner.ok_or_else(|| missing("owner"))? {
                    Owner::Node(node) => Owner::Node(known(node.0)?),
                    owner => owner,
                },
                bytes: self.bytes.unwrap_or(0).min(Event::MOST_BYTES),
                copy: self.copy,
                control: self.control,
                label: label(trace)?,
            },
            "deliver" => Event::Deliver { from: peer()?, serial: serial()?, label: label(trace)? },
            "lose" => Event::Lose { to: peer()?, serial: serial()?, label: label(trace)? },
            "timer" => Event::Timer { label: label(trace)? },
            "request" => Event::Request(mark()?),
            "notice" => Event::Notice(mark()?),
            "crash" => Event::Crash,
            "recover" => Event::Recover,
            "recover-empty" => Event::RecoverEmpty,
            "pause" => Event::Pause,
            "resume" => Event::Resume,
            "partition" => {
                let groups = self.groups.as_ref().ok_or_else(|| missing("groups"))?;
                let mut of: Vec<u32> =
                    (0..trace.nodes).map(|node| groups.len() as u32 + node).collect();
                for (group, members) in (0..).zip(groups) {
                    for &member in members {
                        of[known(member)?.index()] = group;
                    }
                }
                trace.partition(of)
            }
            "heal" => Event::Heal,
            "suspect" => Event::Suspect(peer()?),
            "restore" => Event::Restore(peer()?),
            "join" => Event::Join(peer()?),
            "leave" => Event::Leave,
            "facts" => Event::Facts(self.facts.ok_or_else(|| missing("facts"))?),
            other => return Err(format!("there is no event {other:?}")),
        };
        if let Event::Request(mark) | Event::Notice(mark) = event
            && let Observation::Follows { leader: peer, .. }
            | Observation::Suspects(peer)
            | Observation::Trusts(peer)
            | Observation::Note(Note { who: peer, .. }) = mark
        {
            known(peer.0)?;
        }
        if let (Event::Send { serial, .. }, Some(fingerprint)) = (event, self.fingerprint) {
            // A number that no run of so few events has gets no room.
            if serial as usize > MOST_MESSAGES {
                return Err(format!("message {serial} is one of too many"));
            }
            trace.note_fingerprint(serial, fingerprint);
        }
        let record = Record::new(Time::from_nanos(self.at), node, self.lamport, event);
        if record.event() != event {
            return Err(format!("no {} means that", self.event));
        }
        Ok(match (event, self.due) {
            (Event::Request(Observation::Asked), Some(due)) => {
                record.overdue(Time::from_nanos(due))
            }
            _ => record,
        })
    }
}

/// How a replay compares with its file.
#[derive(Clone, Debug, PartialEq)]
pub enum Replay {
    /// Event by event the same.
    Identical {
        /// How many events.
        events: usize,
    },
    /// Different from some event on.
    Differs {
        /// The index of the first event that differs.
        event: usize,
        /// What the file says; `None` if it ends there.
        recorded: Option<Box<FileEvent>>,
        /// What the replay did; `None` if it ended there.
        replayed: Option<Box<FileEvent>>,
    },
}

/// Compares a file with a run made anew from its specification. Of what a file of an earlier version
/// does not say, nothing is compared.
pub fn replay(file: &TraceFile, again: &Outcome) -> Replay {
    let mut fresh = TraceFile::new(&file.spec, again);
    let mut recorded = file.events.clone();
    if file.end.is_none() {
        // Earlier programs did not write these down.
        for event in &mut fresh.events {
            (event.due, event.groups) = (None, None);
        }
    }
    if file.version < 3 {
        for event in &mut fresh.events {
            (event.rules, event.timers, event.waits) = Default::default();
            event.control = false;
            if matches!(event.event.as_str(), "recover" | "recover-empty") {
                event.state = None;
            }
        }
        fresh.booted.clear();
        for value in recorded.iter_mut().flat_map(|event| [&mut event.data, &mut event.state]) {
            value.iter_mut().for_each(name_members);
        }
    }
    let fresh_events = fresh.events;
    let same = recorded.iter().zip(&fresh_events).take_while(|(a, b)| a == b).count();
    let booted = file.booted == fresh.booted;
    if booted && same == recorded.len() && same == fresh_events.len() {
        return Replay::Identical { events: same };
    }
    let same = if booted { same } else { 0 };
    let at = |events: &[FileEvent]| events.get(same).cloned().map(Box::new);
    Replay::Differs { event: same, recorded: at(&recorded), replayed: at(&fresh_events) }
}

/// Writes sets of nodes, of which versions 1 and 2 have the words, as lists of names.
fn name_members(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.len() == 2
                && fields.contains_key("low")
                && let Ok(set) = serde_json::from_value::<NodeSet>(value.clone())
            {
                *value = serde_json::to_value(set).expect("plain data can be serialised");
            } else if let Value::Object(fields) = value {
                fields.values_mut().for_each(name_members);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(name_members),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_no_version_or_a_later_one_are_refused() {
        let parse = |version: u32| {
            let text = format!("{{\"format\":\"conclave-trace\",\"version\":{version}}}");
            TraceFile::parse(&text).unwrap_err()
        };
        assert!(matches!(parse(0), TraceError::NoVersion));
        assert!(matches!(parse(VERSION), TraceError::Corrupt(_)));
        assert!(matches!(parse(VERSION + 1), TraceError::FutureVersion(_)));
    }
}
