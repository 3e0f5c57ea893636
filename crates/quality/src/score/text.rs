//! What Python means by a letter, for patterns that Rust's `regex` reads otherwise.

/// Part of a word as Python's `re` sees it (`\w`): letters and numbers of any script, and `_`. Unlike in
/// `regex`, marks are none.
pub(super) const WORD: &str = r"[\p{L}\p{N}_]";

/// Whitespace as Python's `re` sees it (`\s`), as the inside of a class: with U+001C to U+001F.
pub(super) const SPACE: &str = r"\s\x1c-\x1f";

/// Whether a character is part of a word, see [`WORD`].
pub(super) fn is_word(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric() || character == '_';
    }
    static PATTERN: std::sync::LazyLock<Option<regex::Regex>> =
        std::sync::LazyLock::new(|| regex::Regex::new(&format!("^{WORD}$")).ok());
    let mut buffer = [0u8; 4];
    PATTERN.as_ref().is_some_and(|pattern| pattern.is_match(character.encode_utf8(&mut buffer)))
}

/// The words that a pattern's `\b(…)\b` would find: pairs of a byte offset and the word, for maximal runs
/// of word characters.
pub(super) fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(|character| !is_word(character)).filter(|word| !word.is_empty())
}

/// The first line behind leading newlines.
pub(super) fn first_line(text: &str) -> &str {
    text.trim_start_matches('\n').split('\n').next().unwrap_or_default()
}
