//! The tests that docs/requirements.md names are there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../../../docs/requirements.md");

/// The names of all functions in the sources below a folder.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("it is a folder").filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("sources are text");
            let names = text.split("fn ").skip(1).map(|rest| {
                rest.chars().take_while(|&c| c.is_alphanumeric() || c == '_').collect::<String>()
            });
            found.extend(names);
        }
    }
}

#[test]
fn every_wish_has_tests_and_all_of_them_exist() {
    let mut there = BTreeSet::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("it is one of several");
    for name in fs::read_dir(crates).expect("it is a folder").filter_map(Result::ok) {
        for part in ["src", "tests"] {
            let folder = name.path().join(part);
            if folder.is_dir() {
                functions(&folder, &mut there);
            }
        }
    }
    let rows: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert_eq!(rows.len(), 20);
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().expect("a last column");
        let tests: Vec<&str> = tests.split('`').filter(|name| !name.trim().is_empty()).collect();
        assert!(!tests.is_empty(), "{row}");
        for test in tests {
            assert!(there.contains(test), "there is no test {test}");
        }
    }
}
