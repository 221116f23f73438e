//! The little Markdown that module documentation uses, for the terminal.

use crate::terminal::{BOLD, NAME};

/// Renders `text` in lines of at most `width` characters, headings and code in their styles.
pub(crate) fn render(text: &str, width: usize) -> String {
    let width = width.clamp(20, 100);
    let mut out = String::new();
    let mut block: Option<Block> = None;
    let mut fenced = false;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            flush(&mut block, width, &mut out);
            fenced = !fenced;
        } else if fenced {
            out.push_str(&format!("    {line}\n"));
        } else if trimmed.is_empty() {
            flush(&mut block, width, &mut out);
            if !out.is_empty() && !out.ends_with("\n\n") {
                out.push('\n');
            }
        } else if let Some(heading) = trimmed.strip_prefix('#') {
            flush(&mut block, width, &mut out);
            let heading = heading.trim_start_matches('#').trim();
            out.push_str(&format!("{BOLD}{heading}{BOLD:#}\n"));
        } else if trimmed.starts_with('|') {
            flush(&mut block, width, &mut out);
            out.push_str(&format!("{line}\n"));
        } else if let Some(marker) = marker(trimmed) {
            flush(&mut block, width, &mut out);
            let indent = line.len() - trimmed.len();
            let rest = trimmed[marker..].trim_start().to_owned();
            let lead = format!("{:indent$}{}", "", &trimmed[..marker]);
            block = Some(Block { lead, text: rest });
        } else {
            match &mut block {
                Some(block) => {
                    block.text.push(' ');
                    block.text.push_str(trimmed);
                }
                None => block = Some(Block { lead: String::new(), text: trimmed.to_owned() }),
            }
        }
    }
    flush(&mut block, width, &mut out);
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

/// A paragraph, or an item of a list with its marker.
struct Block {
    lead: String,
    text: String,
}

/// The length of a list item's marker, `1. ` or `- `.
fn marker(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && text[digits..].starts_with(". ") {
        return Some(digits + 2);
    }
    (text.starts_with("- ") || text.starts_with("* ")).then_some(2)
}

fn flush(block: &mut Option<Block>, width: usize, out: &mut String) {
    let Some(Block { lead, text }) = block.take() else { return };
    let hang = lead.chars().count();
    let text = without_links(&text);
    let mut line = lead;
    let mut length = hang;
    let mut styler = Styler::default();
    for word in text.split_whitespace() {
        let visible =
            word.chars().filter(|c| !matches!(c, '`')).count() - word.matches("**").count() * 2;
        if length + visible + 1 > width && length > hang {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(hang);
            length = hang;
        } else if length > hang {
            line.push(' ');
            length += 1;
        }
        styler.push(word, &mut line);
        length += visible;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Turns backticks and double asterisks into styles, across words.
#[derive(Default)]
struct Styler {
    code: bool,
    strong: bool,
}

impl Styler {
    fn push(&mut self, word: &str, line: &mut String) {
        // A style ends with its line, and is taken up on the next word.
        line.push_str(&self.on());
        let mut rest = word;
        while let Some(c) = rest.chars().next() {
            if c == '`' {
                line.push_str(&self.off());
                self.code = !self.code;
                line.push_str(&self.on());
                rest = &rest[1..];
            } else if !self.code && rest.starts_with("**") {
                line.push_str(&self.off());
                self.strong = !self.strong;
                line.push_str(&self.on());
                rest = &rest[2..];
            } else {
                line.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        line.push_str(&self.off());
    }

    fn on(&self) -> String {
        match (self.code, self.strong) {
            (true, _) => format!("{NAME}"),
            (_, true) => format!("{BOLD}"),
            _ => String::new(),
        }
    }

    fn off(&self) -> String {
        if self.code || self.strong { format!("{NAME:#}") } else { String::new() }
    }
}

/// `[text](target)` becomes `text`; so does `` [`text`] ``.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        let Some(close) = rest[open..].find(']').map(|i| open + i) else { break };
        let label = &rest[open + 1..close];
        let after = &rest[close + 1..];
        let target = after.strip_prefix('(').and_then(|target| target.find(')'));
        out.push_str(&rest[..open]);
        match target {
            Some(end) => {
                out.push_str(label);
                rest = &after[end + 2..];
            }
            None if label.starts_with('`') => {
                out.push_str(label);
                rest = after;
            }
            None => {
                out.push_str(&rest[open..=close]);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str, width: usize) -> String {
        anstream::adapter::strip_str(&render(text, width)).to_string()
    }

    #[test]
    fn paragraphs_are_wrapped_anew_and_items_hang() {
        let text =
            "One two three\nfour five.\n\n# Rules\n\n1. Send `Reply` to **all**\n   others [x](y).";
        assert_eq!(
            plain(text, 20),
            "One two three four\nfive.\n\nRules\n\n1. Send Reply to all\n   others x.\n"
        );
    }

    #[test]
    fn intervals_are_not_links() {
        assert_eq!(
            plain("from [0, 1] to [`Model`] and a[i]", 80),
            "from [0, 1] to Model and a[i]\n"
        );
    }
}
