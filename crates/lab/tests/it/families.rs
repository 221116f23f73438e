//! What is one family's, or one algorithm's, stands in its own files.

use std::fs;
use std::path::{Path, PathBuf};

use conclave_algorithms::catalogue;

/// The source files below a directory, but for those of the families.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the sources are there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() && !path.ends_with("protocol/src/family") {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// The whole string literals of a line that is no comment.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    let code = if line.trim_start().starts_with("//") { "" } else { line };
    code.split('"').skip(1).step_by(2)
}

#[test]
fn no_driver_and_no_judge_names_a_family_or_an_algorithm() {
    let mut names: Vec<&str> = catalogue::infos().map(|info| info.id).collect();
    names.extend(catalogue::infos().map(|info| info.family()));
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for name in ["protocol", "sim", "check"] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 50, "{} files", files.len());
    let mut found = Vec::new();
    for file in files {
        #[expect(clippy::disallowed_methods, reason = "the test is about the sources")]
        let text = fs::read_to_string(&file).expect("it is text");
        for (number, line) in (1..).zip(text.lines()) {
            let named = literals(line).filter(|literal| names.contains(literal));
            found.extend(named.map(|name| format!("{}:{number}: {name}", file.display())));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_name_is_found_wherever_it_stands_in_a_line() {
    let line = r#"if info.family() == "mutex" || id == "election/bully" {"#;
    assert!(literals(line).eq(["mutex", "election/bully"]));
    assert_eq!(literals("    /// such as \"mutex\"").count(), 0);
}
