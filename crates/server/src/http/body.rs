//! Reads requests over HTTP: the fields of a message, and the session on whose behalf it is made.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::extract::{FromRequest, Query, Request};
use axum::http::{StatusCode, Uri};
use conclave_api::{Code, v1};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::answer::Failure;

/// The longest body, in bytes.
pub(crate) const LONGEST_BODY: usize = conclave_api::LONGEST_MESSAGE;

/// Why a question is not answered.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) failure: Failure,
}

impl Refusal {
    fn bad(message: impl Into<String>) -> Self {
        Failure::new(Code::BadRequest, message).into()
    }
}

/// A session as HTTP has it: its number and its key in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) session: u64,
    pub(crate) key: u64,
}

impl fmt::Debug for Handle {
    /// Without the key, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {}", self.session)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:016x}", self.session, self.key)
    }
}

impl FromStr for Handle {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let parts = text.split_once('.').and_then(|(session, key)| {
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
            if key.len() != 16 || !digits(key) || !digits(session) {
                return None;
            }
            let key = u64::from_str_radix(key, 16).ok()?;
            Some(Self { session: session.parse().ok()?, key })
        });
        parts.ok_or_else(|| {
            Refusal::bad("a session is written as it was given: a number, a dot and 16 hex digits")
        })
    }
}

/// The fields of a body that are not read yet.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Reads a body to its end, for which it may take so long.
    pub(crate) async fn of(request: Request, patience: Duration) -> Result<Self, Refusal> {
        let too_large = || Refusal {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            failure: Failure::new(
                Code::TooLarge,
                format!("a body may have at most {LONGEST_BODY} bytes"),
            ),
        };
        // What is announced need not be waited for.
        if request.body().size_hint().lower() > LONGEST_BODY as u64 {
            return Err(too_large());
        }
        let body = tokio::time::timeout(patience, Bytes::from_request(request, &())).await;
        let body = body.map_err(|_| Refusal {
            status: StatusCode::REQUEST_TIMEOUT,
            failure: Failure::new(Code::BadRequest, "the body did not come"),
        })?;
        let body = body.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            _ => Refusal::bad(rejection.body_text()),
        })?;
        Self::from_json(&body)
    }

    fn from_json(body: &[u8]) -> Result<Self, Refusal> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(Map::new()));
        }
        match serde_json::from_slice(body).map(whole) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err(Refusal::bad("the body has to be a JSON object: {…}")),
            Err(error) => Err(Refusal::bad(format!("the body is not JSON: {error}"))),
        }
    }

    /// The session on whose behalf something is asked.
    pub(crate) fn handle(&mut self) -> Result<Handle, Refusal> {
        match self.0.remove("session") {
            Some(Value::String(handle)) => handle.parse(),
            Some(_) => Err(Refusal::bad("`session` has to be text, as it was given")),
            None => {
                Err(Refusal::bad("on whose behalf? `session` is missing; POST /v1/sessions first"))
            }
        }
    }

    /// The number of the request; 0 if it has none.
    pub(crate) fn number(&mut self) -> Result<u64, Refusal> {
        match self.0.remove("request") {
            None => Ok(0),
            Some(number) => number.as_u64().filter(|&number| number > 0).ok_or_else(|| {
                Refusal::bad("`request` has to be a number from 1 on, a new one for each request")
            }),
        }
    }

    /// The request that is to be undone.
    pub(crate) fn undone(&mut self) -> Result<u64, Refusal> {
        match self.number()? {
            0 => Err(Refusal::bad("which request? `request` is missing")),
            number => Ok(number),
        }
    }

    /// A request for locks; one for a single lock may do without a list.
    pub(crate) fn acquire(&mut self) -> Result<v1::Acquire, Refusal> {
        let alone = self.0.contains_key("lock");
        if alone && self.0.contains_key("wants") {
            return Err(Refusal::bad("either `lock` or `wants`"));
        }
        let mut want = Map::new();
        if alone {
            for field in ["lock", "mode", "permits", "of"] {
                want.extend(self.0.remove_entry(field));
            }
        }
        let mut acquire: v1::Acquire = self.read()?;
        if alone {
            acquire.wants.push(Self(want).read()?);
        }
        Ok(acquire)
    }

    /// Nothing else may be left.
    pub(crate) fn finish(&self) -> Result<(), Refusal> {
        match self.0.keys().next() {
            Some(field) => Err(Refusal::bad(format!("unknown field `{field}`"))),
            None => Ok(()),
        }
    }

    /// All that is left, as a message.
    pub(crate) fn read<T: DeserializeOwned>(&mut self) -> Result<T, Refusal> {
        let fields = std::mem::take(&mut self.0);
        serde_json::from_value(Value::Object(fields.clone())).map_err(|error: serde_json::Error| {
            // Each field can be read without the others, so the one that is wrong can be found.
            let wrong = fields.into_iter().find_map(|(name, value)| {
                let alone = Map::from_iter([(name.clone(), value)]);
                let error = serde_json::from_value::<T>(Value::Object(alone)).err()?;
                Some(format!("`{name}`: {error}"))
            });
            Refusal::bad(wrong.unwrap_or_else(|| error.to_string()))
        })
    }
}

