//! `conclave compare`: what the algorithms of a family cost, measured beside theory and beside
//! what the lectures claim.

mod area;
mod html;
mod plot;
mod tables;
mod tradeoff;

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use conclave_lab::compare::{Compared, Request, sheets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::{Done, Failure, Terminal, print_json};

/// Compare the algorithms of a family: measured, in theory, and as the lectures have it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The family: mutex, election, fd, stable or termination
    pub family: String,
    /// Numbers of nodes [default: 3,7,13,31,57; for fd: 5; for stable: 3,7; for termination: 3,7,13]
    #[arg(long, short, value_name = "N,…", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub nodes: Vec<u32>,
    /// How many runs with chance in them to average over [default: 3; for fd: 20; for stable and termination: 40]
    #[arg(long, value_name = "K")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,
    /// Only these algorithms, with or without the family
    #[arg(long, value_name = "ID,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Include the algorithms that exist to be refuted
    #[arg(long)]
    pub mutants: bool,
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write a page with tables and plots to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Args {
    /// What the flags ask for.
    fn request(&self) -> Request {
        Request {
            family: self.family.clone(),
            nodes: self.nodes.clone(),
            seeds: self.seeds,
            only: self.only.clone(),
            mutants: self.mutants,
        }
    }
}

/// Measures and prints.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    let plan = args.request().plan()?;
    let stop = super::run::stop_on_ctrl_c();
    let progress = progress(plan.steps());
    let (compared, whole) = plan.carry_out(|what| {
        progress.set_message(what.to_owned());
        progress.inc(1);
        !stop.load(Ordering::Relaxed)
    });
    progress.finish_and_clear();
    match &compared {
        Compared::Detectors(detectors) => {
            if !whole {
                // A user who stops the command wants to see what was measured so far.
                let _ = writeln!(terminal.stderr(), "stopped before everything was measured");
            }
            let text = || {
                let tables = tables::text(detectors.sheets(), terminal.width);
                tables + &tradeoff::text(&detectors.tradeoff, terminal.width)
            };
            let markdown = || tables::markdown(detectors.sheets());
            print(args, &compared, markdown, text, || html::detectors(detectors), out)?;
        }
        Compared::Costs(comparison) => {
            if !whole {
                let (done, all) = (comparison.algorithms.len(), plan.algorithms.len());
                let _ = writeln!(terminal.stderr(), "stopped after {done} of {all} algorithms");
            }
            let markdown = || tables::markdown(sheets(comparison));
            let text = || tables::text(sheets(comparison), terminal.width);
            print(args, &compared, markdown, text, || html::page(comparison), out)?;
        }
    }
    Ok(if whole { Done::Well } else { Done::Interrupted })
}

/// Prints what was measured in the form that was asked for.
fn print(
    args: &Args,
    measured: &impl Serialize,
    markdown: impl FnOnce() -> String,
    text: impl FnOnce() -> String,
    page: impl FnOnce() -> String,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if let Some(path) = &args.html {
        let failed = |error| Failure::File { path: path.clone(), error };
        std::fs::write(path, page()).map_err(failed)?;
        if !args.json && !args.markdown {
            writeln!(out, "wrote {}", path.display())?;
            return Ok(());
        }
    }
    if args.json {
        print_json(measured, out)?;
    } else if args.markdown {
        out.write_all(markdown().as_bytes())?;
    } else {
        out.write_all(text().as_bytes())?;
    }
    Ok(())
}

/// A bar on a terminal, and nothing elsewhere.
fn progress(steps: usize) -> ProgressBar {
    let progress = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg:30}") {
        progress.set_style(style);
    }
    progress
}

#[cfg(test)]
mod tests {
    use conclave_lab::compare::fd::Detectors;
    use conclave_lab::compare::mutex::Size;
    use conclave_lab::compare::{Algorithm, Comparison};
    use conclave_lab::find;

    use super::*;

    fn args(family: &str, nodes: &[u32], only: &[&str]) -> Args {
        Args {
            family: family.to_owned(),
            nodes: nodes.to_vec(),
            seeds: Some(1),
            only: only.iter().map(ToString::to_string).collect(),
            mutants: false,
            markdown: false,
            json: false,
            html: None,
        }
    }

