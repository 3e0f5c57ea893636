//! Limits: the joint rate, its margins, and each marginal limit.

use decide::words::{count, number, percent, percent_number, plain};
use decide::{JointReport, MarginalReport, RunReport};
use maud::{Markup, html};
use spec::MarginalLimit;

use super::share;
use crate::label::{limit_figure, limit_interval};

pub(super) fn section(report: &RunReport) -> Markup {
    let slo = &report.slo;
    html! {
        section id="slo" {
            h2 { "Limits" }
            @if slo.joint.is_none() && slo.marginal.is_empty() {
                p.lead { "No limit was set. " code { "--slo 'ttft<=500ms' --slo 'p99(tpot)<=50ms'" } " sets them." }
            } @else {
                p.lead {
                    "A joint limit counts a request only if it is within every limit on requests; failures and time-outs \
                     count against it. A marginal limit judges one statistic. Both are tested on raw nanoseconds."
                }
                div.slo {
                    @if let Some(joint) = &slo.joint { (joint_part(joint)) }
                    @if !slo.marginal.is_empty() { (marginal_part(&report.spec.slo.marginal, &slo.marginal)) }
                }
                @if let Some(together) = &slo.together {
                    p.note {
                        b { "Joint and marginal. " } "Taken " (together.words().unwrap_or_default()) "."
                        @if together.is_misleading() {
                            " Limits without a percentile, with " code { "--attain" } ", ask for all at once."
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn badge(met: Option<bool>) -> Markup {
    let (class, sign, word) = match met {
        Some(true) => ("pass", "✓", "met"),
        Some(false) => ("fail", "✕", "not met"),
        None => ("undecided", "◇", "undecided"),
    };
    html! { span class={ "bd " (class) } { i aria-hidden="true" { (sign) } (word) } }
}

fn joint_part(joint: &JointReport) -> Markup {
    let interval = match (joint.attainment.low, joint.attainment.high) {
        (Some(low), Some(high)) => format!("({}–{})", percent_number(low), percent(high)),
        _ => String::new(),
    };
    html! {
        div {
            h3 { "Joint: " (joint.limits.join(" and ")) ", for " (percent(joint.target)) " of offered" }
            @if let (None, Some(most)) = (joint.attainment.value, joint.attainment.high) {
                div.big { small { "at most " } (percent(most)) }
                dl.kv style="margin-top:12px" {
                    dt { "Verdict" }
                    dd { (badge(joint.met)) @if let Some(reason) = &joint.reason { small.why { (reason) } } }
                }
            } @else if joint.attainment.value.is_none() {
                p.note { b { "Not judged." } @if let Some(reason) = &joint.reason { " " (reason) } }
            } @else {
                div.big { (share(joint.attainment.value)) " " small { (interval) } }
                (attainment(joint))
                dl.kv style="margin-top:12px" {
                    dt { "Verdict" }
                    dd { (badge(joint.met)) @if let Some(reason) = &joint.reason { small.why { (reason) } } }
                    dt { "Good" } dd { (joint.good.map_or("–".to_owned(), count)) " of " (count(joint.offered)) " offered" }
                    dt { "Goodput" } dd { (joint.goodput_per_s.map_or("–".to_owned(), number)) " requests/s" }
                }
            }
        }
    }
}

/// How much below 100 % the axis begins, so that it holds this share with some room.
fn attainment_span(lowest: f64) -> f64 {
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].into_iter().find(|span| (1.0 - lowest) * 1.15 <= *span).unwrap_or(1.0)
}

/// The share on an axis that ends at 100 % and holds the target and the whole interval.
fn attainment(joint: &JointReport) -> Markup {
    let (value, target) = (joint.attainment.value.unwrap_or(0.0), joint.target);
    let span = attainment_span(joint.attainment.low.unwrap_or(value).min(target).min(value));
    let from = 1.0 - span;
    let left = |share: f64| format!("{:.2}%", ((share - from) / span).clamp(0.0, 1.0) * 100.0);
    let sentence = format!("Attainment {} against a target of {}", percent(value), percent(target));
    // The word stands on the side that has room.
    let (anchor, shift) = if (target - from) / span > 0.5 { ("end", "-6") } else { ("start", "6") };
    html! {
        div.pw style="padding:22px 18px 24px 18px" {
            svg.plot role="img" aria-label=(sentence) height="34" {
                title { (sentence) }
                line class="gr" x1="0" x2="100%" y1="50%" y2="50%" {}
                @if let (Some(low), Some(high)) = (joint.attainment.low, joint.attainment.high) {
                    rect class="band" x=(left(low)) y="20%" height="60%"
                        width=(format!("{:.2}%", ((high - low.max(from)) / span).clamp(0.004, 1.0) * 100.0)) {}
                }
                line class="cross" x1=(left(value)) x2=(left(value)) y1="5%" y2="95%" {}
                line class="lim" x1=(left(target)) x2=(left(target)) y1="-10" y2="100%" {}
                text class="lbl" x=(left(target)) y="-6" dx=(shift) text-anchor=(anchor) { "target " (percent(target)) }
                @for i in 0..=4 {
                    @let share = from + span * f64::from(i) / 4.0;
                    text class="tk" x=(left(share)) y="100%" dy="18" text-anchor="middle" { (plain(share * 100.0)) "\u{a0}%" }
                }
            }
        }
    }
}

fn marginal_part(limits: &[MarginalLimit], reports: &[MarginalReport]) -> Markup {
    html! {
        div {
            h3 { "Marginal: one statistic, one limit" }
            div.tw tabindex="0" {
                table {
                    thead { tr { th.l { "Limit" } th { "Measured" } th.ax { span { "¼ ×" } span { "limit" } span { "4 ×" } } th.l { "Verdict" } } }
                    tbody {
                        @for (limit, report) in limits.iter().zip(reports) {
                            tr {
                                td { code { (report.limit) } }
                                td {
                                    (limit_figure(limit.metric, report))
                                    @if let Some(text) = limit_interval(limit.metric, report.low, report.high).filter(|_| report.value.is_some()) { small { (text) } }
                                }
                                td.ax { (ratio(limit, report)) }
                                td.l {
                                    (badge(report.met))
                                    @if let Some(reason) = &report.reason { small.why { (reason) } }
                                }
                            }
                        }
                    }
                }
            }
            p.note { b { "Undecided" } " without a reason beside it means that the data exclude neither side; a longer run would settle it." }
        }
    }
}

/// Where a value stands, in per cent of the axis: a quarter of the limit at 0, the limit in the
/// middle, four times the limit at 100.
fn on_ratio_axis(value: f64, limit: f64) -> f64 {
    let ratio = value / limit;
    if ratio > 0.0 { ((ratio.log2() + 2.0) / 4.0).clamp(0.0, 1.0) * 100.0 } else { 0.0 }
}

/// Value and interval as multiples of the limit, from a quarter to four times.
fn ratio(limit: &MarginalLimit, report: &MarginalReport) -> Markup {
    let place = |value: f64| on_ratio_axis(value, limit.value);
    if limit.value <= 0.0 {
        return html! {};
    }
    let value = limit_figure(limit.metric, report);
    let sentence = format!("{}: {value}", report.limit);
    let (low, high) = (report.low.map_or(0.0, place), report.high.map_or(100.0, place));
    html! {
        svg.plot role="img" aria-label=(sentence) height="18" {
            title { (sentence) }
            line class="gr" x1="0" x2="100%" y1="50%" y2="50%" {}
            line class="lim" x1="50%" x2="50%" y1="0" y2="100%" {}
            @if report.low.is_some() || report.high.is_some() {
                rect class="band" x=(format!("{low:.2}%")) width=(format!("{:.2}%", (high - low).max(0.6))) y="20%" height="60%" {}
            }
            @if let Some(value) = report.value {
                @let x = format!("{:.2}%", place(value));
                @match report.met {
                    Some(true) => svg class="mk pass" x=(x) y="50%" overflow="visible" { circle r="5" {} },
                    Some(false) => svg class="mk fail" x=(x) y="50%" overflow="visible" { path d="M-5-5 5 5M5-5-5 5" {} },
                    None => svg class="mk undecided" x=(x) y="50%" overflow="visible" { path d="M0-6 6 0 0 6-6 0Z" {} },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_in_the_middle_of_the_ratio_axis() {
        let at = |value| on_ratio_axis(value, 200.0);
        assert!((at(200.0) - 50.0).abs() < 1e-9);
        assert!((at(50.0) - 0.0).abs() < 1e-9);
        assert!((at(800.0) - 100.0).abs() < 1e-9);
        assert!((at(100.0) - 25.0).abs() < 1e-9);
        assert!((at(1e9) - 100.0).abs() < 1e-9);
        assert!(at(0.0).abs() < 1e-9);
    }

    #[test]
    fn the_attainment_axis_holds_the_target_and_the_interval() {
        assert!((attainment_span(0.95) - 0.1).abs() < 1e-9);
        assert!((attainment_span(0.995) - 0.01).abs() < 1e-9);
        assert!((attainment_span(0.3) - 1.0).abs() < 1e-9);
        assert!((attainment_span(0.0) - 1.0).abs() < 1e-9);
    }
}
