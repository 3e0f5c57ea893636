//! Distributions on the scale of nines, and the run over time.

use std::collections::BTreeMap;

use decide::words::{self, NBSP, TimeUnit, count, number, percent};
use decide::{CheckId, RunReport};
use maud::{Markup, html};
use measure::pictures::{Dot, Pictures, QuantileCurve, TimelineBin};
use measure::{Figure, Undefined, percentile_name};
use spec::{JointLimit, Load, Metric, Nanos, Statistic, View};

use super::chart::{Chart, Vertical, figure};
use super::scale::{Nines, Scale};
use crate::label;

/// Metrics whose distribution is drawn, in reading order.
const DRAWN: [Metric; 4] = [Metric::Ttft, Metric::Tpot, Metric::Itl, Metric::E2e];

pub(super) fn distributions(report: &RunReport, pictures: &Pictures) -> Markup {
    let curves: Vec<&QuantileCurve> = DRAWN
        .iter()
        .filter_map(|metric| pictures.quantiles.iter().find(|c| c.metric == *metric))
        .filter(|curve| curve.points.len() > 1)
        .collect();
    html! {
        section id="dist" {
            h2 { "Distributions" }
            @if curves.is_empty() {
                p.lead { (why_none(report)) }
            } @else {
                p.lead {
                    "Share at or below a latency, on a scale of nines so that the tail is readable. Band: 95"
                    (NBSP) "% interval; dashed where samples carry none."
                }
                div.four { @for curve in curves { (distribution(report, pictures, curve)) } }
            }
        }
    }
}

fn why_none(report: &RunReport) -> &'static str {
    let withheld =
        report.measures.metrics.values().any(|s| {
            s.percentiles.iter().any(|(_, figure)| *figure == Figure::Undefined(Undefined::Withheld))
        });
    if withheld {
        "Withheld: a failed check takes the latencies away."
    } else {
        "Too few completed requests for a distribution."
    }
}

fn distribution(report: &RunReport, pictures: &Pictures, curve: &QuantileCurve) -> Markup {
    let metric = curve.metric;
    let typical = curve.points.iter().find(|p| p.share >= 0.5).or(curve.points.last());
    let unit = TimeUnit::of(typical.map_or(1e6, |p| p.value));
    let shown = |ns: f64| ns / unit.ns();
    let known: Vec<_> = curve.points.iter().filter(|p| !p.exceeds).collect();
    let smallest = report.measures.metrics.get(&metric).and_then(|s| s.min.ok()).map(|min| (shown(min), 0.0));
    let values: Vec<f64> = known
        .iter()
        .flat_map(|p| [Some(p.value), p.low, p.high])
        .flatten()
        .map(shown)
        .chain(smallest.map(|(min, _)| min))
        .collect();
    // A limit that is far away would squeeze the curve into a corner: it is told instead.
    let highest = values.iter().copied().fold(0.0, f64::max);
    let near = |ns: f64| shown(ns) <= 4.0 * highest;
    let slo = &report.spec.slo;
    let joint: Vec<&JointLimit> = slo.joint.iter().filter(|l| l.metric == metric).collect();
    let marginal: Vec<(f64, f64)> = slo
        .marginal
        .iter()
        .filter(|l| l.metric == metric)
        .filter_map(|l| match l.statistic {
            Statistic::Percentile(share) => Some((l.value, share)),
            _ => None,
        })
        .collect();
    let limits = joint.iter().map(|l| l.value).chain(marginal.iter().map(|(value, _)| *value));
    let x = Scale::of_spread(
        values
            .iter()
            .copied()
            .chain(limits.clone().filter(|v| near(*v)).map(shown))
            .collect::<Vec<_>>()
            .into_iter(),
    );
    let far: Vec<String> = limits.filter(|v| !near(*v)).map(words::limit_time).collect();
    let judged_at =
        marginal.iter().filter(|(value, _)| near(*value)).map(|(_, share)| share + 0.2 * (1.0 - share));
    let y = Nines::up_to(known.last().map_or(0.9, |p| p.share).max(judged_at.fold(0.0, f64::max)));
    let name = label::metric(metric);
    let mut chart = Chart::new(
        format!("Cumulative distribution of {name}: {}", in_words(curve, unit)),
        190,
        x,
        Vertical::Nines(y),
        words::plain,
        percent,
    );
    for limit in joint.iter().filter(|l| near(l.value)) {
        let within = pictures.limits.iter().find(|(text, _)| *text == limit.text);
        let judged = report.slo.joint.as_ref().is_some_and(|j| j.attainment.value.is_some());
        let within = within.filter(|_| judged);
        chart.limit_at_x(
            shown(limit.value),
            &format!("limit {}", words::limit_time(limit.value)),
            &within.map_or(String::new(), |(_, share)| format!("{} within", percent(*share))),
        );
    }
    let closed: Vec<(f64, f64, f64)> =
        known.iter().filter_map(|p| Some((shown(p.low?), shown(p.high?), p.share))).collect();
    let side = |pick: fn(&(f64, f64, f64)) -> f64| -> Vec<(f64, f64)> {
        closed.iter().map(|point| (pick(point), point.2)).collect()
    };
    chart.band(&side(|p| p.0), &side(|p| p.1));
    let line: Vec<(f64, f64)> =
        smallest.into_iter().chain(known.iter().map(|p| (shown(p.value), p.share))).collect();
    // Beyond the last interval the samples carry no statement: dashed.
    let sure = closed.last().map_or(0.0, |point| point.2);
    chart.line("b", line.iter().copied().filter(|p| p.1 <= sure + 1e-9));
    chart.line("b dash thin", line.iter().copied().filter(|p| p.1 >= sure - 1e-9));
    for (value, share) in marginal.into_iter().filter(|(value, _)| near(*value)) {
        chart.limit_at(
            shown(value),
            share,
            &format!("{} limit {}", percentile_name(share), words::limit_time(value)),
        );
    }
    let scale_word = if x.is_log() { ", log scale" } else { "" };
    let beyond =
        if far.is_empty() { String::new() } else { format!("; limit {} is beyond the axis", far.join(", ")) };
    figure(
        title(metric),
        &format!("{}, {}{scale_word}{beyond}", unit.symbol(), population(metric, report)),
        &chart,
    )
}

