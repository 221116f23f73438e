//! Mutual exclusion measured: alone, all at once, and without a pause.

use std::time::Duration;

use conclave_protocol::{Info, NodeId, Setup, Topology};
use conclave_sim::{Arrivals, Ask, Costs, Outcome, RunSpec, Spread, Tracing, Workload};
use serde::Serialize;

use super::{Comparison, Graph, How, Kind, Line, Sheet, figure, or_dash};
use crate::theory::fit::{About, alone};
use crate::theory::formula::Params;
use crate::theory::rows_of;
use crate::theory::setups::{T, at};
use crate::{askers, simulate};

/// How mutual exclusion is compared.
pub(super) static KIND: Kind = Kind {
    family: "mutex",
    nodes: &[3, 7, 13, 31, 57],
    seeds: 3,
    how: How::Costs {
        measure: |info, nodes, seeds, algorithm| {
            algorithm.sizes.push(measure(info, nodes, seeds));
        },
        sheet,
        further: |_| None,
        graphs,
    },
};

/// `E`, how long a process stays inside, in units of `T`.
pub const STAY: u32 = 10;

/// When a coordinator has been found, where one has to be, in units of `T`.
const SETTLED: u32 = 100;

/// What an algorithm costs among so many nodes.
#[derive(Clone, Debug, Serialize)]
pub struct Size {
    /// How many nodes there are.
    pub nodes: u32,
    /// What was measured, unless the algorithm does not fit.
    pub figures: Option<Figures>,
    /// Why it does not.
    pub unfit: Option<String>,
    /// The last node that may ask.
    #[serde(skip)]
    pub last_client: Option<u32>,
}

/// Everything measured about an algorithm among so many nodes. Times are in units of `T`.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// One node asks while no other does.
    pub idle: Idle,
    /// All ask at once.
    pub burst: Burst,
    /// All ask again and again.
    pub saturated: Saturated,
}

/// One node asks while no other does: the last that may, or, if it needs no other node's
/// permission, the first.
#[derive(Clone, Debug, Serialize)]
pub struct Idle {
    /// Who asks.
    pub requester: u32,
    /// All its messages.
    pub messages: Beside,
    /// Those that ask for it and grant it.
    pub messages_entry: Beside,
    /// Those that release it.
    pub messages_exit: Beside,
    /// Where a broadcast is one transmission, if that is what the algorithm is about.
    pub transmissions: Option<Beside>,
    /// From asking to entering.
    pub entry_delay: Beside,
    /// From asking to leaving, without the stay itself.
    pub response: Beside,
}

/// Everybody asks at once.
#[derive(Clone, Debug, Serialize)]
pub struct Burst {
    /// All messages of the run.
    pub messages: u64,
    /// From one leaving to the next entering: the mean.
    pub sync_delay: Option<f64>,
    /// The least and the most that theory knows of.
    pub sync_theory: Option<(f64, f64)>,
    /// How many got in, if not all did.
    pub stuck: Option<String>,
}

/// Everybody asks again as soon as it has left.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Saturated {
    /// Messages per entry.
    pub messages: Option<f64>,
    /// Bytes per entry.
    pub bytes: Option<f64>,
    /// Entries per `T`.
    pub throughput: Option<f64>,
    /// `1/(d+E)`, where theory knows the synchronization delay `d`.
    pub throughput_theory: Option<f64>,
    /// Jain's index.
    pub fairness: Option<f64>,
    /// Half wait no longer.
    pub waiting_p50: f64,
    /// Ninety-nine of a hundred wait no longer.
    pub waiting_p99: f64,
    /// How often a request was overtaken, at most.
    pub overtaking: u64,
    /// What came to a halt, if something did.
    pub stuck: Option<String>,
}

/// A figure, and what theory says it is.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Beside {
    /// What was measured.
    pub measured: Option<f64>,
    /// What theory says.
    pub theory: Option<f64>,
}

/// Measures an algorithm among `nodes` nodes.
pub fn measure(info: &'static Info, nodes: u32, seeds: u64) -> Size {
    let setup = Setup::new(topology(info, nodes));
    let figures = askers(info.id, &setup).map_err(|failure| failure.to_string());
    let last_client = figures.as_ref().ok().map(|clients| clients.end.saturating_sub(1));
    let figures = figures.and_then(|clients| {
        if clients.is_empty() {
            return Err("no node would be left to ask".to_owned());
        }
        let system = System { info, setup, clients };
        let burst = system.burst()?;
        Ok(Figures { idle: system.idle()?, saturated: system.saturated(seeds, &burst)?, burst })
    });
    match figures {
        Ok(figures) => Size { nodes, figures: Some(figures), unfit: None, last_client },
        Err(reason) => Size { nodes, figures: None, unfit: Some(reason), last_client },
    }
}

