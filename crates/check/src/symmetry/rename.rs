//! What the algorithm's values say when the nodes have other names.

use conclave_protocol::{Kind, NodeId, Numbered};

use crate::Requests;
use crate::local::{Envelope, Local, Standing, Stimulus};

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

/// What happens, if it is no message.
pub(crate) fn stimulus(
    stimulus: Stimulus,
    names: &[NodeId],
    numbered: &mut dyn Numbered,
) -> Option<Stimulus> {
    let name = |node: NodeId| names[node.index()];
    Some(match stimulus {
        Stimulus::Ask(request) => Stimulus::Ask(numbered.renamed(Kind::Request, request, names)?),
        Stimulus::Timer(timer) => Stimulus::Timer(numbered.renamed(Kind::Timer, timer, names)?),
        Stimulus::Suspect(peer) => Stimulus::Suspect(name(peer)),
        Stimulus::Trust(peer) => Stimulus::Trust(name(peer)),
        Stimulus::Join(sponsor) => Stimulus::Join(name(sponsor)),
        Stimulus::Boot { .. } | Stimulus::Leave => stimulus,
        Stimulus::Deliver { .. } => unreachable!("messages have numbers of their own"),
    })
}
