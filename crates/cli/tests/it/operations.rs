//! The recipes of docs/operations.md work as they are written.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::support::{stderr, stdout};
use tempfile::TempDir;

const PAGE: &str = include_str!("../../../../docs/operations.md");

/// The commands of the first block below a title.
fn recipe(title: &str) -> &'static str {
    let (_, below) = PAGE.split_once(title).expect("there is such a part");
    let (_, block) = below.split_once("```sh\n").expect("there are commands");
    block.split("```").next().expect("they end")
}

/// A port that is free, most likely for a while yet.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is one");
    listener.local_addr().expect("it listens").port()
}

#[test]
fn what_is_said_about_tls_and_tokens_works_when_copied() {
    let folder = TempDir::new().expect("there is room");
    let own = Path::new(env!("CARGO_BIN_EXE_conclave")).parent().expect("it is in a folder");
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap_or_default());
    let run = |script: &str| {
        // What goes on in the background ends with the recipe.
        let script = format!("set -e\ntrap 'kill $(jobs -p); wait' EXIT\n{script}");
        let script = script.replace("7411", &port().to_string());
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).current_dir(folder.path()).env("PATH", &path);
        let variables = std::env::vars().map(|(name, _)| name);
        for name in variables.filter(|name| name.starts_with("CONCLAVE_")) {
            bash.env_remove(name);
        }
        // On a busy machine a node may take its time to start.
        bash.env("CONCLAVE_CONNECT_TIMEOUT", "120s");
        let output = bash.output().expect("there is bash");
        assert!(output.status.success(), "{script}\n{}\n{}", stdout(&output), stderr(&output));
        stdout(&output)
    };
    let said = run(recipe("## TLS in six commands"));
    assert!(said.contains("locked over TLS"), "{said}");
    let said = run(recipe("## Tokens"));
    assert!(said.contains("let in by a token"), "{said}");
}
