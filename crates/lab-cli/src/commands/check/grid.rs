//! Tables whose rows stay on one line, however wide.

use anstyle::Style;

use crate::Terminal;
use crate::terminal::{BOLD, paint};

/// What stands in one place of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    text: String,
    style: Style,
    /// Whether it stands at the right end of its column.
    right: bool,
}

impl Cell {
    /// Words.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A figure.
    pub(super) fn figure(text: impl Into<String>) -> Self {
        Self { text: text.into(), right: true, ..Self::default() }
    }

    /// The same in a style.
    pub(super) fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }
}

/// The table, a line under its heading. Each heading stands as the cell below it.
pub(super) fn grid(header: &[&str], rows: &[Vec<Cell>], terminal: &Terminal) -> String {
    let width = |text: &str| text.chars().count();
    let widest = |(column, heading): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| width(&cell.text)).fold(width(heading), usize::max)
    };
    let widths: Vec<usize> = header.iter().enumerate().map(widest).collect();
    let heading = |(column, heading): (usize, &&str)| {
        let right = rows.first().and_then(|row| row.get(column)).is_some_and(|cell| cell.right);
        Cell { text: (*heading).to_owned(), style: BOLD, right }
    };
    let mut text = line(&header.iter().enumerate().map(heading).collect::<Vec<_>>(), &widths);
    let rule = if terminal.ascii { "-" } else { "═" };
    text.push_str(&rule.repeat(widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)));
    text.push('\n');
    for row in rows {
        text.push_str(&line(row, &widths));
    }
    text
}

fn line(cells: &[Cell], widths: &[usize]) -> String {
    let mut text = String::new();
    // What is painted ends where its text does, so that no line ends in blanks.
    let mut gap = 0;
    for (cell, &width) in cells.iter().zip(widths) {
        let blank = width - cell.text.chars().count();
        if !cell.text.is_empty() {
            let before = gap + if cell.right { blank } else { 0 };
            text.push_str(&" ".repeat(before));
            text.push_str(&match cell.style == Style::new() {
                true => cell.text.clone(),
                false => paint(cell.style, &cell.text),
            });
            gap = 0;
        }
        gap += 2;
        if cell.text.is_empty() {
            gap += width;
        } else if !cell.right {
            gap += blank;
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Color;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let row = |name: &str, number: &str| vec![Cell::text(name), Cell::figure(number)];
        let rows = [row("nothing", "7"), row("a crash", "1,000"), row("", "12")];
        let terminal = Terminal { color: Color::Never, ascii: false, width: 10 };
        let text = grid(&["what", "n"], &rows, &terminal);
        let text = anstream::adapter::strip_str(&text).to_string();
        let expected = "\
what         n
══════════════
nothing      7
a crash  1,000
            12
";
        assert_eq!(text, expected);
    }
}
