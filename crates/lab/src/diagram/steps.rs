//! A trace taken apart into steps: what came to a node, and what the node did about it.

use std::collections::BTreeSet;
use std::ops::Range;

use conclave_protocol::{NodeId, Observation, Time};
use conclave_sim::{Event, Trace};

use super::{Piece, Tone};

/// One step of a node.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) at: Time,
    pub(crate) node: NodeId,
    /// Its records in the trace.
    pub(crate) records: Range<usize>,
    /// What set it off; `None` for what a node does on its first boot.
    pub(crate) cause: Option<Event>,
    /// Whether the same message has been delivered before.
    pub(crate) again: bool,
    /// Whether that is a control message.
    pub(crate) control: bool,
    pub(crate) sends: Vec<Sent>,
    pub(crate) notices: Vec<Observation>,
}

/// A message sent in a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) to: NodeId,
    pub(crate) label: u8,
    pub(crate) serial: u32,
    /// Whether it is a control message.
    pub(crate) control: bool,
    /// Whether the network lost it at once.
    pub(crate) lost: bool,
}

/// The steps of a run, in order.
pub(crate) fn steps(trace: &Trace) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut delivered, mut controls) = (BTreeSet::new(), BTreeSet::new());
    for (i, record) in trace.records.iter().enumerate() {
        let (at, node, event) = (record.at, record.node, record.event());
        let last = steps.last_mut().filter(|step| step.node == node && step.at == at);
        let fresh = |cause| Step {
            at,
            node,
            records: i..i + 1,
            cause,
            again: false,
            control: false,
            sends: Vec::new(),
            notices: Vec::new(),
        };
        match (event, last) {
            (Event::Send { to, label, serial, control, .. }, last) => {
                if control {
                    controls.insert(serial);
                }
                let sent = Sent { to, label, serial, control, lost: false };
                match last {
                    Some(step) => {
                        step.sends.push(sent);
                        step.records.end = i + 1;
                    }
                    None => steps.push(Step { sends: vec![sent], ..fresh(None) }),
                }
            }
            (Event::Notice(mark), last) => match last {
                Some(step) => {
                    step.notices.push(mark);
                    step.records.end = i + 1;
                }
                None => steps.push(Step { notices: vec![mark], ..fresh(None) }),
            },
            (Event::Lose { serial, .. }, Some(step))
                if step.sends.iter().any(|sent| sent.serial == serial) =>
            {
                step.sends.iter_mut().filter(|sent| sent.serial == serial).for_each(|sent| {
                    sent.lost = true;
                });
                step.records.end = i + 1;
            }
            (Event::Deliver { serial, .. }, _) => {
                let again = !delivered.insert(serial);
                let control = controls.contains(&serial);
                steps.push(Step { again, control, ..fresh(Some(event)) });
            }
            // What is true of all belongs to the step that made it so.
            (Event::Facts(_), _) => steps.iter_mut().last().into_iter().for_each(|step| {
                step.records.end = i + 1;
            }),
            _ => steps.push(fresh(Some(event))),
        }
    }
    steps
}

impl Step {
    /// Whether more than a message arrived.
    pub(crate) fn is_notable(&self) -> bool {
        !self.notices.is_empty() || !matches!(self.cause, Some(Event::Deliver { .. }) | None)
    }

    /// What happened, in words, arrows aside.
    pub(crate) fn words(&self, trace: &Trace, ascii: bool) -> Vec<Piece> {
        let mut words = Vec::new();
        words.extend(self.cause.and_then(|cause| of_cause(cause, trace)));
        words.extend(self.notices.iter().map(|&mark| of_notice(mark, self.node, trace)));
        words.extend(self.of_sends(trace, ascii));
        words
    }

    fn of_sends(&self, trace: &Trace, ascii: bool) -> Vec<Piece> {
        let arrow = if ascii { "->" } else { "→" };
        let mut grouped: Vec<(u8, Vec<NodeId>)> = Vec::new();
        for sent in self.sends.iter().filter(|sent| !sent.lost) {
            match grouped.iter_mut().find(|(label, _)| *label == sent.label) {
                Some((_, to)) => to.push(sent.to),
                None => grouped.push((sent.label, vec![sent.to])),
            }
        }
        let text = |(label, mut to): (u8, Vec<NodeId>)| {
            to.sort_unstable();
            let everybody = to.len() + 1 == trace.nodes as usize && to.len() > 2;
            let to = if everybody {
                "all".to_owned()
            } else if to.len() > 6 {
                format!("{} nodes", to.len())
            } else {
                to.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            };
            Piece { tone: Tone::Name, text: format!("{}{arrow}{to}", trace.name(label)) }
        };
        grouped.into_iter().map(text).collect()
    }
}

fn of_cause(cause: Event, trace: &Trace) -> Option<Piece> {
    let plain = |text: &str| Some(Piece { tone: Tone::Strong, text: text.to_owned() });
    let bad = |text: &str| Some(Piece { tone: Tone::Bad, text: text.to_owned() });
    match cause {
        Event::Request(Observation::Asked) => plain("asks"),
        Event::Request(Observation::Left) => plain("LEAVES"),
        Event::Request(Observation::Called) => plain("calls"),
        Event::Request(Observation::Note(note)) => plain(&trace.words(&note)),
        Event::Request(_) => plain("request"),
        Event::Timer { label } => plain(&format!("timer {}", trace.name(label))),
        Event::Crash => bad("CRASHES"),
        Event::Recover => plain("recovers"),
        Event::RecoverEmpty => bad("boots empty"),
        Event::Pause => bad("pauses"),
        Event::Resume => plain("goes on"),
        Event::Suspect(peer) => bad(&format!("hears {peer} is down")),
        Event::Restore(peer) => plain(&format!("hears {peer} is up")),
        Event::Join(sponsor) => plain(&format!("joins via {sponsor}")),
        Event::Leave => plain("asks to go"),
        Event::Deliver { .. }
        | Event::Send { .. }
        | Event::Lose { .. }
        | Event::Notice(_)
        | Event::Facts(_)
        | Event::Partition(_)
        | Event::Heal => None,
    }
}

fn of_notice(mark: Observation, node: NodeId, trace: &Trace) -> Piece {
    let (tone, text) = match mark {
        Observation::Entered { token } => (Tone::Good, format!("ENTERS #{token}")),
        Observation::Lost => (Tone::Bad, "REVOKED".to_owned()),
        Observation::Follows { leader, .. } if leader == node => (Tone::Good, "LEADS".to_owned()),
        Observation::Follows { leader, .. } => (Tone::Strong, format!("follows {leader}")),
        Observation::Unled => (Tone::Strong, "follows no leader".to_owned()),
        Observation::Suspects(peer) => (Tone::Bad, format!("suspects {peer}")),
        Observation::Trusts(peer) => (Tone::Strong, format!("trusts {peer}")),
        Observation::Note(note) => (Tone::Strong, trace.words(&note)),
        Observation::Asked => (Tone::Strong, "asks".to_owned()),
        Observation::Left => (Tone::Strong, "LEAVES".to_owned()),
        Observation::Called | Observation::Other => (Tone::Strong, "notice".to_owned()),
    };
    Piece { tone, text }
}
