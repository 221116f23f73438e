use std::io::Write;

use serde_json::{Value, json};

use super::ServiceArgs;
use crate::Terminal;

/// The messages of a command while it is at work: lines on standard error, since standard output may be its child's.
pub(crate) struct Log {
    terminal: Terminal,
    subject: String,
    json: bool,
    verbose: bool,
}

impl Log {
    /// The log of a command about its subject, a lock or an election.
    pub(crate) fn new(
        terminal: &Terminal,
        subject: String,
        args: &ServiceArgs,
        verbose: bool,
    ) -> Self {
        Self { terminal: *terminal, subject, json: args.json, verbose }
    }

    /// Whether debugging messages are written.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Writes a message.
    pub(crate) fn info(&self, event: &str, text: &str) {
        self.tell(json!({ "event": event, "message": text }));
    }

    /// Writes a message if `--verbose` was given.
    pub(crate) fn debug(&self, event: &str, text: &str) {
        if self.verbose {
            self.info(event, text);
        }
    }

    fn tell(&self, mut value: Value) {
        let subject = &self.subject;
        // Standard error may be closed; then the message is lost.
        let mut out = self.terminal.stderr();
        let _ = if self.json {
            value["name"] = json!(subject);
            writeln!(out, "{value}")
        } else {
            let text = value["message"].as_str().unwrap_or_default();
            writeln!(out, "conclave: {subject}: {text}")
        };
    }
}
