//! Failure detectors measured: how soon they find a crash, how often they are wrong, what they cost,
//! and what one of these can be had for another.

use std::time::Duration;

use conclave_protocol::{Info, Knob, NodeId, Setup, Time};
use conclave_sim::{Delay, DetectorMetrics, Event, Fault, Outcome, Percentiles, RunSpec, Tracing};
use serde::Serialize;

use super::mutex::Beside;
use super::mutex::{in_units, topology};
use super::sheets::Sheet;
use super::{How, Kind, figure, or_dash};
use crate::simulate;
use crate::theory::setups::{T, at};

/// How failure detectors are compared.
pub(super) static KIND: Kind = Kind { family: "fd", nodes: &[5], seeds: 20, how: How::Detectors };

/// How long a run takes, in units of `T`. Messages are counted from the first quarter to the second,
/// and the crash comes at the beginning of the second half.
const SPAN: u32 = 400;
/// When delays settle, where they do.
const SETTLED: u32 = SPAN / 4;

/// Everything that was measured about failure detectors.
#[derive(Debug, Serialize)]
pub struct Detectors {
    /// The family.
    pub family: &'static str,
    /// Numbers of nodes.
    pub nodes: Vec<u32>,
    /// How many runs were averaged over.
    pub seeds: u64,
    /// Each among each number of nodes.
    pub detectors: Vec<Watched>,
    /// What a change of one option does to detection time and mistakes, where delays have no bound.
    pub tradeoff: Vec<Curve>,
}

/// A detector among so many nodes.
#[derive(Debug, Serialize)]
pub struct Watched {
    /// Its id.
    pub id: &'static str,
    /// How many nodes there are.
    pub nodes: u32,
    /// By delay model.
    pub figures: Vec<Figures>,
    /// Why there are none.
    pub unfit: Option<String>,
}

/// What a detector did over one delay model. Times are in units of `T`.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The delay model.
    pub delays: &'static str,
    /// From a crash until the others suspect it for good, unless all did already.
    pub detection: Option<Detection>,
    /// Crashes that at least one live node did not notice.
    pub missed: usize,
    /// Wrong suspicions, per pair and 1000 `T` that both are up and one trusts the other.
    pub mistakes: f64,
    /// Those in the second half of the runs, per pair and 1000 `T`.
    pub mistakes_late: f64,
    /// How long they last, on average, of those that were taken back or came true.
    pub mistake_duration: Option<f64>,
    /// From one to the next of the same pair, on average.
    pub mistake_recurrence: Option<f64>,
    /// The share of the time that both are up in which one is wrong about the other.
    pub mistaken: f64,
    /// Messages per pair and `T`.
    pub messages: Beside,
    /// Bytes per pair and `T`.
    pub bytes: f64,
}

/// How soon a crash is found.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Detection {
    /// The soonest.
    pub least: f64,
    /// On average.
    pub mean: f64,
    /// Ninety-nine of a hundred are no later.
    pub p99: f64,
    /// The latest.
    pub most: f64,
    /// The most that theory allows for, where delays keep the promise.
    pub bound: Option<f64>,
}

/// A detector with one option set to one value after the other.
#[derive(Debug, Serialize)]
pub struct Curve {
    /// Its id.
    pub id: &'static str,
    /// What is set.
    pub knob: &'static str,
    /// Value by value.
    pub points: Vec<Point>,
}

/// What came of a value.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// The value.
    pub value: f64,
    /// Mean detection time, in units of `T`.
    pub detection: f64,
    /// Wrong suspicions, per pair and 1000 `T` of trust.
    pub mistakes: f64,
}

impl Curve {
    /// The detector and what is set.
    pub fn name(&self) -> String {
        format!("{}, {}", short(self.id), self.knob)
    }
}

