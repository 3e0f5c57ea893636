//! One point of a curve: its metrics, over the whole run or over a window of it.

use serde::Serialize;
use spec::Nanos;

use super::Rules;

/// One response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Response {
    /// When its request was issued, from the start of the run.
    pub issued: Nanos,
    /// From there to its first fragment.
    pub first: Option<Nanos>,
    /// From there to its end; `None`: it failed.
    pub done: Option<Nanos>,
    /// Output tokens.
    pub tokens: u64,
    /// Of these, those after the first chunk.
    pub tokens_after_first: u64,
}

/// What a point is drawn by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Metrics {
    /// Responses that ended well.
    pub n_samples_completed: u64,
    /// Those that failed. They count in no number beside, and are shown.
    pub n_samples_failed: u64,
    /// Output tokens per second of all users.
    pub system_tps: Option<f64>,
    /// 1000 over `tpot_p90_ms`.
    pub tps_per_user: Option<f64>,
    /// Time to the first fragment, ms. Not defined where a response failed within the percentile.
    pub ttft_p90_ms: Option<f64>,
    /// Time per output token after the first chunk, ms.
    pub tpot_p90_ms: Option<f64>,
}

impl Metrics {
    /// Of responses; the time is that from the first issue to the last end. A failed response stands above
    /// every latency.
    pub fn new(rules: &Rules, responses: &[Response]) -> Self {
        let ok = || responses.iter().filter(|response| response.done.is_some());
        let began = responses.iter().map(|response| response.issued).min().unwrap_or_default();
        let ended = ok().filter_map(|response| Some(response.issued + response.done?)).max();
        let seconds = ended.map_or(0.0, |ended| ended.saturating_since(began).as_secs_f64());
        let tokens: u64 = ok().map(|response| response.tokens).sum();
        let ms = |ns: f64| ns / 1e6;
        let ttft =
            responses.iter().map(|r| r.done.and(r.first).map_or(f64::INFINITY, |first| ms(first.0 as f64)));
        let tpot = responses.iter().filter_map(|response| {
            let (Some(done), Some(first)) = (response.done, response.first) else {
                return Some(f64::INFINITY);
            };
            let after = done.saturating_since(first).0 as f64;
            // Without a token after the first chunk there is no such time.
            (response.tokens_after_first > 0).then(|| ms(after / response.tokens_after_first as f64))
        });
        let tpot_p90_ms = lower(tpot.collect(), rules.percentile);
        Self {
            n_samples_completed: ok().count() as u64,
            n_samples_failed: responses.len() as u64 - ok().count() as u64,
            system_tps: Some(tokens as f64 / seconds).filter(|rate| rate.is_finite()),
            tps_per_user: tpot_p90_ms.filter(|tpot| *tpot > 0.0).map(|tpot| 1000.0 / tpot),
            ttft_p90_ms: lower(ttft.collect(), rules.percentile),
            tpot_p90_ms,
        }
    }
}

/// `sorted[floor(p·(n−1))]`; not defined where that is a failure.
fn lower(mut values: Vec<f64>, p: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let place = (p * values.len().checked_sub(1)? as f64).floor() as usize;
    values.get(place).copied().filter(|value| value.is_finite())
}

/// Whether a run can have a steady-state window, as far as its lengths tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// It can.
    Windowable,
    /// It is too short by the moments of issue.
    InsufficientDuration,
    /// It has too few passes over the data set.
    InsufficientPasses,
    /// It has not one pass, or ends within one.
    PartialDataset,
}

/// Whole passes over the data set, by the order of issue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Window {
    /// The first pass.
    pub super_pass_start: u64,
    /// The pass behind the last.
    pub super_pass_end: u64,
    /// Samples of a pass.
    pub super_pass_size: u64,
    /// Samples of the window.
    pub n_samples: u64,
    /// From the first issue to the last, s.
    pub duration_s: f64,
}

/// What is known of the steady state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SteadyState {
    /// By its lengths.
    pub status: Coverage,
    /// All whole passes: the most that a window can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// The detector's word. Its rule is a script of its own, so it is not given here.
    pub verdict: Option<String>,
}

