//! Names as people write them: folding, and the nearest known one.

/// A name without case, `-`, `_`, dots and blanks.
pub(crate) fn fold_name(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_' | '.' | ' ')).flat_map(char::to_lowercase).collect()
}

/// ` (did you mean `x`?)` with the closest candidate, or nothing when none is close.
pub(crate) fn nearest(got: &str, candidates: &[&str]) -> String {
    let folded = fold_name(got);
    // Of two equally close ones, the one of the same length: a mistyped digit, not a missing one.
    let rank = |c: &str| (strsim::osa_distance(&folded, &fold_name(c)), c.len().abs_diff(got.len()));
    let best = candidates.iter().map(|c| (rank(c), *c)).min();
    match best {
        Some(((d, _), name)) if d <= 1 + folded.len() / 3 => format!(" (did you mean `{name}`?)"),
        _ => String::new(),
    }
}
