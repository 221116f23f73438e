//! The address of a server, and how a connection to it is made.

use std::fmt::Display;
use std::io;
use std::net::IpAddr;
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
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::codec::{Framed, FramedParts};
use tokio_util::either::Either;
use tonic::codegen::Service;
use tonic::transport::{ClientTlsConfig, Endpoint as GrpcEndpoint, Identity};

use crate::keepalive::SILENCE;
use crate::options::{Options, Tls};
use crate::{Error, certificate};

/// A stream of `conclave.v1` without gRPC: both sides send length-prefixed messages.
pub(crate) type MessageStream = Framed<Io, Delimited<Ask, Tell>>;

/// A connection, with TLS or without. What is sent is one buffer, which the system writes faster than a list of
/// buffers; so vectored writes are not offered.
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

/// The address of a server, and how to connect to it.
pub(crate) struct Endpoint {
    /// For unary calls.
    pub(crate) grpc: GrpcEndpoint,
    /// For the stream.
    connector: HttpConnector,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The `host` header of requests.
    host: HeaderValue,
}

/// Answers may list many locks.
pub(crate) const LONGEST_ANSWER: usize = 64 << 20;
/// Why a server refuses need not be longer.
const LONGEST_REFUSAL: usize = 64 << 10;

impl Endpoint {
    pub(crate) fn new(address: &str, options: &Options) -> Result<Self, Error> {
        let bad = |why: &str| Error::BadOptions(format!("{address}: {why}"));
        // With https:// and no authority named, the authorities of the system are trusted.
        let secret = options.tls.clone();
        let secret = secret.or_else(|| address.starts_with("https://").then(Tls::system));
        let scheme = if secret.is_some() { "https" } else { "http" };
        let uri = match address.split_once("://") {
            None => format!("{scheme}://{address}"),
            Some(("http", _)) if secret.is_some() => {
                return Err(bad("begins with http, but TLS was asked for"));
            }
            Some(("http" | "https", _)) => address.to_owned(),
            Some(_) => return Err(bad("begins with neither http nor https")),
        };
        let grpc = GrpcEndpoint::from_shared(uri).map_err(|_| bad("is no host:port"))?;
        let authority = grpc.uri().authority().map_or("", |all| all.as_str());
        let (Some(host), Some(port)) = (grpc.uri().host(), grpc.uri().port_u16()) else {
            // The parser of addresses drops a port number that is out of range.
            let written = authority.rsplit_once(':').map_or("", |(_, port)| port);
            let digits = !written.is_empty() && written.bytes().all(|byte| byte.is_ascii_digit());
            return Err(match digits {
                true => bad("there is no such port; ports are numbers from 1 to 65535"),
                false => bad("has no port; write host:port"),
            });
        };
        if port == 0 {
            return Err(bad("there is no such port; ports are numbers from 1 to 65535"));
        }
        let called =
            HeaderValue::try_from(format!("{host}:{port}")).map_err(|_| bad("is no name"))?;
        if authority.contains('@') {
            return Err(bad("has a user in it; who the client is, a token or a certificate says"));
        }
        if options.token.is_some()
            && secret.is_none()
            && !options.insecure_token
            && !is_this_machine(host)
        {
            return Err(bad(
                "a token is not sent to another machine in the clear, where others could read it; use \
                            TLS by saying whom to trust (--ca FILE, or --tls for the authorities of the system), \
                            or --insecure-token if no other can listen in",
            ));
        }
        let tls = match &secret {
            None => None,
            Some(tls) => {
                let name = tls.domain.as_deref().unwrap_or_else(|| host.trim_matches(['[', ']']));
                let name = ServerName::try_from(name.to_owned()).map_err(|_| bad("is no name"))?;
                let unusable = |error| bad(&format!("cannot use TLS: {error}"));
                let roots = roots(tls).map_err(unusable)?;
                let tonic = config_of_tonic(tls, &roots);
                let config = config(tls, roots)
                    .map_err(|error| bad(&format!("the certificate and its key: {error}")))?;
                Some((TlsConnector::from(Arc::new(config)), name, tonic))
            }
        };
        let grpc = grpc
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(SILENCE)
            .keep_alive_timeout(SILENCE)
            .keep_alive_while_idle(true);
        let (grpc, tls) = match tls {
            Some((connector, name, tonic)) => {
                let unusable = |error| bad(&format!("cannot use TLS: {}", deepest(&error)));
                (grpc.tls_config(tonic).map_err(unusable)?, Some((connector, name)))
            }
            None => (grpc, None),
        };
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(options.connect_timeout));
        Ok(Self { grpc, connector, tls, host: called })
    }

    /// Opens a stream: an HTTP/1.1 upgrade.
    pub(crate) async fn dial(&self, bearer: Option<&HeaderValue>) -> Result<MessageStream, Error> {
        let io = self.connect().await?;
        let broken = |error: hyper::Error| match error.is_parse() {
            true => self.strange(deepest(&error)),
            false => failed(&error),
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
        let mut stream =
            FramedParts::new::<Ask>(parts.io.into_inner(), Delimited::up_to(LONGEST_ANSWER));
        stream.read_buf.extend_from_slice(&parts.read_buf);
        Ok(Framed::from_parts(stream))
    }

    /// Gets a path by HTTP.
    pub(crate) async fn get(
        &self,
        path: &str,
        bearer: Option<&HeaderValue>,
    ) -> Result<Vec<u8>, Error> {
        let broken = |error: &dyn std::error::Error| Error::Unreachable(deepest(error));
        let io = self.connect().await?;
        let handshaken = handshake(TokioIo::new(io)).await;
        let (mut http, connection) = handshaken.map_err(|error| broken(&error))?;
        tokio::spawn(connection);
        let mut ask = Request::get(path).header(HOST, &self.host);
        if let Some(bearer) = bearer {
            ask = ask.header(AUTHORIZATION, bearer);
        }
        let ask = ask.body(Empty::<Bytes>::new()).expect("all of it is well-formed");
        let answer = http.send_request(ask).await.map_err(|error| broken(&error))?;
        if answer.status() != StatusCode::OK {
            return Err(self.refusal(answer).await);
        }
        let body = answer.into_body().collect().await.map_err(|error| broken(&error))?;
        Ok(body.to_bytes().into())
    }

    async fn connect(&self) -> Result<Io, Error> {
        let mut connector = self.connector.clone();
        let tcp = connector.call(self.grpc.uri().clone()).await;
        let tcp = tcp.map_err(|error| failed(&error))?.into_inner();
        Ok(Io(match &self.tls {
            None => Either::Left(tcp),
            Some((tls, name)) => {
                let tls = tls.connect(name.clone(), tcp).await;
                Either::Right(tls.map_err(|error| failed(&error))?)
            }
        }))
    }

    /// Why a server refuses.
    async fn refusal(&self, answer: Response<Incoming>) -> Error {
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST_REFUSAL).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        match serde_json::from_slice::<v1::Failed>(&body) {
            Ok(failed) if !failed.code.is_empty() => failed.into(),
            _ => self.strange(status),
        }
    }

    /// A program listens there, but does not answer as a server does.
    fn strange(&self, answers: impl Display) -> Error {
        let uri = self.grpc.uri();
        Error::Unreachable(format!("{uri} does not answer as a node does: {answers}"))
    }
}

