//! A given number of tokens wander over an overlay whose nodes have places, and push each other away
//! until they lie evenly; a node that keeps a token for a while is a superpeer, and serves the nodes
//! that are nearer to it than to any other.
//!
//! No node sees the whole. Gossip tells of tokens nearby, and the holder of a token adds up what they
//! do to it: each pushes with a force that falls with the square of its distance. If the sum is more
//! than a threshold, the token moves to the neighbour that lies most in its direction. The threshold
//! is the push of a single token a little further away than tokens would lie in an even pattern, so
//! that they come to rest when they are well apart. A token moves in one message and is never copied,
//! so there are always as many as there were.
//!
//! Steps are large, and news are old: a token that followed every push would go back and
//! forth, or along the wall that it is pushed against, for ever. So it goes only where it is pushed
//! all the way, on average: the force has a potential, which has to fall. A weak push needs some
//! periods to move it, in which news catch up. And with every move beyond twice the way across it
//! takes more, so that tokens come to rest in any case.
//!
//! # Rules
//!
//! Once in a period, as long as there are periods left, each node does the following.
//!
//! 1. Raise the stamp of the tokens held, and note where they are. Forget tokens of which there has
//!    been no news for a while.
//! 2. Add up the forces on a token held: for each other token known within the radius, from it to
//!    here, over the cube of its distance. If the sum is above the threshold, and times the periods
//!    the token has been here three times as much: send `Move` to the neighbour without a token that
//!    lies most in its direction, of those where the potential, the sum of one over each distance, is
//!    lower by a quarter of the threshold for each unit of the way. If this is not the only token
//!    here, any neighbour without one will do, at once. `Move`: the receiver holds the token.
//! 3. Send `Gossip`, the latest news of tokens, to some neighbours, all having their turn. `Gossip`:
//!    keep what is newer than what is known. A holder that learns that its token is elsewhere, with a
//!    later stamp, gives it up.
//! 4. A token that has not moved for a number of periods makes its holder a superpeer. The nearest
//!    known one serves this node.
//! 5. There is no news of a token for a while, and the node where it was last seen has crashed: the
//!    node that sent it there takes it, or the nearest live node, or the next nearest if that does not.
//!
//! # Cost
//!
//! In each period every node sends as many messages as gossip has receivers, each with a few tokens;
//! moves are few in comparison. It takes as many periods as a token needs to get from where there are
//! too many to where there are too few.
//!
//! # Known failures
//!
//! A crash of the holder loses a token until rule 5 makes it anew, and for that time its clients have
//! no superpeer. If crashes cut the overlay into pieces, some of them may be left without a token,
//! which is why no crash is part of what the algorithm assumes. If the threshold is too low, tokens
//! come to rest only because they get tired.

mod force;

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Ctx, Detector, Entry, Links, Model, NodeId, NodeSet, Opt, Point, Property, Protocol, Setup,
    Stamp, Timing, Unfit,
};
use serde::{Deserialize, Serialize};

use self::force::{force, length, potential};
use super::{Notice, Request, SEVERAL};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SuperpeerTokens {
    /// Periods since boot.
    period: u32,
    /// The tokens here: none or one, except when one arrives where another is.
    tokens: Vec<Token>,
    /// What is known of tokens nearby, by their number.
    seen: BTreeMap<u32, Sighting>,
    /// Whose client this node is.
    superpeer: Option<NodeId>,
    suspected: NodeSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Token {
    number: u32,
    /// Grows with every period.
    stamp: u32,
    /// The period in which it came here.
    since: u32,
    /// How often it has moved.
    moves: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Sighting {
    news: News,
    /// The period in which it became known.
    known: u32,
    /// Whether this node has sent the token there.
    sent: bool,
    /// Whether the holder has crashed since, and perhaps come back without it.
    lost: bool,
}

/// Where a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct News {
    /// Its number.
    token: u32,
    /// How new this is.
    stamp: u32,
    /// Who has it.
    holder: NodeId,
    /// Whether it makes its holder a superpeer.
    settled: bool,
}

/// What nodes send each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// Where some tokens are.
    Gossip(Vec<News>),
    /// A token, which is the receiver's now.
    Move {
        /// Its number.
        token: u32,
        /// The latest stamp it had.
        stamp: u32,
        /// How often it has moved, this time included.
        moves: u32,
    },
}

