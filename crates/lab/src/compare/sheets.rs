//! A comparison as tables: titles, columns, cells and notes, for whoever draws them.

use conclave_sim::Spacing;
use serde::Serialize;

use super::election::{Call, Election};
use super::mutex::{Beside, Figures, Idle};
use super::{Comparison, How, Kind, figure, lectures, or_dash};

/// A table with a title, and notes below it.
#[derive(Clone, Debug, Serialize)]
pub struct Sheet {
    /// What it is about.
    pub title: String,
    /// What stands above the columns.
    pub head: Vec<String>,
    /// The cells, row by row.
    pub rows: Vec<Vec<String>>,
    /// What stands below.
    pub notes: Vec<String>,
    /// How many columns from the left hold words rather than numbers.
    pub words: usize,
    /// How much each column matters, zero most, if columns may be left out; empty if not.
    pub matters: Vec<u8>,
}

/// The columns after the name, and how much each matters: the last go first where a line is short.
const COSTS: [(&str, u8); 12] = [
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
const ELECTION: [(&str, u8); 9] = [
    ("messages, least", 0),
    ("messages, most", 0),
    ("messages, all call", 0),
    ("time, least", 3),
    ("time, most", 1),
    ("bytes, most", 2),
    ("upkeep", 4),
    ("survives", 0),
    ("leader", 2),
];

/// Everything there is to show, one table for each number of nodes and one for the claims.
pub fn sheets(comparison: &Comparison) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    if let Some(How::Costs { sheet, .. }) = Kind::of(&comparison.family).map(|kind| &kind.how) {
        let nodes = comparison.nodes.iter().enumerate();
        sheets.extend(nodes.map(|(i, &nodes)| sheet(comparison, i, nodes)));
    }
    sheets.extend(superpeers(comparison));
    if !comparison.claims.by_algorithm.is_empty() {
        sheets.push(claimed(comparison));
    }
    sheets
}

