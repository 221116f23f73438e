//! A comparison as tables: titles, columns, cells and notes, for a front end to draw.

use serde::Serialize;

use super::{Comparison, How, Kind, lectures};

/// A table with a title, and notes below it.
#[derive(Clone, Debug, Serialize)]
pub struct Sheet {
    /// What it is about.
    pub title: String,
    /// What stands above the columns.
    pub head: Vec<String>,
    /// The cells, row by row.
    pub rows: Vec<Vec<String>>,
    /// What stands below.
    pub notes: Vec<String>,
    /// How many columns from the left hold words rather than numbers.
    pub words: usize,
    /// How much each column matters, zero most, if columns may be left out; empty if not.
    pub matters: Vec<u8>,
}

/// Everything there is to show, one table for each number of nodes and one for the claims.
pub fn sheets(comparison: &Comparison) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    let how = Kind::of(&comparison.family).map(|kind| &kind.how);
    if let Some(How::Costs { sheet, further, .. }) = how {
        let nodes = comparison.nodes.iter().enumerate();
        sheets.extend(nodes.map(|(i, &nodes)| sheet(comparison, i, nodes)));
        sheets.extend(further(comparison));
    }
    if !comparison.claims.by_algorithm.is_empty() {
        sheets.push(claimed(comparison));
    }
    sheets
}

fn claimed(comparison: &Comparison) -> Sheet {
    let claims = &comparison.claims;
    let documents = claims.documents.iter().map(|document| format!("[{document}]"));
    let head = ["algorithm", "quantity", "theory"].map(str::to_owned).into_iter();
    let head: Vec<String> = head.chain(documents).collect();
    let mut rows = Vec::new();
    for algorithm in &comparison.algorithms {
        let mut name = algorithm.name();
        for (about, theory) in claims.quantities(algorithm.id) {
            let cells = claims.documents.iter();
            let cells = cells.map(|document| claims.short(algorithm.id, about, document));
            let theory = theory.unwrap_or("–");
            let first = [name, about, theory].map(str::to_owned).into_iter();
            rows.push(first.chain(cells).collect());
            // Once is enough.
            name = "";
        }
    }
    let errata = claims.errata.iter().enumerate().map(|(i, note)| format!("[{}] {note}", i + 1));
    let notes = std::iter::once(lectures::legend()).chain(errata).collect();
    let (title, words) = ("What the lectures claim".to_owned(), head.len());
    Sheet { title, head, rows, notes, words, matters: Vec::new() }
}
