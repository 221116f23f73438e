//! What `--json` prints is what docs/json.md says, field by field.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::{conclave, json, scratch, stdout};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
const RA: &str = "mutex/ricart-agrawala";
const BROKEN: &str = "mutex/ra-no-tie-break";
const SNAPSHOT: &str = "snapshot/chandy-lamport";
const STARVING: &str = "mutex/token-ring-bidirectional";

/// Commands that show, between them, every field that a section describes.
const SAMPLES: [(&str, &[&str]); 13] = [
    ("conclave list", &["list --mutants"]),
    (
        "conclave explain",
        &[
            "explain mutex/ricart-agrawala",
            "explain mutex/ra-no-tie-break",
            "explain mutex/token-ring",
            "explain TOPIC",
        ],
    ),
    (
        "conclave run",
        &[
            "run mutex/ricart-agrawala --rounds 2",
            "run mutex/token-ring --set holder=1 --loss 1% --beyond-model",
            "run mutex/maekawa -n 3 --ask 0@0,1@0,2@0",
            "run election/bully -n 5 --crash 4@0 --ask 0@10",
            "run election/superpeer-tokens -n 30",
            "run snapshot/chandy-lamport -n 2",
            "run snapshot/naive -n 3 --ask 0@2",
            "replay BROKEN",
        ],
    ),
    (
        "conclave run --seeds",
        &[
            "run mutex/ra-no-tie-break --seeds 20",
            "run mutex/token-ring --set holder=1 --seeds 2 --ask 0 --until 1",
            "run mutex/ricart-agrawala --crash 1@0.5ms --beyond-model --detector 1ms --seeds 2",
            "replay BROKEN",
        ],
    ),
    (
        "conclave replay",
        &[
            "replay GOOD",
            "replay TAMPERED",
            "replay BROKEN",
            "replay ENDLESS",
            "replay SNAPSHOT",
            "run mutex/token-ring --set holder=1 --loss 1% --beyond-model",
            "run mutex/maekawa -n 3 --ask 0@0,1@0,2@0",
            "run election/bully -n 5 --crash 4@0 --ask 0@10",
            "run election/superpeer-tokens -n 30",
            "run snapshot/naive -n 3 --ask 0@2",
        ],
    ),
    (
        "conclave check",
        &[
            "check mutex/ricart-agrawala -n 2 --count",
            "check mutex/ra-no-tie-break -n 2 --hunt 1",
            "check mutex/token-ring -n 2 --set holder=1 --property FCFS-HB",
            "check mutex/maekawa -n 3",
        ],
    ),
    (
        "conclave check --budget-table",
        &["check mutex/token-ring -n 2 --set holder=1 --budget-table"],
    ),
    ("conclave check --crash-table", &["check election/chang-roberts -n 3 --crash-table"]),
    ("conclave check --all", &["check --all -n 2 --states 200"]),
    (
        "conclave lattice",
        &[
            "lattice mutex/ricart-agrawala -n 2 --possibly inside=2 --definitely inside=1",
            "lattice mutex/ricart-agrawala -n 2 --possibly messages=1 --definitely inside(p0)",
            "lattice SNAPSHOT",
            "lattice mutex/ricart-agrawala -n 4 --rounds 9 --memory 1KiB",
        ],
    ),
    ("conclave cut", &["cut GOOD", "cut GOOD --at p0:0,p1:1,p2:1", "cut GOOD --at p0:0,p1:2,p2:2"]),
    (
        "conclave compare",
        &[
            "compare mutex -n 3,7 --only ricart-agrawala,maekawa,ricart-agrawala-multicast --seeds 1",
            "compare election -n 4 --only bully",
            "compare election -n 30 --only superpeer-tokens",
            "compare stable -n 3 --only token-loss --seeds 3",
            "compare termination -n 3 --only safra,dijkstra-scholten --seeds 4",
        ],
    ),
    ("conclave compare fd", &["compare fd -n 3 --seeds 1 --only heartbeat"]),
];

/// The tables of the document: by section, the fields and where each of them leads on.
struct Document(BTreeMap<String, Vec<(String, Option<String>)>>);

/// What is documented of a section, links followed.
#[derive(Default)]
struct Fields {
    /// Every field that is named, and every object and list on the way to it.
    paths: BTreeSet<String>,
    /// Below these, keys are names.
    names: BTreeSet<String>,
    /// Below these, anything may be.
    open: BTreeSet<String>,
}

