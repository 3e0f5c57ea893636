//! Kullback–Leibler divergence, agreement and shifts of probability over the same positions, as
//! llama.cpp's `llama-perplexity --kl-divergence` defines them.

use std::collections::BTreeMap;

use measure::interval::{mean, sample_stddev};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::PercentileRule;

use super::Position;
use super::position::NOTHING;

/// What is known of a divergence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KlKind {
    /// Over the whole vocabulary at every position.
    Full,
    /// Tokens that both servers told, and all others as one: never more than the whole divergence.
    LowerBound,
}

/// Divergence of the new server's distribution from the baseline's, nats a position.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kl {
    /// What is known.
    pub kind: KlKind,
    /// Fewest tokens that were compared one by one at a position.
    pub fewest: u64,
    /// Most.
    pub most: u64,
    /// Mean probability that the baseline gives to all others.
    pub left_over: f64,
    /// Mean.
    pub mean: f64,
    /// Standard error of the mean, positions taken as independent; `null` of one position.
    pub mean_se: Option<f64>,
    /// Median.
    pub median: f64,
    /// 95 % of positions have less.
    pub p95: f64,
    /// 99 %.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// How often the likeliest token is the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// Share of positions.
    pub share: f64,
    /// Binomial standard error, by divisor n − 1; `null` of one position.
    pub se: Option<f64>,
}

/// Shift of the probability of the token that stands in the text, new minus baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delta {
    /// Mean.
    pub mean: f64,
    /// Standard error of the mean.
    pub mean_se: Option<f64>,
    /// Root of the mean square.
    pub rms: f64,
    /// Its standard error, by the delta rule.
    pub rms_se: Option<f64>,
    /// 5 % of positions shift by less.
    pub p05: f64,
    /// Median.
    pub median: f64,
    /// 95 % of positions shift by less.
    pub p95: f64,
}

/// Perplexities of the same positions, and the log of their ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogRatio {
    /// Of the baseline, per token.
    pub base: f64,
    /// Of the new server.
    pub new: f64,
    /// Standard error of the new server's.
    pub new_se: Option<f64>,
    /// ln(new / base).
    pub value: f64,
    /// Its standard error, the covariance of the two taken off.
    pub se: Option<f64>,
    /// Correlation of the two; `null`: one of them does not vary.
    pub correlation: Option<f64>,
}

/// What the same positions say of two servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Divergence {
    /// Positions compared.
    pub positions: u64,
    /// Perplexity.
    pub perplexity: LogRatio,
    /// Probability of the text's own token.
    pub delta: Delta,
    /// Divergence; `null`: likeliest tokens are not known on both.
    pub kl: Option<Kl>,
    /// Agreement; `null` likewise.
    pub same_top: Option<Agreement>,
}

/// Of pairs (baseline, new) of the same position. `None`: there are none, or two differ in their token.
pub fn divergence<'a>(pairs: impl IntoIterator<Item = (&'a Position, &'a Position)>) -> Option<Divergence> {
    let pairs: Vec<(&Position, &Position)> = pairs.into_iter().collect();
    if pairs.is_empty() || pairs.iter().any(|(base, new)| base.target != new.target) {
        return None;
    }
    let told: Option<Vec<(u32, u32)>> = pairs.iter().map(|(b, n)| b.top.top().zip(n.top.top())).collect();
    let same: Option<Vec<f64>> =
        told.map(|tops| tops.iter().map(|(b, n)| f64::from(u8::from(b == n))).collect());
    let share = same.as_deref().and_then(mean);
    Some(Divergence {
        positions: pairs.len() as u64,
        perplexity: log_ratio(&pairs)?,
        delta: delta(&pairs)?,
        kl: share.and_then(|_| kl(&pairs)),
        same_top: share.map(|share| {
            let n = pairs.len() as f64;
            Agreement { share, se: (n > 1.0).then(|| (share * (1.0 - share) / (n - 1.0)).sqrt()) }
        }),
    })
}

fn standard_error(values: &[f64]) -> Option<f64> {
    sample_stddev(values).map(|s| s / (values.len() as f64).sqrt())
}

fn at(sorted: &[f64], p: f64) -> Option<f64> {
    measure::percentile(sorted, p, PercentileRule::Linear)
}

