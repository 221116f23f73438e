//! Some nodes of a large overlay serve the others: every node is a client of the node that owns a
//! key derived from its own, and the owner of such a key is a superpeer. A node does not choose to
//! be one; the ring of keys says which nodes are.
//!
//! Keys have `m` bits. Of these the first `k` are the number of a group; the key of a group is that
//! number followed by zeros, and belongs to the first node at or after it on the ring. All nodes of
//! a group look up the same key, and the ring has one owner for each key, so they agree. A crash
//! moves the key to the next node, and a return moves it back; those whose superpeer that concerns
//! look again.
//!
//! Lookups travel as in Chord: each node knows the first node at or after its own key plus every
//! power of two, and passes a lookup on to the last of them that is not beyond the key; so the way
//! that is left is at least halved with each hop.
//!
//! # Rules
//!
//! 1. A node boots, or its application asks: look up the first `k` bits of the own key, followed by
//!    zeros. If it is owned here, this node is a superpeer and its own client. Otherwise pass
//!    `Lookup` on, and try again if there is no answer within the time that the longest way takes.
//! 2. `Lookup` of a key that is owned here: answer its origin with `Found`. Any other: pass it on
//!    towards the key.
//! 3. `Found` in answer to the last lookup: its sender is the superpeer.
//! 4. The superpeer, or a node on the way of a lookup, is suspected: look up again. A node that comes
//!    to lie between the key and the superpeer returns: likewise.
//!
//! # Cost
//!
//! There are `2^k` keys of groups, so at most `min(2^k, N)` superpeers; with `N` keys at random,
//! `2^k (1 − (1 − 2^−k)^N)` are expected, which is about `2^k` if there are many more nodes than
//! groups. Each serves about `N / 2^k` nodes. A lookup takes about half of `log2 N` hops, and one
//! more message back.
//!
//! # Known failures
//!
//! The figure `2^(k−m) N` that is sometimes given is the number of nodes whose key *happens to be*
//! that of a group: with long keys, none. A group is as large as chance makes it: load is even on
//! average only, and superpeers are near their clients on the ring of keys, which says nothing about
//! the network.

use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::Case;
use conclave_protocol::{
    Crashes, Ctx, Detector, Entry, KeySpace, Links, Model, NodeId, NodeSet, Opt, Property,
    Protocol, Setup, Stamp, Timing, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{Notice, Request, SEVERAL};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SuperpeerDht {
    /// Whose client this node is.
    superpeer: Option<NodeId>,
    /// How often it has looked for one.
    lookups: u64,
    /// Whether it is looking.
    looking: bool,
    /// How often it has booted: the term in which it serves.
    term: u64,
    suspected: NodeSet,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// Who owns this key?
    Lookup {
        /// The key.
        key: u64,
        /// Who wants to know.
        origin: NodeId,
        /// Its how manieth lookup this is.
        number: u64,
    },
    /// I do.
    Found {
        /// The number of the lookup.
        number: u64,
        /// The term in which the sender serves.
        term: u64,
    },
}

/// What a node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// The answer to a lookup.
    Retry,
}

/// How keys are grouped, and how long to wait for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// So many bits are the number of a group.
    prefix: u32,
    retry: Duration,
}

impl Protocol for SuperpeerDht {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    /// How often the node has booted.
    type Stable = u64;

    fn start(saved: Option<u64>, ctx: &mut Ctx<Self>) -> Self {
        let term = saved.unwrap_or(0) + 1;
        ctx.save(term);
        let suspected = NodeSet::new();
        let mut state = Self { superpeer: None, lookups: 0, looking: false, term, suspected };
        state.look(ctx);
        state
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Campaign => self.look(ctx),
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::Lookup { key, origin, number } => {
                ctx.rule(2);
                match self.next_hop(key, ctx) {
                    Some(next) => ctx.send(next, msg),
                    None => ctx.send(origin, Msg::Found { number, term: self.term }),
                }
            }
            // Rule 3.
            Msg::Found { number, term } if number == self.lookups && self.looking => {
                ctx.rule(3);
                self.looking = false;
                ctx.cancel_timer(Timer::Retry);
                if self.superpeer != Some(from) {
                    self.superpeer = Some(from);
                    let epoch = Stamp { time: term, node: from }.token();
                    ctx.notify(Notice::Elected { leader: from, epoch });
                }
            }
            Msg::Found { .. } => {}
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            // Rule 1.
            Timer::Retry => self.look(ctx),
        }
    }

    /// Rule 4.
    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.suspected.insert(peer);
        // A lookup under way may have been lost with the peer.
        if self.looking || self.superpeer == Some(peer) {
            ctx.rule(4);
            self.look(ctx);
        }
    }

    /// Rule 4.
    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        self.suspected.remove(peer);
        let space = keys(ctx);
        let key = group_key(space, ctx);
        let from_key = |node| way(space, key, space.key(node));
        if self.looking || self.superpeer.is_none_or(|old| from_key(peer) < from_key(old)) {
            ctx.rule(4);
            self.look(ctx);
        }
    }
}