/// What a node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// The next period.
    Period,
}

/// How tokens behave.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where they are in the beginning, ascending.
    start: Vec<NodeId>,
    period: Duration,
    /// How many periods there are; no end to them if 0.
    periods: u32,
    /// Tokens further away do not push. In units of length, as all that follows.
    radius: f64,
    /// The force that moves a token …
    threshold: f64,
    /// … until it has moved so often; then it takes more and more, so that all come to rest.
    restless: u32,
    /// Tokens further away are of no interest.
    horizon: f64,
    /// After so many periods without news a token is forgotten.
    memory: u32,
    /// After so many periods in one place a token makes a superpeer.
    hold: u32,
    fanout: u32,
    /// How many tokens a message tells of.
    entries: usize,
}

/// So many of the nearest nodes are looked to for a token whose holder has crashed.
const HEIRS: usize = 8;

/// A push at the threshold moves a token that has been in its place for so many periods.
const PATIENCE: f64 = 3.0;

impl Protocol for SuperpeerTokens {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    /// That the node has booted before, and has no token by right.
    type Stable = bool;

    fn start(saved: Option<bool>, ctx: &mut Ctx<Self>) -> Self {
        let number = ctx.config.start.binary_search(&ctx.me).ok().filter(|_| saved.is_none());
        let token =
            number.map(|number| Token { number: number as u32, stamp: 0, since: 0, moves: 0 });
        ctx.save(true);
        ctx.set_timer(Timer::Period, ctx.config.period);
        Self {
            period: 0,
            tokens: token.into_iter().collect(),
            seen: BTreeMap::new(),
            superpeer: None,
            suspected: NodeSet::new(),
        }
    }

    /// Tokens wander whether an application asks or not.
    fn on_request(&mut self, _: Request, _: &mut Ctx<Self>) {}

    fn on_message(&mut self, _: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 3.
            Msg::Gossip(news) => {
                ctx.rule(3);
                for news in news {
                    self.hear(news, ctx);
                }
            }
            // Rule 2.
            Msg::Move { token, stamp, moves } => {
                ctx.rule(2);
                self.take(token, stamp, moves, ctx);
            }
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        let Timer::Period = timer;
        self.period += 1;
        self.note_own(ctx);
        self.forget(ctx);
        self.push(ctx);
        self.tell(ctx);
        self.follow(ctx);
        if ctx.config.periods == 0 || self.period < ctx.config.periods {
            ctx.set_timer(Timer::Period, ctx.config.period);
        }
    }

    /// Rule 5.
    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        ctx.rule(5);
        self.suspected.insert(peer);
        self.mark_lost(peer);
    }

    /// Rule 5.
    fn on_restore(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        ctx.rule(5);
        self.suspected.remove(peer);
        // It may have come back before another node missed it.
        self.mark_lost(peer);
    }
}

impl SuperpeerTokens {
    /// Rule 1, first half.
    fn note_own(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(1);
        for i in 0..self.tokens.len() {
            let token = &mut self.tokens[i];
            token.stamp += 1;
            let settled = self.period - token.since >= ctx.config.hold;
            let Token { number, stamp, .. } = *token;
            self.note(News { token: number, stamp, holder: ctx.me, settled }, false);
        }
    }

    fn note(&mut self, news: News, sent: bool) {
        self.seen.insert(news.token, Sighting { news, known: self.period, sent, lost: false });
    }

    /// Rule 1, second half, and rule 5.
    fn forget(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(1);
        let memory = ctx.config.memory;
        let age = |sighting: &Sighting| self.period - sighting.known;
        let old = |sighting: &&Sighting| age(sighting) > 0 && age(sighting) % memory == 0;
        let old: Vec<Sighting> = self.seen.values().filter(old).copied().collect();
        for Sighting { news, known, sent, lost } in old {
            let waited = ((self.period - known) / memory) as usize;
            if !lost || waited > HEIRS {
                self.seen.remove(&news.token);
            } else if sent || self.heirs_before(news.holder, ctx) < waited {
                ctx.rule(5);
                // Later than anything its late holder can have said.
                self.take(news.token, news.stamp + memory, 0, ctx);
            }
        }
    }

