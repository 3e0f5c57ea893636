//! Scores of paired documents, and by which of them a task is judged.

use std::collections::{BTreeMap, BTreeSet};

use super::pairs::Pair;
use super::{Choice, Settings};
use crate::Item;
use crate::stats::Scores;

/// Metrics of which less is better: no share of the baseline's can be asked for.
const LESS_IS_BETTER: [&str; 9] = [
    "bits_per_byte",
    "brier_score",
    "byte_perplexity",
    "cer",
    "loss",
    "perplexity",
    "ter",
    "wer",
    "word_perplexity",
];

/// One document: the means over its repeats.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Document<'a> {
    /// The two scores.
    pub scores: Scores,
    /// The group within the task.
    pub category: Option<&'a str>,
}

/// A metric of a filter of a task.
#[derive(Debug)]
pub(crate) struct Metric<'a> {
    /// The filter's name.
    pub filter: &'a str,
    /// The metric's name.
    pub metric: &'a str,
    /// Documents with a score of the baseline.
    pub documents: Vec<Document<'a>>,
    /// Answers behind them.
    pub answers: u64,
    /// Of those, missing from the new journal and counted as lost.
    pub missing: u64,
    /// Of those, failed or without a score on the new server and counted as lost.
    pub unscored: u64,
}

impl Metric<'_> {
    /// Whether its scores can be judged: between 0 and 1, more is better.
    pub fn why_not(&self) -> Option<String> {
        let lower = self.metric.strip_suffix(",none").unwrap_or(self.metric);
        if LESS_IS_BETTER.contains(&lower) {
            return Some("less of it is better".to_owned());
        }
        let outside = |score: f64| !(0.0..=1.0).contains(&score);
        let beyond = self.documents.iter().any(|d| outside(d.scores.base) || outside(d.scores.new));
        beyond.then(|| "its scores do not lie between 0 and 1".to_owned())
    }
}

fn score(item: &Item, filter: &str, metric: &str) -> Option<f64> {
    let outcome = item.outcomes.get(filter)?;
    outcome.scores.get(metric).copied().filter(|score| score.is_finite() && !item.failed())
}

/// Every metric of a task that the baseline has a score of.
pub(crate) fn metrics<'a>(pairs: &[Pair<'a>], settings: &Settings) -> Vec<Metric<'a>> {
    let names: BTreeSet<(&str, &str)> = pairs
        .iter()
        .flat_map(|pair| &pair.base.outcomes)
        .flat_map(|(filter, outcome)| {
            outcome.scores.keys().map(move |metric| (filter.as_str(), metric.as_str()))
        })
        .collect();
    names.into_iter().map(|(filter, metric)| gather(pairs, filter, metric, settings)).collect()
}

fn gather<'a>(pairs: &[Pair<'a>], filter: &'a str, metric: &'a str, settings: &Settings) -> Metric<'a> {
    #[derive(Default)]
    struct Sum<'a> {
        base: f64,
        new: f64,
        answers: u64,
        category: Option<&'a str>,
    }
    let mut documents: BTreeMap<usize, Sum<'a>> = BTreeMap::new();
    let (mut missing, mut unscored) = (0, 0);
    for pair in pairs {
        // What the baseline has no score of says nothing, and can improve nothing.
        let Some(base) = score(pair.base, filter, metric) else { continue };
        let new = match pair.new {
            None if settings.only_paired => continue,
            None => {
                missing += 1;
                0.0
            }
            Some(new) if new.target_hash != pair.base.target_hash => continue,
            Some(new) => score(new, filter, metric).unwrap_or_else(|| {
                unscored += 1;
                0.0
            }),
        };
        let sum = documents.entry(pair.document).or_default();
        sum.base += base;
        sum.new += new;
        sum.answers += 1;
        sum.category = pair.base.category.as_deref();
    }
    let answers = documents.values().map(|sum| sum.answers).sum();
    let mean = |sum: Sum<'a>| {
        let n = sum.answers as f64;
        Document { scores: Scores { base: sum.base / n, new: sum.new / n }, category: sum.category }
    };
    Metric {
        filter,
        metric,
        documents: documents.into_values().map(mean).collect(),
        answers,
        missing,
        unscored,
    }
}

/// The place of the metric that a task is judged by; `None`: no metric can be.
pub(crate) fn judged(task: &str, metrics: &[Metric<'_>], settings: &Settings) -> Option<usize> {
    let any = Choice::default();
    let choice = settings
        .judge
        .iter()
        .find(|choice| choice.task.as_deref().is_none_or(|name| name == task))
        .unwrap_or(&any);
    let fits = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    metrics.iter().position(|metric| {
        fits(&choice.filter, metric.filter)
            && fits(&choice.metric, metric.metric)
            && !metric.documents.is_empty()
            && metric.why_not().is_none()
    })
}
