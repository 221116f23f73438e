//! The examples do what they say.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::World;

/// The program of an example, which is built together with the tests.
fn example(name: &str, world: &World) -> Command {
    let tests: PathBuf = std::env::current_exe().expect("this one");
    let built = tests.parent().and_then(Path::parent).expect("it is in target/…/deps");
    let mut command = Command::new(built.join("examples").join(name));
    command.env("CONCLAVE_ENDPOINTS", world.address().to_string());
    command
}

fn output(mut command: Command) -> String {
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn a_fenced_file_refuses_an_old_token() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let world = runtime.block_on(World::new());
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("ledger");
    for line in ["first", "second"] {
        let mut command = example("fenced_file", &world);
        command.arg(&file).arg(line);
        let said = output(command);
        assert!(said.contains("written") && said.contains("token 0 is out of date"), "{said}");
    }
    let lines = std::fs::read_to_string(&file).expect("it was written");
    assert!(lines.ends_with("\nfirst\nsecond\n"), "{lines}");
}

#[test]
fn a_rate_limiter_lets_all_clients_pass_but_not_at_once() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let world = runtime.block_on(World::new());
    let mut command = example("rate_limiter", &world);
    let said = output({
        command.args(["2", "4"]);
        command
    });
    assert_eq!(said.matches("has a permit").count(), 4, "{said}");
    assert!(said.contains("4 calls in "), "{said}");
}

#[test]
fn of_several_workers_the_best_works() {
    use std::io::{BufRead, BufReader};
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let world = runtime.block_on(World::new());
    let start = |name: &str, rank: &str| {
        let mut command = example("leader_worker", &world);
        command.args([name, rank]).stdout(Stdio::piped()).spawn().expect("it starts")
    };
    let said_until = |lines: &mut dyn Iterator<Item = std::io::Result<String>>, what: &str| {
        let mut said = lines.map_while(Result::ok);
        assert!(said.any(|line| line.contains(what)), "{what}");
    };
    let mut ann = start("ann", "1");
    let mut ann_says = BufReader::new(ann.stdout.take().expect("it speaks")).lines();
    said_until(&mut ann_says, "ann: step 1");
    let mut bob = start("bob", "2");
    let mut bob_says = BufReader::new(bob.stdout.take().expect("it speaks")).lines();
    said_until(&mut ann_says, "ann: asked to yield");
    said_until(&mut bob_says, "bob: step 1");
    bob.kill().expect("it runs");
    said_until(&mut ann_says, "ann: leads");
    ann.kill().expect("it runs");
    bob.wait().expect("it ends");
    ann.wait().expect("it ends");
}
