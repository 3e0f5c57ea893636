//! RULER's scores: shares of references found, their means, and the effective length.

use super::Method;
use crate::python::{round_to, strip};

/// The share of references that the answer holds, for needles, variables and words.
pub const ALL: Method = Method {
    name: "string-match-all",
    version: 1,
    source: "NVIDIA/RULER c3f5e3b, eval/synthetic/constants.py",
};
/// 1 if the answer holds any reference, for questions.
pub const PART: Method = Method {
    name: "string-match-part",
    version: 1,
    source: "NVIDIA/RULER c3f5e3b, eval/synthetic/constants.py",
};
/// lm-evaluation-harness scores questions by the share, too: below RULER's own where an answer has several
/// spellings.
pub const LM_EVAL_PART: Method = Method {
    name: "lm-eval-string-match-part",
    version: 1,
    source: "lm-eval 0.4.13, tasks/ruler/common_utils.py",
};

/// The score that a model must exceed for a length to count as effective, in percent: Llama-2-7B's at 4,096
/// (Hsieh et al. 2024).
pub const EFFECTIVE_ABOVE: f64 = 85.6;

/// An answer as RULER reads it: trimmed, control characters turned into newlines.
#[must_use]
pub fn postprocessed(answer: &str) -> String {
    let plain: String = strip(answer).chars().map(|c| if c < ' ' { '\n' } else { c }).collect();
    strip(&plain).to_owned()
}

/// Whether each reference is a part of the answer, without regard to case.
fn found<'a>(answer: &str, references: &'a [String]) -> impl Iterator<Item = bool> + use<'a> {
    let answer = answer.to_lowercase();
    references.iter().map(move |reference| answer.contains(&reference.to_lowercase()))
}

/// By [`ALL`], in [0, 1]; `None` without references.
#[must_use]
pub fn all(answer: &str, references: &[String]) -> Option<f64> {
    let hits = found(answer, references).filter(|hit| *hit).count();
    (!references.is_empty()).then(|| hits as f64 / references.len() as f64)
}

/// By [`PART`], 0 or 1; `None` without references.
#[must_use]
pub fn part(answer: &str, references: &[String]) -> Option<f64> {
    (!references.is_empty()).then(|| f64::from(u8::from(found(answer, references).any(|hit| hit))))
}

/// A task's score from those of its samples: the mean in percent, two decimals; `None` of none.
#[must_use]
pub fn task_score(samples: &[f64]) -> Option<f64> {
    let sum = samples.iter().fold(0.0, |sum, one| sum + one);
    (!samples.is_empty()).then(|| round_to(sum / samples.len() as f64 * 100.0, 2))
}

/// The score of one length: the plain mean of its tasks' scores, in percent; `None` of none.
#[must_use]
pub fn length_score(tasks: &[f64]) -> Option<f64> {
    (!tasks.is_empty()).then(|| tasks.iter().sum::<f64>() / tasks.len() as f64)
}

/// Which lengths count more in a weighted average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// `wAvg (inc)`: weights 1, 2, …, n from the shortest length to the longest.
    Increasing,
    /// `wAvg (dec)`: n, …, 2, 1.
    Decreasing,
}

/// `wAvg` of the scores of lengths, the shortest first, in percent; `None` of none.
#[must_use]
pub fn weighted(lengths: &[f64], weights: Weights) -> Option<f64> {
    let n = lengths.len();
    let weight = |at: usize| match weights {
        Weights::Increasing => (at + 1) as f64,
        Weights::Decreasing => (n - at) as f64,
    };
    let total: f64 = (0..n).map(weight).sum();
    let sum: f64 = lengths.iter().enumerate().map(|(at, score)| weight(at) * score).sum();
    (n > 0).then(|| sum / total)
}

/// The largest length whose score exceeds `above` percent; `None` where none does. Like the paper's, it
/// does not ask that all shorter ones do.
#[must_use]
pub fn effective_length(scores: &[(u64, f64)], above: f64) -> Option<u64> {
    scores.iter().filter(|(_, score)| *score > above).map(|(length, _)| *length).max()
}
