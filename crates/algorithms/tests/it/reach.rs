//! The state that a snapshot finds can be reached from the state in which it was started, and the state in
//! which it is complete from there: in every run of a small bank, by the graph of all states that the bank
//! has by itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::time::Duration;

use conclave_algorithms::snapshot::app::{self, App};
use conclave_algorithms::snapshot::support::Wrapper;
use conclave_algorithms::snapshot::{
    Notice, Request, Share, chandy_lamport, lai_yang, mattern, mattern_vector,
};
use conclave_protocol::{
    Ctx, Effect, Effects, Entry, Input, InputOf, NodeId, Protocol, Setup, Time, Topology,
};

/// All nodes of a system, what is on its way, and the timers that run.
#[derive(Clone, Debug)]
struct Whole<P: Protocol> {
    nodes: Vec<P>,
    links: BTreeMap<(NodeId, NodeId), Vec<P::Msg>>,
    timers: Vec<Vec<P::Timer>>,
}

/// A state that may follow, and what the node told whose step it was.
type Way<P> = (Whole<P>, NodeId, Vec<<P as Protocol>::Notice>);

/// What runs are made of.
struct System<'a, P: Protocol> {
    topology: &'a Topology,
    config: P::Config,
    /// Whether messages of one link keep their order.
    ordered: bool,
}

/// Notes what a rule asks for; choices go by a script.
struct Asked<P: Protocol> {
    effects: Vec<Effect<P>>,
    script: Vec<(u32, u32)>,
    at: usize,
}

impl<P: Protocol> Effects<P> for Asked<P> {
    fn emit(&mut self, effect: Effect<P>) {
        self.effects.push(effect);
    }

    fn choose(&mut self, n: u32) -> u32 {
        if self.at == self.script.len() {
            self.script.push((0, n));
        }
        self.at += 1;
        self.script[self.at - 1].0
    }
}

impl<P: Protocol> System<'_, P> {
    /// All nodes having booted.
    fn start(&self) -> Whole<P> {
        let n = self.topology.len() as usize;
        let (links, timers) = (BTreeMap::new(), vec![Vec::new(); n]);
        let mut whole = Whole { nodes: Vec::new(), links, timers };
        for node in self.topology.nodes() {
            let mut asked = Asked { effects: Vec::new(), script: Vec::new(), at: 0 };
            let mut ctx = Ctx::new(node, self.topology, &self.config, Time::ZERO, &mut asked);
            whole.nodes.push(P::boot(None, &mut ctx));
            self.carry_out(&mut whole, node, asked.effects);
        }
        whole
    }

    /// Carries out effects; returns what the node told.
    fn carry_out(
        &self,
        whole: &mut Whole<P>,
        me: NodeId,
        effects: Vec<Effect<P>>,
    ) -> Vec<P::Notice> {
        let mut told = Vec::new();
        let Whole { links, timers, .. } = whole;
        let timers = &mut timers[me.index()];
        let mut send = |to, msg| {
            let link = links.entry((me, to)).or_default();
            link.push(msg);
            if !self.ordered {
                link.sort_by_cached_key(|msg| format!("{msg:?}"));
            }
        };
        for effect in effects {
            match effect {
                Effect::Send { to, msg } => send(to, msg),
                Effect::Broadcast(msg) => {
                    let others = self.topology.nodes().filter(|to| *to != me);
                    others.for_each(|to| send(to, msg.clone()));
                }
                Effect::Notify(notice) => told.push(notice),
                Effect::SetTimer { timer, .. } => {
                    timers.retain(|it| *it != timer);
                    timers.push(timer);
                }
                Effect::CancelTimer(timer) => timers.retain(|it| *it != timer),
                Effect::Save(_) => {}
            }
        }
        told
    }

    /// What comes of an event at a node, once for each way in which the rule may choose.
    fn step(
        &self,
        whole: &Whole<P>,
        me: NodeId,
        input: InputOf<P>,
    ) -> Vec<(Whole<P>, Vec<P::Notice>)> {
        let (mut ways, mut script) = (Vec::new(), Vec::new());
        loop {
            let mut next = whole.clone();
            let mut asked = Asked { effects: Vec::new(), script, at: 0 };
            let mut ctx = Ctx::new(me, self.topology, &self.config, Time::ZERO, &mut asked);
            next.nodes[me.index()].step(input.clone(), &mut ctx);
            script = asked.script;
            let told = self.carry_out(&mut next, me, asked.effects);
            ways.push((next, told));
            while script.last().is_some_and(|(answer, of)| answer + 1 >= *of) {
                script.pop();
            }
            match script.last_mut() {
                Some((answer, _)) => *answer += 1,
                None => return ways,
            }
        }
    }

    /// Every state that follows by a message or a timer, with what was told.
    fn next(&self, whole: &Whole<P>) -> Vec<Way<P>> {
        let mut next = Vec::new();
        for (&(from, to), messages) in &whole.links {
            let heads = if self.ordered { messages.len().min(1) } else { messages.len() };
            for place in (0..heads).filter(|&at| at == 0 || messages[at] != messages[at - 1]) {
                let mut taken = whole.clone();
                let link = taken.links.get_mut(&(from, to)).expect("it has messages");
                let msg = link.remove(place);
                if link.is_empty() {
                    taken.links.remove(&(from, to));
                }
                let ways = self.step(&taken, to, Input::Message { from, msg });
                next.extend(ways.into_iter().map(|(whole, told)| (whole, to, told)));
            }
        }
        for node in self.topology.nodes() {
            for &timer in &whole.timers[node.index()] {
                let mut taken = whole.clone();
                taken.timers[node.index()].retain(|it| *it != timer);
                let ways = self.step(&taken, node, Input::Timer(timer));
                next.extend(ways.into_iter().map(|(whole, told)| (whole, node, told)));
            }
        }
        next
    }
}

