//! Short labels of tables and charts.

use decide::words::{NBSP, fixed, number};
use measure::{Figure, Interval};
use spec::Metric;

/// A metric as table heads write it.
pub(crate) fn metric(metric: Metric) -> &'static str {
    match metric {
        Metric::Ttft => "TTFT",
        Metric::Ttfat => "TTFAT",
        Metric::E2e => "E2E",
        Metric::Tpot => "TPOT",
        Metric::Itl => "ITL",
        Metric::Icl => "ICL",
        Metric::DecodeTpot => "decode TPOT",
        Metric::MaxGap => "largest gap",
        Metric::UserTps => "user tokens/s",
        Metric::ScheduleLag => "send lag",
        Metric::ClientLag => "client lag",
        Metric::ErrorRate => "error rate",
        Metric::RequestThroughput => "requests/s",
        Metric::OutputTokenThroughput => "output tokens/s",
    }
}

/// A figure in units of `scale`: `68.6`, `> 10,000`, or a dash.
pub(crate) fn figure(figure: &Figure, scale: f64) -> String {
    match figure {
        Figure::Known(e) => number(e.value / scale),
        Figure::Exceeds(bound) => format!(">{NBSP}{}", number(bound / scale)),
        Figure::Undefined(_) => "–".to_owned(),
    }
}

/// An interval in units of `scale` with the decimals of its value; an open side as `≥` or `≤`.
pub(crate) fn interval(interval: Interval, scale: f64, places: usize) -> Option<String> {
    let show = |x: f64| fixed(x / scale, places);
    match (interval.low, interval.high) {
        (Some(low), Some(high)) => Some(format!("{}–{}", show(low), show(high))),
        (Some(low), None) => Some(format!("≥{NBSP}{}", show(low))),
        (None, Some(high)) => Some(format!("≤{NBSP}{}", show(high))),
        (None, None) => None,
    }
}
