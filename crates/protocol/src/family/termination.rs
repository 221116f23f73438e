//! What is promised of algorithms that find out that a work has terminated: that all nodes are
//! passive, and no message is on its way that would wake one.

use super::{Asking, Family, NoteKind, PLAIN, Tempo, reports};

/// Termination.
pub(super) static FAMILY: Family = Family {
    name: "termination",
    promises: reports::PROMISES,
    // The work goes on by itself.
    asking: Asking::None,
    // A probe goes round a few times when the work is done.
    settles: |nodes| nodes.saturating_mul(8).saturating_add(40),
    patience,
    notes: &[NoteKind { name: "reports", words: reports::report_in_words }],
    watch: Some(&reports::WATCH),
    ..PLAIN
};

fn patience(tempo: &Tempo) -> std::time::Duration {
    tempo.hop.max(tempo.timer).saturating_mul(tempo.nodes.saturating_mul(4) + 20)
}
