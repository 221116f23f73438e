//! Nodes that let in some clients only.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::node::{Node, Process, eventually, program};
use crate::support::{stderr, stdout};
use nix::sys::signal::Signal;
use rcgen::{CertificateParams, Issuer, KeyPair};
use tempfile::TempDir;

/// Makes an authority and what it issues, as a user would.
fn certificates(folder: &Path) {
    for args in [&["ca"][..], &["node", "node.example"], &["client", "client"]] {
        cert(folder, args);
    }
}

/// `conclave cert …`, which has to succeed.
fn cert(folder: &Path, args: &[&str]) -> String {
    let out = folder.to_str().expect("it is UTF-8");
    let output = program(&[&["cert"], args, &["--out", out]].concat()).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// Who may do what with a file.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn tokens_say_who_may_do_what() {
    let folder = TempDir::new().expect("there is room");
    let tokens = folder.path().join("tokens.toml");
    let file = tokens.to_str().expect("it is UTF-8");
    let add = |args: &[&str]| {
        let output = program(&[args, &["--add", file]].concat()).output().expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output).trim().to_owned()
    };
    let ci = add(&["token", "ci", "--lock", "ci/"]);
    let root = add(&["token", "root", "--lock", "", "--admin", ""]);
    let known = fs::read_to_string(&tokens).expect("it is written");
    assert!(!known.contains(&ci) && known.contains("sha256"), "{known}");

    let node = Node::start(&["--tokens", file]);
    node.refuses(14, &["status"], "CONCLAVE_AUTH_TOKEN");
    let as_ci = |args: &[&str]| {
        let mut program = node.program(args);
        program.env("CONCLAVE_AUTH_TOKEN", &ci).output().expect("it starts")
    };
    let locked = as_ci(&["lock", "ci/build", "--", "sh", "-c", "exit 3"]);
    assert_eq!(locked.status.code(), Some(3), "{}", stderr(&locked));
    let forbidden = as_ci(&["lock", "backup", "--", "true"]);
    assert_eq!(forbidden.status.code(), Some(14), "{}", stderr(&forbidden));
    assert!(stderr(&forbidden).contains("ci has no right to lock \"backup\""));
    let forbidden = as_ci(&["release", "ci/build", "--force", "--reason", "mine"]);
    assert_eq!(forbidden.status.code(), Some(14), "{}", stderr(&forbidden));
    // A nested command shows the same token, whichever way it was given.
    fs::write(node.file("root.secret"), format!("{root}\n")).expect("it can be written");
    let own = env!("CARGO_BIN_EXE_conclave");
    let nested =
        ["lock", "a", "--auth-token-file", "root.secret", "--", own, "lock", "b", "--", "true"];
    node.ends_with(0, &nested);
    node.refuses(5, &["status", "--auth-token-file", "nowhere"], "nowhere");
}

#[test]
fn tokens_are_read_again_when_that_is_asked_for() {
    read_tokens_again(Node::start);
}

#[test]
fn tokens_are_read_again_under_nohup_too() {
    read_tokens_again(Node::start_with_nohup);
}

