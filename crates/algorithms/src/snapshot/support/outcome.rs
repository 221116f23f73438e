//! What the node that started a snapshot tells when it has all of it.

use conclave_protocol::{Ctx, Protocol};

use crate::snapshot::chandy_lamport::Worth;
use crate::snapshot::{GlobalState, Notice, in_whatever_order};

/// Tells what was on its way on each channel, the parts, and the whole. In which order messages were
/// sent is not claimed.
pub fn tell<W, P>(whole: GlobalState<P>, worth: Option<Worth<P>>, ctx: &mut Ctx<W>)
where
    W: Protocol<Notice = Notice<P>>,
    P: Protocol,
{
    let (sid, topology) = (whole.sid, ctx.topology);
    for (to, share) in &whole.shares {
        for from in topology.sources(*to) {
            let content = share.channels.get(&from).map_or(&[][..], Vec::as_slice);
            ctx.notify(Notice::Known(sid, [from, *to], in_whatever_order(content)));
        }
    }
    let mut all = 0_u64;
    for (node, share) in &whole.shares {
        let worth = worth.map_or(0, |(state, message)| {
            let messages = share.channels.values().flatten().map(message);
            messages.fold(state(&share.state), u64::wrapping_add)
        });
        all = all.wrapping_add(worth);
        ctx.notify(Notice::Gathered(*node, Box::new(share.clone()), worth));
    }
    ctx.notify(Notice::Collected(Box::new(whole), all));
}
