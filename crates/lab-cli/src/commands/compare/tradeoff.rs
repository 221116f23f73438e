//! The trade-off between detection time and mistakes, as letters on a terminal and as SVG.

use std::fmt::Write as _;

use conclave_lab::compare::fd::{Curve, Point};
use conclave_lab::compare::figure;

use super::area::{Area, BOTTOM, LEFT, TOP, WIDTH};
use super::plot::Axis;

/// How many lines the plot on a terminal has.
const LINES: usize = 18;
/// How much room the numbers to its left take.
const MARGIN: usize = 9;

/// Where points lie: the horizontal axis is the detection time, the vertical one the rate of
/// mistakes, which spans orders of magnitude. What made none has a line of its own below.
struct Frame {
    across: Axis,
    up: Axis,
    /// Where none is.
    none: f64,
}

impl Frame {
    /// From the left to the right, and from the bottom to the top.
    fn new(
        curves: &[Curve],
        (left, right): (f64, f64),
        (none, bottom, top): (f64, f64, f64),
    ) -> Option<Self> {
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let longest = points().map(|point| point.detection).fold(f64::MIN, f64::max);
        let wrong = || points().map(|point| point.mistakes).filter(|&rate| rate > 0.0);
        points().next()?;
        let (least, most) = match wrong().next() {
            Some(_) => (wrong().fold(f64::MAX, f64::min), wrong().fold(f64::MIN, f64::max)),
            None => (1.0, 10.0),
        };
        // Whole powers of ten.
        let (least, most) = (least.log10().floor(), most.log10().ceil());
        let (least, most) = (10_f64.powf(least), 10_f64.powf(most));
        let most = if most > least { most } else { least * 10.0 };
        Some(Self {
            across: Axis::new((0.0, longest), false, left, right),
            up: Axis::new((least, most), true, bottom, top),
            none,
        })
    }

    fn at(&self, point: &Point) -> (f64, f64) {
        let height = if point.mistakes > 0.0 { self.up.at(point.mistakes) } else { self.none };
        (self.across.at(point.detection), height)
    }

    /// The powers of ten.
    fn decades(&self) -> impl Iterator<Item = f64> + use<> {
        let whole = |tick: &f64| (tick.log10() - tick.log10().round()).abs() < 1e-9;
        self.up.ticks().into_iter().filter(whole)
    }
}

/// A power of ten, however small.
fn power(rate: f64) -> String {
    let decimals = (-rate.log10().round()).max(0.0) as usize;
    format!("{rate:.decimals$}")
}

/// A letter for every curve.
fn letters() -> impl Iterator<Item = char> {
    ('a'..='z').cycle()
}

/// For a terminal of this width.
pub(super) fn text(curves: &[Curve], width: usize) -> String {
    let columns = width.saturating_sub(MARGIN + 2).clamp(30, 80);
    let span = (0.0, (columns - 1) as f64);
    let (bottom, none) = ((LINES - 3) as f64, (LINES - 1) as f64);
    let Some(frame) = Frame::new(curves, span, (none, bottom, 0.0)) else { return String::new() };
    let mut cells = vec![vec![' '; columns]; LINES];
    for (letter, curve) in letters().zip(curves) {
        for point in &curve.points {
            let (x, y) = frame.at(point);
            let cell = &mut cells[y.round() as usize][x.round() as usize];
            // Two curves in one cell print as a star.
            *cell = match *cell {
                ' ' => letter,
                same if same == letter => letter,
                _ => '*',
            };
        }
    }
    let mut labels = vec![String::new(); LINES];
    for rate in frame.decades() {
        labels[frame.up.at(rate).round() as usize] = power(rate);
    }
    labels[LINES - 1] = "none".to_owned();
    let mut text =
        "Mistakes per pair and 1000 T over detection time in T; exponential delays\n\n".to_owned();
    for (label, row) in labels.iter().zip(&cells) {
        let row: String = row.iter().collect();
        let _ = writeln!(text, "{}", format!("{label:>MARGIN$} │{row}").trim_end());
    }
    let _ = writeln!(text, "{:>MARGIN$} └{}", "", "─".repeat(columns));
    let mut below = vec![' '; columns];
    for tick in frame.across.ticks() {
        let label = figure(tick);
        let at = (frame.across.at(tick).round() as usize).min(columns - label.len());
        for (i, digit) in label.chars().enumerate() {
            below[at + i] = digit;
        }
    }
    let below: String = below.iter().collect();
    let _ = writeln!(text, "{:>MARGIN$}  {}\n", "", below.trim_end());
    for (letter, curve) in letters().zip(curves) {
        let values: Vec<String> = curve.points.iter().map(|point| figure(point.value)).collect();
        let _ = writeln!(text, "{letter}  {} = {}", curve.name(), values.join(", "));
    }
    text.push('\n');
    text
}

const HEIGHT: f64 = 420.0;
const RIGHT: f64 = 200.0;
/// Between the axis and the line of those that made no mistakes.
const GAP: f64 = 26.0;

/// As an SVG element.
pub(super) fn svg(curves: &[Curve]) -> Option<String> {
    let (right, none) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let frame = Frame::new(curves, (LEFT, right), (none, none - GAP, TOP))?;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Mistakes over detection \
         time\">\n"
    );
    let area = Area { right, bottom: none };
    let heights = frame.decades().map(|rate| (frame.up.at(rate), power(rate)));
    for (y, label) in heights.chain([(none, "none".to_owned())]) {
        area.rule_across(y, &label, &mut svg);
    }
    for tick in frame.across.ticks() {
        area.rule_down(frame.across.at(tick), &figure(tick), &mut svg);
    }
    area.titles("detection time in T", "mistakes per pair and 1000 T", &mut svg);
    for (i, curve) in curves.iter().enumerate() {
        let points: Vec<(f64, f64)> = curve.points.iter().map(|point| frame.at(point)).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(
            svg,
            "<g class=\"line c{}\"><title>{}</title><polyline points=\"{}\"/>",
            i % 8,
            curve.name(),
            path.join(" "),
        );
        for ((x, y), point) in points.iter().zip(&curve.points) {
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{} = {}</title></circle>",
                curve.name(),
                figure(point.value),
            );
        }
        // A legend, for curves cross.
        let y = TOP + 12.0 + 16.0 * i as f64;
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"/><text x=\"{:.1}\" y=\"{y:.1}\">{}</text></g>",
            right + 14.0,
            y - 4.0,
            right + 24.0,
            curve.name(),
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}
