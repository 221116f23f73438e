//! Who may do what.

use std::sync::{Arc, PoisonError, RwLock};

use conclave_api::{codes, v1};
use tokio_util::sync::CancellationToken;

use crate::tokens::Tokens;
use crate::translate::failed;

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
            return Err(failed(codes::UNAUTHENTICATED, message));
        };
        let tokens = tokens.read().unwrap_or_else(PoisonError::into_inner);
        match tokens.holder(secret) {
            Some(rights) => Ok(Caller(Some(rights))),
            None => Err(failed(codes::UNAUTHENTICATED, "nobody is known by this token")),
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
pub(crate) struct Caller(Option<Arc<Rights>>);

/// The rights of somebody who is known by a token.
#[derive(Debug)]
pub(crate) struct Rights {
    /// What it is called, for people.
    pub(crate) name: String,
    /// What the names that it may lock, observe or take begin with.
    pub(crate) lock: Vec<String>,
    pub(crate) observe: Vec<String>,
    pub(crate) admin: Vec<String>,
    /// Cancelled when it has them no more.
    pub(crate) revoked: CancellationToken,
}

impl Rights {
    /// Whether somebody may do the same under the same name.
    pub(crate) fn are(&self, other: &Self) -> bool {
        let Self { name, lock, observe, admin, revoked: _ } = self;
        (name, lock, observe, admin) == (&other.name, &other.lock, &other.observe, &other.admin)
    }
}

impl Caller {
    /// Somebody who may do everything: whoever can reach a node that asks for no token.
    pub(crate) fn anybody() -> Self {
        Self(None)
    }

    /// What it is called, if it is known by a token.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|rights| rights.name.as_str())
    }

    /// Is cancelled when it has its rights no more, if it is known by a token.
    pub(crate) fn revoked(&self) -> Option<&CancellationToken> {
        self.0.as_ref().map(|rights| &rights.revoked)
    }

    /// Whether it may do this to a name. Who may take a lock may also see it, and who may do either may
    /// observe.
    pub(crate) fn may(&self, right: Right, name: &str) -> Result<(), v1::Failed> {
        let Some(rights) = &self.0 else { return Ok(()) };
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
        Err(failed(codes::FORBIDDEN, message))
    }

    /// Whether it may see a name.
    pub(crate) fn sees(&self, name: &str) -> bool {
        self.may(Right::Observe, name).is_ok()
    }

    /// Whether it may do this to all names there are.
    pub(crate) fn may_all(&self, right: Right) -> Result<(), v1::Failed> {
        self.may(right, "")
    }
}