fn short(id: &'static str) -> &'static str {
    id.split_once('/').map_or(id, |(_, name)| name)
}

/// How long messages take, what it is called, and whether no message takes longer than `T`.
fn models() -> [(&'static str, Delay, bool); 4] {
    let (mean, bound) = (T / 2, T);
    [
        ("constant T", Delay::Constant(T), true),
        ("uniform up to T", Delay::Uniform(T / 20, T), true),
        ("exponential", Delay::Exponential(mean), false),
        ("settling", Delay::Settling { mean, bound, at: at(SETTLED) }, false),
    ]
}

/// What to change about each of these, one thing after the other.
fn knobs<'a>(
    algorithms: &'a [&'static Info],
) -> impl Iterator<Item = (&'static Info, &'static Knob)> + 'a {
    let knobs = |info: &&'static Info| {
        let detecting = info.detecting.iter();
        let info = *info;
        detecting.flat_map(|it| it.knobs).map(move |knob| (info, knob))
    };
    algorithms.iter().flat_map(knobs)
}

/// Measures detectors, as long as `on` says so.
pub fn measure(
    algorithms: &[&'static Info],
    nodes: &[u32],
    seeds: u64,
    mut on: impl FnMut(&str) -> bool,
) -> (Detectors, bool) {
    let mut measured = Detectors {
        family: KIND.family,
        nodes: nodes.to_vec(),
        seeds,
        detectors: Vec::new(),
        tradeoff: Vec::new(),
    };
    for &nodes in nodes {
        for &info in algorithms {
            if !on(&format!("{} × {nodes}", info.name())) {
                return (measured, false);
            }
            measured.detectors.push(watched(info, nodes, seeds));
        }
    }
    let nodes = nodes.first().copied().unwrap_or(5);
    for (info, knob) in knobs(algorithms) {
        let name = knob.name;
        if !on(&format!("{} by {name}", info.name())) {
            return (measured, false);
        }
        let points = knob.values.iter().filter_map(|&value| point(info, nodes, knob, value, seeds));
        measured.tradeoff.push(Curve { id: info.id, knob: name, points: points.collect() });
    }
    (measured, true)
}

/// How many steps [`measure`] takes.
pub fn steps(algorithms: &[&'static Info], nodes: &[u32]) -> usize {
    algorithms.len() * nodes.len() + knobs(algorithms).count()
}

fn watched(info: &'static Info, nodes: u32, seeds: u64) -> Watched {
    let mut watched = Watched { id: info.id, nodes, figures: Vec::new(), unfit: None };
    for (delays, model, bounded) in models() {
        let setup = Setup::new(topology(info, nodes));
        match runs(info, &setup, &model, seeds) {
            Ok(runs) => watched.figures.push(runs.figures(info, &setup, delays, bounded)),
            Err(why) => {
                watched.unfit = Some(why);
                break;
            }
        }
    }
    watched
}

fn point(info: &Info, nodes: u32, knob: &Knob, value: f64, seeds: u64) -> Option<Point> {
    let mut setup = Setup::new(topology(info, nodes));
    if knob.processing {
        setup.processing = T.mul_f64(value);
    } else {
        setup = setup.with(knob.name, value);
    }
    for (name, value) in knob.beside {
        setup = setup.with(name, value);
    }
    let (_, exponential, _) = models().into_iter().nth(2)?;
    let Runs { quality, .. } = runs(info, &setup, &exponential, seeds).ok()?;
    let mistakes = quality.mistake_hazard(T * 1000)?;
    quality.quickest()?;
    Some(Point { value, detection: in_units(quality.detection().mean), mistakes })
}

/// What came of several runs.
struct Runs {
    quality: DetectorMetrics,
    /// Messages and bytes from the first quarter to the second.
    counted: (u64, u64),
    late: usize,
    seeds: u64,
}

fn runs(info: &Info, setup: &Setup, model: &Delay, seeds: u64) -> Result<Runs, String> {
    let mut all = Runs { quality: DetectorMetrics::default(), counted: (0, 0), late: 0, seeds };
    for seed in 0..seeds {
        let mut spec = RunSpec::new(info, setup.clone());
        spec.seed = seed;
        spec.delays = model.clone().into();
        spec.linger = None;
        spec.until = at(SPAN);
        spec.tracing = Tracing::Sizes;
        // At a different moment between two beats each time.
        let crash = at(SPAN / 2) + T * (seed as u32 * 37 % 100) / 10;
        let crashing = NodeId(seed as u32 % setup.n());
        spec.faults = spec.faults.with(crash, Fault::Crash(crashing));
        let outcome = simulate(&spec).map_err(|failure| failure.to_string())?;
        let quality = DetectorMetrics::of(&outcome.trace);
        let (messages, bytes) = sent(&outcome, at(SPAN / 4), at(SPAN / 2));
        all.counted.0 += messages;
        all.counted.1 += bytes;
        all.late += quality.mistakes.iter().filter(|mistake| mistake.at >= at(SPAN / 2)).count();
        all.quality = all.quality.and(quality);
    }
    Ok(all)
}

/// Messages and bytes sent from one moment until before another.
fn sent(outcome: &Outcome, from: Time, until: Time) -> (u64, u64) {
    let inside = outcome.trace.records.iter().filter(|record| (from..until).contains(&record.at));
    inside.fold((0, 0), |(messages, sum), record| match record.event() {
        Event::Send { bytes, .. } => (messages + 1, sum + u64::from(bytes)),
        _ => (messages, sum),
    })
}

impl Runs {
    fn figures(&self, info: &Info, setup: &Setup, delays: &'static str, bounded: bool) -> Figures {
        let quality = &self.quality;
        let (n, theory) = (f64::from(setup.n()), info.detecting);
        let Percentiles { mean, p99, max, .. } = quality.detection();
        let detection = quality.quickest().map(|least| Detection {
            least: in_units(least),
            mean: in_units(mean),
            p99: in_units(p99),
            most: in_units(max),
            bound: theory.and_then(|it| it.at_most?(info)).filter(|_| bounded),
        });
        // The crash is near enough to the middle.
        let late = self.seeds as f64 * f64::from(SPAN / 2) * (n - 1.0) * (n - 2.0).max(1.0);
        let time = self.seeds as f64 * f64::from(SPAN / 4) * n * (n - 1.0);
        let mean = |of: Percentiles| (of.max > Duration::ZERO).then(|| in_units(of.mean));
        Figures {
            delays,
            detection,
            missed: quality.missed(),
            mistakes: quality.mistake_hazard(T * 1000).unwrap_or(0.0),
            mistakes_late: self.late as f64 * 1000.0 / late,
            mistake_duration: mean(quality.mistake_duration()),
            mistake_recurrence: mean(quality.mistake_recurrence()),
            mistaken: quality.mistaken_share().unwrap_or(0.0),
            messages: Beside {
                measured: Some(self.counted.0 as f64 / time),
                theory: theory.and_then(|it| it.messages?(info, n)),
            },
            bytes: self.counted.1 as f64 / time,
        }
    }
}

const COLUMNS: [(&str, u8); 11] = [
    ("delays", 0),
    ("detection mean", 0),
    ("p99", 2),
    ("most", 0),
    ("mistakes", 0),
    ("late mistakes", 1),
    ("mistake lasts", 3),
    ("mistake recurs", 4),
    ("wrong %", 1),
    ("messages", 0),
    ("bytes", 3),
];

impl Detectors {
    /// The tables: one for each number of nodes, and one of the trade-off.
    pub fn sheets(&self) -> Vec<Sheet> {
        let mut sheets: Vec<Sheet> = self.nodes.iter().map(|&nodes| self.sheet(nodes)).collect();
        if !self.tradeoff.is_empty() {
            sheets.push(self.tradeoff_sheet());
        }
        sheets
    }

    fn sheet(&self, nodes: u32) -> Sheet {
        let (mut rows, mut notes) = (Vec::new(), vec![self.about()]);
        for detector in self.detectors.iter().filter(|detector| detector.nodes == nodes) {
            let name = short(detector.id);
            notes.extend(detector.unfit.iter().map(|why| format!("{name}: – because {why}")));
            for (i, figures) in detector.figures.iter().enumerate() {
                // Once is enough.
                let name = if i == 0 { name } else { "" };
                if figures.missed > 0 {
                    let (missed, delays) = (figures.missed, figures.delays);
                    notes.push(format!("{name}, {delays}: {missed} crashes went unnoticed"));
                }
                rows.push(figures.cells(name));
            }
        }
        let head = std::iter::once("detector").chain(COLUMNS.map(|(head, _)| head));
        let matters = std::iter::once(0).chain(COLUMNS.map(|(_, matters)| matters)).collect();
        let head = head.map(str::to_owned).collect();
        Sheet { title: format!("N = {nodes}"), head, rows, notes, words: 2, matters }
    }

    fn about(&self) -> String {
        let (seeds, half) = (self.seeds, SPAN / 2);
        format!(
            "{seeds} runs of {SPAN} T each, in which one node crashes at about {half}. All times are \
             in T. exponential: half a T on average, without bound; settling: the same, and no more \
             than T from {SETTLED} on. detection: until those who trusted the crashed node suspect it \
             for good; ≤: what theory allows where no message takes longer than T. mistakes: wrong \
             suspicions per pair and 1000 T of trust; late: those after {half}, per pair and 1000 T; \
             lasts, recurs: how long one takes, and from one to the next of the same pair; wrong: the \
             share of the time. messages, bytes: per pair and T. ✓: as theory has it; (n): theory says \
             n"
        )
    }

    fn tradeoff_sheet(&self) -> Sheet {
        let row = |curve: &Curve, point: &Point| {
            let Point { value, detection, mistakes } = *point;
            let numbers = [figure(value), figure(detection), figure(mistakes)];
            [vec![short(curve.id).to_owned(), curve.knob.to_owned()], numbers.to_vec()].concat()
        };
        let rows = self.tradeoff.iter();
        let rows = rows.flat_map(|curve| curve.points.iter().map(move |point| row(curve, point)));
        let notes = vec![
            "exponential delays: what a change of one option does. Tproc is added to the time-out \
             of 2 T; peers are checked every 10 T then. step starts from a time-out of 2 T"
                .to_owned(),
        ];
        let head = ["detector", "option", "value", "detection mean", "mistakes"];
        Sheet {
            title: "The trade-off".to_owned(),
            head: head.map(str::to_owned).to_vec(),
            rows: rows.collect(),
            notes,
            words: 2,
            matters: Vec::new(),
        }
    }

    /// What the page says above its tables.
    pub fn summary(&self) -> String {
        format!(
            "Detection time, mistakes and messages of every detector over four delay models; {} runs \
             each.",
            self.seeds
        )
    }
}

impl Figures {
    fn cells(&self, name: &str) -> Vec<String> {
        let most = match self.detection.map(|it| (it.most, it.bound)) {
            Some((most, Some(bound))) if most <= bound => {
                format!("{} ✓ ≤{}", figure(most), figure(bound))
            }
            Some((most, Some(bound))) => format!("{} (≤{})", figure(most), figure(bound)),
            Some((most, None)) => figure(most),
            None => "–".to_owned(),
        };
        vec![
            name.to_owned(),
            self.delays.to_owned(),
            or_dash(self.detection.map(|it| it.mean)),
            or_dash(self.detection.map(|it| it.p99)),
            most,
            figure(self.mistakes),
            figure(self.mistakes_late),
            or_dash(self.mistake_duration),
            or_dash(self.mistake_recurrence),
            figure(self.mistaken * 100.0),
            self.messages.show(figure),
            figure(self.bytes),
        ]
    }
}
