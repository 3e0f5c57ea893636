//! Throughput and latencies over load.

use decide::sweep::{CrossingState, KneeState, LimitCrossing, Over, Point, Pooled, SweepReport};
use decide::words::{self, NBSP, TimeUnit, number, plain};
use maud::{Markup, html};
use measure::{Estimate, Figure, percentile_name};
use spec::{Metric, Statistic};

use super::load_words;
use crate::html::chart::{Sign, figure};
use crate::html::curve::{Band, Curve, LimitLine, Mark, Picture};
use crate::html::scale::Scale;
use crate::label;

pub(super) fn loads(report: &SweepReport) -> Vec<f64> {
    report.points.iter().map(|point| point.load).collect()
}

/// `requests/s over users, log scales`.
pub(super) fn axis_words(report: &SweepReport, what: &str, log_y: bool) -> String {
    let over = match report.over {
        Over::Concurrency => "users",
        Over::Rate => "offered requests/s",
    };
    let log_x = Scale::of_loads(loads(report).into_iter()).is_log();
    let scale = match (log_x, log_y) {
        (true, true) => ", log scales",
        (true, false) => ", log scale of load",
        (false, true) => ", log scale of values",
        (false, false) => "",
    };
    format!("{what}, over {over}{scale}")
}

/// The crossings of these limits, and loads of which nothing is known.
pub(super) fn bands(report: &SweepReport, limits: &[&LimitCrossing]) -> Vec<Band> {
    let mut bands = Vec::new();
    for limit in limits {
        if let (CrossingState::Crossed, Some(from), Some(to)) =
            (limit.crossing.state, limit.crossing.holds_up_to, limit.crossing.missed_from)
        {
            let same = |band: &Band| band.from.total_cmp(&from).is_eq() && band.to.total_cmp(&to).is_eq();
            if !bands.iter().any(same) {
                bands.push(Band { class: "cx", from, to });
            }
        }
    }
    for point in report.points.iter().filter(|point| point.known().is_none()) {
        let (from, to) = (point.load * 0.96, point.load * 1.04);
        bands.push(Band { class: "unk", from, to });
    }
    bands
}

pub(super) fn throughput_marks(report: &SweepReport) -> Vec<Mark> {
    let mark = |point: &Point| {
        let rate: Estimate = point.known()?.throughput.ok()?;
        let title = format!("{}: {} completed requests/s", report.over.words(point.load), number(rate.value));
        let interval = (rate.interval.low, rate.interval.high);
        Some(Mark { load: point.load, value: rate.value, interval, sign: Sign::Plain, title })
    };
    report.points.iter().filter_map(mark).collect()
}

pub(super) fn section(report: &SweepReport) -> Markup {
    html! {
        section id="curves" {
            h2 { "Throughput and latency against load" }
            p.lead {
                "Each mark is a load that was measured, with its 95" (NBSP) "% interval; lines only guide the eye. ● within the limit, ✕ beyond it, \
                 ◇ undecided. Red shade: between these two loads the limit is crossed. Grey: a load of which nothing is known."
            }
            div.four {
                (throughput(report))
                @for metric in [Metric::Ttft, Metric::Tpot, Metric::E2e] { (latency(report, metric)) }
            }
        }
    }
}

fn throughput(report: &SweepReport) -> Markup {
    let knee = &report.knee;
    let marks = throughput_marks(report);
    let title = match knee.state {
        KneeState::Found => "Throughput and its knee",
        KneeState::NotReached => "Throughput still grows at the largest load",
        KneeState::Collapse => "Throughput collapses beyond its peak",
        KneeState::None => "Throughput",
    };
    let mut bands = bands(report, &[]);
    if let Some(at) = knee.at {
        bands.push(Band { class: "kn", from: at.low, to: at.high });
    }
    let picture = Picture {
        sentence: report.knee_words.clone(),
        loads: loads(report),
        curves: vec![Curve { class: "b", marks, bare: false }],
        limits: Vec::new(),
        bands,
        knee: knee.at.map(|at| (at.load, format!("knee {}", load_words(report.over, at.load)))),
        vertical: None,
    };
    let (chart, log) = picture.draw(plain);
    figure(title, &axis_words(report, "completed requests/s", log), &chart)
}