fn ascending(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn log_ratio(pairs: &[(&Position, &Position)]) -> Option<LogRatio> {
    let base: Vec<f64> = pairs.iter().map(|(b, _)| -b.logprob).collect();
    let new: Vec<f64> = pairs.iter().map(|(_, n)| -n.logprob).collect();
    let difference: Vec<f64> = new.iter().zip(&base).map(|(n, b)| n - b).collect();
    let (base_mean, new_mean) = (mean(&base)?, mean(&new)?);
    // var(new) + var(base) − 2 cov(new, base) is the variance of the differences.
    let spread = sample_stddev(&base).zip(sample_stddev(&new)).filter(|(b, n)| *b > 0.0 && *n > 0.0);
    let correlation = spread.map(|(b, n)| {
        let products = new.iter().zip(&base).map(|(x, y)| (x - new_mean) * (y - base_mean));
        (products.sum::<f64>() / (base.len() as f64 - 1.0) / (b * n)).clamp(-1.0, 1.0)
    });
    Some(LogRatio {
        base: base_mean.exp(),
        new: new_mean.exp(),
        new_se: standard_error(&new).map(|se| se * new_mean.exp()),
        value: mean(&difference)?,
        se: standard_error(&difference),
        correlation,
    })
}

fn delta(pairs: &[(&Position, &Position)]) -> Option<Delta> {
    let shifts: Vec<f64> = pairs.iter().map(|(b, n)| n.logprob.exp() - b.logprob.exp()).collect();
    let squares: Vec<f64> = shifts.iter().map(|x| x * x).collect();
    let rms = mean(&squares)?.sqrt();
    let (mean, mean_se) = (mean(&shifts)?, standard_error(&shifts));
    let rms_se = standard_error(&squares).filter(|_| rms > 0.0).map(|se| 0.5 * se / rms);
    let sorted = ascending(shifts);
    Some(Delta {
        mean,
        mean_se,
        rms,
        rms_se,
        p05: at(&sorted, 0.05)?,
        median: at(&sorted, 0.5)?,
        p95: at(&sorted, 0.95)?,
    })
}

/// One position: its divergence, how many tokens were compared one by one, what is left over.
struct AtPosition {
    nats: f64,
    compared: u64,
    left_over: f64,
}

fn kl(pairs: &[(&Position, &Position)]) -> Option<Kl> {
    let each: Vec<AtPosition> = pairs.iter().map(|(base, new)| kl_at(base, new)).collect();
    let nats: Vec<f64> = each.iter().map(|p| p.nats).collect();
    let left: Vec<f64> = each.iter().map(|p| p.left_over).collect();
    let left_over = mean(&left)?;
    let (mean, mean_se) = (mean(&nats)?, standard_error(&nats));
    let sorted = ascending(nats);
    Some(Kl {
        kind: if left.iter().any(|l| *l > 0.0) { KlKind::LowerBound } else { KlKind::Full },
        fewest: each.iter().map(|p| p.compared).min()?,
        most: each.iter().map(|p| p.compared).max()?,
        left_over,
        mean,
        mean_se,
        median: at(&sorted, 0.5)?,
        p95: at(&sorted, 0.95)?,
        p99: at(&sorted, 0.99)?,
        max: *sorted.last()?,
    })
}

/// Over the tokens that both tell, and all others as one. Merging outcomes never raises a divergence (the
/// data-processing inequality), so this is a lower bound, and exact where nothing is left over.
fn kl_at(base: &Position, new: &Position) -> AtPosition {
    let told = |position: &Position| -> BTreeMap<u32, f64> {
        let own = [(position.target, position.logprob)];
        position.top.entries.iter().copied().chain(own).collect()
    };
    // A token of the text beside the likeliest is taken out of the tail.
    let beside = |position: &Position| {
        let is_in = position.top.entries.iter().any(|(id, _)| *id == position.target);
        if is_in { 0.0 } else { position.logprob.exp() }
    };
    let rest = |position: &Position, others: f64| match position.top.tail {
        Some(tail) => (tail.exp() - beside(position)).max(0.0) + others,
        None => others,
    };
    let (p, q) = (told(base), told(new));
    let shared = || p.iter().filter_map(|(id, p)| Some((*p, *q.get(id)?)));
    let others = |of: &BTreeMap<u32, f64>, than: &BTreeMap<u32, f64>| -> f64 {
        of.iter().filter(|(id, _)| !than.contains_key(id)).map(|(_, p)| p.exp()).sum()
    };
    let mut nats: f64 = shared().map(|(p, q)| p.exp() * (p - q)).sum();
    let left_over = rest(base, others(&p, &q));
    if left_over > 0.0 {
        // A rest that its server rounds to nothing is at most the rounding.
        let theirs = rest(new, others(&q, &p)).max(NOTHING);
        nats += left_over * (left_over / theirs).ln();
    }
    // Rounding of logs may take it below 0, which no divergence is.
    AtPosition { nats: nats.max(0.0), compared: shared().count() as u64, left_over }
}
