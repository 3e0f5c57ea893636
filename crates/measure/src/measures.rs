//! From a run's records to everything that they say.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;

use record::{Request, Run, State};
use spec::{Analysis, Load, Metric, Nanos, Phase, View};

use crate::estimate::{Defined, Undefined};
use crate::instrument::instrument;
use crate::interval::{mean, sample_stddev};
use crate::level::{Levels, in_flight_series};
use crate::rates::rates_in;
use crate::request::{Observed, ttft};
use crate::samples::{Samples, has_view};
use crate::slo::exact;
use crate::steady::steady_window;
use crate::summary::{Counts, Little, Measures, Throughput, Tokens, Window};
use crate::tokens::input_tokens;
use crate::traffic::{connections, targets};

/// Computes everything of one run under the given percentile rule and view. The view falls back to
/// the spec's: user view in open loop, server view in closed loop.
pub fn measure(run: &Run, analysis: &Analysis) -> Measures {
    let view = analysis.view.unwrap_or_else(|| run.header.spec.view());
    let rule = analysis.percentile;
    let other = match view {
        View::User => View::Server,
        View::Server => View::User,
    };
    let samples = Samples::new(run);
    let levels = in_flight_series(&run.requests);
    let counts = counts(samples.requests());
    let tokens = tokens(&samples);
    let summaries = |view: View, wanted: fn(Metric) -> bool| -> BTreeMap<_, _> {
        let metrics = Metric::ALL.into_iter().filter(|&metric| wanted(metric));
        metrics.filter_map(|metric| Some((metric, samples.summary(metric, view, rule)?))).collect()
    };
    // The gaps of a long run are millions: their metrics on one core, the rest on another.
    let (window, metrics) = thread::scope(|scope| {
        let lags =
            scope.spawn(|| (window(run, &samples), summaries(view, |metric| metric == Metric::ClientLag)));
        let mut metrics = summaries(view, |metric| !matches!(metric, Metric::ClientLag | Metric::Itl));
        if samples.token_each()
            && let Some(chunks) = metrics.get(&Metric::Icl)
        {
            metrics.insert(Metric::Itl, chunks.clone());
        } else {
            metrics.extend(summaries(view, |metric| metric == Metric::Itl));
        }
        let (window, lags) = lags.join().unwrap_or_else(|panic| resume_unwind(panic));
        metrics.extend(lags);
        (window, metrics)
    });
    let throughput = throughput(run, &samples, &levels, &window, &counts, &tokens);
    Measures {
        view,
        rule,
        warmup: self::counts(run.requests.iter().filter(|request| request.phase == Phase::Warmup)),
        cold_ttft: cold_ttft(run, view),
        other_view: summaries(other, has_view),
        little: little(&samples, &throughput, &window),
        instrument: instrument(run),
        connections: connections(run),
        targets: targets(run, &samples),
        counts,
        window,
        metrics,
        throughput,
        tokens,
    }
}

/// States of requests, which add up to those offered.
pub fn counts<'a>(requests: impl Iterator<Item = &'a Request>) -> Counts {
    let mut counts = Counts::default();
    for request in requests {
        counts.offered += 1;
        counts.retries += u64::from(request.attempts.saturating_sub(1));
        counts.stale_connections += u64::from(request.connection.is_some_and(|c| c.stale > 0));
        match &request.state {
            State::Ok => {
                counts.ok += 1;
                let finish = request.finish.as_ref().map_or("none given", |finish| finish.name());
                *counts.finish.entry(finish.to_owned()).or_insert(0) += 1;
            }
            State::Failed { class, detail } => {
                counts.failed += 1;
                *counts.failed_by_class.entry(*class).or_insert(0) += 1;
                counts.first_failure.entry(*class).or_insert_with(|| detail.clone());
            }
            State::TimedOut { limit } => {
                counts.timed_out += 1;
                *counts.timed_out_by_kind.entry(*limit).or_insert(0) += 1;
            }
            State::Cancelled => counts.cancelled += 1,
            State::Shed => counts.shed += 1,
        }
    }
    counts
}