    /// How many live nodes are nearer to where `holder` was than this one.
    fn heirs_before(&self, holder: NodeId, ctx: &Ctx<Self>) -> usize {
        let there = place(holder, ctx);
        let away = |node: NodeId| (place(node, ctx).distance_squared(there), node);
        let live = ctx.peers().filter(|&node| node != holder && !self.suspected.contains(node));
        live.filter(|&node| away(node) < away(ctx.me)).count()
    }

    /// Tokens that were at `peer` are there no more.
    fn mark_lost(&mut self, peer: NodeId) {
        for sighting in self.seen.values_mut().filter(|sighting| sighting.news.holder == peer) {
            sighting.lost = true;
        }
    }

    /// Rule 2.
    fn push(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(2);
        let mut crowd = self.tokens.len();
        let moves: Vec<(usize, NodeId)> = (0..crowd)
            .rev()
            .filter_map(|i| {
                let next = self.next(self.tokens[i], crowd > 1, ctx)?;
                crowd -= 1;
                Some((i, next))
            })
            .collect();
        for (i, next) in moves {
            let Token { number: token, stamp, moves, .. } = self.tokens.remove(i);
            self.note(News { token, stamp, holder: next, settled: false }, true);
            ctx.send(next, Msg::Move { token, stamp, moves: moves + 1 });
        }
    }

    /// Where a token is to go: the neighbour that lies most in the direction of the force, of those
    /// without a token and on a way that pays. If there are too many tokens here, any way does.
    fn next(&self, token: Token, crowded: bool, ctx: &Ctx<Self>) -> Option<NodeId> {
        let others: Vec<Point> = self
            .seen
            .values()
            .filter(|it| it.news.token != token.number)
            .map(|it| place(it.news.holder, ctx))
            .collect();
        let (here, radius) = (place(ctx.me, ctx), ctx.config.radius);
        let force = force(here, &others, radius);
        let late = token.moves.saturating_sub(ctx.config.restless);
        let threshold = ctx.config.threshold * (1.0 + f64::from(late) / 10.0);
        let push = length(force);
        let stays = f64::from(self.period - token.since);
        let strong = push > threshold && push * stays >= threshold * PATIENCE;
        if !strong && !crowded {
            return None;
        }
        let taken: NodeSet = self.seen.values().map(|sighting| sighting.news.holder).collect();
        let potential = |place| potential(place, &others, radius);
        let height = potential(here);
        let mut best: Option<(f64, NodeId)> = None;
        for neighbor in ctx.neighbors() {
            if taken.contains(neighbor) || self.suspected.contains(neighbor) {
                continue;
            }
            let there = place(neighbor, ctx);
            let way = there.from(here).map(|axis| axis as f64 / f64::from(Point::UNIT));
            let product: f64 = way.iter().zip(force).map(|(a, b)| a * b).sum();
            let cosine = if length(way) > 0.0 { product / length(way) } else { 0.0 };
            if best.is_some_and(|(most, _)| cosine <= most) {
                continue;
            }
            let pays = || height - potential(there) > threshold / 4.0 * length(way);
            if crowded || (cosine > 0.0 && pays()) {
                best = Some((cosine, neighbor));
            }
        }
        best.map(|(_, neighbor)| neighbor)
    }

    /// Rule 3, first half.
    fn tell(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(3);
        let mut latest: Vec<Sighting> = self.seen.values().copied().collect();
        latest.sort_by_key(|sighting| (self.period - sighting.known, sighting.news.token));
        latest.truncate(ctx.config.entries);
        let news: Vec<News> = latest.into_iter().map(|sighting| sighting.news).collect();
        let neighbors: Vec<NodeId> = ctx.neighbors().collect();
        if news.is_empty() || neighbors.is_empty() {
            return;
        }
        let first = (self.period - 1).wrapping_mul(ctx.config.fanout) as usize;
        let in_turn = neighbors.iter().cycle().skip(first % neighbors.len());
        let receivers = in_turn.take(neighbors.len().min(ctx.config.fanout as usize));
        ctx.multicast(receivers.copied(), Msg::Gossip(news));
    }

