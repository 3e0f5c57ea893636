//! Scores of the accuracy scripts of MLPerf Inference's language models.
//!
//! Here are those that need nothing but text: ROUGE (llama2-70b, llama3.1-8b, llama3.1-405b, mixtral's
//! OpenOrca part), exact match of llama3.1-405b and mixtral's GSM8K. Not here: `rougeLsum` (needs a trained
//! splitter of sentences), the mixtures of deepseek-r1 and gpt-oss-120b (they run the code that a model wrote)
//! and MBXP.

use super::{Method, Rouge, rouge};
use crate::python::{is_space, round_half_even, strip};
use regex::Regex;
use std::sync::LazyLock;

/// ROUGE in percent, four decimals.
pub const ROUGE: Method = Method {
    name: "mlperf-rouge",
    version: 1,
    source: "mlcommons/inference, language/*/evaluate-accuracy.py",
};
/// Exact match of llama3.1-405b's needles.
pub const NEEDLE: Method = Method {
    name: "mlperf-niah-em",
    version: 1,
    source: "mlcommons/inference, language/llama3.1-405b/evaluate-accuracy.py",
};
/// Exact match of llama3.1-405b's questions.
pub const QA: Method = Method {
    name: "mlperf-qa-em",
    version: 1,
    source: "mlcommons/inference, language/llama3.1-405b/evaluate-accuracy.py",
};
/// Exact match of mixtral's GSM8K part.
pub const GSM8K: Method = Method {
    name: "mlperf-gsm8k",
    version: 1,
    source: "mlcommons/inference, language/mixtral-8x7b/evaluate-accuracy.py",
};

/// One answer by [`ROUGE`], in [0, 1].
#[must_use]
pub fn rouge_of(reference: &str, answer: &str) -> Rouge {
    rouge(strip(reference), strip(answer))
}

/// The means over answers in percent, four decimals by numpy's rounding, as the scripts print them; `None` of
/// none.
#[must_use]
pub fn rouge_mean(answers: &[Rouge]) -> Option<Rouge> {
    let mean = |of: fn(&Rouge) -> f64| {
        let mean = answers.iter().map(of).sum::<f64>() / answers.len() as f64;
        round_half_even(mean * 100.0 * 1e4) / 1e4
    };
    (!answers.is_empty()).then(|| Rouge {
        rouge1: mean(|one| one.rouge1),
        rouge2: mean(|one| one.rouge2),
        rouge_l: mean(|one| one.rouge_l),
    })
}

fn pattern(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

/// `\w` of Python, which knows no marks.
static UUID: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let w = super::text::WORD;
    pattern(&format!("{w}{{8}}-{w}{{4}}-{w}{{4}}-{w}{{4}}-{w}{{12}}"))
});
static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"-?[\d,]*\.?\d+"));

/// By [`NEEDLE`], in percent, two decimals. Found and wanted UUIDs are paired in order, and of each wanted one
/// counts the share of its *characters* that stand anywhere in the found one: the script treats a text as a
/// list of texts.
#[must_use]
pub fn needle(reference: &str, answer: &str) -> f64 {
    let Some(uuid) = UUID.as_ref() else { return 0.0 };
    let found: Vec<String> = uuid.find_iter(answer).map(|one| one.as_str().to_lowercase()).collect();
    if found.is_empty() {
        return 0.0;
    }
    let share = |found: &String, wanted: &str| {
        let hits = wanted.chars().filter(|c| found.contains(&c.to_lowercase().to_string())).count();
        hits as f64 / wanted.chars().count() as f64
    };
    let pairs = found.iter().zip(uuid.find_iter(reference));
    let sum = pairs.fold(0.0, |sum, (found, wanted)| sum + share(found, wanted.as_str()));
    crate::python::round_to(sum / found.len() as f64 * 100.0, 2)
}

/// By [`QA`], 0 or 100 percent. `reference` lists the right answers, separated by "|". What stands behind the
/// last "Answer: " is right if it is a part of that list as it is, or holds one of its entries, both without
/// white space and in lower case. An empty answer is part of every list, and thus right.
#[must_use]
pub fn qa(reference: &str, answer: &str) -> f64 {
    let said = answer.rsplit_once("Answer: ").map_or(answer, |(_, said)| said);
    let bare = |text: &str| text.replace(is_space, "").to_lowercase();
    let right = reference.contains(said) || {
        let said = bare(said);
        reference.split('|').any(|entry| said.contains(&bare(entry)))
    };
    if right { 100.0 } else { 0.0 }
}

/// By [`GSM8K`]: the first number behind the last "The answer is", else the last number, of what comes before
/// a further "\nQ:"; equal as numbers.
#[must_use]
pub fn gsm8k(reference: f64, answer: &str) -> bool {
    let Some(number) = NUMBER.as_ref() else { return false };
    let own = answer.split("\nQ:").next().unwrap_or_default();
    let behind = own.rsplit_once("The answer is").and_then(|(_, rest)| number.find(rest));
    let said = behind.or_else(|| number.find_iter(own).last()).map(|said| said.as_str().replace(',', ""));
    said.and_then(|said| said.parse::<f64>().ok())
        .is_some_and(|said| said.partial_cmp(&reference).is_some_and(std::cmp::Ordering::is_eq))
}
