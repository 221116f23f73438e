//! Who may do what.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use conclave_api::{Code, v1};
use conclave_machine::{Command, Name, Open};
use tokio_util::sync::CancellationToken;

use crate::keys;
use crate::listen::HangUp;
use crate::tokens::Tokens;
use crate::translate::{self, LABEL, failed};

/// What somebody may do to the names that begin in some way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// Hold, wait and stand for election.
    Lock,
    /// See who does.
    Observe,
    /// Take it from them.
    Admin,
}

/// Who is known to a node.
#[derive(Debug)]
pub(crate) enum Access {
    /// Anybody who can reach it.
    Anybody,
    /// Those who have a token.
    Known(RwLock<Tokens>),
}

impl Access {
    /// Who asks, by what it shows: the value of the `authorization` header.
    pub(crate) fn caller(&self, shown: Option<&[u8]>) -> Result<Caller, v1::Failed> {
        let tokens = match self {
            Self::Anybody => return Ok(Caller::anybody()),
            Self::Known(tokens) => tokens,
        };
        let scheme = b"bearer ";
        let secret = shown.and_then(|shown| {
            let (begins, secret) = shown.split_at_checked(scheme.len())?;
            begins.eq_ignore_ascii_case(scheme).then(|| secret.trim_ascii())
        });
        let Some(secret) = secret else {
            let message = "this server asks for a token, as in: Authorization: Bearer …";
            return Err(failed(Code::Unauthenticated, message));
        };
        let tokens = tokens.read().unwrap_or_else(PoisonError::into_inner);
        match tokens.holder(secret) {
            Some(rights) => Ok(Caller { rights: Some(rights), address: Name::default() }),
            None => Err(failed(Code::Unauthenticated, "nobody is known by this token")),
        }
    }

    /// From now on these are known. Whoever is not any more, or has other rights, is let go, and may come again if
    /// it can.
    pub(crate) fn replace(&self, new: Tokens) {
        if let Self::Known(tokens) = self {
            tokens.write().unwrap_or_else(PoisonError::into_inner).replace(new);
        }
    }

    /// Lets everybody go.
    pub(crate) fn close(&self) {
        if let Self::Known(tokens) = self {
            tokens.read().unwrap_or_else(PoisonError::into_inner).revoke_all();
        }
    }
}

/// Whoever asks, and what it may do.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    rights: Option<Arc<Rights>>,
    /// Where it is; empty if that is not known.
    address: Name,
}

/// The rights of somebody who is known by a token.
#[derive(Debug)]
pub(crate) struct Rights {
    /// What it is called, for people.
    pub(crate) name: String,
    /// What the names that it may lock, observe or take begin with.
    pub(crate) lock: Vec<String>,
    pub(crate) observe: Vec<String>,
    pub(crate) admin: Vec<String>,
    /// How many sessions it may have, if fewer than others.
    pub(crate) sessions: Option<u32>,
    /// Cancelled when it has them no more.
    pub(crate) revoked: CancellationToken,
}

impl Rights {
    /// Whether somebody may do the same under the same name.
    pub(crate) fn are(&self, other: &Self) -> bool {
        let Self { name, lock, observe, admin, sessions, revoked: _ } = self;
        (name, lock, observe, admin) == (&other.name, &other.lock, &other.observe, &other.admin)
            && *sessions == other.sessions
    }
}

impl Caller {
    /// Somebody who may do everything: whoever can reach a node that asks for no token.
    pub(crate) fn anybody() -> Self {
        Self { rights: None, address: Name::default() }
    }

    /// The same, on this connection.
    #[must_use]
    pub(crate) fn on(self, connection: Option<&HangUp>) -> Self {
        let address = connection.and_then(HangUp::peer).map(|peer| peer.to_string());
        Self { address: address.unwrap_or_default().into(), ..self }
    }

    /// The command that opens a session for it, and the session's key.
    pub(crate) fn open(&self, open: &v1::Open) -> Result<(Command, u64), v1::Failed> {
        // Who may lock nothing has no use for a session, and could fill the table with them.
        if let Some(rights) = &self.rights
            && rights.lock.is_empty()
        {
            let message =
                format!("{} has no right to open sessions: it may lock nothing", rights.name);
            return Err(failed(Code::Forbidden, message));
        }
        translate::fits(&open.name, LABEL, "the name of a session")?;
        translate::fits(&open.host, LABEL, "the name of a host")?;
        let key = match open.nonce {
            0 => crate::chance().max(1),
            nonce => nonce,
        };
        let open = Open {
            name: open.name.as_str().into(),
            host: open.host.as_str().into(),
            ttl: Duration::from_millis(open.ttl_ms),
            priority: open.priority,
            key: keys::digest(key),
            opened_by: self.name().unwrap_or_default().into(),
            address: self.address.clone(),
            quota: self.rights.as_ref().and_then(|rights| rights.sessions),
        };
        Ok((Command::Open(open), key))
    }