/// Whether a host is this machine, whatever else names mean.
fn is_this_machine(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// The certificate authorities to trust.
fn roots(tls: &Tls) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let (trusted, none) = match &tls.ca {
        Some(ca) => {
            let trusted = CertificateDer::pem_slice_iter(ca).collect::<Result<Vec<_>, _>>();
            let trusted = trusted.map_err(|error| format!("the certificate authority: {error}"))?;
            (trusted, "there is no certificate in that of the authority")
        }
        None => {
            let none = "the system trusts no certificate authority; install its certificates (Debian's package \
                        is ca-certificates), or say whom to trust";
            (rustls_native_certs::load_native_certs().certs, none)
        }
    };
    // One that this program cannot read is no reason not to trust the others.
    match roots.add_parsable_certificates(trusted).0 {
        0 => Err(none.to_owned()),
        _ => Ok(roots),
    }
}

fn config(tls: &Tls, roots: RootCertStore) -> Result<ClientConfig, Box<dyn std::error::Error>> {
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

fn config_of_tonic(tls: &Tls, roots: &RootCertStore) -> ClientTlsConfig {
    let mut config = ClientTlsConfig::new().trust_anchors(roots.roots.clone());
    if let Some((certificate, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(certificate, key.bytes()));
    }
    match &tls.domain {
        Some(domain) => config.domain_name(domain),
        None => config,
    }
}

/// A connection failed.
fn failed(error: &(dyn std::error::Error + 'static)) -> Error {
    match certificate::problem(error) {
        Some(problem) => Error::Untrusted(problem),
        None => Error::Unreachable(deepest(error)),
    }
}

/// The outermost error says no more than that something went wrong.
fn deepest(mut error: &dyn std::error::Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
