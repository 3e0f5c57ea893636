//! Takes the values of known keys out of texts that somebody else wrote.

use spec::secret::REDACTED;

/// Replaces the values of known secrets wherever they turn up, for example in a server's error
/// message that repeats the key.
#[derive(Clone, Default)]
pub struct Scrubber {
    secrets: Vec<String>,
}

impl Scrubber {
    /// Knows these secrets. Those shorter than 4 bytes are left out: replacing them would only
    /// garble texts.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().filter(|s| s.len() >= 4).collect();
        // Longest first, so that a secret that contains another goes as a whole.
        secrets.sort_by_key(|s| std::cmp::Reverse(s.len()));
        Self { secrets }
    }

    /// The text without the secrets.
    pub fn scrub(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, REDACTED))
    }

    /// Whether the text holds a secret.
    pub fn finds(&self, text: &str) -> bool {
        self.secrets.iter().any(|secret| text.contains(secret))
    }

    /// Scrubs in place.
    pub fn scrub_in(&self, text: &mut String) {
        if self.finds(text) {
            *text = self.scrub(text);
        }
    }
}

/// Never shows the secrets.
impl std::fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scrubber({} secrets)", self.secrets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_go_wherever_they_are() {
        let scrubber = Scrubber::new(["sk-abc".to_owned(), "sk-abcdef".to_owned(), "x".to_owned()]);
        assert_eq!(scrubber.scrub("bad key sk-abcdef, not sk-abc"), "bad key [redacted], not [redacted]");
        assert_eq!(scrubber.scrub("x"), "x");
        assert!(!format!("{scrubber:?}").contains("sk-"));
    }
}
