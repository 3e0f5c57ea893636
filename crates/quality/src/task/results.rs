//! What a task came to.

use super::metric::Metric;
use super::port::Score;
use super::{Asked, Config};
use crate::{Item, Outcome};
use serde_json::Value;

/// One metric under one filter.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricResult {
    /// Its name.
    pub metric: String,
    /// The filter's name.
    pub filter: String,
    /// `None` where it has no value: no item was scored, or the numbers leave the range.
    pub value: Option<f64>,
    /// Standard error; `None` where it has none.
    pub stderr: Option<f64>,
    /// `None` where nobody says.
    pub higher_is_better: Option<bool>,
}

/// What a task came to.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskResults {
    /// Of the task.
    pub name: String,
    /// Of the task.
    pub alias: String,
    /// Items that were scored.
    pub items: u64,
    /// Items without a score since an answer failed. They are in no metric, neither as right nor as wrong.
    pub failed: u64,
    /// Documents that the split has.
    pub documents: u64,
    /// Worked examples before each document.
    pub shots: u32,
    /// In the order of the filters, then of the metrics.
    pub metrics: Vec<MetricResult>,
}

/// Bootstrap samples for a standard error, as the harness takes them by default.
pub const BOOTSTRAP_REPLICATES: u32 = 100_000;

impl Outcome {
    /// Keeps the score of a metric. A number that is not finite is not kept.
    pub(super) fn keep(&mut self, metric: &str, score: Score) {
        match score {
            Score::Number(x) if x.is_finite() => {
                self.scores.insert(metric.to_owned(), x);
            }
            Score::Number(_) => {}
            Score::Parts(value) => {
                self.parts.insert(metric.to_owned(), value);
            }
        }
    }

    fn score(&self, metric: &str) -> Option<Score> {
        let number = self.scores.get(metric).map(|x| Score::Number(*x));
        number.or_else(|| self.parts.get(metric).map(|value| Score::Parts(value.clone())))
    }
}

/// The results of a task over its items, which are taken in the order of their documents.
pub(super) fn of_task(
    config: &Config,
    documents: u64,
    shots: u32,
    items: &[Item],
    replicates: u32,
) -> TaskResults {
    let mut own: Vec<&Item> = items.iter().filter(|item| item.task == config.name).collect();
    own.sort_by_key(|item| (item.doc, item.repeat));
    let failed = own.iter().filter(|item| item.outcomes.is_empty()).count() as u64;
    let mut metrics = Vec::new();
    let mut scored = 0;
    for filter in config.filters() {
        for metric in &config.metrics {
            let outcomes = own.iter().filter_map(|item| item.outcomes.get(filter));
            let scores: Vec<Score> = outcomes.filter_map(|outcome| outcome.score(&metric.name)).collect();
            scored = scored.max(scores.len() as u64);
            metrics.push(result(metric, filter, &scores, replicates));
        }
    }
    TaskResults {
        name: config.name.clone(),
        alias: config.alias.clone(),
        items: scored,
        failed,
        documents,
        shots,
        metrics,
    }
}

fn result(metric: &Metric, filter: &str, scores: &[Score], replicates: u32) -> MetricResult {
    MetricResult {
        metric: metric.name.clone(),
        filter: filter.to_owned(),
        value: metric.aggregation.value(scores),
        stderr: metric.aggregation.stderr(scores, replicates),
        higher_is_better: metric.higher_is_better,
    }
}

/// One line of a samples file: a document under one filter.
pub(super) fn sample(
    asked: &Asked,
    item: &Item,
    filter: &str,
    arguments: Value,
    responses: Value,
    filtered: Value,
    metrics: &[&str],
) -> Value {
    let mut line = serde_json::Map::new();
    let mut put = |key: &str, value: Value| {
        line.insert(key.to_owned(), value);
    };
    let outcome = item.outcomes.get(filter);
    let present: Vec<(&str, Value)> = metrics
        .iter()
        .filter_map(|metric| match outcome?.score(metric)? {
            Score::Number(x) => Some((*metric, Value::from(x))),
            Score::Parts(value) => Some((*metric, value)),
        })
        .collect();
    put("doc_id", item.doc.into());
    put("doc", asked.document.clone());
    put("target", crate::python::str(&asked.target).into());
    put("arguments", arguments);
    put("resps", responses);
    put("filtered_resps", filtered);
    put("filter", filter.into());
    put("metrics", present.iter().map(|(metric, _)| Value::from(*metric)).collect());
    put("doc_hash", item.doc_hash.0.clone().into());
    put("prompt_hash", item.prompt_hash.0.clone().into());
    put("target_hash", item.target_hash.0.clone().into());
    for (metric, value) in present {
        put(metric, value);
    }
    Value::Object(line)
}
