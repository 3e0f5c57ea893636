//! Open-loop arrivals: a renewal process of unit rate, mapped through the integrated rate.

use rand_chacha::ChaCha8Rng;
use spec::{Nanos, Open, Rate};

use crate::streams::{ARRIVALS, gamma_of_mean_one, stream};

/// The arrival times of an open load, in order, without end; the first is 0 (definitions §7).
///
/// Gaps are drawn at rate 1 and mapped to time through the inverse of the integrated rate, so a
/// ramp stretches the process and keeps the shape of its bursts. Nothing is rescaled.
#[derive(Debug, Clone)]
pub struct Arrivals {
    rng: ChaCha8Rng,
    shape: f64,
    profile: Profile,
    /// Sum of the unit gaps so far: the expected number of arrivals.
    mass: f64,
    last: Nanos,
}

impl Arrivals {
    /// The arrivals of `load` under `seed`.
    pub fn new(load: &Open, seed: u64) -> Self {
        Self {
            rng: stream(seed, ARRIVALS),
            shape: load.burstiness.shape(),
            profile: Profile::new(load),
            mass: 0.0,
            last: Nanos::ZERO,
        }
    }
}

impl Iterator for Arrivals {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        // Rounding may not reorder: a time never precedes the one before it.
        let at = Nanos::from_secs_f64(self.profile.time_of(self.mass)).max(self.last);
        self.last = at;
        self.mass += gamma_of_mean_one(&mut self.rng, self.shape);
        Some(at)
    }
}

/// The rate over time.
#[derive(Debug, Clone, Copy)]
enum Profile {
    /// Everything at the origin.
    AtOnce,
    /// The same rate throughout, per second.
    Constant { rate: f64 },
    /// Linear from `from` at 0 to `rate` at `over` seconds, then constant.
    Ramp { from: f64, rate: f64, over: f64 },
}

impl Profile {
    fn new(load: &Open) -> Self {
        let rate = load.rate.per_second();
        match &load.ramp {
            _ if load.rate.is_infinite() => Profile::AtOnce,
            Some(ramp) if ramp.over.0 > Nanos::ZERO => {
                Profile::Ramp { from: ramp.from.per_second(), rate, over: ramp.over.0.as_secs_f64() }
            }
            _ => Profile::Constant { rate },
        }
    }

    /// The time in seconds at which `mass` arrivals are expected.
    fn time_of(self, mass: f64) -> f64 {
        match self {
            Profile::AtOnce => 0.0,
            Profile::Constant { rate } => mass / rate,
            Profile::Ramp { from, rate, over } => {
                let in_ramp = 0.5 * (from + rate) * over;
                if mass >= in_ramp {
                    return over + (mass - in_ramp) / rate;
                }
                // The root of from·t + (rate − from)·t²/(2·over) = mass, in the form that does
                // not cancel; under the root stands the squared rate at t, hence at least 0.
                let square = from * from + 2.0 * mass * (rate - from) / over;
                2.0 * mass / (from + libm::sqrt(square.max(0.0)))
            }
        }
    }
}

/// Arrivals expected in the first `span`; infinite when all leave at once.
pub(crate) fn expected(load: &Open, span: Nanos) -> f64 {
    let t = span.as_secs_f64();
    match Profile::new(load) {
        Profile::AtOnce => f64::INFINITY,
        Profile::Constant { rate } => rate * t,
        Profile::Ramp { from, rate, over } => {
            let inside = t.min(over);
            from * inside + (rate - from) * inside * inside / (2.0 * over) + rate * (t - inside)
        }
    }
}

/// The time at which `count` arrivals are expected, in seconds.
pub(crate) fn expected_time(load: &Open, count: u64) -> f64 {
    Profile::new(load).time_of(count as f64)
}

/// Whether a rate is one that can be planned: positive and finite, or all at once.
pub(crate) fn plannable(rate: Rate) -> bool {
    let r = rate.per_second();
    r > 0.0 && (r.is_infinite() || r.is_normal())
}

#[cfg(test)]
mod tests {
    use spec::{Burstiness, Ramp, Span};

    use super::*;

    fn open(rate: f64, shape: f64) -> Open {
        Open {
            rate: Rate::new(rate).unwrap(),
            burstiness: Burstiness::new(shape).unwrap(),
            cap: None,
            ramp: None,
        }
    }
    fn times(load: &Open, seed: u64, n: usize) -> Vec<u64> {
        Arrivals::new(load, seed).take(n).map(|t| t.0).collect()
    }
    fn gaps_s(load: &Open, seed: u64, n: usize) -> Vec<f64> {
        times(load, seed, n + 1).windows(2).map(|w| (w[1] - w[0]) as f64 / 1e9).collect()
    }
    fn moments(xs: &[f64]) -> (f64, f64) {
        let mean = xs.iter().sum::<f64>() / xs.len() as f64;
        (mean, xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (xs.len() - 1) as f64)
    }

