//! One coordinator or several: what they cost, what they survive, and how they fail.

mod support;

use std::time::Duration;

use conclave_algorithms::mutex::{self, centralized, replicated_coordinator as replicated};
use conclave_protocol::{
    Charge, Ctx, Effect, Entry, NodeId, Property, Protocol, Setup, Time, Topology,
};
use conclave_sim::{
    Action, Arrivals, Ask, Delay, End, Event, Faults, JudgeLimits, Outcome, Rng, RunSpec, SlowLink,
    Spread, Verdict, Workload, World, judge,
};
use serde::{Deserialize, Serialize};
use support::{T, at, burst, costs, order, random_spec, simulate, verdict};

fn system(n: u32) -> Setup {
    Setup::new(Topology::complete(n))
}

fn ask(node: u32, t: u64, hold: u64) -> Ask {
    Ask { node: NodeId(node), at: at(t), hold: Some(T * hold as u32) }
}

/// These requests, in unit delays.
fn plan<P: Protocol>(entry: &Entry<P>, setup: Setup, asks: impl Into<Vec<Ask>>) -> RunSpec {
    let mut spec = RunSpec::new(&entry.info, setup);
    spec.workload =
        Workload { arrivals: Arrivals::Plan(asks.into()), hold: Spread::exactly(Duration::ZERO) };
    spec.until = at(20_000);
    spec
}

/// A link that is slow for what is sent at the very beginning.
fn slow_at_first(from: u32, to: u32, t: u64) -> SlowLink {
    let (from, to) = (NodeId(from), NodeId(to));
    SlowLink { from, to, delay: T * t as u32, since: Time::ZERO, until: at(1) }
}

fn labels(outcome: &Outcome) -> Vec<String> {
    let sent = outcome.trace.records.iter().filter_map(|record| match record.event() {
        Event::Send { label, .. } => Some(outcome.trace.name(label).to_owned()),
        _ => None,
    });
    sent.collect()
}

/// Judges with patience for a thousand units.
fn holds(outcome: &Outcome, properties: &[Property]) -> Result<(), Verdict> {
    let limits = JudgeLimits { places: 1, patience: T * 1000 };
    let verdicts = properties.iter().map(|&property| judge(property, outcome, limits));
    verdicts.filter(|verdict| !verdict.held()).try_for_each(Err)
}

const SAFE: &[Property] = &[Property::Exclusion, Property::FenceOrder];
const LIVE: &[Property] =
    &[Property::Exclusion, Property::FenceOrder, Property::NoDeadlock, Property::NoStarvation];

static CENTRALIZED: [&Entry<centralized::Centralized>; 4] =
    [&centralized::PLAIN, &centralized::DENY, &centralized::TOKEN, &centralized::TIMESTAMPED];

/// Application talk that no algorithm sees: when a node asks, it tells all others.
///
/// Its messages carry causality from one request to the next outside the protocol inside.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
struct Talkative<P: Protocol>(P);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
enum Talk<P: Protocol> {
    App(P::Msg),
    IHaveAsked,
}

impl<P: mutex::Algorithm> Talkative<P> {
    fn inside<R>(ctx: &mut Ctx<Self>, rule: impl FnOnce(&mut Ctx<P>) -> R) -> R {
        let lift = |effect: Effect<P>, ctx: &mut Ctx<Self>| {
            ctx.emit(effect.map(Talk::App, |n| n, |t| t, |s| s));
        };
        let config = ctx.config;
        ctx.nest(config, lift, rule)
    }
}

impl<P: mutex::Algorithm> Protocol for Talkative<P> {
    type Config = P::Config;
    type Request = P::Request;
    type Notice = P::Notice;
    type Msg = Talk<P>;
    type Timer = P::Timer;
    type Stable = P::Stable;

    fn start(saved: Option<P::Stable>, ctx: &mut Ctx<Self>) -> Self {
        Self(Self::inside(ctx, |ctx| P::start(saved, ctx)))
    }