/// A metric with its name in full.
fn title(metric: Metric) -> &'static str {
    match metric {
        Metric::Ttft => "TTFT, time to first token",
        Metric::Tpot => "TPOT, time per output token",
        Metric::Itl => "ITL, inter-token latency",
        Metric::E2e => "E2E, end-to-end latency",
        Metric::ScheduleLag => "Send lag: first byte written − intended send",
        Metric::ClientLag => "Client lag: seen by the program − received by the kernel",
        other => label::metric(other),
    }
}

/// What the client itself added: its lag in sending and in hearing.
pub(super) fn instrument(report: &RunReport, pictures: &Pictures) -> Markup {
    let curve = |metric: Metric| pictures.quantiles.iter().find(|c| c.metric == metric && c.points.len() > 1);
    let curves: Vec<&QuantileCurve> =
        [Metric::ScheduleLag, Metric::ClientLag].into_iter().filter_map(curve).collect();
    let checks = [
        CheckId::SendLag,
        CheckId::ClientLag,
        CheckId::LaneStall,
        CheckId::LaneBusy,
        CheckId::Machine,
        CheckId::Coalesced,
        CheckId::Clock,
    ];
    html! {
        section id="instrument" {
            h2 { "The instrument" }
            p.lead { "What the client itself added. Where these figures are near a server figure, that figure is the client’s as much as the server’s." }
            @if !curves.is_empty() { div.four { @for curve in curves { (distribution(report, pictures, curve)) } } }
            (super::strip::strip(&report.trust.client, pictures.timeline.measure_from, pictures.timeline.measure_to))
            dl.kv style="margin-top:14px" {
                dt { "this client" }
                dd { (report.trust.client.words()) }
                (super::instrument::own_figures(report))
                @for check in checks.into_iter().filter_map(|id| report.trust.check(id)) {
                    dt { (check.id.label()) }
                    dd { (check.figure) @if !check.limit.is_empty() { " (limit " (check.limit) ")" } }
                }
                dt { "receive stamps" }
                dd { @if report.environment.kernel_stamps { "from the kernel" } @else { "from the program: later than the kernel’s by an unknown lag" } }
            }
        }
    }
}

fn population(metric: Metric, report: &RunReport) -> String {
    let view = match report.measures.view {
        View::User => "user view",
        View::Server => "server view",
    };
    match metric {
        Metric::Itl => "pooled over tokens".to_owned(),
        Metric::ClientLag => "one value per read".to_owned(),
        Metric::Ttft | Metric::E2e => format!("{view}, one value per offered request"),
        _ => "one value per request".to_owned(),
    }
}

