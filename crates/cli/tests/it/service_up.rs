//! A node as a process: how it starts, stops and refuses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::node::{Node, Process, eventually, is_alive, program};
use crate::support::stderr;
use clap::CommandFactory;
use conclave_cli::Cli;
use conclave_client::{Client, Options, SessionOptions};
use conclave_testing::skipped;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, Uid};
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn a_node_says_where_it_is_and_what_to_try() {
    let folder = TempDir::new().expect("there is room");
    let mut command = program(&["up", "--listen", "127.0.0.1:0"]);
    command.current_dir(folder.path());
    let mut node = Process::start(folder.path(), command);
    let text = eventually("a greeting", || {
        let text = node.stdout();
        text.contains("conclave elect").then_some(text)
    });
    assert!(text.contains("listens on 127.0.0.1:"), "{text}");
    assert!(text.contains("conclave-data"), "{text}");
    assert!(
        text.contains("conclave lock backup") && text.contains("conclave why backup"),
        "{text}"
    );
    assert!(folder.path().join("conclave-data").is_dir());
    // What it says to try works as it stands.
    let export =
        text.lines().find_map(|line| line.trim().strip_prefix("export CONCLAVE_ENDPOINTS="));
    let mut status = program(&["status"]);
    status.env("CONCLAVE_ENDPOINTS", export.expect("it is not where it is by default"));
    let output = status.output().expect("it starts");
    assert!(crate::support::stdout(&output).contains("all is well"), "{}", stderr(&output));
    node.signal(Signal::SIGTERM);
    node.ends_with(0);
    assert!(node.stderr().contains("has stopped"), "{}", node.stderr());
}

/// The processes that this one has started, and what they were started with.
fn children(parent: Pid) -> Vec<(String, String)> {
    let all = fs::read_dir("/proc").expect("it is there").filter_map(Result::ok);
    let of_parent = all.filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent_of = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<i32>().ok()?;
        let arguments = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let name = entry.file_name().to_str()?.to_owned();
        (parent_of == parent.as_raw()).then_some((name, arguments.replace('\0', " ")))
    });
    of_parent.collect()
}

#[test]
fn the_processor_is_kept_awake_only_if_asked_for_and_no_longer_than_the_node_lives() {
    for flags in [&[][..], &["--frugal"]] {
        let mut node = Node::start(flags);
        assert_eq!(children(node.process().pid()), [], "it was not asked for");
        let warned = node.process().stderr().contains("--frugal has no effect");
        assert_eq!(warned, !flags.is_empty());
    }
    let mut node = Node::start(&["--spin"]);
    let helpers = children(node.process().pid());
    assert!(helpers.len() <= 1, "{helpers:?}");
    for (process, arguments) in helpers {
        assert!(arguments.trim_end().ends_with("conclave __awake"), "{arguments}");
        assert!(is_alive(&process));
        node.crash();
        eventually("its end", || (!is_alive(&process)).then_some(()));
    }
}

#[test]
fn a_node_stops_with_clients_connected_and_comes_back_with_all_they_hold() {
    let mut node = Node::start(&["--deadlocks", "wound-wait"]);
    let mut holder = node.begin(&["lock", "--ttl", "60s", "a"]);
    let token: u64 = holder.line().parse().expect("it prints the token");
    node.process().signal(Signal::SIGTERM);
    node.process().ends_with(0);
    node.restart();
    assert_eq!(node.holder("a")["token"], token);
    assert_eq!(node.json(&["status", "--json"])["deadlocks"], "wound-wait", "a policy stays");
    assert!(holder.is_running());
    holder.signal(Signal::SIGTERM);
    holder.ends_with(0);
}

/// A node cannot start with these, and says so in one line.
#[track_caller]
fn refuses(code: i32, data: &Path, listen: &str, text: &str) {
    let data = data.to_str().expect("it is UTF-8");
    let output = program(&["up", "--data", data, "--listen", listen]).output().expect("it starts");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(text) && said.trim_end().lines().count() == 1, "{said}");
    assert_eq!(crate::support::stdout(&output), "");
}

#[test]
fn what_is_in_use_is_refused() {
    let node = Node::start(&[]);
    refuses(20, &node.file("other"), &node.address, "choose another port with --listen");
    refuses(21, &node.file("data"), "127.0.0.1:0", "use another directory with --data");
    // The node did not notice.
    node.ends_with(0, &["lock", "a", "--", "true"]);
}