    fn on_request(&mut self, request: P::Request, ctx: &mut Ctx<Self>) {
        Self::inside(ctx, |ctx| self.0.on_request(request, ctx));
        if request == mutex::Request::Acquire {
            ctx.broadcast(Talk::IHaveAsked);
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Talk<P>, ctx: &mut Ctx<Self>) {
        if let Talk::App(msg) = msg {
            Self::inside(ctx, |ctx| self.0.on_message(from, msg, ctx));
        }
    }

    fn on_timer(&mut self, timer: P::Timer, ctx: &mut Ctx<Self>) {
        Self::inside(ctx, |ctx| self.0.on_timer(timer, ctx));
    }

    fn charge(_: &Talk<P>, _: NodeId, _: NodeId) -> Charge {
        Charge::Nobody
    }
}

/// Runs an algorithm whose applications talk.
fn talkative<P: mutex::Algorithm>(entry: &Entry<P>, spec: &RunSpec) -> Outcome {
    let config = (entry.config)(&spec.setup).expect("the algorithm fits the system");
    World::<Talkative<P>, mutex::Client>::new(config, spec).finish()
}

mod one_coordinator {
    use super::*;

    #[test]
    fn an_idle_entry_costs_two_messages_and_two_hops_and_leaving_one() {
        for entry in CENTRALIZED {
            let outcome = simulate(entry, &burst(entry, system(4), [2], 5));
            let costs = costs(&outcome);
            let one = &costs.entries[0];
            assert_eq!((one.messages_entry, one.messages_exit, costs.messages), (2, 1, 3));
            assert_eq!(costs.entry_hops(&outcome.trace, one), Some(2));
            assert_eq!(costs.turnaround().max, T * (2 + 5));
        }
    }

    #[test]
    fn m_who_ask_at_once_cost_3m_with_two_hops_between_them() {
        for entry in [&centralized::PLAIN, &centralized::TOKEN, &centralized::TIMESTAMPED] {
            for (m, hold) in [(3, 50), (5, 50), (7, 1)] {
                let outcome = simulate(entry, &burst(entry, system(m + 1), 1..=m, hold));
                let costs = costs(&outcome);
                let (m, last) = (u64::from(m), costs.entries.iter().map(|e| e.entered).max());
                assert_eq!(costs.messages, 3 * m);
                assert!(costs.entries.iter().all(|e| e.messages_entry + e.messages_exit == 3));
                assert_eq!(last, Some(Some(at(2 + (m - 1) * (hold + 2)))));
                assert_eq!(costs.handovers.len() as u64, m - 1);
                let hops = |h| costs.handover_hops(&outcome.trace, h);
                assert!(costs.handovers.iter().all(|h| hops(h) == Some(2) && h.delay == T * 2));
            }
        }
    }

    #[test]
    fn telling_the_queued_costs_one_message_for_each_but_the_first() {
        let entry = &centralized::DENY;
        for (m, hold) in [(3, 50), (5, 50), (7, 1)] {
            let outcome = simulate(entry, &burst(entry, system(m + 1), 1..=m, hold));
            let (costs, m) = (costs(&outcome), u64::from(m));
            assert_eq!((costs.messages, costs.by_label["Denied"]), (4 * m - 1, m - 1));
            let last = costs.entries.iter().map(|e| e.entered).max();
            assert_eq!(last, Some(Some(at(2 + (m - 1) * (hold + 2)))));
        }
    }

    #[test]
    fn the_coordinator_itself_enters_for_nothing() {
        for entry in CENTRALIZED {
            let outcome = simulate(entry, &burst(entry, system(3), [0], 5));
            let costs = costs(&outcome);
            assert_eq!((costs.messages, costs.entries[0].entered), (0, Some(at(0))));
            assert_eq!(costs.entry_hops(&outcome.trace, &costs.entries[0]), Some(0));
        }
    }