    fn compared(args: &Args) -> Comparison {
        match args.request().plan().expect("they exist").carry_out(|_| true) {
            (Compared::Costs(comparison), true) => comparison,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_table_of_two_algorithms_among_three_nodes() {
        let comparison = compared(&args("mutex", &[3], &["ricart-agrawala", "mutex/token-ring"]));
        let text = tables::text(sheets(&comparison), 120);
        let expected = "\
N = 3

algorithm        messages,  messages,  entry   sync  response  bytes   entries  fair-  waiting  waiting  over-     burst
                     alone  saturated  delay  delay      time    per       per   ness      p50      p99  taken  messages
                                                               entry         T
ricart-agrawala      4+0 ✓          4    2 ✓    1 ✓    2T+E ✓     12  0.0909 ✓  1.000       23       23      2        12
token-ring           2+0 ✓          1    2 ✓    1 ✓    2T+E ✓      2  0.0909 ✓  1.000       23       23      2        24
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("[2] ✗ [002] ricart-agrawala, exit: N-1 — double count"), "{text}");
        for width in [120, 100, 80] {
            let text = tables::text(sheets(&comparison), width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
    }

    #[test]
    fn a_voting_deadlock_is_reported_as_such() {
        let comparison = compared(&args("mutex", &[7], &["maekawa"]));
        let figures = comparison.algorithms[0].sizes[0].figures.as_ref().expect("it fits");
        assert_eq!(figures.burst.stuck.as_deref(), Some("0 of 7 got in"));
        assert!(
            tables::text(sheets(&comparison), 120).contains("maekawa: all at once: 0 of 7 got in")
        );
    }

    #[test]
    fn an_algorithm_that_does_not_fit_says_why() {
        let info = find("mutex/ricart-agrawala").expect("it exists");
        let unfit = Some("it needs more".to_owned());
        let sizes = vec![Size { nodes: 2, figures: None, unfit, last_client: None }];
        let (elections, findings) = (Vec::new(), Vec::new());
        let algorithm = Algorithm { id: info.id, title: info.title, sizes, elections, findings };
        let mut comparison = compared(&args("mutex", &[2], &["token-ring"]));
        comparison.algorithms.push(algorithm);
        assert!(
            tables::markdown(sheets(&comparison))
                .contains("ricart-agrawala: – because it needs more")
        );
    }

    #[test]
    fn the_json_can_be_read_back() {
        let mut args = args("mutex", &[3, 4], &["centralized", "raymond-tree"]);
        args.json = true;
        let mut out = Vec::new();
        let terminal = Terminal { color: crate::Color::Never, ascii: false, width: 120 };
        perform(&args, &terminal, &mut out).expect("it is printed");
        let json: serde_json::Value = serde_json::from_slice(&out).expect("it is JSON");
        let figures = &json["algorithms"][0]["sizes"][1]["figures"];
        assert_eq!(figures["idle"]["messages"]["measured"], 3.0);
        assert_eq!(figures["idle"]["messages"]["theory"], 3.0);
        assert_eq!(json["claims"]["by_algorithm"]["mutex/centralized"]["001"][0]["formula"], "3");
    }

    #[test]
    fn the_page_is_well_formed_and_needs_nothing_else() {
        let only = ["centralized", "ricart-agrawala", "maekawa"];
        for page in [
            html::page(&compared(&args("mutex", &[3, 7], &only))),
            html::page(&compared(&args("election", &[4], &[]))),
            html::detectors(&watched(&args("fd", &[3], &[]))),
        ] {
            for foreign in ["http:", "https:", "<script", "<link", "src=", "@import", "url("] {
                assert!(!page.contains(foreign), "{foreign} in the page");
            }
            assert!(page.contains("<svg") && page.contains("prefers-color-scheme: dark"));
            assert_well_formed(&page);
        }
    }

    /// Every element is closed, in order.
    fn assert_well_formed(page: &str) {
        let mut open = Vec::new();
        for tag in page.split('<').skip(1) {
            let (tag, text) = tag.split_once('>').expect("every tag ends");
            assert!(!text.contains('>'), "a loose > after <{tag}>");
            let name = tag.trim_start_matches('/').split([' ', '/']).next().expect("a name");
            if tag.starts_with('!') || tag.ends_with('/') {
                continue;
            }
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "</{name}>");
            } else {
                assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
                open.push(name);
            }
        }
        assert_eq!(open, [""; 0]);
    }

    #[test]
    fn elections_are_compared_by_initiator() {
        let text = tables::text(sheets(&compared(&args("election", &[4, 20], &["bully"]))), 120);
        let words: Vec<&str> = text
            .lines()
            .find(|line| line.starts_with("bully"))
            .expect("a row")
            .split_whitespace()
            .collect();
        assert_eq!(
            words[..],
            ["bully†", "3", "✓", "11", "✓", "11", "3", "✓", "4", "✓", "24", "0", "12/12", "p2"],
            "{text}"
        );
        assert!(text.contains("✗ [003] bully, best: N-2 election messages"), "{text}");
    }

    fn watched(args: &Args) -> Detectors {
        match args.request().plan().expect("they exist").carry_out(|_| true) {
            (Compared::Detectors(detectors), true) => detectors,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn detectors_are_compared_over_delay_models_and_the_trade_off_is_drawn() {
        let detectors = watched(&args("fd", &[4], &["heartbeat", "timeout-sync"]));
        let text = tables::text(detectors.sheets(), 150);
        // A beat to every peer in two T; a question and an answer in five.
        for line in ["heartbeat", "timeout-sync"] {
            let line = text.lines().find(|it| it.starts_with(line)).expect("it is there");
            let messages = if line.starts_with("heartbeat") { " 0.5 ✓ " } else { " 0.4 ✓ " };
            assert!(line.contains("constant T") && line.contains(messages), "{line}");
            assert!(line.contains("✓ ≤"), "within theory: {line}");
        }
        let plot = tradeoff::text(&detectors.tradeoff, 80);
        assert!(plot.contains("c  timeout-sync, Tproc = "), "{plot}");
        assert!(plot.contains("a  heartbeat, timeout = 2, 3"), "{plot}");
        for width in [150, 100, 80] {
            let text = tables::text(detectors.sheets(), width)
                + &tradeoff::text(&detectors.tradeoff, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
        let json = serde_json::to_value(&detectors).expect("it is data");
        assert_eq!(json["detectors"][0]["figures"][0]["messages"]["theory"], 0.5);
        assert_eq!(json["tradeoff"][0]["points"][0]["value"], 2.0);
    }

    #[test]
    fn only_families_and_algorithms_that_exist_are_compared() {
        let refused = |family, only: &[&str]| {
            args(family, &[3], only).request().plan().expect_err("it is refused").to_string()
        };
        assert!(refused("poetry", &[]).contains("try mutex, election, fd, stable or termination"));
        assert!(refused("mutex/lamport", &[]).contains("compare mutex --only lamport"));
        assert!(refused("mutex", &["election/bully"]).contains("is not of the family mutex"));
        assert!(refused("mutex", &["ricart-agrwala"]).contains("mutex/ricart-agrawala"));
    }
}
