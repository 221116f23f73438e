//! The server's certificate and the authorities that it trusts: read at the start, and again when told so.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::metrics::Metrics;
use crate::tokens::mode_of;

/// With what a server shows who it is, and finds out who others are. All files are PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The server's certificate, and those that lead to one that clients know.
    pub certificate: PathBuf,
    /// The key of its certificate.
    pub key: PathBuf,
    /// If there is one, clients need a certificate that was issued by one of these.
    pub client_ca: Option<PathBuf>,
}

impl Tls {
    /// What connections are accepted with, and when the certificate ends, in seconds since 1970.
    fn read(&self) -> Result<(TlsAcceptor, Option<i64>), String> {
        let at =
            |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>, String> {
            let all = CertificateDer::pem_file_iter(path).map_err(|error| at(path, &error))?;
            let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|error| at(path, &error))?;
            if all.is_empty() {
                return Err(at(path, &"there is no certificate in it"));
            }
            Ok(all)
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let config = match &self.client_ca {
            None => config.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| at(path, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                let verifier = verifier.build().map_err(|error| at(path, &error))?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| at(&self.key, &error))?;
        if mode_of(&self.key) & 0o004 != 0 {
            tracing::warn!(
                "{}: all can read this key; take that away with chmod o-r",
                self.key.display()
            );
        }
        let chain = certificates(&self.certificate)?;
        let ends = chain.first().and_then(end_of);
        let mut config =
            config.with_single_cert(chain, key).map_err(|error| at(&self.certificate, &error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        if let Some(ends) = ends {
            warn_of_end(&self.certificate, ends);
        }
        Ok((acceptor, ends))
    }
}

/// The certificates that are in use, and the files that they are from.
#[derive(Clone)]
pub(crate) struct Certificates {
    files: Tls,
    /// With what connections are accepted, and when the certificate ends.
    current: Arc<RwLock<(TlsAcceptor, Option<i64>)>>,
}

impl Certificates {
    pub(crate) fn read(files: Tls) -> Result<Self, String> {
        let current = Arc::new(RwLock::new(files.read()?));
        Ok(Self { files, current })
    }

    /// Reads the files again, for connections that come from now on. If they cannot be used, all stays as it is.
    pub(crate) fn read_again(&self) -> Result<(), String> {
        let new = self.files.read()?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// What a connection that comes now is to use.
    pub(crate) fn current(&self) -> TlsAcceptor {
        self.current.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Shows when the certificate ends.
    pub(crate) fn measure(&self, metrics: &Metrics) {
        if let Some(ends) = self.current.read().unwrap_or_else(PoisonError::into_inner).1 {
            metrics.certificate_ends(&self.files.certificate, ends);
        }
    }
}

/// When a certificate ends, in seconds since 1970.
fn end_of(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// From so many days before the end on, a warning is due at every start.
const SOON: i64 = 14;

#[expect(clippy::disallowed_methods, reason = "a certificate is valid by the calendar")]
fn warn_of_end(path: &Path, ends: i64) {
    let now =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let days = (ends - now).div_euclid(86_400);
    let path = path.display();
    if ends <= now {
        tracing::error!(
            "{path}: this certificate has expired, and no client will accept it; issue a new one"
        );
    } else if days < SOON {
        tracing::warn!(
            "{path}: this certificate expires in {days} days; issue a new one and send SIGHUP"
        );
    }
}
