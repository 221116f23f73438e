//! A process that gives back what a session holds, when the one that held it cannot wait for a node.

use std::io::{Read, Write};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use conclave_client::{Client, Credentials, Error, Options};
use nix::sys::prctl::set_name;
use nix::unistd::setsid;

use super::guard::own_program;
use super::{boottime, one_thread};

/// By which the program knows that it is to end a session.
pub(crate) const RELEASE: &str = "__release";

/// For how long it is tried at least. While its node is down, a session does not get older there.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between two attempts at most: the session is to end as soon as a node is there.
const PAUSE: Duration = Duration::from_millis(250);

/// For how long it is tried.
pub(crate) fn patience(credentials: &Credentials) -> Duration {
    PATIENCE.max(credentials.ttl() * 4)
}

/// Has another process end a session, and does not wait for it. What the session is known by goes through a pipe.
pub(crate) fn in_background(
    credentials: &Credentials,
    environment: Vec<(&'static str, String)>,
) -> std::io::Result<()> {
    let mut process = own_program(RELEASE)
        .envs(environment)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut line) = process.stdin.take() {
        line.write_all(credentials.reveal().as_bytes())?;
    }
    Ok(())
}

/// What that process does.
pub(crate) fn release() -> ExitCode {
    let _ = set_name(c"lock-release");
    // Whatever ends those who are left, by Ctrl-C or by closing the terminal, is not meant for it.
    let _ = setsid();
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    let Some(credentials) = Credentials::parse(&text).filter(|_| read.is_ok()) else {
        return ExitCode::from(2);
    };
    let (Ok(runtime), Ok(options)) = (one_thread(), Options::from_env()) else {
        return ExitCode::from(2);
    };
    let until = boottime::now() + patience(&credentials);
    match runtime.block_on(end(options, &credentials, until)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Ends a session as soon as a node is there.
async fn end(
    mut options: Options,
    credentials: &Credentials,
    until: Duration,
) -> Result<(), Error> {
    options.longest_pause = PAUSE;
    loop {
        let ended = match Client::connect(options.clone()).await {
            Ok(client) => client.end(credentials).await,
            Err(error) => Err(error),
        };
        match ended {
            Err(error) if error.may_pass() && boottime::now() < until => {
                tokio::time::sleep(PAUSE).await;
            }
            ended => return ended,
        }
    }
}