#[test]
fn a_directory_that_cannot_be_used_is_refused() {
    let folder = TempDir::new().expect("there is room");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("it can be written");
    refuses(22, &file.join("data"), "127.0.0.1:0", "with --data");
    let locked = folder.path().join("locked");
    fs::create_dir(&locked).expect("it can be made");
    let sealed = fs::Permissions::from_mode(0o555);
    fs::set_permissions(&locked, sealed).expect("it is ours");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut command = program(&["up", "--listen", "127.0.0.1:0", "--data"]);
    command.arg(&locked).current_dir("/");
    if Uid::effective().is_root() {
        // Who may do everything finds no directory that it may not write to.
        command.uid(65_534).gid(65_534);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let reason = "the program is where only its owner may run it";
            return skipped("a_directory_that_cannot_be_used_is_refused", reason);
        }
        Err(error) => panic!("it does not start: {error}"),
    };
    assert_eq!(output.status.code(), Some(22), "{}", stderr(&output));
    assert!(stderr(&output).contains("ermission denied"), "{}", stderr(&output));
}

/// The file of the log, what is in it, and how much of that is used: there are zeros after that.
fn log_of(node: &Node) -> (PathBuf, Vec<u8>, usize) {
    let mut files = fs::read_dir(node.file("data").join("journal")).expect("there is a log");
    let path = files.next().expect("there is a file").expect("it can be read").path();
    assert!(files.next().is_none(), "it has just been begun");
    let bytes = fs::read(&path).expect("it can be read");
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    (path, bytes, used)
}

#[test]
fn damaged_data_is_refused() {
    let mut node = Node::start(&[]);
    for _ in 0..20 {
        node.ends_with(0, &["lock", "a", "--", "true"]);
    }
    node.process().signal(Signal::SIGTERM);
    node.process().ends_with(0);
    let (path, mut bytes, used) = log_of(&node);
    bytes[used / 3] ^= 0xff;
    fs::write(&path, bytes).expect("it can be written");
    refuses(23, &node.file("data"), "127.0.0.1:0", "conclave restore");
}

#[test]
fn bad_addresses_and_policies_are_refused() {
    for (args, text) in [
        (&["up", "--listen", "here"][..], "host:port"),
        (&["up", "--deadlocks", "hope"], "wound-wait"),
        (&["up", "--snapshot-every", "0"], "0"),
    ] {
        let output = program(args).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(text), "{}", stderr(&output));
    }
}

#[test]
fn a_node_whose_disk_fails_says_so_and_is_up_again_when_it_can() {
    let mut node = Node::start(&[]);
    let mut holder = node.begin(&["lock", "--ttl", "60s", "a"]);
    let token: u64 = holder.line().parse().expect("it prints the token");
    let process = node.process().pid().to_string();
    let files_may_grow_to = |limit: &str| {
        let limit = format!("--fsize={limit}:unlimited");
        let set = Command::new("prlimit").args(["--pid", &process, &limit]).status();
        assert!(set.expect("there is prlimit").success());
    };
    // So that what it says still goes to its file, and the log is too large already.
    while log_of(&node).2 < 8000 {
        node.ends_with(0, &["lock", "b", "--", "true"]);
    }
    files_may_grow_to("4000");
    let mut asked = node.begin(&["lock", "--ttl", "60s", "b", "--", "true"]);
    eventually("the failure", || node.process().stderr().contains("has failed").then_some(()));
    files_may_grow_to("unlimited");
    eventually("the return", || node.process().stderr().contains("is up again").then_some(()));
    assert_eq!(node.holder("a")["token"], token, "nothing is lost");
    // Who asked meanwhile was told that it could not be done, or has it now.
    let code = asked.status().code();
    assert!(matches!(code, Some(0 | 13 | 17)), "{code:?}: {}", asked.stderr());
    node.ends_with(0, &["lock", "b", "--", "true"]);
    assert!(holder.is_running());
    holder.signal(Signal::SIGTERM);
    holder.ends_with(0);
}

