//! The letter that an answer to a LongBench v2 question means, and its scores.

use super::Method;
use crate::python::round_to;

/// The extraction of the benchmark's own program; no letter is wrong.
pub const OFFICIAL: Method =
    Method { name: "official", version: 1, source: "THUDM/LongBench 2e00731, pred.py" };
/// As [`OFFICIAL`], with a quarter of a point for an answer without a letter (`compensated`).
pub const OFFICIAL_COMPENSATED: Method =
    Method { name: "official-compensated", version: 1, source: "THUDM/LongBench 2e00731, result.py" };
/// What an answer without a letter is worth by [`OFFICIAL_COMPENSATED`].
pub const COMPENSATION: f64 = 0.25;

/// The letter behind the first "The correct answer is (" that one and ")" follow, else behind the first "The
/// correct answer is "; stars are deleted before. Case counts.
#[must_use]
pub fn official(text: &str) -> Option<char> {
    const LEAD: &str = "The correct answer is ";
    let bare = text.replace('*', "");
    let behind = || bare.match_indices(LEAD).filter_map(|(at, _)| bare.as_bytes().get(at + LEAD.len()..));
    let bracketed = behind().find_map(|rest| match rest {
        [b'(', letter @ b'A'..=b'D', b')', ..] => Some(char::from(*letter)),
        _ => None,
    });
    bracketed.or_else(|| {
        behind().find_map(|rest| match rest {
            [letter @ b'A'..=b'D', ..] => Some(char::from(*letter)),
            _ => None,
        })
    })
}

/// Percent with one decimal, as the benchmark prints it; `None` of no questions.
#[must_use]
pub fn percent(points: f64, questions: u64) -> Option<f64> {
    (questions > 0).then(|| round_to(100.0 * points / questions as f64, 1))
}
