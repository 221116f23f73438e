//! Histories in files: one event in JSON on each line.

use std::io::{self, BufRead, Write};

use thiserror::Error;

use crate::Event;

/// Why a history cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read the history: {0}")]
    Io(#[from] io::Error),
    /// A line is no event.
    #[error("line {line} is no event of a history: {error}")]
    Line {
        /// Which, counted from 1.
        line: usize,
        /// Why not.
        error: serde_json::Error,
    },
}

/// Reads a history. The last line may be cut off, as that of a process which was killed while it wrote.
pub fn read(mut from: impl BufRead) -> Result<Vec<Event>, ReadError> {
    let (mut events, mut text, mut line) = (Vec::new(), String::new(), 0);
    loop {
        text.clear();
        line += 1;
        if from.read_line(&mut text)? == 0 {
            return Ok(events);
        }
        if text.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(&text) {
            Ok(event) => events.push(event),
            Err(_) if !text.ends_with('\n') => return Ok(events),
            Err(error) => return Err(ReadError::Line { line, error }),
        }
    }
}

/// Writes one event as one line, in one call of `write`.
pub fn write_line(mut to: impl Write, event: &Event) -> io::Result<()> {
    let mut line = serde_json::to_string(event).map_err(io::Error::from)?;
    line.push('\n');
    to.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_but_for_a_line_that_was_cut_off() {
        let events = vec![
            Event::Closing { session: 3, at: 5 },
            Event::Silent { name: "a".to_owned(), ttl: 2, at: 9 },
        ];
        let mut bytes = Vec::new();
        for event in &events {
            write_line(&mut bytes, event).expect("memory has room");
        }
        assert_eq!(read(&bytes[..]).expect("it is a history"), events);
        assert_eq!(read(&bytes[..bytes.len() - 4]).expect("it is cut off"), events[..1]);
        bytes[3] = b'#';
        let error = read(&bytes[..]).expect_err("the first line is damaged").to_string();
        assert!(error.starts_with("line 1 is no event"), "{error}");
    }
}
