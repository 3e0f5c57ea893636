//! ROUGE by the rules of Google's Python package `rouge_score` 0.1.2 with its stemmer, which the accuracy
//! scripts of MLPerf use through `evaluate`.

use super::porter::stem;
use super::similarity::common;
use serde::Serialize;
use std::collections::HashMap;

/// F-measures of one answer against one reference, in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rouge {
    /// Of single words.
    pub rouge1: f64,
    /// Of pairs of words.
    pub rouge2: f64,
    /// Of the longest common subsequence of words, over sentences and lines.
    #[serde(rename = "rougeL")]
    pub rouge_l: f64,
}

/// With stemming (`use_stemmer=True`). `rougeLsum` is not here: the scripts cut sentences by NLTK's trained
/// `punkt` model first, whose data are not at hand.
#[must_use]
pub fn rouge(reference: &str, answer: &str) -> Rouge {
    let (reference, answer) = (tokens(reference), tokens(answer));
    Rouge {
        rouge1: n_grams(&reference, &answer, 1),
        rouge2: n_grams(&reference, &answer, 2),
        rouge_l: match (reference.len(), answer.len()) {
            (0, _) | (_, 0) => 0.0,
            (wanted, said) => {
                let same = common(&reference, &answer) as f64;
                f_measure(same / said as f64, same / wanted as f64)
            }
        },
    }
}

/// Runs of ASCII letters and digits of the lower-cased text; those of more than three characters stemmed.
fn tokens(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| if word.len() > 3 { stem(word) } else { word.to_owned() })
        .filter(|word| !word.is_empty())
        .collect()
}

fn n_grams(reference: &[String], answer: &[String], n: usize) -> f64 {
    let mut wanted: HashMap<&[String], usize> = HashMap::new();
    for gram in reference.windows(n) {
        *wanted.entry(gram).or_default() += 1;
    }
    let mut same = 0usize;
    for gram in answer.windows(n) {
        if let Some(left) = wanted.get_mut(gram).filter(|left| **left > 0) {
            *left -= 1;
            same += 1;
        }
    }
    let share = |whole: &[String]| same as f64 / whole.windows(n).count().max(1) as f64;
    f_measure(share(answer), share(reference))
}

fn f_measure(precision: f64, recall: f64) -> f64 {
    if precision + recall > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 }
}
