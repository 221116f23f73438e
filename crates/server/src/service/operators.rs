//! The orders of operators. Each needs the right to administer, and a reason, which is recorded.

use std::time::Duration;

use conclave_api::Code;
use conclave_machine::{Command, Name, Origin, Reply, SessionId, Token};
use tokio::sync::oneshot;

use super::{Service, answered};
use crate::answer::{Answer, Failure};
use crate::auth::{Caller, Right};
use crate::dispatch::Target;
use crate::sizes::{self, LABEL};

/// For how long a deposed session may not stand again, unless the operator says otherwise.
const BARRED: Duration = Duration::from_mins(1);

impl Service {
    /// Takes a lock from the holder with this token, or from all holders.
    pub(crate) async fn force_release(
        &self,
        caller: &Caller,
        lock: String,
        token: Option<u64>,
        reason: String,
    ) -> Result<(), Failure> {
        caller.may(Right::Admin, &lock)?;
        sizes::lock(&lock)?;
        let (lock, token) = (lock.into(), token.map(Token));
        let reason = self::reason(reason)?;
        self.administer(caller, Command::ForceRelease { lock, token, reason }).await.map(drop)
    }

    /// Ends a session.
    pub(crate) async fn expel(
        &self,
        caller: &Caller,
        session: SessionId,
        reason: String,
    ) -> Result<(), Failure> {
        caller.may_all(Right::Admin)?;
        let reason = self::reason(reason)?;
        self.administer(caller, Command::Expel { session, reason }).await.map(drop)
    }

    /// Ends all sessions of one origin, and says how many there were. One of the three has to be given.
    pub(crate) async fn expel_all(
        &self,
        caller: &Caller,
        (opened_by, host, address): (&str, &str, &str),
        reason: String,
    ) -> Result<u64, Failure> {
        caller.may_all(Right::Admin)?;
        let origin = match (opened_by, host, address) {
            (name, "", "") if !name.is_empty() => Origin::Token(name.into()),
            ("", host, "") if !host.is_empty() => Origin::Host(host.into()),
            ("", "", address) if !address.is_empty() => Origin::Address(address.into()),
            _ => {
                let message = "whose sessions? one of `opened_by`, `host` and `address` is needed";
                return Err(Failure::new(Code::BadRequest, message));
            }
        };
        let reason = self::reason(reason)?;
        match self.administer(caller, Command::ExpelAll { origin, reason }).await?.reply {
            Reply::Expelled { sessions } => Ok(sessions),
            _ => Ok(0),
        }
    }

    /// Ends a leadership, and bars the deposed session for a time.
    pub(crate) async fn depose(
        &self,
        caller: &Caller,
        election: String,
        barred: Option<Duration>,
        at_once: bool,
        reason: String,
    ) -> Result<(), Failure> {
        caller.may(Right::Admin, &election)?;
        sizes::election(&election)?;
        let (election, reason) = (election.into(), self::reason(reason)?);
        let barred = barred.unwrap_or(BARRED);
        let depose = Command::Depose { election, reason, barred, at_once };
        self.administer(caller, depose).await.map(drop)
    }

    async fn administer(&self, caller: &Caller, command: Command) -> Answer {
        let (told, answer) = oneshot::channel();
        let target = match caller.name() {
            Some(name) => Target::Operator(name.to_owned(), told),
            None => Target::Caller(told),
        };
        self.node.submit(command, target);
        answered(answer).await
    }
}

fn reason(reason: String) -> Result<Name, Failure> {
    sizes::text(&reason, LABEL, "a reason")?;
    // Characters that separate records are blank, too.
    let blank = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    if reason.chars().all(blank) {
        return Err(Failure::new(Code::BadRequest, "a reason is needed; it is recorded"));
    }
    Ok(reason.into())
}