#[test]
fn a_node_tells_its_operator_of_deadlocks_and_of_what_was_taken_by_force() {
    let mut node = Node::start(&[]);
    let runtime = tokio::runtime::Runtime::new().expect("there is room");
    let refused = runtime.block_on(async {
        let client = Client::connect(Options::new(&node.address)).await.expect("it answers");
        let open = async |name: &str| {
            let options = SessionOptions::ttl(Duration::from_mins(1)).name(name);
            client.open(options).await.expect("there is room")
        };
        let (one, two) = (open("one").await, open("two").await);
        let (_x, _y) = (one.lock("x").await.expect("free"), two.lock("y").await.expect("free"));
        // The second wait closes the cycle; the younger one is refused in any case.
        let (first, second) = tokio::join!(async { one.lock("y").await.map(drop) }, async {
            let refused = two.lock("x").await.map(drop);
            two.close().await.expect("it answers");
            refused
        },);
        first.expect("the other gave up");
        second.expect_err("one has to give up")
    });
    assert!(refused.to_string().contains("deadlock"), "{refused}");

    let holder = node.begin(&["lock", "backup", "--ttl", "60s", "--name", "nightly"]);
    let token = holder.line();
    node.ends_with(0, &["release", "backup", "--force", "--reason", "the disk\nis needed"]);
    let holder = node.begin(&["lock", "tape", "--ttl", "60s", "--name", "weekly"]);
    holder.line();
    let session = node.holder("tape")["who"]["session"].to_string();
    node.ends_with(0, &["expel", &session, "--reason", "its machine is lost"]);
    let leader = node.begin(&["elect", "web", "--ttl", "60s", "--name", "web-1", "--once"]);
    let term = leader.line();
    node.ends_with(0, &["depose", "web", "--reason", "it serves errors"]);
    // What does not happen is not told.
    node.refuses(14, &["depose", "web", "--reason", "again"], "no session holds or leads");

    let said = eventually("the last line", || {
        let said = node.process().stderr();
        let told = said.lines().any(|line| line.contains("it serves errors"));
        (told && said.ends_with('\n')).then_some(said)
    });
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(" WARN ")).collect();
    assert_eq!(lines.len(), 4, "{said}");
    // Each has the time, to the day at least, in a form that sorts.
    let is_stamped = |line: &&str| line.as_bytes()[4] == b'-' && line.as_bytes()[10] == b'T';
    assert!(lines.iter().all(is_stamped), "{said}");
    for (line, parts) in lines.iter().zip([
        vec!["deadlock: ", "one@", "waits for y", "two@", "waits for x", "; two@", "refused x"],
        vec!["backup was taken from nightly@", &format!("token {token}: the disk\\nis needed")],
        vec!["weekly@", &format!("(session {session}) was expelled: its machine is lost")],
        vec!["web-1@", &format!("was deposed as leader of web, term {term}: it serves errors")],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?} is not in {line:?}");
    }
    // They are also counted.
    let output = Command::new("curl").args(["-s", &format!("{}/metrics", node.address)]).output();
    if output.is_err() {
        skipped(
            "a_node_tells_its_operator_of_deadlocks_and_of_what_was_taken_by_force",
            "there is no curl",
        );
    }
    if let Ok(output) = output {
        let figures = crate::support::stdout(&output);
        for figure in [
            "conclave_deadlocks_total 1",
            "conclave_releases_total{cause=\"forced\"} 1",
            "conclave_sessions_ended_total{cause=\"expelled\"} 1",
        ] {
            assert!(figures.lines().any(|line| line == figure), "{figure} is not in\n{figures}");
        }
    }
    // When the log is read again after a restart, nothing of it is told again.
    node.crash();
    node.restart();
    node.ends_with(0, &["lock", "backup", "--", "true"]);
    assert!(!node.process().stderr().contains(" WARN "), "{}", node.process().stderr());
}

