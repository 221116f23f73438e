//! Any algorithm of the catalogue as a model: its own rules, driven by Stateright.

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

use conclave_algorithms::{election, mutex};
use conclave_protocol::{
    Client, Ctx, Effect, Effects, Entry, Input, Observation, Observable, NodeId, Protocol, Setup, Time,
    Topology,
};
use stateright::{Model, Property};

use crate::{Counts, EXCLUSION, breadth_first, never_violated, reference};

/// One line per family: its client, and its algorithms. Each state machine is compiled together
/// with Stateright's search, so these are a few for each kind of algorithm; variants of one that is
/// here come free.
macro_rules! algorithms {
    ($($client:ty: $($entry:path),+ $(,)?;)*) => {
        /// What [`count`] knows.
        pub static IDS: &[&str] = &[$($($entry.info.id),+),*];

        /// Counts the states of the algorithm called `id` with `nodes` nodes, the applications of
        /// which ask `requests` times each and leave when they like.
        ///
        /// Messages arrive in the order sent on their link, or, on a `bag`, in any order. Timers
        /// run out at any moment once set, and nothing fails. Panics if there is no such algorithm
        /// in [`IDS`], if it cannot run in such a system, or if it chooses by chance or looks at
        /// the clock, which is not modelled.
        pub fn count(id: &str, nodes: u32, requests: u32, bag: bool, threads: usize) -> Counts {
            $($(if id == $entry.info.id {
                let system = System::<_, $client>::new(&$entry, nodes, requests, bag);
                return breadth_first(system, threads);
            })+)*
            panic!("{id} is not among {IDS:?}");
        }
    };
}

algorithms! {
    mutex::Client:
        reference::REFERENCE,
        reference::NO_TIE_BREAK,
        mutex::centralized::PLAIN,
        mutex::centralized::TOKEN,
        mutex::centralized::TIMESTAMPED,
        mutex::lamport::PLAIN,
        mutex::lamport::ACK_SUPPRESSION,
        mutex::ricart_agrawala::PLAIN,
        mutex::ricart_agrawala::BARE_REPLY,
        mutex::ricart_agrawala::NOTIFY_ONE,
        mutex::ricart_agrawala::NO_TIE_BREAK,
        mutex::roucairol_carvalho::PLAIN,
        mutex::ricart_agrawala_token::PLAIN,
        mutex::maekawa::PLAIN,
        mutex::maekawa::LITERAL_003,
        mutex::maekawa_sanders::PLAIN,
        mutex::maekawa_sanders::ONE_FAIL,
        mutex::raymond_k::PLAIN,
        mutex::raymond_k::NAIVE,
        mutex::token_ring::PLAIN,
        mutex::token_ring_on_demand::PLAIN,
        mutex::suzuki_kasami::PLAIN,
        mutex::raymond_tree::PLAIN,
        mutex::raymond_tree::GREEDY,
        mutex::naimi_trehel::PLAIN;
    election::Client:
        election::bully::PLAIN;
}

/// A system of nodes that run `P`, with applications `C`.
#[derive(Debug)]
pub struct System<P: Protocol, C> {
    topology: Topology,
    config: P::Config,
    /// How often each application asks.
    requests: Vec<u32>,
    /// Messages of a link arrive in any order.
    bag: bool,
    /// How many may be inside at once.
    places: usize,
    client: PhantomData<fn() -> C>,
}

impl<P: Protocol, C: Client<P>> System<P, C> {
    /// `nodes` nodes, linked as `entry` wants it, whose applications ask `requests` times each.
    pub fn new(entry: &Entry<P>, nodes: u32, requests: u32, bag: bool) -> Self {
        let info = &entry.info;
        let setup = Setup::new(Topology::of(info.model.links, nodes));
        let config = (entry.config)(&setup).unwrap_or_else(|unfit| panic!("{}: {unfit}", info.id));
        let clients = (entry.clients)(&config, nodes);
        let requests =
            (0..nodes).map(|node| if clients.contains(&node) { requests } else { 0 }).collect();
        let places = info.places(&setup);
        Self { topology: setup.topology, config, requests, bag, places, client: PhantomData }
    }

    /// Lets a rule of `me` run, and carries out what it asks for.
    fn run<T>(
        &self,
        me: usize,
        state: &mut State<P, C>,
        rule: impl FnOnce(&mut State<P, C>, &mut Ctx<P>) -> T,
    ) -> T {
        let mut asked = Asked(Vec::new());
        let id = NodeId(me as u32);
        let mut ctx = Ctx::new(id, &self.topology, &self.config, Time::ZERO, &mut asked);
        let result = rule(state, &mut ctx);
        assert!(!ctx.looked_at_clock(), "rules that look at the clock are not modelled");
        for effect in asked.0 {
            self.carry_out(effect, me, state);
        }
        result
    }

    fn carry_out(&self, effect: Effect<P>, me: usize, state: &mut State<P, C>) {
        match effect {
            Effect::Send { to, msg } => self.send(me, to.index(), msg, state),
            Effect::Broadcast(msg) => {
                for to in (0..state.nodes.len()).filter(|&to| to != me) {
                    self.send(me, to, msg.clone(), state);
                }
            }
            Effect::Notify(notice) => {
                let node = &mut state.nodes[me];
                node.client.on_notice(&notice);
                node.mark(notice.observation());
            }
            Effect::SetTimer { timer, .. } => {
                let timers = &mut state.nodes[me].timers;
                if !timers.contains(&timer) {
                    insert(timers, timer);
                }
            }
            Effect::CancelTimer(timer) => state.nodes[me].timers.retain(|&t| t != timer),
            // Nothing crashes, so nobody reads it.
            Effect::Save(_) => {}
        }
    }

