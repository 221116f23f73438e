//! The comparison as tables, for the terminal and as Markdown.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

use super::mutex::{Beside, Figures};
use super::{Comparison, claims, figure, or_dash};

/// A table with a title, and notes below it.
pub(super) struct Sheet {
    pub(super) title: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    pub(super) notes: Vec<String>,
    /// How many columns from the left hold words rather than numbers.
    pub(super) words: usize,
}

const COSTS: [&str; 9] = [
    "algorithm",
    "messages alone",
    "theory",
    "messages saturated",
    "entry delay",
    "theory",
    "sync delay",
    "theory",
    "response",
];
const LOAD: [&str; 8] = [
    "bytes per entry",
    "entries per T",
    "theory",
    "fairness",
    "waiting p50",
    "waiting p99",
    "overtaken",
    "burst messages",
];
const ELECTION: [&str; 7] =
    ["algorithm", "initiator", "messages", "theory", "turnaround", "theory", "leader"];

/// For a terminal of this width: costs and behaviour under load in two tables.
pub(super) fn text(comparison: &Comparison, width: usize) -> String {
    let mut text = String::new();
    for sheet in sheets(comparison, true) {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width.min(usize::from(u16::MAX)) as u16);
        table.set_header(&sheet.head).add_rows(&sheet.rows);
        for (i, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if i == 0 {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
            if i >= sheet.words {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines: Vec<String> =
            table.to_string().lines().map(|line| line.trim_end().replace('\u{a0}', " ")).collect();
        let _ = writeln!(text, "{}\n\n{}\n", sheet.title, lines.join("\n"));
        for note in &sheet.notes {
            text += &wrapped(note, width);
        }
        if !sheet.notes.is_empty() {
            text.push('\n');
        }
    }
    text
}

/// A note over as many lines as it takes, those after the first indented.
fn wrapped(note: &str, width: usize) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in note.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            text.push_str("\n    ");
            column = 4;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text.push('\n');
    text
}

/// As Markdown: costs and behaviour under load in one table.
pub(super) fn markdown(comparison: &Comparison) -> String {
    let escape = |cell: &String| cell.replace('|', "\\|").replace('*', "\\*");
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = String::new();
    for sheet in sheets(comparison, false) {
        let _ = write!(text, "## {}\n\n", sheet.title);
        text += &line(sheet.head.iter().map(escape).collect());
        let rule = |i| if i < sheet.words { "---" } else { "---:" };
        text += &line((0..sheet.head.len()).map(|i| rule(i).to_owned()).collect());
        for row in &sheet.rows {
            text += &line(row.iter().map(escape).collect());
        }
        text.push('\n');
        for note in &sheet.notes {
            let _ = writeln!(text, "- {}", escape(note));
        }
        text.push('\n');
    }
    text
}

/// Everything there is to show, one table for each number of nodes and one for the claims.
pub(super) fn sheets(comparison: &Comparison, split: bool) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    for (i, &nodes) in comparison.nodes.iter().enumerate() {
        if comparison.family == "election" {
            sheets.push(election(comparison, nodes));
        } else {
            sheets.extend(mutex(comparison, i, nodes, split));
        }
    }
    if !comparison.claims.by_algorithm.is_empty() {
        sheets.push(lectures(comparison));
    }
    sheets
}

