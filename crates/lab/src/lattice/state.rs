//! The global state of a cut: what each node is at, and what is in the channels.

use std::collections::BTreeMap;

use conclave_protocol::{NodeId, Observation};
use conclave_sim::{Event, Trace, TraceFile};
use serde::Serialize;
use serde_json::Value;

use super::{Computation, Scope, Sent};

/// What is known of a node after so many of its events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// It is in the critical section.
    pub inside: bool,
    /// It has asked or called, and not been answered.
    pub waiting: bool,
    /// It has crashed.
    pub down: bool,
    /// Whom it takes for the leader.
    pub leader: Option<NodeId>,
    /// Whom it suspects.
    pub suspects: Vec<NodeId>,
}

impl Status {
    /// Of each node, by the number of its events so far.
    pub fn all(run: &Computation) -> Vec<Vec<Self>> {
        let of = |(events, booted): (&Vec<super::Happening>, &Vec<Observation>)| {
            let mut now = Self::default();
            booted.iter().for_each(|mark| now.hear(mark));
            let mut all = vec![now.clone()];
            for event in events {
                now.meet(event.cause);
                event.notices.iter().for_each(|mark| now.hear(mark));
                all.push(now.clone());
            }
            all
        };
        run.events.iter().zip(&run.booted).map(of).collect()
    }

    fn meet(&mut self, cause: Event) {
        match cause {
            Event::Request(Observation::Asked | Observation::Called) => self.waiting = true,
            Event::Request(Observation::Left) => self.inside = false,
            Event::Crash => *self = Self { down: true, ..Self::default() },
            Event::Recover | Event::RecoverEmpty => *self = Self::default(),
            _ => {}
        }
    }

    fn hear(&mut self, mark: &Observation) {
        match *mark {
            Observation::Asked => self.waiting = true,
            Observation::Entered { .. } => (self.inside, self.waiting) = (true, false),
            Observation::Left => self.inside = false,
            Observation::Lost => (self.inside, self.waiting) = (false, false),
            Observation::Follows { leader, .. } => {
                (self.leader, self.waiting) = (Some(leader), false);
            }
            Observation::Unled => self.leader = None,
            Observation::Suspects(peer) if !self.suspects.contains(&peer) => {
                self.suspects.push(peer);
            }
            Observation::Trusts(peer) => self.suspects.retain(|it| *it != peer),
            _ => {}
        }
    }
}

/// What messages and states said, as far as the trace has it.
#[derive(Debug)]
pub(super) struct Contents<'a> {
    trace: &'a Trace,
    file: Option<&'a TraceFile>,
    scope: Scope,
    messages: BTreeMap<u32, &'a Value>,
}

impl<'a> Contents<'a> {
    pub(super) fn new(trace: &'a Trace, file: Option<&'a TraceFile>, scope: Scope) -> Self {
        let events = file.map_or(&[][..], |file| &file.events);
        let said = events.iter().filter(|event| event.event == "send");
        let messages = said.filter_map(|event| Some((event.message?, event.data.as_ref()?)));
        Self { trace, file, scope, messages: messages.collect() }
    }

    /// The global state of a cut.
    pub(super) fn state(
        &self,
        run: &Computation,
        statuses: &[Vec<Status>],
        cut: &[u32],
    ) -> StateData {
        let nodes = cut.iter().enumerate().map(|(node, &events)| {
            let Status { inside, waiting, down, leader, suspects } =
                statuses[node][events as usize].clone();
            let state = self.state_of(run, node, events).filter(|_| !down);
            let id = node as u32;
            NodeData { node: id, events, inside, waiting, down, leader, suspects, state }
        });
        let nodes = nodes.collect();
        let mut channels: BTreeMap<(NodeId, NodeId), Vec<MessageData>> = BTreeMap::new();
        for message in run.under_way(cut) {
            let data = self.message(message);
            channels.entry((message.from, message.to)).or_default().push(data);
        }
        let channel = |((from, to), messages)| ChannelData { from, to, messages };
        StateData { nodes, channels: channels.into_iter().map(channel).collect() }
    }

