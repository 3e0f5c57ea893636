//! Good requests, attainment, goodput and limits on statistics (definitions §6).

use record::{Request, Run};
use serde::Serialize;
use spec::{JointLimit, MarginalLimit, Metric, Slo, Statistic, View};

use crate::correlation::{cautious, tau};
use crate::estimate::{Defined, Estimate, Figure, Interval, Method, Undefined};
use crate::interval::wilson;
use crate::request::Observed;
use crate::samples::Samples;
use crate::summary::{Measures, Window};

/// Whether a value that ended well stands within a limit. A limit on what cannot exist for the
/// request (time between tokens of an answer that came as one) does not apply and holds; a limit on
/// what should exist and does not (time to a token that never came) fails.
fn within(observed: &Observed<'_>, limit: &JointLimit, view: View) -> bool {
    match observed.value(limit.metric, view) {
        Ok(value) => limit.op.holds(value, limit.value),
        Err(Undefined::SingleToken | Undefined::SingleChunk | Undefined::AllInFirstChunk) => true,
        // All tokens at one moment: no speed is faster.
        Err(Undefined::NoSpan) => true,
        Err(_) => false,
    }
}

/// Whether a request is good: it ended well and is within every limit on single requests.
pub fn good(request: &Request, slo: &Slo, view: View) -> bool {
    let observed = Observed::new(request, &mut Vec::new());
    request.state.is_ok() && slo.joint.iter().all(|limit| within(&observed, limit, view))
}

/// What became of the joint limits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Joint {
    /// Good requests.
    pub good: u64,
    /// Offered requests.
    pub offered: u64,
    /// good / offered with Wilson's interval on the effective sample size.
    pub attainment: Defined<Estimate>,
    /// good / duration.
    pub goodput_per_s: Defined<f64>,
    /// Output tokens of good requests / duration.
    pub good_tokens_per_s: Defined<f64>,
    /// Share of offered requests that ended well within each limit alone, in the order of the spec.
    pub alone: Vec<f64>,
    /// Between which the joint share must lie, given only the shares above.
    pub bounds: (f64, f64),
}

/// A share of a series of yes and no in time order, with Wilson's interval on its effective size.
pub fn share(series: &[bool]) -> Defined<Estimate> {
    if series.is_empty() {
        return Err(Undefined::NoneCompleted);
    }
    let values: Vec<f64> = series.iter().map(|&yes| f64::from(u8::from(yes))).collect();
    let n = values.len() as f64;
    let value = values.iter().sum::<f64>() / n;
    let n_eff = n / cautious(tau(&values));
    let n = series.len() as u64;
    Ok(Estimate { value, interval: wilson(value, n_eff), n, n_eff, method: Method::Wilson })
}

/// The joint limits over the measured requests. `passed` tells whether a request's answer was right,
/// `None` where no label exists.
pub fn joint(
    samples: &Samples<'_>,
    slo: &Slo,
    view: View,
    window: &Window,
    passed: impl Fn(&Request) -> Option<bool>,
) -> Joint {
    let count = slo.joint.len();
    let mut alone = vec![0_u64; count];
    let (mut good_tokens, mut series) = (0_u64, Vec::with_capacity(samples.observed.len()));
    for observed in &samples.observed {
        let ok = observed.request.state.is_ok();
        let mut all = ok && passed(observed.request).unwrap_or(true);
        for (limit, alone) in slo.joint.iter().zip(&mut alone) {
            let holds = ok && within(observed, limit, view);
            *alone += u64::from(holds);
            all &= holds;
        }
        if all {
            good_tokens += observed.output.map_or(0, |(tokens, _)| u64::from(tokens));
        }
        series.push(all);
    }
    let offered = series.len() as u64;
    let good = series.iter().filter(|&&good| good).count() as u64;
    let seconds = window.duration.as_secs_f64();
    let rate = |amount: u64| if seconds > 0.0 { Ok(amount as f64 / seconds) } else { Err(Undefined::NoSpan) };
    let alone: Vec<f64> =
        alone.into_iter().map(|n| if offered > 0 { n as f64 / offered as f64 } else { 0.0 }).collect();
    Joint {
        good,
        offered,
        attainment: share(&series),
        goodput_per_s: rate(good),
        good_tokens_per_s: rate(good_tokens),
        bounds: joint_bounds(&alone),
        alone,
    }
}

/// The bounds of a joint share from the shares of its parts: [max(0, Σ − (k − 1)), min].
pub fn joint_bounds(alone: &[f64]) -> (f64, f64) {
    let most = alone.iter().copied().fold(1.0, f64::min);
    let least = alone.iter().sum::<f64>() - (alone.len() as f64 - 1.0);
    // Rounding must not put the lower bound above the upper one.
    (if alone.is_empty() { 0.0 } else { least.clamp(0.0, most) }, most)
}

/// The statistic of a marginal limit. A percentile and a maximum run over offered requests, a mean
/// over completed ones.
pub fn marginal(run: &Run, measures: &Measures, limit: &MarginalLimit) -> Figure {
    let rate = |value: &Defined<Estimate>| value.map_or_else(Figure::Undefined, Figure::Known);
    match (limit.metric, limit.statistic) {
        (Metric::ErrorRate, _) => {
            let failed: Vec<bool> = Samples::new(run).requests().map(|r| !r.state.is_ok()).collect();
            share(&failed).map_or_else(Figure::Undefined, Figure::Known)
        }
        (Metric::RequestThroughput, _) => rate(&measures.throughput.requests_per_s),
        (Metric::OutputTokenThroughput, _) => rate(&measures.throughput.output_tokens_per_s),
        (_, Statistic::Whole) => Figure::Undefined(Undefined::NotApplicable),
        (metric, statistic) => {
            let Some(summary) = measures.metrics.get(&metric) else {
                return Figure::Undefined(Undefined::NotApplicable);
            };
            match statistic {
                Statistic::Mean | Statistic::Whole => summary.mean,
                Statistic::Percentile(p) => summary
                    .percentile(p)
                    .copied()
                    .unwrap_or_else(|| Samples::new(run).percentile(metric, measures.view, p, measures.rule)),
                Statistic::Max => largest(run, measures, metric),
            }
        }
    }
}

fn largest(run: &Run, measures: &Measures, metric: Metric) -> Figure {
    let samples = Samples::new(run);
    match samples.distribution(metric, measures.view) {
        Some(distribution) => distribution.largest(),
        None => match measures.metrics.get(&metric).map(|summary| (summary.max, summary.n)) {
            Some((Ok(value), n)) => Figure::Known(exact(value, n)),
            Some((Err(reason), _)) => Figure::Undefined(reason),
            None => Figure::Undefined(Undefined::NotApplicable),
        },
    }
}

/// A number without sampling error.
pub(crate) fn exact(value: f64, n: u64) -> Estimate {
    Estimate { value, interval: Interval::default(), n, n_eff: n as f64, method: Method::Exact }
}
