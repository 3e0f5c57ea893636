//! What the load does: latencies, throughput, goodput.

use decide::capacity::{Latency, Measured, ProbeReport, ProbeVerdict};
use decide::json::CapacityDocument;
use decide::words::{self, NBSP, TimeUnit, plain};
use maud::{Markup, html};
use measure::percentile_name;
use spec::{Metric, Statistic};

use super::{Load, bracket, largest, name, sign, speaks, state};
use crate::html::chart::{Chart, Sign, Vertical, figure};
use crate::html::scale::Scale;
use crate::label;

/// Pixels.
const HEIGHT: u32 = 220;

pub(super) fn section(document: &CapacityDocument, load: Load) -> Markup {
    let spoilt = document.probes.iter().any(|probe| !speaks(probe));
    html! {
        section id=(load.id("curves")) {
            h2 { "Load and what it does" }
            @if document.probes.iter().all(|probe| !speaks(probe)) {
                p.lead { "No probe says anything of the server." }
            } @else {
                p.lead {
                    "Each mark is a probe, with its verdict under all limits; nothing between them was measured. Latencies are of requests that \
                     ended well, so beyond the limit they look better than what was offered there. The band is the bracket of the answer."
                    @if spoilt { " Probes that were set aside are not shown." }
                }
                div.four {
                    @for metric in shown(document) { (latency(document, load, metric)) }
                    (rates(document, load, "Completed requests", "completed requests/s", |m| m.requests_per_s))
                    (rates(document, load, "Good requests", "requests/s within every limit", |m| m.goodput_per_s))
                }
                @if document.probes.iter().any(|probe| probe.verdict.failed()) {
                    p.note {
                        b { "Goodput beyond the bracket is not capacity." }
                        " A server that misses its limits may still answer some requests in time: whoever plans with that figure sends all others into a queue."
                    }
                }
            }
        }
    }
}

/// TTFT and TPOT, and what else is limited.
fn shown(document: &CapacityDocument) -> Vec<Metric> {
    let slo = &document.spec.slo;
    let limited = slo
        .joint
        .iter()
        .map(|l| l.metric)
        .chain(slo.marginal.iter().map(|l| l.metric))
        .any(|m| m == Metric::E2e);
    let any = |metric| document.probes.iter().any(|probe| of(&probe.measured, metric).is_some());
    [Metric::Ttft, Metric::Tpot, Metric::E2e]
        .into_iter()
        .filter(|metric| any(*metric) && (*metric != Metric::E2e || limited))
        .collect()
}

fn of(measured: &Measured, metric: Metric) -> Option<Latency> {
    match metric {
        Metric::Ttft => measured.ttft,
        Metric::Tpot => measured.tpot,
        _ => measured.e2e,
    }
    .filter(|latency| {
        [latency.p50_ns, latency.p95_ns, latency.p99_ns].iter().all(|ns| ns.is_finite() && *ns >= 0.0)
    })
}

/// The limits on a metric: value in ns and what it is on.
fn limits(document: &CapacityDocument, metric: Metric) -> Vec<(f64, String)> {
    let slo = &document.spec.slo;
    let joint = slo.joint.iter().filter(|l| l.metric == metric).map(|l| (l.value, String::new()));
    let marginal = slo.marginal.iter().filter(|l| l.metric == metric).map(|l| {
        let on = match l.statistic {
            Statistic::Percentile(p) => percentile_name(p),
            _ => "mean".to_owned(),
        };
        (l.value, on)
    });
    joint.chain(marginal).collect()
}

/// Which percentile stands above the median: p99 where that is what is limited, else p95.
fn upper(limits: &[(f64, String)]) -> (&'static str, fn(&Latency) -> f64) {
    let on = |name: &str| limits.iter().any(|(_, of)| of == name);
    if on("p99") && !on("p95") { ("p99", |l| l.p99_ns) } else { ("p95", |l| l.p95_ns) }
}

