//! Suspicion as a number that grows with silence. A node keeps, of every peer, how long the latest
//! pauses between two of its beats were, and takes them for a sample of a normal distribution. φ
//! says how unlikely the present pause is by that measure: φ = 1 if one pause in ten is longer, 8 if
//! one in a hundred million is. An application that asks for φ draws its own line: a low one for a
//! cheap precaution, a high one before something that cannot be undone. By itself, the detector
//! suspects a peer from a fixed φ on.
//!
//! A crashed node falls silent, so φ grows beyond any line and stays there. A live node crosses it
//! by chance, as often as the line says while pauses are as they were; where the network gets worse,
//! the window learns that, and the line stays where it was by chance but moves in time.
//!
//! # Rules
//!
//! 1. Every interval: send `Beat` to all.
//! 2. `Beat` from a peer: put the pause since its last one into its window, in place of the oldest
//!    if the window is full. If the peer is suspected: trust it.
//! 3. φ of a peer, φ(t) = −log10(1 − F(t − t_last)) with F the normal distribution of the mean and
//!    the deviation of its window, passes the line: suspect it.
//!
//! Before there is anything to measure, the pauses are taken for an interval, give or take a quarter.
//! The deviation never counts for less than a share of the interval: after many regular beats, the
//! least delay would be a suspicion otherwise.
//!
//! φ depends only on how many deviations the pause is beyond the mean. So the line is turned into
//! that number once, before the run, and rule 3 into a time-out: mean + deviations × deviation, in
//! whole nanoseconds. No state and no rule has a fraction in it that could differ from one machine to
//! the next, and a timer does what would take a look at the clock at every moment.
//!
//! # Cost
//!
//! N(N − 1) messages an interval, as heartbeats. A crash is noticed when the last beat has arrived and
//! the mean and so many deviations have passed since: 5.6 for φ = 8, 3.1 for 3, 1.3 for 1.
//!
//! # Known failures
//!
//! Suspicions can be wrong at any time. Pauses are not normal: where a message is late now and then,
//! mistakes are far more frequent than φ says. And they need not come to an end although delays are
//! bounded: a window forgets, so that one late beat after so many regular ones is a mistake each time
//! it comes, where `fd/heartbeat` would have learnt from the first.
//!
//! A pause that was a crash and a recovery counts as a pause as well, and makes the detector slow to
//! notice the next crash of this peer until the window has forgotten it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::{
    Channels, Charge, Crashes, Ctx, Detecting, Entry, Knob, Model, Never, NodeId, Opt, Property,
    Protocol, Setup, Time, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{COMPLETE, Notice, units};

/// The state of a node: what it knows of every peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PhiAccrual {
    watched: BTreeMap<NodeId, Watched>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Watched {
    /// When its last beat arrived.
    heard: Time,
    /// The latest pauses, in nanoseconds, the oldest first; never none.
    pauses: VecDeque<u64>,
    suspected: bool,
}

/// The message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// I am alive.
    Beat,
}

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// Time to say that we are alive.
    Beat,
    /// The φ of this peer passes the line.
    Line(NodeId),
}

/// The constants.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How often a node sends a beat.
    pub interval: Duration,
    /// How many pauses the window holds.
    pub window: usize,
    /// The least that the deviation counts for.
    pub floor: Duration,
    /// The line, in millionths of a deviation beyond the mean.
    pub deviations: u64,
}

impl Config {
    /// As the options say.
    pub fn of(setup: &Setup) -> Result<Self, Unfit> {
        let interval = units(setup, "interval", 2)?;
        let line = setup.option::<f64>("phi", 8.0)?;
        if !(0.5..=100.0).contains(&line) {
            return Err(Unfit::new(format!("phi={line}, but it has to be from 0.5 to 100")));
        }
        let window = setup.option::<u32>("window", 100)?;
        if !(2..=10_000).contains(&window) {
            return Err(Unfit::new(format!("window={window}, but it has to be from 2 to 10000")));
        }
        let floor = interval * setup.option::<u32>("floor", 10)? / 100;
        if floor.is_zero() {
            return Err(Unfit::new("floor=0, but it has to be at least 1"));
        }
        Ok(Self { interval, window: window as usize, floor, deviations: deviations(line) })
    }
}

