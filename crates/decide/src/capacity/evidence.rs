//! A probe as the fit sees it: the verdicts of its first determined requests, without its transient.

use spec::Nanos;

use super::answer::{Measured, ProbeVerdict};
use super::criterion::Criterion;
use super::runner::{Kind, Seen};
use super::settings::Over;
use super::stats::{batch_means, long_run_variance, mean};

/// Groups that each series is cut into.
const BATCHES: usize = 20;

/// A probe that came back.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    pub number: u32,
    pub kind: Kind,
    pub load: f64,
    pub verdict: ProbeVerdict,
    /// Intended sends of the requests used, s.
    pub intended: Vec<f64>,
    /// Verdicts of the requests used, for each criterion.
    pub series: Vec<Vec<Option<f64>>>,
    /// The first so many of them belong to the transient.
    pub dropped: usize,
    pub measured: Measured,
    /// It was made for another tier.
    pub borrowed: bool,
}

impl Probe {
    /// It may enter the fit.
    pub(super) fn speaks(&self) -> bool {
        matches!(self.kind, Kind::Main | Kind::Repeat)
            && !matches!(self.verdict, ProbeVerdict::ClientLimited { .. })
            && self.intended.len() > self.dropped
    }
}

/// Requests at the start that do not count: an open loop begins with an empty server, a closed one
/// with all users at once.
pub(crate) fn transient(over: Over, load: f64, n: usize) -> usize {
    match over {
        Over::Rate { .. } => n / 5,
        Over::Concurrency => (2 * load as usize).min(2 * n / 3),
        // Their starts are spread over a cycle.
        Over::Users { .. } => (load as usize).min(2 * n / 3),
    }
}

/// How many requests from the first on are determined under every criterion.
pub(crate) fn determined(criteria: &[Criterion], requests: &[Seen], now: Nanos) -> usize {
    requests.iter().take_while(|r| criteria.iter().all(|c| c.determined(r, now))).count()
}

/// The control of each request, and its long-run mean at this load.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Controls {
    pub each: Vec<f64>,
    pub expected: f64,
}

/// A series without its transient, in batches, beside its control.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    /// Requests.
    pub m: usize,
    pub y: f64,
    ys: Vec<f64>,
    control: Option<(f64, Vec<f64>, f64)>,
}

impl Sample {
    pub(super) fn new(series: &[Option<f64>], dropped: usize, controls: Option<&Controls>) -> Self {
        let kept = || series.iter().enumerate().skip(dropped);
        let values: Vec<f64> = kept().filter_map(|(_, v)| *v).collect();
        let control = controls.map(|c| {
            let beside: Vec<f64> = kept().filter(|(_, v)| v.is_some()).map(|(i, _)| c.each[i]).collect();
            (mean(&beside), batch_means(&beside, BATCHES), c.expected)
        });
        Self { m: values.len(), y: mean(&values), ys: batch_means(&values, BATCHES), control }
    }

    /// The mean, corrected for the luck of the timetable.
    pub(super) fn corrected(&self, b: f64) -> f64 {
        match &self.control {
            Some((c, _, expected)) => self.y - b * (c - expected),
            None => self.y,
        }
    }

    /// Variance of √m times the mean, from the batches.
    fn variance(&self, b: f64) -> f64 {
        match &self.control {
            Some((_, cs, _)) if b > 0.0 => {
                let residual: Vec<f64> = self.ys.iter().zip(cs).map(|(y, c)| y - b * c).collect();
                long_run_variance(&residual, self.m)
            }
            _ => long_run_variance(&self.ys, self.m),
        }
    }

    /// Within the probe: covariance of control and series, variance of each.
    fn moments(&self) -> Option<(f64, f64, f64)> {
        let (c, cs, _) = self.control.as_ref()?;
        let n = self.ys.len() as f64;
        let y = mean(&self.ys);
        let sum = |f: &dyn Fn(f64, f64) -> f64| {
            self.ys.iter().zip(cs).map(|(a, b)| f(a - y, b - c)).sum::<f64>() / n.max(1.0)
        };
        Some((sum(&|y, c| y * c), sum(&|_, c| c * c), sum(&|y, _| y * y)))
    }
}

/// What several probes say together of their noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pool {
    /// Weight of the control.
    pub b: f64,
    /// Variance of a probe's mean over that of independent draws; of a mean limit relative to it.
    pub inflation: f64,
}

/// Waves of misses that the virtual queue's own inflation is worth beside those observed.
const PRIOR_MISSES: f64 = 10.0;

