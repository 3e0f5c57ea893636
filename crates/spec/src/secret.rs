//! What must never be written down: keys, and values whose names sound secret.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::{Spec, Target};

/// What stands in an artefact in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// An API key. It has no serialised form and its debug form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the key, without the line end that a file brings.
    pub fn new(key: impl Into<String>) -> Self {
        let mut key = key.into();
        key.truncate(key.trim_end_matches(['\r', '\n']).len());
        Secret(key)
    }
    /// The key itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
    /// A text that somebody else wrote, such as a server's error message, without the key.
    pub fn redact(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, REDACTED) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// Whether a header's value is taken for a secret by its name.
pub fn secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    const WORDS: [&str; 9] =
        ["auth", "token", "key", "secret", "cookie", "password", "credential", "signature", "session"];
    WORDS.iter().any(|word| name.contains(word))
}

/// Whether a field's value is taken for a secret by its name. Narrower than for headers, since
/// `max_tokens` and `stop_token_ids` are no secrets.
pub fn secret_field(name: &str) -> bool {
    let mut words: Vec<String> = vec![String::new()];
    let mut before_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && before_lower) {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.iter_mut().last().into_iter().for_each(|w| w.extend(c.to_lowercase()));
        }
        before_lower = c.is_lowercase();
    }
    let is = |word: &str| words.iter().any(|w| w == word);
    let last = words.last().map_or("", String::as_str);
    [
        "authorization",
        "auth",
        "secret",
        "password",
        "passwd",
        "cookie",
        "credential",
        "credentials",
        "apikey",
        "accesstoken",
        "bearer",
        "jwt",
    ]
    .into_iter()
    .any(is)
        || matches!(last, "token" | "key" | "signature" | "sig")
}

/// Replaces the values of headers whose names sound secret.
pub fn redact_headers(headers: &mut BTreeMap<String, String>) {
    redact_values(headers, secret_header);
}

/// Replaces the values of labels and facts whose names sound secret.
pub fn redact_fields(fields: &mut BTreeMap<String, String>) {
    redact_values(fields, secret_field);
}

fn redact_values(map: &mut BTreeMap<String, String>, secret: impl Fn(&str) -> bool) {
    map.iter_mut().filter(|(name, _)| secret(name)).for_each(|(_, value)| REDACTED.clone_into(value));
}

/// An address as it may be written down: without user and password, and without the values of
/// query parameters whose names sound secret.
pub fn redact_url(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let mut out = scheme;
    match authority.rsplit_once('@') {
        Some((_, host)) if !out.is_empty() => {
            out.push_str(REDACTED);
            out.push('@');
            out.push_str(host);
        }
        _ => out.push_str(authority),
    }
    out.push_str(path);
    for (i, pair) in query.into_iter().flat_map(|q| q.split('&')).enumerate() {
        out.push(if i == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, _)) if secret_field(name) => {
                out.push_str(name);
                out.push('=');
                out.push_str(REDACTED);
            }
            _ => out.push_str(pair),
        }
    }
    out
}

/// Replaces the values of fields whose names sound secret, at any depth.
pub fn redact_json(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                match value {
                    Value::Null => {}
                    _ if secret_field(name) => *value = REDACTED.into(),
                    other => redact_json(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact_json),
        _ => {}
    }
}

impl Spec {
    /// The spec as it may be written down: header values, fields of the extra body, labels and
    /// parts of the address that sound secret are replaced. Everything else is as it was.
    #[must_use]
    pub fn redacted(&self) -> Spec {
        let mut spec = self.clone();
        for target in spec.target.iter_mut() {
            if let Target::Http(url) = target {
                *url = redact_url(url);
            }
        }
        if let Some(path) = &mut spec.api.path {
            *path = redact_url(path);
        }
        spec.api.readiness.path = redact_url(&spec.api.readiness.path);
        redact_headers(&mut spec.api.headers);
        redact_fields(&mut spec.labels);
        let mut body = Value::Object(std::mem::take(&mut spec.api.extra_body));
        redact_json(&mut body);
        if let Value::Object(map) = body {
            spec.api.extra_body = map;
        }
        spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show() {
        let secret = Secret::new("sk-123\n");
        assert_eq!(format!("{secret:?}"), "[redacted]");
        assert_eq!(secret.expose(), "sk-123");
        assert_eq!(secret.redact("key sk-123 is wrong"), "key [redacted] is wrong");
        assert_eq!(Secret::new("").redact("as it is"), "as it is");
    }

    #[test]
    fn names_that_sound_secret() {
        for name in
            ["Authorization", "x-api-key", "API-Key", "Cookie", "X-Auth-Token", "Ocp-Apim-Subscription-Key"]
        {
            assert!(secret_header(name), "{name}");
        }
        for name in ["Accept", "X-Request-Id", "User-Agent", "Content-Type"] {
            assert!(!secret_header(name), "{name}");
        }
        for name in
            ["api_key", "apiKey", "hf_token", "password", "clientSecret", "sig", "api-key", "key", "jwt"]
        {
            assert!(secret_field(name), "{name}");
        }
        for name in [
            "max_tokens",
            "stop_token_ids",
            "tokenizer",
            "top_k",
            "skip_special_tokens",
            "author",
            "keyboard",
        ] {
            assert!(!secret_field(name), "{name}");
        }
    }

    #[test]
    fn addresses_lose_user_and_password() {
        for (url, want) in [
            ("http://me:pw@host:8000/v1", "http://[redacted]@host:8000/v1"),
            ("https://host/v1?api-key=abc&version=2", "https://host/v1?api-key=[redacted]&version=2"),
            ("http://host:8000", "http://host:8000"),
            ("http://host/a@b", "http://host/a@b"),
            ("/v1/chat?sig=abc", "/v1/chat?sig=[redacted]"),
        ] {
            assert_eq!(redact_url(url), want);
        }
    }

    #[test]
    fn bodies_are_redacted_at_any_depth() {
        let mut body = serde_json::json!({ "max_tokens": 5, "a": [{ "api_key": "x", "n": 1 }] });
        redact_json(&mut body);
        assert_eq!(body, serde_json::json!({ "max_tokens": 5, "a": [{ "api_key": "[redacted]", "n": 1 }] }));
    }
}
