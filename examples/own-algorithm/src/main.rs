//! The lowest node keeps the key. A node that wants in asks it; it hands the key to the nodes that
//! asked, one after the other.
//!
//! There is one key, so there is one node inside.
//!
//! # Rules
//!
//! 1. Acquire: send `Ask` to node 0.
//! 2. `Ask`, at node 0: with the key here, send it to the node that asked; otherwise queue that node.
//! 3. `Key` for a waiting node: enter.
//! 4. Release: send `Back` to node 0.
//! 5. `Back`, at node 0: send the key to the head of the queue, if there is one.

use std::collections::VecDeque;
use std::process::ExitCode;

use conclave_algorithms::mutex::{self, Notice, Request};
use conclave_protocol::{Algorithm, Charge, Ctx, Entry, Never, NodeId, Protocol};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Keeper {
    grants: u64,
    away: bool,
    queue: VecDeque<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Msg { Ask, Key(u64), Back }

impl Protocol for Keeper {
    type Config = ();
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self { grants: 0, away: false, queue: VecDeque::new() }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            Request::Acquire => { ctx.rule(1); ctx.send(NodeId(0), Msg::Ask) }
            Request::Release => { ctx.rule(4); ctx.send(NodeId(0), Msg::Back) }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Ask => { ctx.rule(2); self.queue.push_back(from) }
            Msg::Key(token) => { ctx.rule(3); return ctx.notify(Notice::Acquired { token }) }
            Msg::Back => { ctx.rule(5); self.away = false }
        }
        if !self.away && let Some(next) = self.queue.pop_front() {
            self.away = true;
            self.grants += 1;
            ctx.send(next, Msg::Key(self.grants));
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        if matches!(msg, Msg::Key(_)) { Charge::Receiver } else { Charge::Sender }
    }
}

static KEEPER: Entry<Keeper> = Entry::new("mutex/my-keeper", "My keeper", |_| Ok(()))
    .summary("node 0 hands out one key")
    .text(include_str!("main.rs"))
    .holds(mutex::LOCK);

fn main() -> ExitCode {
    static OWN: &[&dyn Algorithm] = &[&KEEPER];
    conclave_lab_cli::main(OWN)
}