fn mutex(comparison: &Comparison, i: usize, nodes: u32, split: bool) -> Vec<Sheet> {
    let (mut costs, mut load, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for algorithm in &comparison.algorithms {
        let size = &algorithm.sizes[i];
        let name = algorithm.name().to_owned();
        let Some(figures) = &size.figures else {
            let reason = size.unfit.as_deref().unwrap_or("it does not fit");
            notes.push(format!("{name}: – because {reason}"));
            costs.push([vec![name.clone()], vec!["–".into(); COSTS.len() - 1]].concat());
            load.push([vec![name], vec!["–".into(); LOAD.len()]].concat());
            continue;
        };
        let stuck =
            [("all at once", &figures.burst.stuck), ("saturated", &figures.saturated.stuck)];
        for (when, what) in stuck {
            notes.extend(what.iter().map(|what| format!("{name}: {when}: {what}")));
        }
        costs.push([vec![name.clone()], cost_cells(figures)].concat());
        load.push([vec![name], load_cells(figures)].concat());
    }
    let own = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let stay = comparison.stay;
    let about = format!(
        "T is the time a message takes, E = {stay} T the stay inside; alone: the last client asks \
         in an idle system; messages as entry + exit"
    );
    let title = |what: &str| format!("N = {nodes}: {what}");
    if split {
        notes.insert(0, about);
        let load_head = [vec!["algorithm".to_owned()], own(&LOAD)].concat();
        let costs = Sheet {
            title: title("costs"),
            head: own(&COSTS),
            rows: costs,
            notes: Vec::new(),
            words: 1,
        };
        let load =
            Sheet { title: title("under load"), head: load_head, rows: load, notes, words: 1 };
        return vec![costs, load];
    }
    notes.insert(0, about);
    let rows = costs.into_iter().zip(load).map(|(mut costs, load)| {
        costs.extend(load.into_iter().skip(1));
        costs
    });
    let head = [own(&COSTS), own(&LOAD)].concat();
    vec![Sheet { title: format!("N = {nodes}"), head, rows: rows.collect(), notes, words: 1 }]
}

fn cost_cells(figures: &Figures) -> Vec<String> {
    let Figures { idle, burst, saturated } = figures;
    let parts = match (idle.messages_entry.measured, idle.messages_exit.measured) {
        (Some(entry), Some(exit)) => format!("{}+{}", figure(entry), figure(exit)),
        _ => "–".to_owned(),
    };
    let theory = match (idle.messages_entry.theory, idle.messages_exit.theory) {
        (Some(entry), Some(exit)) => format!("{}+{}", figure(entry), figure(exit)),
        _ => or_dash(idle.messages.theory),
    };
    let sync = burst.sync_theory.map_or_else(
        || "–".to_owned(),
        |(least, most)| {
            if least == most {
                figure(least)
            } else {
                format!("{}…{}", figure(least), figure(most))
            }
        },
    );
    let Beside { measured, theory: entry_theory } = idle.entry_delay;
    let response = idle.response.measured.map_or_else(
        || "–".to_owned(),
        |wait| if wait == 0.0 { "E".to_owned() } else { format!("{}T+E", figure(wait)) },
    );
    vec![
        parts,
        theory,
        saturated
            .stuck
            .as_ref()
            .map_or_else(|| or_dash(saturated.messages), |_| "stuck".to_owned()),
        or_dash(measured),
        or_dash(entry_theory),
        burst.stuck.as_ref().map_or_else(|| or_dash(burst.sync_delay), |_| "stuck".to_owned()),
        sync,
        response,
    ]
}

fn load_cells(figures: &Figures) -> Vec<String> {
    let Figures { burst, saturated, .. } = figures;
    if saturated.stuck.is_some() {
        let mut stuck = vec!["stuck".to_owned(); LOAD.len() - 1];
        stuck.push(burst.messages.to_string());
        return stuck;
    }
    let finer = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.4}"));
    vec![
        saturated.bytes.map_or_else(|| "–".to_owned(), |bytes| format!("{bytes:.0}")),
        finer(saturated.throughput),
        finer(saturated.throughput_theory),
        saturated.fairness.map_or_else(|| "–".to_owned(), |jain| format!("{jain:.3}")),
        figure(saturated.waiting_p50),
        figure(saturated.waiting_p99),
        saturated.overtaking.to_string(),
        burst.messages.to_string(),
    ]
}

fn election(comparison: &Comparison, nodes: u32) -> Sheet {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    notes.push(format!(
        "the top node, p{}, is dead; the initiator calls for an election",
        nodes - 1
    ));
    for algorithm in &comparison.algorithms {
        for election in algorithm.elections.iter().filter(|election| election.nodes == nodes) {
            notes.extend(election.unfit.iter().map(|why| format!("{}: {why}", algorithm.name())));
            rows.push(vec![
                algorithm.name().to_owned(),
                format!("p{}", election.initiator),
                or_dash(election.messages.measured),
                or_dash(election.messages.theory),
                or_dash(election.turnaround.measured),
                or_dash(election.turnaround.theory),
                election.leader.map_or_else(|| "–".to_owned(), |leader| format!("p{leader}")),
            ]);
        }
    }
    let head = ELECTION.map(str::to_owned).to_vec();
    Sheet { title: format!("N = {nodes}"), head, rows, notes, words: 1 }
}

fn lectures(comparison: &Comparison) -> Sheet {
    let claims = &comparison.claims;
    let documents = claims.documents.iter().map(|document| format!("[{document}]"));
    let head = std::iter::once("algorithm".to_owned()).chain(documents).collect();
    let said = |id| claims.by_algorithm.contains_key(id);
    let rows = comparison.algorithms.iter().filter(|algorithm| said(algorithm.id));
    let rows = rows.map(|algorithm| {
        let cells = claims.documents.iter().map(|document| claims.short(algorithm.id, document));
        std::iter::once(algorithm.name().to_owned()).chain(cells).collect()
    });
    let errata = claims.errata.iter().enumerate().map(|(i, note)| format!("[{}] {note}", i + 1));
    let notes = std::iter::once(claims::legend()).chain(errata).collect();
    let words = claims.documents.len() + 1;
    Sheet { title: "What the lectures claim".into(), head, rows: rows.collect(), notes, words }
}