/// p50 and p95 of one latency, with the limits on it.
fn latency(report: &SweepReport, metric: Metric) -> Markup {
    let spec = &report.asked.spec;
    let joint = spec.slo.joint.iter().filter(|l| l.metric == metric).map(|l| (l.value, String::new(), 0));
    let offset = usize::from(!spec.slo.joint.is_empty());
    let marginal =
        spec.slo.marginal.iter().enumerate().filter(|(_, l)| l.metric == metric).filter_map(|(i, l)| {
            let Statistic::Percentile(p) = l.statistic else { return None };
            Some((l.value, percentile_name(p), offset + i))
        });
    let limits: Vec<(f64, String, usize)> = joint.chain(marginal).collect();
    // The share that is drawn with signs: that of the first limit on a percentile, else p95.
    let share = spec.slo.marginal.iter().find_map(|l| match l.statistic {
        Statistic::Percentile(p) if l.metric == metric => Some(p),
        _ => None,
    });
    let judged = share.unwrap_or(0.95);
    let figures = |share: f64| -> Vec<(&Point, Estimate)> {
        let known = |point: &&Point| -> Option<Estimate> {
            let pooled: &Pooled = point.known()?;
            match pooled.measures.metrics.get(&metric)?.percentile(share)? {
                Figure::Known(e) => Some(*e),
                _ => None,
            }
        };
        report.points.iter().filter_map(|point| Some((point, known(&point)?))).collect()
    };
    let upper = figures(judged);
    let unit = TimeUnit::of(upper.get(upper.len() / 2).map_or(1e6, |(_, e)| e.value));
    let shown = |ns: f64| ns / unit.ns();
    let name = label::metric(metric);
    let marks = |share: f64, limit: Option<usize>| -> Vec<Mark> {
        figures(share)
            .into_iter()
            .map(|(point, e)| Mark {
                load: point.load,
                value: shown(e.value),
                interval: (e.interval.low.map(shown), e.interval.high.map(shown)),
                sign: limit.map_or(Sign::Plain, |index| Sign::of(point.met(index).0)),
                title: format!(
                    "{}: {name} {} {}",
                    report.over.words(point.load),
                    percentile_name(share),
                    words::time(e.value)
                ),
            })
            .collect()
    };
    if upper.is_empty() {
        return html! {
            figure.fig { figcaption { b { (name) } span { "no load has a " (percentile_name(judged)) ": too few requests, or withheld" } } }
        };
    }
    let of_limit =
        limits.iter().find(|(_, statistic, _)| *statistic == percentile_name(judged)).map(|(.., i)| *i);
    let mut curves = vec![Curve { class: "b", marks: marks(judged, of_limit), bare: false }];
    if judged > 0.5 {
        curves.insert(0, Curve { class: "g", marks: marks(0.5, None), bare: true });
    }
    let highest = upper.iter().map(|(_, e)| shown(e.value)).fold(0.0, f64::max);
    let near = |value: f64| shown(value) <= 4.0 * highest;
    let far: Vec<String> = limits
        .iter()
        .filter(|(value, ..)| !near(*value))
        .map(|(value, ..)| words::limit_time(*value))
        .collect();
    // Several joint limits are crossed together: by which of them, this picture cannot say.
    let alone = |index: usize| index >= offset || spec.slo.joint.len() == 1;
    let crossed: Vec<_> =
        limits.iter().filter(|(.., i)| alone(*i)).filter_map(|(.., i)| report.limits.get(*i)).collect();
    let picture = Picture {
        sentence: format!("{name} over load: {}", in_words(report, metric, judged)),
        loads: loads(report),
        curves,
        limits: limits
            .iter()
            .filter(|(value, ..)| near(*value))
            .map(|(value, statistic, _)| LimitLine {
                value: shown(*value),
                label: format!("{statistic} limit {}", words::limit_time(*value)).trim().to_owned(),
            })
            .collect(),
        bands: bands(report, &crossed),
        knee: None,
        vertical: None,
    };
    let (chart, log) = picture.draw(plain);
    let beyond =
        if far.is_empty() { String::new() } else { format!("; limit {} is beyond the axis", far.join(", ")) };
    let dashed = if judged > 0.5 { ", dashed p50" } else { "" };
    let what = format!("{} in {}{dashed}", percentile_name(judged), unit.symbol());
    figure(name, &format!("{}{beyond}", axis_words(report, &what, log)), &chart)
}

fn in_words(report: &SweepReport, metric: Metric, share: f64) -> String {
    let list: Vec<String> = report
        .points
        .iter()
        .filter_map(|point| {
            let value = point.known()?.measures.metrics.get(&metric)?.percentile(share)?.value()?;
            Some(format!("{} at {}", words::time(value), plain(point.load)))
        })
        .collect();
    format!("{} {}", percentile_name(share), list.join(", "))
}