    /// definitions §7: λ = 2/s has mean 0.5 s; α = 1 variance 0.25 s², α = 4 variance 0.0625 s².
    #[test]
    fn two_per_second_has_the_defined_mean_and_variance() {
        let n = 50_000;
        for (shape, want) in [(1.0, 0.25), (4.0, 0.0625), (0.25, 1.0)] {
            let (mean, variance) = moments(&gaps_s(&open(2.0, shape), 42, n));
            let se_mean = (want / n as f64).sqrt();
            let se_variance = want * ((2.0 + 6.0 / shape) / n as f64).sqrt();
            assert!((mean - 0.5).abs() < 4.0 * se_mean, "α {shape}: mean {mean}");
            assert!((variance - want).abs() < 4.0 * se_variance, "α {shape}: variance {variance}");
            // CV 1/√α within 5 %.
            let cv = variance.sqrt() / mean;
            assert!((cv * shape.sqrt() - 1.0).abs() < 0.05, "α {shape}: CV {cv}");
        }
    }

    #[test]
    fn constant_gaps_are_exact_and_do_not_drift() {
        let at = times(&open(2.0, f64::INFINITY), 42, 101);
        assert!(at.iter().enumerate().all(|(i, t)| *t == i as u64 * 500_000_000));
        // 1/3 s is no whole number of ns: the millionth arrival is still right.
        let last = Arrivals::new(&open(3.0, f64::INFINITY), 1).nth(1_000_000);
        assert_eq!(last, Some(Nanos(333_333_333_333_333)));
        // Below one a second.
        assert_eq!(times(&open(0.25, f64::INFINITY), 1, 3), [0, 4_000_000_000, 8_000_000_000]);
    }

    #[test]
    fn an_infinite_rate_sends_everything_at_the_origin() {
        assert_eq!(times(&open(f64::INFINITY, 1.0), 42, 4), [0, 0, 0, 0]);
    }

    /// Kolmogorov–Smirnov distance to the exponential below its 1 % critical value, 1.63/√n.
    #[test]
    fn poisson_gaps_pass_a_ks_test() {
        let n = 600;
        let mut failed = 0;
        for seed in 0..10 {
            let mut gaps = gaps_s(&open(40.0, 1.0), seed, n);
            gaps.sort_by(f64::total_cmp);
            let distance = gaps
                .iter()
                .enumerate()
                .map(|(i, gap)| {
                    let f = 1.0 - (-40.0 * gap).exp();
                    (f - i as f64 / n as f64).abs().max(((i + 1) as f64 / n as f64 - f).abs())
                })
                .fold(0.0, f64::max);
            failed += u32::from(distance > 1.63 / (n as f64).sqrt());
        }
        // Each fails with chance 0.01; two of ten happen in 0.4 % of all choices of seeds.
        assert!(failed <= 1, "{failed} of 10 seeds fail");
    }

    #[test]
    fn a_ramp_is_linear_in_time() {
        // 10/s to 30/s over 10 s: 10·t + t² arrivals are expected by t, 200 by the end.
        let mut load = open(30.0, f64::INFINITY);
        load.ramp = Some(Ramp { from: Rate::new(10.0).unwrap(), over: Span(Nanos::from_secs(10)) });
        let at = times(&load, 1, 300);
        let before = |s: u64| at.iter().filter(|t| **t < s * 1_000_000_000).count();
        assert_eq!([before(1), before(5), before(10), before(11)], [11, 75, 200, 230]);
        assert_eq!(at[11], 1_000_000_000);
        assert_eq!(at[200], 10_000_000_000);
        // Falling: 30/s to 10/s.
        let mut falling = open(10.0, f64::INFINITY);
        falling.ramp = Some(Ramp { from: Rate::new(30.0).unwrap(), over: Span(Nanos::from_secs(10)) });
        let at = times(&falling, 1, 300);
        assert_eq!(at[200], 10_000_000_000);
        assert_eq!(at[29], 1_000_000_000);
        assert!((expected(&falling, Nanos::from_secs(11)) - 210.0).abs() < 1e-9);
    }

    #[test]
    fn a_ramp_keeps_the_shape_of_bursts() {
        // In expected-arrivals time the gaps are those of the process without a ramp.
        let mut load = open(30.0, 0.25);
        load.ramp = Some(Ramp { from: Rate::new(10.0).unwrap(), over: Span(Nanos::from_secs(10)) });
        let flat = gaps_s(&open(1.0, 0.25), 5, 150);
        let ramped: Vec<f64> = Arrivals::new(&load, 5).take(151).map(|t| expected(&load, t)).collect();
        for (gap, pair) in flat.iter().zip(ramped.windows(2)) {
            assert!((gap - (pair[1] - pair[0])).abs() < 1e-6);
        }
    }

    /// The same on every machine: no platform's `log` or `pow` takes part. The values come from a
    /// second implementation of the documented derivation and draws, written in Python.
    #[test]
    fn arrivals_are_golden() {
        assert_eq!(times(&open(2.0, 1.0), 42, 6), GOLDEN_POISSON);
        assert_eq!(times(&open(2.0, 0.25), 42, 6), GOLDEN_BURSTY);
        assert_eq!(times(&open(2.0, 4.0), 42, 6), GOLDEN_SMOOTH);
    }
    const GOLDEN_POISSON: [u64; 6] =
        [0, 1_481_986_179, 2_323_174_801, 2_459_995_568, 3_481_293_172, 3_722_564_225];
    const GOLDEN_BURSTY: [u64; 6] = [0, 5_678, 154_717_200, 154_721_166, 357_182_938, 424_357_451];
    const GOLDEN_SMOOTH: [u64; 6] =
        [0, 550_659_766, 904_465_253, 1_239_265_817, 1_517_012_191, 1_645_624_857];
}
