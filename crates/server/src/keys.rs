//! Keys of sessions: a client that knows the key may act for the session, so the log has only digests.

use conclave_machine::KeyDigest;
use sha2::{Digest, Sha256};

/// What the log has of a session's key.
pub(crate) fn digest(key: u64) -> KeyDigest {
    let mut hash = Sha256::new();
    hash.update(b"conclave session key ");
    hash.update(key.to_be_bytes());
    KeyDigest(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_digest_which_does_not_contain_it() {
        let key = 0xfeed_beef_cafe_f00d;
        assert!(digest(key).is(&digest(key)) && !digest(key).is(&digest(key + 1)));
        let digest = digest(key).0;
        assert!(digest.windows(8).all(|part| part != key.to_be_bytes()));
    }
}
