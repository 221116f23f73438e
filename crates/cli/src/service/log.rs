use std::io::Write;

use serde_json::{Value, json};

use super::ServiceArgs;
use crate::Terminal;

/// What a command says while it is at work: lines on standard error, for standard output may be its child's.
pub(crate) struct Voice {
    terminal: Terminal,
    subject: String,
    json: bool,
    verbose: bool,
}

impl Voice {
    /// A voice that speaks of something.
    pub(crate) fn new(
        terminal: &Terminal,
        subject: String,
        args: &ServiceArgs,
        verbose: bool,
    ) -> Self {
        Self { terminal: *terminal, subject, json: args.json, verbose }
    }

    /// Whether somebody wants to hear of everything.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Says something that matters.
    pub(crate) fn say(&self, event: &str, text: &str) {
        self.tell(json!({ "event": event, "message": text }));
    }

    /// Says something to those who want to hear of everything.
    pub(crate) fn verbosely(&self, event: &str, text: &str) {
        if self.verbose {
            self.say(event, text);
        }
    }

    fn tell(&self, mut value: Value) {
        let subject = &self.subject;
        // Standard error may be closed; then there is nobody to tell.
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