fn read_tokens_again(start: fn(&[&str]) -> Node) {
    let folder = TempDir::new().expect("there is room");
    let tokens = folder.path().join("tokens.toml");
    let make = |name: &str, rights: &[&str]| {
        let args = [&["token", name, "--json"], rights].concat();
        let output = program(&args).output().expect("it starts");
        let made: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
        let text = |field: &str| made[field].as_str().expect("it is text").to_owned();
        (text("secret"), text("entry"))
    };
    let (root, root_entry) = make("root", &["--lock", "", "--admin", ""]);
    let (ci, ci_entry) = make("ci", &["--lock", "ci/"]);
    let (late, late_entry) = make("late", &["--lock", "late/"]);
    let write = |text: &str| fs::write(&tokens, text).expect("it can be written");
    write(&format!("{root_entry}{ci_entry}"));
    let mut node = start(&["--tokens", tokens.to_str().expect("it is UTF-8")]);
    let lock = |node: &Node, token: &str, lock: &str| {
        let mut program = node.program(&["lock", lock, "--try", "--", "true"]);
        let output = program.env("CONCLAVE_AUTH_TOKEN", token).output().expect("it starts");
        output.status.code()
    };
    let hold = |node: &Node, token: &str, lock: &str, ttl: &str| {
        let mut program = node.program(&["lock", lock, "--ttl", ttl]);
        program.env("CONCLAVE_AUTH_TOKEN", token);
        let holder = Process::start(node.folder(), program);
        holder.line();
        holder
    };
    assert_eq!((lock(&node, &ci, "ci/a"), lock(&node, &late, "late/a")), (Some(0), Some(14)));
    let mut kept = hold(&node, &root, "a", "60s");
    let mut cut = hold(&node, &ci, "ci/b", "10s");
    let mut said = 0;
    let mut hang_up = |node: &mut Node, text: &str| {
        said += 1;
        node.process().signal(Signal::SIGHUP);
        let line = eventually("an answer", || {
            let stderr = node.process().stderr();
            let mut answers = stderr.lines().filter(|line| line.contains("SIGHUP"));
            answers.nth(said - 1).filter(|_| stderr.ends_with('\n')).map(str::to_owned)
        });
        assert!(line.contains("SIGHUP") && line.contains(text), "{text:?} is not in {line:?}");
    };

    // A file that cannot be read changes nothing, whatever is wrong with it.
    write(&format!("{root_entry}\n[[token]]\nname = \"{late}\n"));
    hang_up(&mut node, "the tokens stay as they were");
    write("");
    hang_up(&mut node, "missing field `token`; the tokens stay as they were");
    fs::remove_file(&tokens).expect("it is there");
    hang_up(&mut node, "the tokens stay as they were");
    assert_eq!((lock(&node, &ci, "ci/a"), lock(&node, &late, "late/a")), (Some(0), Some(14)));
    assert!(kept.is_running() && cut.is_running());

    // One is new, and one is gone; clients that used that may not go on.
    write(&format!("{root_entry}{late_entry}"));
    hang_up(&mut node, "knows 2 tokens now");
    assert_eq!((lock(&node, &ci, "ci/a"), lock(&node, &late, "late/a")), (Some(14), Some(0)));
    cut.ends_with(12);
    assert!(cut.stderr().contains("does not let this client in any more"), "{}", cut.stderr());
    assert!(kept.is_running(), "{}", kept.stderr());
    let mut take = node.program(&["release", "a", "--force", "--reason", "to see who did it"]);
    let output = take.env("CONCLAVE_AUTH_TOKEN", &root).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    kept.ends_with(12);
    eventually("who did it", || {
        node.process().stderr().contains("by root: to see who did it").then_some(())
    });
    let said = node.process().stderr();
    assert!([&root, &ci, &late].iter().all(|secret| !said.contains(*secret)), "{said}");
    node.process().signal(Signal::SIGTERM);
    node.process().ends_with(0);
}