impl Pool {
    /// From samples and their weights. One inflation for all: with its own, a lucky probe would get
    /// the largest weight. Clean probes say nothing of how bursty misses are, so what the virtual
    /// queue says (`expected`) counts until misses have been seen. `target`: share of misses that is
    /// allowed; `None`: a mean.
    pub(super) fn of(samples: &[(Sample, f64)], target: Option<f64>, expected: Option<f64>) -> Self {
        let b = weight_of_control(samples);
        let sum =
            |f: &dyn Fn(&Sample) -> f64| samples.iter().map(|(s, w)| w * s.m as f64 * f(s)).sum::<f64>();
        let Some(q) = target else {
            let relative = sum(&|s| s.variance(b) / (s.y * s.y).max(1e-12));
            return Pool { b, inflation: relative / sum(&|_| 1.0).max(1.0) };
        };
        // By misses, but no further than twice the target: above the limit a queue grows, and its
        // misses come in one long burst.
        let weight = |s: &Sample| s.y.min(2.0 * q);
        let ratio = |s: &Sample| {
            let independent = s.y * (1.0 - s.y);
            if independent > 0.0 { s.variance(b) / independent } else { 1.0 }
        };
        let misses = sum(&weight);
        let observed = if misses > 0.0 { (sum(&|s| weight(s) * ratio(s)) / misses).max(1.0) } else { 1.0 };
        let prior = expected.map_or(0.0, |_| PRIOR_MISSES);
        let expected = expected.unwrap_or(1.0).max(1.0);
        // Batches see no wave that is longer than they are: what counts is how many waves passed.
        let seen = misses.min(sum(&|_| 1.0) / expected);
        let total = seen + prior;
        let log = seen * observed.ln() + prior * expected.ln();
        Pool { b, inflation: if total > 0.0 { (log / total).exp() } else { 1.0 } }
    }
}

/// The weight of the control from the covariance within probes, shrunk towards 0 as the control
/// explains less of the series.
fn weight_of_control(samples: &[(Sample, f64)]) -> f64 {
    let (mut cov, mut var_c, mut var_y) = (0.0, 0.0, 0.0);
    for (sample, weight) in samples {
        if let Some((yc, c, y)) = sample.moments() {
            let m = weight * sample.m as f64;
            cov += m * yc;
            var_c += m * c;
            var_y += m * y;
        }
    }
    if cov <= 0.0 || var_c <= 0.0 || var_y <= 0.0 {
        return 0.0;
    }
    let explained = cov * cov / (var_c * var_y);
    let trust = ((explained - GATE.0) / (GATE.1 - GATE.0)).clamp(0.0, 1.0);
    trust * ((cov + 0.7) / (var_c + 1.0)).clamp(0.0, 1.5)
}

/// Share of the series' variance that the control explains: below the first it is not used, from
/// the second on fully.
const GATE: (f64, f64) = (0.1, 0.3);

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ys: &[f64], cs: &[f64], expected: f64) -> Sample {
        let series: Vec<Option<f64>> = ys.iter().map(|y| Some(*y)).collect();
        Sample::new(&series, 0, Some(&Controls { each: cs.to_vec(), expected }))
    }

    /// Series equal to its control: the corrected mean is the expectation.
    #[test]
    fn a_perfect_control_takes_the_luck_away() {
        let ys: Vec<f64> = (0..2000).map(|i| f64::from(u8::from(i / 100 % 5 == 0))).collect();
        let s = sample(&ys, &ys, 0.05);
        let pool = Pool::of(&[(s.clone(), 1.0)], Some(0.05), None);
        assert!((pool.b - 1.0).abs() < 0.01, "{}", pool.b);
        assert!((s.y - 0.2).abs() < 1e-12 && (s.corrected(1.0) - 0.05).abs() < 1e-12);
        assert!((pool.inflation - 1.0).abs() < 1e-9, "{}", pool.inflation);
    }

    /// 20 batches of 100 that are 0 or 1 throughout: the mean of 2,000 is worth about 20 draws.
    #[test]
    fn bursts_inflate_the_variance() {
        let ys: Vec<f64> = (0..2000).map(|i| f64::from(u8::from(i / 100 % 2 == 0))).collect();
        let s = sample(&ys, &vec![0.0; 2000], 0.0);
        let pool = Pool::of(&[(s.clone(), 1.0)], Some(0.05), None);
        assert!(pool.b.abs() < 1e-12);
        assert!((pool.inflation - 100.0 * 20.0 / 19.0).abs() < 1e-9, "{}", pool.inflation);
    }

    #[test]
    fn a_control_that_explains_nothing_is_not_used() {
        let ys: Vec<f64> = (0..2000).map(|i| f64::from(u8::from(i / 100 % 2 == 0))).collect();
        let cs: Vec<f64> = (0..2000).map(|i| f64::from(u8::from(i / 200 % 2 == 0))).collect();
        assert!(Pool::of(&[(sample(&ys, &cs, 0.5), 1.0)], Some(0.05), None).b.abs() < 1e-12);
    }

    #[test]
    fn closed_loops_lose_twice_their_users() {
        assert_eq!(transient(Over::Concurrency, 10.0, 150), 20);
        assert_eq!(transient(Over::Concurrency, 100.0, 150), 100);
        let rate = Over::Rate { burstiness: spec::Burstiness::new(1.0).unwrap() };
        assert_eq!(transient(rate, 10.0, 150), 30);
    }
}
