//! Steady windows, stalls, charts and speed on made-up runs.

mod common;

use common::*;
use measure::stalls::stalls;
use measure::steady::{plateau_from, queue_growth, steadiness, steady_window};
use measure::*;
use record::{Request, Run};
use spec::{Analysis, Closed, Load, Metric, Nanos, Slo};

/// A small deterministic scatter in [-1, 1).
fn noise(i: u64) -> f64 {
    let mut x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635;
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 32;
    (x >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// 40 tokens, the first 50 ms after the start, each further one `gap_us(second)` microseconds later.
fn answer(i: u64, from: Nanos, gap_us: impl Fn(f64) -> f64) -> Request {
    let mut r = request(&[(0, 1); 40]);
    r.intended = from;
    r.write_begin = Some(from);
    let mut at = from + ms(50);
    for (j, chunk) in r.chunks.edit().iter_mut().enumerate() {
        chunk.arrival = at;
        chunk.seen = at;
        let gap = gap_us(at.as_secs_f64()) * (1.0 + 0.05 * noise(40 * i + j as u64));
        at += Nanos((gap * 1e3) as u64);
    }
    r.closed = r.chunks.last().map(|chunk| chunk.arrival);
    r
}

/// Requests every 100 ms for `seconds`.
fn open_load(seconds: u64) -> Run {
    let requests = (0..seconds * 10).map(|i| answer(i, ms(100 * i), |_| 10_000.0)).collect();
    run_with(requests, (Nanos::ZERO, Nanos::from_secs(seconds)), open(10.0), Slo::default())
}

/// Four users for `seconds`, each sends when the answer before has ended.
fn load(seconds: u64, gap_us: impl Fn(f64) -> f64) -> Run {
    let mut requests = Vec::new();
    for user in 0..4 {
        let mut at = ms(20 * user);
        while at < Nanos::from_secs(seconds) {
            let r = answer(1000 * user + requests.len() as u64, at, &gap_us);
            at = r.closed.expect("an answer ends");
            requests.push(r);
        }
    }
    requests.sort_by_key(|r| r.intended);
    let load = Load::Closed(Closed {
        concurrency: 4,
        think: spec::Span::default(),
        start_over: spec::Span::default(),
    });
    run_with(requests, (Nanos::ZERO, Nanos::from_secs(seconds)), load, Slo::default())
}

#[test]
fn an_even_run_is_steady_from_its_plateau_on() {
    let run = open_load(60);
    let (from, to) = steady_window(&run).expect("steady");
    // In flight climbs during the first 450 ms, to about 4.4.
    assert!(from < Nanos::from_secs(1), "{from:?}");
    assert_eq!(to, Nanos::from_secs(60));
    let window = measure(&run, &Analysis::default()).window;
    assert_eq!(window.steady, Some((from, to)));
    assert_eq!(window.steady_rates, rates_in(&run, from, to).ok());
}

#[test]
fn a_cold_start_is_cut_off() {
    let run = load(60, |at| if at < 18.0 { 14_000.0 } else { 10_000.0 });
    let found = steadiness(&run.requests, Nanos::ZERO, Nanos::from_secs(60)).unwrap();
    assert!(found.whole.fails());
    assert_eq!(found.at, Nanos::from_secs(18));
    // One guard bin of 3 s.
    assert_eq!(steady_window(&run), Some((Nanos::from_secs(21), Nanos::from_secs(60))));
}

#[test]
fn a_drift_has_no_steady_state() {
    let run = load(60, |at| 10_000.0 * (1.0 + 0.2 * at / 60.0));
    let found = steadiness(&run.requests, Nanos::ZERO, Nanos::from_secs(60)).unwrap();
    assert!(found.whole.fails());
    assert_eq!(found.steady_from, None);
    assert_eq!(steady_window(&run), None);
}

#[test]
fn too_short_to_tell() {
    let run = load(8, |_| 10_000.0);
    assert_eq!(
        steadiness(&run.requests, Nanos::ZERO, Nanos::from_secs(8)),
        Err(Undefined::TooFewSamples { n: 8, needed: 10 })
    );
    assert_eq!(steady_window(&run), None);
    assert_eq!(steadiness(&[], Nanos::ZERO, Nanos::ZERO), Err(Undefined::NoSpan));
}

#[test]
fn a_queue_that_grows_is_seen() {
    // Ten arrivals a second, seven served.
    let requests: Vec<Request> = (0..600)
        .map(|i| {
            let mut r = request(&[(i * 1000 / 7 + 200, 1)]);
            r.intended = ms(100 * i);
            r.write_begin = Some(r.intended);
            r
        })
        .collect();
    let run = run_with(requests, (Nanos::ZERO, Nanos::from_secs(60)), open(10.0), Slo::default());
    let growth = queue_growth(&run).unwrap();
    close(growth.share, 0.3, 0.01);
    assert!(measure::steady::is_overload(&growth, Nanos::from_secs(40)));
    let even = queue_growth(&open_load(60)).unwrap();
    assert!(!measure::steady::is_overload(&even, Nanos::from_secs(60)), "{even:?}");
}

#[test]
fn plateau_of_a_ramp() {
    let spans = (0..10).map(|i| (Nanos::from_secs(i), Nanos::from_secs(100)));
    let levels = Levels::new(spans);
    assert_eq!(plateau_from(&levels, Nanos::ZERO, Nanos::from_secs(60)), Some(Nanos::from_secs(8)));
    assert_eq!(plateau_from(&Levels::default(), Nanos::ZERO, Nanos::from_secs(60)), None);
}

#[test]
fn pauses_of_all_streams() {
    // Four streams of a token every 20 ms; all pause for 300 ms every 5 s.
    let stream = |offset: u64| {
        let mut chunks = Vec::new();
        let mut at = 100 + offset;
        while at < 60_000 {
            chunks.push((at, 1));
            let next = at + 20;
            at = if at / 5000 != next / 5000 { next + 300 } else { next };
        }
        request(&chunks)
    };
    let requests: Vec<Request> = (0..4).map(|i| stream(3 * i)).collect();
    let found = stalls(&requests, Nanos::ZERO, Nanos::from_secs(60)).unwrap();
    assert_eq!(found.limit, ms(150));
    assert_eq!(found.pauses.len(), 11);
    assert!(found.notable() && found.periodic(), "{found:?}");
    close(found.share, 11.0 * 0.3 / 60.0, 0.005);
    // One stream alone says nothing about all.
    assert_eq!(stalls(&requests[..1], Nanos::ZERO, Nanos::from_secs(60)), None);
    assert_eq!(stalls(&[], Nanos::ZERO, Nanos::from_secs(60)), None);
}

#[test]
fn the_time_line_holds_everything_once() {
    let mut requests = repeated(50, 100, &[(100, 1), (300, 3)]);
    requests.push(shifted(failed(20), ms(1000)));
    let run = run_with(requests, (Nanos::ZERO, ms(4900)), open(10.0), Slo::default());
    let pictures = pictures(&run, &measure(&run, &Analysis::default()));
    let line = &pictures.timeline;
    let width = Nanos(line.bin_ns).as_secs_f64();
    let last = line.ended.saturating_since(line.bins.last().unwrap().from).as_secs_f64();
    let total = |rate: fn(&measure::pictures::TimelineBin) -> f64| {
        let n = line.bins.len();
        line.bins
            .iter()
            .enumerate()
            .map(|(i, b)| rate(b) * if i + 1 == n { last } else { width })
            .sum::<f64>()
    };
    assert_eq!(line.bin_ns, 100 * MS);
    close(total(|b| b.arrivals_per_s), 51.0, 1e-6);
    close(total(|b| b.sends_per_s), 51.0, 1e-6);
    close(total(|b| b.completions_per_s), 50.0, 1e-6);
    close(total(|b| b.output_tokens_per_s), 200.0, 1e-6);
    close(total(|b| b.in_flight), 50.0 * 0.3 + 0.02, 1e-6);
    assert_eq!(line.bins[10].failures["http_5xx"], 1);
    assert_eq!(pictures.scatter.dots.len(), 51);
}

#[test]
fn quantile_curves_agree_with_the_table() {
    let run = load(60, |_| 10_000.0);
    let measures = measure(&run, &Analysis::default());
    let pictures = pictures(&run, &measures);
    let curve = pictures.quantiles.iter().find(|c| c.metric == Metric::E2e).unwrap();
    for (share, figure) in &measures.metrics[&Metric::E2e].percentiles {
        let point = curve.points.iter().find(|p| (p.share - share).abs() < 1e-9);
        assert_eq!(point.map(|p| p.value), figure.value(), "{share}");
    }
    // About 550 requests carry p99 and no p99.9.
    let nines = curve.points.last().unwrap().nines;
    assert!((1.99..3.0).contains(&nines), "{nines}");
    assert!(curve.points.windows(2).all(|p| p[0].nines < p[1].nines && p[0].value <= p[1].value));
}

#[test]
fn a_crowd_of_dots_is_thinned_without_its_failures() {
    let mut requests = repeated(30_000, 1, &[(100, 1)]);
    requests[7].chunks.edit()[0].arrival += Nanos::from_secs(9);
    requests.extend((0..500).map(|i| shifted(failed(5), ms(i * 60))));
    let run = run_with(requests, (Nanos::ZERO, ms(30_000)), open(1000.0), Slo::default());
    let scatter = pictures(&run, &measure(&run, &Analysis::default())).scatter;
    assert_eq!(scatter.total, 30_500);
    assert!(scatter.dots.len() <= 10_500, "{}", scatter.dots.len());
    assert_eq!(scatter.dots.iter().filter(|dot| dot.state == "http_5xx").count(), 500);
    assert!(scatter.dots.iter().any(|dot| dot.e2e > Some(Nanos::from_secs(9))));
    assert!(scatter.dots.windows(2).all(|pair| pair[0].intended <= pair[1].intended));
}

#[test]
fn rates_inside_a_span_count_what_arrived_there() {
    // Tokens at 100 and 300 ms of each request, ten requests a second; the span holds 10 of each.
    let run = run(repeated(50, 100, &[(100, 1), (300, 3)]));
    let rates = rates_in(&run, ms(1000), ms(2000)).unwrap();
    close(rates.completions_per_s, 10.0, 1e-9);
    close(rates.output_tokens_per_s, 40.0, 1e-9);
    close(rates.in_flight, 3.0, 1e-9);
    assert_eq!(rates_in(&run, ms(5), ms(5)), Err(Undefined::NoSpan));
}

#[test]
fn what_is_withheld_is_not_drawn() {
    let run = open_load(60);
    let mut measures = measure(&run, &Analysis::default());
    let last = |measures: &Measures| {
        let curves = pictures(&run, measures).quantiles;
        let curve = curves.into_iter().find(|c| c.metric == Metric::E2e);
        curve.map(|c| c.points.last().unwrap().share)
    };
    assert!(last(&measures) > Some(0.98));
    let withhold = |measures: &mut Measures, i: usize| {
        measures.metrics.get_mut(&Metric::E2e).unwrap().percentiles[i].1 =
            Figure::Undefined(Undefined::Withheld);
    };
    withhold(&mut measures, 3);
    assert!(last(&measures) < Some(0.99) && last(&measures) >= Some(0.95));
    withhold(&mut measures, 0);
    assert_eq!(last(&measures), None);
}

/// One good request of 100 ms at 0, one that fails at once at 2 s: the window is 2 s, not 100 ms, so that
/// the failure does not raise the rates.
#[test]
fn failures_do_not_shorten_the_window() {
    let mut bad = shifted(request(&[]), Nanos::from_secs(2));
    bad.seq = 1;
    bad.state = record::State::Failed { class: record::FailureClass::Connect, detail: "refused".to_owned() };
    let run = run(vec![request(&[(50, 1), (100, 1)]), bad]);
    let measures = measure::measure(&run, &Analysis::default());
    assert_eq!(measures.window.duration, Nanos::from_secs(2));
    let rate = measures.throughput.requests_per_s.expect("one completed");
    assert!((rate.value - 0.5).abs() < 1e-12, "{rate:?}");
}
