
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

mod catalogue { pub struct O{pub name:&'static str} pub struct Info{pub id:&'static str,pub options:&'static[O]} impl Info{pub fn family(&self)->&'static str{self.id.split_once('/').unwrap().0}} pub fn infos()->impl Iterator<Item=&'static Info>{IDS.iter()} static IDS:&[Info]=&[Info{id:"base/happened-before",options:&[O{name:"base"}]},Info{id:"base/lamport-clock",options:&[O{name:"base"}]},Info{id:"base/physical-clock-central",options:&[O{name:"base"}]},Info{id:"base/vector-clock",options:&[O{name:"base"}]},Info{id:"election/bully",options:&[O{name:"base"}]},Info{id:"election/bully-immediate",options:&[O{name:"base"}]},Info{id:"election/bully-recovery",options:&[O{name:"base"}]},Info{id:"election/by-attribute",options:&[O{name:"base"}]},Info{id:"election/by-attribute-bare",options:&[O{name:"base"}]},Info{id:"election/chang-roberts",options:&[O{name:"base"}]},Info{id:"election/chang-roberts-repaired",options:&[O{name:"base"}]},Info{id:"election/frederickson-lynch",options:&[O{name:"base"}]},Info{id:"election/le-lann",options:&[O{name:"base"}]},Info{id:"election/quorum-epoch",options:&[O{name:"base"}]},Info{id:"election/ring-inquiry",options:&[O{name:"base"}]},Info{id:"election/ring-list",options:&[O{name:"base"}]},Info{id:"election/ring-list-initiator",options:&[O{name:"base"}]},Info{id:"election/ring-modified",options:&[O{name:"base"}]},Info{id:"election/ring-reconfiguration",options:&[O{name:"base"}]},Info{id:"election/ring-watchdog",options:&[O{name:"base"}]},Info{id:"election/superpeer-dht",options:&[O{name:"base"}]},Info{id:"election/superpeer-tokens",options:&[O{name:"base"}]},Info{id:"election/tree-mattern",options:&[O{name:"base"}]},Info{id:"election/wireless-tree",options:&[O{name:"base"}]},Info{id:"fd/busy-or-dead",options:&[O{name:"base"}]},Info{id:"fd/busy-or-dead-silent",options:&[O{name:"base"}]},Info{id:"fd/heartbeat",options:&[O{name:"base"}]},Info{id:"fd/heartbeat-ring",options:&[O{name:"base"}]},Info{id:"fd/phi-accrual",options:&[O{name:"base"}]},Info{id:"fd/timeout-sync",options:&[O{name:"base"}]},Info{id:"mutex/bakery",options:&[O{name:"base"}]},Info{id:"mutex/bakery-message-passing",options:&[O{name:"base"}]},Info{id:"mutex/bakery-message-passing-cooperative",options:&[O{name:"base"}]},Info{id:"mutex/bakery-no-choosing",options:&[O{name:"base"}]},Info{id:"mutex/centralized",options:&[O{name:"base"}]},Info{id:"mutex/centralized-deny",options:&[O{name:"base"}]},Info{id:"mutex/centralized-failover",options:&[O{name:"base"}]},Info{id:"mutex/centralized-failover-no-lease",options:&[O{name:"base"}]},Info{id:"mutex/centralized-failover-quorum",options:&[O{name:"base"}]},Info{id:"mutex/centralized-timestamped",options:&[O{name:"base"}]},Info{id:"mutex/centralized-token",options:&[O{name:"base"}]},Info{id:"mutex/dijkstra-1965",options:&[O{name:"base"}]},Info{id:"mutex/dijkstra-self-stabilizing-ring",options:&[O{name:"base"}]},Info{id:"mutex/dijkstra-self-stabilizing-ring-settled",options:&[O{name:"base"}]},Info{id:"mutex/lamport",options:&[O{name:"base"}]},Info{id:"mutex/lamport-ack-suppression",options:&[O{name:"base"}]},Info{id:"mutex/lin-sigma",options:&[O{name:"base"}]},Info{id:"mutex/local-mechanisms",options:&[O{name:"base"}]},Info{id:"mutex/maekawa",options:&[O{name:"base"}]},Info{id:"mutex/maekawa-literal-003",options:&[O{name:"base"}]},Info{id:"mutex/maekawa-sanders",options:&[O{name:"base"}]},Info{id:"mutex/maekawa-sanders-numbered",options:&[O{name:"base"}]},Info{id:"mutex/maekawa-sanders-one-fail",options:&[O{name:"base"}]},Info{id:"mutex/maekawa-ts-queue",options:&[O{name:"base"}]},Info{id:"mutex/majority-permission",options:&[O{name:"base"}]},Info{id:"mutex/majority-permission-any",options:&[O{name:"base"}]},Info{id:"mutex/naimi-trehel",options:&[O{name:"base"}]},Info{id:"mutex/physical-clock-order",options:&[O{name:"base"}]},Info{id:"mutex/physical-clock-order-literal",options:&[O{name:"base"}]},Info{id:"mutex/ra-no-tie-break",options:&[O{name:"base"}]},Info{id:"mutex/ra-notify-one",options:&[O{name:"base"}]},Info{id:"mutex/raymond-k",options:&[O{name:"base"}]},Info{id:"mutex/raymond-k-naive",options:&[O{name:"base"}]},Info{id:"mutex/raymond-tree",options:&[O{name:"base"}]},Info{id:"mutex/raymond-tree-restart",options:&[O{name:"base"}]},Info{id:"mutex/replicated-coordinator",options:&[O{name:"base"}]},Info{id:"mutex/replicated-coordinator-persistent",options:&[O{name:"base"}]},Info{id:"mutex/ricart-agrawala",options:&[O{name:"base"}]},Info{id:"mutex/ricart-agrawala-bare-reply",options:&[O{name:"base"}]},Info{id:"mutex/ricart-agrawala-fd",options:&[O{name:"base"}]},Info{id:"mutex/ricart-agrawala-membership",options:&[O{name:"base"}]},Info{id:"mutex/ricart-agrawala-membership-no-cs",options:&[O{name:"base"}]},Info{id:"mutex/ricart-agrawala-multicast",options:&[O{name:"base"}]},Info{id:"mutex/ricart-agrawala-queued",options:&[O{name:"base"}]},Info{id:"mutex/ricart-agrawala-token",options:&[O{name:"base"}]},Info{id:"mutex/roucairol-carvalho",options:&[O{name:"base"}]},Info{id:"mutex/suzuki-kasami",options:&[O{name:"base"}]},Info{id:"mutex/token-ring",options:&[O{name:"base"}]},Info{id:"mutex/token-ring-bidirectional",options:&[O{name:"base"}]},Info{id:"mutex/token-ring-ft",options:&[O{name:"base"}]},Info{id:"mutex/token-ring-handler",options:&[O{name:"base"}]},Info{id:"mutex/token-ring-loss-probe",options:&[O{name:"base"}]},Info{id:"mutex/token-ring-misra",options:&[O{name:"base"}]},Info{id:"mutex/token-ring-on-demand",options:&[O{name:"base"}]},Info{id:"mutex/token-ring-polled",options:&[O{name:"base"}]},Info{id:"mutex/tree-greedy",options:&[O{name:"base"}]},Info{id:"mutex/tree-token-fair",options:&[O{name:"base"}]}];}

/// The crates that know algorithms in general. Those of the service speak of elections, too, which
/// are their own.
const GENERAL: [&str; 6] = ["protocol", "sim", "check", "lab", "lab-cli", "algorithms"];
/// Those that use the laboratory beside the service: where they do, the same holds.
const USERS: [&str; 1] = ["cli"];
/// Folders with a file for each family, and the list of all algorithms.
const FAMILY_FILES: [&str; 2] = ["protocol/src/family/", "lab/src/compare/"];
const CATALOGUE: &str = "algorithms/src/catalogue.rs";

/// A source file: where it is, below the folder of all crates, its string literals by line, and
/// what is left without them.
struct Source {
    path: String,
    literals: Vec<(usize, String)>,
    code: String,
}

/// The source files of a crate but for tests.
fn sources(crates: &Path, name: &str) -> Vec<Source> {
    let mut paths = Vec::new();
    walk(&crates.join(name).join("src"), &mut paths);
    let mut sources = Vec::new();
    for path in paths {
        
        let text = fs::read_to_string(&path).expect("it is text");
        let path = path.strip_prefix(crates).expect("it is below").to_string_lossy().into_owned();
        let (literals, code) = parts_of(&text);
        sources.push(Source { path, literals, code });
    }
    sources
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the sources are there") {
        let path = entry.expect("it can be read").path();
        let test = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !test {
            walk(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") && !test {
            found.push(path);
        }
    }
}

/// The string literals of a source text with their lines, and the code between them: without
/// comments, attributes and what only tests compile.
fn parts_of(text: &str) -> (Vec<(usize, String)>, String) {
    let mut scan = Scan { rest: text, line: 1 };
    let (mut found, mut code) = (Vec::new(), String::new());
    while let Some(first) = scan.rest.chars().next() {
        if scan.skip_comment() {
            continue;
        }
        if scan.rest.starts_with("#[cfg(test)]") {
            scan.skip_item();
        } else if scan.rest.starts_with("#[") || scan.rest.starts_with("#![") {
            scan.skip_brackets();
        } else if let Some(literal) = scan.string() {
            found.push(literal);
        } else if !scan.skip_char() {
            code.push_str(scan.skip(first.len_utf8()));
        }
    }
    (found, code)
}

/// What is left of a text, and in which line that begins.
struct Scan<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Scan<'a> {
    fn skip(&mut self, bytes: usize) -> &'a str {
        let (skipped, rest) = self.rest.split_at(bytes);
        self.line += skipped.matches('\n').count();
        self.rest = rest;
        skipped
    }

    fn skip_comment(&mut self) -> bool {
        let end = match self.rest {
            line if line.starts_with("//") => line.find('\n').unwrap_or(line.len()),
            block if block.starts_with("/*") => block.find("*/").map_or(block.len(), |it| it + 2),
            _ => return false,
        };
        self.skip(end);
        true
    }

    /// A string literal, raw or not.
    fn string(&mut self) -> Option<(usize, String)> {
        let line = self.line;
        let marks =
            self.rest.strip_prefix('r').map(|it| it.len() - it.trim_start_matches('#').len());
        let raw = marks.filter(|marks| self.rest[1 + marks..].starts_with('"'));
        if let Some(marks) = raw {
            let end = format!("\"{}", "#".repeat(marks));
            self.skip(marks + 2);
            let length = self.rest.find(&end).unwrap_or(self.rest.len());
            let literal = self.skip(length).to_owned();
            self.skip(end.len().min(self.rest.len()));
            return Some((line, literal));
        }
        self.rest.strip_prefix('"')?;
        self.skip(1);
        let mut escaped = false;
        let end = self.rest.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let literal = self.skip(end.unwrap_or(self.rest.len())).to_owned();
        self.skip(1.min(self.rest.len()));
        Some((line, literal))
    }

    /// A character, which may be a quotation mark; a lifetime is none.
    fn skip_char(&mut self) -> bool {
        let Some(inside) = self.rest.strip_prefix('\'') else { return false };
        let length = match inside.chars().next() {
            Some('\\') => inside[2..].find('\'').map(|it| it + 2),
            Some(one) => Some(one.len_utf8()).filter(|it| inside[*it..].starts_with('\'')),
            None => None,
        };
        self.skip(length.map_or(1, |length| length + 2));
        true
    }

    /// Up to the end of the first pair of brackets of any kind, whatever stands inside them.
    fn skip_brackets(&mut self) {
        let mut depth = 0;
        while let Some(next) = self.rest.chars().next() {
            if self.skip_comment() || self.string().is_some() || self.skip_char() {
                continue;
            }
            self.skip(next.len_utf8());
            match next {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => continue,
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// An item with its attributes: up to a semicolon or the end of its block.
    fn skip_item(&mut self) {
        while let Some(next) = self.rest.chars().next() {
            match next {
                '{' => return self.skip_brackets(),
                '#' | '(' | '[' => self.skip_brackets(),
                ';' => {
                    self.skip(1);
                    return;
                }
                _ => {
                    if !self.skip_comment() {
                        self.skip(next.len_utf8());
                    }
                }
            }
        }
    }
}

/// Whether the text names the id, rather than a longer one that begins with it, and not as an
/// example of what to type, as help texts do.
fn names(text: &str, id: &str) -> bool {
    text.match_indices(id).any(|(at, _)| {
        let line = text[..at].lines().next_back().unwrap_or_default();
        if line.contains("conclave ") {
            return false;
        }
        let part_of_name = |c: char| c.is_alphanumeric() || c == '-' || c == '/';
        let after = text[at + id.len()..].chars().next();
        let before = text[..at].chars().next_back();
        !after.is_some_and(part_of_name) && !before.is_some_and(part_of_name)
    })
}

/// The names behind `conclave_algorithms::` in a source file, be it in an import or in a path.
fn taken(code: &str) -> BTreeSet<&str> {
    let uses = code.split("conclave_algorithms::").skip(1);
    let word = |c: char| !c.is_alphanumeric() && c != '_';
    uses.flat_map(|after| after.split(';').next().unwrap_or(after).split(word)).collect()
}

/// The part of the algorithms' crate that a file belongs to: its folder, or the file of that name.
fn part(path: &str) -> Option<&str> {
    let below = path.strip_prefix("algorithms/src/")?;
    Some(below.split(['/', '.']).next().unwrap_or(below))
}

#[test]
fn no_family_name_and_no_algorithm_id_is_matched_on_outside_its_folder() {
    let crates = Path::new("/work/w-data/crates/lab").join("..");
    let ids: Vec<&str> = catalogue::infos().map(|info| info.id).collect();
    let families: BTreeSet<&str> = catalogue::infos().map(|info| info.family()).collect();
    let options = catalogue::infos().flat_map(|info| info.options).map(|option| option.name);
    let options: BTreeSet<&str> = options.collect();
    let mut files: Vec<Source> = GENERAL.iter().flat_map(|name| sources(&crates, name)).collect();
    let users = USERS.iter().flat_map(|name| sources(&crates, name));
    files.extend(users.filter(|source| source.code.contains("conclave_lab")));
    assert!(files.len() > 150, "{} files", files.len());

    // In which parts of the algorithms' crate a family's entries are named, and which families a
    // family's own file names.
    let mut parts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut own: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for Source { path, literals, .. } in files.iter().filter(|it| it.path != CATALOGUE) {
        let family_file = FAMILY_FILES.iter().any(|folder| path.starts_with(folder));
        for (line, literal) in literals {
            for id in ids.iter().filter(|id| names(literal, id)) {
                let (family, _) = id.split_once('/').expect("ids have a family");
                match part(path) {
                    Some(part) => {
                        parts.entry(family).or_default().insert(part);
                    }
                    None => wrong.push(format!("{path}:{line}: {id}")),
                }
            }
            match families.get(literal.as_str()) {
                Some(family) if family_file => {
                    own.entry(path).or_default().insert(family);
                }
                // An algorithm may have an option that is called so.
                Some(family) if part(path).is_some() && options.contains(family) => {}
                Some(family) => wrong.push(format!("{path}:{line}: {family}")),
                None => {}
            }
        }
    }
    let folders: BTreeSet<&str> = parts.values().flatten().copied().collect();
    for Source { path, code, .. } in &files {
        let taken = taken(code);
        let folders = folders.intersection(&taken);
        wrong.extend(folders.map(|folder| format!("{path} uses algorithms::{folder}")));
    }
    let several = parts.iter().filter(|(_, parts)| parts.len() > 1);
    wrong.extend(several.map(|(family, parts)| format!("{family} stands in {parts:?}")));
    let several = own.iter().filter(|(_, families)| families.len() > 1);
    wrong.extend(several.map(|(path, families)| format!("{path} is of {families:?}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(families.iter().all(|family| parts.contains_key(family)), "{parts:?}");
    assert!(own.len() > families.len(), "{own:?}");
}

#[test]
fn literals_are_found_wherever_a_driver_could_match_on_them() {
    let text = r##"
        //! "comment"
        /* "comment" */
        #[command(after_help = "conclave run mutex/lamport")]
        fn ask(c: char) -> &'static str {
            if c == '"' || c == '\'' || c == '\\' { r#"a "raw" one"# } else { "a \" b" }
        }
        #[cfg(test)]
        use a::{b, c};
        #[cfg(test)]
        #[allow(dead_code)]
        mod tests { const X: &str = "}"; }
        const Y: &[&str] = &["last"];
    "##;
    let (found, code) = parts_of(text);
    assert!(code.contains("const Y") && !code.contains("const X"), "{code}");
    let found: Vec<_> = found.iter().map(|(line, it)| (*line, it.as_str())).collect();
    assert_eq!(found, [(6, r#"a "raw" one"#), (6, r#"a \" b"#), (13, "last")]);
}

#[test]
fn an_id_is_neither_the_beginning_of_another_nor_an_example_of_what_to_type() {
    assert!(names("mutex/lamport or so", "mutex/lamport"));
    assert!(!names("Examples:\n  conclave run mutex/lamport --nodes 3", "mutex/lamport"));
    assert!(!names("mutex/lamport-ack-suppression", "mutex/lamport"));
}
