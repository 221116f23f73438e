use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use conclave_api::DEFAULT_ADDRESS;
use conclave_client::{Client, Error, Options, Secret, Tls};

use super::{Patience, ServiceError, span, spell, wait};
use crate::Failure;

/// How a node is reached, and how to print.
#[derive(Clone, Debug, clap::Args)]
pub struct ServiceArgs {
    /// Where the nodes are: host:port, several separated by commas
    #[arg(long, value_name = "ADDRESSES", env = "CONCLAVE_ENDPOINTS")]
    #[arg(default_value = DEFAULT_ADDRESS, help_heading = "Connection")]
    pub endpoints: String,
    /// For how long to try to reach one
    #[arg(long, value_name = "TIME", env = "CONCLAVE_CONNECT_TIMEOUT", value_parser = span)]
    #[arg(default_value = "5s", help_heading = "Connection")]
    pub connect_timeout: Duration,
    /// A file with the token to be let in by (or the token itself in CONCLAVE_AUTH_TOKEN)
    #[arg(long, value_name = "FILE", env = "CONCLAVE_AUTH_TOKEN_FILE")]
    #[arg(help_heading = "Connection")]
    pub auth_token_file: Option<PathBuf>,
    /// Send the token in the clear, to other machines, too: where no other can listen in
    #[arg(long, env = "CONCLAVE_INSECURE_TOKEN", help_heading = "Connection")]
    pub insecure_token: bool,
    /// The certificate authority of the nodes, in PEM: use TLS
    #[arg(long, value_name = "FILE", env = "CONCLAVE_CA", help_heading = "Connection")]
    pub ca: Option<PathBuf>,
    /// Use TLS, and trust the certificate authorities of the system (so does an address with https://)
    #[arg(long, env = "CONCLAVE_TLS", help_heading = "Connection")]
    pub tls: bool,
    /// The certificate to show to nodes, in PEM
    #[arg(long, value_name = "FILE", env = "CONCLAVE_CERT", help_heading = "Connection")]
    #[arg(requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its key, in PEM
    #[arg(long, value_name = "FILE", env = "CONCLAVE_KEY", help_heading = "Connection")]
    #[arg(requires = "cert")]
    pub key: Option<PathBuf>,
    /// The name in the nodes' certificates, if it is not their host name
    #[arg(long, value_name = "NAME", env = "CONCLAVE_SERVER_NAME", help_heading = "Connection")]
    pub server_name: Option<String>,
    /// Print JSON
    #[arg(long, env = "CONCLAVE_JSON", help_heading = "Output")]
    pub json: bool,
}

/// In which the token to be let in by may be given.
const AUTH_TOKEN: &str = "CONCLAVE_AUTH_TOKEN";
/// All variables by which a token may be given.
pub(super) const AUTH_TOKENS: [&str; 2] = [AUTH_TOKEN, "CONCLAVE_AUTH_TOKEN_FILE"];

/// Flags of `conclave locks` and `conclave elections`.
#[derive(Clone, Debug, clap::Args)]
pub struct ListArgs {
    /// Only names that begin so
    #[arg(default_value = "")]
    pub prefix: String,
    /// How a node is reached.
    #[command(flatten)]
    pub service: ServiceArgs,
}