fn in_words(curve: &QuantileCurve, unit: TimeUnit) -> String {
    let at = |share: f64| curve.points.iter().find(|p| (p.share - share).abs() < 1e-9 && !p.exceeds);
    let parts: Vec<String> = [0.5, 0.9, 0.99]
        .into_iter()
        .filter_map(|share| Some((share, at(share)?)))
        .map(|(share, p)| {
            format!("{} {} {}", percentile_name(share), number(p.value / unit.ns()), unit.symbol())
        })
        .collect();
    parts.join(", ")
}

pub(super) fn timeline(report: &RunReport, pictures: &Pictures) -> Markup {
    let line = &pictures.timeline;
    let seconds = |t: Nanos| t.as_secs_f64();
    let end = seconds(line.ended);
    let x = Scale::seconds(end);
    let step = format!("in steps of {}", words::time(line.bin_ns as f64));
    let series = |value: fn(&TimelineBin) -> f64| -> Vec<(f64, f64)> {
        line.bins.iter().map(|bin| (seconds(bin.from), value(bin))).collect()
    };
    let small = |title: &str, class: &str, values: &[(f64, f64)], first: bool| {
        let high = values.iter().map(|(_, v)| *v).fold(0.0, f64::max) * 1.1;
        // Counts of a few: no ticks between whole numbers.
        let high = if class == "f" { high.max(4.0) } else { high };
        let sentence = format!("{title} over time");
        let mut chart =
            Chart::new(sentence, 84, x, Vertical::Values(Scale::linear(0.0, high)), clock(end), words::plain)
                .without_x_labels();
        phases(&mut chart, pictures, first);
        chart.steps(class, values, end, true);
        chart
    };
    let arrivals = series(|b| b.arrivals_per_s);
    let sends = series(|b| b.sends_per_s);
    let mut sent = small("Arrivals", "b", &sends, true);
    let at_once = matches!(&report.spec.load, Load::Open(open) if open.rate.is_infinite());
    let late = arrivals.iter().zip(&sends).any(|(a, s)| (a.1 - s.1).abs() > 1e-9);
    let lines = if at_once {
        "sent; all were planned at once"
    } else if late {
        sent.line("g thin dash", middle(&arrivals, line.bin_ns).into_iter());
        "sent (filled), planned (dashed)"
    } else {
        "sent, each in the step in which it was planned"
    };
    let bad: Vec<(f64, f64)> =
        line.bins.iter().map(|bin| (seconds(bin.from), bin.failures.values().sum::<u64>() as f64)).collect();
    let any_bad = bad.iter().any(|(_, n)| *n > 0.0);
    let m = &report.measures;
    let in_flight = m.throughput.in_flight_mean.map_or("–".to_owned(), number);
    html! {
        section id="time" {
            h2 { "Timeline" }
            p.lead { "Grey: warm-up and drain, not in any figure above. Green: the steady window." }
            (figure("Arrivals", &format!("requests/s {step}: {lines}"), &sent))
            (figure("In flight", &format!("requests; mean {in_flight}, peak {}", count(m.throughput.in_flight_peak)),
                &small("Requests in flight", "b", &series(|b| b.in_flight), false)))
            (figure("Output", &format!("tokens/s that arrived, {step}"),
                &small("Output tokens per second", "p", &series(|b| b.output_tokens_per_s), false)))
            @if any_bad {
                (figure("Did not end well", &format!("requests {step}, by the time at which they ended: {}", bad_words(pictures)),
                    &small("Requests that did not end well", "f", &bad, false)))
            }
            @if pictures.scatter.dots.iter().any(|dot| dot.ttft.is_some() || dot.e2e.is_some()) {
                (scatter(report, pictures, x))
            }
        }
    }
}

/// Values stand for their bins: a line goes through the middles.
fn middle(points: &[(f64, f64)], bin_ns: u64) -> Vec<(f64, f64)> {
    points.iter().map(|(x, y)| (x + bin_ns as f64 / 2e9, *y)).collect()
}

/// The states of those that did not end well, over all phases.
fn bad_words(pictures: &Pictures) -> String {
    let mut total: BTreeMap<&str, u64> = BTreeMap::new();
    for (state, n) in pictures.timeline.bins.iter().flat_map(|bin| &bin.failures) {
        *total.entry(state).or_insert(0) += n;
    }
    let list: Vec<String> =
        total.iter().map(|(state, n)| format!("{} {}", count(*n), state.replace('_', " "))).collect();
    list.join(", ")
}

/// A moment of a run of this length: `0:15`, or `0.05 s` in a short one.
fn clock(end: f64) -> impl Fn(f64) -> String {
    move |seconds| {
        if end < 8.0 {
            format!("{}{NBSP}s", words::plain(seconds))
        } else {
            words::clock_time(Nanos::from_secs_f64(seconds))
        }
    }
}

