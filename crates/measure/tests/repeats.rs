//! Runs of one load taken as one, by value.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use measure::repeats::{Completed, joined, throughput};
use measure::{Undefined, measure};
use record::{Run, State};
use spec::{Analysis, Metric, Nanos, Phase};

/// A window of its own: two answers, the first token after `ttft` ms, the last event 100 ms later.
fn run_of(ttft: u64) -> Run {
    let mut warm = request(&[(10, 1), (20, 1)]);
    warm.phase = Phase::Warmup;
    let measured = |at| shifted(request(&[(ttft, 1), (ttft + 100, 1)]), ms(at));
    let mut made = run(vec![warm, measured(1_000), measured(2_000)]);
    made.footer.measure_from = ms(1_000);
    made.footer.measure_to = ms(2_500);
    made
}

fn joined_runs(runs: &[Run]) -> Run {
    let windows = |run: &Run| measure(run, &Analysis::default()).window;
    joined(runs.iter().map(|run| (run.clone(), windows(run))).collect()).unwrap()
}

#[test]
fn windows_follow_each_other_and_requests_are_pooled() {
    let runs = [run_of(100), run_of(300), run_of(500)];
    let one = joined_runs(&runs);
    assert_eq!(one.requests.len(), 6, "warm-up requests are left out");
    assert_eq!(one.requests.iter().map(|r| r.seq).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    let pooled = measure(&one, &Analysis::default());
    // 1,200 + 1,400 + 1,600 ms.
    assert_eq!(pooled.window.duration, ms(4_200));
    assert_eq!(pooled.window.planned_span, ms(4_500));
    assert_eq!((pooled.counts.offered, pooled.counts.ok), (6, 6));
    let ttft = &pooled.metrics[&Metric::Ttft];
    close(ttft.mean.value().unwrap(), 300e6, 1.0);
    close(ttft.percentile(0.5).unwrap().value().unwrap(), 300e6, 1.0);
    close(pooled.throughput.requests_per_s.unwrap().value, 6.0 / 4.2, 1e-9);
    // Latencies of a request do not change by being moved.
    for (moved, at) in one.requests.chunks(2).zip([100, 300, 500]) {
        for r in moved {
            assert_eq!(r.chunks.first().unwrap().arrival, r.intended + ms(at));
        }
    }
    // One run alone is itself.
    let alone = measure(&joined_runs(&runs[..1]), &Analysis::default());
    let itself = measure(&runs[0], &Analysis::default());
    assert_eq!((alone.window.duration, alone.counts), (itself.window.duration, itself.counts));
    assert_eq!(alone.metrics, itself.metrics);
    assert!(joined(Vec::new()).is_none());
}

#[test]
fn a_later_window_that_begins_later_moves_to_the_left() {
    let mut late = run_of(100);
    for r in &mut late.requests {
        *r = shifted(r.clone(), ms(60_000));
    }
    late.footer.measure_from = ms(61_000);
    late.footer.measure_to = ms(62_500);
    let one = joined_runs(&[run_of(100), late]);
    assert_eq!(measure(&one, &Analysis::default()).window.duration, ms(2_400));
    assert_eq!(one.requests[2].intended, ms(2_200));
}

fn completed(ok: u64, seconds: u64, error: f64) -> Completed {
    Completed { ok, duration: Nanos::from_secs(seconds), relative_error: Ok(error), batches: 20 }
}

#[test]
fn throughput_has_the_wider_of_two_intervals() {
    // One run: 2.093 (Student's t with 19 degrees) × 2 % of 10.
    let one = throughput(&[completed(100, 10, 0.02)]).unwrap();
    close(one.value, 10.0, 1e-12);
    close(one.interval.high.unwrap() - 10.0, 2.093_02 * 0.2, 1e-4);
    // Three quiet runs of 10, 11 and 12: t with 2 degrees × 1 / √3.
    let three =
        throughput(&[completed(100, 10, 0.0), completed(110, 10, 0.0), completed(120, 10, 0.0)]).unwrap();
    close(three.value, 11.0, 1e-12);
    close(three.interval.high.unwrap() - 11.0, 4.302_65 / 3_f64.sqrt(), 1e-4);
    // Two runs say nothing of the spread between runs.
    let two = throughput(&[completed(100, 10, 0.0), completed(120, 10, 0.0)]).unwrap();
    close(two.interval.high.unwrap(), 11.0, 1e-12);
    // Durations weigh.
    close(throughput(&[completed(100, 10, 0.0), completed(100, 30, 0.0)]).unwrap().value, 5.0, 1e-12);
    assert_eq!(throughput(&[]).unwrap_err(), Undefined::NoneCompleted);
    assert_eq!(throughput(&[completed(0, 10, 0.0)]).unwrap_err(), Undefined::NoneCompleted);
}

#[test]
fn the_error_of_a_rate_comes_from_its_batches() {
    // One completion each 100 ms for 20 s: 20 equal batches of ten, no spread.
    let of = |requests| {
        let mut run: Run = run(requests);
        (run.footer.measure_from, run.footer.measure_to) = (Nanos::ZERO, Nanos::from_secs(20));
        let measures = measure(&run, &Analysis::default());
        Completed::of(&run, &measures.window, measures.counts.ok)
    };
    let even = of(repeated(200, 100, &[(10, 1)]));
    assert_eq!((even.ok, even.batches), (200, 20));
    close(even.relative_error.unwrap(), 0.0, 1e-12);
    // All in every other batch: 20, 0, 20, 0, …: s = 10.26 over a mean of 10, no positive lag.
    let mut bursts = repeated(200, 100, &[(10, 1)]);
    for (i, r) in bursts.iter_mut().enumerate() {
        let batch = i as u64 / 20;
        *r = shifted(request(&[(10, 1)]), ms(2_000 * batch + i as u64 % 20 * 45));
    }
    close(of(bursts).relative_error.unwrap(), 10.260 / 10.0 / 20_f64.sqrt(), 1e-3);
    // Too few for a spread.
    let few = of(repeated(19, 1_000, &[(10, 1)]));
    assert_eq!(few.relative_error, Err(Undefined::TooFewSamples { n: 19, needed: 20 }));
    let mut failed = repeated(19, 1_000, &[(10, 1)]);
    failed.iter_mut().for_each(|r| r.state = State::Cancelled);
    assert_eq!(of(failed).ok, 0);
}