/// The window of definitions §5: first intended send of the measurement to the last output of any
/// request of that phase. Without output it has no length.
fn window(run: &Run, samples: &Samples<'_>) -> Window {
    let from = samples.requests().next().map_or(run.footer.measure_from, |request| request.intended);
    // The last intended send counts too: requests that fail without any output must not shorten the
    // window, else failures would raise every rate.
    let last_intended = samples.requests().map(|request| request.intended).max().unwrap_or(from);
    let to = samples.observed.iter().filter_map(Observed::last).max().unwrap_or(from).max(last_intended);
    let steady = steady_window(run);
    Window {
        from,
        to,
        duration: to.saturating_since(from),
        planned_span: run.footer.measure_to.saturating_since(run.footer.measure_from),
        steady,
        steady_rates: steady.and_then(|(from, to)| rates_in(run, from, to).ok()),
    }
}

/// Mean TTFT over the completed requests of the warm-up and the first request of all: what the
/// server gave before it was warm.
fn cold_ttft(run: &Run, view: View) -> Defined<Nanos> {
    let first = run.requests.iter().min_by_key(|request| (request.intended, request.seq));
    let warmup = run.requests.iter().filter(|request| request.phase == Phase::Warmup);
    let cold = first.filter(|request| request.phase != Phase::Warmup).into_iter().chain(warmup);
    let mut reason = Undefined::NoneCompleted;
    let mut values = Vec::new();
    for request in cold.filter(|request| request.state.is_ok()) {
        match ttft(request, view) {
            Ok(value) => values.push(value.0 as f64),
            Err(why) => reason = why,
        }
    }
    mean(&values).map(|ns| Nanos(ns.round() as u64)).ok_or(reason)
}

/// Token accounting over completed requests. `output_of_failed` holds what failed and timed-out
/// requests had delivered; tokens of requests that we cut ourselves are in [`crate::tokens::cut_output`].
fn tokens(samples: &Samples<'_>) -> Tokens {
    let mut tokens = Tokens {
        output: 0,
        input: 0,
        output_mean: Err(Undefined::NoneCompleted),
        input_mean: Err(Undefined::NoneCompleted),
        output_source: BTreeMap::new(),
        chunk_source: BTreeMap::new(),
        output_of_failed: 0,
        per_chunk: Err(Undefined::NoneCompleted),
        forced: 0,
        forced_missed: 0,
        usage_vs_retokenised: Err(Undefined::NoTokenCount),
        cached: None,
    };
    let (mut with_output, mut with_input, mut streamed_tokens, mut chunks) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut usage, mut own) = (0_u64, 0_u64);
    for observed in &samples.observed {
        let request = observed.request;
        match &request.state {
            State::Ok => {}
            State::Failed { .. } | State::TimedOut { .. } => {
                tokens.output_of_failed += observed.output.map_or(0, |(n, _)| u64::from(n));
                continue;
            }
            State::Cancelled | State::Shed => continue,
        }
        if let Ok((n, source)) = observed.output {
            with_output += 1;
            tokens.output += u64::from(n);
            *tokens.output_source.entry(source).or_insert(0) += 1;
            if request.streamed {
                *tokens.chunk_source.entry(observed.chunk_source).or_insert(0) += 1;
                streamed_tokens += u64::from(n);
                chunks += request.chunks.len() as u64;
            }
        }
        if let Some(n) = input_tokens(request) {
            with_input += 1;
            tokens.input += u64::from(n);
        }
        if let (true, Some(asked)) = (request.output.forced, request.output.asked) {
            tokens.forced += 1;
            tokens.forced_missed += u64::from(observed.output.map(|(n, _)| n) != Ok(asked));
        }
        if let (Some(a), Some(b)) = (request.output.usage, request.output.retokenised) {
            usage += u64::from(a);
            own += u64::from(b);
        }
        if let Some(cached) = request.input.cached {
            *tokens.cached.get_or_insert(0) += u64::from(cached);
        }
    }
    let ratio = |a: u64, b: u64, none: Undefined| if b > 0 { Ok(a as f64 / b as f64) } else { Err(none) };
    tokens.output_mean = ratio(tokens.output, with_output, Undefined::NoneCompleted);
    tokens.input_mean = ratio(tokens.input, with_input, Undefined::NoTokenCount);
    tokens.per_chunk = ratio(streamed_tokens, chunks, Undefined::NotStreamed);
    tokens.usage_vs_retokenised = ratio(usage, own, Undefined::NoTokenCount).map(|ratio| ratio - 1.0);
    tokens
}

