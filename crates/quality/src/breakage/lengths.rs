//! Mean output tokens: a server that answers shorter is faster, and not for a good reason.

use std::collections::BTreeMap;

use measure::special::t_cdf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::generated;
use crate::Item;
use crate::gate::pairs::Pair;

/// A mean that moves by more than this share is worth a word.
const NOTABLE: f64 = 0.1;

/// Output tokens of a task, paired by document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lengths {
    /// The task's name.
    pub task: String,
    /// Documents.
    pub n: u64,
    /// Mean tokens of the baseline's answers.
    pub base: f64,
    /// Of the new server's.
    pub new: f64,
    /// Two-sided p-value of the paired t-test; `null`: fewer than two documents.
    pub p: Option<f64>,
    /// Whether the mean moved by more than 10 %, beyond chance. A warning: scores decide.
    pub notable: bool,
}

fn tokens(item: &Item) -> Option<f64> {
    let counts: Option<Vec<u64>> = generated(item).map(|g| g.output_tokens).collect();
    counts.filter(|counts| !counts.is_empty() && !item.failed()).map(|c| c.iter().sum::<u64>() as f64)
}

/// Of a task; `None`: no pair tells its tokens.
pub(crate) fn lengths(task: &str, pairs: &[Pair<'_>], alpha: f64) -> Option<Lengths> {
    let mut documents: BTreeMap<usize, (f64, f64, f64)> = BTreeMap::new();
    for pair in pairs {
        let Some((base, new)) = tokens(pair.base).zip(pair.new.and_then(tokens)) else { continue };
        let sum = documents.entry(pair.document).or_default();
        *sum = (sum.0 + base, sum.1 + new, sum.2 + 1.0);
    }
    let means: Vec<(f64, f64)> = documents.values().map(|(b, n, k)| (b / k, n / k)).collect();
    let of = |values: &[f64]| measure::interval::mean(values);
    let base = of(&means.iter().map(|m| m.0).collect::<Vec<_>>())?;
    let new = of(&means.iter().map(|m| m.1).collect::<Vec<_>>())?;
    let differences: Vec<f64> = means.iter().map(|(b, n)| n - b).collect();
    let n = differences.len() as f64;
    let p = measure::interval::sample_stddev(&differences).map(|s| {
        let (shift, error) = (new - base, s / n.sqrt());
        match error > 0.0 {
            true => (2.0 * t_cdf(-(shift / error).abs(), n - 1.0)).min(1.0),
            false if shift.abs() > 0.0 => 0.0,
            false => 1.0,
        }
    });
    let moved = (new - base).abs() > NOTABLE * base.max(1.0);
    let notable = moved && p.is_some_and(|p| p <= alpha);
    Some(Lengths { task: task.to_owned(), n: means.len() as u64, base, new, p, notable })
}