    /// Whether it may act for sessions that were opened with the token of this name. Those that were opened while the
    /// node asked for none are anybody's who has the key.
    pub(crate) fn is(&self, opened_by: &str) -> bool {
        opened_by.is_empty() || self.name().is_none_or(|name| name == opened_by)
    }

    /// What it is called, if it is known by a token.
    pub(crate) fn name(&self) -> Option<&str> {
        self.rights.as_ref().map(|rights| rights.name.as_str())
    }

    /// Is cancelled when it has its rights no more, if it is known by a token.
    pub(crate) fn revoked(&self) -> Option<&CancellationToken> {
        self.rights.as_ref().map(|rights| &rights.revoked)
    }

    /// Whether it may do this to a name. Who may take a lock may also see it, and who may do either may
    /// observe.
    pub(crate) fn may(&self, right: Right, name: &str) -> Result<(), v1::Failed> {
        let Some(rights) = &self.rights else { return Ok(()) };
        let begins = |prefixes: &[String]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let may = match right {
            Right::Lock => begins(&rights.lock),
            Right::Observe => {
                begins(&rights.observe) || begins(&rights.lock) || begins(&rights.admin)
            }
            Right::Admin => begins(&rights.admin),
        };
        if may {
            return Ok(());
        }
        let what = match right {
            Right::Lock => "lock",
            Right::Observe => "observe",
            Right::Admin => "administer",
        };
        let message = format!("{} has no right to {what} {name:?}", rights.name);
        Err(failed(Code::Forbidden, message))
    }

    /// Whether it may see a name.
    pub(crate) fn sees(&self, name: &str) -> bool {
        self.may(Right::Observe, name).is_ok()
    }

    /// A lock as it may see it: of requests that wait for several locks, those of other names are only counted.
    pub(crate) fn hide_in_lock(&self, mut lock: v1::Lock) -> v1::Lock {
        for waiter in &mut lock.waiters {
            let all = waiter.locks.len();
            waiter.locks.retain(|name| self.sees(name));
            waiter.hidden = u32::try_from(all - waiter.locks.len()).unwrap_or(u32::MAX);
        }
        lock
    }

    /// The same for why a lock cannot be had: waits for locks of other names are only counted.
    pub(crate) fn hide_in_reasons(&self, mut reasons: v1::Reasons) -> v1::Reasons {
        reasons.lock = reasons.lock.map(|lock| self.hide_in_lock(lock));
        let all = reasons.waits.len();
        reasons.waits.retain(|edge| self.sees(&edge.lock));
        reasons.hidden = u32::try_from(all - reasons.waits.len()).unwrap_or(u32::MAX);
        for link in &mut reasons.cycle {
            if !self.sees(&link.lock) {
                link.lock.clear();
            }
        }
        reasons
    }

    /// The same for why something was not done: a deadlock may lead over locks of other names.
    pub(crate) fn hide_in_failure(&self, failed: &mut v1::Failed) {
        let mut hidden = false;
        for link in failed.cycle.iter_mut().filter(|link| !self.sees(&link.lock)) {
            link.lock.clear();
            hidden = true;
        }
        if hidden {
            "deadlock, over locks that this token may not see".clone_into(&mut failed.message);
        }
    }

    /// Whether it may do this to all names there are.
    pub(crate) fn may_all(&self, right: Right) -> Result<(), v1::Failed> {
        self.may(right, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadlock_over_locks_that_a_token_may_not_see_is_told_without_their_names() {
        let rights = Rights {
            name: "ci".to_owned(),
            lock: vec!["ci/".to_owned()],
            observe: Vec::new(),
            admin: Vec::new(),
            sessions: None,
            revoked: CancellationToken::new(),
        };
        let caller = Caller { rights: Some(Arc::new(rights)), address: Name::default() };
        let link = |lock: &str| v1::Link { lock: lock.to_owned(), ..v1::Link::default() };
        let told = |cycle: Vec<v1::Link>| {
            let message = "deadlock: by name".to_owned();
            let mut failed = v1::Failed { message, cycle, ..failed(Code::Deadlock, "") };
            caller.hide_in_failure(&mut failed);
            failed
        };
        let open = told(vec![link("ci/a"), link("ci/b")]);
        assert_eq!(open.message, "deadlock: by name");
        let hidden = told(vec![link("ci/a"), link("prod/b")]);
        assert!(!format!("{hidden:?}").contains("prod"), "{hidden:?}");
        assert_eq!((hidden.cycle.len(), hidden.cycle[0].lock.as_str()), (2, "ci/a"));
    }
}