impl SteadyState {
    /// Of responses in the order of issue, over a data set of `samples`.
    pub fn new(rules: &Rules, responses: &[Response], samples: u64, ultra_low: bool) -> Self {
        let issued = responses.len() as u64;
        let passes = issued.checked_div(samples).unwrap_or(0);
        let least = if ultra_low { rules.least_window_s.ultra_low } else { rules.least_window_s.other };
        let whole = (passes * samples) as usize;
        let span = |within: &[Response]| match (within.first(), within.last()) {
            (Some(first), Some(last)) => last.issued.saturating_since(first.issued).as_secs_f64(),
            _ => 0.0,
        };
        let window = (passes > 0).then(|| Window {
            super_pass_start: 0,
            super_pass_end: passes,
            super_pass_size: samples,
            n_samples: whole as u64,
            duration_s: span(&responses[..whole]),
        });
        let status = if passes == 0 || !issued.is_multiple_of(samples) {
            Coverage::PartialDataset
        } else if passes < rules.least_super_passes {
            Coverage::InsufficientPasses
        } else if window.is_none_or(|window| window.duration_s < least as f64) {
            Coverage::InsufficientDuration
        } else {
            Coverage::Windowable
        };
        Self { status, window, verdict: None }
    }
}

/// A point of a curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Requests in flight.
    pub concurrency: u64,
    /// Over the whole run: the official numbers, as long as no detector has found a window.
    pub total: Metrics,
    /// What is known of the steady state.
    pub steady_state: SteadyState,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(issued_s: u64, first_ms: u64, done_ms: u64, tokens: u64) -> Response {
        Response {
            issued: Nanos::from_secs(issued_s),
            first: Some(Nanos::from_millis(first_ms)),
            done: Some(Nanos::from_millis(done_ms)),
            tokens,
            tokens_after_first: tokens - 1,
        }
    }

    #[test]
    fn metrics_by_hand() {
        let rules = Rules::v1_0().expect("data");
        // TTFT 10, 20, 30 ms; TPOT 100 / 10, 200 / 10, 300 / 10 ms. floor(0.9 × 2) = 1: the second.
        let mut all: Vec<Response> = (1..=3).map(|i| response(i, 10 * i, 110 * i, 11)).collect();
        let got = Metrics::new(rules, &all);
        assert_eq!(
            (got.ttft_p90_ms, got.tpot_p90_ms, got.tps_per_user),
            (Some(20.0), Some(20.0), Some(50.0))
        );
        // 33 tokens from 1 s to 3.33 s.
        assert!((got.system_tps.expect("a rate") - 33.0 / 2.33).abs() < 1e-9);
        // A failure stands above all: of two the first counts still, of four the third.
        all[2].done = None;
        let failed = Metrics::new(rules, &all);
        assert_eq!((failed.n_samples_failed, failed.ttft_p90_ms), (1, Some(20.0)));
        all[1].done = None;
        assert_eq!(Metrics::new(rules, &all).ttft_p90_ms, None);
        assert_eq!(Metrics::new(rules, &[]).system_tps, None);
        // One chunk alone has no time per token.
        assert_eq!(Metrics::new(rules, &[response(1, 10, 20, 1)]).tpot_p90_ms, None);
    }

    #[test]
    fn coverage_of_a_data_set() {
        let rules = Rules::v1_0().expect("data");
        let status = |n: u64, every_s: u64, ultra_low| {
            let all: Vec<Response> = (0..n).map(|i| response(i * every_s, 1, 2, 3)).collect();
            SteadyState::new(rules, &all, 10, ultra_low).status
        };
        assert_eq!([status(9, 99, true), status(45, 99, true)], [Coverage::PartialDataset; 2]);
        assert_eq!(status(30, 99, true), Coverage::InsufficientPasses);
        // 39 gaps of 16 s are 624 s.
        assert_eq!(status(40, 16, true), Coverage::Windowable);
        assert_eq!(status(40, 16, false), Coverage::InsufficientDuration);
        assert_eq!(SteadyState::new(rules, &[], 0, true).status, Coverage::PartialDataset);
    }
}
