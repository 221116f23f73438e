//! Keeps other people's web pages out. A browser lets any page send a question to any address, this
//! machine's own included; a page cannot read the answer, but to release a lock it need not. And a page
//! whose name is made to lead to this machine may even read.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN, UPGRADE};
use axum::http::{HeaderName, HeaderValue, Method};
use conclave_api::{Code, PLAIN};

use crate::answer::Failure;

/// Under which names a server answers over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// Any: clients show a token or a certificate, or all are allowed.
    Any,
    /// This machine's own: it can be reached from there only, and asks for no token.
    Local,
}

/// Whether a request comes from an allowed origin. Only browsers name one; a client that names none is no web page.
pub(crate) fn check(hosts: Hosts, request: &Request) -> Result<(), Failure> {
    let header = |name: HeaderName| request.headers().get(name).map(HeaderValue::to_str);
    let host = match header(HOST) {
        Some(host) => host.ok(),
        None => request.uri().authority().map(|authority| authority.as_str()),
    };
    if let Some(origin) = header(ORIGIN) {
        let from = origin.ok().and_then(|origin| origin.split_once("://"));
        if from.is_none_or(|(_, from)| Some(from) != host) {
            return Err(Failure::new(Code::Forbidden, "another site's page may not ask this"));
        }
    }
    let kind = header(CONTENT_TYPE).and_then(Result::ok).unwrap_or_default();
    // A page cannot ask for an upgrade, and cannot send anything without saying where it is from.
    let grpc = request.method() == Method::POST && kind.starts_with("application/grpc");
    let plain = header(UPGRADE).and_then(Result::ok);
    let program = grpc || plain.is_some_and(|to| to.eq_ignore_ascii_case(PLAIN));
    let page = header(ORIGIN).is_some() || !program;
    if hosts == Hosts::Local && page && host.is_some_and(|host| !is_local(host)) {
        let message = "this server is for this machine only: use 127.0.0.1 or localhost, or have it ask \
                       for tokens";
        return Err(Failure::new(Code::Forbidden, message));
    }
    Ok(())
}

/// Whether a host is an address, or this machine's own name: DNS cannot make those lead elsewhere.
fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    host.parse::<SocketAddr>().is_ok()
        || name.parse::<IpAddr>().is_ok()
        || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_are_local_and_names_are_not() {
        for host in
            ["127.0.0.1:7411", "localhost", "localhost:1", "[::1]:7411", "[::1]", "10.0.0.1"]
        {
            assert!(is_local(host), "{host}");
        }
        for host in ["example.org", "example.org:7411", "localhost.example.org", "", "x]"] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn under_a_strange_name_only_programs_are_heard() {
        let ask = |method: Method, name: HeaderName, value: &str| {
            let request = Request::builder().method(method).header(HOST, "example.org:7411");
            let request = request.header(name, value).body(axum::body::Body::empty());
            check(Hosts::Local, &request.expect("it is well-formed"))
        };
        assert!(ask(Method::POST, CONTENT_TYPE, "application/grpc").is_ok());
        assert!(ask(Method::GET, UPGRADE, "conclave.v1").is_ok());
        // All of these a page can do whose name is made to lead here.
        assert!(ask(Method::GET, CONTENT_TYPE, "application/grpc").is_err());
        assert!(ask(Method::GET, UPGRADE, "websocket").is_err());
        assert!(ask(Method::POST, CONTENT_TYPE, "application/json").is_err());
    }

    #[test]
    fn a_page_of_another_site_is_refused_and_the_own_one_is_not() {
        let ask = |host: &str, origin: &str| {
            let request = Request::builder().header(HOST, host).header(ORIGIN, origin);
            check(Hosts::Any, &request.body(axum::body::Body::empty()).expect("it is well-formed"))
        };
        assert!(ask("node:7411", "http://node:7411").is_ok());
        assert!(ask("node:7411", "http://node:7412").is_err());
        assert!(ask("node:7411", "https://example.org").is_err());
        assert!(ask("node:7411", "null").is_err());
    }
}
