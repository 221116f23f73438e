//! A process that holds a lock, for tests that stop it: `conclave-test-holder ADDRESS LOCK SECONDS`.
//!
//! It says `held` when it has the lock, `renewed` when its session has outlived its time-to-live, and whenever it is
//! asked by a line, whether it still holds the lock.

use std::time::Duration;

use conclave_client::{Options, SessionOptions, blocking};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, lock, seconds] = &arguments[..] else {
        eprintln!("a part of tests: conclave-test-holder ADDRESS LOCK SECONDS");
        std::process::exit(2);
    };
    let ttl = Duration::from_secs(seconds.parse().expect("a number"));
    let client = blocking::Client::connect(Options::new(address.as_str())).expect("it is up");
    let session = client.open(SessionOptions::ttl(ttl)).expect("there is room");
    let guard = session.lock(lock.as_str()).expect("it is free");
    println!("held");
    // Leases are renewed a few times per time-to-live, and each renewal adds to what is left.
    let (mut left, mut gained) = (session.remaining(), Duration::ZERO);
    while gained <= ttl {
        std::thread::yield_now();
        let now = session.remaining();
        gained += now.saturating_sub(left);
        left = now;
    }
    println!("renewed");
    for _ in std::io::stdin().lines() {
        println!("{}", guard.is_held());
    }
}
