//! The number that an answer to a GSM8K question gives, by two programs.

use super::Method;
use regex::Regex;
use std::sync::LazyLock;

/// lm-evaluation-harness: the first number behind "#### ".
pub const STRICT: Method = Method { name: "strict-match", version: 1, source: "lm-eval 0.4.13, gsm8k v3.0" };
/// lm-evaluation-harness: the last number.
pub const FLEXIBLE: Method =
    Method { name: "flexible-extract", version: 1, source: "lm-eval 0.4.13, gsm8k v3.0" };
/// lm-evaluation-harness, gsm8k_cot: the number behind "The answer is", with one more character behind it.
pub const COT_STRICT: Method =
    Method { name: "cot-strict-match", version: 1, source: "lm-eval 0.4.13, gsm8k_cot v3.0" };
/// The data set's own repository: the first number behind "#### ", without commas, equal as text.
pub const OFFICIAL: Method = Method {
    name: "official",
    version: 1,
    source: "openai/grade-school-math 3101c7d, grade_school_math/dataset.py",
};

fn pattern(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

static MARKED: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"#### (\-?[0-9.,]+)"));
static LAST: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"-?[$0-9.,]{2,}|-?[0-9]+"));
static SAID: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"The answer is (\-?[0-9.,]+)."));

/// The text by [`STRICT`].
#[must_use]
pub fn strict(text: &str) -> Option<&str> {
    Some(MARKED.as_ref()?.captures(text)?.get(1)?.as_str())
}

/// The text by [`FLEXIBLE`].
#[must_use]
pub fn flexible(text: &str) -> Option<&str> {
    Some(LAST.as_ref()?.find_iter(text).last()?.as_str())
}

/// The text by [`COT_STRICT`].
#[must_use]
pub fn cot_strict(text: &str) -> Option<&str> {
    Some(SAID.as_ref()?.captures(text)?.get(1)?.as_str())
}

/// The number by [`OFFICIAL`], without its commas.
#[must_use]
pub fn official(text: &str) -> Option<String> {
    strict(text).map(|number| number.replace(',', ""))
}

/// Whether what was taken out of an answer equals the worked solution `gold`, by lm-evaluation-harness: both
/// without commas, dollar signs, what comes before the last "#### " and one final dot, in lower case.
/// Nothing taken out is wrong.
#[must_use]
pub fn matches(extracted: Option<&str>, gold: &str) -> bool {
    extracted.is_some_and(|text| cleaned(text) == cleaned(gold))
}

fn cleaned(text: &str) -> String {
    let bare = text.replace([',', '$'], "");
    let bare = bare.rsplit_once("#### ").map_or(bare.as_str(), |(_, number)| number);
    // A dot before a final newline is the text's last to Python's `$`, too.
    let dotless = match bare.strip_suffix('\n') {
        Some(line) => line.strip_suffix('.').map(|line| format!("{line}\n")),
        None => bare.strip_suffix('.').map(str::to_owned),
    };
    dotless.unwrap_or_else(|| bare.to_owned()).to_lowercase()
}

/// Whether an answer is right by [`OFFICIAL`]; `None` where the worked solution has no number.
#[must_use]
pub fn official_matches(answer: &str, gold: &str) -> Option<bool> {
    let gold = official(gold)?;
    Some(official(answer).is_some_and(|number| number == gold))
}