fn latency(document: &CapacityDocument, load: Load, metric: Metric) -> Markup {
    let limits = limits(document, metric);
    let (share, pick) = upper(&limits);
    let seen: Vec<(&ProbeReport, Latency)> = document
        .probes
        .iter()
        .filter(|probe| speaks(probe))
        .filter_map(|probe| Some((probe, of(&probe.measured, metric)?)))
        .collect();
    let highest = seen.iter().map(|(_, l)| pick(l)).fold(0.0, f64::max);
    let unit = TimeUnit::of(limits.first().map_or(highest, |(value, _)| *value));
    let near = |value: f64| value <= 4.0 * highest;
    let values = seen.iter().flat_map(|(_, l)| [l.p50_ns, pick(l)]);
    let drawn = limits.iter().map(|(value, _)| *value).filter(|value| near(*value));
    let all: Vec<f64> = values.chain(drawn).map(|ns| ns / unit.ns()).collect();
    let (x, y) = (Scale::linear(0.0, 1.06 * largest(document)), Scale::of_latencies(all.into_iter()));
    let each: Vec<String> = seen
        .iter()
        .map(|(probe, l)| format!("{} at {}", words::time(pick(l)), load.bare(probe.load)))
        .collect();
    let sentence = format!("{} over {}: {share} {}", label::metric(metric), load.axis, each.join(", "));
    let mut chart = Chart::new(sentence, HEIGHT, x, Vertical::Values(y), |v| load.bare(v), plain);
    if let Some((low, high)) = bracket(document) {
        chart.span("kn", low, high, "");
    }
    for (value, on) in limits.iter().filter(|(value, _)| near(*value)) {
        let text = format!("{on} limit {}", words::limit_time(*value));
        chart.limit_at_y_left(value / unit.ns(), text.trim());
    }
    for (probe, l) in &seen {
        let title = |of: &str, ns: f64| {
            format!(
                "{}: {} {of} {}, {}",
                name(probe, load),
                label::metric(metric),
                words::time(ns),
                state(&probe.verdict).2
            )
        };
        chart.mark(probe.load, l.p50_ns / unit.ns(), (None, None), Sign::Hollow, &title("p50", l.p50_ns));
        chart.mark(
            probe.load,
            pick(l) / unit.ns(),
            (None, None),
            sign(&probe.verdict),
            &title(share, pick(l)),
        );
    }
    let log = if y.is_log() { ", log scale" } else { "" };
    let far: Vec<String> = limits
        .iter()
        .filter(|(value, _)| !near(*value))
        .map(|(value, _)| words::limit_time(*value))
        .collect();
    let beyond =
        if far.is_empty() { String::new() } else { format!("; limit {} is beyond the axis", far.join(", ")) };
    let subtitle = format!("{share} in {}{log}, ○{NBSP}p50, over {}{beyond}", unit.symbol(), load.axis);
    figure(label::metric(metric), &subtitle, &chart)
}

fn rates(
    document: &CapacityDocument,
    load: Load,
    title: &str,
    what: &str,
    pick: impl Fn(&Measured) -> Option<f64>,
) -> Markup {
    let seen: Vec<(&ProbeReport, f64)> = document
        .probes
        .iter()
        .filter(|probe| speaks(probe))
        .filter_map(|probe| Some((probe, pick(&probe.measured).filter(|value| value.is_finite())?)))
        .collect();
    let largest = largest(document);
    let highest = seen.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let is_rate = !load.whole;
    let x = Scale::linear(0.0, 1.06 * largest);
    let y = Scale::linear(0.0, 1.12 * if highest > 0.0 { highest } else { 1.0 });
    let each: Vec<String> = seen
        .iter()
        .map(|(probe, value)| format!("{} at {}", words::number(*value), load.bare(probe.load)))
        .collect();
    let sentence = format!("{title} per second over {}: {}", load.axis, each.join(", "));
    let mut chart = Chart::new(sentence, HEIGHT, x, Vertical::Values(y), |v| load.bare(v), plain);
    if let Some((low, high)) = bracket(document) {
        chart.span("kn", low, high, "");
    }
    if is_rate {
        let end = if y.holds(largest) { largest } else { highest };
        chart.line("g thin dash", [(0.0, 0.0), (end, end)].into_iter());
    }
    for (probe, value) in &seen {
        let verdict: &ProbeVerdict = &probe.verdict;
        let text = format!("{}: {} {what}, {}", name(probe, load), words::number(*value), state(verdict).2);
        chart.mark(probe.load, *value, (None, None), sign(verdict), &text);
    }
    let dashed = if is_rate { "; dashed: all that is offered" } else { "" };
    figure(title, &format!("{what}, over {}{dashed}", load.axis), &chart)
}
