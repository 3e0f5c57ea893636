//! The bundled text: English prose in the public domain, for haystacks and perplexity.
//!
//! Lewis Carroll, *Alice's Adventures in Wonderland* (1865), chapters I to IV, from `alice29.txt` of the
//! Canterbury corpus; lines joined to paragraphs, which stand apart by a blank line. Models know it by heart:
//! it serves to compare two servers, not to rank models.

/// The whole text, ASCII.
pub const TEXT: &str = include_str!("../../data/alice.txt");
/// SHA-256 of [`TEXT`].
pub const SHA_256: &str = "18bf8d14c3c60d05c6e5ce902544a4d88eaab46df8a9bd850665b4a1f6c85afb";

/// Sentences of a text, each with the white space behind it: they end behind `.`, `!` or `?` and closing marks,
/// before white space, and at blank lines.
#[must_use]
pub fn sentences(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut ended = false;
    let mut space = false;
    let mut newlines = 0;
    for (at, c) in text.char_indices() {
        if c.is_whitespace() {
            space = true;
            newlines += usize::from(c == '\n');
            continue;
        }
        if space && (ended || newlines > 1) {
            out.extend(text.get(start..at));
            start = at;
            ended = false;
        }
        if !matches!(c, '\'' | '"' | ')' | ']' | '’' | '”') || space {
            ended = matches!(c, '.' | '!' | '?');
        }
        (space, newlines) = (false, 0);
    }
    out.extend(text.get(start..).filter(|rest| !rest.is_empty()));
    out
}

/// Pieces of the text for perplexity: whole paragraphs, at least `bytes` long but for the last.
#[must_use]
pub fn pieces(bytes: usize) -> Vec<&'static str> {
    let mut out = Vec::new();
    let mut start = 0;
    for (at, _) in TEXT.match_indices("\n\n") {
        if at - start >= bytes {
            out.extend(TEXT.get(start..at));
            start = at + 2;
        }
    }
    out.extend(TEXT.get(start..).map(str::trim_end).filter(|rest| !rest.is_empty()));
    out
}
