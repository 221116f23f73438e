//! The file of access tokens, with the rights of each.
//!
//! It has no secrets in it, only their digests, so it may be kept with other configuration. A secret is 32
//! random bytes; it cannot be found by trying, so the digest needs neither salt nor slowness.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::auth::Rights;

/// What the holder of a token may do: to names that begin with one of these. An empty text is the
/// beginning of every name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRights {
    /// What it may hold, wait for and stand in.
    #[serde(default)]
    pub lock: Vec<String>,
    /// What it may see, besides what it may lock or administer.
    #[serde(default)]
    pub observe: Vec<String>,
    /// What it may take from others.
    #[serde(default)]
    pub admin: Vec<String>,
    /// How many sessions it may have, if fewer than the limit for all tokens.
    #[serde(default)]
    pub sessions: Option<u32>,
}

/// A token as the file has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    sha256: String,
    #[serde(default)]
    lock: Vec<String>,
    #[serde(default)]
    observe: Vec<String>,
    #[serde(default)]
    admin: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sessions: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    token: Vec<Entry>,
}

/// Makes a token: the secret, which is not kept anywhere, and what goes into the file.
pub fn new_token(name: &str, rights: TokenRights) -> (String, String) {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    let secret = format!("conclave-{}", hex(&bytes));
    let TokenRights { lock, observe, admin, sessions } = rights;
    let sha256 = hex(&digest(secret.as_bytes()));
    let entry = Entry { name: name.to_owned(), sha256, lock, observe, admin, sessions };
    let entry = toml::to_string(&File { token: vec![entry] }).expect("it is plain text");
    (secret, entry)
}

/// The clients that are known, by the digest of the secret.
///
/// A digest is looked up, which takes longer the more of it is right. That tells something about the digest
/// of what was shown, and nothing about the secrets, since a text for a given digest cannot be found.
pub(crate) struct Tokens(BTreeMap<[u8; 32], Arc<Rights>>);

impl Tokens {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let tokens = Self::parse(&text)?;
        let about = |what: &str| tracing::warn!("{}: {what}", path.display());
        if mode_of(path) & 0o002 != 0 {
            about(
                "all can write to it, and give themselves any right; take that away with chmod o-w",
            );
        }
        if text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| tokens.is_secret(word)) {
            about("there is a secret in it, where only digests are needed; remove that line");
        }
        Ok(tokens)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| {
            // One line, and nothing of what is in the file.
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            format!("line {}: {}", before.matches('\n').count() + 1, error.message())
        })?;
        let mut all = BTreeMap::new();
        for Entry { name, sha256, lock, observe, admin, sessions } in file.token {
            let digest = unhex(&sha256).ok_or_else(|| {
                format!(
                    "the sha256 of {name:?} has to be 64 hex digits; `conclave token` makes one"
                )
            })?;
            let revoked = CancellationToken::new();
            let rights = Rights { name: name.clone(), lock, observe, admin, sessions, revoked };
            if all.insert(digest, Arc::new(rights)).is_some() {
                return Err(format!("the token of {name:?} is there twice"));
            }
        }
        if all.is_empty() {
            return Err("there is no [[token]] in it, so no client could do anything".to_owned());
        }
        Ok(Self(all))
    }

    /// Whether this is what comes after `conclave-` in a secret that is known.
    fn is_secret(&self, word: &str) -> bool {
        word.len() == 64 && self.holder(format!("conclave-{word}").as_bytes()).is_some()
    }

    /// How many are known.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Only these are known from now on. The rights of others are revoked, and so are those that were changed.
    pub(crate) fn replace(&mut self, mut new: Self) {
        for (digest, rights) in std::mem::take(&mut self.0) {
            match new.0.get_mut(&digest) {
                Some(same) if same.are(&rights) => *same = rights,
                _ => rights.revoked.cancel(),
            }
        }
        *self = new;
    }

    /// Revokes the rights of all.
    pub(crate) fn revoke_all(&self) {
        self.0.values().for_each(|rights| rights.revoked.cancel());
    }

    /// Who has this secret.
    pub(crate) fn holder(&self, secret: &[u8]) -> Option<Arc<Rights>> {
        self.0.get(&digest(secret)).cloned()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.values().map(|rights| &rights.name)).finish()
    }
}

/// Who may do what with a file; nothing, if that cannot be known.
pub(crate) fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).map_or(0, |file| file.permissions().mode())
}

fn digest(secret: &[u8]) -> [u8; 32] {
    Sha256::digest(secret).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits = text.chars().map(|digit| digit.to_digit(16)).collect::<Option<Vec<_>>>()?;
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => (high << 4 | low) as u8,
            _ => 0,
        })
        .collect();
    if digits.len() == 64 { bytes.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_token_is_known_once_it_is_in_the_file_and_its_secret_is_nowhere() {
        let rights = TokenRights { lock: vec!["ci/".into()], ..TokenRights::default() };
        let (secret, entry) = new_token("ci", rights);
        let tokens = Tokens::parse(&entry).expect("it is well-formed");
        let rights = tokens.holder(secret.as_bytes()).expect("it is known");
        assert_eq!(
            (rights.name.as_str(), rights.lock.as_slice()),
            ("ci", ["ci/".to_owned()].as_slice())
        );
        assert!(tokens.holder(b"conclave-").is_none() && tokens.holder(b"").is_none());
        assert!(!entry.contains(&secret));
        assert_eq!(format!("{tokens:?}"), "{\"ci\"}");
    }

    #[test]
    fn rights_that_are_not_in_a_new_file_are_revoked_and_others_are_not() {
        let rights = |lock: &str| TokenRights { lock: vec![lock.into()], ..TokenRights::default() };
        let [kept, changed, gone] =
            ["kept", "changed", "gone"].map(|it| new_token(it, rights("a")));
        let mut tokens =
            Tokens::parse(&format!("{}{}{}", kept.1, changed.1, gone.1)).expect("good");
        let before =
            [&kept, &changed, &gone].map(|it| tokens.holder(it.0.as_bytes()).expect("known"));
        let (added, other) = (new_token("added", rights("b")), changed.1.replace("\"a\"", "\"b\""));
        let file = format!("{}{}{}", kept.1, other, added.1);
        tokens.replace(Tokens::parse(&file).expect("good"));
        assert_eq!(before.map(|rights| rights.revoked.is_cancelled()), [false, true, true]);
        let may = |secret: &str| Some(tokens.holder(secret.as_bytes())?.lock.clone());
        assert_eq!(may(&kept.0), Some(vec!["a".to_owned()]));
        assert_eq!(may(&changed.0), Some(vec!["b".to_owned()]));
        assert_eq!((may(&gone.0), tokens.len()), (None, 3));
        assert!(may(&added.0).is_some());
        let one = tokens.holder(kept.0.as_bytes()).expect("known");
        tokens.revoke_all();
        assert!(one.revoked.is_cancelled());
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused_with_the_reason() {
        let wrong = |text: &str| Tokens::parse(text).expect_err("it is wrong");
        assert!(wrong("").contains("missing field `token`"), "{}", wrong(""));
        assert!(wrong("token = []").contains("no client could do anything"));
        let short = "[[token]]\nname = \"a\"\nsha256 = \"12\"";
        assert!(wrong(short).contains("64 hex digits"), "{}", wrong(short));
        let odd = "[[token]]\nname = \"a\"\nsha256 = \"12\"\nlocks = []";
        assert!(wrong(odd).contains("unknown field `locks`"), "{}", wrong(odd));
        let (_, entry) = new_token("a", TokenRights::default());
        assert!(wrong(&format!("{entry}{entry}")).contains("twice"));
    }
}
