//! What the charts show, ready to draw.

use std::collections::BTreeMap;

use record::{Run, State, TimeoutKind};
use serde::Serialize;
use spec::{Metric, Nanos, Phase, View};

use crate::estimate::{Defined, Figure, PERCENTILES, Undefined, Unit};
use crate::level::{Bins, in_flight_series};
use crate::rates::{counts_in_throughput, token_line};
use crate::request::{e2e, ended, ttft};
use crate::samples::Samples;
use crate::slo::joint;
use crate::summary::Measures;

/// Most dots of the scatter chart.
pub const MOST_DOTS: usize = 10_000;
/// Most bins of the time line.
const MOST_BINS: u64 = 300;

/// Data of all charts. Times are nanoseconds since the run's origin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pictures {
    /// One curve for each metric that has values.
    pub quantiles: Vec<QuantileCurve>,
    /// The whole run over time.
    pub timeline: Timeline,
    /// One dot for each request, or a part of them.
    pub scatter: Scatter,
    /// Share of offered requests within each joint limit alone, then within all: label and share.
    pub limits: Vec<(String, f64)>,
    /// Highest rate of output tokens over bins of at least 1 s of the window, on the same token
    /// time line as the mean, hence never below it.
    pub peak_output_tokens_per_s: Defined<f64>,
}

/// Percentiles of one metric over offered requests, on the scale of nines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuantileCurve {
    /// Which metric.
    pub metric: Metric,
    /// Unit of the values.
    pub unit: Unit,
    /// Ascending; up to the last percentile that the sample carries.
    pub points: Vec<QuantilePoint>,
}

/// One point of a quantile curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct QuantilePoint {
    /// Share of requests at or below.
    pub share: f64,
    /// −log₁₀(1 − share): 1 for p90, 2 for p99.
    pub nines: f64,
    /// The value, or what it is known to exceed.
    pub value: f64,
    /// The value lies among requests that did not end well: it exceeds `value`.
    pub exceeds: bool,
    /// 95 % interval, at the percentiles that tables show; open sides are absent.
    pub low: Option<f64>,
    /// 95 % interval, at the percentiles that tables show; open sides are absent.
    pub high: Option<f64>,
}

/// The whole run over time, in equal bins.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timeline {
    /// Width of a bin.
    pub bin_ns: u64,
    /// End of the warm-up and start of the measurement.
    pub measure_from: Nanos,
    /// Last intended send: start of the drain.
    pub measure_to: Nanos,
    /// End of the run.
    pub ended: Nanos,
    /// The steady window.
    pub steady: Option<(Nanos, Nanos)>,
    /// The bins.
    pub bins: Vec<TimelineBin>,
}

/// One bin of the time line; rates are per second. All phases and all states count.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct TimelineBin {
    /// Start.
    pub from: Nanos,
    /// Intended sends.
    pub arrivals_per_s: f64,
    /// Actual sends.
    pub sends_per_s: f64,
    /// Requests that ended well.
    pub completions_per_s: f64,
    /// Output tokens that arrived.
    pub output_tokens_per_s: f64,
    /// Time-weighted mean in flight.
    pub in_flight: f64,
    /// Requests that ended badly here, by class or limit.
    pub failures: BTreeMap<String, u64>,
}

/// Dots of latency over intended time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scatter {
    /// View of the latencies.
    pub view: View,
    /// The dots, by intended time.
    pub dots: Vec<Dot>,
    /// How many requests there are; more than dots when thinned. Every request that did not end
    /// well and the largest latencies are always kept.
    pub total: u64,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dot {
    /// When it was intended.
    pub intended: Nanos,
    /// In the warm-up.
    pub warmup: bool,
    /// Time to first token.
    pub ttft: Option<Nanos>,
    /// End-to-end latency; of a request that did not end well, how far it came.
    pub e2e: Option<Nanos>,
    /// How it ended: ok, cancelled, shed, a class of failure, or a limit as `timed_out_…`.
    pub state: &'static str,
}

