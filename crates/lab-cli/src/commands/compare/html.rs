//! The comparison as one page that needs nothing else: no network, no script.

use std::fmt::Write as _;

use conclave_lab::compare::fd::Detectors;
use conclave_lab::compare::{Comparison, Graph, Sheet, lectures, sheets};

use super::{plot, tradeoff};

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c1e21; --dim: #5c6370; --page: #ffffff; --soft: #f3f4f6;
  --rule: #d9dce1; --c0: #1764ab; --c1: #c2410c; --c2: #15803d; --c3: #a21caf; --c4: #b45309;
  --c5: #0e7490; --c6: #be123c; --c7: #4d5566; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e7ea; --dim: #9aa1ad; --page: #16181d;
  --soft: #20242b; --rule: #363c47; --c0: #6cb2f5; --c1: #fb923c; --c2: #4ade80; --c3: #e879f9;
  --c4: #facc15; --c5: #22d3ee; --c6: #fb7185; --c7: #b6bdc9; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
p.about, ul.notes, ol.notes { color: var(--dim); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--rule); }
th { vertical-align: bottom; background: var(--soft); }
th.word, td.word { text-align: left; } td.word:first-child { white-space: nowrap; }
tbody tr:hover { background: var(--soft); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 520px), 1fr));
  gap: 1.5rem; }
figure { margin: 0; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; }
svg text { fill: var(--ink); font-size: 11px; } svg .tick, svg .axis { fill: var(--dim); }
svg .grid { stroke: var(--rule); stroke-width: .5; }
.line polyline { fill: none; stroke: var(--c); stroke-width: 1.6; }
.line polyline.theory { stroke-width: 6; opacity: .25; }
.line polyline.leader { stroke-width: .5; opacity: .6; }
.line circle { fill: var(--c); } .line text { fill: var(--c); }
.line:hover polyline { stroke-width: 3; } .line:hover polyline.theory { stroke-width: 9; }
.line:hover text { font-weight: 700; }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }
";

/// How a page begins.
fn head(family: &str, title: &str) -> String {
    let (family, title) = (escape(family), escape(title));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>conclave compare {family}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>{family}: {title}</h1>\n"
    )
}

/// The whole page about failure detectors.
pub(super) fn detectors(detectors: &Detectors) -> String {
    let mut page = head(detectors.family, "how soon, how often wrong, and for how many messages");
    let _ = writeln!(page, "<p class=\"about\">{}</p>", escape(&detectors.summary()));
    if let Some(svg) = tradeoff::svg(&detectors.tradeoff) {
        let _ = write!(
            page,
            "<h2>The trade-off</h2>\n<figure><figcaption>Mistakes over detection time, exponential \
             delays</figcaption>\n{svg}</figure>\n"
        );
    }
    for sheet in detectors.sheets() {
        table(&sheet, &mut page);
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// The whole page.
pub(super) fn page(comparison: &Comparison) -> String {
    let title = "measured, in theory, and as the lectures have it";
    let mut page = head(&comparison.family, title);
    let _ = writeln!(
        page,
        "<p class=\"about\">Every message takes one unit of time T. Under load, everybody asks \
         again as soon as it has left, and stays inside for {} T; {} per algorithm. Signs: \
         {}.</p>",
        comparison.stay,
        match comparison.seeds {
            1 => "one run".to_owned(),
            seeds => format!("means over {seeds} runs"),
        },
        escape(&lectures::legend()),
    );
    let drawn: Vec<String> = comparison.graphs().iter().filter_map(figure).collect();
    if !drawn.is_empty() {
        page.push_str(
            "<h2>Over the number of nodes</h2>\n<p class=\"about\">Thin: measured. Broad: \
                       theory. A name with +n stands for n more that end at the same height; \
                       the tables have them all.</p>\n<div class=\"plots\">\n",
        );
        page.extend(drawn);
        page.push_str("</div>\n");
    }
    for sheet in sheets(comparison) {
        table(&sheet, &mut page);
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn figure(graph: &Graph) -> Option<String> {
    let svg = plot::svg(graph)?;
    Some(format!("<figure><figcaption>{}</figcaption>\n{svg}</figure>\n", graph.title))
}

fn table(sheet: &Sheet, page: &mut String) {
    let cells = |tag: &str, cells: &[String], page: &mut String| {
        page.push_str("<tr>");
        for (i, cell) in cells.iter().enumerate() {
            let class = if i < sheet.words { " class=\"word\"" } else { "" };
            let _ = write!(page, "<{tag}{class}>{}</{tag}>", escape(cell));
        }
        page.push_str("</tr>\n");
    };
    let _ =
        write!(page, "<h2>{}</h2>\n<div class=\"scroll\"><table>\n<thead>", escape(&sheet.title));
    let head: Vec<String> = sheet.head.iter().map(|head| head.replace("- ", "")).collect();
    cells("th", &head, page);
    page.push_str("</thead>\n<tbody>\n");
    for row in &sheet.rows {
        cells("td", row, page);
    }
    page.push_str("</tbody>\n</table></div>\n");
    if !sheet.notes.is_empty() {
        page.push_str("<ul class=\"notes\">\n");
        for note in &sheet.notes {
            let _ = writeln!(page, "<li>{}</li>", escape(note));
        }
        page.push_str("</ul>\n");
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
