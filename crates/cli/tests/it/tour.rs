//! The tour of the lock service in README.md: its commands are run, and print what is shown there.
//!
//! In blocks marked `console`, a line that begins with `$ ` is a command and what follows is what it prints, up
//! to the next. One that ends with `&` goes on in the background; what it prints later is shown where it
//! comes. Shown and printed lines are compared as [`masked`] leaves them.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::node::{Process, eventually, program};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// What the tour is in.
const README: &str = include_str!("../../../../README.md");
/// Where it begins. It ends where the next part begins.
const TITLE: &str = "## Five minutes with the lock service\n";
/// Where README says a node is. The test has one elsewhere, for there may be one already.
const ADDRESS: &str = "127.0.0.1:7411";
/// Where README says the reader is.
const HOME: &str = "/home/you";

/// A command of the tour, and the lines that are shown below it.
#[derive(Debug)]
struct Step {
    command: &'static str,
    shown: Vec<&'static str>,
}

/// The commands of all blocks of the tour.
fn steps() -> Vec<Step> {
    let (_, tour) = README.split_once(TITLE).expect("there is a tour");
    let tour = tour.split("\n## ").next().expect("it has a beginning");
    let mut steps: Vec<Step> = Vec::new();
    for block in tour.split("\n```").skip(1).step_by(2) {
        let (kind, text) = block.split_once('\n').expect("a block has lines");
        assert!(matches!(kind, "console" | "rust"), "what is {kind:?}?\n{text}");
        for line in text.lines().filter(|_| kind == "console") {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step { command, shown: Vec::new() }),
                (None, Some(step)) => step.shown.push(line),
                (None, None) => panic!("the tour begins with a command, not {line:?}"),
            }
        }
    }
    steps
}

/// A line without what is another at every run: spans of time, the reader's host, keys of sessions; and
/// without the width of columns, which depends on these.
fn masked(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let words = line.split_whitespace().map(|word| {
        let bare = word.trim_end_matches([',', ':', ';']);
        let after = &word[bare.len()..];
        if is_span(bare) {
            format!("<time>{after}")
        } else if let Some((name, _)) = bare.split_once('@') {
            format!("{name}@<host>{after}")
        } else if bare.chars().all(|c| c == '═') {
            "═".to_owned()
        } else if let Some(key) = key_in(word) {
            word.replace(key, "<key>")
        } else {
            word.to_owned()
        }
    });
    " ".repeat(indent) + &words.collect::<Vec<_>>().join(" ")
}

/// Whether a word is a span of time, such as `2.0s` or `1m30s`.
fn is_span(word: &str) -> bool {
    let part = |c: char| c.is_ascii_digit() || c == '.' || "dhms".contains(c);
    let digit = |c: char| c.is_ascii_digit();
    word.starts_with(digit) && !word.ends_with(digit) && word.chars().all(part)
}

/// The key after the number of a session.
fn key_in(word: &str) -> Option<&str> {
    let mut parts = word.split(|c: char| !c.is_ascii_alphanumeric());
    parts.find(|part| part.len() == 16 && part.chars().all(|c| c.is_ascii_hexdigit()))
}

/// The tour of a user: a node, what runs in the background, and what is to be put in the place of what is shown.
struct Tourist {
    folder: TempDir,
    node: Option<(Process, String)>,
    background: Vec<Background>,
    /// Keys of sessions, as README has them and as they are.
    keys: Vec<(&'static str, String)>,
}

/// A process in the background, and how many of its lines have been shown.
struct Background {
    command: &'static str,
    process: Process,
    shown: usize,
}

impl Background {
    fn lines(&self) -> Vec<String> {
        let text = self.process.stdout() + &self.process.stderr();
        text.lines().map(str::to_owned).collect()
    }
}

impl Tourist {
    fn new() -> Self {
        let folder = TempDir::new().expect("there is room");
        Self { folder, node: None, background: Vec::new(), keys: Vec::new() }
    }