impl Protocol for PhiAccrual {
    type Config = Config;
    type Request = Never;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let usual = nanos(ctx.config.interval);
        let pauses = VecDeque::from([usual - usual / 4, usual + usual / 4]);
        let fresh = Watched { heard: ctx.now(), pauses, suspected: false };
        ctx.set_timer(Timer::Beat, Duration::ZERO);
        for peer in ctx.peers() {
            ctx.set_timer(Timer::Line(peer), fresh.line(ctx.config));
        }
        Self { watched: ctx.peers().map(|peer| (peer, fresh.clone())).collect() }
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    /// Rule 2.
    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        let Msg::Beat = msg;
        let Some(watched) = self.watched.get_mut(&from) else { return };
        ctx.rule(2);
        let now = ctx.now();
        watched.pauses.push_back(nanos(now.max(watched.heard) - watched.heard));
        while watched.pauses.len() > ctx.config.window {
            watched.pauses.pop_front();
        }
        watched.heard = now;
        ctx.set_timer(Timer::Line(from), watched.line(ctx.config));
        if std::mem::take(&mut watched.suspected) {
            ctx.notify(Notice::Trusts(from));
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        match timer {
            // Rule 1.
            Timer::Beat => {
                ctx.rule(1);
                ctx.broadcast(Msg::Beat);
                ctx.set_timer(Timer::Beat, ctx.config.interval);
            }
            // Rule 3.
            Timer::Line(peer) => {
                if let Some(watched) = self.watched.get_mut(&peer) {
                    ctx.rule(3);
                    watched.suspected = true;
                    ctx.notify(Notice::Suspects(peer));
                }
            }
        }
    }

    fn charge(_: &Msg, _: NodeId, _: NodeId) -> Charge {
        Charge::Nobody
    }
}

impl PhiAccrual {
    /// How suspicious `peer` is at the moment `now`; `None` if it is not watched.
    pub fn phi(&self, peer: NodeId, now: Time, config: &Config) -> Option<f64> {
        let watched = self.watched.get(&peer)?;
        let (mean, deviation) = watched.sample(config);
        Some(phi(now.max(watched.heard) - watched.heard, mean, deviation))
    }
}

impl Watched {
    /// The mean and the deviation of the pauses.
    fn sample(&self, config: &Config) -> (Duration, Duration) {
        let n = self.pauses.len() as u128;
        let sum: u128 = self.pauses.iter().map(|&pause| u128::from(pause)).sum();
        let squares: u128 = self.pauses.iter().map(|&pause| u128::from(pause).pow(2)).sum();
        // The squares of ten thousand of the longest pauses, ten thousand times, still have room.
        let variance = (n * squares).saturating_sub(sum * sum) / (n * n);
        let whole = |value: u128| Duration::from_nanos(u64::try_from(value).unwrap_or(u64::MAX));
        (whole(sum / n), whole(variance.isqrt()).max(config.floor))
    }

    /// How long after its last beat the peer's φ passes the line.
    fn line(&self, config: &Config) -> Duration {
        let (mean, deviation) = self.sample(config);
        let beyond = deviation.as_nanos() * u128::from(config.deviations) / 1_000_000;
        mean + Duration::from_nanos(u64::try_from(beyond).unwrap_or(u64::MAX / 2))
    }
}

/// A pause in nanoseconds. All that are longer than a week count for the same.
fn nanos(span: Duration) -> u64 {
    const LONGEST: u64 = 1 << 49;
    u64::try_from(span.as_nanos()).map_or(LONGEST, |nanos| nanos.min(LONGEST))
}

/// How suspicious a pause is if pauses are normally distributed: −log10 of the probability that
/// one is longer.
pub fn phi(elapsed: Duration, mean: Duration, deviation: Duration) -> f64 {
    phi_of((elapsed.as_secs_f64() - mean.as_secs_f64()) / deviation.as_secs_f64())
}

/// The φ of a pause that is so many deviations longer than the mean.
fn phi_of(z: f64) -> f64 {
    if z < 0.0 {
        let shorter = 10_f64.powf(-phi_of(-z));
        return -(-shorter).ln_1p() * std::f64::consts::LOG10_E;
    }
    let root = std::f64::consts::TAU.sqrt();
    if z < 3.0 {
        // 1 − F(z) by the power series of F(z) − 1/2 over the density.
        let (mut term, mut sum, mut k) = (z, z, 1.0);
        while term > 1e-17 * sum {
            k += 2.0;
            term *= z * z / k;
            sum += term;
        }
        return -(0.5 - (-z * z / 2.0).exp() / root * sum).log10();
    }
    // Far out, 1 − F(z) is the density over z + 1/(z + 2/(z + 3/(z + …))), which does not vanish
    // as the difference would.
    let fraction = (1..=100).rev().fold(z, |rest, k| z + f64::from(k) / rest);
    (z * z / 2.0) * std::f64::consts::LOG10_E + (fraction * root).log10()
}

/// How many deviations beyond the mean a pause has this φ, in millionths: as exact as a timer
/// needs, and too coarse for the last digit of a logarithm to show.
fn deviations(line: f64) -> u64 {
    let (mut least, mut most) = (0_u64, 100_000_000);
    while least < most {
        let middle = least.midpoint(most);
        if phi_of(middle as f64 / 1e6) < line {
            least = middle + 1;
        } else {
            most = middle;
        }
    }
    least
}

