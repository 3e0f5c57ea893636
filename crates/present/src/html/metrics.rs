//! The table of metrics: value with its interval below, and a reason for every dash.

use std::collections::BTreeMap;

use decide::words::{NBSP, TimeUnit, count, decimals, fixed, number};
use decide::{CheckId, RunReport};
use maud::{Markup, html};
use measure::{Figure, MetricSummary, PERCENTILES, Undefined, Unit, percentile_name};
use spec::{Metric, View};

use crate::label::{interval, metric, phrase, rule_name};
use crate::stands;

/// Rows in reading order, and the metric that each may turn out to be equal to.
const ROWS: [(Metric, Option<Metric>); 11] = [
    (Metric::Ttft, None),
    (Metric::Ttfat, Some(Metric::Ttft)),
    (Metric::Tpot, None),
    (Metric::DecodeTpot, Some(Metric::Tpot)),
    (Metric::Itl, None),
    (Metric::Icl, Some(Metric::Itl)),
    (Metric::MaxGap, None),
    (Metric::E2e, None),
    (Metric::UserTps, None),
    (Metric::ScheduleLag, None),
    (Metric::ClientLag, None),
];

/// Columns behind `n`: mean, percentiles, max.
const COLUMNS: usize = PERCENTILES.len() + 2;

pub(super) fn section(report: &RunReport) -> Markup {
    let m = &report.measures;
    let other = match m.view {
        View::User => "server view",
        View::Server => "user view",
    };
    let mut marks = Marks::default();
    let mut rows = Vec::new();
    for (name, twin) in ROWS {
        let Some(summary) = m.metrics.get(&name) else { continue };
        // Without a completed request only the instrument has figures.
        if m.counts.ok == 0 && !matches!(name, Metric::ScheduleLag | Metric::ClientLag) {
            continue;
        }
        if let Some(twin) = twin.filter(|twin| m.metrics.get(twin).is_some_and(|t| same(t, summary))) {
            rows.push(told(name, summary, &format!("equal to {} in every request", metric(twin))));
            continue;
        }
        if let Some(why) = empty(summary) {
            rows.push(told(name, summary, &why));
            continue;
        }
        let mark = marks.of(stands::markers(&report.trust, name));
        rows.push(row(name, summary, None, mark.as_deref()));
        if let Some(summary) = m.other_view.get(&name).filter(|s| empty(s).is_none()) {
            rows.push(row(name, summary, Some(other), None));
        }
        if differs(summary) {
            rows.push(completed(name, summary));
        }
    }
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
                @if m.counts.ok == 0 { " No request completed: there is no latency to show." }
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
                    tbody { @for row in rows { (row) } }
                }
            }
            p.note {
                b { "eff." } " effective sample size: neighbouring requests share queue and batch. Where it is too small, the interval is open or absent. "
                @for doubt in stands::withheld(&report.trust) { b { "Withheld" } " by " (doubt.by) ": " (doubt.what) ". " }
                @for (mark, by) in &marks.0 { b { (mark) } " in doubt: see " (by) " above. " }
                @for (reason, names) in missing(&m.metrics) { b { "Not defined" } ": " (names.join(", ")) ", " (reason) ". " }
            }
        }
    }
}

/// Whether two metrics are the same in this run.
fn same(a: &MetricSummary, b: &MetricSummary) -> bool {
    b.n > 0 && a.n == b.n && a.max == b.max && a.percentiles == b.percentiles && a.mean == b.mean
}

/// Why a summary holds no value at all.
fn empty(summary: &MetricSummary) -> Option<String> {
    let figures = std::iter::once(&summary.mean).chain(summary.percentiles.iter().map(|(_, f)| f));
    let undefined: Vec<Undefined> = figures
        .map(|figure| match figure {
            Figure::Undefined(why) => Some(*why),
            _ => None,
        })
        .collect::<Option<_>>()?;
    if summary.max.is_ok() {
        return None;
    }
    if undefined.contains(&Undefined::Withheld) {
        return Some("withheld".to_owned());
    }
    let reasons: Vec<String> = summary.undefined.iter().map(|(why, n)| requests(*n, *why)).collect();
    Some(if reasons.is_empty() {
        "not defined: no request completed".to_owned()
    } else {
        format!("not defined: {}", reasons.join(", "))
    })
}

