//! Metrics of a node, for Prometheus.
//!
//! Nothing is looked up by name while commands are carried out: each counter is at hand. Nothing is counted
//! while the log is read again after a restart, for it was counted before.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_machine::{Cause, Counts, Error, Event, Reply, RequestId, SessionId};
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::process_metrics;

/// Everything that is counted.
pub(crate) struct Metrics {
    registry: Registry,
    grants: Counter,
    elected: Counter,
    released: Causes,
    ended: Endings,
    deadlocks: Counter,
    waited: Histogram,
    handed_over: Histogram,
    entries: Counter,
    commands: Histogram,
    /// How long it takes until what was appended to the log is on disk.
    pub(crate) flushed: Histogram,
    /// Connections that are there, and how many there may be.
    pub(crate) connections: Gauge,
    pub(crate) most_connections: Gauge,
    /// Connections that were refused, since there were as many as there may be.
    pub(crate) connections_refused: Counter,
    /// How often the system refused to hand over a connection.
    pub(crate) accept_errors: Counter,
    /// Clients that were cut off since they did not read: too much waited to be sent to them.
    pub(crate) behind: Counter,
    /// Clients that were given up by the system: what was sent to them was not taken, or not even confirmed.
    pub(crate) unresponsive: Counter,
    /// Connections that were closed since nothing was asked on them.
    pub(crate) idle: Counter,
    refused: Family<Code, Counter>,
    sessions: Gauge,
    locks: Gauge,
    holds: Gauge,
    waits: Gauge,
    elections: Gauge,
    ready: Gauge,
    certificates: Family<File, Gauge>,
    disk_free: Gauge,
    disk_reserve: Gauge,
}

