//! What the terminal can show.

use std::io::{self, IsTerminal};

use anstream::AutoStream;
use anstyle::{AnsiColor, Color as Ansi, Style};
use clap::ValueEnum;

/// How wide lines are when nothing says otherwise.
const WIDTH: usize = 100;

/// How to print.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TerminalArgs {
    /// When to use colour
    #[arg(long, global = true, value_enum, value_name = "WHEN", env = "CONCLAVE_COLOR")]
    #[arg(default_value_t = Color::Auto, help_heading = "Output")]
    pub color: Color,
    /// Draw with plain ASCII characters (the default where the locale is not UTF-8)
    #[arg(long, global = true, env = "CONCLAVE_ASCII", help_heading = "Output")]
    pub ascii: bool,
    /// How many characters fit on a line (by default what the terminal says)
    #[arg(long, global = true, value_name = "COLUMNS", env = "CONCLAVE_WIDTH")]
    #[arg(help_heading = "Output", value_parser = clap::value_parser!(u16).range(20..))]
    pub width: Option<u16>,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// When to use colour.
    pub color: Color,
    /// Whether to keep to ASCII.
    pub ascii: bool,
    /// How many characters fit on a line.
    pub width: usize,
}

impl Terminal {
    /// The terminal this program writes to, with what the user said about it.
    pub fn new(args: &TerminalArgs) -> Self {
        let measured = || {
            let size = terminal_size::terminal_size();
            size.map_or(WIDTH, |(width, _)| usize::from(width.0).max(20))
        };
        Self {
            color: args.color,
            ascii: args.ascii || !utf8_locale(),
            width: args.width.map_or_else(measured, usize::from),
        }
    }

    /// Standard output, without colour where none is wanted.
    pub fn stdout(&self) -> impl io::Write + use<> {
        let choice = self.choice(io::stdout().is_terminal());
        let out = io::BufWriter::new(AutoStream::new(io::stdout(), choice));
        Plain { ascii: self.ascii, out }
    }

    /// Standard error, without colour where none is wanted.
    pub fn stderr(&self) -> impl io::Write + use<> {
        AutoStream::new(io::stderr(), self.choice(io::stderr().is_terminal()))
    }

    /// Whether what goes to standard error may be in colour.
    pub fn is_stderr_coloured(&self) -> bool {
        self.choice(io::stderr().is_terminal()) != anstream::ColorChoice::Never
    }

    fn choice(&self, terminal: bool) -> anstream::ColorChoice {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self.color {
            Color::Always => anstream::ColorChoice::AlwaysAnsi,
            Color::Auto if terminal && !no_color => anstream::ColorChoice::Always,
            Color::Auto | Color::Never => anstream::ColorChoice::Never,
        }
    }
}

/// Passes text on, in ASCII if so wanted.
struct Plain<W> {
    ascii: bool,
    out: W,
}

impl<W: io::Write> io::Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.ascii || bytes.is_ascii() {
            return self.out.write(bytes);
        }
        // Formatting writes whole characters.
        let mut text = String::with_capacity(bytes.len());
        for c in String::from_utf8_lossy(bytes).chars() {
            match c {
                '\0'..='\x7f' => text.push(c),
                '–' | '—' | '−' | '─' | '═' => text.push('-'),
                '…' => text.push_str(".."),
                '→' => text.push_str("->"),
                '≤' => text.push_str("<="),
                '≥' => text.push_str(">="),
                '·' | '×' => text.push('*'),
                'µ' => text.push('u'),
                'é' | 'è' => text.push('e'),
                '“' | '”' | '‘' | '’' => text.push('"'),
                _ => text.push('?'),
            }
        }
        self.out.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Whether the environment says that characters beyond ASCII can be shown. Where it says nothing,
/// they can.
fn utf8_locale() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).is_none_or(|locale| {
        let locale = locale.to_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

const fn colored(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(Ansi::Ansi(color)))
}

/// Headings and what matters.
pub const BOLD: Style = Style::new().bold();
/// What matters less.
pub const DIM: Style = Style::new().dimmed();
/// What went wrong.
pub const ERROR: Style = colored(AnsiColor::Red).bold();
/// What is as it should be.
pub const GOOD: Style = colored(AnsiColor::Green).bold();
/// What to look at.
pub const WARN: Style = colored(AnsiColor::Yellow);
/// Names.
pub const NAME: Style = colored(AnsiColor::Cyan);

/// What switches a style on, and what switches it off.
pub fn style(style: Style) -> (anstyle::Style, anstyle::Reset) {
    (style, anstyle::Reset)
}

/// `text` in a style.
pub fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}
