//! Did requests leave on time: `send_lag`.

use spec::{Load, Nanos};

use crate::bound::ErrorBound;
use crate::facts::{Facts, quantile};
use crate::instrument::floor;
use crate::limits;
use crate::slo::metric_words;
use crate::trust::{Cap, Capped, Check, CheckId};
use crate::words::{count, counted, percent, time};
use measure::percentile_name;

/// Requests left on time, and what the lateness may have done to a percentile.
pub fn send_lag(facts: &Facts, bounds: &[ErrorBound]) -> Check {
    let mut lags: Vec<Nanos> = facts.lags.iter().flatten().copied().collect();
    let limit = if facts.is_burst() {
        format!("{} added to a percentile", percent(limits::BOUND_FLAG))
    } else {
        format!(
            "{} of sends later than {}, {} added to a percentile",
            percent(limits::LATE_SHARE),
            time(facts.late_limit.0 as f64),
            percent(limits::BOUND_FLAG)
        )
    };
    let (Some(p99), Some(max)) = (quantile(&mut lags, 0.99), lags.iter().max().copied()) else {
        return Check::unknown(CheckId::SendLag, "nothing was sent", limit, "Measure at least one request.");
    };
    let late = lags.iter().filter(|lag| **lag > facts.late_limit).count() as u64;
    let late_share = late as f64 / lags.len() as f64;
    // Of equals the first: without thinking, TTFT and TTFAT are the same.
    let worst = bounds.iter().rev().filter(|b| b.matters()).max_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    // A burst has no timetable to be late against: only what its length does to a percentile counts.
    let by_time = !facts.is_burst()
        && (late_share > limits::LATE_SHARE && late >= limits::LATE_AT_LEAST || max > limits::LAG_MAX);
    let mut figure = format!("p99 {}", time(p99.0 as f64));
    if late > 0 && !facts.is_burst() {
        figure.push_str(&format!("; {} of {} late", count(late), counted(lags.len() as u64, "send")));
    }
    if max > limits::LAG_MAX {
        figure.push_str(&format!(", longest {}", time(max.0 as f64)));
    }
    if let Some(bound) = worst {
        figure.push_str(&format!(
            "; adds at most {} to {} {}",
            time(bound.bound),
            percentile_name(bound.share),
            metric_words(bound.metric)
        ));
    }
    let advice = match (&facts.run.header.spec.load, own_error_alone(facts, bounds)) {
        (_, Some(own)) if !by_time => format!(
            "This machine's own error ({} by its self-check) is large beside what was measured: use a quieter machine, or one whose kernel stamps what it receives.",
            time(own)
        ),
        (Load::Open(_), _) => {
            "Requests left late: use more lanes (--lanes), a less busy machine, or a lower rate (--rate)."
                .to_owned()
        }
        (Load::Closed(_), _) => {
            "Requests left late: use more lanes (--lanes), a less busy machine, or fewer users (-c)."
                .to_owned()
        }
    };
    Check::judged(CheckId::SendLag, by_time || worst.is_some(), figure, limit)
        .if_failed(advice, bound_caps(bounds))
}

/// The error of the self-check in nanoseconds, where no bound would matter without it: the requests
/// left on time, and no lane helps.
fn own_error_alone(facts: &Facts, bounds: &[ErrorBound]) -> Option<f64> {
    let own = floor(&facts.run.header.environment)?.latency_ns as f64;
    let without = |b: &ErrorBound| ErrorBound { bound: b.bound - 2.0 * own, ..*b };
    bounds.iter().all(|b| !without(b).matters()).then_some(own)
}

/// Percentiles that lateness on this side may have raised by too much.
pub fn bound_caps(bounds: &[ErrorBound]) -> Vec<Cap> {
    bounds
        .iter()
        .filter(|b| b.matters())
        .map(|b| {
            let capped = Capped::Percentile(b.metric, (b.share * 10_000.0).round() as u16);
            if b.ratio() > limits::BOUND_WITHHOLD { Cap::Withhold(capped) } else { Cap::Flag(capped) }
        })
        .collect()
}