    #[test]
    fn if_all_load_it_equally_the_mean_is_three_times_n_minus_one_over_n() {
        let entry = &centralized::PLAIN;
        let outcome = simulate(entry, &burst(entry, system(4), 0..4, 1));
        assert_eq!(costs(&outcome).messages_per_entry(), Some(3.0 * 3.0 / 4.0));
        assert_eq!(holds(&outcome, LIVE), Ok(()));
    }

    #[test]
    fn the_replay_of_two_clients_takes_six_messages() {
        let entry = &centralized::PLAIN;
        let outcome = simulate(entry, &plan(entry, system(3), [ask(1, 0, 10), ask(2, 3, 10)]));
        let expected = ["Request", "Grant", "Request", "Release", "Grant", "Release"];
        assert_eq!(labels(&outcome), expected);
        assert_eq!(order(&outcome), [1, 2]);
    }

    /// p1's request is slow; p2 asks after p1 has told it.
    fn tells_and_is_overtaken(p3_holds: bool) -> Vec<Ask> {
        let mut asks = vec![ask(1, 0, 5), ask(2, 2, 5)];
        if p3_holds {
            asks.push(ask(3, 0, 50));
        }
        asks
    }

    #[test]
    fn a_request_may_be_overtaken_by_one_that_it_caused() {
        for entry in CENTRALIZED {
            let mut spec = plan(entry, system(4), tells_and_is_overtaken(false));
            spec.delays.links.push(slow_at_first(1, 0, 20));
            let outcome = talkative(entry, &spec);
            assert_eq!(order(&outcome), [2, 1]);
            let verdict = verdict(Property::FcfsHappenedBefore, &outcome, 1);
            assert!(verdict.is_violated(), "{}: {verdict:?}", entry.info.id);
            assert_eq!(holds(&outcome, LIVE), Ok(()));
        }
    }

    #[test]
    fn timestamps_help_only_among_those_who_queue() {
        // Both requests wait behind p3, and only the stamped queue knows which is the older.
        let order_of = |entry| {
            let mut spec = plan(entry, system(4), tells_and_is_overtaken(true));
            spec.delays.links.push(slow_at_first(1, 0, 20));
            order(&talkative(entry, &spec))
        };
        assert_eq!(order_of(&centralized::PLAIN), [3, 2, 1]);
        assert_eq!(order_of(&centralized::TIMESTAMPED), [3, 1, 2]);

        // The older arrives while the younger already holds.
        let entry = &centralized::TIMESTAMPED;
        let mut spec = plan(entry, system(4), [ask(1, 0, 5), ask(2, 0, 50)]);
        spec.delays.links.push(slow_at_first(1, 0, 20));
        assert_eq!(order(&simulate(entry, &spec)), [2, 1], "stamped (1, p1) and (1, p2)");
    }

    #[test]
    fn among_its_own_messages_order_follows_causality_unless_a_probe_overtakes() {
        // Every causal path leads through the coordinator, behind the request.
        for seed in 0..200 {
            let entry = &centralized::PLAIN;
            let outcome = simulate(entry, &random_spec(entry, system(5), seed));
            assert_eq!(holds(&outcome, &[Property::FcfsHappenedBefore]), Ok(()), "seed {seed}");
        }
        // A probe overtakes the request it asks about, and p2 enters twice before that arrives.
        let entry = &centralized::DENY;
        let setup = system(3).with("probe", 5);
        let asks = [ask(1, 0, 1), ask(2, 10, 1), ask(2, 20, 1)];
        let mut spec = plan(entry, setup, asks);
        spec.delays.links.push(slow_at_first(1, 0, 40));
        let outcome = simulate(entry, &spec);
        assert_eq!(order(&outcome), [2, 2, 1]);
        assert!(verdict(Property::FcfsHappenedBefore, &outcome, 1).is_violated());
    }

