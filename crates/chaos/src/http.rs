//! A minimal HTTP client: a connection for each request; to drop the future is to hang up.

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer: its status, and what it says.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn is_ok(&self) -> bool {
        self.status == 200
    }

    /// The error code.
    pub(crate) fn code(&self) -> String {
        let code = self.body["code"].as_str();
        code.map_or_else(|| format!("status-{}", self.status), str::to_owned)
    }
}

/// Asks with a body.
pub(crate) async fn post(node: SocketAddr, path: &str, body: &Value) -> Result<Answer> {
    let body = body.to_string();
    let length = body.len();
    let head = format!("content-type: application/json\r\ncontent-length: {length}\r\n");
    exchange(
        node,
        &format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}\r\n{body}"
        ),
    )
    .await
}

/// Asks for what is there.
pub(crate) async fn get(node: SocketAddr, path: &str) -> Result<Answer> {
    exchange(node, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
        .await
}

async fn exchange(node: SocketAddr, question: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect(node).await?;
    stream.set_nodelay(true)?;
    stream.write_all(question.as_bytes()).await?;
    let (mut answer, mut chunk) = (Vec::new(), vec![0; 16 << 10]);
    loop {
        if let Some(whole) = parse(&answer)? {
            return Ok(whole);
        }
        match stream.read(&mut chunk).await? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => answer.extend_from_slice(&chunk[..count]),
        }
    }
}

/// The answer, when all of it is there.
fn parse(bytes: &[u8]) -> Result<Option<Answer>> {
    let bad = |what: &str| Error::new(ErrorKind::InvalidData, what.to_owned());
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| bad("the head is no text"))?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let status = status.ok_or_else(|| bad("there is no status"))?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.ok_or_else(|| bad("there is no length"))?;
    let body = &bytes[end + 4..];
    if body.len() < length {
        return Ok(None);
    }
    let body = serde_json::from_slice(&body[..length]).unwrap_or(Value::Null);
    Ok(Some(Answer { status, body }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_all_of_its_body_is_there() {
        let text = b"HTTP/1.1 409 Conflict\r\nContent-Length: 15\r\n\r\n{\"code\":\"busy\"}";
        assert!(parse(&text[..30]).expect("it begins well").is_none());
        assert!(parse(&text[..text.len() - 1]).expect("it begins well").is_none());
        let answer = parse(text).expect("it is an answer").expect("it is whole");
        assert_eq!((answer.status, answer.code().as_str()), (409, "busy"));
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "it would never be whole");
    }
}
