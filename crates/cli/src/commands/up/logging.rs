//! The node's log: events of `tracing`, written to standard error by a thread of its own. If that is not read, the
//! node goes on all the same: lines are left out and counted.

use std::fmt::Debug;
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use conclave_server::DROPPED_LOG_LINES;
use tracing::field::Field;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Writer as Formatter, debug_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, fmt, registry};

use crate::Terminal;

/// How many lines may wait to be written.
const LINES: usize = 1024;
/// For how long the last lines may take to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is logged, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArgs {
    /// What is logged: error, warn, info, debug or trace; or by module, as in info,openraft=debug
    #[arg(long, value_name = "LEVEL", env = "CONCLAVE_LOG_LEVEL", default_value = "info")]
    #[arg(help_heading = "Output")]
    pub log_level: Filter,
    /// How: a line of text for each event, or a JSON object
    #[arg(long, value_name = "FORMAT", env = "CONCLAVE_LOG_FORMAT", value_enum)]
    #[arg(default_value_t = Format::Text, help_heading = "Output")]
    pub log_format: Format,
}

/// How an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// As text.
    Text,
    /// As a JSON object.
    Json,
}

/// Which events are written.
#[derive(Clone, Debug)]
pub struct Filter(Targets);

impl FromStr for Filter {
    type Err = String;

    /// A level alone is for what the node itself says; libraries say only what they warn of, and openraft only errors:
    /// it warns of what happens at every start.
    fn from_str(text: &str) -> Result<Self, String> {
        let known = "write error, warn, info, debug, trace or off, and module=level for a module";
        let parsed: Targets = text.parse().map_err(|error| format!("{error}; {known}"))?;
        let Some(level) = parsed.default_level().filter(|_| !text.contains('=')) else {
            return Ok(Self(parsed));
        };
        let others = Targets::new().with_default(level.min(LevelFilter::WARN));
        let others = others.with_target("openraft", level.min(LevelFilter::ERROR));
        Ok(Self(others.with_target("conclave", level)))
    }
}

/// The thread that writes the log.
pub(super) struct Log {
    /// Asks the thread to end.
    end: SyncSender<Line>,
    /// Closed when the thread has ended.
    written: Receiver<()>,
}

/// What the thread is told.
enum Line {
    Write(Vec<u8>),
    End,
}

impl LogArgs {
    /// From now on, what happens in this process is logged.
    pub(super) fn start(&self, terminal: &Terminal) -> Log {
        let (lines, queue) = sync_channel(LINES);
        let (open, written) = sync_channel(0);
        let writer = Writer { lines: lines.clone(), dropped: &DROPPED_LOG_LINES };
        thread::spawn(move || {
            let _open: SyncSender<()> = open;
            write_all(&queue, &mut io::stderr());
        });
        let filter = self.log_level.0.clone();
        // In a program that embeds this one, its own log stands.
        let _ = match self.log_format {
            Format::Text => {
                let layer = fmt::layer().fmt_fields(debug_fn(write_field));
                let layer = layer.with_ansi(terminal.is_stderr_coloured());
                let layer = layer.with_writer(writer).with_filter(filter);
                tracing::subscriber::set_global_default(registry().with(layer))
            }
            Format::Json => {
                let layer = fmt::layer().json().flatten_event(true).with_writer(writer);
                tracing::subscriber::set_global_default(registry().with(layer.with_filter(filter)))
            }
        };
        Log { end: lines, written }
    }
}

/// Fields of the node's own events that are in their text already.
const IN_TEXT: [&str; 7] = ["event", "session", "lock", "election", "token", "by", "reason"];

/// Writes a part of an event as text, on one line.
fn write_field(out: &mut Formatter<'_>, field: &Field, value: &dyn Debug) -> std::fmt::Result {
    match field.name() {
        "message" => {}
        name if IN_TEXT.contains(&name) => return Ok(()),
        name => write!(out, " {name}=")?,
    }
    for c in format!("{value:?}").chars() {
        if c.is_control() {
            write!(out, "{}", c.escape_default())?;
        } else {
            out.write_char(c)?;
        }
    }
    Ok(())
}

fn write_all(queue: &Receiver<Line>, out: &mut dyn Write) {
    for line in queue {
        match line {
            // Standard error may be closed; then there is no place to say so.
            Line::Write(line) => drop(out.write_all(&line)),
            Line::End => return,
        }
    }
}

impl Log {
    /// Says how many lines are missing, if any, and waits until all is written, unless it is not read.
    pub(super) fn finish(self) {
        let dropped = DROPPED_LOG_LINES.load(Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, "some lines of the log were left out, since it was not read");
        }
        if self.end.try_send(Line::End).is_ok() {
            let _ = self.written.recv_timeout(PATIENCE);
        }
    }
}

/// Hands lines to the thread, if there is room.
#[derive(Clone)]
struct Writer {
    lines: SyncSender<Line>,
    dropped: &'static AtomicU64,
}

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(Line::Write(line.to_vec())) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Writer {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_level_is_for_the_node_and_libraries_only_warn() {
        let Filter(filter) = "debug".parse().expect("it is a level");
        assert!(filter.would_enable("conclave_server::listen", &Level::DEBUG));
        assert!(!filter.would_enable("openraft::core", &Level::INFO));
        assert!(!filter.would_enable("openraft::core", &Level::WARN));
        assert!(filter.would_enable("hyper::proto", &Level::WARN));
        let Filter(filter) = "error".parse().expect("it is a level");
        assert!(!filter.would_enable("hyper::proto", &Level::WARN));
        let Filter(filter) = "warn,openraft=debug".parse().expect("it is a filter");
        assert!(filter.would_enable("openraft::core", &Level::DEBUG));
        assert!(!filter.would_enable("conclave_server", &Level::INFO));
        let error = "conclave=loud".parse::<Filter>().expect_err("there is no such level");
        assert!(error.contains("module=level"), "{error}");
    }

    #[test]
    fn lines_that_find_no_room_are_left_out_and_counted() {
        let (lines, queue) = sync_channel(2);
        static DROPPED: AtomicU64 = AtomicU64::new(0);
        let mut writer = Writer { lines, dropped: &DROPPED };
        for line in ["one\n", "two\n", "three\n", "four\n"] {
            writer.write_all(line.as_bytes()).expect("it never fails");
        }
        assert_eq!(DROPPED.load(Ordering::Relaxed), 2);
        drop(writer);
        let mut out = Vec::new();
        write_all(&queue, &mut out);
        assert_eq!(out, b"one\ntwo\n");
    }
}
