//! The comparison's tables, for the terminal and as Markdown.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use conclave_lab::compare::Sheet;

/// For a terminal of this width, without the columns that do not fit.
pub(super) fn text(sheets: Vec<Sheet>, width: usize) -> String {
    let mut text = String::new();
    for mut sheet in sheets {
        let left_out = fit(&mut sheet, width);
        if !left_out.is_empty() {
            let columns = left_out.join(", ");
            sheet.notes.push(format!("not shown for want of room (see --width): {columns}"));
        }
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_content_arrangement(if sheet.matters.is_empty() {
            ContentArrangement::Dynamic
        } else {
            ContentArrangement::Disabled
        });
        table.set_width(width.min(usize::from(u16::MAX)) as u16);
        let head = sheet.head.iter().map(|head| match sheet.matters.is_empty() {
            true => head.clone(),
            false => head.replace("- ", "-\n").replace(' ', "\n"),
        });
        table.set_header(head).add_rows(&sheet.rows);
        let last = sheet.head.len() - 1;
        for (i, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, if i == last { 0 } else { 2 }));
            if i == 0 {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
            if i >= sheet.words {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines: Vec<String> =
            table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
        let _ = writeln!(text, "{}\n\n{}\n", sheet.title, lines.join("\n"));
        for note in &sheet.notes {
            text += &wrapped(note, width);
        }
        if !sheet.notes.is_empty() {
            text.push('\n');
        }
    }
    text
}

/// Drops columns that matter less until a line fits, and says which.
fn fit(sheet: &mut Sheet, width: usize) -> Vec<String> {
    let mut left_out = Vec::new();
    while width_of(sheet) > width {
        let matters = sheet.matters.iter().enumerate().rev().max_by_key(|(_, rank)| **rank);
        let Some((column, _)) = matters.filter(|(_, rank)| **rank > 0) else { break };
        sheet.matters.remove(column);
        left_out.insert(0, sheet.head.remove(column).replace("- ", ""));
        for row in &mut sheet.rows {
            row.remove(column);
        }
    }
    left_out
}

/// How long a line is when no cell is broken; zero where cells may be.
fn width_of(sheet: &Sheet) -> usize {
    let length = |text: &str| text.chars().count();
    let columns = sheet.matters.iter().enumerate().map(|(i, _)| {
        let head = sheet.head[i].split(' ').map(length).max().unwrap_or(0);
        sheet.rows.iter().map(|row| length(&row[i])).fold(head, usize::max) + 2
    });
    columns.sum::<usize>().saturating_sub(2)
}

/// A note over as many lines as it takes, those after the first indented.
fn wrapped(note: &str, width: usize) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in note.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            text.push_str("\n    ");
            column = 4;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text.push('\n');
    text
}

/// As Markdown.
pub(super) fn markdown(sheets: Vec<Sheet>) -> String {
    let escape = |cell: &String| cell.replace('|', "\\|").replace('*', "\\*");
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = String::new();
    for sheet in sheets {
        let _ = write!(text, "## {}\n\n", sheet.title);
        text += &line(sheet.head.iter().map(|head| escape(&head.replace("- ", ""))).collect());
        let rule = |i| if i < sheet.words { "---" } else { "---:" };
        text += &line((0..sheet.head.len()).map(|i| rule(i).to_owned()).collect());
        for row in &sheet.rows {
            text += &line(row.iter().map(escape).collect());
        }
        text.push('\n');
        for note in &sheet.notes {
            let _ = writeln!(text, "- {}", escape(note));
        }
        text.push('\n');
    }
    text
}
