//! The letter that an answer to an MMLU-Pro question means, by three programs.

use super::Method;
use super::text::{SPACE, WORD, words};
use crate::python::is_space;
use regex::Regex;
use std::sync::LazyLock;

/// TIGER-AI-Lab's three levels; an answer without a letter is wrong.
pub const OFFICIAL: Method =
    Method { name: "official", version: 1, source: "TIGER-AI-Lab/MMLU-Pro f418b11, evaluate_from_local.py" };
/// As [`OFFICIAL`], with answers without a letter guessed at random, as that program counts them.
pub const OFFICIAL_GUESSED: Method = Method {
    name: "official-random-guess",
    version: 1,
    source: "TIGER-AI-Lab/MMLU-Pro f418b11, evaluate_from_local.py save_res",
};
/// lm-evaluation-harness: the first level alone.
pub const LM_EVAL: Method =
    Method { name: "custom-extract", version: 1, source: "lm-eval 0.4.13, mmlu_pro v3.1" };
/// InferenceBench: more patterns, on upper-cased text, so that the article "a" can become an answer.
pub const INFERENCE_BENCH: Method =
    Method { name: "inferencebench", version: 1, source: "aisa-group/InferenceBench 24cdf88, runner.py" };

/// A letter of an option.
fn is_option(byte: u8) -> bool {
    (b'A'..=b'J').contains(&byte)
}

/// The letter by [`OFFICIAL`]: behind "answer is", else behind "Answer:", else the last that stands alone.
#[must_use]
pub fn official(text: &str) -> Option<char> {
    answer_is(text).or_else(|| answer_colon(text)).or_else(|| last_alone(text))
}

/// The letter by [`LM_EVAL`]: behind the first "answer is" that one follows.
#[must_use]
pub fn lm_eval(text: &str) -> Option<char> {
    answer_is(text)
}

/// Level 1: `answer is \(?([A-J])\)?`, the first match.
fn answer_is(text: &str) -> Option<char> {
    const LEAD: &str = "answer is ";
    text.match_indices(LEAD).find_map(|(at, _)| {
        let rest = text.as_bytes().get(at + LEAD.len()..)?;
        let letter = *rest.strip_prefix(b"(").unwrap_or(rest).first()?;
        is_option(letter).then(|| char::from(letter))
    })
}

/// Level 2: `.*[aA]nswer:\s*([A-J])`, which is the last match in the first line that has one. The space
/// behind the colon may reach into the next lines.
fn answer_colon(text: &str) -> Option<char> {
    const LEAD: &str = "nswer:";
    let mut found: Option<char> = None;
    let mut line_end = text.len();
    for (at, _) in text.match_indices(LEAD) {
        if at > line_end {
            break;
        }
        let (before, behind) =
            (text.get(..at).unwrap_or_default(), text.get(at + LEAD.len()..).unwrap_or_default());
        if !before.ends_with(['a', 'A']) {
            continue;
        }
        let letter = behind.trim_start_matches(is_space).bytes().next().filter(|letter| is_option(*letter));
        if letter.is_some() && found.is_none() {
            line_end = at + text.get(at..).and_then(|rest| rest.find('\n')).unwrap_or(text.len());
        }
        found = letter.map(char::from).or(found);
    }
    found
}

/// Level 3: `\b[A-J]\b(?!.*\b[A-J]\b)` over all lines, which is the last word of one letter.
fn last_alone(text: &str) -> Option<char> {
    words(text).rev().find_map(|word| match word.as_bytes() {
        [letter] if is_option(*letter) => Some(char::from(*letter)),
        _ => None,
    })
}

/// [`INFERENCE_BENCH`]'s patterns in their order, and the group that holds the letter.
static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    // `\b` behind a letter: what follows is no part of a word. It ends the pattern, so that it may be read.
    let end = format!("(?:{}|$)", WORD.replacen('[', "[^", 1));
    let s = format!("[{SPACE}]");
    [
        format!(r"ANSWER{s}+IS{s}*\(?([A-J])"),
        format!(r"ANSWER{s}*[:\-]{s}*([A-J]){end}"),
        format!(r"CORRECT{s}+ANSWER{s}*(?:IS|:)?{s}*([A-J]){end}"),
        format!(r"(?:OPTION|CHOICE){s}*([A-J]){end}"),
        format!(r"FINAL{s}*[:\-]{s}*([A-J]){end}"),
        format!(r"^{s}*([A-J]){s}*[).:\-]"),
        format!(r"(?m)^{s}*([A-J]){s}*$"),
    ]
    .iter()
    .filter_map(|pattern| Regex::new(pattern).ok())
    .collect()
});

/// The letter by [`INFERENCE_BENCH`].
#[must_use]
pub fn inference_bench(text: &str) -> Option<char> {
    let upper = text.to_uppercase();
    PATTERNS
        .iter()
        .find_map(|pattern| pattern.captures(&upper)?.get(1)?.as_str().chars().next())
        .or_else(|| last_alone(&upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_patterns_are_valid() {
        assert_eq!(PATTERNS.len(), 7);
    }

    #[test]
    fn the_second_level_takes_the_last_match_of_the_first_line_that_has_one() {
        assert_eq!(answer_colon("Answer: A answer: B\nAnswer: C"), Some('B'));
        assert_eq!(answer_colon("Answer: none\nAnswer: C"), Some('C'));
        assert_eq!(answer_colon("Answer:\n\n D"), Some('D'));
    }

    #[test]
    fn a_combining_mark_ends_a_word() {
        assert_eq!(last_alone("B\u{301}"), Some('B'));
        assert_eq!(last_alone("Bé B_"), None);
    }
}
