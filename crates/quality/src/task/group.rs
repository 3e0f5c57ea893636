//! One score of several tasks.

use super::config::texts;
use super::results::{MetricResult, TaskResults};
use serde_json::Value;

/// Tasks under one name.
#[derive(Debug, Clone)]
pub struct Group {
    /// `group`.
    pub name: String,
    /// `group_alias`, else the name.
    pub alias: String,
    /// Its members: tasks and groups.
    pub children: Vec<String>,
    /// The tasks in it and in the groups below it.
    pub leaves: Vec<String>,
    /// `metadata.version`.
    pub version: Value,
    pub(super) metrics: Vec<GroupMetric>,
}

/// An entry of `aggregate_metric_list`.
#[derive(Debug, Clone)]
pub(super) struct GroupMetric {
    metric: String,
    /// All that the members have where `None`.
    filters: Option<Vec<String>>,
    weighted: bool,
}

impl GroupMetric {
    pub fn list(value: Option<&Value>) -> Result<Vec<Self>, String> {
        let list = match value {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(list)) => list.clone(),
            Some(one) => vec![one.clone()],
        };
        let entry = |entry: &Value| {
            let metric =
                entry["metric"].as_str().ok_or("an entry of `aggregate_metric_list` names no `metric`")?;
            match entry.get("aggregation") {
                None => {}
                Some(Value::String(mean)) if mean == "mean" => {}
                Some(other) => return Err(format!("groups are aggregated by the mean, not by {other}")),
            }
            Ok(Self {
                metric: metric.to_owned(),
                filters: entry
                    .get("filter_list")
                    .filter(|value| !value.is_null())
                    .map(|value| texts(Some(value))),
                weighted: entry.get("weight_by_size").and_then(Value::as_bool).unwrap_or(true),
            })
        };
        list.iter().map(entry).collect()
    }
}

/// What a group came to.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupResults {
    /// Of the group.
    pub name: String,
    /// Of the group.
    pub alias: String,
    /// Items of all its tasks; `None` where the group has no score of its own.
    pub items: Option<u64>,
    /// Its scores, each with the number of items behind it.
    pub metrics: Vec<(MetricResult, u64)>,
}

impl Group {
    /// Of its tasks' results: means weighted by items with the pooled standard error, or plain means.
    #[must_use]
    pub fn results(&self, tasks: &[TaskResults]) -> GroupResults {
        let members: Vec<&TaskResults> =
            self.leaves.iter().filter_map(|leaf| tasks.iter().find(|task| task.name == *leaf)).collect();
        let mut metrics = Vec::new();
        for wanted in &self.metrics {
            let filters = wanted.filters.clone().unwrap_or_else(|| {
                let all = members.iter().flat_map(|task| &task.metrics);
                let mut found: Vec<String> =
                    all.filter(|m| m.metric == wanted.metric).map(|m| m.filter.clone()).collect();
                found.sort();
                found.dedup();
                found
            });
            metrics.extend(filters.iter().filter_map(|filter| wanted.over(&members, filter)));
        }
        GroupResults {
            name: self.name.clone(),
            alias: self.alias.clone(),
            items: (!self.metrics.is_empty()).then(|| members.iter().map(|task| task.items).sum()),
            metrics,
        }
    }
}

impl GroupMetric {
    fn over(&self, members: &[&TaskResults], filter: &str) -> Option<(MetricResult, u64)> {
        let found: Vec<(&MetricResult, u64)> = members
            .iter()
            .filter_map(|task| {
                let own = task.metrics.iter().find(|m| m.metric == self.metric && m.filter == filter)?;
                Some((own, task.items))
            })
            .collect();
        let first = found.first()?.0;
        let sizes: Vec<u64> = found.iter().map(|(_, size)| *size).collect();
        let values: Option<Vec<f64>> = found.iter().map(|(metric, _)| metric.value).collect();
        let errors: Option<Vec<f64>> = found.iter().map(|(metric, _)| metric.stderr).collect();
        let error = errors.and_then(|errors| match self.weighted {
            true => pooled_stderr(&errors, &sizes),
            false => Some(unweighted_stderr(&errors)),
        });
        let result = MetricResult {
            metric: self.metric.clone(),
            filter: filter.to_owned(),
            value: values.and_then(|values| group_mean(&values, &sizes, self.weighted)),
            stderr: error,
            higher_is_better: first.higher_is_better,
        };
        Some((result, sizes.iter().sum()))
    }
}

/// Mean of tasks' scores, weighted by their items or not.
#[must_use]
pub fn group_mean(values: &[f64], sizes: &[u64], weighted: bool) -> Option<f64> {
    let weight = |size: &u64| if weighted { *size as f64 } else { 1.0 };
    let all: f64 = sizes.iter().map(weight).sum();
    (all > 0.0).then(|| values.iter().zip(sizes).map(|(value, size)| value * weight(size)).sum::<f64>() / all)
}

/// Standard error of a mean weighted by items, from the pooled variance; `None` where no task has two items.
#[must_use]
pub fn pooled_stderr(errors: &[f64], sizes: &[u64]) -> Option<f64> {
    let parts =
        errors.iter().zip(sizes).map(|(error, size)| (*size as f64 - 1.0) * error.powi(2) * *size as f64);
    let items = sizes.iter().sum::<u64>() as f64;
    let freedom = items - sizes.len() as f64;
    (freedom > 0.0).then(|| (parts.sum::<f64>() / freedom / items).sqrt())
}

/// Standard error of a plain mean of independent means.
#[must_use]
pub fn unweighted_stderr(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error.powi(2)).sum::<f64>().sqrt() / errors.len() as f64
}
