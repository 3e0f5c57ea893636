//! Whether a needle was found.

use super::Method;

/// 1 if the answer holds every key phrase, without regard to case, else 0. No judge: wording counts for
/// nothing.
pub const SUBSTRING: Method = Method { name: "substring", version: 1, source: "inferometer" };

/// By [`SUBSTRING`]. No phrases are found in nothing.
#[must_use]
pub fn found(answer: &str, phrases: &[String]) -> bool {
    let answer = answer.to_lowercase();
    !phrases.is_empty() && phrases.iter().all(|phrase| answer.contains(&phrase.to_lowercase()))
}
