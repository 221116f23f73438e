//! Clients over HTTP: patient and impatient ones, some that hang up, some that forget their lease.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conclave_history::{Event, Mode, Want};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::clock::{nanos, now};
use crate::http::{self, Answer};
use crate::run::World;

/// Opens one session after the other until the world ends.
pub(crate) async fn work(world: World, worker: usize, seed: u64) {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut count = 0;
    while !world.is_over() {
        count += 1;
        let name = format!("h{worker}-{count}");
        let direct = chance.bool();
        let Some(mut client) = Client::open(&world, name, direct, &mut chance).await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        // Two clients do nothing but what a short time-out does: hang up, and repeat the request at once.
        if worker < 2 {
            client.hurry(&mut chance).await;
        } else {
            client.live(&mut chance).await;
        }
        client.leave(chance.u8(..4) > 0).await;
    }
}

struct Client {
    world: World,
    direct: bool,
    name: String,
    /// What the session is known by.
    word: String,
    session: u64,
    ttl: Duration,
    /// Its number is the last that was used.
    requests: u64,
    keeper: JoinHandle<()>,
    /// The node has said that there is no such session.
    gone: Arc<AtomicBool>,
}

/// Whether an answer says what came of the request. `superseded` does not: the proxy delivered an earlier attempt after
/// this one, and that is the attempt which the node will answer.
fn is_final(code: &str) -> bool {
    !matches!(code, "unavailable" | "superseded")
}

/// What came of a request.
enum Outcome {
    Granted(u64),
    Refused,
    /// It may or may not have been carried out.
    Unknown,
}

impl Client {
    async fn open(
        world: &World,
        name: String,
        direct: bool,
        chance: &mut fastrand::Rng,
    ) -> Option<Self> {
        let ttl = Duration::from_millis(chance.u64(1_500..4_000));
        let body = json!({"name": name, "ttl_ms": ttl.as_millis() as u64});
        let node = world.address(direct);
        let sent = now();
        let answer = timeout(Duration::from_secs(4), http::post(node, "/v1/sessions", &body)).await;
        let answered = now();
        let opened = answer.ok().and_then(Result::ok).filter(Answer::is_ok);
        let word = opened.and_then(|answer| Some(answer.body["session"].as_str()?.to_owned()));
        let Some(word) = word else {
            // There may be such a session all the same.
            let ttl = nanos(ttl);
            world.recorder.record(&Event::Silent { name, ttl, at: answered });
            return None;
        };
        let session = word.split('.').next()?.parse().ok()?;
        let opened = Event::Opened { session, name: name.clone(), ttl: nanos(ttl), sent, answered };
        world.recorder.record(&opened);
        let gone = Arc::new(AtomicBool::new(false));
        let keeping = keep(world.clone(), direct, word.clone(), session, ttl, gone.clone());
        let keeper = tokio::spawn(keeping);
        let world = world.clone();
        Some(Self { world, direct, name, word, session, ttl, requests: 0, keeper, gone })
    }

    fn record(&self, event: &Event) {
        self.world.recorder.record(event);
    }

    fn node(&self) -> SocketAddr {
        self.world.address(self.direct)
    }

    /// Asks with little patience, many times.
    async fn hurry(&mut self, chance: &mut fastrand::Rng) {
        let own = Want::exclusive(format!("own/{}", self.name));
        for _ in 0..30 {
            if self.world.is_over() || self.gone.load(Ordering::SeqCst) {
                return;
            }
            let want = if chance.u8(..3) == 0 { Want::exclusive("a") } else { own.clone() };
            let most = [500, 3_000, 20_000][chance.usize(..3)];
            let hang_up: Vec<Duration> = (0..chance.usize(1..3))
                .map(|_| Duration::from_micros(chance.u64(0..most)))
                .collect();
            match self.ask(&want, 2_000, true, &hang_up, chance).await {
                Outcome::Granted(token) => {
                    sleep(Duration::from_millis(chance.u64(1..60))).await;
                    if !self.release(&want, token).await {
                        return;
                    }
                }
                Outcome::Refused => sleep(Duration::from_millis(chance.u64(1..10))).await,
                Outcome::Unknown => return,
            }
        }
    }