#[test]
fn an_expired_session_is_logged_with_what_it_held_as_json_if_so_wanted() {
    let mut node = Node::start(&["--log-format", "json"]);
    let holder = node.begin(&["lock", "backup", "--ttl", "2s", "--name", "nightly"]);
    let token: u64 = holder.line().parse().expect("it prints the token");
    let session = node.holder("backup")["who"]["session"].clone();
    holder.signal(Signal::SIGSTOP);
    let expired = eventually("its expiry", || {
        let said = node.process().stderr();
        let mut events = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.find(|event| event["event"] == "session-expired")
    });
    assert_eq!((&expired["session"], &expired["level"]), (&session, &"WARN".into()), "{expired}");
    let text = expired["message"].as_str().expect("there is text for people");
    assert!(text.starts_with("nightly@"), "{text}");
    assert!(text.contains(&format!("expired and lost backup (token {token})")), "{text}");
    assert!(expired["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{expired}");
    holder.signal(Signal::SIGCONT);
}

#[test]
fn the_service_manager_is_told_when_a_node_is_ready_lives_and_stops() {
    let folder = TempDir::new().expect("there is room");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("there is room");
    socket.set_read_timeout(Some(Duration::from_mins(2))).expect("it is a socket");
    let told = |what: &str| {
        let mut message = [0; 4096];
        loop {
            let length = socket.recv(&mut message).expect(what);
            let text = String::from_utf8_lossy(&message[..length]).into_owned();
            if text.lines().any(|line| line == what) {
                return text;
            }
        }
    };
    let mut command = program(&["up", "--listen", "127.0.0.1:0", "--data", "data"]);
    command.current_dir(folder.path()).env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let mut node = Process::start(folder.path(), command);
    assert!(told("READY=1").contains("STATUS=listens on 127.0.0.1:"));
    for _ in 0..3 {
        told("WATCHDOG=1");
    }
    // It has neither tokens nor certificates to read again, and goes on.
    node.signal(Signal::SIGHUP);
    eventually("SIGHUP is heard", || {
        node.stderr().contains("SIGHUP: there are no tokens").then_some(())
    });
    told("WATCHDOG=1");
    node.signal(Signal::SIGTERM);
    told("STOPPING=1");
    node.ends_with(0);
}

#[test]
fn the_unit_for_systemd_says_what_this_program_understands() {
    let unit = include_str!("../../../../packaging/conclave.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/"));
    let words = start.expect("it starts something").split_whitespace();
    Cli::command().try_get_matches_from(words).expect("it is a command line");
    let example = include_str!("../../../../packaging/conclave.env");
    let command = Cli::command();
    let up = command.find_subcommand("up").expect("there is one");
    let known: Vec<_> = up.get_arguments().filter_map(|arg| arg.get_env()?.to_str()).collect();
    let named = example.lines().filter_map(|line| line.strip_prefix('#')?.split_once('='));
    let named: Vec<&str> = named.map(|(name, _)| name).collect();
    assert!(named.len() > 5 && named.iter().all(|name| known.contains(name)), "{named:?}");
}

#[test]
fn systemd_accepts_the_unit() {
    let folder = TempDir::new().expect("there is room");
    let file = folder.path().join("conclave.service");
    let unit = include_str!("../../../../packaging/conclave.service");
    // As if it were installed.
    let unit = unit.replace("/usr/local/bin/conclave", env!("CARGO_BIN_EXE_conclave"));
    fs::write(&file, unit).expect("it can be written");
    let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output();
    let Ok(output) = verify else {
        skipped("systemd_accepts_the_unit", "systemd-analyze is not installed");
        return;
    };
    assert!(!stderr(&output).contains("conclave.service"), "{}", stderr(&output));
}

#[test]
fn what_is_logged_can_be_chosen() {
    let mut node = Node::start(&["--log-level", "error"]);
    node.process().signal(Signal::SIGTERM);
    node.process().ends_with(0);
    assert_eq!(node.process().stderr(), "");
    let output = program(&["up", "--log-level", "loud=very"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("module=level"), "{}", stderr(&output));
}

#[test]
fn a_node_does_not_wait_for_the_reader_of_its_log() {
    let folder = TempDir::new().expect("there is room");
    let mut command = program(&["up", "--listen", "127.0.0.1:0", "--json", "--data", "data"]);
    command.current_dir(folder.path());
    // This pipe is not read, and there is room for 64 KiB in it.
    let (_unread, says) = std::io::pipe().expect("there is room");
    let mut node = Process::start_with(folder.path(), command, Some(says.into()));
    let up: serde_json::Value = serde_json::from_str(&node.line()).expect("it is JSON");
    let address = up["listens"].as_str().expect("it listens");
    let runtime = tokio::runtime::Runtime::new().expect("there is room");
    runtime.block_on(async {
        let client = Client::connect(Options::new(address)).await.expect("it answers");
        let reason = "long ".repeat(50);
        for _ in 0..500 {
            let session = client.open(SessionOptions::default()).await.expect("there is room");
            client.expel(session.id(), &reason).await.expect("it is there");
        }
        client.status().await.expect("it answers");
    });
    node.signal(Signal::SIGTERM);
    assert_eq!(node.status().code(), Some(0));
}
