//! Explains TLS errors about certificates, which are nested deep inside of other errors.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription, CertificateError, Error as TlsError};

/// What is wrong with a certificate, if that is why a connection failed.
pub(crate) fn problem(error: &(dyn StdError + 'static)) -> Option<String> {
    match tls(error)? {
        TlsError::InvalidCertificate(why) => Some(of_node(why)),
        TlsError::AlertReceived(alert) => of_client(*alert),
        _ => None,
    }
}

/// The error of TLS within another.
fn tls<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a TlsError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref() {
            return Some(tls);
        }
        // The source of such an error is that of what is within it, which would be skipped.
        let within = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match within {
            Some(within) => Some(within),
            None => error.source(),
        };
    }
    None
}

fn of_node(why: &CertificateError) -> String {
    let days = |span: u64| match span / 86_400 {
        0 => "less than a day".to_owned(),
        1 => "a day".to_owned(),
        days => format!("{days} days"),
    };
    match why {
        CertificateError::Expired => "the node's certificate has expired; issue a new one".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            let ago = days(time.as_secs().saturating_sub(not_after.as_secs()));
            format!("the node's certificate expired {ago} ago; issue a new one")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the node's certificate is not valid yet; look at the clocks of both machines".to_owned()
        }
        CertificateError::NotValidForName => {
            "the node's certificate is for another name; connect by a name that is in it, or say which with \
             --server-name (CONCLAVE_SERVER_NAME)"
                .to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<String> = presented.iter().map(|name| plain(name)).collect();
            format!(
                "the node's certificate is for {}, not for {}; connect by a name that is in it, or say which with \
                 --server-name (CONCLAVE_SERVER_NAME)",
                if names.is_empty() { "no name".to_owned() } else { names.join(", ") },
                expected.to_str(),
            )
        }
        // The signature is wrong if an authority of the same name is trusted, and not this one.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the node's certificate is of an authority that is not trusted here; say whom to trust with --ca \
             (CONCLAVE_CA)"
                .to_owned()
        }
        CertificateError::Revoked => "the node's certificate was revoked; issue a new one".to_owned(),
        other => format!("the node's certificate is not accepted: {other}"),
    }
}

/// `db-1` of `DnsName("db-1")`, which is how rustls presents names.
fn plain(name: &str) -> String {
    let within = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    within.unwrap_or(name).trim_matches('"').to_owned()
}

/// What a node says of the client's certificate.
fn of_client(alert: AlertDescription) -> Option<String> {
    let why = match alert {
        AlertDescription::CertificateRequired => {
            return Some(
                "the node asks for a certificate; show one with --cert and --key (CONCLAVE_CERT, CONCLAVE_KEY)"
                    .to_owned(),
            );
        }
        AlertDescription::UnknownCA => "it is of an authority that the node does not trust",
        AlertDescription::CertificateExpired => "it has expired; issue a new one",
        AlertDescription::CertificateRevoked => "it was revoked",
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate => "it cannot be used for this",
        _ => return None,
    };
    Some(format!("the node does not accept this client's certificate: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    fn wrapped(error: TlsError) -> Option<String> {
        problem(&Outer(io::Error::other(error)))
    }

    #[test]
    fn what_is_wrong_is_found_within_other_errors() {
        let text = wrapped(TlsError::InvalidCertificate(CertificateError::UnknownIssuer));
        assert!(text.is_some_and(|text| text.contains("--ca")));
        let text = wrapped(TlsError::AlertReceived(AlertDescription::CertificateRequired));
        assert!(text.is_some_and(|text| text.contains("--cert")));
        assert_eq!(wrapped(TlsError::DecryptError), None);
        assert_eq!(problem(&io::Error::other("a broken cable")), None);
    }

    #[test]
    fn names_are_given_as_people_write_them() {
        assert_eq!(plain("DnsName(\"db-1\")"), "db-1");
        assert_eq!(plain("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(plain("odd"), "odd");
    }
}
