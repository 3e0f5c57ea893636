//! Wrapping of running text.

/// Lines of at most `width` columns, broken at spaces (a no-break space stays whole). A word that
/// is wider than a line is cut.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        let mut used = 0;
        for word in paragraph.split([' ', '\t']).filter(|w| !w.is_empty()) {
            let mut left: Vec<char> = word.chars().collect();
            if used > 0 && used + 1 + left.len() > width {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            while left.len() > width - used.min(width) {
                let rest = left.split_off((width - used).max(1));
                line.extend(left);
                lines.push(std::mem::take(&mut line));
                left = rest;
                used = 0;
            }
            used += left.len();
            line.extend(left);
        }
        lines.push(line);
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_breaks_at_spaces_and_long_words_are_cut() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("500\u{a0}ms or more", 8), ["500\u{a0}ms", "or more"]);
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("a incomprehensible b", 6), ["a", "incomp", "rehens", "ible b"]);
        assert_eq!(wrap("a\n\nb", 6), ["a", "", "b"]);
        assert_eq!(wrap("ab", 0), ["a", "b"]);
    }
}