/// The states of a system, each by what it prints as.
fn name(whole: &impl Debug) -> String {
    format!("{whole:?}")
}

/// All states of the application by itself, and which follow from which in any number of steps.
struct Graph {
    numbers: BTreeMap<String, usize>,
    reached: Vec<Vec<bool>>,
}

impl Graph {
    fn of(system: &System<'_, App>) -> Self {
        let (mut numbers, mut next) = (BTreeMap::new(), Vec::<Vec<usize>>::new());
        let mut queue = VecDeque::from([system.start()]);
        numbers.insert(name(&queue[0]), 0);
        while let Some(whole) = queue.pop_front() {
            let mut edges = Vec::new();
            for (then, ..) in system.next(&whole) {
                let count = numbers.len();
                let number = *numbers.entry(name(&then)).or_insert(count);
                if number == count {
                    queue.push_back(then);
                }
                edges.push(number);
            }
            next.push(edges);
        }
        let reached = (0..next.len()).map(|from| {
            let mut reached = vec![false; next.len()];
            let mut open = vec![from];
            while let Some(at) = open.pop() {
                if !std::mem::replace(&mut reached[at], true) {
                    open.extend(&next[at]);
                }
            }
            reached
        });
        let reached = reached.collect();
        Self { numbers, reached }
    }

    fn leads(&self, from: usize, to: usize) -> bool {
        self.reached[from][to]
    }
}

/// A run of a wrapper, as far as its snapshot is concerned.
#[derive(Clone, Debug)]
struct Run<W: Protocol> {
    whole: Whole<W>,
    /// The state of the application when the snapshot was started.
    started: Option<usize>,
    parts: BTreeMap<NodeId, Share<App>>,
}

/// What was found in all runs.
#[derive(Debug, Default)]
struct Found {
    bare: usize,
    wrapped: usize,
    /// The state at the start, that of the snapshot and that in the end.
    triples: BTreeSet<(usize, usize, usize)>,
    /// Whether a snapshot has found something that no run leads to, or from which the run did not go
    /// on.
    unreachable: usize,
}

