//! Who is let in, and what each may do.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Answer, exchange, options, request, send, until};
use conclave_api::v1;
use conclave_server::{Bounds, ServeError, ServeOptions, Server, Tls, TokenRights, new_token};
use conclave_testing::in_time;
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use v1::conclave_client::ConclaveClient;

/// An authority, and what it has issued.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: PathBuf,
}

impl Authority {
    fn new(directory: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("well-formed");
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"));
        let authority = Self { issuer: issuer.expect("signed"), directory: directory.join(name) };
        fs::create_dir(&authority.directory).expect("a directory");
        fs::write(authority.directory.join("ca.pem"), authority.issuer.pem()).expect("written");
        authority
    }

    fn ca(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// A certificate and its key.
    fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([name.to_owned()]).expect("well-formed");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let at = |kind: &str| self.directory.join(format!("{name}.{kind}.pem"));
        fs::write(at("cert"), certificate.pem()).expect("written");
        fs::write(at("key"), key.serialize_pem()).expect("written");
        (at("cert"), at("key"))
    }
}

async fn secure(directory: &Path, authority: &Authority, clients: Option<&Authority>) -> Server {
    let (certificate, key) = authority.issue("localhost");
    let tls = Tls { certificate, key, client_ca: clients.map(Authority::ca) };
    let options = ServeOptions { tls: Some(tls), ..options(directory) };
    Server::start(options).await.expect("it starts")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("it is there")
}

/// A channel that trusts an authority, and shows a certificate if it has one.
async fn channel(
    server: &Server,
    trusted: &Authority,
    shown: Option<(PathBuf, PathBuf)>,
) -> Result<Channel, tonic::transport::Error> {
    let mut tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(text(&trusted.ca())))
        .domain_name("localhost");
    if let Some((certificate, key)) = shown {
        tls = tls.identity(Identity::from_pem(text(&certificate), text(&key)));
    }
    let endpoint =
        Endpoint::from_shared(format!("https://{}", server.address())).expect("an address");
    endpoint.tls_config(tls)?.connect().await
}

/// A connection over TLS, for HTTP/1; nothing if that cannot be had.
async fn connect_with_tls(
    server: &Server,
    trusted: &Authority,
    shown: Option<(PathBuf, PathBuf)>,
) -> Option<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted.ca()).expect("a certificate")).expect("added");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let mut config = match shown {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_file(certificate).expect("a certificate")];
            let key = PrivateKeyDer::from_pem_file(key).expect("a key");
            config.with_client_auth_cert(chain, key).expect("they belong together")
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let tcp = TcpStream::connect(server.address()).await.expect("it listens");
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await.ok()
}

