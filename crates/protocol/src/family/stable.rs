//! What is promised of algorithms that look at a whole system again and again, by a snapshot each
//! time, until something is so that will stay so.

use super::{Asking, Family, NoteKind, PLAIN, Tempo, reports};
use crate::Note;

/// Stable properties.
pub(super) static FAMILY: Family = Family {
    name: "stable",
    promises: reports::PROMISES,
    asking: Asking::One,
    // As many snapshots as it takes.
    settles: |nodes| nodes.saturating_mul(8).saturating_add(100),
    patience,
    notes: &[
        NoteKind { name: "reports", words: reports::report_in_words },
        NoteKind { name: "looks", words: |_| "begins to look".to_owned() },
        NoteKind { name: "records", words: |note| format!("RECORDS #{}", note.number) },
        NoteKind { name: "sees", words: sees },
        NoteKind { name: "rests", words: |_| "looks no more".to_owned() },
    ],
    watch: Some(&reports::WATCH),
    ..PLAIN
};

/// The application asks to look.
pub const LOOKS: u8 = 1;
/// The node records its state for a snapshot.
pub const RECORDS: u8 = 2;
/// A snapshot has been evaluated; the value says what came out, as one of [`OUTCOMES`].
pub const SEES: u8 = 3;
/// Nothing more can come of looking.
pub const RESTS: u8 = 4;

/// What can come out of a snapshot.
pub const OUTCOMES: [&str; 5] =
    ["still running", "temporarily blocked", "terminated", "deadlocked", "stranded"];

fn sees(note: &Note) -> String {
    let outcome = OUTCOMES.get(note.value as usize).copied().unwrap_or("something else");
    format!("sees #{}: {outcome}", note.number)
}

fn patience(tempo: &Tempo) -> std::time::Duration {
    tempo.hop.max(tempo.timer).saturating_mul(tempo.nodes.saturating_mul(8) + 40)
}