    /// A message on its way.
    pub(super) fn message(&self, message: &Sent) -> MessageData {
        let label = self.trace.name(message.label).to_owned();
        let data = self.messages.get(&message.serial).copied().cloned();
        MessageData { label, sent: message.sent, data }
    }

    /// The state of a node after so many of its events.
    fn state_of(&self, run: &Computation, node: usize, events: u32) -> Option<Value> {
        let file = self.file?;
        let state = match (events as usize).checked_sub(1) {
            None => &file.booted.get(node)?.state,
            Some(last) => {
                let record = run.events[node][last].records.start;
                file.events.get(record)?.state.as_ref()?
            }
        };
        // Of a wrapper around an application, what it wraps.
        let inside = || state.pointer("/app/state").or_else(|| state.get("app"));
        let inside = if self.scope == Scope::Application { inside() } else { None };
        Some(inside.unwrap_or(state).clone())
    }
}

/// The global state of a cut.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StateData {
    /// Each node.
    pub nodes: Vec<NodeData>,
    /// The channels that are not empty.
    pub channels: Vec<ChannelData>,
}

/// What a node is at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeData {
    /// Which.
    pub node: u32,
    /// How many events it has behind it.
    pub events: u32,
    /// It is in the critical section.
    pub inside: bool,
    /// It has asked or called, and not been answered.
    pub waiting: bool,
    /// It has crashed.
    pub down: bool,
    /// Whom it takes for the leader.
    pub leader: Option<NodeId>,
    /// Whom it suspects.
    pub suspects: Vec<NodeId>,
    /// Its state, if the trace has it; of a wrapper around an application, that of the application.
    pub state: Option<Value>,
}

/// What is on its way from one node to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChannelData {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// The messages, in the order of sending.
    pub messages: Vec<MessageData>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageData {
    /// Its name.
    pub label: String,
    /// The sender's event that sent it; 0 if it did so by booting.
    pub sent: u32,
    /// What it says, if the trace has it.
    pub data: Option<Value>,
}

impl MessageData {
    /// What it says, or its name if the trace has no more.
    pub fn words(&self) -> String {
        self.data.as_ref().map_or_else(|| self.label.clone(), brief)
    }
}

impl NodeData {
    /// What it is at, in words: where it is in the critical section or an election, and its state.
    pub fn words(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        let flags =
            [(self.down, "down"), (self.inside, "inside"), (self.waiting, "waiting")].into_iter();
        words.extend(flags.filter(|(is, _)| *is).map(|(_, word)| word.to_owned()));
        words.extend(self.leader.map(|leader| match leader.0 == self.node {
            true => "leads".to_owned(),
            false => format!("follows {leader}"),
        }));
        words.extend(self.suspects.iter().map(|peer| format!("suspects {peer}")));
        words.extend(self.state.as_ref().map(brief));
        words.join(", ")
    }
}

/// A value in few words: of variants within variants the innermost, as in `Transfer(4)`.
pub fn brief(value: &Value) -> String {
    let list = |items: Vec<String>| items.join(", ");
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(it) => it.to_string(),
        Value::Number(it) => it.to_string(),
        Value::String(it) => it.clone(),
        Value::Array(items) => format!("[{}]", list(items.iter().map(brief).collect())),
        Value::Object(fields) => {
            let variant = |(name, value): (&String, &Value)| {
                let named = name.starts_with(char::is_uppercase) && fields.len() == 1;
                named.then(|| match value {
                    Value::Object(inner) if is_variant(inner) => brief(value),
                    Value::Object(_) => format!("{name}{{{}}}", brief(value)),
                    Value::Null => name.clone(),
                    other => format!("{name}({})", brief(other)),
                })
            };
            if let Some(text) = fields.iter().next().and_then(variant) {
                return text;
            }
            list(fields.iter().map(|(name, value)| format!("{name} {}", brief(value))).collect())
        }
    }
}

fn is_variant(fields: &serde_json::Map<String, Value>) -> bool {
    fields.len() == 1 && fields.keys().all(|name| name.starts_with(char::is_uppercase))
}