    fn send(&self, from: usize, to: usize, msg: P::Msg, state: &mut State<P, C>) {
        let link = &mut state.links[to][from];
        if self.bag {
            insert(link, msg);
        } else {
            link.push(msg);
        }
    }
}

/// Inserts `new` into what is sorted by how it prints: plain data has no other order.
fn insert<T: Debug>(sorted: &mut Vec<T>, new: T) {
    let key = format!("{new:?}");
    let place = sorted.partition_point(|old| format!("{old:?}") < key);
    sorted.insert(place, new);
}

/// The effects that a rule asks for.
struct Asked<P: Protocol>(Vec<Effect<P>>);

impl<P: Protocol> Effects<P> for Asked<P> {
    fn emit(&mut self, effect: Effect<P>) {
        self.0.push(effect);
    }

    fn choose(&mut self, _: u32) -> u32 {
        panic!("rules that choose by chance are not modelled");
    }
}

/// The nodes, and the messages on their way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<P: Protocol, C> {
    nodes: Vec<Node<P, C>>,
    /// By receiver and sender.
    links: Vec<Vec<Vec<P::Msg>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node<P: Protocol, C> {
    /// `None` before it boots.
    protocol: Option<P>,
    client: C,
    /// How often the application will still ask.
    left: u32,
    timers: Vec<P::Timer>,
    /// Follows from the state of any sensible client, so it does not tell states apart.
    inside: bool,
}

impl<P: Protocol, C> Node<P, C> {
    fn observation(&mut self, mark: Observation) {
        match mark {
            Observation::Asked | Observation::Called => self.left -= 1,
            Observation::Entered { .. } => self.inside = true,
            Observation::Left | Observation::Lost => self.inside = false,
            Observation::Follows { .. }
            | Observation::Unled
            | Observation::Suspects(_)
            | Observation::Trusts(_)
            | Observation::Note(_)
            | Observation::Other => {}
        }
    }
}

/// A step. What happens is told by its place among what can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An application asks.
    Ask {
        /// Where.
        node: usize,
        /// Which of the requests it may make.
        place: usize,
    },
    /// A message arrives.
    Deliver {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// Which of those on the link.
        place: usize,
    },
    /// A timer runs out.
    Timer {
        /// Where.
        node: usize,
        /// Which of those running.
        place: usize,
    },
}

impl<P: Protocol, C: Client<P>> Model for System<P, C> {
    type State = State<P, C>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<P, C>> {
        let n = self.requests.len();
        let node = |&left| Node {
            protocol: None,
            client: C::default(),
            left,
            timers: Vec::new(),
            inside: false,
        };
        let nodes = self.requests.iter().map(node).collect();
        let mut state = State { nodes, links: vec![vec![Vec::new(); n]; n] };
        for me in 0..n {
            let booted = self.run(me, &mut state, |_, ctx| P::boot(None, ctx));
            state.nodes[me].protocol = Some(booted);
        }
        vec![state]
    }

    fn actions(&self, state: &State<P, C>, actions: &mut Vec<Action>) {
        for (me, node) in state.nodes.iter().enumerate() {
            for (place, request) in node.client.requests().into_iter().enumerate() {
                let counts = matches!(request.observation(), Observation::Asked | Observation::Called);
                if node.left > 0 || !counts {
                    actions.push(Action::Ask { node: me, place });
                }
            }
            for (from, link) in state.links[me].iter().enumerate() {
                let deliverable = if self.bag { link.len() } else { link.len().min(1) };
                for place in (0..deliverable).filter(|&place| !link[..place].contains(&link[place]))
                {
                    actions.push(Action::Deliver { from, to: me, place });
                }
            }
            actions.extend((0..node.timers.len()).map(|place| Action::Timer { node: me, place }));
        }
    }

    fn next_state(&self, state: &State<P, C>, action: Action) -> Option<State<P, C>> {
        let mut next = state.clone();
        let (me, input) = match action {
            Action::Ask { node: me, place } => {
                let node = &mut next.nodes[me];
                let request = node.client.requests().into_iter().nth(place);
                let request = request.expect("it was listed");
                node.client.on_request(&request);
                node.mark(request.observation());
                (me, Input::Request(request))
            }
            Action::Deliver { from, to, place } => {
                let msg = next.links[to][from].remove(place);
                (to, Input::Message { from: NodeId(from as u32), msg })
            }
            Action::Timer { node: me, place } => {
                (me, Input::Timer(next.nodes[me].timers.remove(place)))
            }
        };
        self.run(me, &mut next, |next, ctx| {
            next.nodes[me].protocol.as_mut().expect("it has booted").step(input, ctx);
        });
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let exclusion = |system: &Self, state: &State<P, C>| {
            state.nodes.iter().filter(|node| node.inside).count() <= system.places
        };
        vec![Property::<Self>::always(EXCLUSION, exclusion), never_violated()]
    }
}