#[test]
fn with_tls_both_sides_show_who_they_are() {
    let folder = TempDir::new().expect("there is room");
    certificates(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().expect("it is UTF-8").to_owned();
    let [ca, certificate, key, mine, my_key] =
        ["ca.pem", "node.pem", "node.key", "client.pem", "client.key"].map(path);
    let node = Node::start(&["--tls-cert", &certificate, "--tls-key", &key, "--client-ca", &ca]);
    let status = ["status", "--ca", &ca, "--cert", &mine, "--key", &my_key];
    let text = node.ends_with(0, &status);
    assert!(text.contains("all is well"), "{text}");
    node.ends_with(
        4,
        &["lock", "a", "--ca", &ca, "--cert", &mine, "--key", &my_key, "--", "sh", "-c", "exit 4"],
    );
    // Who shows nothing, or speaks in the clear, is not let in.
    node.refuses(
        16,
        &["status", "--ca", &ca],
        "the node asks for a certificate; show one with --cert",
    );
    node.refuses(13, &["status", "--connect-timeout", "500ms"], "no node answers");
    node.ends_with(2, &["status", "--cert", &mine]);
}

#[test]
fn what_is_wrong_with_a_certificate_is_named() {
    let folder = TempDir::new().expect("there is room");
    certificates(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().expect("it is UTF-8").to_owned();
    let [ca, certificate, key] = ["ca.pem", "node.pem", "node.key"].map(path);
    let mut node = Node::start(&["--tls-cert", &certificate, "--tls-key", &key]);
    node.ends_with(0, &["status", "--ca", &ca]);
    node.ends_with(0, &["status", "--ca", &ca, "--server-name", "node.example"]);
    let named = ["status", "--ca", &ca, "--server-name", "other.example"];
    node.refuses(16, &named, "is for node.example, localhost, 127.0.0.1");
    let other = folder.path().join("other");
    cert(&other, &["ca"]);
    let other = other.join("ca.pem");
    let args = ["status", "--ca", other.to_str().expect("it is UTF-8")];
    node.refuses(
        16,
        &args,
        "of an authority that is not trusted here; say whom to trust with --ca",
    );
    // So it is with the authorities of the system, which has none but the other one here.
    let trusts = |trusted: &Path, args: &[&str]| {
        let mut program = node.program(args);
        let output = program.env("SSL_CERT_FILE", trusted).output().expect("it starts");
        (output.status.code(), stderr(&output))
    };
    let https = format!("https://{}", node.address);
    for args in [&["status", "--tls"][..], &["status", "--endpoints", &https]] {
        let (code, said) = trusts(&other, args);
        assert!(code == Some(16) && said.contains("not trusted"), "{code:?} {said}");
        let (code, said) = trusts(Path::new(&ca), args);
        assert_eq!(code, Some(0), "{said}");
    }

    // A certificate is read again when that is asked for; one that cannot be used changes nothing.
    let authority = fs::read_to_string(&ca).expect("it is there");
    let signing = fs::read_to_string(path("ca.key")).expect("it is there");
    let signing = KeyPair::from_pem(&signing).expect("it is a key");
    let issuer = Issuer::from_ca_cert_pem(&authority, signing).expect("it is an authority");
    let mut expired = CertificateParams::new(["127.0.0.1".to_owned()]).expect("it is a name");
    expired.not_before = rcgen::date_time_ymd(2020, 1, 1);
    expired.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let new = KeyPair::generate().expect("there are random numbers");
    let expired = expired.signed_by(&new, &issuer).expect("it can be signed").pem();
    let hang_up = |node: &mut Node, text: &str| {
        node.process().signal(Signal::SIGHUP);
        eventually("an answer", || node.process().stderr().contains(text).then_some(()));
    };
    fs::write(&certificate, expired).expect("it can be written");
    hang_up(&mut node, "the certificates stay as they were");
    node.ends_with(0, &["status", "--ca", &ca]);
    fs::write(&key, new.serialize_pem()).expect("it can be written");
    hang_up(&mut node, "new connections use the certificate as it is now");
    node.refuses(16, &["status", "--ca", &ca], "the node's certificate expired");
    // The operator is told, too, of both sides.
    let said = node.process().stderr();
    assert!(said.contains("this certificate has expired"), "{said}");
    eventually("what clients say", || {
        node.process().stderr().contains("a client could not connect over TLS").then_some(())
    });
}

#[test]
fn certificates_are_private_and_never_overwritten() {
    let folder = TempDir::new().expect("there is room");
    let out = folder.path().join("certs");
    let next = cert(&out, &["ca"]);
    assert!(next.contains("conclave cert node HOST"), "{next}");
    let next = cert(&out, &["node", "db1.example", "10.0.0.5"]);
    assert!(next.contains("conclave up --listen 0.0.0.0:7411 --tls-cert"), "{next}");
    cert(&out, &["client", "ci"]);
    for name in ["ca", "node", "ci"] {
        assert_eq!(mode(&out.join(format!("{name}.key"))), 0o600, "{name}");
    }
    assert_eq!(mode(&out), 0o700);
    let before = fs::read(out.join("ca.key")).expect("it is there");
    let folder = out.to_str().expect("it is UTF-8");
    for (args, code, text) in [
        (&["cert", "ca"][..], 5, "ca.key"),
        (&["cert", "client", "ci"], 5, "ci.key"),
        (&["cert", "client", "../ci"], 2, "names no file"),
        (&["cert", "client", "ca"], 2, "names no file"),
        (&["cert", "node", "db1:7411"], 2, "without a port"),
    ] {
        let output = program(&[args, &["--out", folder]].concat()).output().expect("it starts");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(text), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(fs::read(out.join("ca.key")).expect("it is there"), before);
    let output = program(&["cert", "node", "a", "--out", "/nowhere"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("make an authority first"), "{}", stderr(&output));
}

#[test]
fn a_node_that_others_can_reach_has_to_know_them() {
    let folder = TempDir::new().expect("there is room");
    let data = folder.path().join("data");
    let data = data.to_str().expect("it is UTF-8");
    let up = |more: &[&str]| {
        let args = [&["up", "--data", data, "--listen", "0.0.0.0:0"], more].concat();
        let output = program(&args).output().expect("it starts");
        (output.status.code(), stderr(&output))
    };
    let (code, said) = up(&[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--insecure") && said.contains("--tls-cert"), "{said}");
    let missing = folder.path().join("missing");
    let missing = missing.to_str().expect("it is UTF-8");
    let (code, said) = up(&["--tls-cert", missing, "--tls-key", missing, "--tokens", missing]);
    assert_eq!(code, Some(25), "{said}");
    let (code, said) = up(&["--insecure", "--tokens", missing]);
    assert_eq!(code, Some(25), "{said}");
}

#[test]
fn a_secret_is_never_in_a_file_that_others_can_read() {
    let folder = TempDir::new().expect("there is room");
    let path = |name: &str| folder.path().join(name);
    // Where a shell sends it.
    let redirected = path("redirected.secret");
    let file = fs::File::create(&redirected).expect("it can be written");
    fs::set_permissions(&redirected, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let mut made = program(&["token", "ci", "--lock", "ci/", "--add"]);
    let made = made.arg(path("tokens.toml")).stdout(file).status().expect("it starts");
    assert!(made.success());
    assert_eq!(mode(&redirected), 0o600);
    let secret = fs::read_to_string(&redirected).expect("it is there");
    assert!(secret.starts_with("conclave-"), "{secret}");
    // Where it is told to.
    let mut kept = program(&["token", "ci", "--lock", "ci/", "--json", "--out"]);
    let output = kept.arg(path("kept.secret")).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let secret = fs::read_to_string(path("kept.secret")).expect("it is there");
    assert!(secret.starts_with("conclave-") && !stdout(&output).contains(secret.trim()));
    assert_eq!(mode(&path("kept.secret")), 0o600);
    let output = kept.output().expect("it starts");
    assert_eq!(output.status.code(), Some(5), "it is there already: {}", stderr(&output));
    assert_eq!(fs::read_to_string(path("kept.secret")).expect("it is there"), secret);
}

#[test]
fn a_node_warns_of_files_that_others_could_read_or_write() {
    let folder = TempDir::new().expect("there is room");
    certificates(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().expect("it is UTF-8").to_owned();
    let [certificate, key, tokens] = ["node.pem", "node.key", "tokens.toml"].map(path);
    let output = program(&["token", "ci", "--lock", ""]).output().expect("it starts");
    fs::write(&tokens, stdout(&output)).expect("it can be written");
    let flags = ["--tls-cert", &certificate, "--tls-key", &key, "--tokens", &tokens];
    let open = |file: &str, mode| {
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    open(&tokens, 0o666);
    open(&key, 0o644);
    let mut node = Node::start(&flags);
    for text in [
        "tokens.toml: all can write to it",
        "tokens.toml: there is a secret",
        "node.key: all can read",
    ] {
        eventually(text, || node.process().stderr().contains(text).then_some(()));
    }
    let entry = stdout(&output)
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join("\n");
    fs::write(&tokens, entry).expect("it can be written");
    open(&tokens, 0o644);
    open(&key, 0o600);
    let mut node = Node::start(&flags);
    node.process().signal(Signal::SIGTERM);
    node.process().ends_with(0);
    assert!(!node.process().stderr().contains(" WARN "), "{}", node.process().stderr());
}

#[test]
fn a_token_needs_a_right_and_is_shown_once() {
    let output = program(&["token", "ci"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let output = program(&["token", "ci", "--observe", ""]).output().expect("it starts");
    let text = stdout(&output);
    assert!(text.contains("[[token]]") && text.contains("# conclave-"), "{text}");
    let output = program(&["token", "ci", "--lock", "a", "--json"]).output().expect("it starts");
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
    assert!(value["secret"].as_str().is_some_and(|it| it.starts_with("conclave-")), "{value}");
}
