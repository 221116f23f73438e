//! Objects and references to them: each node has references of its own, its roots, hands them on in
//! messages, takes further ones out of objects that it knows, and drops them. An object that no chain of
//! references leads to, from a root or from a message on its way, is garbage.
//!
//! Objects come in pairs: every second one is referred to by the one before, and by no root at first.

use std::fmt;
use std::time::Duration;

use conclave_protocol::family::reports::GARBAGE;
use conclave_protocol::{Ctx, Never, NodeId, Opt, Protocol, Setup, Unfit, Whole};
use serde::{Deserialize, Serialize};

use super::app::Application;

/// What can be set.
pub const OBJECTS: Opt =
    Opt { name: "objects", default: "4", help: "how many objects there are to refer to" };

/// There are facts about so many.
const MOST: u32 = u64::BITS - GARBAGE;

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Objects {
    /// Its references, a bit for each object.
    pub roots: u64,
    /// How much it will still do.
    left: u32,
}

/// What never changes.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How many objects there are.
    pub objects: u32,
    /// How much each node does with its references.
    pub rounds: u32,
    /// How long it takes to do something.
    pub every: Duration,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// A reference to an object.
    Ref(u32),
}

/// The timer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// It is time to do something with a reference.
    Act,
}

impl Protocol for Objects {
    type Config = Config;
    type Request = Never;
    type Notice = Never;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let own = |object: &u32| object / 2 % ctx.n() == ctx.me.0;
        let roots = (0..ctx.config.objects).step_by(2).filter(own);
        let roots = roots.fold(0, |roots, object| roots | 1 << object);
        let objects = Self { roots, left: ctx.config.rounds };
        objects.wait_if_busy(ctx);
        objects
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, _: NodeId, Msg::Ref(object): Msg, ctx: &mut Ctx<Self>) {
        if object >= ctx.config.objects {
            return;
        }
        let idle = self.roots == 0;
        self.roots |= 1 << object;
        if idle {
            self.wait_if_busy(ctx);
        }
    }

    /// It drops one of its references, sends it to another and drops it, sends a copy, or takes
    /// what the object refers to.
    fn on_timer(&mut self, Timer::Act: Timer, ctx: &mut Ctx<Self>) {
        if self.roots == 0 {
            return;
        }
        self.left = self.left.saturating_sub(1);
        let known: Vec<u32> = (0..MOST).filter(|object| self.roots >> object & 1 == 1).collect();
        let object = known[ctx.choose(known.len() as u32) as usize];
        let others: Vec<NodeId> = ctx.neighbors().collect();
        let many = others.len() as u32;
        let inside = refers(object, ctx.config.objects);
        let chosen = ctx.choose(2 * many + 1 + u32::from(inside.is_some()));
        match (chosen, inside) {
            (it, _) if it < 2 * many => {
                ctx.send(others[(it % many) as usize], Msg::Ref(object));
                if it < many {
                    self.roots &= !(1 << object);
                }
            }
            (it, Some(inside)) if it > 2 * many => self.roots |= 1 << inside,
            _ => self.roots &= !(1 << object),
        }
        self.wait_if_busy(ctx);
    }
}

impl Objects {
    fn wait_if_busy(self, ctx: &mut Ctx<Self>) {
        if self.roots != 0 && self.left > 0 {
            ctx.set_timer(Timer::Act, ctx.config.every);
        }
    }
}

/// What an object refers to, of so many.
fn refers(object: u32, objects: u32) -> Option<u32> {
    Some(object + 1).filter(|inside| object.is_multiple_of(2) && *inside < objects)
}

impl Application for Objects {
    const NAME: &'static str = "objects";

    fn constants(setup: &Setup) -> Result<Config, Unfit> {
        let objects = setup.option(OBJECTS.name, 4)?;
        if objects > MOST {
            return Err(Unfit::new(format!("objects={objects}: there is room for {MOST}")));
        }
        Ok(Config { objects, rounds: setup.option("rounds", 2)?, every: setup.delay / 2 })
    }

    fn lasting(config: &Config) -> u64 {
        (0..config.objects).fold(0, |bits, object| bits | 1 << (GARBAGE + object))
    }

    fn stable(whole: &Whole<'_, Self>) -> u64 {
        let roots = whole.nodes.iter().flatten().map(|node| node.roots);
        let sent = whole.messages.iter().map(|(.., Msg::Ref(object))| 1_u64 << (object % MOST));
        let mut live = roots.chain(sent).fold(0, |live, more| live | more);
        for object in 0..whole.config.objects {
            if live >> object & 1 == 1 {
                let inside = refers(object, whole.config.objects);
                live |= inside.map_or(0, |inside| 1 << inside);
            }
        }
        (0..whole.config.objects)
            .filter(|object| live >> object & 1 == 0)
            .fold(0, |bits, object| bits | 1 << (GARBAGE + object))
    }

    fn is_active(&self) -> bool {
        self.roots != 0 && self.left > 0
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = (0..MOST).filter(|object| self.roots >> object & 1 == 1);
        let known: Vec<String> = known.map(|object| object.to_string()).collect();
        match known.is_empty() {
            true => f.write_str("no reference"),
            false => write!(f, "refers to {}", known.join(", ")),
        }
    }

    fn show_msg(Msg::Ref(object): &Msg, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reference to {object}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_garbage_when_no_chain_leads_to_it_from_a_root_or_a_message() {
        let config = Config { objects: 4, rounds: 0, every: Duration::ZERO };
        let garbage = |roots: [u64; 2], sent: &[u32]| {
            let nodes = roots.map(|roots| Objects { roots, left: 0 });
            let sent: Vec<Msg> = sent.iter().map(|object| Msg::Ref(*object)).collect();
            let messages = sent.iter().map(|msg| (NodeId(0), NodeId(1), msg)).collect();
            let nodes = nodes.iter().map(Some).collect();
            Objects::stable(&Whole { config: &config, nodes, messages }) >> GARBAGE
        };
        assert_eq!(garbage([0b0001, 0b0100], &[]), 0, "0 refers to 1, and 2 to 3");
        assert_eq!(garbage([0, 0b0100], &[]), 0b0011);
        assert_eq!(garbage([0, 0b0100], &[0]), 0, "a reference to 0 is on its way");
        assert_eq!(garbage([0b0010, 0], &[]), 0b1101, "1 refers to nothing");
    }
}
