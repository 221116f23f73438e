//! Algorithms that look at a whole system until something is so for good, measured.

use super::reports::{at_most, delay, measure, sheet};
use super::{How, Kind, figure};

/// How they are compared.
pub(super) static KIND: Kind = Kind {
    family: "stable",
    nodes: &[3, 7],
    seeds: 40,
    how: How::Costs {
        measure: |info, nodes, seeds, algorithm| {
            algorithm.findings.push(measure(info, nodes, seeds));
        },
        sheet: |comparison, i, nodes| {
            let first: super::reports::Columns = &[
                ("became so", 0, |it| format!("{}/{}", it.became, it.runs)),
                ("snapshots", 0, |it| figure(it.snapshots)),
                ("control per snapshot", 0, |it| match it.control.measured {
                    Some(control) if it.snapshots > 0.0 => figure(control / it.snapshots),
                    _ => "–".to_owned(),
                }),
                ("further snapshots, most", 0, |it| at_most(it.further, Some(1.0))),
                ("T until reported", 0, |it| delay(it.delay_mean)),
                ("most", 2, |it| delay(it.delay_most)),
            ];
            let note = "p0 begins to look after T, and each message takes up to T. became so: in \
                        how many runs there was something to report. further snapshots: those that \
                        are started when it is so and before it is reported";
            sheet(comparison, i, nodes, first, note)
        },
        further: |_| None,
        graphs: |_| Vec::new(),
    },
};
