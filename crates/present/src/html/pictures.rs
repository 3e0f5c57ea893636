//! Distributions on the scale of nines, and the run over time.

use decide::RunReport;
use decide::words::{self, NBSP, TimeUnit, count, number, percent};
use maud::{Markup, html};
use measure::percentile_name;
use measure::pictures::{Dot, Pictures, QuantileCurve, TimelineBin};
use spec::{JointLimit, Metric, Nanos};

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
                p.lead { "Too few completed requests for a distribution." }
            } @else {
                p.lead {
                    "Share of requests at or below a latency, on a scale of nines so that the tail is readable. Band: 95"
                    (NBSP) "% interval."
                }
                div.four { @for curve in curves { (distribution(report, pictures, curve)) } }
            }
        }
    }
}

fn distribution(report: &RunReport, pictures: &Pictures, curve: &QuantileCurve) -> Markup {
    let unit = TimeUnit::of(curve.points.first().map_or(1e6, |p| p.value));
    let shown = |ns: f64| ns / unit.ns();
    let known: Vec<_> = curve.points.iter().filter(|p| !p.exceeds).collect();
    let limits: Vec<&JointLimit> =
        report.spec.slo.joint.iter().filter(|limit| limit.metric == curve.metric).collect();
    let values = known.iter().flat_map(|p| [Some(p.value), p.low, p.high]).flatten().map(shown);
    let x = Scale::of_latencies(
        values.chain(limits.iter().map(|l| shown(l.value))).collect::<Vec<_>>().into_iter(),
    );
    let top = known.last().map_or(0.9, |p| p.share);
    let y = Nines::up_to(top);
    let name = label::metric(curve.metric);
    let mut chart = Chart::new(
        format!("Cumulative distribution of {name}: {}", in_words(curve, unit)),
        190,
        x,
        Vertical::Nines(y),
        number,
        percent,
    );
    for limit in limits {
        let within = pictures.limits.iter().find(|(text, _)| *text == limit.text);
        chart.limit_at_x(
            shown(limit.value),
            &format!("limit {}", words::time(limit.value)),
            &within.map_or(String::new(), |(_, share)| format!("{} within", percent(*share))),
        );
    }
    let closed: Vec<(f64, f64, f64)> =
        known.iter().filter_map(|p| Some((shown(p.low?), shown(p.high?), p.share))).collect();
    let side = |pick: fn(&(f64, f64, f64)) -> f64| -> Vec<(f64, f64)> {
        closed.iter().map(|point| (pick(point), point.2)).collect()
    };
    chart.band(&side(|p| p.0), &side(|p| p.1));
    chart.line("b", known.iter().map(|p| (shown(p.value), p.share)));
    let scale_word = if x.is_log() { ", log scale" } else { "" };
    figure(name, &format!("{}, {}{scale_word}", unit.symbol(), population(curve.metric)), &chart)
}

fn population(metric: Metric) -> &'static str {
    match metric {
        Metric::Itl => "pooled over tokens",
        Metric::Tpot => "one value per request",
        _ => "one value per offered request",
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
    let x = Scale::linear(0.0, end);
    let step = format!("in steps of {}", words::time(line.bin_ns as f64));
    let series = |value: fn(&TimelineBin) -> f64| -> Vec<(f64, f64)> {
        line.bins.iter().map(|bin| (seconds(bin.from), value(bin))).collect()
    };
    let small = |title: &str, class: &str, values: &[(f64, f64)], first: bool| {
        let high = values.iter().map(|(_, v)| *v).fold(0.0, f64::max) * 1.1;
        let sentence = format!("{title} over time");
        let mut chart =
            Chart::new(sentence, 84, x, Vertical::Values(Scale::linear(0.0, high)), clock, number)
                .without_x_labels();
        phases(&mut chart, pictures, first);
        chart.steps(class, values, end, true);
        chart
    };
    let arrivals = series(|b| b.arrivals_per_s);
    let sends = series(|b| b.sends_per_s);
    let mut sent = small("Arrivals", "b", &sends, true);
    sent.line("g thin dash", middle(&arrivals, line.bin_ns).into_iter());
    let m = &report.measures;
    let in_flight = m.throughput.in_flight_mean.map_or("–".to_owned(), number);
    html! {
        section id="time" {
            h2 { "Timeline" }
            p.lead { "Grey: warm-up and drain, not in any figure above. Green: the steady window." }
            (figure("Arrivals", &format!("requests/s {step}: sent (filled), planned (dashed)"), &sent))
            (figure("In flight", &format!("requests; mean {in_flight}, peak {}", count(m.throughput.in_flight_peak)),
                &small("Requests in flight", "b", &series(|b| b.in_flight), false)))
            (figure("Output", &format!("tokens/s that arrived, {step}"),
                &small("Output tokens per second", "p", &series(|b| b.output_tokens_per_s), false)))
            (scatter(report, pictures, x))
        }
    }
}

/// Values stand for their bins: a line goes through the middles.
fn middle(points: &[(f64, f64)], bin_ns: u64) -> Vec<(f64, f64)> {
    points.iter().map(|(x, y)| (x + bin_ns as f64 / 2e9, *y)).collect()
}

fn clock(seconds: f64) -> String {
    if seconds.fract() > 1e-9 {
        format!("{}{NBSP}s", number(seconds))
    } else {
        words::clock_time(Nanos::from_secs_f64(seconds))
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
    // Not streamed: the only latency is the whole one.
    let streamed = dots.iter().any(|d| d.ttft.is_some() && d.ttft != d.e2e);
    let latency = |d: &Dot| if streamed { d.ttft } else { d.e2e };
    let metric = if streamed { Metric::Ttft } else { Metric::E2e };
    let good = |d: &&Dot| d.state == "ok";
    let values = dots.iter().filter(good).filter_map(latency).map(|v| v.0 as f64);
    let unit = TimeUnit::of(values.clone().fold(0.0, f64::max));
    let y = Scale::of_latencies(values.map(|v| v / unit.ns()).collect::<Vec<_>>().into_iter());
    let name = label::metric(metric);
    let mut chart =
        Chart::new(format!("{name} of each request over time"), 190, x, Vertical::Values(y), clock, number);
    phases(&mut chart, pictures, false);
    for limit in report.spec.slo.joint.iter().filter(|l| l.metric == metric) {
        chart.limit_at_y(limit.value / unit.ns(), "lim", &format!("limit {}", words::time(limit.value)));
    }
    let place = |warmup: bool| {
        dots.iter()
            .filter(good)
            .filter(move |d| d.warmup == warmup)
            .filter_map(|d| Some((d.intended.as_secs_f64(), latency(d)?.0 as f64 / unit.ns())))
    };
    chart.dots("m", place(true));
    chart.dots("b", place(false));
    for dot in dots.iter().filter(|d| d.state != "ok").take(400) {
        let at = dot.intended.as_secs_f64();
        chart.cross(at, &format!("{} {}", clock(at.floor()), dot.state.replace('_', " ")));
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
    figure(
        name,
        &format!(
            "{}{log}; one dot per request at its intended time, warm-up grey, ✕ did not end well{thinned}",
            unit.symbol()
        ),
        &chart,
    )
}
