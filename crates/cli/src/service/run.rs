//! Runs a command under a lock or a leadership, with the commands nested in it.

use std::ffi::OsString;
use std::pin::Pin;
use std::time::Duration;

use conclave_client::{Client, Loss, Session};

use super::child::{Child, ChildOptions};
use super::nested::Nest;
use super::{
    Holding, LeaseBudget, Log, ServiceArgs, ServiceError, Signals, Supervised, silence, supervise,
};

/// What a command is run with.
pub(crate) struct Run<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) environment: Vec<(&'static str, String)>,
    pub(crate) budget: LeaseBudget,
    pub(crate) service: &'a ServiceArgs,
    pub(crate) client: &'a Client,
    pub(crate) session: &'a Session,
    /// What it is run for is not held any more.
    pub(crate) lost: Pin<Box<dyn Future<Output = Loss> + Send>>,
    /// It is to be given back within so long.
    pub(crate) asked_back: Pin<Box<dyn Future<Output = Duration> + Send>>,
}

impl Run<'_> {
    /// Runs it until it has ended. If it did not end by itself, nothing that is nested in it is left either, unless a
    /// signal has ended the wait for that ([`Nest::abandoned`]).
    pub(crate) async fn run(
        self,
        signals: &mut Signals,
    ) -> Result<(Supervised, Nest), ServiceError> {
        let Run { command, mut environment, budget, service, client, session, lost, asked_back } =
            self;
        let nest = Nest::open(session, service.fingerprint()).map_err(|error| {
            ServiceError::NotExecutable(format!("cannot listen for nested commands: {error}"))
        })?;
        environment.push(nest.environment());
        let remaining = || session.remaining();
        let child_options =
            ChildOptions { credentials: session.credentials(), nest: Some(&nest), to_outer: None };
        let child = Child::spawn(command, environment, budget, child_options, remaining).await?;
        let lost = Box::pin(async { lost.await.to_string() });
        let silence = || silence(client);
        let holding = Holding { remaining: &remaining, silence: &silence, lost, asked_back };
        let outcome = supervise(child, signals, budget, holding).await;
        if !matches!(outcome, Supervised::Ended { .. }) {
            nest.kill(signals).await;
        }
        Ok((outcome, nest))
    }
}

/// Waits for nested commands that a command has left in the background, until a signal says to stop.
pub(crate) async fn wait_for_nested(nest: &Nest, signals: &mut Signals, log: &Log) {
    let told = tokio::select! {
        () = nest.wait_for_nested(log) => false,
        _ = signals.stop() => true,
    };
    if told {
        nest.kill(signals).await;
    }
}
