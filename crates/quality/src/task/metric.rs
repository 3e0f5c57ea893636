//! The score of one item.

use super::config::Output;
use super::port::Score;
use crate::python::{self, Pattern};
use serde_json::{Map, Value, json};

/// One entry of a task's `metric_list`.
#[derive(Debug, Clone)]
pub(super) struct Metric {
    pub name: String,
    pub kind: MetricKind,
    pub aggregation: Aggregation,
    pub higher_is_better: Option<bool>,
}

/// How an item is scored.
#[derive(Debug, Clone)]
pub(super) enum MetricKind {
    /// By the task's own `process_results`.
    Given,
    /// By what its output type gives under the metric's name.
    Native,
    /// By comparing texts.
    ExactMatch(ExactMatch),
    /// By a built-in function of prediction and reference.
    Function(fn(&str, &Value) -> Result<f64, String>),
}

/// How items become one number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Aggregation {
    Mean,
    NanMean,
    Median,
    Perplexity,
    WeightedPerplexity,
    BitsPerByte,
    F1,
    Mcc,
    Brier,
    Function(fn(&[Score]) -> Option<f64>),
}

impl Aggregation {
    pub fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "mean" => Self::Mean,
            "nanmean" => Self::NanMean,
            "median" => Self::Median,
            "perplexity" => Self::Perplexity,
            "weighted_perplexity" => Self::WeightedPerplexity,
            "bits_per_byte" => Self::BitsPerByte,
            "f1" => Self::F1,
            "matthews_corrcoef" => Self::Mcc,
            "brier_score" => Self::Brier,
            other => return Err(format!("the aggregation {other:?} is not supported")),
        })
    }

    /// That of a metric for which the task file names none.
    pub fn of_metric(name: &str) -> Self {
        match name {
            "perplexity" => Self::Perplexity,
            "word_perplexity" | "byte_perplexity" => Self::WeightedPerplexity,
            "bits_per_byte" => Self::BitsPerByte,
            "f1" => Self::F1,
            "mcc" => Self::Mcc,
            "brier_score" => Self::Brier,
            _ => Self::Mean,
        }
    }
}

impl Metric {
    /// Whether more is better, of a metric for which the task file does not say.
    pub fn direction(name: &str) -> Option<bool> {
        match name {
            "acc" | "acc_norm" | "acc_bytes" | "acc_mutual_info" | "exact_match" | "f1" | "mcc" => Some(true),
            "perplexity" | "word_perplexity" | "byte_perplexity" | "bits_per_byte" | "brier_score" => {
                Some(false)
            }
            _ => None,
        }
    }
}

impl MetricKind {
    /// The metric of that name for an output type.
    pub fn named(name: &str, output: Output, settings: &Map<String, Value>) -> Result<Self, String> {
        let native: &[&str] = match output {
            Output::Generate if name == "exact_match" => {
                return ExactMatch::new(settings).map(Self::ExactMatch);
            }
            Output::Generate => &[],
            Output::Score => &["perplexity", "acc"],
            Output::Rolling => &["word_perplexity", "byte_perplexity", "bits_per_byte"],
            Output::Choice => &[
                "acc",
                "acc_norm",
                "acc_bytes",
                "acc_mutual_info",
                "exact_match",
                "f1",
                "mcc",
                "brier_score",
            ],
        };
        match native.contains(&name) {
            true => Ok(Self::Native),
            false => Err(format!("the metric {name:?} is not supported for this output_type")),
        }
    }
}

/// Equality of texts after cleaning both.
#[derive(Debug, Clone, Default)]
pub struct ExactMatch {
    ignored: Vec<Pattern>,
    ignore_case: bool,
    ignore_punctuation: bool,
    ignore_numbers: bool,
}

impl ExactMatch {
    /// With `regexes_to_ignore`, `ignore_case`, `ignore_punctuation` and `ignore_numbers`.
    ///
    /// # Errors
    ///
    /// On a pattern that cannot be used, or a setting that is none.
    pub fn new(settings: &Map<String, Value>) -> Result<Self, String> {
        let truth = |key: &str| settings.get(key).and_then(Value::as_bool).unwrap_or(false);
        let ours = [
            "metric",
            "aggregation",
            "higher_is_better",
            "hf_evaluate",
            "regexes_to_ignore",
            "ignore_case",
            "ignore_punctuation",
            "ignore_numbers",
        ];
        if let Some(key) = settings.keys().find(|key| !ours.contains(&key.as_str())) {
            return Err(format!("exact_match has no setting `{key}`"));
        }
        let ignored = super::config::texts(settings.get("regexes_to_ignore"));
        let compile = |source: &String| Pattern::new(source, false).map_err(|error| error.to_string());
        Ok(Self {
            ignored: ignored.iter().map(compile).collect::<Result<_, _>>()?,
            ignore_case: truth("ignore_case"),
            ignore_punctuation: truth("ignore_punctuation"),
            ignore_numbers: truth("ignore_numbers"),
        })
    }