fn requests(n: u64, why: Undefined) -> String {
    format!("{} {} {}", count(n), if n == 1 { "request" } else { "requests" }, phrase(why))
}

/// A row that is one sentence.
fn told(name: Metric, summary: &MetricSummary, text: &str) -> Markup {
    html! {
        tr {
            td { b { (metric(name)) } small { (population(name).trim_start_matches(", ")) } }
            td { (count(summary.n)) }
            td.l.na colspan=(COLUMNS) { (text) }
        }
    }
}

fn differs(summary: &MetricSummary) -> bool {
    summary.percentiles.iter().any(|(_, f)| matches!(f, Figure::Exceeds(_)))
}

/// Requests without a value, where others have one: reason → metrics.
fn missing(metrics: &BTreeMap<Metric, MetricSummary>) -> BTreeMap<String, Vec<&'static str>> {
    let mut out: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
    for (name, summary) in metrics.iter().filter(|(_, s)| empty(s).is_none()) {
        for (why, n) in &summary.undefined {
            out.entry(requests(*n, *why)).or_default().push(metric(*name));
        }
    }
    out
}

/// Marks of metrics in doubt; the same checks have the same mark.
#[derive(Default)]
struct Marks(Vec<(String, String)>);

impl Marks {
    fn of(&mut self, checks: Vec<CheckId>) -> Option<String> {
        if checks.is_empty() {
            return None;
        }
        let by = checks.into_iter().map(CheckId::label).collect::<Vec<_>>().join(", ");
        if let Some((mark, _)) = self.0.iter().find(|(_, known)| *known == by) {
            return Some(mark.clone());
        }
        let mark = char::from(b'a' + (self.0.len() as u8).min(25)).to_string();
        self.0.push((mark.clone(), by));
        Some(mark)
    }
}

/// The unit of a row: from its median, or its mean, or its largest value.
fn scale(summary: &MetricSummary) -> (f64, &'static str) {
    if summary.unit == Unit::TokensPerSecond {
        return (1.0, "tokens/s");
    }
    let typical = summary
        .percentiles
        .iter()
        .find_map(|(_, f)| f.value())
        .or(summary.mean.value())
        .or(summary.max.ok())
        .unwrap_or(1e6);
    let unit = TimeUnit::of(typical);
    (unit.ns(), unit.symbol())
}

fn row(name: Metric, summary: &MetricSummary, view: Option<&str>, mark: Option<&str>) -> Markup {
    let (scale, unit) = scale(summary);
    html! {
        tr.sub[view.is_some()] {
            td {
                b { (metric(name)) } @if let Some(mark) = mark { sup { (mark) } }
                small { (unit) @if let Some(view) = view { ", " (view) } @else { (population(name)) } }
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
            (cell(&summary.mean, scale))
            @for (_, figure) in &summary.completed { (cell(figure, scale)) }
            @match &summary.max { Ok(max) => td { (number(max / scale)) }, Err(_) => td.na { "–" } }
        }
    }
}

fn population(name: Metric) -> &'static str {
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
        Figure::Exceeds(bound) => {
            html! { td { ">" (NBSP) (number(bound / scale)) small { "among those cut or failed" } } }
        }
        Figure::Undefined(Undefined::TooFewSamples { n, needed }) => {
            html! { td { span.few { "too few samples (" (count(*n)) (NBSP) "of" (NBSP) (count(*needed)) ")" } } }
        }
        Figure::Undefined(why) => html! { td.na { "–" small { (phrase(*why)) } } },
    }
}
