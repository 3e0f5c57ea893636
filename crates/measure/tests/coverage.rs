//! Do nominal 95 % intervals hold what they promise? On independent draws, and on the waiting times
//! of an M/M/1 queue, whose successive values are correlated and whose percentiles are known.

mod common;

use common::*;
use measure::{Figure, Samples};
use record::Request;
use spec::{Metric, Nanos, PercentileRule, View};

/// Uniform draws in (0, 1) of a fixed stream.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) as f64 + 0.5) / 2_f64.powi(64)
    }
    fn exponential(&mut self, rate: f64) -> f64 {
        -self.next().ln() / rate
    }
}

/// Requests whose end-to-end latencies are these seconds, in this order.
fn requests(latencies: &[f64]) -> Vec<Request> {
    let one = |(i, &latency): (usize, &f64)| {
        let mut r = request(&[(0, 1)]);
        r.intended = Nanos(i as u64);
        r.chunks.edit()[0].arrival = Nanos::from_secs_f64(latency) + r.intended;
        r
    };
    latencies.iter().enumerate().map(one).collect()
}

/// Of `runs` runs: how many claim a closed interval, and how many of the closed or half-open ones
/// hold the truth.
fn coverage(runs: u64, p: f64, truth: f64, mut latencies: impl FnMut(&mut Draws) -> Vec<f64>) -> (f64, f64) {
    let (mut claimed, mut covers) = (0, 0);
    for seed in 0..runs {
        let requests = requests(&latencies(&mut Draws(seed * 1_000_003)));
        let samples = Samples::of(requests.iter());
        let Figure::Known(e) = samples.percentile(Metric::E2e, View::User, p, PercentileRule::Linear) else {
            panic!("too few samples");
        };
        let (low, high) = (e.interval.low, e.interval.high);
        claimed += u64::from(low.is_some() && high.is_some());
        let holds = low.is_none_or(|low| low <= truth * 1e9) && high.is_none_or(|high| truth * 1e9 <= high);
        covers += u64::from(holds);
    }
    (claimed as f64 / runs as f64, covers as f64 / runs as f64)
}

#[test]
fn independent_draws() {
    for (p, n) in [(0.5_f64, 200), (0.95, 200), (0.99, 1000)] {
        let truth = -(1.0 - p).ln();
        let (claimed, covers) =
            coverage(200, p, truth, |draws| (0..n).map(|_| draws.exponential(1.0)).collect());
        // Expected 98, 97, 96 %; 200 runs give ± 3 points.
        assert!((0.92..=1.0).contains(&covers), "p{p}: {covers}");
        assert!(claimed >= 0.9, "p{p}: {claimed}");
    }
}

#[test]
fn waiting_times_of_a_queue() {
    // Arrivals at 0.5, service at 1: time in the system is exponential with rate 0.5.
    let queue = |draws: &mut Draws| {
        let mut sojourn = draws.exponential(0.5);
        (0..1000)
            .map(|_| {
                let wait = (sojourn - draws.exponential(0.5)).max(0.0);
                sojourn = wait + draws.exponential(1.0);
                sojourn
            })
            .collect()
    };
    for (p, least_claimed) in [(0.5_f64, 0.9), (0.95, 0.2)] {
        let truth = -(1.0 - p).ln() / 0.5;
        let (claimed, covers) = coverage(100, p, truth, queue);
        assert!(covers >= 0.93, "p{p}: {covers}");
        assert!(claimed >= least_claimed, "p{p}: {claimed}");
    }
}
