//! Algorithms that find the end of a work, measured on works that spread by chance.

use super::reports::{at_most, delay, measure, sheet};
use super::{How, Kind, figure};

/// How they are compared.
pub(super) static KIND: Kind = Kind {
    family: "termination",
    nodes: &[3, 7, 13],
    seeds: 40,
    how: How::Costs {
        measure: |info, nodes, seeds, algorithm| {
            algorithm.findings.push(measure(info, nodes, seeds));
        },
        sheet: |comparison, i, nodes| {
            let first: super::reports::Columns = &[
                ("work messages", 0, |it| figure(it.messages)),
                ("control messages", 0, |it| it.control.show(figure)),
                ("when done, most", 0, |it| at_most(it.after, it.after_bound)),
                ("T until reported", 0, |it| delay(it.delay_mean)),
                ("most", 2, |it| delay(it.delay_most)),
            ];
            let note = "The work begins at p0, and each message takes up to T. when done: control \
                        messages that are sent when the work is done and before that is reported";
            sheet(comparison, i, nodes, first, note)
        },
        further: |_| None,
        graphs: |_| Vec::new(),
    },
};