/// The columns after the name, and how much each matters: the last go first where a line is short.
const COLUMNS: [(&str, u8); 12] = [
    ("messages, alone", 0),
    ("messages, saturated", 1),
    ("entry delay", 0),
    ("sync delay", 0),
    ("response time", 2),
    ("bytes per entry", 2),
    ("entries per T", 0),
    ("fair- ness", 2),
    ("waiting p50", 5),
    ("waiting p99", 3),
    ("over- taken", 4),
    ("burst messages", 5),
];

/// The table for one number of nodes.
fn sheet(comparison: &Comparison, i: usize, nodes: u32) -> Sheet {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let stay = comparison.stay;
    notes.push(format!(
        "T is the time a message takes, E = {stay} T the stay inside. alone: the last client asks \
         in an idle system; messages as entry + exit; tx: transmissions, a broadcast being one. \
         sync delay: all ask at once. saturated, bytes and the rest: everybody asks again as soon \
         as it has left. ✓: exactly as theory has it; (n): theory says n; neither: theory has no \
         formula for it"
    ));
    for algorithm in &comparison.algorithms {
        let size = &algorithm.sizes[i];
        let name = algorithm.name().to_owned();
        let Some(figures) = &size.figures else {
            let reason = size.unfit.as_deref().unwrap_or("it does not fit");
            notes.push(format!("{name}: – because {reason}"));
            rows.push([vec![name], vec!["–".into(); COLUMNS.len()]].concat());
            continue;
        };
        let stuck =
            [("all at once", &figures.burst.stuck), ("saturated", &figures.saturated.stuck)];
        for (when, what) in stuck {
            notes.extend(what.iter().map(|what| format!("{name}: {when}: {what}")));
        }
        if size.last_client != Some(figures.idle.requester) {
            let requester = figures.idle.requester;
            notes.push(format!("{name}: alone: p{requester} asks, once things have settled; the last is its own coordinator"));
        }
        rows.push([vec![name], cells(figures)].concat());
    }
    let head = std::iter::once("algorithm").chain(COLUMNS.map(|(head, _)| head));
    let matters = std::iter::once(0).chain(COLUMNS.map(|(_, matters)| matters)).collect();
    let head = head.map(str::to_owned).collect();
    Sheet { title: format!("N = {nodes}"), head, rows, notes, words: 1, matters }
}

fn cells(figures: &Figures) -> Vec<String> {
    let Figures { idle, burst, saturated } = figures;
    let both = |entry: Option<f64>, exit: Option<f64>| {
        Some(format!("{}+{}", figure(entry?), figure(exit?)))
    };
    let Idle { messages, messages_entry: entry, messages_exit: exit, .. } = idle;
    let parts = both(entry.measured, exit.measured);
    let alone = match (&idle.transmissions, parts, both(entry.theory, exit.theory)) {
        (Some(transmissions), ..) => transmissions.show(|count| format!("{}tx", figure(count))),
        (_, Some(parts), Some(theory)) if parts == theory => format!("{parts} ✓"),
        (_, Some(parts), Some(theory)) => format!("{parts} ({theory})"),
        (_, Some(parts), None) => match messages.theory {
            Some(theory) if Some(theory) == messages.measured => format!("{parts} ✓"),
            Some(theory) => format!("{parts} ({})", figure(theory)),
            None => parts,
        },
        _ => "–".to_owned(),
    };
    let response = idle.response.show(|wait| match wait {
        0.0 => "E".to_owned(),
        _ => format!("{}T+E", figure(wait)),
    });
    let sync = match (&burst.stuck, burst.sync_delay, burst.sync_theory) {
        (Some(_), ..) => "stuck".to_owned(),
        (_, Some(delay), Some((least, most))) if least < most => {
            format!("{} ({}…{})", figure(delay), figure(least), figure(most))
        }
        (_, measured, theory) => {
            Beside { measured, theory: theory.map(|(delay, _)| delay) }.show(figure)
        }
    };
    let mut cells = vec![alone, or_dash(saturated.messages), idle.entry_delay.show(figure)];
    cells.extend([sync, response]);
    if saturated.stuck.is_some() {
        cells[1] = "stuck".to_owned();
        cells.extend(["–"; 6].map(str::to_owned));
        cells.push(burst.messages.to_string());
        return cells;
    }
    let rate = Beside { measured: saturated.throughput, theory: saturated.throughput_theory };
    cells.extend([
        saturated.bytes.map_or_else(|| "–".to_owned(), |bytes| format!("{bytes:.0}")),
        rate.show(|rate| format!("{rate:.4}")),
        saturated.fairness.map_or_else(|| "–".to_owned(), |jain| format!("{jain:.3}")),
        figure(saturated.waiting_p50),
        figure(saturated.waiting_p99),
        saturated.overtaking.to_string(),
        burst.messages.to_string(),
    ]);
    cells
}

