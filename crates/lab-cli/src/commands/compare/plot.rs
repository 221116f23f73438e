//! Small line plots as SVG.

use std::fmt::Write as _;

use conclave_lab::compare::{Graph, Line, figure};

use super::area::{Area, BOTTOM, LEFT, TOP, WIDTH};

const HEIGHT: f64 = 380.0;
const RIGHT: f64 = 230.0;
/// How many colours the page has; then dashes vary.
const COLORS: usize = 8;
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];
/// The least distance of two labels.
const LABEL: f64 = 11.0;

/// The plot as an SVG element, or nothing if there is nothing to plot.
pub(super) fn svg(graph: &Graph) -> Option<String> {
    let shown = |&(_, y): &(f64, f64)| !graph.log || y > 0.0;
    let points = || {
        let both = graph.lines.iter().flat_map(|line| line.measured.iter().chain(&line.theory));
        both.copied().filter(shown)
    };
    points().next()?;
    let bounds = |values: &dyn Fn((f64, f64)) -> f64| {
        points().map(values).fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)))
    };
    let horizontal = Axis::new(bounds(&|(x, _)| x), true, LEFT, WIDTH - RIGHT);
    let vertical = Axis::new(bounds(&|(_, y)| y), graph.log, HEIGHT - BOTTOM, TOP);
    let at = |(x, y): (f64, f64)| (horizontal.at(x), vertical.at(y));

    let title = graph.title;
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n");
    let area = Area { right: WIDTH - RIGHT, bottom: HEIGHT - BOTTOM };
    for y in vertical.ticks() {
        area.rule_across(vertical.at(y), &figure(y), &mut svg);
    }
    let mut sizes: Vec<f64> = points().map(|(x, _)| x).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    for x in sizes {
        area.rule_down(horizontal.at(x), &figure(x), &mut svg);
    }
    area.titles("nodes N", graph.unit, &mut svg);
    for (line, label) in graph.lines.iter().zip(labels(graph, &vertical)) {
        let keep = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
            points.iter().copied().filter(shown).map(at).collect()
        };
        draw(line, &keep(&line.measured), &keep(&line.theory), label, &mut svg);
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// The labels, of every line that has one: how high it stands, and what it says. Lines that end
/// at about the same height share one, which counts them.
fn labels(graph: &Graph, vertical: &Axis) -> Vec<Option<(f64, String)>> {
    let ends = graph.lines.iter().map(|line| {
        let end = line.measured.iter().rev().find(|(_, y)| !graph.log || *y > 0.0);
        end.map_or(HEIGHT - BOTTOM, |&(_, y)| vertical.at(y))
    });
    let mut order: Vec<(usize, f64)> = ends.enumerate().collect();
    order.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let mut labels = vec![None; order.len()];
    for together in order.chunk_by(|(_, a), (_, b)| b - a < LABEL / 4.0) {
        let (i, y) = together[0];
        let others = match together.len() {
            1 => String::new(),
            some => format!(" +{}", some - 1),
        };
        labels[i] = Some((y, format!("{}{others}", graph.lines[i].name)));
    }
    let mut next = TOP;
    let mut left = labels.iter().flatten().count();
    for &(i, _) in &order {
        let Some((y, _)) = &mut labels[i] else { continue };
        left -= 1;
        // Leave room for those that follow.
        *y = y.min(HEIGHT - 4.0 - LABEL * left as f64).max(next);
        next = *y + LABEL;
    }
    labels
}

fn draw(
    line: &Line,
    measured: &[(f64, f64)],
    theory: &[(f64, f64)],
    label: Option<(f64, String)>,
    svg: &mut String,
) {
    let path = |points: &[(f64, f64)]| {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        points.join(" ")
    };
    let (color, dash) = (line.place % COLORS, DASHES[line.place / COLORS % DASHES.len()]);
    let _ = write!(svg, "<g class=\"line c{color}\"><title>{}</title>", line.name);
    if !theory.is_empty() {
        let _ = write!(svg, "<polyline class=\"theory\" points=\"{}\"/>", path(theory));
    }
    if let Some(&(x, y)) = measured.last() {
        let _ =
            write!(svg, "<polyline points=\"{}\" stroke-dasharray=\"{dash}\"/>", path(measured));
        for (x, y) in measured {
            let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>");
        }
        if let Some((height, text)) = label {
            let end = WIDTH - RIGHT + 14.0;
            let _ = write!(
                svg,
                "<polyline class=\"leader\" points=\"{x:.1},{y:.1} {:.1},{height:.1}\"/>\
                 <text x=\"{end:.1}\" y=\"{:.1}\">{text}</text>",
                end - 2.0,
                height + 3.0,
            );
        }
    }
    svg.push_str("</g>\n");
}

/// Where numbers lie on the page.
pub(super) struct Axis {
    least: f64,
    most: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Axis {
    pub(super) fn new((least, most): (f64, f64), log: bool, from: f64, to: f64) -> Self {
        // From zero, unless there is none; and never from somewhere to the same place.
        let least = if log { least } else { 0.0 };
        let most = if most > least { most } else { least + 1.0 };
        Self { least, most, log, from, to }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let part = if self.log {
            (value / self.least).ln() / (self.most / self.least).ln()
        } else {
            (value - self.least) / (self.most - self.least)
        };
        self.from + part * (self.to - self.from)
    }

    /// Round numbers: 1, 2 and 5 times the powers of ten.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let powers = (-6..=9).map(|power| 10_f64.powi(power));
        let round: Vec<f64> = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|k| k * power)).collect();
        if self.log {
            let inside = |tick: &f64| (self.least..=self.most).contains(tick);
            return round.into_iter().filter(inside).collect();
        }
        let step = round.into_iter().find(|step| (self.most - self.least) / step <= 6.0);
        let step = step.unwrap_or(self.most);
        (0..=6).map(|k| f64::from(k) * step).filter(|tick| *tick <= self.most).collect()
    }
}
