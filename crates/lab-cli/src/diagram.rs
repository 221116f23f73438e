//! Space-time diagrams in the colours of the terminal.

use std::time::Duration;

use anstyle::Style;
use conclave_lab::diagram::{Options, Tone, draw};
use conclave_lab::report::Remark;
use conclave_sim::Trace;

use crate::Terminal;
use crate::terminal::{BOLD, DIM, ERROR, GOOD, NAME, WARN, paint};

/// The diagram of a run with delays of up to `unit`, of so many events.
pub(crate) fn render(
    trace: &Trace,
    remarks: &[Remark],
    unit: Duration,
    events: usize,
    terminal: &Terminal,
) -> String {
    let options = Options { width: terminal.width, ascii: terminal.ascii, unit, events };
    let mut text = String::new();
    for line in draw(trace, remarks, &options).lines {
        text.extend(line.iter().map(|piece| paint(style(piece.tone), &piece.text)));
        text.push('\n');
    }
    text
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Strong => BOLD,
        Tone::Dim => DIM,
        Tone::Good => GOOD,
        Tone::Warn => WARN,
        Tone::Bad => ERROR,
        Tone::Name => NAME,
    }
}