impl Document {
    fn read() -> Self {
        let text = std::fs::read_to_string(DOCUMENT).expect("the document is there");
        let (mut sections, mut section) = (BTreeMap::new(), String::new());
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                section = title.to_owned();
            }
            let Some((field, what)) =
                line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")?.split_once("| "))
            else {
                continue;
            };
            let link = what
                .split_once("](#")
                .map(|(_, rest)| rest.trim_end_matches([')', '.']).to_owned());
            let field = field.trim().trim_matches('`');
            if field != "field" {
                let rows: &mut Vec<_> = sections.entry(section.clone()).or_default();
                rows.push((field.to_owned(), link));
            }
        }
        Self(sections)
    }

    fn fields(&self, section: &str) -> Fields {
        let mut fields = Fields::default();
        self.collect(section, "", &mut fields);
        fields
    }

    fn collect(&self, section: &str, prefix: &str, fields: &mut Fields) {
        let rows = self.0.get(section).unwrap_or_else(|| panic!("no section {section:?}"));
        for (field, link) in rows {
            let path = if prefix.is_empty() || field.is_empty() {
                format!("{prefix}{field}")
            } else {
                format!("{prefix}.{field}")
            };
            if let Some(open) = path.strip_suffix(".**") {
                fields.open.insert(open.to_owned());
            }
            let path = path.trim_end_matches(".**");
            let mut whole = String::new();
            for part in path.split('.') {
                if part == "*" || part == "*[]" {
                    fields.names.insert(whole.clone());
                }
                let dot = if whole.is_empty() { "" } else { "." };
                whole.push_str(&format!("{dot}{part}"));
                if !whole.is_empty() {
                    fields.paths.insert(whole.trim_end_matches("[]").to_owned());
                }
            }
            if let Some(anchor) = link {
                let anchor_of = |title: &str| title.to_lowercase().replace(' ', "-");
                let linked = self.0.keys().find(|title| anchor_of(title) == *anchor);
                self.collect(linked.unwrap_or_else(|| panic!("no #{anchor}")), path, fields);
            }
        }
    }
}

/// Every field of `value`, as the document names it.
fn printed(value: &Value, path: &str, fields: &Fields, found: &mut BTreeSet<String>) {
    if fields.open.contains(path) {
        return;
    }
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let key = if fields.names.contains(path) { "*" } else { key };
                let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                found.insert(path.clone());
                printed(value, &path, fields, found);
            }
        }
        Value::Array(list) => {
            let path = format!("{path}[]");
            list.iter().for_each(|value| printed(value, &path, fields, found));
        }
        _ => {}
    }
}

#[test]
fn every_field_that_is_printed_is_documented_and_every_documented_one_is_printed() {
    let files = Files::write();
    let document = Document::read();
    let mut wrong = Vec::new();
    for (section, samples) in SAMPLES {
        let fields = document.fields(section);
        let mut found = BTreeSet::new();
        for sample in samples {
            let args = files.arguments(sample);
            let args: Vec<&str> = args.iter().map(String::as_str).chain(["--json"]).collect();
            let value = json(&args);
            assert_eq!(value["format"], conclave_lab::FORMAT, "{sample}");
            // Some samples are here for what they have in common with this command.
            let mut here = BTreeSet::new();
            printed(&value, "", &fields, &mut here);
            if sample.split(' ').next() != section.split(' ').nth(1) {
                let shared = ["spec", "superpeers", "properties", "reach"];
                here.retain(|path| {
                    shared.iter().any(|part| path.starts_with(part)) && fields.paths.contains(path)
                });
            }
            found.extend(here);
        }
        let new = found
            .difference(&fields.paths)
            .map(|path| format!("{section}: {path} is printed only"));
        wrong.extend(new);
        let gone = fields
            .paths
            .difference(&found)
            .map(|path| format!("{section}: {path} is documented only"));
        wrong.extend(gone);
    }
    assert!(wrong.is_empty(), "docs/json.md and the commands differ:\n{}", wrong.join("\n"));
}

#[test]
fn every_command_of_the_laboratory_has_a_section() {
    let document = Document::read();
    let sections: BTreeSet<&str> = document
        .0
        .keys()
        .map(String::as_str)
        .filter(|title| title.starts_with("conclave "))
        .collect();
    assert_eq!(sections, SAMPLES.iter().map(|(section, _)| *section).collect());
    let help = stdout(&conclave(&["--help"]));
    let codes = help.lines().find(|line| line.starts_with("Exit codes of the laboratory"));
    let (_, list) = codes.and_then(|line| line.split_once('(')).expect("the laboratory's commands");
    for command in list.trim_end_matches("):").split(", ") {
        assert!(sections.contains(format!("conclave {command}").as_str()), "{command}");
    }
}

/// Recorded runs to be run again.
struct Files([(&'static str, String); 6]);

impl Files {
    fn write() -> Self {
        let path = |name: &str| {
            let path = scratch(name);
            path.to_str().expect("a plain path").to_owned()
        };
        let [good, tampered, broken, endless, snapshot] =
            ["json-good", "json-tampered", "json-broken", "json-endless", "json-snapshot"]
                .map(path);
        conclave(&["run", SNAPSHOT, "-n", "2", "--set", "transfers=1", "--trace", &snapshot]);
        conclave(&["run", RA, "--trace", &good]);
        conclave(&["check", BROKEN, "-n", "2", "--trace", &broken]);
        conclave(&["check", STARVING, "--property", "NS", "--trace", &endless]);
        let text = std::fs::read_to_string(&good).expect("the trace was written");
        let text = text.replacen("\"label\":\"Reply\"", "\"label\":\"Request\"", 1);
        std::fs::write(&tampered, text).expect("the file can be written");
        let topic = conclave_algorithms::catalogue::TOPICS[0].id.to_owned();
        Self([
            ("GOOD", good),
            ("TAMPERED", tampered),
            ("BROKEN", broken),
            ("ENDLESS", endless),
            ("SNAPSHOT", snapshot),
            ("TOPIC", topic),
        ])
    }

    fn arguments(&self, sample: &str) -> Vec<String> {
        let word = |word: &str| {
            let file = self.0.iter().find(|(name, _)| *name == word);
            file.map_or_else(|| word.to_owned(), |(_, path)| path.clone())
        };
        sample.split(' ').map(word).collect()
    }
}