    /// Asks for things, one after the other.
    async fn live(&mut self, chance: &mut fastrand::Rng) {
        // More requests than a server remembers, of a lock that no other session wants.
        if chance.u8(..12) == 0 {
            let own = Want::exclusive(format!("own/{}", self.name));
            for number in 0..45 {
                let numbered = number % 2 == 0 || chance.bool();
                match self.ask(&own, 1_000, numbered, &[], chance).await {
                    Outcome::Granted(token) => {
                        if !self.release(&own, token).await {
                            return;
                        }
                    }
                    Outcome::Refused => {}
                    Outcome::Unknown => return,
                }
                if self.world.is_over() || self.gone.load(Ordering::SeqCst) {
                    return;
                }
            }
            return;
        }
        for _ in 0..chance.u8(1..8) {
            if self.world.is_over() || self.gone.load(Ordering::SeqCst) {
                return;
            }
            let want = self.world.draw(chance);
            let wait = [0, 300, 3_000, 8_000][chance.usize(..4)];
            let hang_up: Vec<Duration> = match chance.u8(..10) {
                // It closes the connection and repeats the request over another one.
                0..=4 => (0..chance.usize(1..4)).map(|_| moment(chance)).collect(),
                _ => Vec::new(),
            };
            if chance.u8(..12) == 0 {
                self.abandon(&want, chance).await;
                return;
            }
            let numbered = !hang_up.is_empty() || chance.bool();
            match self.ask(&want, wait, numbered, &hang_up, chance).await {
                Outcome::Granted(token) => {
                    if chance.u8(..10) == 0 {
                        // It sleeps through its lease, and only then gives back what it had.
                        self.keeper.abort();
                        sleep(self.ttl * 13 / 10).await;
                        self.release(&want, token).await;
                        return;
                    }
                    sleep(Duration::from_millis(chance.u64(5..400))).await;
                    if !self.release(&want, token).await {
                        return;
                    }
                }
                Outcome::Refused => sleep(Duration::from_millis(chance.u64(1..30))).await,
                Outcome::Unknown => return,
            }
        }
    }

    /// Asks, and repeats the request under its number until there is an answer.
    async fn ask(
        &mut self,
        want: &Want,
        wait: u64,
        numbered: bool,
        hang_up: &[Duration],
        chance: &mut fastrand::Rng,
    ) -> Outcome {
        self.requests += 1;
        let (path, mut body) = question(&self.word, want, wait, chance);
        // What the history calls a request that has no number is beyond all numbers.
        let request = if numbered { self.requests } else { (1 << 40) + self.requests };
        if numbered {
            body["request"] = json!(request);
        }
        let patient = Duration::from_millis(wait + 4_000);
        let patience = hang_up.iter().copied().chain(std::iter::repeat_n(patient, 8));
        for patience in patience {
            match self.attempt(path, &body, request, want, patience).await {
                Outcome::Unknown if numbered && !self.gone.load(Ordering::SeqCst) => {}
                done => return done,
            }
            if patience == patient {
                sleep(Duration::from_millis(100)).await;
            }
        }
        Outcome::Unknown
    }

    /// Asks once.
    async fn attempt(
        &self,
        path: &str,
        body: &Value,
        request: u64,
        want: &Want,
        patience: Duration,
    ) -> Outcome {
        let session = self.session;
        self.record(&Event::Asked { session, request, wants: vec![want.clone()], at: now() });
        let answer = timeout(patience, http::post(self.node(), path, body)).await;
        let at = now();
        let answer = match answer {
            Ok(Ok(answer)) if is_final(&answer.code()) => answer,
            _ => {
                self.record(&Event::Dropped { session, request, at });
                return Outcome::Unknown;
            }
        };
        let token = answer.body["token"].as_u64().or_else(|| answer.body["term"].as_u64());
        if let Some(token) = token.filter(|_| answer.is_ok()) {
            self.record(&Event::Granted { session, request, token, at });
            return Outcome::Granted(token);
        }
        self.record(&Event::Refused { session, request, code: answer.code(), at });
        Outcome::Refused
    }