impl SuperpeerDht {
    /// Rule 1: looks up the superpeer of this node's group.
    fn look(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(1);
        self.lookups += 1;
        self.looking = true;
        let (key, origin, number) = (group_key(keys(ctx), ctx), ctx.me, self.lookups);
        match self.next_hop(key, ctx) {
            Some(next) => {
                ctx.send(next, Msg::Lookup { key, origin, number });
                ctx.set_timer(Timer::Retry, ctx.config.retry);
            }
            // To oneself, at no cost.
            None => ctx.send(origin, Msg::Found { number, term: self.term }),
        }
    }

    /// Where a lookup of `key` goes from here; nowhere, if this node owns it.
    fn next_hop(&self, key: u64, ctx: &Ctx<Self>) -> Option<NodeId> {
        let space = keys(ctx);
        let own = space.key(ctx.me);
        let before = self.step(ctx.me, -1, ctx);
        if before == ctx.me || way(space, key, own) < way(space, space.key(before), own) {
            return None;
        }
        let left = way(space, own, key);
        let next = self.step(ctx.me, 1, ctx);
        if left <= way(space, own, space.key(next)) {
            return Some(next);
        }
        // The furthest node known that is not beyond the key.
        for power in (0..=left.ilog2()).rev() {
            let beyond = own.wrapping_add(1 << power) & all_bits(space);
            let finger = space.owner(beyond);
            let finger = match self.suspected.contains(finger) {
                true => self.step(finger, 1, ctx),
                false => finger,
            };
            if finger != ctx.me && way(space, own, space.key(finger)) < left {
                return Some(finger);
            }
        }
        Some(next)
    }

    /// The next node on the ring, in one direction or the other, that is not suspected; this one,
    /// if there is no other.
    fn step(&self, node: NodeId, direction: i64, ctx: &Ctx<Self>) -> NodeId {
        let mut at = i64::from(node.0);
        loop {
            at = (at + direction).rem_euclid(i64::from(ctx.n()));
            let next = NodeId(at as u32);
            if next == ctx.me || !self.suspected.contains(next) {
                return next;
            }
        }
    }
}

fn keys<'a>(ctx: &Ctx<'a, SuperpeerDht>) -> &'a KeySpace {
    ctx.topology.key_space().expect("the model asks for keys, and drivers see to it")
}

fn all_bits(space: &KeySpace) -> u64 {
    u64::MAX >> (64 - space.bits())
}

/// How far it is from one key to another, along the ring.
fn way(space: &KeySpace, from: u64, to: u64) -> u64 {
    to.wrapping_sub(from) & all_bits(space)
}

/// The key that this node's group looks up.
fn group_key(space: &KeySpace, ctx: &Ctx<SuperpeerDht>) -> u64 {
    let rest = u64::MAX.checked_shr(64 - space.bits() + ctx.config.prefix).unwrap_or(0);
    space.key(ctx.me) & !rest
}

/// How many superpeers are to be expected if keys are random: as many as groups have a member.
pub fn expected(setup: &Setup) -> Result<f64, Unfit> {
    let groups = f64::from(prefix(setup)?).exp2();
    Ok(groups * (1.0 - (1.0 - 1.0 / groups).powf(f64::from(setup.n()))))
}

fn prefix(setup: &Setup) -> Result<u32, Unfit> {
    let bits = setup.topology.key_space().map_or(64, KeySpace::bits);
    setup.option("prefix", 3.min(bits))
}

