//! Where a server is, and the way there.

use std::fmt::Display;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use conclave_api::v1::{self, Ask, Tell};
use conclave_api::{Delimited, PLAIN};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::handshake;
use hyper::header::{AUTHORIZATION, CONNECTION, HOST, HeaderValue, UPGRADE};
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::codec::{Framed, FramedParts};
use tokio_util::either::Either;
use tonic::codegen::Service;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::Error;
use crate::heart::SILENCE;
use crate::options::{Options, Tls};

/// A connection on which both say messages as they are.
pub(crate) type Wire = Framed<Io, Delimited<Ask, Tell>>;

/// A connection, in secret or not. What is sent is in one piece, for which the system has a shorter way than for
/// several; so it does not say that it could take several.
pub(crate) struct Io(Either<TcpStream, TlsStream<TcpStream>>);

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Where a server is.
pub(crate) struct Place {
    /// For all that is asked by itself.
    pub(crate) endpoint: Endpoint,
    /// For the stream.
    connector: HttpConnector,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// What it is called in questions.
    host: HeaderValue,
}

/// Answers may list many locks.
pub(crate) const LONGEST_ANSWER: usize = 64 << 20;
/// Why a server refuses need not be longer.
const LONGEST_REFUSAL: usize = 64 << 10;

impl Place {
    pub(crate) fn new(address: &str, options: &Options) -> Result<Self, Error> {
        let bad = |why: &str| Error::BadOptions(format!("{address}: {why}"));
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let uri = match address.split_once("://") {
            None => format!("{scheme}://{address}"),
            Some(("http", _)) if options.tls.is_some() => {
                return Err(bad("begins with http, but TLS was asked for"));
            }
            Some(("https", _)) if options.tls.is_none() => {
                return Err(bad("needs to know whom to trust; give it a certificate authority"));
            }
            Some(("http" | "https", _)) => address.to_owned(),
            Some(_) => return Err(bad("begins with neither http nor https")),
        };
        let endpoint = Endpoint::from_shared(uri).map_err(|_| bad("is no host:port"))?;
        let (Some(host), Some(port)) = (endpoint.uri().host(), endpoint.uri().port()) else {
            return Err(bad("has no port"));
        };
        let called =
            HeaderValue::try_from(format!("{host}:{port}")).map_err(|_| bad("is no name"))?;
        if endpoint.uri().authority().is_some_and(|all| all.as_str().contains('@')) {
            return Err(bad("has a user in it; who the client is, a token or a certificate says"));
        }
        let nonsense = || bad("the certificates make no sense");
        let tls = match &options.tls {
            None => None,
            Some(tls) => {
                let name = tls.domain.as_deref().unwrap_or_else(|| host.trim_matches(['[', ']']));
                let name = ServerName::try_from(name.to_owned()).map_err(|_| bad("is no name"))?;
                let config = config(tls).map_err(|_| nonsense())?;
                Some((TlsConnector::from(Arc::new(config)), name))
            }
        };
        let endpoint = endpoint
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(SILENCE)
            .keep_alive_timeout(SILENCE)
            .keep_alive_while_idle(true);
        let endpoint = match &options.tls {
            Some(tls) => endpoint.tls_config(config_of_tonic(tls)).map_err(|_| nonsense())?,
            None => endpoint,
        };
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(options.connect_timeout));
        Ok(Self { endpoint, connector, tls, host: called })
    }

    /// Asks the server to talk.
    pub(crate) async fn dial(&self, bearer: Option<&HeaderValue>) -> Result<Wire, Error> {
        let io = self.connect().await?;
        let broken = |error: hyper::Error| match untrusted(&error) {
            Some(untrusted) => untrusted,
            None if error.is_parse() => self.strange(deepest(&error)),
            None => Error::Unreachable(deepest(&error)),
        };
        let (mut http, connection) = handshake(TokioIo::new(io)).await.map_err(broken)?;
        tokio::spawn(connection.with_upgrades());
        let mut ask = Request::get("/v1/talk")
            .header(HOST, &self.host)
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, PLAIN);
        if let Some(bearer) = bearer {
            ask = ask.header(AUTHORIZATION, bearer);
        }
        let ask = ask.body(Empty::<Bytes>::new()).expect("all of it is well-formed");
        let answer = http.send_request(ask).await.map_err(broken)?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(self.refusal(answer).await);
        }
        if answer.headers().get(UPGRADE).is_none_or(|to| to != PLAIN) {
            return Err(self.strange("it goes on as something else"));
        }
        let upgraded = hyper::upgrade::on(answer).await.map_err(broken)?;
        let Ok(parts) = upgraded.downcast::<TokioIo<Io>>() else {
            unreachable!("it was made of this");
        };
        let mut wire =
            FramedParts::new::<Ask>(parts.io.into_inner(), Delimited::up_to(LONGEST_ANSWER));
        wire.read_buf.extend_from_slice(&parts.read_buf);
        Ok(Framed::from_parts(wire))
    }

    async fn connect(&self) -> Result<Io, Error> {
        let unreachable = |error: &dyn std::error::Error| Error::Unreachable(deepest(error));
        let mut connector = self.connector.clone();
        let tcp = connector.call(self.endpoint.uri().clone()).await;
        let tcp = tcp.map_err(|error| unreachable(&error))?.into_inner();
        Ok(Io(match &self.tls {
            None => Either::Left(tcp),
            Some((tls, name)) => {
                let tls = tls.connect(name.clone(), tcp).await;
                let why = |error| untrusted(&error).unwrap_or_else(|| unreachable(&error));
                Either::Right(tls.map_err(why)?)
            }
        }))
    }

    /// Why a server does not talk.
    async fn refusal(&self, answer: Response<Incoming>) -> Error {
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST_REFUSAL).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        match serde_json::from_slice::<v1::Failed>(&body) {
            Ok(failed) if !failed.code.is_empty() => failed.into(),
            _ => self.strange(status),
        }
    }

    /// Somebody listens there, but does not answer as a server does.
    fn strange(&self, answers: impl Display) -> Error {
        let uri = self.endpoint.uri();
        Error::Unreachable(format!("{uri} does not answer as a node does: {answers}"))
    }
}

