//! The table of loads, what was asked, and the definitions of the page.

use decide::sweep::{Order, Over, Point, Repeat, SweepReport};
use decide::words::{NBSP, TimeUnit, count, decimals, number, percent, percent_number, plain};
use decide::{TrustVerdict, words};
use maud::{Markup, html};
use measure::{Figure, MetricSummary};
use spec::Metric;

use crate::html::slo::badge;
use crate::label;

pub(super) fn section(report: &SweepReport, links: bool) -> Markup {
    let load = match report.over {
        Over::Concurrency => "Users",
        Over::Rate => "Offered, requests/s",
    };
    html! {
        section id="points" {
            h2 { "Every load" }
            p.lead {
                "Figures of all runs of a load that count, pooled. " (count(u64::from(report.asked.repeats)))
                @if report.asked.repeats == 1 { " run of each was" } @else { " runs of each were" } " asked for."
            }
            div.tw { table {
                thead { tr {
                    th { (load) } th.l { "Measurement" } th { "requests" } th { "done/s" } th { "tokens/s" } th { "in flight" }
                    th { "TTFT, ms" br; "p50" } th { br; "p95" } th { "TPOT, ms" br; "p50" } th { br; "p95" } th { "E2E, ms" br; "p95" }
                    @if report.points.iter().any(joint) { th { "within" br; "limits" } th { "good/s" } }
                    th.l { "Runs" }
                } }
                tbody { @for point in &report.points { (row(report, point, links)) } }
            } }
        }
    }
}

fn joint(point: &Point) -> bool {
    point.known().is_some_and(|pooled| pooled.slo.joint.is_some())
}

fn row(report: &SweepReport, point: &Point, links: bool) -> Markup {
    let Some(pooled) = point.known() else {
        let columns = if report.points.iter().any(joint) { 11 } else { 9 };
        return html! {
            tr {
                td { b { (plain(point.load)) } }
                td.l { (standing(None)) }
                td.l.wrap.na colspan=(columns) { (point.pooled.as_ref().err().map_or("", String::as_str)) }
                td.l { (runs(point, links)) }
            }
        };
    };
    let measures = &pooled.measures;
    let rates = &measures.throughput;
    let metric = |metric: Metric, share: f64| latency(measures.metrics.get(&metric), share);
    html! {
        tr {
            td { b { (plain(point.load)) } }
            td.l { (standing(Some(pooled.trust.verdict))) }
            td { (count(measures.counts.ok)) small { "of " (count(measures.counts.offered)) } }
            td {
                @match pooled.throughput {
                    Ok(e) => {
                        (number(e.value))
                        @if let Some(range) = label::interval(e.interval, 1.0, decimals(e.value)) { small { (range) } }
                    },
                    Err(why) => span.na { (label::phrase(why)) },
                }
            }
            td { (rates.output_tokens_per_s.map_or("–".to_owned(), |e| number(e.value))) }
            td { (rates.in_flight_mean.map_or("–".to_owned(), number)) }
            (metric(Metric::Ttft, 0.5)) (metric(Metric::Ttft, 0.95))
            (metric(Metric::Tpot, 0.5)) (metric(Metric::Tpot, 0.95))
            (metric(Metric::E2e, 0.95))
            @if report.points.iter().any(joint) { (good(pooled.slo.joint.as_ref())) }
            td.l { (runs(point, links)) }
        }
    }
}

fn good(joint: Option<&decide::JointReport>) -> Markup {
    let Some(joint) = joint else { return html! { td.na { "–" } td.na { "–" } } };
    html! {
        td {
            @match (joint.attainment.value, joint.attainment.low, joint.attainment.high) {
                (Some(share), low, high) => {
                    (percent(share))
                    @if let (Some(low), Some(high)) = (low, high) { small { (percent_number(low)) "–" (percent_number(high)) } }
                },
                (None, _, Some(most)) => { "≤" (NBSP) (percent(most)) },
                (None, ..) => span.na { "–" },
            }
        }
        td { (joint.goodput_per_s.map_or("–".to_owned(), number)) }
    }
}

fn latency(summary: Option<&MetricSummary>, share: f64) -> Markup {
    let scale = TimeUnit::Milli.ns();
    let Some(figure) = summary.and_then(|summary| summary.percentile(share)) else {
        return html! { td.na { "–" } };
    };
    html! {
        td {
            @match figure {
                Figure::Known(e) => {
                    (number(e.value / scale))
                    @if let Some(range) = label::interval(e.interval, scale, decimals(e.value / scale)) { small { (range) } }
                },
                Figure::Exceeds(bound) => { ">" (NBSP) (number(bound / scale)) },
                Figure::Undefined(why) => span.few { (label::phrase(*why)) },
            }
        }
    }
}

