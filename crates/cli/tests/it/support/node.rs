//! A node as a process, and others that use it.

use std::cell::Cell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use conclave_testing::{MARK, end_marked};
pub(crate) use conclave_testing::{eventually, pause};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// The program, with nothing in its environment but what tests put there.
pub(crate) fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CONCLAVE_")) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C.UTF-8").args(args).stdin(Stdio::null());
    command
}

/// What is in a file, as soon as there is a whole line.
pub(crate) fn line_in(path: &Path) -> String {
    eventually(&format!("a line in {}", path.display()), || {
        let text = fs::read_to_string(path).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    })
}

/// Whether a process is there and not merely waiting to be taken note of.
pub(crate) fn is_alive(process: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| !state.trim().starts_with(['Z', 'X']))
}

/// A process, which ends with the test. What it prints goes to files.
pub(crate) struct Process {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Process {
    /// Starts it; `folder` is for what it prints.
    pub(crate) fn start(folder: &Path, command: Command) -> Self {
        Self::start_with(folder, command, None)
    }

    /// The same; what it complains about goes elsewhere.
    pub(crate) fn start_with(
        folder: &Path,
        mut command: Command,
        complaints: Option<Stdio>,
    ) -> Self {
        thread_local!(static COUNT: Cell<u32> = const { Cell::new(0) });
        let count = COUNT.replace(COUNT.get() + 1);
        let (out, err) = (folder.join(format!("{count}.out")), folder.join(format!("{count}.err")));
        let file = |path: &Path| File::create(path).expect("it can be written");
        let complaints = complaints.unwrap_or_else(|| file(&err).into());
        let child = command.stdout(file(&out)).stderr(complaints).spawn().expect("it starts");
        Self { child, out, err }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().expect("it has a number"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it is there");
    }

    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(&self.out).expect("it prints UTF-8")
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.err).expect("it prints UTF-8")
    }

    /// A line of what it prints, as soon as there is one.
    pub(crate) fn line(&self) -> String {
        line_in(&self.out)
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it can be waited for").is_none()
    }

    /// How it ended.
    pub(crate) fn status(&mut self) -> ExitStatus {
        eventually("the end of a process", || self.child.try_wait().expect("it can be waited for"))
    }

    /// It has to end with this code.
    #[track_caller]
    pub(crate) fn ends_with(&mut self, code: i32) {
        let status = self.status();
        assert_eq!(status.code(), Some(code), "{status}\n{}\n{}", self.stdout(), self.stderr());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node.
pub(crate) struct Node {
    process: Process,
    folder: TempDir,
    /// What is set in the environment of the node and of those who use it.
    environment: Environment,
    pub(crate) address: String,
}

/// Names and values.
pub(crate) type Environment = Vec<(&'static str, PathBuf)>;

impl Node {
    /// Starts one, with more flags if need be.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::start_in(Environment::new(), flags)
    }

    /// The same, with this in its environment and in that of those who use it.
    pub(crate) fn start_in(environment: Environment, flags: &[&str]) -> Self {
        let folder = TempDir::new().expect("there is room");
        let (process, address) = up(folder.path(), &environment, "127.0.0.1:0", flags);
        Self { process, folder, environment, address }
    }

    /// Starts one that ignores SIGHUP from the beginning, as under `nohup`.
    pub(crate) fn start_with_nohup(flags: &[&str]) -> Self {
        let (folder, environment) = (TempDir::new().expect("there is room"), Environment::new());
        let program = up_program(folder.path(), &environment, "127.0.0.1:0", flags);
        let mut under = Command::new("sh");
        under.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]);
        under.arg(program.get_program()).args(program.get_args());
        under.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let (process, address) = is_up(Process::start(folder.path(), under));
        Self { process, folder, environment, address }
    }

    /// It crashes.
    pub(crate) fn crash(&mut self) {
        self.process.signal(Signal::SIGKILL);
        self.process.status();
    }

    /// It is up again, where it was.
    pub(crate) fn restart(&mut self) {
        (self.process, self.address) =
            up(self.folder.path(), &self.environment, &self.address, &[]);
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// A folder for files of the test.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program, which knows where the node is.
    pub(crate) fn program(&self, args: &[&str]) -> Command {
        let mut program = program(args);
        program.env("CONCLAVE_ENDPOINTS", &self.address).current_dir(self.folder());
        program.env(MARK, self.folder());
        program.envs(self.environment.iter().cloned());
        program
    }

    /// Starts the program.
    pub(crate) fn begin(&self, args: &[&str]) -> Process {
        Process::start(self.folder(), self.program(args))
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.program(args).output().expect("it starts")
    }

    /// Runs the program, which has to end with `code`, and returns what it prints.
    #[track_caller]
    pub(crate) fn ends_with(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let (out, err) = (super::stdout(&output), super::stderr(&output));
        assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
        out
    }

    /// Runs the program, which has to fail with `code` and one line that has `text` in it.
    #[track_caller]
    pub(crate) fn refuses(&self, code: i32, args: &[&str], text: &str) {
        let output = self.run(args);
        let err = super::stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}\n{err}");
        assert!(err.contains(text), "{args:?} should say {text:?}, and says {err:?}");
        assert_eq!(err.trim_end().lines().count(), 1, "one line: {err:?}");
    }

    /// What it prints, as JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ends_with(0, args)).expect("the output is JSON")
    }

    /// Waits until a lock is held, and returns the holder.
    pub(crate) fn holder(&self, lock: &str) -> Value {
        eventually("a holder", || {
            let reasons = self.json(&["why", lock, "--json"]);
            let holder = reasons["lock"]["holders"][0].clone();
            (!holder.is_null()).then_some(holder)
        })
    }

    /// Waits until so many wait for a lock.
    pub(crate) fn waiters(&self, lock: &str, count: usize) {
        eventually("a waiter", || {
            let reasons = self.json(&["why", lock, "--json"]);
            let waiters = reasons["lock"]["waiters"].as_array().map_or(0, Vec::len);
            (waiters == count).then_some(())
        });
    }
}

impl Drop for Node {
    /// Nothing that has used it outlives it: a process that would release what is held there, in the background, goes
    /// on trying for ten minutes after its node is gone.
    fn drop(&mut self) {
        end_marked(self.folder());
    }
}

fn up(folder: &Path, environment: &Environment, listen: &str, flags: &[&str]) -> (Process, String) {
    is_up(Process::start(folder, up_program(folder, environment, listen, flags)))
}

fn up_program(folder: &Path, environment: &Environment, listen: &str, flags: &[&str]) -> Command {
    let data = folder.join("data");
    let data = data.to_str().expect("it is UTF-8");
    let mut args = vec!["up", "--data", data, "--listen", listen, "--json"];
    args.extend(flags);
    let mut program = program(&args);
    program.envs(environment.iter().cloned());
    program
}

/// Waits until a node is up, and says where.
fn is_up(mut process: Process) -> (Process, String) {
    let up = eventually("a node that is up", || {
        let line = process.stdout();
        assert!(process.is_running() || line.ends_with('\n'), "{}", process.stderr());
        line.ends_with('\n').then_some(line)
    });
    let up: Value = serde_json::from_str(&up).expect("it prints JSON");
    (process, up["listens"].as_str().expect("it listens").to_owned())
}
