//! Keeps secrets out of every artefact: by the name of a field, and by the value of a known key.

use std::collections::BTreeMap;

use spec::{Spec, Target};

/// What stands in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Words that make a header, label or body field secret. A name counts when one of its parts is
/// one of these, or two parts in a row are (`api-key`).
const SECRET_PARTS: [&str; 13] = [
    "authorization",
    "apikey",
    "password",
    "passwd",
    "secret",
    "bearer",
    "credential",
    "credentials",
    "cookie",
    "signature",
    "auth",
    "accesstoken",
    "jwt",
];

/// Whether a header, label or field of this name holds a secret by its sound: `Authorization`,
/// `x-api-key`, `Cookie`, `hf_token`. Names of token counts (`max_tokens`) do not.
pub fn is_secret_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let parts: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    parts.iter().any(|part| SECRET_PARTS.contains(part))
        || parts.windows(2).any(|pair| matches!(pair, ["api" | "access" | "private" | "subscription", "key"]))
        || parts.last().is_some_and(|last| *last == "token")
        || lower == "key"
}

/// The spec as it may be written: values of secret names and passwords in addresses are replaced.
pub fn redact_spec(spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    redact_map(&mut spec.api.headers);
    redact_map(&mut spec.labels);
    for (name, value) in &mut spec.api.extra_body {
        redact_json(name, value);
    }
    if let Target::Http(url) = &mut spec.target {
        *url = redact_url(url);
    }
    spec
}

/// Replaces the values of secret names.
pub fn redact_map(map: &mut BTreeMap<String, String>) {
    for (name, value) in map {
        if is_secret_name(name) {
            REDACTED.clone_into(value);
        }
    }
}

fn redact_json(name: &str, value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            fields.iter_mut().for_each(|(name, value)| redact_json(name, value));
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| redact_json(name, item)),
        serde_json::Value::String(text) if is_secret_name(name) => REDACTED.clone_into(text),
        _ => {}
    }
}

/// The address without a user's name and password: `http://[redacted]@host/`.
pub fn redact_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..authority_end].rfind('@') {
        Some(at) => format!("{scheme}://{REDACTED}{}", &rest[at..]),
        None => url.to_owned(),
    }
}

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
    fn names_that_sound_secret() {
        for name in [
            "Authorization",
            "x-api-key",
            "X-API-Key",
            "api_key",
            "apikey",
            "Cookie",
            "proxy-authorization",
            "hf_token",
            "X-Auth-Token",
            "password",
            "client-secret",
            "ocp-apim-subscription-key",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in
            ["max_tokens", "content-type", "engine", "x-request-id", "tokenizer", "author", "keyboard"]
        {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn addresses_lose_their_passwords() {
        assert_eq!(redact_url("http://me:pw@host:8000/v1"), "http://[redacted]@host:8000/v1");
        assert_eq!(redact_url("http://host/a@b"), "http://host/a@b");
    }

    #[test]
    fn known_values_go_wherever_they_are() {
        let scrubber = Scrubber::new(["sk-abc".to_owned(), "sk-abcdef".to_owned(), "x".to_owned()]);
        assert_eq!(scrubber.scrub("bad key sk-abcdef, not sk-abc"), "bad key [redacted], not [redacted]");
        assert_eq!(scrubber.scrub("x"), "x");
        assert!(!format!("{scrubber:?}").contains("sk-"));
    }
}