    /// Whether the two are the same after cleaning. Trailing NULs do not count, as in numpy.
    ///
    /// # Errors
    ///
    /// Where a pattern gives up on a text.
    pub fn same(&self, prediction: &str, reference: &str) -> Result<bool, String> {
        let (a, b) = (self.clean(prediction)?, self.clean(reference)?);
        Ok(a.trim_end_matches('\0') == b.trim_end_matches('\0'))
    }

    fn clean(&self, text: &str) -> Result<String, String> {
        let mut text = text.to_owned();
        for pattern in &self.ignored {
            text = pattern.sub("", &text, 0).map_err(|error| error.to_string())?;
        }
        if self.ignore_case {
            text = text.to_lowercase();
        }
        text.retain(|c| {
            !(self.ignore_punctuation && python::is_punctuation(c)
                || self.ignore_numbers && c.is_ascii_digit())
        });
        Ok(text)
    }
}

/// Scores of a `multiple_choice` item.
///
/// # Errors
///
/// Where there is no log-probability for a choice.
pub fn choice_scores(
    logprobs: &[f64],
    greedy: &[Option<bool>],
    unconditional: Option<&[f64]>,
    choices: &[String],
    gold: &[Option<usize>],
) -> Result<Vec<(&'static str, Score)>, String> {
    if choices.is_empty() || logprobs.len() != choices.len() || greedy.len() != choices.len() {
        return Err(format!("{} log-probabilities for {} choices", logprobs.len(), choices.len()));
    }
    let by = |length: &dyn Fn(&String) -> usize| -> Vec<f64> {
        logprobs.iter().zip(choices).map(|(logprob, choice)| logprob / length(choice) as f64).collect()
    };
    let right = |list: &[f64]| Score::Number(f64::from(u8::from(gold.contains(&Some(argmax(list))))));
    let predicted = argmax(logprobs);
    let mut scores = vec![
        ("acc", right(logprobs)),
        ("acc_norm", right(&by(&|choice| choice.chars().count()))),
        ("acc_bytes", right(&by(&String::len))),
    ];
    let golden: Option<Vec<bool>> =
        gold.iter().map(|gold| gold.map_or(Some(false), |gold| greedy[gold])).collect();
    if let Some(golden) = golden {
        scores.push(("exact_match", Score::Number(f64::from(u8::from(golden.contains(&true))))));
    }
    if let Some(unconditional) = unconditional {
        let gains: Vec<f64> =
            logprobs.iter().zip(unconditional).map(|(with, without)| with - without).collect();
        scores.push(("acc_mutual_info", right(&gains)));
    }
    if let [gold] = gold {
        // A gold that is no choice is a class of its own, under the harness's number for it.
        let class = gold.map_or_else(|| json!(-100), |gold| json!(gold));
        scores.push(("f1", Score::Parts(json!([class, predicted]))));
        scores.push(("mcc", Score::Parts(json!([class, predicted]))));
        if gold.is_some() {
            scores.push(("brier_score", Score::Parts(json!([class, softmax(logprobs)]))));
        }
    }
    Ok(scores)
}

/// The first of the largest; a value that is not a number counts as the largest, as in numpy.
#[must_use]
pub fn argmax(list: &[f64]) -> usize {
    let mut best = 0;
    for (i, x) in list.iter().enumerate() {
        if list[best].is_nan() {
            break;
        }
        if x.is_nan() || *x > list[best] {
            best = i;
        }
    }
    best
}

/// Probabilities that are in the ratio of `exp` of the list.
#[must_use]
pub fn softmax(list: &[f64]) -> Vec<f64> {
    let most = list.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = list.iter().map(|x| (x - most).exp()).collect();
    let sum = super::aggregate::numpy_sum(&powers);
    powers.iter().map(|power| power / sum).collect()
}
