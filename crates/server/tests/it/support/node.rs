//! What tests ask of a node without a server.

#![allow(dead_code, reason = "each test uses some of it")]

use std::time::Duration;

use conclave_machine::{
    Acquire, Call, Command, Error, Open, Reply, RequestId, SessionId, Token, Via,
};
use conclave_server::{Node, NodeError};

/// A session with so much time that no test outlives it.
pub(crate) async fn open_session(node: &Node) -> SessionId {
    let (name, host, ttl) = ("test".into(), "here".into(), Duration::from_secs(3600));
    let open = Command::Open(Open { name, host, ttl, ..Open::default() });
    match node.propose(open).await.expect("the node is up") {
        Ok(Reply::Opened { session, .. }) => session,
        other => panic!("no session, but {other:?}"),
    }
}

pub(crate) async fn ask(
    node: &Node,
    session: SessionId,
    number: u64,
    call: Call,
) -> Result<Result<Reply, Error>, NodeError> {
    let (request, received) = (RequestId(number), RequestId(number - 1));
    node.propose(Command::Request { session, request, received, via: Via::Stream, call }).await
}

pub(crate) async fn acquire(node: &Node, session: SessionId, number: u64, lock: &str) -> Token {
    let call = Call::Acquire(Acquire::exclusive(lock));
    match ask(node, session, number, call).await.expect("the node is up") {
        Ok(Reply::Granted { token, .. }) => token,
        other => panic!("no lock, but {other:?}"),
    }
}
