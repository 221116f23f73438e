//! What the algorithm's values say when the nodes have other names.

use conclave_protocol::{Input, Kind, NodeId, Numbered};

use crate::Requests;
use crate::local::{Envelope, Local, Standing};
use crate::space::LocalEvent;

/// Bits that stand for nodes.
pub(super) fn mask(bits: u32, names: &[NodeId]) -> u32 {
    let set = (0..).zip(names).filter(|(node, _)| bits >> node & 1 == 1);
    set.fold(0, |mask, (_, name)| mask | 1 << name.0)
}

/// Bits that stand for requests, so many of each node.
fn request_mask(bits: u64, names: &[NodeId], requests: Requests) -> u64 {
    let Some(requests) = requests.count() else { return 0 };
    let mut mask = 0;
    for bit in (0..u64::BITS).filter(|bit| bits >> bit & 1 == 1) {
        let name = names[(bit / requests) as usize].0;
        mask |= 1_u64.checked_shl(name * requests + bit % requests).unwrap_or(0);
    }
    mask
}

/// What stands at a node, when node `i` is called `names[i]`.
pub(crate) fn local(
    local: &Local,
    names: &[NodeId],
    requests: Requests,
    numbered: &mut dyn Numbered,
) -> Option<Local> {
    let mut timers = Vec::new();
    for &(timer, left) in &local.timers {
        timers.push((numbered.renamed(Kind::Timer, timer, names)?, left));
    }
    timers.sort_by_cached_key(|&(timer, _)| numbered.print(Kind::Timer, timer));
    let standing = &local.standing;
    Some(Local {
        state: optional(Kind::State, local.state, names, numbered)?,
        client: numbered.renamed(Kind::Client, local.client, names)?,
        timers,
        stable: optional(Kind::Stable, local.stable, names, numbered)?,
        left: local.left,
        standing: Standing {
            follows: standing.follows.map(|leader| names[leader.index()]),
            suspects: mask(standing.suspects, names),
            ..standing.clone()
        },
        told: mask(local.told, names),
        clock: local.clock,
        knows: request_mask(local.knows, names, requests),
        preceded: request_mask(local.preceded, names, requests),
    })
}

#[expect(clippy::option_option, reason = "there may be nothing to rename, and it may fail")]
fn optional(
    kind: Kind,
    number: Option<u32>,
    names: &[NodeId],
    numbered: &mut dyn Numbered,
) -> Option<Option<u32>> {
    match number {
        Some(number) => numbered.renamed(kind, number, names).map(Some),
        None => Some(None),
    }
}

/// A message with what is attached to it.
pub(crate) fn envelope(
    envelope: Envelope,
    names: &[NodeId],
    requests: Requests,
    numbered: &mut dyn Numbered,
) -> Option<Envelope> {
    Some(Envelope {
        msg: numbered.renamed(Kind::Message, envelope.msg, names)?,
        knows: request_mask(envelope.knows, names, requests),
        owner: envelope.owner,
        carried: envelope.carried,
    })
}

/// An event at a node, if it is no message.
pub(crate) fn event(
    event: LocalEvent,
    names: &[NodeId],
    numbered: &mut dyn Numbered,
) -> Option<LocalEvent> {
    let name = |node: NodeId| names[node.index()];
    let LocalEvent::Input(input) = event else { return Some(event) };
    Some(LocalEvent::Input(match input {
        Input::Request(request) => {
            Input::Request(numbered.renamed(Kind::Request, request, names)?)
        }
        Input::Timer(timer) => Input::Timer(numbered.renamed(Kind::Timer, timer, names)?),
        Input::Suspect(peer) => Input::Suspect(name(peer)),
        Input::Restore(peer) => Input::Restore(name(peer)),
        Input::Join(sponsor) => Input::Join(name(sponsor)),
        Input::Leave => Input::Leave,
        Input::Message { .. } => unreachable!("messages have numbers of their own"),
    }))
}