fn graphs(comparison: &Comparison) -> Vec<Graph> {
    type Read = fn(&Figures) -> Option<f64>;
    let of = |title, unit, log, measured: Read, theory: Read| Graph {
        title,
        unit,
        log,
        lines: lines(comparison, measured, theory),
    };
    vec![
        of(
            "Messages per entry, alone",
            "messages",
            true,
            |f| f.idle.messages.measured,
            |f| f.idle.messages.theory,
        ),
        of("Messages per entry, saturated", "messages", true, |f| f.saturated.messages, |_| None),
        of(
            "Synchronization delay",
            "T",
            false,
            |f| f.burst.sync_delay.filter(|_| f.burst.stuck.is_none()),
            |f| f.burst.sync_theory.filter(|(a, b)| a == b).map(|(delay, _)| delay),
        ),
        of(
            "Entries per T, saturated",
            "entries per T",
            false,
            |f| f.saturated.throughput,
            |f| f.saturated.throughput_theory,
        ),
    ]
}

fn lines(
    comparison: &Comparison,
    measured: fn(&Figures) -> Option<f64>,
    theory: fn(&Figures) -> Option<f64>,
) -> Vec<Line> {
    let lines = comparison.algorithms.iter().enumerate().map(|(place, algorithm)| {
        let points = |read: fn(&Figures) -> Option<f64>| {
            let sizes = algorithm
                .sizes
                .iter()
                .filter_map(|size| Some((f64::from(size.nodes), read(size.figures.as_ref()?)?)));
            sizes.collect::<Vec<_>>()
        };
        let (measured, theory) = (points(measured), points(theory));
        Line { name: algorithm.name(), place, measured, theory }
    });
    lines.filter(|line| !line.measured.is_empty()).collect()
}

/// What the algorithm wants, and a binary tree where it wants a tree.
pub fn topology(info: &Info, nodes: u32) -> Topology {
    Topology::of(info.model.links, nodes)
}

struct System {
    info: &'static Info,
    setup: Setup,
    clients: std::ops::Range<u32>,
}

impl Beside {
    /// The measured figure with a sign if theory agrees, and with theory's if it does not.
    pub fn show(self, figure: impl Fn(f64) -> String) -> String {
        let Some(measured) = self.measured.map(&figure) else { return "–".to_owned() };
        match self.theory.map(&figure) {
            Some(theory) if theory == measured => format!("{measured} ✓"),
            Some(theory) => format!("{measured} ({theory})"),
            None => measured,
        }
    }
}

impl System {
    fn idle(&self) -> Result<Idle, String> {
        let last = self.clients.end - 1;
        let idle = self.idle_of(NodeId(last), 0)?;
        // A coordinator of its own says nothing about what others pay.
        if idle.messages.measured == Some(0.0) && self.clients.start < last {
            return self.idle_of(NodeId(self.clients.start), SETTLED);
        }
        Ok(idle)
    }

    fn idle_of(&self, requester: NodeId, t: u32) -> Result<Idle, String> {
        let ask = Ask { node: requester, at: at(t), hold: None };
        let arrivals = Arrivals::Plan(vec![ask]);
        let workload = Workload { arrivals, hold: Spread::exactly(T * STAY) };
        let (_, costs) = self.run(workload, |_| {})?;
        let entry = costs.entries.first().ok_or("no node asked")?;
        // The response is given without the stay.
        let fit = alone(self.info, &self.setup, requester, Some(Duration::ZERO));
        let multicast = fit.as_ref().is_some_and(|fit| fit.about == About::Transmissions);
        let theory = |quantity: &str| Some(fit.as_ref()?.figure(quantity)?.to_f64());
        let beside = |quantity: &str, measured| {
            let unicast = !(multicast && quantity.starts_with("messages"));
            Beside { measured, theory: theory(quantity).filter(|_| unicast) }
        };
        let entered = entry.entered.map(|entered| in_units(entered - entry.asked));
        let left = entry.left.map(|left| in_units(left - entry.asked) - f64::from(STAY));
        let messages = entry.messages_entry + entry.messages_exit;
        let count = |messages: u64| entry.left.map(|_| messages as f64);
        let transmissions =
            Beside { measured: count(entry.transmissions), theory: theory("messages_total") };
        Ok(Idle {
            requester: requester.0,
            messages: beside("messages_total", count(messages)),
            messages_entry: beside("messages_entry", count(entry.messages_entry)),
            messages_exit: beside("messages_exit", count(entry.messages_exit)),
            transmissions: multicast.then_some(transmissions),
            entry_delay: beside("entry_delay_hops", entered),
            response: beside("response_time", left),
        })
    }

