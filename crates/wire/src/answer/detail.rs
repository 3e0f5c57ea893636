//! Texts of failures: excerpts on one line, without secrets.

use spec::Secret;
use spec::secret::REDACTED;

/// At most `cap` characters of `bytes`, on one line.
pub fn excerpt(bytes: &[u8], cap: usize) -> String {
    // A character has at most four bytes, white space may be folded away.
    let some = &bytes[..bytes.len().min(cap.saturating_mul(8))];
    one_line(&String::from_utf8_lossy(some), cap)
}

/// At most `cap` characters of `text`; white space and control characters become single spaces.
pub fn one_line(text: &str, cap: usize) -> String {
    let mut out = String::new();
    let mut length = 0;
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            gap = !out.is_empty();
            continue;
        }
        if length + usize::from(gap) >= cap {
            out.push('…');
            break;
        }
        if std::mem::take(&mut gap) {
            out.push(' ');
            length += 1;
        }
        out.push(c);
        length += 1;
    }
    out
}

/// `text` without the secrets given, and without what looks like a key: a word that begins with
/// `sk-`, or follows `Bearer`.
pub fn redact(text: &str, secrets: &[Secret]) -> String {
    const LEAST_KEY: usize = 8;
    let mut out = secrets.iter().fold(text.to_owned(), |text, secret| secret.redact(&text));
    // A quotation may have been cut inside a secret.
    if let Some(body) = out.strip_suffix('…') {
        let cut = |secret: &Secret| {
            let secret = secret.expose();
            (4..secret.len()).rev().find(|n| secret.get(..*n).is_some_and(|part| body.ends_with(part)))
        };
        if let Some(n) = secrets.iter().filter_map(cut).max() {
            out = format!("{}{REDACTED}", &body[..body.len() - n]);
        }
    }
    for (mark, kept) in [("sk-", 0), ("Bearer ", "Bearer ".len())] {
        let mut from = 0;
        while let Some(found) = out[from..].find(mark) {
            let at = from + found;
            let start = at + kept;
            let word = |c: char| c.is_ascii_alphanumeric() || "-_.*+/=~".contains(c);
            let length = out[start..].find(|c| !word(c)).unwrap_or(out.len() - start);
            let inside = out[..at].chars().next_back().is_some_and(|c| c.is_ascii_alphanumeric());
            if length >= LEAST_KEY && !inside {
                out.replace_range(start..start + length, REDACTED);
                from = start + REDACTED.len();
            } else {
                from = at + mark.len();
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_short_and_on_one_line() {
        assert_eq!(one_line("  a\r\n\t b\u{0}c ", 10), "a b c");
        assert_eq!(one_line("abcdef", 3), "abc…");
        assert_eq!(one_line("ab cd", 3), "ab…");
        assert_eq!(excerpt("é".repeat(400).as_bytes(), 300).chars().count(), 301);
        assert_eq!(excerpt(b"\xff\xfea", 5), "\u{fffd}\u{fffd}a");
    }

    #[test]
    fn secrets_do_not_pass() {
        let secrets = [Secret::new("hunter2")];
        for (text, clean) in [
            ("key hunter2!", "key [redacted]!"),
            ("Incorrect API key provided: sk-abcdEFGH1234.", "Incorrect API key provided: [redacted]"),
            ("Authorization: Bearer abcdefgh12345 no", "Authorization: Bearer [redacted] no"),
            ("quoted hunt…", "quoted [redacted]"),
            ("a risk-averse sk-1", "a risk-averse sk-1"),
            ("Bearer of news", "Bearer of news"),
        ] {
            assert_eq!(redact(text, &secrets), clean);
        }
    }
}