/// How a node does, when it is asked for its figures.
pub(crate) struct Vitals {
    pub(crate) counts: Counts,
    /// Whether it grants locks.
    pub(crate) is_ready: bool,
    /// Free space on its disk, and what is kept free of it.
    pub(crate) disk: (u64, u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Code {
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct File {
    file: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ForCause {
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ForReason {
    reason: &'static str,
}

/// A counter for each cause.
struct Causes {
    released: Counter,
    handed_over: Counter,
    cancelled: Counter,
    closed: Counter,
    expired: Counter,
    expelled: Counter,
    forced: Counter,
    preempted: Counter,
}

impl Causes {
    fn of(family: &Family<ForCause, Counter>) -> Self {
        let counter = |cause| family.get_or_create(&ForCause { cause }).clone();
        Self {
            released: counter("released"),
            handed_over: counter("handed_over"),
            cancelled: counter("cancelled"),
            closed: counter("closed"),
            expired: counter("expired"),
            expelled: counter("expelled"),
            forced: counter("forced"),
            preempted: counter("preempted"),
        }
    }

    fn count(&self, cause: Cause) {
        let counter = match cause {
            Cause::Released => &self.released,
            Cause::HandedOver => &self.handed_over,
            Cause::Cancelled => &self.cancelled,
            Cause::Closed => &self.closed,
            Cause::Expired => &self.expired,
            Cause::Expelled => &self.expelled,
            Cause::Forced => &self.forced,
            Cause::Preempted => &self.preempted,
        };
        counter.inc();
    }
}

/// A counter for each way in which a session ends.
struct Endings {
    closed: Counter,
    expired: Counter,
    expelled: Counter,
}

impl Endings {
    fn of(family: &Family<ForCause, Counter>) -> Self {
        let counter = |cause| family.get_or_create(&ForCause { cause }).clone();
        let (closed, expired) = (counter("closed"), counter("expired"));
        Self { closed, expired, expelled: counter("expelled") }
    }

    fn count(&self, cause: Cause) {
        let counter = match cause {
            Cause::Expired => &self.expired,
            Cause::Expelled => &self.expelled,
            _ => &self.closed,
        };
        counter.inc();
    }
}

/// From 0.1 milliseconds to 1.7 minutes.
fn spans() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 21))
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let (released, ended) = (Family::default(), Family::default());
        let cut_off = Family::<ForReason, Counter>::default();
        let cut_off_for = |reason| cut_off.get_or_create(&ForReason { reason }).clone();
        let mut metrics = Self {
            registry: Registry::default(),
            grants: Counter::default(),
            elected: Counter::default(),
            released: Causes::of(&released),
            ended: Endings::of(&ended),
            deadlocks: Counter::default(),
            waited: spans(),
            handed_over: spans(),
            entries: Counter::default(),
            commands: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            flushed: spans(),
            connections: Gauge::default(),
            most_connections: Gauge::default(),
            connections_refused: Counter::default(),
            accept_errors: Counter::default(),
            behind: cut_off_for("behind"),
            unresponsive: cut_off_for("unresponsive"),
            idle: cut_off_for("idle"),
            refused: Family::default(),
            sessions: Gauge::default(),
            locks: Gauge::default(),
            holds: Gauge::default(),
            waits: Gauge::default(),
            elections: Gauge::default(),
            ready: Gauge::default(),
            certificates: Family::default(),
            disk_free: Gauge::default(),
            disk_reserve: Gauge::default(),
        };
        metrics.register(released, ended);
        metrics.register_connections(cut_off);
        metrics
    }

    fn register(&mut self, released: Family<ForCause, Counter>, ended: Family<ForCause, Counter>) {
        process_metrics::register(&mut self.registry);
        let all = self.registry.sub_registry_with_prefix("conclave");
        let build = [("version", env!("CARGO_PKG_VERSION"))];
        all.register("build", "What was built", Info::new(build));
        all.register("ready", "Whether locks are granted: 1, or 0 if not", self.ready.clone());
        let help = "When the certificate that is shown to clients ends, since 1970";
        let ends = self.certificates.clone();
        all.register_with_unit("tls_certificate_not_after", help, Unit::Seconds, ends);
        let help = "Free space where the node keeps its data";
        all.register_with_unit("disk_free", help, Unit::Bytes, self.disk_free.clone());
        let help = "Free space below which nothing is granted";
        all.register_with_unit("disk_reserve", help, Unit::Bytes, self.disk_reserve.clone());
        all.register("sessions", "Sessions that live", self.sessions.clone());
        all.register("locks", "Locks that are held or waited for", self.locks.clone());
        all.register("holds", "Locks held, by each holder", self.holds.clone());
        all.register("waits", "Requests that wait", self.waits.clone());
        all.register("elections", "Elections with a leader or candidates", self.elections.clone());
        all.register("grants", "Locks granted", self.grants.clone());
        all.register("releases", "Locks held no more, by what ended it", released);
        all.register(
            "sessions_ended",
            "Sessions that ended; a lost lease is an expired one",
            ended,
        );
        all.register("leaderships", "Elections won", self.elected.clone());
        all.register("deadlocks", "Deadlocks found and broken", self.deadlocks.clone());
        all.register(
            "refusals",
            "Questions answered with an error, by its code",
            self.refused.clone(),
        );
        all.register("log_entries", "Entries of the log carried out", self.entries.clone());
        all.register(
            "log_entry_commands",
            "Commands in an entry of the log",
            self.commands.clone(),
        );
        let mut span = |name: &str, help: &str, spans: &Histogram| {
            all.register_with_unit(name, help, Unit::Seconds, spans.clone());
        };
        span("grant_wait", "From when a lock was asked for until it was granted", &self.waited);
        let help =
            "From when a release was received until the next in the queue was granted the lock";
        span("handoff_delay", help, &self.handed_over);
        span("log_flush", "From when an entry was appended until it was on disk", &self.flushed);
    }

    fn register_connections(&mut self, cut_off: Family<ForReason, Counter>) {
        let all = self.registry.sub_registry_with_prefix("conclave");
        all.register("connections", "Connections of clients", self.connections.clone());
        let help = "Connections that there may be; more are refused";
        all.register("connections_limit", help, self.most_connections.clone());
        let help = "Connections refused, since there were as many as there may be";
        all.register("connections_refused", help, self.connections_refused.clone());
        let help = "How often the system refused to hand over a connection";
        all.register("accept_errors", help, self.accept_errors.clone());
        let help = "Clients cut off: behind did not read what was sent to them, unresponsive confirmed nothing, idle \
                    asked nothing";
        all.register("clients_cut_off", help, cut_off);
    }

    /// Counts a request that was answered with an error.
    pub(crate) fn refuse(&self, code: conclave_api::Code) {
        self.refused.get_or_create(&Code { code: code.as_str().to_owned() }).inc();
    }

    /// When a certificate ends, in seconds since 1970.
    pub(crate) fn certificate_ends(&self, path: &Path, ends: i64) {
        let file = File { file: path.to_string_lossy().into_owned() };
        self.certificates.get_or_create(&file).set(ends);
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn text(&self, vitals: &Vitals) -> String {
        let Vitals { counts, is_ready, disk: (free, reserve) } = vitals;
        self.ready.set((*is_ready).into());
        self.disk_free.set((*free).try_into().unwrap_or(i64::MAX));
        self.disk_reserve.set((*reserve).try_into().unwrap_or(i64::MAX));
        let figures = [
            (&self.sessions, counts.sessions),
            (&self.locks, counts.locks),
            (&self.holds, counts.holds),
            (&self.waits, counts.waits),
            (&self.elections, counts.elections),
        ];
        for (gauge, count) in figures {
            gauge.set(count as i64);
        }
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("there is room for text");
        text
    }
}

/// Counts what is carried out.
pub(crate) struct Meter {
    metrics: Arc<Metrics>,
    /// When what waits was asked for.
    waiting: BTreeMap<(SessionId, RequestId), Instant>,
    /// When the commands that are being carried out were.
    now: Instant,
}

impl Meter {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, waiting: BTreeMap::new(), now: now() }
    }

    /// An entry of the log is being carried out.
    pub(crate) fn entry(&mut self, commands: usize) {
        self.now = now();
        self.metrics.entries.inc();
        self.metrics.commands.observe(commands as f64);
    }

