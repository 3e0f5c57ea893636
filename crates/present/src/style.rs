//! Colours and signs of the terminal. Colour only repeats what a sign or a word says.

use decide::{CheckState, TrustVerdict};

/// How text is shown on the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// ANSI colours (the 16 of the user's theme).
    pub color: bool,
    /// Signs in ASCII.
    pub ascii: bool,
    /// Columns.
    pub width: u16,
}

impl Default for Style {
    fn default() -> Self {
        Self { color: false, ascii: false, width: 80 }
    }
}

/// What a piece of text stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Passed, valid, holds.
    Pass,
    /// Failed, invalid, misses.
    Fail,
    /// Unknown, undecided, limited.
    Unsure,
    /// The answer's figure.
    Value,
    /// Intervals, paths, units in heads.
    Dim,
    /// The word before an error.
    Error,
}

impl Style {
    /// `text` in its tone.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.color {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Pass => "32",
            Tone::Fail => "31",
            Tone::Unsure => "33",
            Tone::Value => "1",
            Tone::Dim => "90",
            Tone::Error => "1;31",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// The sign of a check's state, painted.
    pub fn check(&self, state: CheckState) -> String {
        let (tone, sign, ascii) = match state {
            CheckState::Pass => (Tone::Pass, "✓", "ok"),
            CheckState::Fail => (Tone::Fail, "✕", "FAIL"),
            CheckState::Unknown => (Tone::Unsure, "?", "?"),
        };
        self.paint(tone, if self.ascii { ascii } else { sign })
    }

    /// The sign of a limit: met, not met, undecided.
    pub fn met(&self, met: Option<bool>) -> String {
        match met {
            Some(true) => self.check(CheckState::Pass),
            Some(false) => self.check(CheckState::Fail),
            None => self.paint(Tone::Unsure, if self.ascii { "~" } else { "◇" }),
        }
    }

    /// The sign and word of the verdict on the measurement.
    pub fn verdict(&self, verdict: TrustVerdict) -> String {
        let (tone, sign, ascii, word) = match verdict {
            TrustVerdict::Valid => (Tone::Pass, "✓", "ok", "valid"),
            TrustVerdict::Limited => (Tone::Unsure, "◇", "~", "limited"),
            TrustVerdict::Invalid => (Tone::Fail, "✕", "FAIL", "invalid"),
        };
        self.paint(tone, &format!("{} {word}", if self.ascii { ascii } else { sign }))
    }

    /// Replaces signs that an ASCII terminal cannot show.
    pub fn plain(&self, text: &str) -> String {
        if !self.ascii {
            return text.to_owned();
        }
        text.chars()
            .map(|c| match c {
                '\u{a0}' => " ".to_owned(),
                '–' | '−' => "-".to_owned(),
                '≤' => "<=".to_owned(),
                '≥' => ">=".to_owned(),
                'µ' => "u".to_owned(),
                '×' => "x".to_owned(),
                '·' | '…' => ".".to_owned(),
                '✓' => "ok".to_owned(),
                '✕' => "FAIL".to_owned(),
                '◇' => "~".to_owned(),
                '∞' => "inf".to_owned(),
                c => c.to_string(),
            })
            .collect()
    }
}