    #[test]
    fn a_crash_of_the_coordinator_or_of_the_holder_stops_everybody() {
        for entry in CENTRALIZED {
            for (node, entered) in [(0, 1), (1, 1)] {
                let mut spec = burst(entry, system(4), 1..4, 5);
                spec.faults = Faults::none().with(at(4), Action::Crash(NodeId(node)));
                spec.until = at(5_000);
                let outcome = simulate(entry, &spec);
                assert_eq!(outcome.stats.entered, entered);
                assert!(verdict(Property::NoDeadlock, &outcome, 1).is_violated());
                let probes = entry.info.id == centralized::DENY.info.id;
                assert_eq!(outcome.end, if probes { End::TimeLimit } else { End::Quiet });
            }
        }
    }

    #[test]
    fn the_crash_of_somebody_idle_is_harmless() {
        for entry in CENTRALIZED {
            for seed in 0..50 {
                let mut spec = random_spec(entry, system(6), seed);
                if let Arrivals::Closed { clients, .. } = &mut spec.workload.arrivals {
                    *clients = 1..5;
                }
                spec.faults = Faults::none().with(at(seed), Action::Crash(NodeId(5)));
                let outcome = simulate(entry, &spec);
                assert_eq!(outcome.stats.entered, 12);
                assert_eq!(holds(&outcome, LIVE), Ok(()), "seed {seed}");
            }
        }
    }

    #[test]
    fn the_loss_of_any_message_stops_somebody_for_ever() {
        for entry in CENTRALIZED {
            for (label, entered) in [("Request", 1), ("Grant", 0), ("Release", 1)] {
                let setup = system(3);
                let mut spec = burst(entry, setup, [1, 2], 5);
                let lose = Action::Lose { label: label.to_owned() };
                spec.faults = Faults::none().with(at(0), lose);
                spec.until = at(5_000);
                let outcome = simulate(entry, &spec);
                assert_eq!(outcome.stats.entered, entered, "{label}");
                assert!(verdict(Property::NoStarvation, &outcome, 1).is_violated(), "{label}");
            }
        }
    }

    #[test]
    fn a_probe_tells_a_busy_coordinator_from_a_dead_one() {
        let entry = &centralized::DENY;
        let misses = |faults: Faults, until: u64| {
            let setup = system(3).with("probe", 10);
            let mut spec = plan(entry, setup, [ask(1, 0, 200), ask(2, 1, 5)]);
            spec.faults = faults;
            let config = (entry.config)(&spec.setup).expect("fits");
            let mut world = World::<centralized::Centralized, mutex::Client>::new(config, &spec);
            while world.now() < at(until) && world.step().is_none() {}
            world.state(NodeId(2)).expect("p2 is up").misses_the_coordinator()
        };
        let crash = Faults::none().with(at(50), Action::Crash(NodeId(0)));
        assert!(!misses(Faults::none(), 150), "busy");
        assert!(!misses(crash.clone(), 49), "not yet");
        assert!(misses(crash, 100), "dead");
    }

    #[test]
    fn a_probe_and_its_answer_are_all_that_probing_costs() {
        let entry = &centralized::DENY;
        let setup = system(3).with("probe", 10);
        let outcome = simulate(entry, &plan(entry, setup, [ask(1, 0, 50), ask(2, 0, 5)]));
        let costs = costs(&outcome);
        // p2 waits from 0 to 54 and asks at 10, 20, 30, 40 and 50.
        assert_eq!((costs.by_label["StillThere"], costs.by_label["Denied"]), (5, 1 + 5));
        assert_eq!(costs.messages, 4 * 2 - 1 + 2 * 5);
    }
}

mod several_coordinators {
    use super::*;

    /// `n` coordinators, of which `m` must agree, and so many clients.
    fn group(n: u32, m: u32, clients: u32) -> Setup {
        system(n + clients).with("coordinators", n).with("majority", m)
    }

