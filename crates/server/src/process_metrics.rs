//! Metrics of the process rather than of a node, since a node whose disk has failed starts anew within the process;
//! those that every program has are under the names that Prometheus gives them.

use std::fmt;
use std::fs;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// Lines of the log that were left out, since those before them were not read. The program that writes the log
/// counts them.
pub static DROPPED_LOG_LINES: AtomicU64 = AtomicU64::new(0);

/// How often what was appended to the log could not be brought to disk.
pub(crate) static FLUSH_ERRORS: AtomicU64 = AtomicU64::new(0);

/// Adds the figures of the process to a registry without prefix.
pub(crate) fn register(all: &mut Registry) {
    all.register_collector(Box::new(Process));
    all.sub_registry_with_prefix("conclave").register_collector(Box::new(Counters));
}

/// What the system knows of the process.
#[derive(Debug)]
struct Process;

/// What is counted for the process.
#[derive(Debug)]
struct Counters;

/// `/proc/self/stat`, as far as it is of interest.
struct Stat {
    cpu_seconds: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
    threads: f64,
    /// When it began, in seconds since 1970.
    began: f64,
}

impl Stat {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // After the name, which may contain anything, but ends with the last parenthesis.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| -> Option<f64> { fields.get(number - 3)?.parse().ok() };
        let ticks = clock_ticks_per_second() as f64;
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / ticks,
            threads: field(20)?,
            began: *BOOTED + field(22)? / ticks,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * page_size() as f64,
        })
    }
}

/// When the machine was started, in seconds since 1970, as the system has it. It is read once, for it moves when the
/// clock is set.
static BOOTED: LazyLock<f64> = LazyLock::new(|| {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let booted = stat.lines().find_map(|line| line.strip_prefix("btime "));
    booted.and_then(|seconds| seconds.trim().parse().ok()).unwrap_or_default()
});

impl Collector for Process {
    fn encode(&self, mut all: DescriptorEncoder<'_>) -> fmt::Result {
        if let Some(stat) = Stat::read() {
            let cpu = ConstCounter::new(stat.cpu_seconds);
            let help = "Time that processors have spent on the process";
            let kind = cpu.metric_type();
            cpu.encode(all.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), kind)?)?;
            for (name, help, unit, value) in [
                (
                    "process_resident_memory",
                    "Memory in use",
                    Some(&Unit::Bytes),
                    stat.resident_bytes,
                ),
                (
                    "process_virtual_memory",
                    "Address space in use",
                    Some(&Unit::Bytes),
                    stat.virtual_bytes,
                ),
                (
                    "process_start_time",
                    "When the process began, since 1970",
                    Some(&Unit::Seconds),
                    stat.began,
                ),
                ("process_threads", "Threads", None, stat.threads),
            ] {
                gauge(&mut all, name, help, unit, value)?;
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // The one with which they are counted is not there any more.
            let open = open.count().saturating_sub(1);
            gauge(&mut all, "process_open_fds", "Open file descriptors", None, open as f64)?;
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            let help = "File descriptors that the process may have";
            gauge(&mut all, "process_max_fds", help, None, most as f64)?;
        }
        Ok(())
    }
}

impl Collector for Counters {
    fn encode(&self, mut all: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, count) in [
            ("log_flush_errors", "Times that the log could not be brought to disk", &FLUSH_ERRORS),
            (
                "diagnostic_lines_dropped",
                "Lines left out of what the node says to operators, since it was not read",
                &DROPPED_LOG_LINES,
            ),
        ] {
            let counter = ConstCounter::new(count.load(Ordering::Relaxed));
            counter.encode(all.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        Ok(())
    }
}

fn gauge(
    all: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: f64,
) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(all.encode_descriptor(name, help, unit, gauge.metric_type())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let rest: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = Stat::parse(&format!("7 (a) b) {}", rest.join(" "))).expect("it is complete");
        let ticks = clock_ticks_per_second() as f64;
        assert_eq!(stat.cpu_seconds, 29.0 / ticks);
        assert_eq!((stat.threads, stat.virtual_bytes), (20.0, 23.0));
        assert!(Stat::parse("7 (a) 1 2").is_none());
    }
}