    /// Rule 3, second half.
    fn hear(&mut self, news: News, ctx: &mut Ctx<Self>) {
        if let Some(i) = self.tokens.iter().position(|token| token.number == news.token) {
            if (news.stamp, news.holder) <= (self.tokens[i].stamp, ctx.me) {
                return;
            }
            self.tokens.remove(i);
        }
        let newer = |old: &Sighting| (old.news.stamp, old.news.holder) < (news.stamp, news.holder);
        let near = place(ctx.me, ctx).distance(place(news.holder, ctx)) <= ctx.config.horizon;
        match self.seen.get(&news.token) {
            Some(old) if !newer(old) => {}
            // A token that has gone far away is none of this node's business any more.
            Some(_) if !near => {
                self.seen.remove(&news.token);
            }
            None if !near => {}
            _ => self.note(news, false),
        }
    }

    fn take(&mut self, number: u32, stamp: u32, moves: u32, ctx: &mut Ctx<Self>) {
        if self.tokens.iter().all(|token| token.number != number) {
            self.tokens.push(Token { number, stamp, since: self.period, moves });
            self.note(News { token: number, stamp, holder: ctx.me, settled: false }, false);
        }
    }

    /// Rule 4.
    fn follow(&mut self, ctx: &mut Ctx<Self>) {
        ctx.rule(4);
        let here = place(ctx.me, ctx);
        let serves = |it: &&Sighting| it.news.settled && !self.suspected.contains(it.news.holder);
        let away =
            |it: &&Sighting| (here.distance_squared(place(it.news.holder, ctx)), it.news.holder);
        let Some(Sighting { news, .. }) = self.seen.values().filter(serves).min_by_key(away) else {
            return;
        };
        let News { holder: leader, stamp, .. } = *news;
        if self.superpeer != Some(leader) {
            self.superpeer = Some(leader);
            let epoch = Stamp { time: u64::from(stamp), node: leader }.token();
            ctx.notify(Notice::Elected { leader, epoch });
        }
    }
}

fn place(node: NodeId, ctx: &Ctx<SuperpeerTokens>) -> Point {
    ctx.topology.point(node).unwrap_or_default()
}

/// How many tokens there are to be.
pub fn wanted(setup: &Setup) -> Result<u32, Unfit> {
    setup.option("tokens", setup.n().div_ceil(100))
}

fn config(setup: &Setup) -> Result<Config, Unfit> {
    let (topology, n) = (&setup.topology, setup.n());
    let tokens = wanted(setup)?;
    if tokens == 0 || tokens > n {
        return Err(Unfit::new(format!("tokens={tokens}, but there can be 1 to {n}")));
    }
    let mut nodes: Vec<NodeId> = topology.nodes().collect();
    let start: String = setup.option("start", "scattered".to_owned())?;
    match start.as_str() {
        // Multiplying by an odd number and dropping the low bits scatters ids as dice would.
        "scattered" => {
            nodes.sort_by_key(|node| (node.0 + 1).wrapping_mul(0x9E37_79B1).rotate_left(9));
        }
        "corner" => {
            let corner = topology.point(NodeId(0)).unwrap_or_default();
            let away = |node| topology.point(node).unwrap_or_default().distance_squared(corner);
            nodes.sort_by_key(|&node| (away(node), node));
        }
        _ => return Err(Unfit::new(format!("start={start}, but it is scattered or corner"))),
    }
    let mut start = nodes[..tokens as usize].to_vec();
    start.sort_unstable();
    let even = topology.even_spacing(tokens);
    let percent: u32 = setup.option("spacing", 120)?;
    if percent == 0 {
        return Err(Unfit::new("spacing=0, but tokens must be some way apart"));
    }
    let rest = even * f64::from(percent) / 100.0;
    let radius = even * 2.0;
    let horizon = even * 3.0;
    Ok(Config {
        start,
        period: setup.delay + setup.processing,
        periods: setup.option("periods", 300)?,
        radius,
        threshold: 1.0 / (rest * rest),
        // Twice across all there is.
        restless: 20 + 2 * topology.even_spacing(1) as u32,
        horizon,
        // News make about a unit of length a period.
        memory: 10 + 4 * horizon.ceil() as u32,
        hold: setup.option("hold", 10)?,
        fanout: setup.option("fanout", 2)?,
        entries: 12,
    })
}