    #[test]
    fn an_idle_entry_costs_3m_or_3n_if_all_are_asked() {
        let entry = &replicated::PLAIN;
        for (n, m) in [(3, 2), (5, 3), (8, 6)] {
            for (mode, asked) in [("ask-m", m), ("ask-all", n)] {
                let setup = group(n, m, 2).with("mode", mode);
                let outcome = simulate(entry, &burst(entry, setup, [n], 5));
                let (costs, asked) = (costs(&outcome), u64::from(asked));
                let one = &costs.entries[0];
                assert_eq!((one.messages_entry, one.messages_exit), (2 * asked, asked));
                assert_eq!(costs.messages, 3 * asked);
                assert_eq!(costs.entry_hops(&outcome.trace, one), Some(2));
                assert_eq!(costs.turnaround().max, T * (2 + 5));
            }
        }
    }

    /// The messages of B, which asks a moment after A and always the same time later again.
    fn messages_of_b(setup: Setup, a_holds: u64) -> (u64, u64) {
        let entry = &replicated::PLAIN;
        let (n, backoff) = (setup.option("coordinators", 0).unwrap(), "constant");
        let setup = setup.with("backoff", backoff).with("base", 10);
        let outcome = simulate(entry, &plan(entry, setup, [ask(n, 0, a_holds), ask(n + 1, 3, 1)]));
        let costs = costs(&outcome);
        let b = costs.entries.iter().find(|entry| entry.node == NodeId(n + 1)).unwrap();
        assert!(b.left.is_some());
        (b.messages_entry, b.messages_exit)
    }

    #[test]
    fn k_attempts_with_g_grants_in_vain_cost_2mk_plus_m_plus_g() {
        // B asks the same two as A, both deny; it asks again when A has left.
        assert_eq!(messages_of_b(group(3, 2, 2).with("targets", "fixed"), 8), (8, 2));
        // B asks the second and the third; it gives the third's grant back.
        assert_eq!(messages_of_b(group(3, 2, 2).with("targets", "rotate"), 8), (9, 2));
        // Three attempts at three coordinators, of which two in vain.
        assert_eq!(messages_of_b(group(5, 3, 2).with("targets", "fixed"), 20), (18, 3));
    }

    /// A holds the first two of three; one of these resets; B asks the last two.
    #[test]
    fn one_reset_suffices_for_two_inside() {
        let entry = &replicated::PLAIN;
        let setup = group(3, 2, 2).with("targets", "rotate");
        let mut spec = plan(entry, setup.clone(), [ask(3, 0, 50), ask(4, 10, 5)]);
        assert_eq!(holds(&simulate(entry, &spec), LIVE), Ok(()));
        spec.faults = Faults::none().with(at(5), Action::Reset(NodeId(1)));
        let outcome = simulate(entry, &spec);
        assert!(verdict(Property::Exclusion, &outcome, 1).is_violated());

        // A majority that overlaps in two is proof against one.
        let entry = &replicated::PLAIN;
        let mut spec = plan(entry, group(3, 3, 2), [ask(3, 0, 50), ask(4, 10, 5)]);
        spec.faults = Faults::none().with(at(5), Action::Reset(NodeId(1)));
        assert_eq!(holds(&simulate(entry, &spec), LIVE), Ok(()));

        // So is a coordinator that writes down what it grants.
        let entry = &replicated::PERSISTENT;
        let mut spec = plan(entry, setup, [ask(3, 0, 50), ask(4, 10, 5)]);
        spec.faults = Faults::none()
            .with(at(5), Action::Crash(NodeId(1)))
            .with(at(5), Action::Recover(NodeId(1)));
        assert_eq!(spec.beyond(&entry.info), []);
        assert_eq!(holds(&simulate(entry, &spec), LIVE), Ok(()));
    }

    /// Two clients, each near two of the four coordinators.
    fn split(backoff: &str, seed: u64) -> Outcome {
        let entry = &replicated::PLAIN;
        let setup = group(4, 3, 2).with("mode", "ask-all").with("backoff", backoff);
        let mut spec = burst(entry, setup, [4, 5], 5);
        let near = |a: usize, b: usize| {
            let pair = (a.min(b), a.max(b));
            [(0, 4), (1, 4), (2, 5), (3, 5)].contains(&pair)
        };
        let delay = |a, b| if near(a, b) { T } else { T * 2 };
        let rows = (0..6).map(|a| (0..6).map(|b| delay(a, b)).collect()).collect();
        spec.delays = Delay::Matrix(rows).into();
        spec.seed = seed;
        spec.until = at(10_000);
        simulate(entry, &spec)
    }

