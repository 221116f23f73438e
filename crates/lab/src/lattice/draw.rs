//! Pictures of a lattice: for Graphviz, and as SVG.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{CutData, LatticeData};

/// What distinguishes a cut in a picture.
struct Look {
    fill: &'static str,
    line: &'static str,
    width: u32,
}

fn look(cut: &CutData) -> Look {
    let is = |it: Option<bool>| it == Some(true);
    let fill = match (is(cut.possibly) || is(cut.definitely), cut.snapshots.is_empty()) {
        (true, _) => "#f7c6c5",
        (false, false) => "#cfe8cf",
        (false, true) => "#ffffff",
    };
    match cut.run {
        true => Look { fill, line: "#1f5fa8", width: 3 },
        false => Look { fill, line: "#777777", width: 1 },
    }
}

/// A cut as a picture names it: how many events of each node, and the snapshots that recorded it.
fn name(cut: &CutData) -> String {
    let counts: Vec<String> = cut.cut.iter().map(ToString::to_string).collect();
    let snapshots = cut.snapshots.iter().map(|number| format!(" #{number}"));
    counts.join(",") + &snapshots.collect::<String>()
}

/// From which cut to which one event leads, by their places in the list, and whether the run that
/// happened went that way.
fn edges(data: &LatticeData) -> Vec<(usize, usize, bool)> {
    let places: BTreeMap<&[u32], usize> =
        data.states.iter().enumerate().map(|(place, cut)| (&cut.cut[..], place)).collect();
    let mut edges = Vec::new();
    for (from, cut) in data.states.iter().enumerate() {
        let mut next = cut.cut.clone();
        for node in 0..next.len() {
            next[node] += 1;
            if let Some(&to) = places.get(&next[..]) {
                edges.push((from, to, cut.run && data.states[to].run));
            }
            next[node] -= 1;
        }
    }
    edges
}

/// The lattice in the language of Graphviz, if its cuts are all there.
pub fn dot(data: &LatticeData) -> String {
    let mut text = format!(
        "digraph lattice {{\n  label=\"{}: {} consistent cuts, {} linearizations\";\n  rankdir=BT;\n  \
         node [shape=box, style=filled, fontname=\"sans-serif\"];\n",
        data.algorithm,
        data.consistent,
        data.linearizations.as_deref().unwrap_or("?")
    );
    for (place, cut) in data.states.iter().enumerate() {
        let Look { fill, line, width } = look(cut);
        let (name, tip) = (name(cut), escaped(&tip(cut)));
        let _ = writeln!(
            text,
            "  c{place} [label=\"{name}\", fillcolor=\"{fill}\", color=\"{line}\", \
             penwidth={width}, tooltip=\"{tip}\"];"
        );
    }
    for (from, to, run) in edges(data) {
        let style = if run { " [color=\"#1f5fa8\", penwidth=3]" } else { " [color=\"#777777\"]" };
        let _ = writeln!(text, "  c{from} -> c{to}{style};");
    }
    text.push_str("}\n");
    text
}

/// What a cut is like, a line for each node and channel.
fn tip(cut: &CutData) -> String {
    let nodes = cut.state.nodes.iter().map(|node| format!("p{}: {}", node.node, node.words()));
    let channels = cut.state.channels.iter().map(|channel| {
        let said: Vec<String> = channel.messages.iter().map(super::MessageData::words).collect();
        format!("{} to {}: {}", channel.from, channel.to, said.join(", "))
    });
    nodes.chain(channels).collect::<Vec<_>>().join("\n")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The lattice as a picture, if its cuts are all there: the beginning below, a level above the
/// other, the run that happened in blue.
pub fn svg(data: &LatticeData) -> String {
    const STEP: usize = 64;
    const HIGH: usize = 22;
    let longest = data.states.iter().map(|cut| name(cut).chars().count()).max().unwrap_or(1);
    let (box_width, levels) = (longest * 7 + 14, data.levels.len());
    let widest = data.levels.iter().max().copied().unwrap_or(1) as usize;
    let across = box_width + 18;
    let (width, height) = (widest * across + 40, levels * STEP + 40);
    // The cuts are in the order of their levels.
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (level, &count) in data.levels.iter().enumerate() {
        let left = (width - count as usize * across) / 2;
        let y = height - 40 - level * STEP;
        places.extend((0..count as usize).map(|place| (left + place * across + across / 2, y)));
    }
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\" \
         text-anchor=\"middle\">\n<title>{}: {} consistent cuts, {} linearizations</title>\n",
        markup(&data.algorithm),
        data.consistent,
        data.linearizations.as_deref().unwrap_or("?")
    );
    for (from, to, run) in edges(data) {
        let ((x1, y1), (x2, y2)) = (places[from], places[to]);
        let (y1, y2) = (y1 - HIGH / 2, y2 + HIGH / 2);
        let style = if run {
            "stroke=\"#1f5fa8\" stroke-width=\"3\""
        } else {
            "stroke=\"#777777\" stroke-width=\"1\""
        };
        let _ = writeln!(text, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" {style}/>");
    }
    for (cut, (x, y)) in data.states.iter().zip(places) {
        let Look { fill, line, width } = look(cut);
        let (left, top, base) = (x - box_width / 2, y - HIGH / 2, y + 4);
        let (name, tip) = (markup(&name(cut)), markup(&tip(cut)));
        let _ = writeln!(
            text,
            "<g><title>{tip}</title><rect x=\"{left}\" y=\"{top}\" width=\"{box_width}\" \
             height=\"{HIGH}\" rx=\"4\" fill=\"{fill}\" stroke=\"{line}\" stroke-width=\"{width}\"/>\
             <text x=\"{x}\" y=\"{base}\">{name}</text></g>"
        );
    }
    text.push_str("</svg>\n");
    text
}

fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