/// Everything that the charts of one run show.
pub fn pictures(run: &Run, measures: &Measures) -> Pictures {
    let samples = Samples::new(run);
    let slo = &run.header.spec.slo;
    let result = joint(&samples, slo, measures.view, &measures.window, |_| None);
    let mut limits: Vec<(String, f64)> =
        slo.joint.iter().map(|limit| limit.text.clone()).zip(result.alone).collect();
    if let (false, Ok(all)) = (limits.is_empty(), result.attainment) {
        limits.push(("all".to_owned(), all.value));
    }
    Pictures {
        quantiles: quantiles(&samples, measures),
        timeline: timeline(run, measures),
        scatter: scatter(run, measures.view),
        limits,
        peak_output_tokens_per_s: peak_output_tokens(run, measures),
    }
}

/// Shares at quarter steps of nines up to four nines, and the percentiles that tables show.
fn grid() -> Vec<f64> {
    let mut shares: Vec<f64> =
        (1..=16).map(|i| 1.0 - 10_f64.powf(-f64::from(i) / 4.0)).chain(PERCENTILES).collect();
    shares.sort_unstable_by(f64::total_cmp);
    shares.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    shares
}

fn quantiles(samples: &Samples<'_>, measures: &Measures) -> Vec<QuantileCurve> {
    let mut curves = Vec::new();
    for (&metric, summary) in &measures.metrics {
        let (view, rule) = (measures.view, measures.rule);
        let distribution = samples.distribution(metric, view);
        let pooled = if distribution.is_none() { samples.pooled(metric) } else { None };
        // What a trust check withholds from the table is not drawn either.
        let is_withheld = |figure: &Figure| *figure == Figure::Undefined(Undefined::Withheld);
        let withheld = summary.percentiles.iter().find(|(_, figure)| is_withheld(figure));
        let until = withheld.map_or(1.0, |(share, _)| *share);
        let mut points = Vec::new();
        let until = if until <= PERCENTILES[0] { 0.0 } else { until };
        for share in grid().into_iter().filter(|&share| share < until) {
            // The table's own percentiles come with their interval.
            if let Some(figure) = summary.percentile(share) {
                match figure {
                    Figure::Known(e) => points.push(QuantilePoint {
                        low: e.interval.low,
                        high: e.interval.high,
                        ..point(share, e.value, false)
                    }),
                    Figure::Exceeds(bound) => points.push(point(share, *bound, true)),
                    Figure::Undefined(_) => {}
                }
                continue;
            }
            let between = match (&distribution, &pooled) {
                (Some(distribution), _) => distribution.quantile(share, rule),
                (None, Some(pooled)) => pooled.quantile(share, rule).map(|value| (value, false)),
                (None, None) => None,
            };
            points.extend(between.map(|(value, exceeds)| point(share, value, exceeds)));
        }
        if !points.is_empty() {
            curves.push(QuantileCurve { metric, unit: summary.unit, points });
        }
    }
    curves
}

fn point(share: f64, value: f64, exceeds: bool) -> QuantilePoint {
    QuantilePoint { share, nines: 0.0 - (1.0 - share).log10(), value, exceeds, low: None, high: None }
}

/// The smallest round width that needs at most [`MOST_BINS`] bins.
fn bin_width(span: Nanos) -> Nanos {
    const ROUND_MS: [u64; 12] =
        [100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000];
    let fits = |ms: &u64| span.0.div_ceil(ms * 1_000_000) <= MOST_BINS;
    match ROUND_MS.into_iter().find(fits) {
        Some(ms) => Nanos::from_millis(ms),
        None => Nanos(span.0.div_ceil(MOST_BINS)),
    }
}

