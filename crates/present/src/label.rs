//! Short labels of tables and charts.

use decide::words::{NBSP, fixed, number, percent, time};
use decide::{Check, MarginalReport, RunReport};
use measure::{Figure, Interval, Undefined};
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
    let show = |x: f64| {
        let text = fixed(x / scale, places);
        // An end that is far below its value must not be rounded to nothing.
        if x > 0.0 && !text.contains(|c: char| c.is_ascii_digit() && c != '0') {
            number(x / scale)
        } else {
            text
        }
    };
    match (interval.low, interval.high) {
        (Some(low), Some(high)) => Some(format!("{}–{}", show(low), show(high))),
        (Some(low), None) => Some(format!("≥{NBSP}{}", show(low))),
        (None, Some(high)) => Some(format!("≤{NBSP}{}", show(high))),
        (None, None) => None,
    }
}

/// A reason in words, after a count of requests.
pub(crate) fn phrase(why: Undefined) -> &'static str {
    match why {
        Undefined::NoOutput => "without output",
        Undefined::NotStreamed => "not streamed",
        Undefined::SingleToken => "with a single token",
        Undefined::SingleChunk => "with a single chunk",
        Undefined::ReasoningOnly => "with thinking only",
        Undefined::AllInFirstChunk => "with all tokens in the first chunk",
        Undefined::NoKernelStamp => "without kernel receive stamps",
        Undefined::NotSent => "never sent",
        Undefined::NoTokenCount => "without a token count",
        Undefined::NoneCompleted => "no request completed",
        Undefined::TooFewSamples { .. } => "too few samples",
        Undefined::NoSpan => "without a span of time",
        Undefined::NotApplicable => "does not apply",
        Undefined::Withheld => "withheld",
    }
}

/// A limit's value in the metric's own unit: times in ms, shares in per cent, the rest as is.
pub(crate) fn limit_value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::ErrorRate => percent(value),
        m if decide::verdict::is_time(m) => time(value),
        _ => number(value),
    }
}

/// What a limit found: its value, the bound beyond which it lies, or a dash.
pub(crate) fn limit_figure(metric: Metric, report: &MarginalReport) -> String {
    match (report.value, report.low, report.high) {
        (Some(value), ..) => limit_value(metric, value),
        (None, Some(low), _) => format!(">{NBSP}{}", limit_value(metric, low)),
        (None, None, Some(high)) => format!("<{NBSP}{}", limit_value(metric, high)),
        (None, None, None) => "–".to_owned(),
    }
}

/// What a reader should know, what the journal lost first.
pub(crate) fn notes(report: &RunReport) -> Vec<String> {
    let missing = report.missing.iter().map(|what| format!("Missing from the journal: {what}."));
    missing.chain(report.notes.iter().cloned()).collect()
}

/// The interval of a limit's value; an open side as `…`.
pub(crate) fn limit_interval(metric: Metric, low: Option<f64>, high: Option<f64>) -> Option<String> {
    if low.is_none() && high.is_none() {
        return None;
    }
    let side = |x: Option<f64>| x.map_or("…".to_owned(), |x| limit_value(metric, x));
    Some(format!("{} – {}", side(low), side(high)))
}

/// A check's name as shown.
pub(crate) fn check_name(check: &Check) -> String {
    check.id.label()
}

/// The rule's name as written in flags.
pub(crate) fn rule_name(rule: spec::PercentileRule) -> &'static str {
    match rule {
        spec::PercentileRule::Linear => "linear",
        spec::PercentileRule::NearestRank => "nearest-rank",
        spec::PercentileRule::Loadgen => "loadgen",
    }
}

/// Text of others without the characters that steer a terminal or turn the direction of a line.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_the_decimals_of_their_value_and_never_vanish() {
        let of = |low, high, places| interval(Interval { low, high }, 1e6, places);
        assert_eq!(of(Some(64.71e6), Some(74.2e6), 1).as_deref(), Some("64.7–74.2"));
        assert_eq!(of(Some(0.0321e6), None, 0).as_deref(), Some("≥\u{a0}0.0321"));
        assert_eq!(of(Some(0.0), Some(2e6), 0).as_deref(), Some("0–2"));
        assert_eq!(of(None, Some(2e6), 1).as_deref(), Some("≤\u{a0}2.0"));
        assert_eq!(of(None, None, 1), None);
    }

    #[test]
    fn harmless_text_keeps_its_lines_and_loses_its_power() {
        assert_eq!(harmless("a\tb\nc\u{1b}[2J\u{202e}é"), "a\tb\nc\u{fffd}[2J\u{fffd}é");
    }
}