fn phases(chart: &mut Chart, pictures: &Pictures, labelled: bool) {
    let line = &pictures.timeline;
    let word = |text: &'static str| if labelled { text } else { "" };
    let (from, to, end) =
        (line.measure_from.as_secs_f64(), line.measure_to.as_secs_f64(), line.ended.as_secs_f64());
    chart.span("ph", 0.0, from, word("warm-up"));
    if let Some((a, b)) = line.steady {
        chart.span("steady", a.as_secs_f64(), b.as_secs_f64(), word("steady"));
    }
    chart.span("ph", to, end, word("drain"));
}

fn scatter(report: &RunReport, pictures: &Pictures, x: Scale) -> Markup {
    let dots = &pictures.scatter.dots;
    let end = pictures.timeline.ended.as_secs_f64();
    // Not streamed: the only latency is the whole one.
    let streamed = dots.iter().any(|d| d.ttft.is_some() && d.ttft != d.e2e);
    let latency = |d: &Dot| if streamed { d.ttft } else { d.e2e };
    let metric = if streamed { Metric::Ttft } else { Metric::E2e };
    let good = |d: &&Dot| d.state == "ok";
    let values = dots.iter().filter(good).filter_map(latency).map(|v| v.0 as f64);
    let unit = TimeUnit::of(values.clone().fold(0.0, f64::max));
    let highest = values.clone().fold(0.0, f64::max);
    let limits: Vec<f64> =
        report.spec.slo.joint.iter().filter(|l| l.metric == metric).map(|l| l.value).collect();
    let near = limits.iter().copied().filter(|limit| *limit <= 4.0 * highest);
    let y = Scale::of_latencies(
        values.chain(near.clone()).map(|v| v / unit.ns()).collect::<Vec<_>>().into_iter(),
    );
    let name = label::metric(metric);
    let mut chart = Chart::new(
        format!("{name} of each request over time"),
        190,
        x,
        Vertical::Values(y),
        clock(end),
        words::plain,
    );
    phases(&mut chart, pictures, false);
    for limit in near {
        chart.limit_at_y(limit / unit.ns(), &format!("limit {}", words::limit_time(limit)));
    }
    let at_once = matches!(&report.spec.load, Load::Open(open) if open.rate.is_infinite());
    let moment = if at_once { "the moment at which it was heard" } else { "its intended time" };
    let place = |warmup: bool| {
        dots.iter().filter(good).filter(move |d| d.warmup == warmup).filter_map(|d| {
            let value = latency(d)?;
            // All at once: intended times are one spot, so the dots spread by when they were heard.
            let at = if at_once { d.intended + value } else { d.intended };
            Some((at.as_secs_f64(), value.0 as f64 / unit.ns()))
        })
    };
    let few = dots.len() < 200;
    chart.dots(if few { "m big" } else { "m" }, place(true));
    chart.dots(if few { "b big" } else { "b" }, place(false));
    // Crosses that would lie on each other share one.
    let mut crosses: BTreeMap<u64, (f64, BTreeMap<&str, u64>)> = BTreeMap::new();
    for dot in dots.iter().filter(|d| d.state != "ok") {
        let at = dot.intended.as_secs_f64();
        let place = (x.share(at) * 150.0).round() as u64;
        let entry = crosses.entry(place).or_insert_with(|| (at, BTreeMap::new()));
        *entry.1.entry(dot.state).or_insert(0) += 1;
    }
    for (at, states) in crosses.into_values() {
        let list: Vec<String> =
            states.iter().map(|(state, n)| format!("{n} {}", state.replace('_', " "))).collect();
        chart.cross(at, &format!("{} {}", clock(end)(at), list.join(", ")));
    }
    let log = if y.is_log() { ", log scale" } else { "" };
    let thinned = if pictures.scatter.total > dots.len() as u64 {
        format!(
            "; {} of {} drawn, every failure and the extremes among them",
            count(dots.len() as u64),
            count(pictures.scatter.total)
        )
    } else {
        String::new()
    };
    let median = report.measures.metrics.get(&metric).and_then(|s| s.percentile(0.5));
    let raw = if median == Some(&Figure::Undefined(Undefined::Withheld)) {
        "; as observed, the client’s own lateness included: the percentiles are withheld"
    } else {
        ""
    };
    figure(
        name,
        &format!(
            "{}{log}; one dot per request at {moment}, warm-up grey, ✕ did not end well{thinned}{raw}",
            unit.symbol()
        ),
        &chart,
    )
}