fn timeline(run: &Run, measures: &Measures) -> Timeline {
    let last = run.requests.iter().filter_map(ended).max().unwrap_or_default();
    let end = run.footer.ended.max(last);
    let width = bin_width(end);
    // The last bin may be shorter than the others; its rates divide by its true length.
    let count = end.0.div_ceil(width.0).max(1) as usize;
    let edge = |i: usize| Nanos(width.0 * i as u64).min(end);
    let mut bins: Vec<TimelineBin> =
        (0..count).map(|i| TimelineBin { from: edge(i), ..TimelineBin::default() }).collect();
    let index = |at: Nanos| ((at.0 / width.0) as usize).min(count - 1);
    let mut tokens = Vec::new();
    for request in &run.requests {
        bins[index(request.intended)].arrivals_per_s += 1.0;
        if let Some(sent) = request.write_begin {
            bins[index(sent)].sends_per_s += 1.0;
        }
        let at = index(ended(request).unwrap_or(request.intended));
        if request.state.is_ok() {
            bins[at].completions_per_s += 1.0;
        } else {
            *bins[at].failures.entry(state_name(&request.state).to_owned()).or_insert(0) += 1;
        }
        token_line(request, &mut tokens, |at, amount| bins[index(at)].output_tokens_per_s += amount);
    }
    let levels = in_flight_series(&run.requests);
    for (i, bin) in bins.iter_mut().enumerate() {
        let (from, to) = (edge(i), edge(i + 1));
        let seconds = to.saturating_since(from).as_secs_f64();
        if seconds > 0.0 {
            bin.arrivals_per_s /= seconds;
            bin.sends_per_s /= seconds;
            bin.completions_per_s /= seconds;
            bin.output_tokens_per_s /= seconds;
        }
        bin.in_flight = levels.mean(from, to).unwrap_or(0.0);
    }
    Timeline {
        bin_ns: width.0,
        measure_from: run.footer.measure_from,
        measure_to: run.footer.measure_to,
        ended: end,
        steady: measures.window.steady,
        bins,
    }
}

fn peak_output_tokens(run: &Run, measures: &Measures) -> Defined<f64> {
    let window = &measures.window;
    // Bins that tile the window: their mean is the mean over the window, so none can hide it.
    let bins =
        Bins::of_width(window.from, window.to, Nanos::from_secs(1), usize::MAX).ok_or(Undefined::NoSpan)?;
    let mut amounts = vec![0.0_f64; bins.count];
    let mut tokens = Vec::new();
    let measured = run.requests.iter().filter(|request| request.phase == Phase::Measure);
    for request in measured.filter(|request| counts_in_throughput(request)) {
        token_line(request, &mut tokens, |at, amount| {
            if let Some(bin) = bins.index(at) {
                amounts[bin] += amount;
            }
        });
    }
    Ok(amounts.into_iter().fold(0.0, f64::max) / bins.width_s())
}

/// How a request ended, in one word.
fn state_name(state: &State) -> &'static str {
    match state {
        State::Ok => "ok",
        State::Failed { class, .. } => class.name(),
        State::TimedOut { limit } => match limit {
            TimeoutKind::Connect => "timed_out_connect",
            TimeoutKind::FirstToken => "timed_out_first_token",
            TimeoutKind::Stalled => "timed_out_stalled",
            TimeoutKind::Total => "timed_out_total",
        },
        State::Cancelled => "cancelled",
        State::Shed => "shed",
    }
}

fn scatter(run: &Run, view: View) -> Scatter {
    let mut dots: Vec<Dot> = run
        .requests
        .iter()
        .map(|request| Dot {
            intended: request.intended,
            warmup: request.phase == Phase::Warmup,
            ttft: ttft(request, view).ok(),
            e2e: e2e(request, view).ok(),
            state: state_name(&request.state),
        })
        .collect();
    dots.sort_by_key(|dot| dot.intended);
    let total = dots.len() as u64;
    if dots.len() > MOST_DOTS {
        dots = thin(dots);
    }
    Scatter { view, dots, total }
}

/// Keeps every request that did not end well, the largest latencies, and of the rest one in so many.
fn thin(dots: Vec<Dot>) -> Vec<Dot> {
    let nth_largest = |value: fn(&Dot) -> Option<Nanos>| {
        let mut values: Vec<Nanos> = dots.iter().filter_map(value).collect();
        values.sort_unstable_by(|a, b| b.cmp(a));
        values.get(MOST_DOTS / 20).copied().unwrap_or(Nanos::MAX)
    };
    let (ttft, e2e) = (nth_largest(|dot| dot.ttft), nth_largest(|dot| dot.e2e));
    let keep = |dot: &Dot| dot.state != "ok" || dot.ttft > Some(ttft) || dot.e2e > Some(e2e);
    let kept = dots.iter().filter(|dot| keep(dot)).count();
    let room = MOST_DOTS.saturating_sub(kept).max(MOST_DOTS / 2);
    let one_in = (dots.len() - kept).div_ceil(room).max(1);
    let mut others = 0_usize;
    dots.into_iter()
        .filter(|dot| {
            keep(dot) || {
                others += 1;
                others % one_in == 1 || one_in == 1
            }
        })
        .collect()
}
