//! Breakage that scores hide or show late: answers that were cut, empty, could not be read, never came,
//! or are all the same.
//!
//! Each share is paired with the baseline's by document; documents with more broken answers than before
//! against those with fewer are put to the exact one-sided McNemar test (a sign test where a document has
//! several answers).

mod constant;
mod lengths;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use constant::constants;
pub use lengths::Lengths;
pub(crate) use lengths::lengths;

use crate::gate::pairs::Pair;
use crate::stats::mcnemar;
use crate::{Answer, Generated, Item};

/// What can be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The answer never came, or could not be judged.
    Failed,
    /// The answer ended at the limit of tokens (finish reason `length`).
    Truncated,
    /// The answer holds nothing but white space.
    Empty,
    /// The filter found no answer in it.
    Unparsed,
    /// Every document has the same score.
    ConstantScore,
    /// Every document has the same extracted answer.
    ConstantAnswer,
    /// Every log-probability is the same: the server does not score.
    ConstantLogprob,
}

/// What became of a kind of breakage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No more of it than the data explain by chance.
    Fine,
    /// More of it, by less than the margin.
    Risen,
    /// More of it: FAIL.
    Broken,
    /// It is the same on the baseline: the task cannot tell.
    Blind,
}

/// One kind of breakage in one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Breakage {
    /// The task's name.
    pub task: String,
    /// What.
    pub kind: Kind,
    /// Answers compared; for constants, values.
    pub n: u64,
    /// Broken ones of the baseline; for constants, how often its most common value comes.
    pub base: u64,
    /// Broken ones of the new server.
    pub new: u64,
    /// Chance of as much by chance alone: McNemar's; for constants, that `n` draws from the baseline's
    /// values are all the same.
    pub p: f64,
    /// The same, adjusted for all tests of breakage (Holm).
    pub p_holm: f64,
    /// What became of it.
    pub state: State,
}

impl Breakage {
    /// Rise of the share, new minus baseline.
    pub fn rise(&self) -> f64 {
        if self.n == 0 { 0.0 } else { (self.new as f64 - self.base as f64) / self.n as f64 }
    }
}

pub(crate) fn generated(item: &Item) -> impl Iterator<Item = &Generated> {
    item.answers.iter().filter_map(|answer| match answer {
        Answer::Generated(generated) => Some(generated),
        _ => None,
    })
}

/// Whether an item has this kind of breakage; `None`: it cannot have it.
fn has(kind: Kind, item: &Item, filter: &str) -> Option<bool> {
    if kind == Kind::Failed {
        return Some(item.failed());
    }
    if item.failed() || generated(item).next().is_none() {
        return None;
    }
    match kind {
        Kind::Truncated => generated(item)
            .any(|g| g.finish_reason.is_some())
            .then(|| generated(item).any(|g| g.finish_reason.as_deref() == Some("length"))),
        Kind::Empty => Some(generated(item).any(|g| g.text.trim().is_empty())),
        Kind::Unparsed => item.outcomes.get(filter).map(|outcome| outcome.extracted.is_none()),
        _ => None,
    }
}

/// The shares of broken answers of a task; `filter` is the one that it is judged by.
pub(crate) fn shares(task: &str, pairs: &[Pair<'_>], filter: &str, only_paired: bool) -> Vec<Breakage> {
    [Kind::Failed, Kind::Truncated, Kind::Empty, Kind::Unparsed]
        .into_iter()
        .filter_map(|kind| share(task, kind, pairs, filter, only_paired))
        .collect()
}

fn share(task: &str, kind: Kind, pairs: &[Pair<'_>], filter: &str, only_paired: bool) -> Option<Breakage> {
    // Broken answers of each document.
    let mut documents: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    let mut n = 0;
    for pair in pairs {
        let new = match pair.new {
            // What never came is a failure.
            None if kind == Kind::Failed && !only_paired => Some(true),
            None => None,
            Some(new) => has(kind, new, filter),
        };
        let Some((base, new)) = has(kind, pair.base, filter).zip(new) else { continue };
        let counts = documents.entry(pair.document).or_default();
        counts.0 += u64::from(base);
        counts.1 += u64::from(new);
        n += 1;
    }
    if n == 0 {
        return None;
    }
    let more = documents.values().filter(|(base, new)| new > base).count() as u64;
    let fewer = documents.values().filter(|(base, new)| new < base).count() as u64;
    let (base, new) = documents.values().fold((0, 0), |sum, d| (sum.0 + d.0, sum.1 + d.1));
    let p = mcnemar(more, fewer).exact;
    Some(Breakage { task: task.to_owned(), kind, n, base, new, p, p_holm: p, state: State::Fine })
}

impl Kind {
    /// Whether it is a share of answers, that may rise a little.
    pub fn is_share(self) -> bool {
        !matches!(self, Self::ConstantScore | Self::ConstantAnswer | Self::ConstantLogprob)
    }
}
