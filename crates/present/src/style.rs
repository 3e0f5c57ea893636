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

    /// Columns that a sign takes.
    pub(crate) fn sign_width(&self) -> usize {
        if self.ascii { 4 } else { 1 }
    }

    /// The sign of a check, padded to the column of signs.
    pub(crate) fn check_column(&self, state: CheckState) -> String {
        let width = match state {
            CheckState::Pass if self.ascii => 2,
            CheckState::Fail if self.ascii => 4,
            _ => 1,
        };
        self.padded(self.check(state), width)
    }

    /// The sign of a limit, padded to the column of signs.
    pub(crate) fn met_column(&self, met: Option<bool>) -> String {
        match met {
            Some(true) => self.check_column(CheckState::Pass),
            Some(false) => self.check_column(CheckState::Fail),
            None => self.padded(self.met(None), 1),
        }
    }

    fn padded(&self, painted: String, width: usize) -> String {
        format!("{painted}{}", " ".repeat(self.sign_width().saturating_sub(width)))
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
        text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
            match c {
                c if c.is_ascii() => out.push(c),
                '\u{a0}' => out.push(' '),
                '–' | '−' | '—' => out.push('-'),
                '≤' => out.push_str("<="),
                '≥' => out.push_str(">="),
                '±' => out.push_str("+-"),
                'µ' => out.push('u'),
                '×' => out.push('x'),
                '·' => out.push('.'),
                '…' => out.push_str("..."),
                '’' | '‘' => out.push('\''),
                '“' | '”' => out.push('"'),
                '✓' => out.push_str("ok"),
                '✕' => out.push_str("FAIL"),
                '◇' => out.push('~'),
                '∞' => out.push_str("inf"),
                _ => out.push('?'),
            }
            out
        })
    }
}