fn standing(verdict: Option<TrustVerdict>) -> Markup {
    let (class, sign, word) = match verdict {
        Some(TrustVerdict::Valid) => ("pass", "✓", "valid"),
        Some(_) => ("undecided", "◇", "limited"),
        None => ("undecided", "?", "unknown"),
    };
    html! { span class={ "bd " (class) } { i aria-hidden="true" { (sign) } (word) } }
}

/// The runs of a load by number, with a link where their pages are.
fn runs(point: &Point, links: bool) -> Markup {
    let title = |repeat: &Repeat| match &repeat.left_out {
        Some(why) => format!("{}: left out: {why}", repeat.name),
        None => repeat.name.clone(),
    };
    html! {
        @for (number, repeat) in (1..).zip(&point.repeats) {
            @if number > 1 { " " }
            @if links {
                a.run href=(format!("{}/report.html", repeat.name)) title=(title(repeat)) { "run" (NBSP) (number) }
            } @else {
                span title=(title(repeat)) { "run" (NBSP) (number) }
            }
            @if repeat.left_out.is_some() { (NBSP) span.na { "left out" } }
        }
    }
}

/// What became of a limit at a load.
pub(super) fn sign(point: &Point, index: usize) -> Markup {
    if point.known().is_none() {
        return html! { span.bd.undecided title="unknown" { i aria-label="unknown" { "?" } } };
    }
    let (met, why) = point.met(index);
    let (class, sign, word) = match met {
        Some(true) => ("pass", "✓", "met"),
        Some(false) => ("fail", "✕", "not met"),
        None => ("undecided", "◇", "undecided"),
    };
    let title = why.map_or_else(|| word.to_owned(), |why| format!("{word}: {why}"));
    html! { span class={ "bd " (class) } title=(title) { i role="img" aria-label=(word) { (sign) } } }
}

pub(super) fn spec(report: &SweepReport) -> Markup {
    let asked = &report.asked;
    let spec = &asked.spec;
    let list: Vec<String> = asked.loads.iter().map(|load| plain(*load)).collect();
    let order = match asked.order {
        Order::Shuffled => "drawn from the seed",
        Order::AsGiven => "as given",
    };
    let yaml = serde_json::to_string_pretty(&spec.redacted()).unwrap_or_default();
    html! {
        section id="spec" {
            h2 { "What was asked" }
            dl.kv {
                dt { "Loads" } dd { (list.join(", ")) }
                dt { "Load model" } dd { (words::load(spec)) ", and likewise at the other loads" }
                dt { "Runs of each load" } dd { (asked.repeats) }
                dt { "Order" } dd { (order) }
                dt { "Seed" } dd { (asked.seed) "; each run has one of its own, so no prompt is sent twice" }
                dt { "Lengths" } dd { (words::lengths(&spec.workload.isl)) " in, " (words::lengths(&spec.workload.osl)) " out" }
                dt { "Prompts" } dd { (words::cache(&spec.workload.cache)) }
                dt { "Accelerators" } dd { (asked.accelerators.map_or("not stated".to_owned(), |n| n.to_string())) }
                @if let Some(joint) = report.points.iter().find_map(|p| p.known()?.slo.joint.as_ref()) {
                    dt { "Target" } dd { (percent(joint.target)) " of offered requests, " (badge(None)) " where the interval includes it" }
                }
            }
            details {
                summary { "The spec of one run" }
                code.cmd { (yaml) }
            }
        }
    }
}

const DEFINITIONS: [(&str, &str); 8] = [
    ("load", "users of a closed loop, or requests offered per second of an open one"),
    (
        "pooled",
        "the measured requests of all runs of a load taken together: percentiles and shares over all of them, rates as completions over durations added up",
    ),
    (
        "done/s",
        "completed requests / duration, with an interval from batch means and, from three runs on, from the spread between runs",
    ),
    (
        "knee",
        "the break of the best continuous line of two pieces through log throughput over log load, where two pieces are clearly better than one (ΔBIC ≥ 6), throughput grows nearly in proportion before it (slope ≥ 0.7) and hardly after it (slope ≤ 0.25); its interval is the 95 % profile of the residual",
    ),
    (
        "crossed",
        "between the largest load at which the limit holds and the smallest at which it is missed; nothing between them is claimed",
    ),
    (
        "unknown",
        "no run of the load may be believed, or this side or somebody else was in their way: never taken for the server’s limit",
    ),
    ("speed of one user", "median over requests of 1 / TPOT"),
    ("Pareto front", "the loads that no other load beats in one of both speeds without losing in the other"),
];

pub(super) fn definitions() -> Markup {
    html! {
        section id="defs" {
            h2 { "Definitions used" }
            details {
                summary { "Loads, knee, crossing, front" }
                dl.kv { @for (name, text) in DEFINITIONS { dt { (name) } dd { (text) } } }
            }
        }
    }
}