/// The same with whole numbers as such: to JSON, 5.0 is as whole as 5, and some programs write it so.
fn whole(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().filter(|float| float.fract() == 0.0);
            let whole = float.and_then(|float| match float {
                0.0..18_446_744_073_709_551_616.0 => Some(Value::from(float as u64)),
                -9_223_372_036_854_775_808.0..0.0 => Some(Value::from(float as i64)),
                _ => None,
            });
            whole.unwrap_or(Value::Number(number))
        }
        Value::Array(all) => all.into_iter().map(whole).collect(),
        Value::Object(all) => all.into_iter().map(|(name, value)| (name, whole(value))).collect(),
        other => other,
    }
}

/// The fields of a message in an address.
pub(crate) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Refusal> {
    if !is_text(uri.query().unwrap_or_default()) {
        return Err(Refusal::bad("the address is not UTF-8"));
    }
    let Query(fields) =
        Query::try_from_uri(uri).map_err(|rejection| Refusal::bad(rejection.body_text()))?;
    Ok(fields)
}

/// Whether what `%` and two digits stand for is UTF-8; what reads it would put up with anything.
fn is_text(query: &str) -> bool {
    let mut bytes = Vec::with_capacity(query.len());
    let mut rest = query.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        let escaped = match (byte, after) {
            (b'%', [high, low, ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                digit(*high).zip(digit(*low)).map(|(high, low)| (high << 4 | low) as u8)
            }
            _ => None,
        };
        if escaped.is_some() {
            rest = &after[2..];
        }
        bytes.push(escaped.unwrap_or(*byte));
    }
    std::str::from_utf8(&bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        Fields::from_json(text.as_bytes()).expect("it is an object")
    }

    #[test]
    fn a_handle_is_read_as_it_was_written_and_nothing_else_is() {
        let handle = Handle { session: 17, key: 0x5d2c };
        assert_eq!(handle.to_string(), "17.0000000000005d2c");
        assert_eq!(handle.to_string().parse::<Handle>().expect("it is one"), handle);
        for wrong in ["", ".", "17", "17.", "17.5d2c", "x.0000000000005d2c", "+1.0000000000005d2c"]
        {
            assert!(wrong.parse::<Handle>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_lock_needs_no_list() {
        let short = fields(r#"{"lock":"a","mode":"shared","timeout_ms":0}"#).acquire();
        let long = fields(r#"{"wants":[{"lock":"a","mode":"shared"}],"timeout_ms":0}"#).acquire();
        assert_eq!(short.expect("it is read"), long.expect("it is read"));
        let both = fields(r#"{"lock":"a","wants":[]}"#).acquire().expect_err("which is meant?");
        assert_eq!(both.failure.message, "either `lock` or `wants`");
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_point() {
        let read = |text: &str| fields(text).acquire().map(|acquire| acquire.timeout_ms);
        assert_eq!(read(r#"{"lock":"a","timeout_ms":5.0}"#).expect("it is whole"), Some(5));
        assert_eq!(read(r#"{"lock":"a","timeout_ms":1e3}"#).expect("it is whole"), Some(1000));
        assert_eq!(fields(r#"{"request":7.0}"#).number().expect("it is whole"), 7);
        let rank = fields(r#"{"election":"a","rank":-3.0}"#).read::<v1::Campaign>();
        assert_eq!(rank.expect("it is whole").rank, -3);
        for wrong in ["5.5", "-1.0", "18446744073709551616", "1e300"] {
            let text = format!(r#"{{"lock":"a","timeout_ms":{wrong}}}"#);
            read(&text).expect_err(wrong);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |text: &str| fields(text).acquire().expect_err("it is wrong").failure.message;
        let message = wrong(r#"{"lock":"a","timeout_ms":"long"}"#);
        assert!(message.starts_with("`timeout_ms`: invalid type: string"), "{message}");
        let message = wrong(r#"{"lock":"a","timeout":1}"#);
        assert!(message.starts_with("`timeout`: unknown field `timeout`, expected"), "{message}");
        let message = wrong(r#"{"lock":"a","mode":"alone"}"#);
        assert!(message.starts_with("`mode`: unknown variant `alone`"), "{message}");
        let cut = Fields::from_json(b"{\n  \"lock\": ").err().expect("it is cut off");
        assert!(cut.failure.message.ends_with("at line 2 column 10"), "{}", cut.failure.message);
    }

    #[test]
    fn an_address_that_is_not_text_is_known() {
        assert!(is_text("name=a%2Fb%C3%A9&x=%zz%"));
        assert!(!is_text("name=%ff"));
    }
}
