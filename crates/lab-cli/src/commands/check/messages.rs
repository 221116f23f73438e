//! How many messages an entry takes, over all runs, beside what theory says.

use std::io::Write;

use conclave_check::Messages;
use conclave_lab::check::Checked;
use conclave_lab::check::messages::{Figure, at_once, under_load, undisturbed};
use conclave_lab::report::number;
use conclave_lab::theory::fit::About;
use conclave_protocol::NodeId;

use super::grid::{Cell, grid};
use crate::terminal::{DIM, paint};
use crate::{Failure, Terminal};

/// Prints what was counted, if it was.
pub(super) fn print(
    checked: &Checked<'_>,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (info, spec) = (checked.info, checked.spec);
    let Some(Messages { of_node, whole }) = &checked.report().messages else { return Ok(()) };
    let most_text = |most: &Option<u32>| most.map_or("no end".to_owned(), |most| most.to_string());
    let load = under_load(info, spec);
    let mut rows = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    let mut note = |figure: &Figure| {
        let text = format!("{} ({})", figure.fit.row, figure.fit.row.given);
        if !notes.contains(&text) {
            notes.push(text);
        }
    };
    for (node, fewest, most) in of_node {
        let node = NodeId(*node);
        let (fewest, most) = (*fewest, *most);
        let lone = undisturbed(info, spec, node);
        let cell = |figure: &Option<Figure>| {
            figure.as_ref().map_or(String::new(), |it| text(it, fewest, most, terminal))
        };
        lone.iter().chain(&load).for_each(&mut note);
        rows.push([
            format!("an entry of {node}"),
            fewest.to_string(),
            most_text(&most),
            cell(&lone),
            cell(&load),
        ]);
    }
    let burst = at_once(info, spec);
    burst.iter().for_each(note);
    let (fewest, most) = *whole;
    let together = burst.map_or(String::new(), |it| text(&it, fewest, most, terminal));
    rows.push([
        "a whole run".into(),
        fewest.to_string(),
        most_text(&most),
        String::new(),
        together,
    ]);
    let names = ["messages", "fewest", "most", "theory, alone", "theory, under load"];
    let told = |column: usize| rows.iter().any(|row| !row[column].is_empty());
    let kept: Vec<usize> = (0..names.len()).filter(|&column| told(column)).collect();
    let header: Vec<&str> = kept.iter().map(|&column| names[column]).collect();
    let cell = |row: &[String; 5], column: usize| match column {
        1 | 2 => Cell::figure(row[column].as_str()),
        _ => Cell::text(row[column].as_str()),
    };
    let cells = |row| kept.iter().map(|&column| cell(row, column)).collect();
    let rows: Vec<Vec<Cell>> = rows.iter().map(cells).collect();
    write!(out, "\n{}", grid(&header, &rows, terminal))?;
    for note in notes {
        writeln!(out, "{}", paint(DIM, format!("theory: {note}")))?;
    }
    Ok(())
}

fn text(figure: &Figure, fewest: u32, most: Option<u32>, terminal: &Terminal) -> String {
    let value = number(figure.value);
    let bound = match (figure.fit.about, terminal.ascii) {
        (About::AtMost, true) => "<= ",
        (About::AtMost, false) => "≤ ",
        _ => "",
    };
    let said = match figure.formula == value {
        true => value,
        false => format!("{} = {value}", figure.formula),
    };
    let sign = match (figure.agrees(fewest, most), terminal.ascii) {
        (true, true) => " ok",
        (true, false) => " ✓",
        (false, _) => "",
    };
    format!("{bound}{said}{sign}")
}
