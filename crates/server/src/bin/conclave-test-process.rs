//! What tests start as processes of their own, to kill them: `conclave-test-process ROLE ARGUMENTS`.

use std::io::Write as _;

use conclave_machine::Command;
use conclave_server::{Node, Options, ServeOptions, Server};

#[path = "../../tests/it/support/crowd.rs"]
mod crowd;
#[path = "../../tests/it/support/node.rs"]
mod node;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        // What a node of the next role starts beside itself.
        ["awake"] => conclave_server::run_idle_spinner().expect("it can be the last of all"),
        ["awake-node", directory] => awake_node(directory).await,
        ["acquire", directory] => acquire(directory).await,
        ["serve", address, directory] => serve(address, directory).await,
        ["clients", address, count] => {
            crowd::clients(address, count.parse().expect("a number"), say);
        }
        _ => {
            eprintln!(
                "a part of tests: conclave-test-process acquire DATA | serve ADDRESS DATA | clients ADDRESS COUNT | \
                 awake-node DATA | awake"
            );
            std::process::exit(2);
        }
    }
}

/// Prints a line, which is on its way before the next thing is done.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("the test reads it");
}

/// Acquires locks one after the other and says of each when it has it, until it is killed.
async fn acquire(directory: &str) {
    let options = Options { snapshot_every: 200, ..Options::new(directory) };
    let node = Node::open(options).await.expect("a node");
    let session = node::open_session(&node).await;
    for number in 1.. {
        let lock = format!("{session}/{number}");
        let token = node::acquire(&node, session, number, &lock).await;
        say(&format!("{lock} {token}"));
    }
}

/// A node that keeps a processor awake. It renews a session again and again between the lines "work" and "rest",
/// until it is killed.
async fn awake_node(directory: &str) {
    let node = Node::open(Options { awake: Some("awake"), ..Options::new(directory) });
    let node = node.await.expect("a node");
    let session = node::open_session(&node).await;
    let (order, mut orders) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| order.send(line))
    });
    say("up");
    while let Some(ordered) = orders.recv().await {
        assert_eq!(ordered, "work");
        while orders.is_empty() {
            let renew = Command::KeepAlive { sessions: vec![session] };
            node.propose(renew).await.expect("the node is up").expect("the session lives");
        }
        assert_eq!(orders.recv().await.as_deref(), Some("rest"));
        say("rests");
    }
}

/// A server, until it is killed.
async fn serve(address: &str, directory: &str) {
    // So that it is also killed while it writes snapshots and cuts its log.
    let node = Options { snapshot_every: 100, ..Options::new(directory) };
    let listen = address.parse().expect("an address");
    let server = Server::start(ServeOptions { listen, ..ServeOptions::new(node) }).await;
    say(&format!("up at {}", server.as_ref().expect("it starts").address()));
    std::future::pending::<()>().await;
}