/// Rates and levels. Output tokens are those of completed requests and those that had arrived of
/// requests that we cut at the end: all of them arrived inside the window.
fn throughput(
    run: &Run,
    samples: &Samples<'_>,
    levels: &Levels,
    window: &Window,
    counts: &Counts,
    tokens: &Tokens,
) -> Throughput {
    let per = |amount: f64, span: Nanos| {
        if span.0 > 0 { Ok(amount / span.as_secs_f64()) } else { Err(Undefined::NoSpan) }
    };
    let over_window = |amount: u64| per(amount as f64, window.duration).map(|rate| exact(rate, counts.ok));
    let mut sends: Vec<Nanos> = samples.requests().filter_map(|request| request.write_begin).collect();
    sends.sort_unstable();
    let waits: Vec<Nanos> = samples
        .requests()
        .filter_map(|r| Some(r.admitted?.saturating_since(r.dispatched.unwrap_or(r.intended))))
        .collect();
    let has_cap = matches!(&run.header.spec.load, Load::Open(open) if open.cap.is_some());
    let cap_wait_mean = match (has_cap || !waits.is_empty(), sends.len() as u64) {
        (false, _) => Err(Undefined::NotApplicable),
        (true, 0) => Err(Undefined::NotSent),
        (true, sent) => Ok(Nanos(waits.iter().copied().sum::<Nanos>().0 / sent)),
    };
    let output = tokens.output + crate::tokens::cut_output(&run.requests);
    Throughput {
        requests_per_s: over_window(counts.ok),
        output_tokens_per_s: over_window(output),
        input_tokens_per_s: over_window(tokens.input),
        offered_per_s: per(counts.offered as f64, window.planned_span),
        sent_per_s: per(sends.len() as f64, window.planned_span),
        in_flight_mean: levels.mean(window.from, window.to).ok_or(Undefined::NoSpan),
        in_flight_peak: levels.peak(window.from, window.to),
        gap_cv: gap_cv(&sends),
        cap_wait_mean,
        capped_share: if counts.offered > 0 { waits.len() as f64 / counts.offered as f64 } else { 0.0 },
    }
}

/// Coefficient of variation of the gaps between ascending moments.
pub fn gap_cv(moments: &[Nanos]) -> Defined<f64> {
    let gaps: Vec<f64> = moments.windows(2).map(|pair| pair[1].saturating_since(pair[0]).0 as f64).collect();
    let too_few = Undefined::TooFewSamples { n: moments.len() as u64, needed: 3 };
    let mean = mean(&gaps).ok_or(too_few)?;
    let stddev = sample_stddev(&gaps).ok_or(too_few)?;
    if mean > 0.0 { Ok(stddev / mean) } else { Err(Undefined::NoSpan) }
}

/// Little's law in its naive form, with the tolerance that the window's edges need.
fn little(samples: &Samples<'_>, throughput: &Throughput, window: &Window) -> Defined<Little> {
    let completed = samples.observed.iter().filter(|observed| observed.request.state.is_ok());
    let e2e: Vec<f64> = completed.filter_map(|o| o.value(Metric::E2e, View::Server).ok()).collect();
    let mean = mean(&e2e).ok_or(Undefined::NoneCompleted)?;
    let in_flight = throughput.in_flight_mean?;
    let rate = throughput.requests_per_s?.value;
    Ok(Little {
        in_flight,
        lambda_w: rate * mean / 1e9,
        tolerance: 1.25 * mean / window.duration.0 as f64 + 0.01,
    })
}
