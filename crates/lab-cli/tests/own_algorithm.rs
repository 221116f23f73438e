//! A program outside the workspace with an algorithm of its own: built, and used as a student would.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-algorithm")
}

/// Builds it, with the versions of all crates that the workspace has, and from nowhere but this machine.
fn built() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("own-algorithm");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--offline", "--locked"]).current_dir(example());
    let output = build.env("CARGO_TARGET_DIR", &target).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("debug/own-algorithm")
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn an_algorithm_outside_the_workspace_is_listed_run_checked_compared_drawn_and_replayed() {
    let program = built();
    let ask = |line: &str, code: i32| {
        let mut command = Command::new(&program);
        let output = command.args(line.split(' ')).output().expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{line}: {}", said(&output));
        said(&output)
    };
    assert!(ask("list mutex", 0).contains("mutex/my-keeper"));
    assert!(ask("explain mutex/my-keeper", 0).contains("There is one key"));

    let drawn = ask("run mutex/my-keeper --nodes 3 --ask 0@0,2@0", 0);
    for part in ["Key→p2", "ENTERS #2", "✓ ME", "✓ FENCE", "Ask 1, Back 1, Key 1"] {
        assert!(drawn.contains(part), "{part}: {drawn}");
    }
    let checked = ask("check mutex/my-keeper --nodes 3", 0);
    assert!(checked.contains("✓ NS       holds in all"), "{checked}");
    let compared = ask("compare mutex --nodes 4 --json", 0);
    assert!(compared.contains("mutex/my-keeper") && compared.contains("mutex/lamport"));

    let scratch = tempfile::tempdir().expect("a folder");
    let file = scratch.path().join("run.json").display().to_string();
    ask(&format!("run mutex/my-keeper --nodes 4 --crash 0@3 --beyond-model --trace {file}"), 0);
    assert!(ask(&format!("replay {file}"), 0).contains("identical"));

    // What it prints to be typed begins with its own name.
    assert!(ask("run mutex/my-keepr", 2).contains("did you mean mutex/my-keeper"));
    assert!(ask("list", 0).contains("`own-algorithm explain ID`"));
}

/// Otherwise building it would need crates that are not on the machine.
#[test]
fn the_example_uses_the_versions_of_the_workspace() {
    let versions = |path: PathBuf| -> BTreeSet<String> {
        let text = std::fs::read_to_string(path).expect("there is a lock file");
        let lines: Vec<&str> = text.lines().collect();
        let pairs = lines.windows(2).filter(|pair| pair[0].starts_with("name = "));
        pairs.map(|pair| pair.join(" ")).collect()
    };
    let workspace = versions(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock"));
    let mut example = versions(example().join("Cargo.lock"));
    example.retain(|package| !package.contains("\"own-algorithm\""));
    let strange: Vec<_> = example.difference(&workspace).collect();
    assert!(
        strange.is_empty(),
        "copy Cargo.lock to examples/own-algorithm and run cargo build there: {strange:?}"
    );
}