fn config(tls: &Tls) -> Result<ClientConfig, Box<dyn std::error::Error>> {
    let mut roots = RootCertStore::empty();
    let trusted: Vec<_> = CertificateDer::pem_slice_iter(&tls.ca).collect::<Result<_, _>>()?;
    // One that this program cannot read is no reason not to trust the others.
    if roots.add_parsable_certificates(trusted).0 == 0 {
        return Err("there is no certificate".into());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match &tls.identity {
        None => config.with_no_client_auth(),
        Some((certificates, key)) => {
            let certificates =
                CertificateDer::pem_slice_iter(certificates).collect::<Result<_, _>>()?;
            config
                .with_client_auth_cert(certificates, PrivateKeyDer::from_pem_slice(key.bytes())?)?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn config_of_tonic(tls: &Tls) -> ClientTlsConfig {
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca));
    if let Some((certificate, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(certificate, key.bytes()));
    }
    match &tls.domain {
        Some(domain) => config.domain_name(domain),
        None => config,
    }
}

/// Whether one of the two does not trust the other's certificate.
fn untrusted(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    let tls = causes.find_map(|error| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        inner.or_else(|| error.downcast_ref())
    })?;
    match tls {
        rustls::Error::InvalidCertificate(why) => {
            Some(Error::Untrusted(format!("the certificate of the server is not trusted: {why}")))
        }
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied),
        ) => Some(Error::Untrusted(format!(
            "the server does not trust this client's certificate: {alert:?}"
        ))),
        _ => None,
    }
}

/// The outermost error says no more than that something went wrong.
fn deepest(mut error: &dyn std::error::Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