    #[test]
    fn two_who_split_the_coordinators_meet_for_ever_if_the_backoff_is_constant() {
        let outcome = split("constant", 0);
        assert_eq!((outcome.stats.entered, outcome.end), (0, End::TimeLimit));
        assert!(verdict(Property::NoDeadlock, &outcome, 1).is_violated());
        for seed in 0..200 {
            let outcome = split("random", seed);
            assert_eq!((outcome.stats.entered, outcome.end), (2, End::Served), "seed {seed}");
        }
    }

    #[test]
    fn in_practice_everybody_gets_in_and_sometimes_out_of_order() {
        let entry = &replicated::PLAIN;
        let mut overtaken = 0;
        for seed in 0..200 {
            let mode = if seed % 2 == 0 { "ask-m" } else { "ask-all" };
            let n = 3 + (seed % 3) as u32;
            let spec = random_spec(entry, group(n, n / 2 + 1, 4).with("mode", mode), seed);
            let outcome = simulate(entry, &spec);
            assert_eq!(outcome.stats.entered, 12, "seed {seed}");
            assert_eq!(holds(&outcome, SAFE), Ok(()), "seed {seed}");
            let order = verdict(Property::FcfsHappenedBefore, &outcome, 1);
            overtaken += u32::from(order.is_violated());
        }
        assert!(overtaken > 0, "later requests do enter first");
    }

    /// How many of so many runs have two inside, if each coordinator resets now and then.
    fn double_entries(m: u32, runs: u64) -> u32 {
        let entry = &replicated::PLAIN;
        let violated = |seed: &u64| {
            let setup = group(8, m, 3).with("mode", "ask-all").with("base", 1);
            let mut spec = random_spec(entry, setup, *seed);
            spec.workload.hold = Spread::exactly(T * 20);
            spec.faults = resets(8, 60, 300, *seed);
            let outcome = simulate(entry, &spec);
            verdict(Property::Exclusion, &outcome, 1).is_violated()
        };
        (0..runs).filter(violated).count() as u32
    }

    #[test]
    fn a_larger_overlap_makes_double_entries_by_reset_rarer() {
        let (bare, more) = (double_entries(5, 200), double_entries(6, 200));
        assert!(bare > 20 && more * 3 < bare, "m=5: {bare}, m=6: {more}");
    }

    #[test]
    fn fewer_resets_than_the_overlap_do_no_harm() {
        let entry = &replicated::PLAIN;
        for seed in 0..240 {
            // Majorities of three out of four overlap in two, so that one reset is one too few.
            let mut spec = random_spec(entry, group(4, 3, 3), seed);
            let mut rng = Rng::new(seed);
            let (when, who) = (rng.below(60), NodeId(rng.below(4) as u32));
            spec.faults = Faults::none().with(at(when), Action::Reset(who));
            let outcome = simulate(entry, &spec);
            assert_eq!(holds(&outcome, SAFE), Ok(()), "seed {seed}");
            assert_eq!(outcome.stats.entered, 9, "seed {seed}");
        }
    }

    #[test]
    fn with_stable_storage_any_node_may_crash_and_come_back() {
        let entry = &replicated::PERSISTENT;
        for seed in 0..240 {
            let n = 3 + (seed % 3) as u32;
            let mode = if seed % 2 == 0 { "ask-m" } else { "ask-all" };
            let mut spec = random_spec(entry, group(n, n / 2 + 1, 3).with("mode", mode), seed);
            let mut rng = Rng::new(seed);
            for _ in 0..8 {
                let (who, when) = (NodeId(rng.below(u64::from(n + 3)) as u32), rng.below(120));
                let back = at(when + rng.below(20));
                spec.faults = std::mem::take(&mut spec.faults)
                    .with(at(when), Action::Crash(who))
                    .with(back, Action::Recover(who));
            }
            assert_eq!(spec.beyond(&entry.info), []);
            let outcome = simulate(entry, &spec);
            assert_eq!(holds(&outcome, LIVE), Ok(()), "seed {seed}");
        }
    }

