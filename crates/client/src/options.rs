use std::fmt;
use std::time::Duration;

use conclave_api::DEFAULT_ADDRESS;
use tonic::metadata::{Ascii, MetadataValue};

use crate::Error;
use crate::endpoint::Endpoint;
use crate::time::TimeSource;

/// The addresses of the servers, and the identity of the client.
#[derive(Clone, Debug)]
pub struct Options {
    /// The servers: `host:port`, `http://host:port` or `https://host:port`.
    pub endpoints: Vec<String>,
    /// The access token. It is not sent to another machine without TLS, unless `insecure_token` is set.
    pub token: Option<Secret>,
    /// Whether the token may be sent in the clear, to other machines, too: where no other can listen in.
    pub insecure_token: bool,
    /// TLS, if the servers want it.
    pub tls: Option<Tls>,
    /// The name of the client, for people; by default the name of the program.
    pub name: String,
    /// The host that it runs on, for people; by default the name of the machine.
    pub host: String,
    /// How long it may take to reach a server, and to have an answer to what concerns no session.
    pub connect_timeout: Duration,
    /// The longest pause between two attempts to reach a server.
    pub longest_pause: Duration,
    /// What leases are counted by.
    pub time: TimeSource,
    /// Whether to give up as soon as each server has been tried once, rather than to try until `connect_timeout`.
    pub once: bool,
}

impl Options {
    /// The options of a client of these servers, separated by commas.
    pub fn new(endpoints: impl AsRef<str>) -> Self {
        let endpoints = endpoints.as_ref().split(',').map(str::trim);
        Self {
            endpoints: endpoints.filter(|one| !one.is_empty()).map(str::to_owned).collect(),
            token: None,
            insecure_token: false,
            tls: None,
            name: program(),
            host: machine(),
            connect_timeout: Duration::from_secs(5),
            longest_pause: Duration::from_secs(2),
            once: false,
            time: TimeSource::default(),
        }
    }