    /// A command was carried out that had been received at some time, if by this node.
    pub(crate) fn carried(
        &mut self,
        asked: Option<(SessionId, RequestId)>,
        received: Option<Instant>,
        answer: &Result<Reply, Error>,
        events: &[Event],
    ) {
        let metrics = &*self.metrics;
        match answer {
            Ok(Reply::Granted { .. }) => {
                if let Some(received) = received {
                    metrics.waited.observe(self.since(received));
                }
            }
            Ok(Reply::Waiting) => {
                if let (Some(asked), Some(received)) = (asked, received) {
                    self.waiting.entry(asked).or_insert(received);
                }
            }
            Ok(Reply::Elected { .. }) => drop(metrics.elected.inc()),
            _ => {}
        }
        let mut given_back = None;
        for event in events {
            match event {
                Event::Granted { .. } => drop(metrics.grants.inc()),
                Event::Released { cause, .. } => {
                    metrics.released.count(*cause);
                    // What ends by itself is not received.
                    if !matches!(cause, Cause::Expired | Cause::Preempted) {
                        given_back = received;
                    }
                }
                Event::Ended { cause, .. } => metrics.ended.count(*cause),
                Event::Deadlock { .. } => drop(metrics.deadlocks.inc()),
                Event::Answered { session, request, answer } => {
                    let asked = self.waiting.remove(&(*session, *request));
                    match answer {
                        Ok(Reply::Granted { .. }) => {
                            if let Some(asked) = asked {
                                metrics.waited.observe(self.since(asked));
                            }
                            if let Some(given_back) = given_back {
                                metrics.handed_over.observe(self.since(given_back));
                            }
                        }
                        Ok(Reply::Elected { .. }) => drop(metrics.elected.inc()),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    fn since(&self, then: Instant) -> f64 {
        self.now.saturating_duration_since(then).max(Duration::ZERO).as_secs_f64()
    }
}

/// The time, to measure how long something takes.
#[expect(clippy::disallowed_methods, reason = "it is measured, and nothing depends on it")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use conclave_machine::{Acquire, Call, Command, Config, Machine, Open, Time, Via};

    use super::*;

    #[test]
    fn grants_waits_and_hand_overs_are_counted() {
        let mut machine = Machine::new(Config::default());
        let metrics = Arc::new(Metrics::new());
        let mut meter = Meter::new(metrics.clone());
        let mut number = 0;
        let mut carry_out = |command: Command| {
            number += 1;
            let asked = match command {
                Command::Request { session, request, .. } => Some((session, request)),
                _ => None,
            };
            let mut events = Vec::new();
            let received = now();
            let answer = machine.apply(Time::from_millis(number), command, &mut events);
            meter.entry(1);
            meter.carried(asked, Some(received), &answer, &events);
            answer
        };
        let mut open = || {
            let ttl = Duration::from_secs(10);
            let open = Open { name: "x".into(), host: "y".into(), ttl, ..Open::default() };
            match carry_out(Command::Open(open)) {
                Ok(Reply::Opened { session, .. }) => session,
                other => panic!("{other:?}"),
            }
        };
        let (one, two) = (open(), open());
        let ask = |session, request, call| Command::Request {
            session,
            request: RequestId(request),
            received: RequestId(0),
            via: Via::Stream,
            call,
        };
        let acquire = || Call::Acquire(Acquire::exclusive("disk"));
        let Ok(Reply::Granted { token, .. }) = carry_out(ask(one, 1, acquire())) else { panic!() };
        assert_eq!(carry_out(ask(two, 1, acquire())), Ok(Reply::Waiting));
        let release = Call::Release { lock: "disk".into(), token, to: None };
        carry_out(ask(one, 2, release)).expect("it holds the lock");
        assert_eq!((metrics.grants.get(), metrics.released.released.get()), (2, 1));
        assert!(meter.waiting.is_empty(), "no request waits any more");
        let disk = (1 << 30, 1 << 24);
        let text = metrics.text(&Vitals { counts: machine.counts(), is_ready: true, disk });
        for line in [
            "conclave_holds 1",
            "conclave_sessions 2",
            "conclave_grants_total 2",
            "conclave_connections 0",
            "conclave_clients_cut_off_total{reason=\"idle\"} 0",
            "conclave_grant_wait_seconds_count 2",
            "conclave_handoff_delay_seconds_count 1",
            "conclave_ready 1",
            "conclave_disk_free_bytes 1073741824",
            "conclave_disk_reserve_bytes 16777216",
            "conclave_log_flush_errors_total 0",
            concat!("conclave_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in {text}");
        }
        // Of the process, under the names that dashboards know.
        for name in [
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_start_time_seconds",
            "process_open_fds",
            "process_max_fds",
        ] {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            let value: f64 = line.and_then(|value| value.parse().ok()).expect(name);
            assert!(value.is_finite() && (value > 0.0 || name.contains("cpu")), "{name}: {value}");
        }
        assert!(text.contains("conclave_releases_total{cause=\"released\"} 1"), "{text}");
    }
}
