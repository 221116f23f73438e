//! The examples of the catalogue come out as they should: one test per file in `scenarios/`.
//!
//! `scenarios/README.md` says what the lines of a file mean.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use serde_json::Value;

pub(crate) fn trials() -> Vec<Trial> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files = Vec::new();
    for family in std::fs::read_dir(&root).expect("there are scenarios").flatten() {
        let Ok(inside) = std::fs::read_dir(family.path()) else { continue };
        let text = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "txt");
        files.extend(inside.flatten().map(|file| file.path()).filter(text));
    }
    files.sort();
    let trial = |file: PathBuf| {
        let short = file.strip_prefix(&root).unwrap_or(&file).with_extension("");
        Trial::test(format!("scenario {}", short.display()), move || check(&file))
    };
    files.into_iter().map(trial).collect()
}

fn check(file: &Path) -> Result<(), Failed> {
    let text = std::fs::read_to_string(file)?;
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let command = lines.next().ok_or("a scenario has a command")?;
    let trace = std::env::temp_dir().join(format!(
        "conclave-scenario-{}-{}.json",
        std::process::id(),
        file.file_stem().unwrap_or_default().display()
    ));
    let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
        // Quoted for the shell, where `>` would mean something else.
        .args(command.split_whitespace().map(|word| word.trim_matches('\'')))
        .arg("--json")
        .arg("--trace")
        .arg(&trace)
        .current_dir(file.parent().ok_or("a scenario lies in a folder")?)
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{command}: no report ({error}): {stderr}"))?;
    let events = std::fs::read_to_string(&trace).and_then(|text| Ok(serde_json::from_str(&text)?));
    let _ = std::fs::remove_file(&trace);
    let run = Run { report, events: events.unwrap_or(Value::Null) };

    let mut exit = 0;
    let mut expectations = 0;
    for line in lines {
        let (what, expected) =
            line.split_once(" = ").ok_or_else(|| format!("not understood: {line}"))?;
        expectations += 1;
        if what == "exit" {
            exit = expected.parse()?;
            continue;
        }
        let found = run.find(what)?;
        let ok = match what {
            "held" | "violated" => {
                let found: BTreeSet<&str> = found.split(' ').collect();
                expected.split(", ").all(|property| found.contains(property))
            }
            "lamport" => found.starts_with(expected),
            _ => found == expected,
        };
        if !ok {
            return Err(format!("{command}\n  {what}: expected {expected}, found {found}").into());
        }
    }
    if output.status.code() != Some(exit) {
        return Err(
            format!("{command}\n  {}, expected exit {exit}: {stderr}", output.status).into()
        );
    }
    if expectations == 0 { Err("a scenario expects something".into()) } else { Ok(()) }
}

struct Run {
    report: Value,
    events: Value,
}

/// One entry that was asked for; times in nanoseconds.
struct Entry {
    node: u64,
    entered: Option<u64>,
    left: Option<u64>,
    messages: u64,
    hops: Option<u64>,
}

impl Run {
    fn entries(&self) -> Vec<Entry> {
        let entries = self.report["costs"]["entries"].as_array().cloned().unwrap_or_default();
        let entry = |entry: &Value| Entry {
            node: entry["node"].as_u64().unwrap_or(u64::MAX),
            entered: entry["entered"].as_u64(),
            left: entry["left"].as_u64(),
            messages: entry["messages_entry"].as_u64().unwrap_or(0)
                + entry["messages_exit"].as_u64().unwrap_or(0),
            hops: entry["hops"].as_u64(),
        };
        entries.iter().map(entry).collect()
    }

    fn find(&self, what: &str) -> Result<String, Failed> {
        let join =
            |nodes: Vec<u64>| nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let entries = self.entries();
        if let Some(label) = what.strip_prefix("count ") {
            return Ok(self.report["costs"]["by_label"][label].as_u64().unwrap_or(0).to_string());
        }
        if what == "recorded" {
            let recorded = self.report["recorded"].as_array().cloned().unwrap_or_default();
            let texts = recorded.iter().filter_map(|it| it["text"].as_str());
            return Ok(texts.collect::<Vec<_>>().join("; "));
        }
        if let Some(kind) = what.strip_prefix("note ") {
            let events = self.events["events"].as_array().cloned().unwrap_or_default();
            let notes = events.iter().map(|event| &event["note"]);
            let notes = notes.filter(|note| note["what"] == kind);
            return Ok(join(notes.filter_map(|note| note["value"].as_u64()).collect()));
        }
        if let Some((about, node)) = what.split_once(' ') {
            let node: u64 = node.parse()?;
            let first = entries.iter().find(|entry| entry.node == node);
            let first = first.ok_or_else(|| format!("p{node} never asked"))?;
            return match about {
                "hops" => Ok(first.hops.map_or_else(|| "none".into(), |hops| hops.to_string())),
                "at" => {
                    let at = first.entered.ok_or_else(|| format!("p{node} never entered"))?;
                    Ok((at as f64 / 1e6).to_string())
                }
                "of" => {
                    let own = entries.iter().filter(|entry| entry.node == node);
                    Ok(own.map(|entry| entry.messages).sum::<u64>().to_string())
                }
                _ => Err(format!("not understood: {what}").into()),
            };
        }
        match what {
            "messages" | "lost" => Ok(self.report["costs"][what].to_string()),
            "entered" => {
                Ok(entries.iter().filter(|entry| entry.entered.is_some()).count().to_string())
            }
            "order" => {
                let mut order: Vec<_> = entries
                    .iter()
                    .filter_map(|entry| entry.entered.map(|at| (at, entry.node)))
                    .collect();
                order.sort_unstable();
                Ok(join(order.into_iter().map(|(_, node)| node).collect()))
            }
            "waiting" => {
                let waiting = entries.iter().filter(|entry| entry.entered.is_none());
                let mut nodes: Vec<u64> = waiting.map(|entry| entry.node).collect();
                nodes.sort_unstable();
                Ok(join(nodes))
            }
            "together" => {
                let inside = |at: u64| {
                    let there = |entry: &&Entry| {
                        entry.entered.is_some_and(|entered| entered <= at)
                            && entry.left.is_none_or(|left| left > at)
                    };
                    entries.iter().filter(there).count()
                };
                let most = entries.iter().filter_map(|entry| entry.entered).map(inside).max();
                Ok(most.unwrap_or(0).to_string())
            }
            "held" | "violated" => {
                let properties = self.report["properties"].as_array().cloned().unwrap_or_default();
                let matching = properties.iter().filter(|property| property["verdict"] == what);
                let names = matching.filter_map(|property| property["property"].as_str());
                Ok(names.collect::<Vec<_>>().join(" "))
            }
            "lamport" => {
                let events = self.events["events"].as_array().cloned().unwrap_or_default();
                Ok(join(events.iter().filter_map(|event| event["lamport"].as_u64()).collect()))
            }
            _ => Err(format!("not understood: {what}").into()),
        }
    }
}
