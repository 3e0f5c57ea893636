//! A text that must not appear anywhere but in the request that needs it.

use std::fmt;

/// An API key. It can be sent, not shown: neither `Debug` nor any artefact holds it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }
    /// The text itself, for the header that carries it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
    /// Takes the secret out of a text that somebody else wrote, such as a server's error message.
    pub fn redact(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "<redacted>") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_never_shown() {
        let secret = Secret::new("sk-123");
        assert_eq!(format!("{secret:?}"), "<redacted>");
        assert_eq!(secret.redact("key sk-123 is wrong"), "key <redacted> is wrong");
        assert_eq!(Secret::new("").redact("as it is"), "as it is");
    }
}
