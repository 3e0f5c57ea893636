//! What is wrong with a spec: data, printed elsewhere.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// One fault of a spec: what was expected, what came, what to do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema, thiserror::Error)]
pub struct SpecError {
    /// One sentence: what is wrong.
    pub message: String,
    /// The key concerned, dotted: `load.rate`.
    pub key: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// The place in the file.
    pub excerpt: Option<Box<Excerpt>>,
}

/// Some lines of a file with a mark below the last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Excerpt {
    /// Name of the file as given.
    pub file: String,
    /// Number of the marked line, from 1.
    pub line: usize,
    /// Column of the mark in characters, from 0.
    pub column: usize,
    /// Width of the mark in characters, at least 1.
    pub width: usize,
    /// The marked line and up to two before it.
    pub lines: Vec<String>,
    /// What stands beside the mark.
    pub label: Option<String>,
}

impl SpecError {
    /// A fault without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }
    /// With the key concerned.
    #[must_use]
    pub fn at(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
    /// With what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for SpecError {
    /// The whole text without colour: `file:line: message`, the lines with the mark, the hint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(excerpt) = &self.excerpt {
            write!(f, "{}:{}: ", excerpt.file, excerpt.line)?;
        }
        f.write_str(&self.message)?;
        if let Some(excerpt) = &self.excerpt {
            write!(f, "\n\n{excerpt}")?;
        }
        if let Some(hint) = &self.hint {
            let gap = if self.excerpt.is_some() { "\n\n" } else { "\n" };
            write!(f, "{gap}hint: {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.line.to_string().len().max(4);
        let first = (self.line + 1).saturating_sub(self.lines.len());
        for (number, line) in (first..).zip(&self.lines) {
            writeln!(f, "{number:>width$} │ {line}")?;
        }
        write!(f, "{:>width$} │ {}{}", "", " ".repeat(self.column), "^".repeat(self.width.max(1)))?;
        match &self.label {
            Some(label) => write!(f, " {label}"),
            None => Ok(()),
        }
    }
}

/// A text that does not parse: what is wrong, and what to do where that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// One sentence: what was expected, what came.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl ParseError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<crate::units::ParseUnitError> for ParseError {
    fn from(error: crate::units::ParseUnitError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<ParseError> for SpecError {
    fn from(error: ParseError) -> Self {
        Self { message: error.message, hint: error.hint, ..Self::default() }
    }
}

/// The name nearest to `got`, if one is near enough to be meant.
pub fn nearest<'a>(got: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let got = got.to_lowercase().replace('-', "_");
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&got, &name.replace('-', "_")), name))
        .filter(|(distance, name)| *distance <= (name.len().max(got.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        let names = ["ttft", "tpot", "e2e", "max_gap", "burstiness"];
        assert_eq!(nearest("tpott", names), Some("tpot"));
        assert_eq!(nearest("burstyness", names), Some("burstiness"));
        assert_eq!(nearest("max-gap", names), Some("max_gap"));
        assert_eq!(nearest("banana", names), None);
        assert_eq!(nearest("", names), None);
    }
}