    fn burst(&self) -> Result<Burst, String> {
        let everybody = self.clients.clone().map(NodeId);
        let (_, costs) = self.run(Workload::burst(everybody, T * STAY), |_| {})?;
        let (entered, asked) = (costs.entered().count(), self.clients.len());
        let delays = costs.handovers.iter().map(|handover| in_units(handover.delay));
        Ok(Burst {
            messages: costs.messages,
            sync_delay: mean(delays.collect()),
            sync_theory: sync_theory(self.info.id),
            stuck: (entered < asked).then(|| format!("{entered} of {asked} got in")),
        })
    }

    /// The mean over the seeds, which decide when each asks for the first time.
    fn saturated(&self, seeds: u64, burst: &Burst) -> Result<Saturated, String> {
        let clients = self.clients.len() as u32;
        let runs = (0..seeds.max(1)).map(|seed| {
            let workload = Workload {
                arrivals: Arrivals::Closed {
                    clients: self.clients.clone(),
                    rounds: None,
                    first: Spread::between(Duration::ZERO, T * 4),
                    think: Spread::exactly(Duration::ZERO),
                },
                hold: Spread::exactly(T * STAY),
            };
            let (outcome, costs) = self.run(workload, |spec| {
                spec.seed = seed;
                spec.tracing = Tracing::Sizes;
                // Long enough for some twenty turns each, whatever a hand-over takes.
                spec.until = at(20 * (STAY + 3) * clients.max(4));
            })?;
            Ok((outcome, costs))
        });
        let runs = runs.collect::<Result<Vec<_>, String>>()?;
        let stuck = runs.iter().find_map(|(outcome, costs)| {
            let entered = costs.entered().filter_map(|entry| entry.entered);
            let half = (outcome.trace.ended - at(0)) / 2;
            let late = entered.filter(|&entered| entered - at(0) > half).count();
            let early = outcome.trace.ended < at(20 * (STAY + 3) * clients.max(4));
            (late == 0 || early)
                .then(|| format!("stopped after {} entries", costs.entered().count()))
        });
        if stuck.is_some() {
            return Ok(Saturated { stuck, ..Saturated::default() });
        }
        let average = |of: &dyn Fn(&Costs) -> Option<f64>| {
            mean(runs.iter().filter_map(|(_, costs)| of(costs)).collect())
        };
        let messages = average(&|costs| {
            let done = costs.entries.iter().filter(|entry| entry.left.is_some());
            mean(done.map(|e| (e.messages_entry + e.messages_exit) as f64).collect())
        });
        let waiting = |of: fn(&Costs) -> Duration| average(&|costs| Some(in_units(of(costs))));
        let exactly = burst.sync_theory.filter(|(least, most)| least == most);
        let places = self.info.places(&self.setup);
        Ok(Saturated {
            messages,
            bytes: average(&Costs::bytes_per_entry),
            throughput: average(&|costs| costs.throughput().map(|rate| rate * T.as_secs_f64())),
            throughput_theory: exactly
                .filter(|_| places == 1)
                .map(|(delay, _)| 1.0 / (delay + f64::from(STAY))),
            fairness: average(&Costs::fairness),
            waiting_p50: waiting(|costs| costs.waiting().p50).unwrap_or_default(),
            waiting_p99: waiting(|costs| costs.waiting().p99).unwrap_or_default(),
            overtaking: runs.iter().map(|(_, costs)| costs.overtaking()).max().unwrap_or(0),
            stuck: None,
        })
    }

    fn run(
        &self,
        workload: Workload,
        edit: impl FnOnce(&mut RunSpec),
    ) -> Result<(Outcome, Costs), String> {
        let mut spec = RunSpec::new(self.info, self.setup.clone());
        spec.workload = workload;
        spec.until = at(40 * (STAY + 10) * self.setup.n().max(10));
        edit(&mut spec);
        let outcome = simulate(&spec).map_err(|failure| failure.to_string())?;
        let costs = Costs::of(&outcome.trace);
        Ok((outcome, costs))
    }
}

/// The least and the most that the rows about the algorithm give for the synchronization delay,
/// those left out that are about a line of nodes.
fn sync_theory(id: &str) -> Option<(f64, f64)> {
    let none = Params::new();
    let rows = rows_of(id).filter(|row| row.scenario != "burst-chain");
    let delays = rows.filter_map(|row| row.figure("sync_delay_hops", &none)?.ok());
    delays.map(|delay| delay.to_f64()).fold(None, |range, delay| {
        let (least, most) = range.unwrap_or((delay, delay));
        Some((delay.min(least), delay.max(most)))
    })
}

fn mean(values: Vec<f64>) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A duration in units of `T`.
pub fn in_units(duration: Duration) -> f64 {
    duration.as_secs_f64() / T.as_secs_f64()
}