    fn address(&self) -> &str {
        self.node.as_ref().map_or("127.0.0.1:0", |(_, address)| address)
    }

    /// A line of shell, in the reader's folder.
    fn shell(&self, line: &str) -> Command {
        let port = |address: &str| address.rsplit(':').next().expect("it has a port").to_owned();
        let mut line = line.replace(
            &format!("localhost:{}", port(ADDRESS)),
            &format!("localhost:{}", port(self.address())),
        );
        for (shown, real) in &self.keys {
            line = line.replace(shown, real);
        }
        // Whatever sleeps is to do so until the tour is over, however long that takes here.
        for span in ["20", "30", "60"] {
            line = line.replace(&format!("sleep {span}"), "sleep 100000");
        }
        let own = Path::new(env!("CARGO_BIN_EXE_conclave")).parent().expect("it is in a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        // Takes the place of the program: its environment is clean.
        let clean = program(&[]);
        let mut shell = Command::new("sh");
        for (name, _) in clean.get_envs().filter(|(_, value)| value.is_none()) {
            shell.env_remove(name);
        }
        shell.args(["-c", &line]).current_dir(self.folder.path()).stdin(Stdio::null());
        shell.env("LC_ALL", "C.UTF-8").env("PATH", format!("{}:{path}", own.display()));
        shell.env(conclave_testing::MARK, self.folder.path());
        shell.env("CONCLAVE_ENDPOINTS", self.address()).env("CONCLAVE_LISTEN", "127.0.0.1:0");
        shell
    }

    fn begin(&self, line: &str) -> Process {
        Process::start(self.folder.path(), self.shell(&format!("exec {line}")))
    }

    /// What a line of shell prints, to its end.
    fn run(&self, line: &str) -> Vec<String> {
        let output = self.shell(line).output().expect("there is a shell");
        let text = crate::support::stdout(&output) + &crate::support::stderr(&output);
        text.lines().map(str::to_owned).collect()
    }

    /// Starts the node, and finds out where it is.
    fn up(&mut self, step: &Step) {
        let mut process = self.begin(step.command);
        let listens = "listens on ";
        let mut printed = eventually("a node that is up", || {
            assert!(process.is_running(), "{}", process.stderr());
            let lines: Vec<String> = process.stdout().lines().map(str::to_owned).collect();
            lines.last().is_some_and(|last| last.contains("CONCLAVE_TERM")).then_some(lines)
        });
        let first = printed[0].split_once(listens).expect("it says where it listens");
        let address = first.1.to_owned();
        // How to find it is said only of one that is not where README's is.
        printed.retain(|line| !line.contains("export CONCLAVE_ENDPOINTS="));
        let home = self.folder.path().display().to_string();
        let real: Vec<String> = printed
            .iter()
            .map(|line| line.replace(&address, ADDRESS).replace(&home, HOME))
            .collect();
        self.node = Some((process, address));
        assert_eq!(step.shown, real, "`{}` prints something else", step.command);
    }

    /// How much is held, waited for and led.
    fn busy(&self) -> u64 {
        let status = self.run("conclave status --json").concat();
        let status: Value = serde_json::from_str(&status).expect("it is JSON");
        let count = |what: &str| status[what].as_u64().expect("it is a number");
        count("holds") + count("waits") + count("elections")
    }

    /// Starts what is to run in the background, and waits until the node knows of it: the next is typed later.
    fn begin_in_background(&mut self, command: &'static str, line: &str) {
        let before = self.busy();
        let process = self.begin(line);
        self.background.push(Background { command, process, shown: 0 });
        eventually(command, || (self.busy() > before).then_some(()));
    }

    /// Takes a step, and compares what it prints with what is shown.
    fn take(&mut self, step: &Step) {
        let command = step.command;
        if command == "conclave up" {
            return self.up(step);
        }
        if let Some(line) = command.strip_suffix(" &") {
            self.begin_in_background(command, line);
            return self.compare(step, &[]);
        }
        if command.starts_with("curl ") && !has_curl() {
            conclave_testing::skipped("the tour", &format!("there is no curl for `{command}`"));
            return;
        }
        let looks = ["locks", "why", "elections", "observe", "sessions", "graph", "status"];
        let looks = looks.iter().any(|it| command.starts_with(&format!("conclave {it}")));
        let mut printed = self.run(command);
        if looks {
            // Other processes may not be ready for it yet: a user types more slowly.
            let same = |printed: &[String]| {
                let printed = printed.iter().map(|line| masked(line));
                printed.eq(step.shown.iter().map(|line| masked(line)))
            };
            let what = format!("`{command}` prints {:#?}", step.shown);
            eventually(&what, || {
                if same(&printed) {
                    return Some(());
                }
                println!("not yet what `{command}` is to print: {printed:#?}");
                printed = self.run(command);
                None
            });
        }
        self.compare(step, &printed);
    }

    /// Every shown line has to be the next one printed by the command, or by something in the background, and all of
    /// the command's have to be shown.
    fn compare(&mut self, step: &Step, printed: &[String]) {
        let mut printed_lines = printed.iter().peekable();
        for &shown in &step.shown {
            let same = |line: &str| masked(line) == masked(shown);
            if let Some(line) = printed_lines.next_if(|line| same(line)) {
                if let (Some(key), Some(real)) = (key_in(shown), key_in(line)) {
                    self.keys.push((key, real.to_owned()));
                }
                continue;
            }
            let what = format!("{shown:?} below `{}`, which prints {printed:#?},", step.command);
            eventually(&what, || {
                let mut others = self.background.iter_mut();
                let one =
                    others.find(|one| one.lines().get(one.shown).is_some_and(|line| same(line)))?;
                one.shown += 1;
                Some(())
            });
        }
        let more: Vec<&String> = printed_lines.collect();
        assert!(more.is_empty(), "`{}` also prints {more:#?}", step.command);
    }

    /// Ends what still runs; what it has printed must have been shown.
    fn end(mut self) {
        for one in &mut self.background {
            if one.process.is_running() {
                one.process.signal(Signal::SIGTERM);
            }
            one.process.status();
            let more = one.lines().split_off(one.shown);
            assert!(more.is_empty(), "`{}` also prints {more:#?}", one.command);
        }
        let (mut node, _) = self.node.expect("the tour has a node");
        node.signal(Signal::SIGTERM);
        node.ends_with(0);
        conclave_testing::end_marked(self.folder.path());
    }
}

fn has_curl() -> bool {
    Command::new("curl").arg("--version").output().is_ok()
}

#[test]
fn the_tour_of_the_lock_service_shows_what_happens() {
    let steps = steps();
    assert!(steps.len() > 10, "there is a tour: {steps:#?}");
    let mut tourist = Tourist::new();
    for step in &steps {
        tourist.take(step);
    }
    tourist.end();
}

#[test]
fn what_differs_from_run_to_run_is_masked_and_nothing_else() {
    let shown = " backup   nightly@vm (session 2)   exclusive   2   2.0s   1";
    let real = " backup   nightly@db1.example (session 2)   exclusive   2   831ms   1";
    assert_eq!(masked(shown), masked(real));
    assert_eq!(masked(shown), " backup nightly@<host> (session 2) exclusive 2 <time> 1");
    assert_eq!(masked("══════"), masked("════════"));
    assert_eq!(masked(r#"{"session":"1.e16a8640c5589f8e"}"#), r#"{"session":"1.<key>"}"#);
    for (one, other) in [
        ("token 1", "token 2"),
        ("(session 2)", "(session 3)"),
        (" a", "  a"),
        ("for 2.0s", "for 2.0"),
    ] {
        assert_ne!(masked(one), masked(other));
    }
}