/// Of mutual exclusion.
pub(super) fn mutex(comparison: &Comparison, i: usize, nodes: u32) -> Sheet {
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
            rows.push([vec![name], vec!["–".into(); COSTS.len()]].concat());
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
    let head = std::iter::once("algorithm").chain(COSTS.map(|(head, _)| head));
    let matters = std::iter::once(0).chain(COSTS.map(|(_, matters)| matters)).collect();
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

/// Of elections.
pub(super) fn election(comparison: &Comparison, _: usize, nodes: u32) -> Sheet {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    notes.push(
        "One node calls for an election, the one with which it costs least or most, or all call at \
         once. Where the model has crashes (†), the best node has crashed before. Messages without \
         acknowledgements and the like, which stand under upkeep. T is the time a message takes. \
         survives: the lowest node calls, and each node in turn crashes at each moment of the \
         election; in how many of these runs all who are left agree on the best of them. ✓: exactly \
         as theory has it; (n): theory says n; neither: theory has no formula for it"
            .to_owned(),
    );
    for algorithm in &comparison.algorithms {
        let of_size = algorithm.elections.iter().filter(|election| election.nodes == nodes);
        for election in of_size.filter(|election| election.superpeers.is_none()) {
            let name = algorithm.name();
            if let Some(why) = &election.unfit {
                notes.push(format!("{name}: – because {why}"));
                rows.push([vec![name.to_owned()], vec!["–".into(); ELECTION.len()]].concat());
                continue;
            }
            let dagger = if election.best_is_dead { "†" } else { "" };
            rows.push([vec![format!("{name}{dagger}")], called(election)].concat());
            if let Some((node, when, why)) =
                election.crashes.iter().find_map(|it| it.first.as_ref())
            {
                notes.push(format!(
                    "{name}: if p{node} crashes {} T after the call: {why}",
                    figure(*when)
                ));
            }
        }
    }
    let head = std::iter::once("algorithm").chain(ELECTION.map(|(head, _)| head));
    let matters = std::iter::once(0).chain(ELECTION.map(|(_, matters)| matters)).collect();
    let head = head.map(str::to_owned).collect();
    Sheet { title: format!("N = {nodes}"), head, rows, notes, words: 1, matters }
}

/// The cells after the name.
fn called(election: &Election) -> Vec<String> {
    let alone = || election.calls.iter().filter(|call| call.initiators.len() == 1);
    let by_cost = |call: &&Call| call.messages.measured.map(|it| it as u64);
    let (least, most) = (alone().min_by_key(by_cost), alone().max_by_key(by_cost));
    let all = election.calls.iter().find(|call| call.initiators.len() > 1);
    let messages = |call: Option<&Call>| {
        call.map_or_else(|| "–".to_owned(), |call| call.messages.show(figure))
    };
    let time = |call: Option<&Call>| {
        call.map_or_else(|| "–".to_owned(), |call| call.turnaround.show(figure))
    };
    let number = |call: Option<&Call>, read: fn(&Call) -> u64| {
        call.map_or_else(|| "–".to_owned(), |call| read(call).to_string())
    };
    let survives = election
        .crashes
        .as_ref()
        .map_or_else(|| "–".to_owned(), |crashed| format!("{}/{}", crashed.survived, crashed.runs));
    let leader = most.and_then(|call| call.leader);
    vec![
        messages(least),
        messages(most),
        messages(all),
        time(least),
        time(most),
        number(most, |call| call.bytes),
        number(most, |call| call.upkeep),
        survives,
        leader.map_or_else(|| "–".to_owned(), |leader| format!("p{leader}")),
    ]
}

/// Where several are elected on purpose.
fn superpeers(comparison: &Comparison) -> Option<Sheet> {
    let mut rows = Vec::new();
    for algorithm in &comparison.algorithms {
        for Election { nodes, calls, superpeers, .. } in &algorithm.elections {
            let Some(found) = superpeers else { continue };
            let space = |read: fn(&Spacing) -> f64| or_dash(found.space.as_ref().map(read));
            rows.push(vec![
                algorithm.name().to_owned(),
                nodes.to_string(),
                found.count.to_string(),
                figure(found.load_mean),
                found.load_most.to_string(),
                space(|it| it.reach_mean),
                space(|it| it.reach_most),
                space(|it| it.gap.least),
                space(|it| it.random.least),
                space(|it| it.gap.mean),
                space(|it| it.random.mean),
                space(|it| it.grid),
                calls.first().map_or_else(
                    || "–".to_owned(),
                    |call| figure(call.messages.measured.unwrap_or(0.0) / f64::from(*nodes)),
                ),
            ]);
        }
    }
    let head = [
        "algorithm",
        "nodes",
        "super- peers",
        "load, mean",
        "load, most",
        "away, mean",
        "away, most",
        "gap, least",
        "at random",
        "gap, mean",
        "at random",
        "on a grid",
        "messages per node",
    ];
    let notes = vec![
        "Several are elected on purpose, to serve the rest. away: from a node to its superpeer; gap: \
         from a superpeer to the nearest other; one node to a unit of space"
            .to_owned(),
    ];
    let title = "Superpeers".to_owned();
    let matters = vec![0, 0, 0, 1, 1, 2, 2, 1, 1, 3, 3, 1, 1];
    let head = head.map(str::to_owned).to_vec();
    (!rows.is_empty()).then_some(Sheet { title, head, rows, notes, words: 1, matters })
}

fn claimed(comparison: &Comparison) -> Sheet {
    let claims = &comparison.claims;
    let documents = claims.documents.iter().map(|document| format!("[{document}]"));
    let head = ["algorithm", "quantity", "theory"].map(str::to_owned).into_iter();
    let head: Vec<String> = head.chain(documents).collect();
    let mut rows = Vec::new();
    for algorithm in &comparison.algorithms {
        let mut name = algorithm.name();
        for (about, theory) in claims.quantities(algorithm.id) {
            let cells = claims.documents.iter();
            let cells = cells.map(|document| claims.short(algorithm.id, about, document));
            let theory = theory.unwrap_or("–");
            let first = [name, about, theory].map(str::to_owned).into_iter();
            rows.push(first.chain(cells).collect());
            // Once is enough.
            name = "";
        }
    }
    let errata = claims.errata.iter().enumerate().map(|(i, note)| format!("[{}] {note}", i + 1));
    let notes = std::iter::once(lectures::legend()).chain(errata).collect();
    let (title, words) = ("What the lectures claim".to_owned(), head.len());
    Sheet { title, head, rows, notes, words, matters: Vec::new() }
}
