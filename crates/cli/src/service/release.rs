//! A background process that ends a session when no node answers the process that had it.

use std::io::{Read, Write};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use conclave_client::{Client, Credentials, Error, Options};
use nix::sys::prctl::set_name;
use nix::unistd::setsid;

use super::connect::AUTH_TOKENS;
use super::guard::own_program;
use super::{boottime, descriptors, one_thread};

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

/// Has another process end a session, and does not wait for it. What the session is known by goes through a pipe, and so
/// does the token: the file that it was read from may be gone by then, or have been a pipe itself.
pub(crate) fn in_background(
    credentials: &Credentials,
    environment: Vec<(&'static str, String)>,
) -> std::io::Result<()> {
    let mut process = own_program(RELEASE);
    process.envs(environment);
    if credentials.token().is_some() {
        for name in AUTH_TOKENS {
            process.env_remove(name);
        }
    }
    let mut process = process
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
    // It may go on for long after the program that started it: what that had open, it is not to keep open.
    descriptors::inherited().into_iter().for_each(descriptors::close);
    let (Ok(runtime), Ok(mut options)) = (one_thread(), Options::from_env()) else {
        return ExitCode::from(2);
    };
    if let Some(token) = credentials.token() {
        options = options.token(token.clone());
    }
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
            Ok(client) => {
                // A node that falls silent now must not keep this process for longer than was said.
                let left = until.saturating_sub(boottime::now());
                let silent = || Error::Unreachable("the node has not confirmed it".to_owned());
                let ended = tokio::time::timeout(left, client.end(credentials)).await;
                ended.unwrap_or_else(|_| Err(silent()))
            }
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