    /// Hangs up while it waits, does not ask again, and lives on.
    async fn abandon(&mut self, want: &Want, chance: &mut fastrand::Rng) {
        let (path, body) = question(&self.word, want, 60_000, chance);
        self.requests += 1;
        let request = (1 << 40) + self.requests;
        let outcome = self.attempt(path, &body, request, want, moment(chance) * 4).await;
        if let Outcome::Granted(token) = outcome {
            self.release(want, token).await;
        } else if chance.bool() {
            for _ in 0..150 {
                if self.world.is_over() {
                    break;
                }
                sleep(Duration::from_millis(100)).await;
            }
        }
    }

    /// Gives something back; says whether that is certain.
    async fn release(&mut self, want: &Want, token: u64) -> bool {
        let session = self.session;
        let (path, body) = match want.lock.strip_prefix(Want::ELECTION) {
            Some(election) => {
                ("/v1/resign", json!({"session": self.word, "election": election, "term": token}))
            }
            None => {
                ("/v1/release", json!({"session": self.word, "lock": want.lock, "token": token}))
            }
        };
        for _ in 0..4 {
            self.record(&Event::Releasing { session, token, at: now() });
            let answer =
                timeout(Duration::from_secs(4), http::post(self.node(), path, &body)).await;
            let at = now();
            match answer {
                Ok(Ok(answer)) if answer.is_ok() => {
                    self.record(&Event::Released { session, token, at });
                    return true;
                }
                Ok(Ok(answer)) if answer.code() != "unavailable" => {
                    let code = answer.code();
                    self.record(&Event::ReleaseRefused { session, token, code, at });
                    return true;
                }
                _ => sleep(Duration::from_millis(200)).await,
            }
        }
        false
    }

    /// Ends, with or without saying so.
    async fn leave(self, politely: bool) {
        self.keeper.abort();
        let session = self.session;
        if politely {
            self.record(&Event::Closing { session, at: now() });
            let body = json!({"session": self.word});
            let closing = http::post(self.node(), "/v1/close", &body);
            if let Ok(Ok(answer)) = timeout(Duration::from_secs(4), closing).await
                && answer.is_ok()
            {
                self.record(&Event::Closed { session, at: now() });
            }
        }
        let ttl = nanos(self.ttl);
        self.record(&Event::Silent { name: self.name.clone(), ttl, at: now() });
    }
}

/// A moment that is mostly very short.
fn moment(chance: &mut fastrand::Rng) -> Duration {
    let most = [300, 3_000, 30_000, 120_000][chance.usize(..4)];
    Duration::from_micros(chance.u64(0..most))
}

/// Where to ask, and what.
fn question(
    word: &str,
    want: &Want,
    wait: u64,
    chance: &mut fastrand::Rng,
) -> (&'static str, Value) {
    if let Some(election) = want.lock.strip_prefix(Want::ELECTION) {
        let body = json!({
            "session": word, "election": election, "rank": chance.i64(0..4), "preempt": chance.bool(),
            "grace_ms": 200, "timeout_ms": wait,
        });
        return ("/v1/campaign", body);
    }
    let mut body = json!({"session": word, "lock": want.lock, "timeout_ms": wait});
    match want.mode {
        Mode::Exclusive => {}
        Mode::Shared => body["mode"] = json!("shared"),
        Mode::Permits { take, of } => {
            body["mode"] = json!("permits");
            body["permits"] = json!(take);
            body["of"] = json!(of);
        }
    }
    ("/v1/acquire", body)
}

/// Renews a lease until it is over.
async fn keep(
    world: World,
    direct: bool,
    word: String,
    session: u64,
    ttl: Duration,
    gone: Arc<AtomicBool>,
) {
    let body = json!({"session": word});
    loop {
        sleep(ttl / 3).await;
        let sent = now();
        let answer = http::post(world.address(direct), "/v1/keepalive", &body);
        let answer = timeout(ttl / 2, answer).await;
        let answered = now();
        let Ok(Ok(answer)) = answer else { continue };
        if answer.code() == "unavailable" {
            continue;
        }
        let none_gone = answer.body["gone"].as_array().is_none_or(Vec::is_empty);
        if answer.is_ok() && none_gone {
            world.recorder.record(&Event::Renewed { session, sent, answered });
            continue;
        }
        let code = if answer.is_ok() { "unknown-session".to_owned() } else { answer.code() };
        world.recorder.record(&Event::Unknown { session, code, sent, answered });
        gone.store(true, Ordering::SeqCst);
        return;
    }
}
