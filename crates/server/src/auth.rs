//! Authentication and authorization: which caller a token belongs to, what it may do, and what it may see.

use std::sync::{Arc, PoisonError, RwLock};

use conclave_api::Code;
use conclave_machine::{Command, Edge, ElectionView, Forced, Link, LockView, Name, Open, Why};
use tokio_util::sync::CancellationToken;

use crate::answer::Failure;
use crate::keys;
use crate::listen::HangUp;
use crate::service::NewSession;
use crate::sizes::{self, LABEL};
use crate::tokens::Tokens;

/// What a caller may do to the names that begin with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// Hold locks, wait for them, and campaign in elections.
    Lock,
    /// See holders, waiters, leaders and candidates.
    Observe,
    /// Take locks and leaderships away.
    Admin,
}

/// Which callers a node admits.
#[derive(Debug)]
pub(crate) enum Access {
    /// All that can reach it, with all rights.
    Open,
    /// Those that show a token.
    Tokens(RwLock<Tokens>),
}

impl Access {
    /// The caller, by the value of its `authorization` header.
    pub(crate) fn caller(&self, shown: Option<&[u8]>) -> Result<Caller, Failure> {
        let tokens = match self {
            Self::Open => return Ok(Caller::unrestricted()),
            Self::Tokens(tokens) => tokens,
        };
        let scheme = b"bearer ";
        let secret = shown.and_then(|shown| {
            let (begins, secret) = shown.split_at_checked(scheme.len())?;
            begins.eq_ignore_ascii_case(scheme).then(|| secret.trim_ascii())
        });
        let Some(secret) = secret else {
            let message = "this server asks for a token, as in: Authorization: Bearer …";
            return Err(Failure::new(Code::Unauthenticated, message));
        };
        let tokens = tokens.read().unwrap_or_else(PoisonError::into_inner);
        match tokens.holder(secret) {
            Some(rights) => Ok(Caller { rights: Some(rights), address: Name::default() }),
            None => Err(Failure::new(Code::Unauthenticated, "this token is not known")),
        }
    }

    /// Replaces the tokens. Callers whose token is gone or has other rights are disconnected, and may connect again if
    /// their token still lets them.
    pub(crate) fn replace(&self, new: Tokens) {
        if let Self::Tokens(tokens) = self {
            tokens.write().unwrap_or_else(PoisonError::into_inner).replace(new);
        }
    }

    /// Disconnects all callers that have a token.
    pub(crate) fn close(&self) {
        if let Self::Tokens(tokens) = self {
            tokens.read().unwrap_or_else(PoisonError::into_inner).revoke_all();
        }
    }
}

/// The client that sends a request, and what it may do.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// None: all rights.
    rights: Option<Arc<Rights>>,
    /// Its network address; empty if that is not known.
    address: Name,
}

/// The rights that go with a token.
#[derive(Debug)]
pub(crate) struct Rights {
    /// The name of the token, for people.
    pub(crate) name: String,
    /// The prefixes of the names that it may lock, observe or administer.
    pub(crate) lock: Vec<String>,
    pub(crate) observe: Vec<String>,
    pub(crate) admin: Vec<String>,
    /// How many sessions it may have, if fewer than others.
    pub(crate) sessions: Option<u32>,
    /// Cancelled when the rights are revoked.
    pub(crate) revoked: CancellationToken,
}

impl Rights {
    /// Whether these are the same rights under the same name.
    pub(crate) fn are(&self, other: &Self) -> bool {
        let Self { name, lock, observe, admin, sessions, revoked: _ } = self;
        (name, lock, observe, admin) == (&other.name, &other.lock, &other.observe, &other.admin)
            && *sessions == other.sessions
    }
}

impl Caller {
    /// A caller with all rights: any client of a node that asks for no token.
    pub(crate) fn unrestricted() -> Self {
        Self { rights: None, address: Name::default() }
    }

    /// The same caller, on this connection.
    #[must_use]
    pub(crate) fn on(self, connection: Option<&HangUp>) -> Self {
        let address = connection.and_then(HangUp::peer).map(|peer| peer.to_string());
        Self { address: address.unwrap_or_default().into(), ..self }
    }

    /// The command that opens a session for it, and the session's key.
    pub(crate) fn open(&self, open: NewSession) -> Result<(Command, u64), Failure> {
        // A caller that may lock nothing has no use for sessions, and could fill the table with them.
        if let Some(rights) = &self.rights
            && rights.lock.is_empty()
        {
            let message =
                format!("{} has no right to open sessions: it may lock nothing", rights.name);
            return Err(Failure::new(Code::Forbidden, message));
        }
        sizes::text(&open.name, LABEL, "the name of a session")?;
        sizes::text(&open.host, LABEL, "the name of a host")?;
        let key = match open.nonce {
            0 => crate::random().max(1),
            nonce => nonce,
        };
        let open = Open {
            name: open.name.into(),
            host: open.host.into(),
            ttl: open.ttl,
            priority: open.priority,
            key: keys::digest(key),
            opened_by: self.name().unwrap_or_default().into(),
            address: self.address.clone(),
            quota: self.rights.as_ref().and_then(|rights| rights.sessions),
        };
        Ok((Command::Open(open), key))
    }

