//! A protocol that does nothing but tell its application what the failure detector thinks.

use conclave_protocol::{Ctx, Never, NodeId, Protocol};
use serde::{Deserialize, Serialize};

use super::Notice;

/// The state of a node: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Watch;

impl Protocol for Watch {
    type Config = ();
    type Request = Never;
    type Notice = Notice;
    type Msg = Never;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, _: NodeId, msg: Never, _: &mut Ctx<Self>) {
        match msg {}
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        ctx.notify(Notice::Suspects(peer));
    }

    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        ctx.notify(Notice::Trusts(peer));
    }
}