/// A token that makes a superpeer at once, and time enough for all nodes to hear of it.
const ONE_TOKEN: &[(&str, &str)] = &[("tokens", "1"), ("hold", "1"), ("periods", "4")];
const TWO_TOKENS: &[(&str, &str)] = &[("tokens", "2"), ("hold", "1"), ("periods", "2")];

/// By tokens that repel each other.
pub static PLAIN: Entry<SuperpeerTokens> = Entry::new(
    "election/superpeer-tokens",
    "Superpeers by repelling tokens",
    config,
)
.summary("tokens push each other apart; a node that keeps one serves those nearby")
.source(
    "Lo, Zhou, Liu, GauthierDickey, Li. Scalable supernode selection in peer-to-peer overlay \
     networks. HOT-P2P, 2005",
)
.text(include_str!("superpeer_tokens.rs"))
.model(Model {
    timing: Timing::Synchronous,
    detector: Detector::Perfect,
    links: Links::Space,
    ..Model::RELIABLE
})
.holds(&[Property::LeaderKnown])
.fails(SEVERAL)
.several(|setup| wanted(setup).ok().map(f64::from))
.options(&[
    Opt {
        name: "tokens",
        default: "one to 100 nodes",
        help: "how many superpeers there are to be",
    },
    Opt {
        name: "start",
        default: "scattered",
        help: "where tokens are in the beginning: scattered, or corner (around node 0)",
    },
    Opt {
        name: "periods",
        default: "300",
        help: "after so many periods all is as it should be; 0 goes on for ever",
    },
    Opt {
        name: "spacing",
        default: "120",
        help: "tokens rest when a neighbour is this far, in percent of an even spacing",
    },
    Opt { name: "fanout", default: "2", help: "how many neighbours hear the news in a period" },
    Opt {
        name: "hold",
        default: "10",
        help: "a node that keeps a token for so many periods is a superpeer",
    },
])
.claims(&[
    Check::new(3, &[Property::LeaderKnown]).set(ONE_TOKEN),
    Check::new(3, &[Property::OneLeader, Property::BestLeads]).set(TWO_TOKENS).fails(16),
    Check::new(3, &[Property::OneLeaderPerEpoch]).set(TWO_TOKENS).fails(3),
]);

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Topology};

    use super::*;

    #[test]
    fn a_node_that_keeps_a_token_for_long_enough_is_a_superpeer_and_says_so() {
        let grid = Setup::new(Topology::grid(4)).with("start", "corner").with("hold", "2");
        let mut bench = Bench::new(&PLAIN, &grid);
        let elected = Notice::Elected {
            leader: NodeId(0),
            epoch: Stamp { time: 2, node: NodeId(0) }.token(),
        };
        let first = bench.at(0).timer(Timer::Period);
        assert!(!first.contains(&Effect::Notify(elected)));
        let second = bench.at(0).timer(Timer::Period);
        assert!(second.contains(&Effect::Notify(elected)));
        assert_eq!(bench.at(0).rules(), [1, 2, 3, 4]);
        let news = News { token: 0, stamp: 2, holder: NodeId(0), settled: true };
        let gossip = Effect::Send { to: NodeId(1), msg: Msg::Gossip(vec![news]) };
        assert!(second.contains(&gossip));
        // A neighbour that hears of it follows it at the end of its own period.
        bench.at(1).message(0, Msg::Gossip(vec![news]));
        let followed = bench.at(1).timer(Timer::Period);
        assert!(followed.contains(&Effect::Notify(elected)));
    }
}
