/// `str.isspace` of one character: Unicode's white space and the four separators U+001C to U+001F.
#[must_use]
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Whether `string.punctuation` has this character: the ASCII ones.
#[must_use]
pub fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
}

/// `str.strip()`.
#[must_use]
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `str.lstrip()`.
#[must_use]
pub fn lstrip(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

/// `str.rstrip()`.
#[must_use]
pub fn rstrip(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// `str.split()`: words between runs of white space, none of them empty.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// `re.split(r"\s+", text)`: as [`split`], with an empty piece before leading and after trailing white space.
/// The empty text is one empty piece.
pub fn split_runs(text: &str) -> impl Iterator<Item = &str> {
    let before = text.starts_with(is_space) || text.is_empty();
    let after = text.ends_with(is_space);
    before.then_some("").into_iter().chain(split(text)).chain(after.then_some(""))
}
