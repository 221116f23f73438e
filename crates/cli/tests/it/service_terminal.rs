//! Commands under a lock that use the terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::support::node::{Node, Process, eventually, line_in};
use nix::pty::openpty;

const OWN: &str = env!("CARGO_BIN_EXE_conclave");

/// A shell that runs a script as if a user typed it.
const SHELL: [&str; 3] = ["--norc", "-i", "script"];

/// A terminal, and a user who types.
struct Keyboard {
    keys: File,
    screen: Receiver<u8>,
    seen: String,
}

impl Keyboard {
    /// Starts a program on a terminal of its own.
    fn start(node: &Node, program: &str, args: &[&str]) -> (Self, Process) {
        let pty = openpty(None, None).expect("there are terminals");
        let (keys, terminal) = (File::from(pty.master), File::from(pty.slave));
        // Tests may be run where Ctrl-C is ignored.
        let mut command = Command::new("env");
        command.args(["--default-signal", "setsid", "--ctty", "--wait", program]).args(args);
        command.current_dir(node.folder());
        command.env(conclave_testing::MARK, node.folder());
        command.env("CONCLAVE_ENDPOINTS", &node.address).stdin(Stdio::from(terminal));
        let process = Process::start(node.folder(), command);
        let (tell, screen) = channel();
        let mut from = keys.try_clone().expect("there is room");
        std::thread::spawn(move || {
            let mut byte = [0];
            while matches!(from.read(&mut byte), Ok(1)) && tell.send(byte[0]).is_ok() {}
        });
        (Self { keys, screen, seen: String::new() }, process)
    }

    fn types(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).expect("it is there");
    }

    fn shows(&mut self, text: &str) {
        eventually(&format!("{text:?} on the screen"), || {
            while let Ok(byte) = self.screen.recv_timeout(Duration::from_millis(1)) {
                self.seen.push(byte.into());
            }
            self.seen.contains(text).then_some(())
        });
    }
}

#[test]
fn a_command_reads_the_terminal_and_has_it_to_itself() {
    let node = Node::start(&[]);
    let script = "read line < /dev/tty; echo \"got $line\" > got; read line; echo \"and $line\" >> got; \
                  trap 'echo interrupted >> got; exit 4' INT; echo ready > ready; \
                  while :; do sleep 0.05; done";
    let args = ["lock", "--ttl", "60s", "a", "--", "sh", "-c", script];
    let (mut keyboard, mut process) = Keyboard::start(&node, OWN, &args);
    keyboard.types("one\n");
    assert_eq!(line_in(&node.file("got")), "got one");
    keyboard.types("two\n");
    line_in(&node.file("ready"));
    // Ctrl-C goes to the command, once.
    keyboard.types("\u{3}");
    process.ends_with(4);
    let got = std::fs::read_to_string(node.file("got")).expect("it is there");
    assert_eq!(got, "got one\nand two\ninterrupted\n");
}

#[test]
fn ctrl_z_stops_both_and_the_shell_brings_both_back() {
    let node = Node::start(&[]);
    // A shell with job control, which has the terminal back when the command is stopped.
    let command = "echo $$ > pid; while read line; do echo \"got $line\" > /dev/tty; done; exit 5";
    std::fs::write(node.file("command"), command).expect("it can be written");
    let script = format!(
        "{OWN} lock --ttl 60s a -- sh command; echo back-$? > /dev/tty; \
         fg; echo done-$? > /dev/tty"
    );
    std::fs::write(node.file("script"), script).expect("it can be written");
    let (mut keyboard, mut process) = Keyboard::start(&node, "bash", &SHELL);
    line_in(&node.file("pid"));
    keyboard.types("one\n");
    keyboard.shows("got one");
    keyboard.types("\u{1a}");
    // 128 and the number of SIGTSTP.
    keyboard.shows("back-148");
    keyboard.types("two\n");
    keyboard.shows("got two");
    keyboard.types("\u{4}");
    keyboard.shows("done-5");
    process.ends_with(0);
}

#[test]
fn ctrl_c_ends_not_only_the_command_but_what_the_shell_was_doing() {
    let node = Node::start(&[]);
    // Short sleeps: a shell that is interrupted while it starts a program waits for it before it ends.
    let command = "echo >> rounds; while :; do sleep 0.05; done";
    let script = format!("while :; do {OWN} lock a -- sh -c '{command}'; done");
    std::fs::write(node.file("script"), script).expect("it can be written");
    for flags in [&SHELL[..], &SHELL[2..]] {
        let (mut keyboard, mut process) = Keyboard::start(&node, "bash", flags);
        line_in(&node.file("rounds"));
        keyboard.types("\u{3}");
        process.status();
        let rounds = std::fs::read_to_string(node.file("rounds")).expect("it is there");
        assert_eq!(rounds, "\n", "there was no second round");
        std::fs::remove_file(node.file("rounds")).expect("it is there");
    }
}

#[test]
fn ctrl_c_ends_what_waits_and_what_holds() {
    let node = Node::start(&[]);
    let (mut keyboard, mut holder) = Keyboard::start(&node, OWN, &["lock", "--ttl", "60s", "a"]);
    holder.line();
    let (mut other, mut waiter) = Keyboard::start(&node, OWN, &["lock", "a", "--", "true"]);
    node.waiters("a", 1);
    other.types("\u{3}");
    waiter.ends_with(130);
    keyboard.types("\u{3}");
    holder.ends_with(0);
    let up = ["up", "--data", "other", "--listen", "127.0.0.1:0", "--json"];
    let (mut keyboard, mut up) = Keyboard::start(&node, OWN, &up);
    up.line();
    keyboard.types("\u{3}");
    up.ends_with(0);
}
