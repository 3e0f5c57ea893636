//! Why the program ends without a report, with the exit code that says so.

use std::fmt;

use spec::SpecError;

/// An end without a report.
#[derive(Debug)]
pub struct Failure {
    /// The process's exit code.
    pub code: u8,
    message: String,
}

/// Exit code: the request was wrong.
pub const WRONG_REQUEST: u8 = 2;
/// Exit code: the target could not be measured at all.
pub const NO_TARGET: u8 = 4;
/// Exit code: stopped by a signal, as shells have it.
pub const STOPPED: u8 = 130;

impl Failure {
    /// The request was wrong, by these faults.
    pub fn wrong_request(errors: &[SpecError]) -> Self {
        let texts: Vec<String> = errors.iter().map(SpecError::to_string).collect();
        Self { code: WRONG_REQUEST, message: texts.join("\n\n") }
    }

    /// The request was wrong.
    pub fn request(error: impl Into<anyhow::Error>) -> Self {
        Self { code: WRONG_REQUEST, message: chain(&error.into()) }
    }

    /// The target could not be measured at all.
    pub fn target(error: impl Into<anyhow::Error>) -> Self {
        Self { code: NO_TARGET, message: chain(&error.into()) }
    }

    /// A signal ended it before there was anything to tell.
    pub fn stopped(what: &str) -> Self {
        Self { code: STOPPED, message: what.to_owned() }
    }

    /// The same end, with a way on.
    pub fn hint(self, hint: &str) -> Self {
        Self { message: format!("{}\nhint: {hint}", self.message), ..self }
    }

    /// The exit code that an error stands for: that of the failure in it, else "the request was wrong".
    pub fn code_of(error: &anyhow::Error) -> u8 {
        error.downcast_ref::<Failure>().map_or(WRONG_REQUEST, |failure| failure.code)
    }
}

/// The error and its causes in one text; a cause that a message repeats already is told once.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let io = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let once = anyhow::Error::from(io()).context(format!("cannot read x: {}", io()));
        assert_eq!(chain(&once).matches(&io().to_string()).count(), 1);
        let plain = anyhow::Error::from(io()).context("cannot read x");
        assert_eq!(chain(&plain), format!("cannot read x: {}", io()));
    }
}
