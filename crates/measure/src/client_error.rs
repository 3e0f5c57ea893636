//! How much of a percentile the measuring side may have added itself.

use serde::Serialize;
use spec::PercentileRule;

use crate::percentile::percentile;

/// One request as the bound sees it; nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Suspect {
    /// The latency in the user view.
    pub value: f64,
    /// Its own send lag, plus the bound of its receive stamp where that is no kernel stamp.
    pub lag: f64,
    /// Intended in a window in which the client was limited, or in the one after it.
    pub touched: bool,
}

/// What the client adds to a percentile at most, nanoseconds. One-sided: late sends raise it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClientError {
    /// Fall of the percentile when each request's own lag is taken away.
    pub pair: f64,
    /// Fall of the percentile when touched requests are set to 0.
    pub window: f64,
    /// The larger of both plus twice the floor of the self-check.
    pub bound: f64,
}

/// The bound E_p at share `p`; `None` without requests.
pub fn client_error_bound(
    suspects: &[Suspect],
    p: f64,
    rule: PercentileRule,
    floor: f64,
) -> Option<ClientError> {
    let quantile = |value: fn(&Suspect) -> f64| {
        let mut values: Vec<f64> = suspects.iter().map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        percentile(&values, p, rule)
    };
    let seen = quantile(|s| s.value)?;
    let pair = seen - quantile(|s| (s.value - s.lag).max(0.0))?;
    let window = seen - quantile(|s| if s.touched { 0.0 } else { s.value })?;
    Some(ClientError { pair, window, bound: pair.max(window) + 2.0 * floor })
}