impl ServiceArgs {
    /// Connects to a node.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        self.connect_within(&Patience::begin(None)).await
    }

    /// The same for a user with so much patience. If there is little left, one attempt has to do.
    pub(crate) async fn connect_within(&self, patience: &Patience) -> Result<Client, Failure> {
        let options = self.options_within(patience)?;
        Client::connect(options).await.map_err(|error| self.failure_within(error, patience))
    }

    /// Connects to a node and asks it something.
    pub(crate) fn ask<T>(
        &self,
        ask: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        wait(async {
            let client = self.connect().await?;
            ask(&client).await.map_err(|error| self.failure(error))
        })
    }

    fn options_within(&self, patience: &Patience) -> Result<Options, Failure> {
        let most = self.connect_timeout;
        let limit = patience.silence().map_or(most, |silence| silence.min(most));
        let options = self.options()?.connect_timeout(limit);
        Ok(if patience.is_short() { options.once() } else { options })
    }

    fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::new(&self.endpoints).connect_timeout(self.connect_timeout);
        if let Some(token) = self.token()? {
            options = options.token(token).insecure_token(self.insecure_token);
        }
        if let Some(mut tls) = self.tls()? {
            if let (Some(certificate), Some(key)) = (&self.cert, &self.key) {
                let key = String::from_utf8(read(key)?);
                let key = key.map_err(|_| Failure::Usage("--key names no PEM file".to_owned()))?;
                tls = tls.showing(read(certificate)?, key);
            }
            if let Some(name) = &self.server_name {
                tls = tls.domain(name);
            }
            options = options.tls(tls);
        }
        Ok(options)
    }

    /// Whom to trust, if it is to be in secret.
    fn tls(&self) -> Result<Option<Tls>, Failure> {
        let secret = || self.endpoints.split(',').any(|one| one.trim().starts_with("https://"));
        match &self.ca {
            Some(ca) => Ok(Some(Tls::trusting(read(ca)?))),
            None if self.tls || secret() => Ok(Some(Tls::system())),
            None if self.cert.is_some() || self.server_name.is_some() => {
                Err(Failure::Usage(
                    "--cert, --key and --server-name are for TLS; say whom to trust with --ca, or --tls for the \
                     authorities of the system"
                        .to_owned(),
                ))
            }
            None => Ok(None),
        }
    }

    /// What to be let in by.
    fn token(&self) -> Result<Option<Secret>, Failure> {
        let given = match &self.auth_token_file {
            Some(path) => {
                let token = String::from_utf8_lossy(&read(path)?).trim().to_owned();
                if token.is_empty() {
                    let path = path.display();
                    return Err(Failure::Usage(format!("{path} is empty, and should be a token")));
                }
                Some(token)
            }
            None => std::env::var(AUTH_TOKEN).ok().filter(|token| !token.is_empty()),
        };
        Ok(given.map(Secret::from))
    }

    /// What a command that is run gets to know, so that it finds the same nodes.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![("CONCLAVE_ENDPOINTS", self.endpoints.clone())];
        let files = [
            ("CONCLAVE_AUTH_TOKEN_FILE", &self.auth_token_file),
            ("CONCLAVE_CA", &self.ca),
            ("CONCLAVE_CERT", &self.cert),
            ("CONCLAVE_KEY", &self.key),
        ];
        for (name, path) in files {
            // It may have another working directory.
            let path = path.as_deref().and_then(|path| absolute(path).ok());
            all.extend(path.map(|path| (name, path.to_string_lossy().into_owned())));
        }
        all.extend(self.tls.then(|| ("CONCLAVE_TLS", "true".to_owned())));
        all.extend(self.insecure_token.then(|| ("CONCLAVE_INSECURE_TOKEN", "true".to_owned())));
        all.extend(self.server_name.clone().map(|name| ("CONCLAVE_SERVER_NAME", name)));
        all
    }

    /// By which two processes know that they would use the same node in the same way.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.environment().hash(&mut hasher);
        std::env::var_os(AUTH_TOKEN).hash(&mut hasher);
        hasher.finish()
    }

    /// What to tell a user about an error, and what to do about it.
    pub(crate) fn failure(&self, error: Error) -> Failure {
        self.failure_within(error, &Patience::begin(None))
    }

    /// The same for a user with so much patience.
    pub(crate) fn failure_within(&self, error: Error, patience: &Patience) -> Failure {
        let limit =
            patience.stated().map_or(self.connect_timeout, |it| it.min(self.connect_timeout));
        let failure = match error {
            Error::BadOptions(why) => return Failure::Usage(why),
            Error::Unreachable(why) => ServiceError::Unreachable(format!(
                "no node answers at {} within {} ({why}); is one running? start one with \
                 `conclave up`, or say where it is with --endpoints",
                self.endpoints,
                spell(limit),
            )),
            Error::Unavailable(why) => ServiceError::Unavailable(format!(
                "a node answers at {}, but cannot do that now: {why}; `conclave status` tells how it does",
                self.endpoints,
            )),
            Error::Untrusted(why) => ServiceError::Certificate(format!(
                "no secure connection to {}: {why}",
                self.endpoints
            )),
            Error::Unauthenticated(why) => ServiceError::Refused(format!(
                "not let in: {why}; show a token with --auth-token-file or {AUTH_TOKEN}"
            )),
            Error::Forbidden(why) => ServiceError::Refused(format!("not allowed: {why}")),
            Error::SessionLost(_) | Error::Lost(_) => ServiceError::Lost(error.to_string()),
            Error::Conflict(why) => ServiceError::Conflict(why),
            Error::TimedOut => ServiceError::TimedOut(error.to_string()),
            Error::Deadlock { message, .. } | Error::GiveWay { message, .. } => {
                ServiceError::Deadlock(message)
            }
            // What answers there is no node.
            Error::Refused { message, .. } if message.contains("h2 protocol error") => {
                ServiceError::Unreachable(format!(
                    "no node answers at {} in the clear ({message}); if it uses TLS, say whom to trust \
                     with --ca",
                    self.endpoints,
                ))
            }
            Error::Refused { code, message } => ServiceError::RefusedWith { code, message },
            error => ServiceError::Refused(error.to_string()),
        };
        failure.into()
    }
}

/// Why a lease could not be renewed in time.
pub(crate) fn silence(client: &Client) -> String {
    match client.last_error() {
        Some(Error::Unauthenticated(why) | Error::Forbidden(why)) => {
            format!("the node does not let this client in any more: {why}")
        }
        Some(Error::Unavailable(why)) => format!("the node could not renew it in time: {why}"),
        Some(Error::Untrusted(why)) => format!("no node could be reached in time: {why}"),
        _ => "no node has answered for too long to be sure of it".to_owned(),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::File { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        service: ServiceArgs,
    }

    #[test]
    fn a_node_that_says_nothing_is_waited_for_as_long_as_was_said_and_no_longer() {
        let second = Duration::from_secs;
        let hour = ["--connect-timeout", "1h"];
        for (limit, flags, waits, once) in [
            (Some(second(1)), &hour[..], second(1), true),
            (Some(second(60)), &hour, second(60), false),
            (Some(second(60)), &["--connect-timeout", "7s"], second(7), false),
            // At once is no time in which a node can answer.
            (Some(Duration::ZERO), &hour, second(2), true),
            // A slow node is not given up before the flag says so, where nothing else is said.
            (None, &hour, second(3600), false),
            (None, &[], second(5), false),
        ] {
            let words = ["test"].iter().chain(flags);
            let Line { service } = Line::try_parse_from(words).expect("they are flags");
            let patience = Patience::begin(limit);
            let options = service.options_within(&patience).expect("they are good");
            // What has passed since counts.
            let passed = waits.saturating_sub(options.connect_timeout);
            assert!(options.connect_timeout <= waits, "{limit:?}: {options:?}");
            assert!(passed <= patience.elapsed(), "{limit:?}: {options:?}");
            assert_eq!(options.once, once, "{limit:?}");
        }
    }
}
