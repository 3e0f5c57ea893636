//! The table of metrics: value with its interval below, and a reason for every dash.

use std::collections::BTreeMap;

use decide::RunReport;
use decide::words::{NBSP, TimeUnit, count, decimals, fixed, number};
use maud::{Markup, html};
use measure::{Figure, MetricSummary, PERCENTILES, Undefined, Unit, percentile_name};
use spec::{Metric, View};

use crate::label::{interval, metric};
use crate::terminal::{phrase, rule_name};

pub(super) fn section(report: &RunReport) -> Markup {
    let m = &report.measures;
    let other = match m.view {
        View::User => "server view",
        View::Server => "user view",
    };
    html! {
        section id="metrics" {
            h2 { "Metrics" }
            p.lead {
                "Value with its 95" (NBSP) "% interval below. Percentiles by " code { (rule_name(m.rule)) } ", over offered requests: \
                 failed and cut ones count as larger than any value. Latencies start "
                @match m.view {
                    View::User => "at the intended send (user view)",
                    View::Server => "at the first byte written (server view)",
                }
                " unless named otherwise."
            }
            div.tw tabindex="0" {
                table {
                    thead {
                        tr {
                            th { "Metric" } th { "n" } th { "mean" }
                            @for p in PERCENTILES { th { (percentile_name(p)) } }
                            th { "max" }
                        }
                    }
                    tbody {
                        @for (name, summary) in &m.metrics {
                            (row(*name, summary, None, report))
                            @if let Some(summary) = m.other_view.get(name) { (row(*name, summary, Some(other), report)) }
                            @if differs(summary) { (completed(*name, summary)) }
                        }
                    }
                }
            }
            p.note {
                "eff.: effective sample size, because neighbouring requests share queue and batch. "
                @for (name, reasons) in missing(&m.metrics) { b { (metric(name)) } " is not defined for " (reasons) ". " }
                @for (name, flags) in &report.flags { b { (metric(*name)) } " is marked: " (flags.join("; ")) ". " }
            }
        }
    }
}

fn differs(summary: &MetricSummary) -> bool {
    summary.percentiles.iter().any(|(_, f)| matches!(f, Figure::Exceeds(_)))
}

fn missing(metrics: &BTreeMap<Metric, MetricSummary>) -> Vec<(Metric, String)> {
    metrics
        .iter()
        .filter(|(_, s)| !s.undefined.is_empty())
        .map(|(name, s)| {
            let reasons: Vec<String> = s
                .undefined
                .iter()
                .map(|(why, n)| format!("{} requests {}", count(*n), phrase(*why)))
                .collect();
            (*name, reasons.join(", "))
        })
        .collect()
}

/// The unit of a row: from its median, or its mean.
fn scale(summary: &MetricSummary) -> (f64, &'static str) {
    if summary.unit == Unit::TokensPerSecond {
        return (1.0, "tokens/s");
    }
    let typical =
        summary.percentiles.iter().find_map(|(_, f)| f.value()).or(summary.mean.value()).unwrap_or(1e6);
    let unit = TimeUnit::of(typical);
    (unit.ns(), unit.symbol())
}

fn row(name: Metric, summary: &MetricSummary, view: Option<&str>, report: &RunReport) -> Markup {
    let (scale, unit) = scale(summary);
    let flagged = view.is_none() && report.flags.contains_key(&name);
    html! {
        tr.sub[view.is_some()] {
            td {
                b { (metric(name)) } @if flagged { sup { "!" } }
                small { (unit) @if let Some(view) = view { ", " (view) } @else { (pooling(name)) } }
            }
            td {
                (count(summary.n))
                @if summary.tau > 1.0 && summary.n > 0 { small { "eff. " (count((summary.n as f64 / summary.tau) as u64)) } }
            }
            (cell(&summary.mean, scale))
            @for (_, figure) in &summary.percentiles { (cell(figure, scale)) }
            @match &summary.max { Ok(max) => td { (number(max / scale)) }, Err(_) => td.na { "–" } }
        }
    }
}

/// Percentiles over completed requests, where those over offered are cut off.
fn completed(name: Metric, summary: &MetricSummary) -> Markup {
    let (scale, unit) = scale(summary);
    html! {
        tr.sub {
            td { b { (metric(name)) } small { (unit) ", completed only" } }
            td { (count(summary.n)) }
            td.na { "–" }
            @for (_, figure) in &summary.completed { (cell(figure, scale)) }
            td.na { "–" }
        }
    }
}

fn pooling(name: Metric) -> &'static str {
    match name {
        Metric::Itl => ", pooled over tokens",
        Metric::Icl => ", pooled over chunks",
        Metric::ClientLag => ", per read, client",
        Metric::ScheduleLag => ", client",
        _ => ", per request",
    }
}

fn cell(figure: &Figure, scale: f64) -> Markup {
    match figure {
        Figure::Known(e) => {
            let places = decimals(e.value / scale);
            html! {
                td {
                    (fixed(e.value / scale, places))
                    @if let Some(text) = interval(e.interval, scale, places) { small { (text) } }
                }
            }
        }
        Figure::Exceeds(bound) => html! { td { ">" (NBSP) (number(bound / scale)) } },
        Figure::Undefined(Undefined::TooFewSamples { n, needed }) => {
            html! { td { span.few { "too few samples (" (count(*n)) " of " (count(*needed)) ")" } } }
        }
        Figure::Undefined(why) => html! { td.na { span title=(phrase(*why)) { "–" } } },
    }
}