    /// Whether it may act for sessions that were opened with the token of this name. For a session that was opened while
    /// the node asked for no token, the key is enough.
    pub(crate) fn is(&self, opened_by: &str) -> bool {
        opened_by.is_empty() || self.name().is_none_or(|name| name == opened_by)
    }

    /// The name of its token, if it has one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.rights.as_ref().map(|rights| rights.name.as_str())
    }

    /// Is cancelled when its token is revoked, if it has one.
    pub(crate) fn revoked(&self) -> Option<&CancellationToken> {
        self.rights.as_ref().map(|rights| &rights.revoked)
    }

    /// Whether it may do this to a name. The rights to lock and to administer include the right to observe.
    pub(crate) fn may(&self, right: Right, name: &str) -> Result<(), Failure> {
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
        Err(Failure::new(Code::Forbidden, message))
    }

    /// Whether it may see a name.
    pub(crate) fn sees(&self, name: &str) -> bool {
        self.may(Right::Observe, name).is_ok()
    }

    /// A lock as it may see it: of requests that wait for several locks, those of other names are only counted.
    pub(crate) fn visible_lock(&self, mut lock: LockView) -> VisibleLock {
        let hidden = lock.waiters.iter_mut().map(|waiter| {
            let all = waiter.locks.len();
            waiter.locks.retain(|name| self.sees(name));
            count(all - waiter.locks.len())
        });
        let hidden = hidden.collect();
        VisibleLock { lock, hidden }
    }

    /// Why a lock cannot be had, as it may see it: waits for locks of other names are only counted.
    pub(crate) fn visible_why(&self, why: Why) -> VisibleWhy {
        let Why { lock, election, mut waits, cycle, forced } = why;
        let all = waits.len();
        waits.retain(|edge| self.sees(&edge.lock));
        let hidden = count(all - waits.len());
        let mut cycle = cycle.unwrap_or_default();
        for link in cycle.iter_mut().filter(|link| !self.sees(&link.lock)) {
            link.lock = Name::default();
        }
        let lock = lock.map(|lock| self.visible_lock(lock));
        VisibleWhy { lock, election, waits, hidden, cycle, forced }
    }

    /// Removes from a failure what it may not see: a deadlock may lead over locks of other names.
    pub(crate) fn hide_in_failure(&self, failure: &mut Failure) {
        let mut hidden = false;
        for wait in failure.cycle.iter_mut().filter(|wait| !self.sees(&wait.lock)) {
            wait.lock = Name::default();
            hidden = true;
        }
        if hidden {
            "deadlock, over locks that this token may not see".clone_into(&mut failure.message);
        }
    }

    /// Whether it may do this to all names there are.
    pub(crate) fn may_all(&self, right: Right) -> Result<(), Failure> {
        self.may(right, "")
    }
}

/// A lock, as a caller may see it.
pub(crate) struct VisibleLock {
    pub(crate) lock: LockView,
    /// How many locks of other names each waiter waits for besides.
    pub(crate) hidden: Vec<u32>,
}

/// Why a lock cannot be had, as a caller may see it.
#[derive(Default)]
pub(crate) struct VisibleWhy {
    pub(crate) lock: Option<VisibleLock>,
    pub(crate) election: Option<ElectionView>,
    pub(crate) waits: Vec<Edge>,
    /// How many waits for locks of other names there are.
    pub(crate) hidden: u32,
    /// The deadlock; locks of other names have no name in it.
    pub(crate) cycle: Vec<Link>,
    /// What operators took, the last first.
    pub(crate) forced: Vec<Forced>,
}

fn count(hidden: usize) -> u32 {
    u32::try_from(hidden).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use conclave_machine::{Agent, Owner, SessionId, Who};

    use super::*;
    use crate::answer::CycleWait;

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
        let wait = |lock: &str| {
            let agent = Agent { session: SessionId(1), owner: Owner(0) };
            let waiter = Who { agent, name: Name::default(), host: Name::default() };
            CycleWait { waiter, lock: lock.into(), election: false }
        };
        let told = |cycle: Vec<CycleWait>| {
            let failure = Failure::new(Code::Deadlock, "deadlock: by name");
            let mut failure = Failure { cycle, ..failure };
            caller.hide_in_failure(&mut failure);
            failure
        };
        let open = told(vec![wait("ci/a"), wait("ci/b")]);
        assert_eq!(open.message, "deadlock: by name");
        let hidden = told(vec![wait("ci/a"), wait("prod/b")]);
        assert!(!format!("{hidden:?}").contains("prod"), "{hidden:?}");
        assert_eq!((hidden.cycle.len(), &*hidden.cycle[0].lock), (2, "ci/a"));
    }
}