/// The detector with a fixed line.
pub static PLAIN: Entry<PhiAccrual> = Entry::new("fd/phi-accrual", "φ accrual", Config::of)
    .summary("suspicion grows with silence, measured by how regular the beats were")
    .source("Hayashibara, Défago, Yared, Katayama. The φ accrual failure detector. SRDS 2004")
    .text(include_str!("phi_accrual.rs"))
    .model(Model { channels: Channels::Lossy, crashes: Crashes::Amnesia, ..Model::FIFO })
    .holds(COMPLETE)
    .fails(&[(
        Property::Accuracy,
        "a beat that is later than all those before it makes its live sender a suspect",
    )])
    .options(&[
        Opt { name: "interval", default: "2", help: "a beat is sent every so many T" },
        Opt { name: "phi", default: "8", help: "the line: suspect from this φ on" },
        Opt { name: "window", default: "100", help: "so many pauses are remembered" },
        Opt {
            name: "floor",
            default: "10",
            help: "the deviation counts for at least so many hundredths of the interval",
        },
    ])
    .claims(&[
        // Beats pile up, and where time passes no state comes twice.
        Check::new(2, COMPLETE).crashes(1).amnesias(1).losses(1).repeats(1).bounded(16),
        Check::new(3, COMPLETE).timely().crashes(1).amnesias(1).bounded(30),
        Check::new(2, &[Property::Accuracy]).fails(1),
    ])
    .detecting(Detecting {
        at_most: None,
        messages: Some(|info, _| Some(1.0 / info.default_number("interval")?)),
        knobs: &[Knob::option("phi", &[0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0])],
    });

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect, Topology};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_pause_as_long_as_the_mean_is_a_coin_toss_and_twice_as_long_is_no_chance() {
        let phi = |tenths| phi(SECOND * tenths / 10, SECOND, SECOND / 10);
        assert!((phi(10) - 2_f64.log10()).abs() < 1e-12, "{}", phi(10));
        assert!(phi(20) > 8.0);
        // Known values of the normal distribution.
        for (tenths, probability) in
            [(9, 0.841_344_746), (11, 0.158_655_254), (12, 0.022_750_132), (13, 0.001_349_898)]
        {
            let expected = -f64::log10(probability);
            assert!((phi(tenths) - expected).abs() < 1e-7, "{} {expected}", phi(tenths));
        }
        assert!((phi(20) + 7.619_853e-24_f64.log10()).abs() < 1e-6, "{}", phi(20));
    }

    #[test]
    fn phi_grows_with_the_pause_also_where_the_formula_changes() {
        let mut last = 0.0;
        for hundredths in -3_000..4_000 {
            let phi = phi_of(f64::from(hundredths) / 100.0);
            assert!(phi > last, "{hundredths}: {phi} and {last}");
            last = phi;
        }
        assert!((phi_of(3.0 - 1e-9) - phi_of(3.0)).abs() < 1e-7);
    }

    #[test]
    fn a_line_is_a_number_of_deviations() {
        assert_eq!(deviations(8.0), 5_612_002);
        assert_eq!(deviations(3.0), 3_090_233);
        assert_eq!(deviations(1.0), 1_281_552);
    }

    #[test]
    fn beats_of_a_second_give_or_take_a_tenth_set_the_timer_to_where_phi_is_the_line() {
        let setup = Setup { delay: SECOND, ..Setup::new(Topology::complete(2)) };
        let setup = setup.with("interval", 1).with("window", 50).with("floor", 1);
        let config = Config::of(&setup).expect("it fits");
        let mut bench = Bench::new(&PLAIN, &setup);
        let peer = NodeId(1);
        let (mut now, mut due) = (Time::ZERO, Duration::ZERO);
        for beat in 0..199 {
            now = now + SECOND * if beat % 2 == 0 { 9 } else { 11 } / 10;
            bench.clock(now);
            let effects = bench.at(0).message(peer.0, Msg::Beat);
            let [Effect::SetTimer { timer: Timer::Line(_), after }] = effects[..] else {
                panic!("a beat sets the timer: {effects:?}");
            };
            due = after;
        }
        let node = bench.at(0).state();
        let phi = |elapsed| node.phi(peer, now + elapsed, &config).expect("it is watched");
        assert!((phi(SECOND) - 0.301).abs() < 1e-3, "{}", phi(SECOND));
        assert!(phi(SECOND * 2) > 8.0);
        assert_eq!(node.watched[&peer].pauses.len(), 50);
        assert!((phi(due) - 8.0).abs() < 1e-4, "{} at {due:?}", phi(due));
    }
}
