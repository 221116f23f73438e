//! How long the texts of a request may be. The machine counts bytes, and allows for the longest characters; these bounds
//! are in characters, so that a description of the interface can state them.

use conclave_api::Code;
use conclave_machine::Call;

use crate::answer::Failure;

/// How many characters the name of a lock or an election may have.
pub(crate) const NAME: usize = 512;
/// How many the name of a session, its host, and a reason may have.
pub(crate) const LABEL: usize = 256;
/// How many the value that a leader proclaims may have, if it is text; otherwise how many bytes.
pub(crate) const VALUE: usize = 4096;

/// Checks all texts of a call. The machine keeps a call with its answer, so none may have longer ones.
pub(crate) fn check(call: &Call) -> Result<(), Failure> {
    match call {
        Call::Acquire(acquire) => acquire.wants.iter().try_for_each(|want| lock(&want.lock)),
        Call::Release { lock, .. } | Call::Upgrade { lock, .. } | Call::Downgrade { lock, .. } => {
            self::lock(lock)
        }
        Call::Campaign(campaign) => {
            election(&campaign.election)?;
            value(&campaign.value)
        }
        Call::Proclaim { election, value, .. } => {
            self::election(election)?;
            self::value(value)
        }
        Call::Resign { election, .. } => self::election(election),
        Call::ReleaseAll { .. } | Call::Cancel { .. } => Ok(()),
    }
}

/// Checks the name of a lock.
pub(crate) fn lock(name: &str) -> Result<(), Failure> {
    text(name, NAME, "the name of a lock")
}

/// Checks the name of an election.
pub(crate) fn election(name: &str) -> Result<(), Failure> {
    text(name, NAME, "the name of an election")
}

/// Checks that a text has at most so many characters.
pub(crate) fn text(text: &str, most: usize, what: &str) -> Result<(), Failure> {
    // No text has more characters than bytes.
    if text.len() <= most || text.chars().count() <= most {
        return Ok(());
    }
    Err(Failure::new(Code::TooLarge, format!("{what} may have at most {most} characters")))
}

fn value(value: &[u8]) -> Result<(), Failure> {
    let length = match std::str::from_utf8(value) {
        Ok(text) => text.chars().count(),
        Err(_) => value.len(),
    };
    if length <= VALUE {
        return Ok(());
    }
    let message = format!("a value may have at most {VALUE} characters, or bytes if it is no text");
    Err(Failure::new(Code::TooLarge, message))
}