    #[test]
    fn the_crash_of_somebody_idle_is_harmless_and_so_is_that_of_one_coordinator() {
        let entry = &replicated::PLAIN;
        for seed in 0..200 {
            let mut spec = random_spec(entry, group(5, 3, 4), seed);
            if let Arrivals::Closed { clients, .. } = &mut spec.workload.arrivals {
                *clients = 5..8;
            }
            let who = if seed % 2 == 0 { 8 } else { seed as u32 / 2 % 5 };
            spec.faults = Faults::none().with(at(seed % 40), Action::Crash(NodeId(who)));
            let outcome = simulate(entry, &spec);
            assert_eq!(outcome.stats.entered, 9, "seed {seed}");
            assert_eq!(holds(&outcome, SAFE), Ok(()), "seed {seed}");
        }
    }

    #[test]
    fn a_holder_that_crashes_blocks_its_granters_unless_there_is_a_lease() {
        let entry = &replicated::PLAIN;
        let run = |lease: u32| {
            let setup = group(3, 2, 2).with("targets", "fixed").with("lease", lease);
            let mut spec = plan(entry, setup, [ask(3, 0, 50), ask(4, 10, 5)]);
            spec.faults = Faults::none().with(at(5), Action::Crash(NodeId(3)));
            simulate(entry, &spec)
        };
        let outcome = run(0);
        assert_eq!(outcome.stats.entered, 1);
        assert!(verdict(Property::NoDeadlock, &outcome, 1).is_violated());
        let outcome = run(100);
        assert_eq!(order(&outcome), [3, 4]);
        assert_eq!(holds(&outcome, SAFE), Ok(()));
    }

    #[test]
    fn leases_keep_crashed_clients_and_long_stays_from_blocking_others() {
        let entry = &replicated::PLAIN;
        for seed in 0..240 {
            let setup = group(3 + (seed % 3) as u32, 3, 4).with("lease", 30);
            let n = setup.option("coordinators", 0).unwrap();
            let mut spec = random_spec(entry, setup, seed);
            spec.workload.hold = Spread::between(T, T * 40);
            let crash = Action::Crash(NodeId(n + (seed % 2) as u32));
            spec.faults = Faults::none().with(at(seed % 100), crash);
            let outcome = simulate(entry, &spec);
            assert_eq!(holds(&outcome, LIVE), Ok(()), "seed {seed}");
        }
    }

    #[test]
    fn lost_messages_are_retried() {
        let entry = &replicated::PLAIN;
        for label in ["Req", "Grant", "Deny", "Rel"] {
            let setup = group(3, 2, 2).with("targets", "fixed").with("lease", 200);
            let mut spec = plan(entry, setup, [ask(3, 0, 8), ask(4, 3, 8)]);
            let lose = Action::Lose { label: label.to_owned() };
            spec.faults = Faults::none().with(at(0), lose);
            let outcome = simulate(entry, &spec);
            assert_eq!((outcome.stats.entered, outcome.stats.lost), (2, 1), "{label}");
            assert_eq!(holds(&outcome, SAFE), Ok(()), "{label}");
        }
    }
}

/// Each of the nodes 0 to `n` resets at random moments, on average every `mean` units, until `end`.
fn resets(n: u32, mean: u64, end: u64, seed: u64) -> Faults {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let mut faults = Faults::none();
    for node in (0..n).map(NodeId) {
        let mut t = rng.exponential(mean * 1_000_000);
        while t < end * 1_000_000 {
            faults = faults.with(Time::from_nanos(t), Action::Reset(node));
            t += rng.exponential(mean * 1_000_000);
        }
    }
    faults
}