/// Starts a snapshot at p0 at each moment of each run.
fn explore<W>(entry: &Entry<W>, nodes: u32, ordered: bool) -> Found
where
    W: Wrapper<App = App>
        + Protocol<
            Request = Request<conclave_protocol::Never>,
            Notice = Notice<App>,
            Timer = app::Timer,
        >,
{
    let mut setup = Setup::new(Topology::complete(nodes)).with("transfers", 1);
    setup.delay = Duration::from_millis(1);
    let config = app::chosen(&setup, "bank").expect("there is a bank");
    let bare = System { topology: &setup.topology, config, ordered };
    let graph = Graph::of(&bare);
    let config = (entry.config)(&setup).expect("it runs");
    let system = System::<W> { topology: &setup.topology, config, ordered };
    let alone = |whole: &Whole<W>| {
        let mut links = BTreeMap::new();
        for (channel, messages) in &whole.links {
            let carried: Vec<app::Msg> = messages.iter().filter_map(W::carried).cloned().collect();
            if !carried.is_empty() {
                links.insert(*channel, sorted(carried, ordered));
            }
        }
        let nodes = whole.nodes.iter().map(|node| node.app().clone()).collect();
        let whole = Whole::<App> { nodes, links, timers: whole.timers.clone() };
        graph.numbers[&name(&whole)]
    };
    let mut found = Found { bare: graph.numbers.len(), ..Found::default() };
    let first = Run { whole: system.start(), started: None, parts: BTreeMap::new() };
    let (mut seen, mut queue) = (BTreeSet::from([name(&first)]), VecDeque::from([first]));
    while let Some(run) = queue.pop_front() {
        found.wrapped += 1;
        let mut ways = system.next(&run.whole);
        let mut started = run.started;
        if started.is_none() {
            let asked = system.step(&run.whole, NodeId(0), Input::Request(Request::Snapshot));
            ways.extend(asked.into_iter().map(|(whole, told)| (whole, NodeId(0), told)));
        }
        let asks = ways.len() - usize::from(started.is_none());
        for (place, (whole, me, told)) in ways.into_iter().enumerate() {
            if place == asks {
                started = Some(alone(&run.whole));
            }
            let mut next = Run { whole, started, parts: run.parts.clone() };
            for notice in told {
                match notice {
                    Notice::Finished(share, _) => drop(next.parts.insert(me, *share)),
                    Notice::Gathered(node, share, _) => drop(next.parts.insert(node, *share)),
                    _ => {}
                }
            }
            if next.parts.len() == nodes as usize {
                let start = next.started.expect("it was asked for");
                let end = alone(&next.whole);
                let state = graph.numbers.get(&name(&recorded(&next.parts, ordered)));
                match state {
                    Some(&state) if graph.leads(start, state) && graph.leads(state, end) => {
                        found.triples.insert((start, state, end));
                    }
                    _ => found.unreachable += 1,
                }
            } else if seen.insert(name(&next)) {
                queue.push_back(next);
            }
        }
    }
    found
}

fn sorted(mut messages: Vec<app::Msg>, ordered: bool) -> Vec<app::Msg> {
    if !ordered {
        messages.sort_by_cached_key(|msg| format!("{msg:?}"));
    }
    messages
}

/// The state that a snapshot found.
fn recorded(parts: &BTreeMap<NodeId, Share<App>>, ordered: bool) -> Whole<App> {
    let mut links = BTreeMap::new();
    for (to, share) in parts {
        for (from, messages) in share.channels.iter().filter(|(_, it)| !it.is_empty()) {
            links.insert((*from, *to), sorted(messages.clone(), ordered));
        }
    }
    let timers = |share: &Share<App>| share.timers.iter().map(|(timer, _)| *timer).collect();
    Whole {
        nodes: parts.values().map(|share| share.state.clone()).collect(),
        links,
        timers: parts.values().map(timers).collect(),
    }
}

/// The numbers of states of the bank, of states with snapshots, and of triples.
fn sizes(found: &Found) -> (usize, usize, usize) {
    assert_eq!(found.unreachable, 0, "every state is reached");
    (found.bare, found.wrapped, found.triples.len())
}

#[test]
fn what_chandy_and_lamport_find_is_reached_in_every_run_of_two() {
    assert_eq!(sizes(&explore(&chandy_lamport::PLAIN, 2, true)), (11, 87, 29));
}

#[test]
fn what_is_found_without_order_is_reached_in_every_run_of_two() {
    assert_eq!(sizes(&explore(&lai_yang::PLAIN, 2, false)), (11, 192, 65));
    assert_eq!(sizes(&explore(&mattern::PLAIN, 2, false)), (11, 280, 43));
    assert_eq!(sizes(&explore(&mattern_vector::PLAIN, 2, false)), (11, 593, 77));
}

#[test]
fn what_mutants_find_is_not_always_reached() {
    assert!(explore(&chandy_lamport::PLAIN, 2, false).unreachable > 0, "without order");
    assert!(explore(&chandy_lamport::NAIVE, 2, true).unreachable > 0);
    assert!(explore(&lai_yang::DELIVER_FIRST, 2, false).unreachable > 0);
    assert!(explore(&mattern::UNAWAITED, 2, false).unreachable > 0);
    assert!(explore(&mattern_vector::UNANSWERED, 2, false).unreachable > 0);
    // In order, Turn comes ahead of every red message.
    assert_eq!(explore(&lai_yang::DELIVER_FIRST, 2, true).unreachable, 0);
}

#[test]
fn what_chandy_and_lamport_find_is_reached_in_every_run_of_three() {
    assert_eq!(sizes(&explore(&chandy_lamport::PLAIN, 3, true)), (189, 81_505, 2_476));
}
