//! What line plots in SVG have in common: the grid, its labels and the titles of the axes.

use std::fmt::Write as _;

pub(super) const WIDTH: f64 = 720.0;
pub(super) const LEFT: f64 = 60.0;
pub(super) const TOP: f64 = 12.0;
pub(super) const BOTTOM: f64 = 44.0;

/// The part of a plot that lines are drawn in. It begins at [`LEFT`] and [`TOP`].
pub(super) struct Area {
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    /// A line of the grid from left to right, with its label.
    pub(super) fn rule_across(&self, y: f64, label: &str, svg: &mut String) {
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            self.right,
            LEFT - 6.0,
            y + 4.0,
        );
    }

    /// A line of the grid from top to bottom, with its label.
    pub(super) fn rule_down(&self, x: f64, label: &str, svg: &mut String) {
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            self.bottom,
            self.bottom + 16.0,
        );
    }

    /// What the axes mean.
    pub(super) fn titles(&self, across: &str, up: &str, svg: &mut String) {
        let _ = writeln!(
            svg,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{across}</text>\
             <text class=\"axis\" transform=\"translate(14 {:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{up}</text>",
            LEFT.midpoint(self.right),
            self.bottom + 34.0,
            TOP.midpoint(self.bottom),
        );
    }
}
