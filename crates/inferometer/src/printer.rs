//! The only place that prints. Data goes to stdout, everything else to stderr.

use std::io::{self, IsTerminal, Write};

use anyhow::{Context, Result};
use present::Style;

use crate::cli::{Color, Screen};

/// Where and how things are shown.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    /// Colours and signs.
    pub style: Style,
    /// Errors only.
    pub quiet: bool,
}

impl Printer {
    /// From the flags and the terminal.
    pub fn new(screen: &Screen) -> Self {
        let dumb = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || std::env::var("TERM").is_ok_and(|t| t == "dumb");
        let color = match screen.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => io::stderr().is_terminal() && !dumb,
        };
        let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
            .is_none_or(|locale| {
                let locale = locale.to_lowercase();
                !(locale == "c" || locale == "posix") || locale.contains("utf")
            });
        let width = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| width.0);
        Self { style: Style { color, ascii: screen.ascii || !utf8, width }, quiet: screen.quiet }
    }

    /// A text for people. A closed stderr is no reason to stop.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// Something that went wrong without ending the program.
    pub fn warn(&self, text: &str) {
        let word = self.style.paint(present::Tone::Unsure, "warning:");
        let _ = writeln!(io::stderr(), "{word} {}", self.style.plain(text));
    }

    /// An error, with its cause and its hint.
    pub fn error(&self, error: &anyhow::Error) {
        let _ = writeln!(io::stderr(), "{}", present::terminal::error(&self.style, &format!("{error:#}")));
    }

    /// Data for machines. A closed pipe (`| head`) is no error.
    pub fn data(&self, text: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.context("cannot write to standard output"),
        }
    }
}
