//! Traces as files: one JSON format for every driver.
//!
//! `docs/trace-format.md` describes it for readers of files; this is the same for the compiler.

use std::fmt::{self, Write};

use conclave_protocol::{Mark, Property};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::{Event, Outcome, Owner, RunSpec, Trace};

/// The latest version of the format that this program reads. It writes the first that has what a
/// run needs: version 1, or 2 if the run follows decisions.
pub const VERSION: u32 = 2;

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
    /// What happened, in order.
    pub events: Vec<FileEvent>,
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
    /// What a request or notice means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
    /// The content of the message, request, notice or timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The state of the node after the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
    /// The node's Lamport clock.
    pub lamport: u32,
    /// The event's vector clock, in systems of up to 64 nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock: Vec<u64>,
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
            version: if spec.decisions.is_some() { 2 } else { 1 },
            spec: spec.clone(),
            verdict: None,
            events: events.collect(),
        }
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

fn event(trace: &Trace, i: usize, clock: Vec<u64>) -> FileEvent {
    let record = &trace.records[i];
    let parse = |text: &str| serde_json::from_str(text).ok();
    let data = trace.notes.get(&i).and_then(|text| parse(text));
    let base = FileEvent {
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
    match record.event() {
        Event::Send { to, serial, label: l, owner, bytes, copy } => FileEvent {
            message: Some(serial),
            label: label(l),
            owner: Some(owner),
            bytes: (bytes > 0).then_some(bytes),
            copy,
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
        Event::Request(mark) => FileEvent { mark: Some(mark), ..named("request") },
        Event::Notice(mark) => FileEvent { mark: Some(mark), ..named("notice") },
        Event::Crash => named("crash"),
        Event::Recover => named("recover"),
        Event::RecoverEmpty => named("recover-empty"),
        Event::Pause => named("pause"),
        Event::Resume => named("resume"),
        Event::Partition => named("partition"),
        Event::Heal => named("heal"),
        Event::Suspect(p) => peer("suspect", p.0),
        Event::Restore(p) => peer("restore", p.0),
        Event::Join(p) => peer("join", p.0),
        Event::Leave => named("leave"),
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

/// Compares a file with a run made anew from its specification.
pub fn replay(file: &TraceFile, again: &Outcome) -> Replay {
    let fresh = TraceFile::new(&file.spec, again).events;
    let same = file.events.iter().zip(&fresh).take_while(|(a, b)| a == b).count();
    if same == file.events.len() && same == fresh.len() {
        return Replay::Identical { events: same };
    }
    let at = |events: &[FileEvent]| events.get(same).cloned().map(Box::new);
    Replay::Differs { event: same, recorded: at(&file.events), replayed: at(&fresh) }
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