    /// The options that the environment gives, as it does to a program that `conclave lock` runs:
    /// `CONCLAVE_ENDPOINTS`, `CONCLAVE_AUTH_TOKEN` or `CONCLAVE_AUTH_TOKEN_FILE`, and for TLS `CONCLAVE_CA`,
    /// `CONCLAVE_CERT`, `CONCLAVE_KEY` (files in PEM) and `CONCLAVE_SERVER_NAME`, or `CONCLAVE_TLS=true` to trust the
    /// authorities of the system. `CONCLAVE_INSECURE_TOKEN=true` lets the token be sent without TLS.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_variables(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let file = |name: &str| {
            let path = variable(name)?;
            let read = std::fs::read_to_string(&path);
            Some(read.map_err(|error| Error::BadOptions(format!("{name}={path}: {error}"))))
        };
        let endpoints = variable("CONCLAVE_ENDPOINTS");
        let mut options = Self::new(endpoints.as_deref().unwrap_or(DEFAULT_ADDRESS));
        if let Some(token) = file("CONCLAVE_AUTH_TOKEN_FILE").transpose()? {
            options = options.token(token.trim());
        } else if let Some(token) = variable("CONCLAVE_AUTH_TOKEN") {
            options = options.token(token);
        }
        options.insecure_token =
            variable("CONCLAVE_INSECURE_TOKEN").is_some_and(|value| !is_no(&value));
        let secret = variable("CONCLAVE_TLS").is_some_and(|it| !is_no(&it))
            || options.endpoints.iter().any(|one| one.starts_with("https://"));
        let ca = file("CONCLAVE_CA").transpose()?;
        if let Some(mut tls) = ca.map(Tls::trusting).or_else(|| secret.then(Tls::system)) {
            let identity = (file("CONCLAVE_CERT").transpose()?, file("CONCLAVE_KEY").transpose()?);
            if let (Some(certificate), Some(key)) = identity {
                tls = tls.showing(certificate, key);
            }
            tls.domain = variable("CONCLAVE_SERVER_NAME");
            options = options.tls(tls);
        }
        Ok(options)
    }

    /// The same with a token.
    #[must_use]
    pub fn token(mut self, token: impl Into<Secret>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The same, and the token may be sent in the clear, to other machines, too.
    #[must_use]
    pub fn insecure_token(mut self, may: bool) -> Self {
        self.insecure_token = may;
        self
    }

    /// The same, over TLS.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The same under another name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The same by another clock.
    #[must_use]
    pub fn time(mut self, time: TimeSource) -> Self {
        self.time = time;
        self
    }

    /// The same, but gives up as soon as each server has been tried once.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// The same, with another timeout for connecting.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// What goes with every call.
    pub(crate) fn bearer(&self) -> Result<Option<MetadataValue<Ascii>>, Error> {
        let Some(token) = &self.token else { return Ok(None) };
        let mut value = MetadataValue::try_from(format!("Bearer {}", token.0))
            .map_err(|_| Error::BadOptions("a token is made of visible letters".to_owned()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    pub(crate) fn parse_endpoints(&self) -> Result<Vec<Endpoint>, Error> {
        if self.endpoints.is_empty() {
            return Err(Error::BadOptions("a client needs the address of a server".to_owned()));
        }
        self.endpoints.iter().map(|endpoint| Endpoint::new(endpoint, self)).collect()
    }
}

/// TLS: the authority to trust and the certificate to present, in PEM.
#[derive(Clone)]
pub struct Tls {
    /// The authority that has signed the servers' certificates; if none is given, those that the system trusts.
    pub ca: Option<Vec<u8>>,
    /// The client's own certificate and its key, if the servers want to see one.
    pub identity: Option<(Vec<u8>, Secret)>,
    /// The name in the servers' certificates, if it is not their host name.
    pub domain: Option<String>,
}

impl Tls {
    /// Trusts servers with a certificate of this authority.
    pub fn trusting(ca: impl Into<Vec<u8>>) -> Self {
        Self { ca: Some(ca.into()), identity: None, domain: None }
    }

    /// Trusts servers with a certificate of an authority that the system trusts.
    pub fn system() -> Self {
        Self { ca: None, identity: None, domain: None }
    }

    /// The same, and presents this certificate.
    #[must_use]
    pub fn showing(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Secret>) -> Self {
        self.identity = Some((certificate.into(), key.into()));
        self
    }

    /// The same with servers that call themselves so.
    #[must_use]
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = Some(domain.into());
        self
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let identity = self.identity.as_ref().map(|_| "…");
        f.debug_struct("Tls").field("identity", &identity).field("domain", &self.domain).finish()
    }
}

/// A text that is not shown in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(crate) String);

impl Secret {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<String> for Secret {
    fn from(secret: String) -> Self {
        Self(secret)
    }
}

impl From<&str> for Secret {
    fn from(secret: &str) -> Self {
        Self(secret.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Whether a variable that stands for a flag says no, in one of the usual ways.
fn is_no(value: &str) -> bool {
    ["", "0", "n", "no", "f", "false", "off"].contains(&value.to_ascii_lowercase().as_str())
}

fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(|path| path.file_name());
    name.map_or_else(|| "client".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_in_several_forms() {
        let uris = |options: Options| -> Vec<String> {
            let endpoints = options.parse_endpoints().expect("they make sense");
            endpoints.iter().map(|endpoint| endpoint.grpc.uri().to_string()).collect()
        };
        assert_eq!(
            uris(Options::new("a:1, http://b:2,[::1]:3,")),
            ["http://a:1/", "http://b:2/", "http://[::1]:3/"]
        );
        for bad in ["", ",", "a", "ftp://a:1", "a b:1", "http://a"] {
            let error = Options::new(bad).parse_endpoints().err().expect(bad);
            assert_eq!(error.code(), "bad-options", "{bad}: {error}");
        }
    }

    #[test]
    fn the_environment_may_give_the_options() {
        let options = Options::from_variables(|_| None).expect("nothing is wrong");
        assert!(options.endpoints == [DEFAULT_ADDRESS] && options.token.is_none());
        let given = |name: &str| match name {
            "CONCLAVE_ENDPOINTS" => Some("a:1,b:2".to_owned()),
            "CONCLAVE_AUTH_TOKEN" => Some("hush".to_owned()),
            _ => None,
        };
        let options = Options::from_variables(given).expect("nothing is wrong");
        assert_eq!(options.endpoints, ["a:1", "b:2"]);
        assert_eq!(options.token, Some("hush".into()));
        let secret = |value: &'static str| {
            let given = move |name: &str| (name == "CONCLAVE_TLS").then(|| value.to_owned());
            Options::from_variables(given).expect("nothing is wrong").tls.is_some()
        };
        assert!(secret("true") && secret("1") && !secret("false"));
        let missing = |name: &str| (name == "CONCLAVE_CA").then(|| "/no/such/file".to_owned());
        assert_eq!(Options::from_variables(missing).expect_err("no file").code(), "bad-options");
    }

    #[test]
    fn a_token_is_not_sent_to_another_machine_in_the_clear() {
        let with = |endpoints: &str| Options::new(endpoints).token("hush");
        for here in ["127.0.0.1:1", "[::1]:1", "localhost:1", "127.8.8.8:1", "http://localhost:1"] {
            assert!(with(here).parse_endpoints().is_ok(), "{here}");
        }
        for there in ["10.0.0.1:1", "db:1", "http://localhost.example.org:1", "127.0.0.1:1,db:1"] {
            let error = with(there).parse_endpoints().err().expect(there);
            let message = error.to_string();
            assert!(message.contains("--ca") && message.contains("in the clear"), "{message}");
            assert!(!message.contains("hush"), "{message}");
            assert!(with(there).insecure_token(true).parse_endpoints().is_ok(), "{there}");
            assert!(
                Options::new(there).parse_endpoints().is_ok(),
                "{there}: there is nothing to hide"
            );
        }
        let given = |name: &str| match name {
            "CONCLAVE_ENDPOINTS" => Some("db:1".to_owned()),
            "CONCLAVE_AUTH_TOKEN" => Some("hush".to_owned()),
            _ => None,
        };
        assert!(Options::from_variables(given).expect("it is read").parse_endpoints().is_err());
        let also = |name: &str| match name {
            "CONCLAVE_INSECURE_TOKEN" => Some("true".to_owned()),
            name => given(name),
        };
        assert!(Options::from_variables(also).expect("it is read").parse_endpoints().is_ok());
    }

    #[test]
    fn what_is_wrong_with_a_port_is_said() {
        let why = |address: &str| match Options::new(address).parse_endpoints() {
            Ok(_) => panic!("{address} makes sense"),
            Err(error) => error.to_string(),
        };
        assert!(why("localhost").contains("has no port"), "{}", why("localhost"));
        for strange in ["localhost:99999", "[::1]:65536", "localhost:0"] {
            assert!(why(strange).contains("from 1 to 65535"), "{}", why(strange));
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let tls = Tls::trusting("ca").showing("mine", "hush").domain("d");
        let options = Options::new("a:1").token("hush").tls(tls);
        assert!(!format!("{options:?}").contains("hush"));
        let bearer = options.bearer().expect("it is fine").expect("there is one");
        assert!(!format!("{bearer:?}").contains("hush"));
        assert!(Options::new("a:1").token("two\nlines").bearer().is_err());
    }
}