fn config(setup: &Setup) -> Result<Config, Unfit> {
    let bits = setup.topology.key_space().map_or(64, KeySpace::bits);
    let prefix = prefix(setup)?;
    if prefix > bits {
        return Err(Unfit::new(format!("prefix={prefix}, but keys have {bits} bits")));
    }
    // Every hop halves what is left of the way; then comes the answer.
    let hops = bits + 2;
    Ok(Config { prefix, retry: (setup.delay + setup.processing) * hops })
}

/// Two groups of keys, so that some have to look for their superpeer.
const TWO_GROUPS: &[(&str, &str)] = &[("prefix", "1")];

/// By key prefix.
pub static PLAIN: Entry<SuperpeerDht> =
    Entry::new("election/superpeer-dht", "Superpeers by key prefix", config)
        .summary("the owner of a group's key on a ring of keys serves the group")
        .source(
            "Lo, Zhou, Liu, GauthierDickey, Li. Scalable supernode selection in peer-to-peer \
             overlay networks. HOT-P2P, 2005; lookups as in Stoica et al. Chord. SIGCOMM, 2001",
        )
        .text(include_str!("superpeer_dht.rs"))
        .model(Model {
            timing: Timing::Synchronous,
            crashes: Crashes::Recover,
            detector: Detector::Perfect,
            links: Links::Keys,
            ..Model::RELIABLE
        })
        .holds(&[Property::LeaderKnown])
        .fails(SEVERAL)
        .several(|setup| expected(setup).ok())
        .options(&[Opt {
            name: "prefix",
            default: "3",
            help: "how many bits of a key are the number of its group: 2^prefix groups",
        }])
        .claims(&[
            Check::new(3, &[Property::LeaderKnown]).set(TWO_GROUPS).crashes(1).recoveries(1),
            Check::new(4, &[Property::LeaderKnown]).set(TWO_GROUPS),
            Check::new(3, &[Property::OneLeader, Property::BestLeads]).set(TWO_GROUPS).fails(9),
            Check::new(4, &[Property::OneLeaderPerEpoch]).set(TWO_GROUPS).fails(6),
        ])
        .deep(&[Check::new(4, &[Property::LeaderKnown]).set(TWO_GROUPS).crashes(1)])
        .cases(&[Case::left_out(
            "expected-count",
            "it is the mean over all keys at random; tests/superpeers.rs keeps runs near it",
        )]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Topology};

    use super::*;

    /// The key of the superpeer of the node with this key, if every message arrives at once.
    fn superpeer(keys: &[u64], of: u64) -> u64 {
        let topology = Topology::dht(8, keys.to_vec()).unwrap();
        let space = topology.key_space().unwrap();
        let mut bench = Bench::new(&PLAIN, &Setup::new(topology.clone()));
        let mut from = space.owner(of);
        let mut effects = bench.at(from.0).booted();
        for _ in 0..20 {
            let sent = effects.iter().find_map(|effect| match *effect {
                Effect::Send { to, msg } => Some((to, msg)),
                _ => None,
            });
            let Some((to, msg)) = sent else { break };
            effects = bench.at(to.0).message(from.0, msg);
            from = to;
        }
        let leader = effects.iter().find_map(|effect| match effect {
            Effect::Notify(Notice::Elected { leader, .. }) => Some(*leader),
            _ => None,
        });
        space.key(leader.expect("the lookup is answered"))
    }

    #[test]
    fn the_owner_of_a_groups_key_serves_the_group() {
        let ids = [0x05, 0x2A, 0x3F, 0x61, 0x9C, 0xE0];
        let served = ids.map(|id| superpeer(&ids, id));
        assert_eq!(served, [0x05, 0x2A, 0x2A, 0x61, 0x9C, 0xE0]);
        let space = Topology::dht(8, ids.to_vec()).unwrap();
        let space = space.key_space().unwrap();
        // The keys of empty groups belong to the next group's superpeer.
        let owner = |group: u64| space.key(space.owner(group << 5));
        assert_eq!([0b010, 0b101, 0b110].map(owner), [0x61, 0xE0, 0xE0]);
    }
}