/// Asks over HTTP/1 and TLS; nothing if that cannot be had.
async fn get_with_tls(
    server: &Server,
    trusted: &Authority,
    shown: Option<(PathBuf, PathBuf)>,
) -> Option<Answer> {
    let io = connect_with_tls(server, trusted, shown).await?;
    let answer = exchange(io, request("GET", "/v1/status", "", "").as_bytes()).await;
    (answer.status != 0).then_some(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_says_nothing_over_tls_is_closed_before_and_after_the_handshake() {
    let directory = tempfile::tempdir().expect("a directory");
    let ours = Authority::new(directory.path(), "ours");
    let (certificate, key) = ours.issue("localhost");
    let tls = Some(Tls { certificate, key, client_ca: None });
    let patience = Duration::from_millis(500);
    let bounds = Bounds { patience, silence: Duration::from_secs(600), ..Bounds::default() };
    let options = ServeOptions { tls, bounds, ..options(directory.path()) };
    let server = Server::start(options).await.expect("it starts");
    let ended = async |io: &mut (dyn AsyncRead + Unpin + Send)| {
        let mut told = Vec::new();
        drop(in_time("the end of the connection", io.read_to_end(&mut told)).await);
    };
    ended(&mut TcpStream::connect(server.address()).await.expect("it listens")).await;
    let mut half = TcpStream::connect(server.address()).await.expect("it listens");
    half.write_all(b"\x16\x03\x01\x02\x00\x01").await.expect("it listens");
    ended(&mut half).await;
    // On a slow machine the handshake itself may take longer than that.
    if let Some(mut io) = connect_with_tls(&server, &ours, None).await {
        ended(&mut io).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_read_again_for_new_connections_and_kept_if_they_cannot_be_used() {
    let directory = tempfile::tempdir().expect("a directory");
    let ours = Authority::new(directory.path(), "ours");
    let other = Authority::new(directory.path(), "other");
    let server = secure(directory.path(), &ours, None).await;
    let before = channel(&server, &ours, None).await.expect("it is trusted");
    let mut before = ConclaveClient::new(before);
    before.status(v1::ShowStatus {}).await.expect("it answers");
    // What cannot be used changes nothing: a certificate without its key.
    let (certificate, key) = other.issue("localhost");
    let [shown, kept] =
        ["cert", "key"].map(|kind| ours.directory.join(format!("localhost.{kind}.pem")));
    fs::copy(certificate, &shown).expect("written");
    let error = server.read_certificates_again().expect_err("they do not belong together");
    assert!(matches!(error, ServeError::Tls(_)), "{error}");
    assert!(get_with_tls(&server, &ours, None).await.is_some());
    fs::copy(key, &kept).expect("written");
    assert!(server.read_certificates_again().expect("they belong together"));
    assert!(get_with_tls(&server, &ours, None).await.is_none());
    assert!(get_with_tls(&server, &other, None).await.is_some());
    before.status(v1::ShowStatus {}).await.expect("who was there stays");
    server.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_certificate_it_answers_over_tls_only_and_only_to_those_who_trust_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let ours = Authority::new(directory.path(), "ours");
    let other = Authority::new(directory.path(), "other");
    let server = secure(directory.path(), &ours, None).await;
    let mut client =
        ConclaveClient::new(channel(&server, &ours, None).await.expect("it is trusted"));
    client.status(v1::ShowStatus {}).await.expect("it answers");
    let answer = get_with_tls(&server, &ours, None).await.expect("it is trusted");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(channel(&server, &other, None).await.is_err());
    assert!(get_with_tls(&server, &other, None).await.is_none());
    let clear = send(&server, request("GET", "/v1/status", "", "").as_bytes()).await;
    assert_eq!(clear.status, 0, "nothing is answered in the clear");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_an_authority_for_clients_only_those_who_have_its_certificate_come_in() {
    let directory = tempfile::tempdir().expect("a directory");
    let ours = Authority::new(directory.path(), "ours");
    let clients = Authority::new(directory.path(), "clients");
    let server = secure(directory.path(), &ours, Some(&clients)).await;
    let mine = clients.issue("client");
    let shown = channel(&server, &ours, Some(mine.clone())).await.expect("it is let in");
    ConclaveClient::new(shown).status(v1::ShowStatus {}).await.expect("it answers");
    let answer = get_with_tls(&server, &ours, Some(mine)).await.expect("it is let in");
    assert_eq!(answer.status, 200, "{answer:?}");
    for shown in [None, Some(ours.issue("stranger"))] {
        assert!(get_with_tls(&server, &ours, shown.clone()).await.is_none());
        // A client may take itself to be in until it asks for something.
        if let Ok(channel) = channel(&server, &ours, shown).await {
            let asked = ConclaveClient::new(channel).status(v1::ShowStatus {}).await;
            asked.expect_err("it is not known");
        }
    }
}

/// A server that knows three tokens: one for a prefix, one that sees everything, one that does.
async fn with_tokens(directory: &Path) -> (Server, [String; 3]) {
    let all = || vec![String::new()];
    let rights = [
        TokenRights { lock: vec!["ci/".into()], sessions: Some(3), ..TokenRights::default() },
        TokenRights { observe: all(), ..TokenRights::default() },
        TokenRights { lock: all(), observe: all(), admin: all(), sessions: None },
    ];
    let made = ["ci", "eye", "root"].into_iter().zip(rights);
    let made: Vec<(String, String)> = made.map(|(name, rights)| new_token(name, rights)).collect();
    let (secrets, entries): (Vec<String>, Vec<String>) = made.into_iter().unzip();
    let path = directory.join("tokens.toml");
    fs::write(&path, entries.concat()).expect("written");
    let options = ServeOptions { tokens: Some(path), ..options(directory) };
    assert!(secrets.iter().all(|secret| !format!("{options:?}").contains(secret)));
    let server = Server::start(options).await.expect("it starts");
    (server, secrets.try_into().expect("three"))
}

async fn ask(server: &Server, secret: &str, method: &str, path: &str, body: &str) -> Answer {
    let shown = format!("authorization: Bearer {secret}\r\n");
    send(server, request(method, path, &shown, body).as_bytes()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_the_rights_that_it_was_given_and_no_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, [ci, eye, root]) = with_tokens(directory.path()).await;
    let session = ask(&server, &ci, "POST", "/v1/sessions", "{}").await.json()["session"].clone();
    let acquire = |lock: &str| json!({ "session": session, "lock": lock }).to_string();
    assert_eq!(ask(&server, &ci, "POST", "/v1/acquire", &acquire("ci/a")).await.status, 200);
    let refused = ask(&server, &ci, "POST", "/v1/acquire", &acquire("db/a")).await;
    assert_eq!(refused.refused(), (403, "forbidden".to_owned()));
    assert!(refused.body.contains("ci has no right to lock"), "{refused:?}");
    // Among several it is enough that one may not be had.
    let both = json!({ "session": session, "wants": [{ "lock": "ci/b" }, { "lock": "db" }] });
    let refused = ask(&server, &ci, "POST", "/v1/acquire", &both.to_string()).await;
    assert_eq!(refused.status, 403);
    let campaign = json!({ "session": session, "election": "db" }).to_string();
    assert_eq!(ask(&server, &ci, "POST", "/v1/campaign", &campaign).await.status, 403);
    // Who has the session, but not the right, cannot use the one for the other.
    assert_eq!(ask(&server, &eye, "POST", "/v1/acquire", &acquire("ci/b")).await.status, 403);
    // Nor does the right help without the session: that is bound to the token that opened it.
    let stolen = ask(&server, &root, "POST", "/v1/acquire", &acquire("db")).await;
    assert_eq!(stolen.refused(), (404, "unknown-session".to_owned()));
    let own = ask(&server, &root, "POST", "/v1/sessions", "{}").await.json()["session"].clone();
    let acquire = |lock: &str| json!({ "session": own, "lock": lock }).to_string();
    assert_eq!(ask(&server, &root, "POST", "/v1/acquire", &acquire("db")).await.status, 200);
    // Each sees what is its own, and no more.
    let locks = async |secret: &str| {
        let list = ask(&server, secret, "GET", "/v1/locks", "").await.json();
        list["locks"].as_array().expect("a list").len()
    };
    assert_eq!((locks(&ci).await, locks(&eye).await, locks(&root).await), (1, 2, 2));
    for path in
        ["/v1/sessions", "/v1/graph", "/metrics", "/v1/why?name=db", "/v1/observe?election=db"]
    {
        assert_eq!(ask(&server, &ci, "GET", path, "").await.status, 403, "{path}");
    }
    for path in ["/v1/sessions", "/v1/graph", "/metrics", "/v1/why?name=db"] {
        assert_eq!(ask(&server, &eye, "GET", path, "").await.status, 200, "{path}");
    }
    let take = r#"{"lock":"ci/a","reason":"because"}"#;
    for secret in [&ci, &eye] {
        assert_eq!(ask(&server, secret, "POST", "/v1/admin/release", take).await.status, 403);
    }
    assert_eq!(ask(&server, &root, "POST", "/v1/admin/release", take).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_may_lock_nothing_opens_no_session_and_one_opens_no_more_than_it_may() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, [ci, eye, root]) = with_tokens(directory.path()).await;
    let refused = ask(&server, &eye, "POST", "/v1/sessions", "{}").await;
    assert_eq!(refused.refused(), (403, "forbidden".to_owned()));
    for _ in 0..3 {
        assert_eq!(ask(&server, &ci, "POST", "/v1/sessions", "{}").await.status, 200);
    }
    let refused = ask(&server, &ci, "POST", "/v1/sessions", "{}").await;
    assert_eq!(refused.refused(), (429, "limit".to_owned()));
    assert!(refused.body.contains("at most 3 sessions opened with one token"), "{refused:?}");
    assert_eq!(ask(&server, &root, "POST", "/v1/sessions", "{}").await.status, 200);
    let sessions = ask(&server, &root, "GET", "/v1/sessions", "").await.json();
    let by = |n: usize| sessions["sessions"][n]["opened_by"].as_str().map(str::to_owned);
    assert_eq!((by(0).as_deref(), by(3).as_deref()), (Some("ci"), Some("root")));
    assert_eq!(sessions["sessions"][0]["address"], "127.0.0.1");
    // All of one origin are ended at once, by who may.
    let expel = r#"{"opened_by":"ci","reason":"a loop"}"#;
    let path = "/v1/admin/expel-all";
    assert_eq!(ask(&server, &ci, "POST", path, expel).await.status, 403);
    let ended = ask(&server, &root, "POST", path, expel).await;
    assert_eq!(ended.json(), json!({ "sessions": 3 }));
    let unclear = r#"{"opened_by":"ci","host":"x","reason":"a loop"}"#;
    assert_eq!(ask(&server, &root, "POST", path, unclear).await.status, 400);
    assert_eq!(ask(&server, &ci, "POST", "/v1/sessions", "{}").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_a_token_may_not_see_are_only_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, [ci, _, root]) = with_tokens(directory.path()).await;
    let session = async |secret: &str| {
        let opened = ask(&server, secret, "POST", "/v1/sessions", "{}").await.json();
        opened["session"].as_str().expect("a session").to_owned()
    };
    let (holder, waiter) = (session(&root).await, session(&root).await);
    let both = json!([{ "lock": "ci/a" }, { "lock": "secret/b" }]);
    let hold = json!({ "session": holder, "wants": both }).to_string();
    assert_eq!(ask(&server, &root, "POST", "/v1/acquire", &hold).await.status, 200);
    let wait = json!({ "session": waiter, "wants": both, "timeout_ms": 600_000 }).to_string();
    let waiting = ask(&server, &root, "POST", "/v1/acquire", &wait);
    let looking = async {
        until(|| server.node().look(|machine| machine.counts().waits) == 1).await;
        for path in ["/v1/locks", "/v1/why?name=ci/a"] {
            let seen = ask(&server, &ci, "GET", path, "").await;
            assert!(!seen.body.contains("secret"), "{seen:?}");
            let seen = seen.json();
            let lock = if path == "/v1/locks" { &seen["locks"][0] } else { &seen["lock"] };
            assert_eq!(lock["waiters"][0]["locks"], json!(["ci/a"]));
            assert_eq!(lock["waiters"][0]["hidden"], 1);
        }
        let why = ask(&server, &ci, "GET", "/v1/why?name=ci/a", "").await.json();
        assert_eq!((why["waits"].as_array().map(Vec::len), &why["hidden"]), (Some(1), &json!(1)));
        let why = ask(&server, &root, "GET", "/v1/why?name=ci/a", "").await.json();
        assert_eq!(why["lock"]["waiters"][0]["locks"], json!(["ci/a", "secret/b"]));
        let close = json!({ "session": waiter }).to_string();
        assert_eq!(ask(&server, &root, "POST", "/v1/close", &close).await.status, 200);
    };
    let (ended, ()) = tokio::join!(waiting, looking);
    assert_eq!(ended.refused(), (409, "session-ended".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_its_token_is_revoked_and_is_never_granted() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, [ci, _, root]) = with_tokens(directory.path()).await;
    let session = async |secret: &str| {
        let opened = ask(&server, secret, "POST", "/v1/sessions", "{}").await.json();
        opened["session"].as_str().expect("a session").to_owned()
    };
    let acquire = |session: &str| json!({ "session": session, "lock": "ci/a" }).to_string();
    let holder = session(&root).await;
    let held = ask(&server, &root, "POST", "/v1/acquire", &acquire(&holder)).await.json();
    // Two wait over HTTP, with a number and without, and one over gRPC.
    let [numbered, plain, called] = [session(&ci).await, session(&ci).await, session(&ci).await];
    let first = json!({ "session": numbered, "lock": "ci/a", "request": 1 }).to_string();
    let second = acquire(&plain);
    let http = async |body: &str| ask(&server, &ci, "POST", "/v1/acquire", body).await;
    let grpc = async {
        let (number, key) = called.split_once('.').expect("a number and a key");
        let wants = vec![v1::Want { lock: "ci/a".into(), ..v1::Want::default() }];
        let what = v1::ask::What::Acquire(v1::Acquire { wants, ..v1::Acquire::default() });
        let ask = v1::Ask {
            session: number.parse().expect("a number"),
            id: 1,
            key: u64::from_str_radix(key, 16).expect("a key"),
            what: Some(what),
            ..v1::Ask::default()
        };
        let mut ask = tonic::Request::new(ask);
        let shown = format!("Bearer {ci}").parse().expect("ASCII");
        ask.metadata_mut().insert("authorization", shown);
        crate::support::grpc(&server).await.call(ask).await
    };
    let waits = || server.node().look(|machine| machine.counts().waits);
    let revoking = async {
        until(|| waits() == 3).await;
        let path = directory.path().join("tokens.toml");
        let known = fs::read_to_string(&path).expect("it is there");
        let others = known.split("[[token]]").filter(|entry| !entry.contains("\"ci\""));
        fs::write(&path, others.collect::<Vec<_>>().join("[[token]]")).expect("written");
        server.read_tokens_again().expect("it reads them");
    };
    let all = async { tokio::join!(http(&first), http(&second), grpc, revoking) };
    let (first, second, third, ()) = in_time("the end of all waits", all).await;
    for refused in [first, second] {
        assert_eq!(refused.refused(), (401, "unauthenticated".to_owned()));
        assert!(refused.body.contains("revoked"), "{refused:?}");
    }
    assert_eq!(third.expect_err("it has no token").code(), tonic::Code::Unauthenticated);
    // They are out of the queue, before the lock could be granted to them.
    until(|| waits() == 0).await;
    let release = json!({ "session": holder, "lock": "ci/a", "token": held["token"] }).to_string();
    assert_eq!(ask(&server, &root, "POST", "/v1/release", &release).await.status, 200);
    assert!(
        server.node().look(|machine| machine.lock("ci/a")).is_none_or(|it| it.holders.is_empty())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_shows_no_token_or_a_wrong_one_is_told_nothing_but_that_all_is_well() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, [ci, ..]) = with_tokens(directory.path()).await;
    let none = send(&server, request("GET", "/v1/locks", "", "").as_bytes()).await;
    assert_eq!(none.refused(), (401, "unauthenticated".to_owned()));
    assert!(none.headers.to_lowercase().contains("www-authenticate: bearer"), "{none:?}");
    let mut almost = ci.clone();
    almost.pop();
    for wrong in ["", "x", &almost, &format!("{ci}0"), &ci.to_uppercase()] {
        let refused = ask(&server, wrong, "GET", "/v1/locks", "").await;
        assert_eq!(refused.refused(), (401, "unauthenticated".to_owned()), "{wrong}");
        assert!(wrong.is_empty() || wrong == "x" || !refused.body.contains(wrong), "{refused:?}");
    }
    let basic = format!("authorization: Basic {ci}\r\n");
    assert_eq!(send(&server, request("GET", "/v1/locks", &basic, "").as_bytes()).await.status, 401);
    for path in ["/healthz", "/openapi.json", "/"] {
        let answer = send(&server, request("GET", path, "", "").as_bytes()).await;
        assert_eq!(answer.status, 200, "{path}");
    }
    // The same over gRPC.
    let mut client = crate::support::grpc(&server).await;
    let refused = client.status(v1::ShowStatus {}).await.expect_err("it shows nothing");
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    let (_, stream) = tokio::sync::mpsc::channel(1);
    let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
    let refused = client.talk(stream).await.expect_err("it shows nothing");
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    let mut known = tonic::Request::new(v1::ListSessions::default());
    let shown = format!("bearer {ci}").parse().expect("ASCII");
    known.metadata_mut().insert("authorization", shown);
    let refused = client.sessions(known).await.expect_err("it has no right to that");
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_machines_are_let_in_only_if_it_is_known_who_they_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let authority = Authority::new(directory.path(), "ours");
    let (certificate, key) = authority.issue("localhost");
    let (_, entry) = new_token("client", TokenRights::default());
    let tokens = directory.path().join("tokens.toml");
    fs::write(&tokens, entry).expect("written");
    let tls = Tls { certificate, key, client_ca: None };
    let certified = Tls { client_ca: Some(authority.ca()), ..tls.clone() };
    let open = ServeOptions {
        listen: "0.0.0.0:0".parse().expect("it is one"),
        ..options(directory.path())
    };
    let cases = [
        (None, None, false, false),
        (None, Some(&tokens), false, false),
        (Some(&tls), None, false, false),
        (Some(&tls), Some(&tokens), false, true),
        (Some(&certified), None, false, true),
        (None, None, true, true),
    ];
    for (tls, tokens, insecure, starts) in cases {
        let (tls, tokens) = (tls.cloned(), tokens.cloned());
        let case = format!("{tls:?} {tokens:?} {insecure}");
        match Server::start(ServeOptions { tls, tokens, insecure, ..open.clone() }).await {
            Ok(server) => {
                assert!(starts, "{case}");
                server.stop().await.expect("it stops");
            }
            Err(error) => {
                assert!(!starts && matches!(error, ServeError::Open(..)), "{case}: {error}");
                assert!(error.to_string().contains("--tls-cert"), "it says what to do: {error}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_used_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let authority = Authority::new(directory.path(), "ours");
    let (certificate, key) = authority.issue("localhost");
    let missing = directory.path().join("missing.pem");
    let wrong = [
        Tls { certificate: missing.clone(), key: key.clone(), client_ca: None },
        Tls { certificate: key.clone(), key: key.clone(), client_ca: None },
        Tls { certificate: certificate.clone(), key: certificate.clone(), client_ca: None },
        Tls { certificate: certificate.clone(), key: authority.issue("other").1, client_ca: None },
        Tls { certificate, key, client_ca: Some(missing.clone()) },
    ];
    for tls in wrong {
        let case = format!("{tls:?}");
        let options = ServeOptions { tls: Some(tls), ..options(directory.path()) };
        match Server::start(options).await {
            Err(error @ ServeError::Tls(_)) => {
                assert!(error.to_string().contains(".pem"), "{error}");
            }
            Err(error) => panic!("{case}: {error}"),
            Ok(_) => panic!("{case}: it starts"),
        }
    }
    let options = ServeOptions { tokens: Some(missing), ..options(directory.path()) };
    match Server::start(options).await {
        Err(error @ ServeError::Tokens { .. }) => {
            assert!(error.to_string().contains("missing.pem"), "{error}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it starts"),
    }
}
