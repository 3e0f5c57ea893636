//! The virtual queue: how crowded a server like this one would have been under a timetable.
//!
//! At most `places` jobs are inside and are served together, first come first served in front. All
//! jobs are equal work, so they leave in the order in which they came: with W(t) the work done for
//! each job inside, a job that enters at W leaves at W + 1.

use std::collections::VecDeque;

use plan::Arrivals;
use spec::{Burstiness, Open, Rate};

use super::stats::{batch_means, expit, interpolate, logit, long_run_variance, mean};

/// Arrivals whose gaps are drawn once for a search.
const GAPS: usize = 260_000;
/// Arrivals of a first look for the loads that matter.
const SHORT: usize = 20_000;
/// Arrivals at each of the loads of the table.
const LONG: usize = 100_000;
/// Loads of the table.
const LOADS: usize = 13;
/// Outside this range the control says too little.
pub(super) const USEFUL: (f64, f64) = (0.003, 0.5);

/// The queue.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VirtualQueue {
    /// Work done for each job per second when so many are inside (index: jobs − 1).
    speed: Vec<f64>,
}

impl VirtualQueue {
    /// From the stages of a ramp (users, completions per second) and the places in the engine.
    pub(super) fn new(stages: &[(u32, f64)], places: f64) -> Self {
        let places = places.round().clamp(1.0, 65_536.0) as usize;
        let points: Vec<(f64, f64)> =
            stages.iter().filter(|(_, x)| *x > 0.0).map(|(c, x)| (f64::from(*c).ln(), x.ln())).collect();
        let speed = |n: usize| interpolate(&points, (n as f64).ln()).exp() / n as f64;
        Self { speed: (1..=places).map(speed).collect() }
    }

    /// The largest throughput.
    fn ceiling(&self) -> f64 {
        self.speed.iter().enumerate().map(|(i, s)| s * (i + 1) as f64).fold(0.0, f64::max)
    }

    /// Calls `each` with the jobs in flight that every arrival finds; arrival times in s, growing.
    pub(super) fn replay(&self, times: impl Iterator<Item = f64>, mut each: impl FnMut(u32)) {
        let mut leaving: VecDeque<f64> = VecDeque::with_capacity(self.speed.len());
        let (mut waiting, mut work, mut now) = (0_u32, 0.0_f64, 0.0_f64);
        for at in times {
            while let Some(&first) = leaving.front() {
                let speed = self.speed[leaving.len() - 1];
                let left = (first - work) / speed;
                if now + left > at {
                    work += speed * (at - now);
                    break;
                }
                now += left;
                work = first;
                leaving.pop_front();
                if waiting > 0 {
                    waiting -= 1;
                    leaving.push_back(work + 1.0);
                }
            }
            now = at;
            each(leaving.len() as u32 + waiting);
            if leaving.len() < self.speed.len() {
                leaving.push_back(work + 1.0);
            } else {
                waiting += 1;
            }
        }
    }

    /// The control of each arrival: whether it finds at least `crowd` jobs; a crowd between two whole
    /// numbers counts in part.
    pub(super) fn controls(&self, times: impl Iterator<Item = f64>, crowd: f64) -> Vec<f64> {
        let mut out = Vec::new();
        self.replay(times, |n| out.push(control(n, crowd)));
        out
    }
}

fn control(in_flight: u32, crowd: f64) -> f64 {
    (f64::from(in_flight) - crowd + 1.0).clamp(0.0, 1.0)
}

/// Gaps of the planned process at one arrival per second, drawn once.
#[derive(Debug, Clone)]
pub(super) struct Process {
    times: Vec<f64>,
}

impl Process {
    pub(super) fn new(burstiness: Burstiness, seed: u64) -> Self {
        // One per second is a rate; times then are sums of unit gaps.
        let rate = Rate::new(1.0).unwrap_or_else(|| unreachable!("one per second is a rate"));
        let load = Open { rate, burstiness, cap: None, ramp: None };
        let times = Arrivals::new(&load, seed).take(GAPS).map(|t| t.as_secs_f64()).collect();
        Self { times }
    }

    /// `count` arrivals at rate `x`, from the `part`th of several places in the process.
    fn at(&self, x: f64, part: usize, count: usize) -> impl Iterator<Item = f64> + '_ {
        let from = (part * 48_611) % (GAPS - count);
        let origin = self.times[from];
        self.times[from..from + count].iter().map(move |t| (t - origin) / x)
    }
}

/// Long-run mean of the control against load, smooth in log-odds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expectation {
    /// Polynomial of the log-odds in ln(load) − `origin`, rising powers.
    terms: [f64; 4],
    origin: f64,
    /// Loads between which it was fitted, ln.
    range: (f64, f64),
    /// (ln(load), ln of the variance of a mean of controls over that of independent draws).
    inflation: Vec<(f64, f64)>,
    /// No load above this is stable.
    ceiling: f64,
}

impl Expectation {
    /// The expectation of "at least `crowd` in flight" between loads `low` and `high`; `None` where
    /// the control never matters there.
    pub(super) fn new(
        queue: &VirtualQueue,
        crowd: f64,
        process: &Process,
        low: f64,
        high: f64,
    ) -> Option<Self> {
        let controls = |x: f64, part: usize, count: usize| {
            let all = queue.controls(process.at(x, part, count), crowd);
            all[count / 10..].to_vec()
        };
        let measured = |x: f64, part: usize, count: usize| mean(&controls(x, part, count));
        let crossing = |target: f64| {
            let (mut low, mut high) = (low.ln(), high.ln());
            for step in 0..12 {
                let middle = 0.5 * (low + high);
                if measured(middle.exp(), step, SHORT) < target { low = middle } else { high = middle }
            }
            0.5 * (low + high)
        };
        if measured(high, 0, SHORT) < USEFUL.1 {
            return None;
        }
        let range = (crossing(USEFUL.0 / 2.0), crossing(USEFUL.1));
        let origin = 0.5 * (range.0 + range.1);
        let (mut points, mut inflation) = (Vec::with_capacity(LOADS), Vec::with_capacity(LOADS));
        for i in 0..LOADS {
            let x = range.0 + (range.1 - range.0) * i as f64 / (LOADS - 1) as f64;
            let series = controls(x.exp(), i, LONG);
            let share = mean(&series);
            if share > 0.0 && share < 1.0 {
                let variance = long_run_variance(&batch_means(&series, 30), series.len());
                inflation.push((x, (variance / (share * (1.0 - share))).max(1.0).ln()));
                // The rarer the event, the less its log-odds are known.
                points.push((x - origin, logit(share), share * (1.0 - share)));
            }
        }
        let terms = least_squares(&points)?;
        Some(Self { terms, origin, range, inflation: smoothed(&inflation), ceiling: queue.ceiling() })
    }

    /// The mean at load `x`; `None` outside the range in which it is known.
    pub(super) fn at(&self, x: f64) -> Option<f64> {
        let ln = x.ln();
        if ln < self.range.0 - 0.02 || ln > self.range.1 + 0.02 {
            return None;
        }
        let d = ln - self.origin;
        let [a, b, c, e] = self.terms;
        Some(expit(a + d * (b + d * (c + d * e))))
    }

    /// How many times more a mean of controls varies at this load than one of independent draws. Below the
    /// table crowds dissolve as ever sooner, by 1/(1 − utilisation)² (Whitt 1989).
    pub(super) fn inflation(&self, x: f64) -> f64 {
        let known = interpolate(&self.inflation, x.ln()).exp();
        let least = self.inflation.first().map_or(x, |(ln, _)| ln.exp());
        let idle = |x: f64| (1.0 - x / self.ceiling).max(0.0);
        if x < least { (known * (idle(least) / idle(x)).powi(2)).max(1.0) } else { known }
    }

    /// Slope of the log-odds in ln(load).
    pub(super) fn slope(&self, x: f64) -> f64 {
        let d = x.ln() - self.origin;
        let [_, b, c, e] = self.terms;
        b + d * (2.0 * c + 3.0 * d * e)
    }

    /// The load at which the mean is `q`; the nearer end where it never is.
    pub(super) fn crossing(&self, q: f64) -> f64 {
        let (mut low, mut high) = self.range;
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if self.at(middle.exp()).is_some_and(|e| e < q) { low = middle } else { high = middle }
        }
        (0.5 * (low + high)).exp()
    }
}

/// Each point the mean of itself and its neighbours.
fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let around = |i: usize| &points[i.saturating_sub(2)..(i + 3).min(points.len())];
    let y = |i: usize| around(i).iter().map(|p| p.1).sum::<f64>() / around(i).len() as f64;
    points.iter().enumerate().map(|(i, p)| (p.0, y(i))).collect()
}

/// Weighted cubic through (x, y, weight) by the normal equations; `None` when too few points tell.
fn least_squares(points: &[(f64, f64, f64)]) -> Option<[f64; 4]> {
    const N: usize = 4;
    if points.len() < N + 1 {
        return None;
    }
    // In units of the largest |x| the powers stay comparable.
    let scale = points.iter().fold(0.0_f64, |m, p| m.max(p.0.abs())).max(1e-12);
    let mut a = [[0.0_f64; N + 1]; N];
    for (x, y, w) in points {
        let powers = [1.0, x / scale, (x / scale).powi(2), (x / scale).powi(3)];
        for i in 0..N {
            for j in 0..N {
                a[i][j] += w * powers[i] * powers[j];
            }
            a[i][N] += w * powers[i] * y;
        }
    }
    for i in 0..N {
        let pivot = (i..N).max_by(|p, q| a[*p][i].abs().total_cmp(&a[*q][i].abs()))?;
        a.swap(i, pivot);
        if a[i][i].abs() < 1e-15 {
            return None;
        }
        for row in 0..N {
            if row != i {
                let factor = a[row][i] / a[i][i];
                let above = a[i];
                a[row].iter_mut().zip(above).skip(i).for_each(|(cell, x)| *cell -= factor * x);
            }
        }
    }
    let mut terms = [0.0; N];
    for (i, term) in terms.iter_mut().enumerate() {
        *term = a[i][N] / a[i][i] / scale.powi(i as i32);
    }
    Some(terms)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Service times of 1 s at one place; arrivals at 0, 0.5, 0.9, 1.5, 4 find 0, 1, 2, 2 and 0: at
    /// 1.5 the first has left at 1, the second is inside until 2.
    #[test]
    fn one_place_by_hand() {
        let queue = VirtualQueue::new(&[(1, 1.0)], 1.0);
        let mut found = Vec::new();
        queue.replay([0.0, 0.5, 0.9, 1.5, 4.0].into_iter(), |n| found.push(n));
        assert_eq!(found, [0, 1, 2, 2, 0]);
    }

    /// Two places that share one job per second: both of (0, 0.5) are inside. At 0.5 the first has
    /// half of its work left, done at half speed by 1.5; then the second has 0.5 left, alone at full
    /// speed until 2.
    #[test]
    fn two_places_share_the_speed() {
        let queue = VirtualQueue::new(&[(1, 1.0), (2, 1.0)], 2.0);
        let mut found = Vec::new();
        queue.replay([0.0, 0.5, 1.49, 1.6, 3.0].into_iter(), |n| found.push(n));
        // At 1.49 two are inside and a third waits; at 1.6 the second (half done) and the third.
        assert_eq!(found, [0, 1, 2, 2, 2]);
    }

    #[test]
    fn speed_lies_between_the_stages_of_the_ramp() {
        let queue = VirtualQueue::new(&[(1, 10.0), (4, 40.0), (8, 40.0)], 8.0);
        assert!((queue.speed[1] - 10.0).abs() < 1e-9 && (queue.speed[7] - 5.0).abs() < 1e-9);
        assert!((queue.ceiling() - 40.0).abs() < 1e-9);
    }

    /// M/D/1 at ρ = 0.8: an arrival finds the server empty with 1 − ρ, and n in the system with
    /// p₁ = (1 − ρ)(e^ρ − 1); mean number ρ + ρ²/(2(1 − ρ)) = 2.4 (Pollaczek and Khinchine).
    #[test]
    fn poisson_arrivals_find_what_the_theory_says() {
        let queue = VirtualQueue::new(&[(1, 1.0)], 1.0);
        let process = Process::new(Burstiness::new(1.0).unwrap(), 3);
        let (mut counts, mut sum, mut n) = ([0.0_f64; 2], 0.0, 0.0);
        queue.replay(process.at(0.8, 0, 200_000), |in_flight| {
            if in_flight < 2 {
                counts[in_flight as usize] += 1.0;
            }
            sum += f64::from(in_flight);
            n += 1.0;
        });
        let p1 = 0.2 * (0.8_f64.exp() - 1.0);
        assert!((counts[0] / n - 0.2).abs() < 0.005, "{}", counts[0] / n);
        assert!((counts[1] / n - p1).abs() < 0.005, "{}", counts[1] / n);
        assert!((sum / n - 2.4).abs() < 0.1, "{}", sum / n);
    }

    /// P(n ≥ 10) of M/D/1 with service times of 20 ms is 5 % at 42.43/s.
    #[test]
    fn the_expectation_finds_the_crossing() {
        let queue = VirtualQueue::new(&[(1, 50.0), (2, 50.0)], 1.0);
        for seed in 0..4 {
            let process = Process::new(Burstiness::new(1.0).unwrap(), seed);
            let e = Expectation::new(&queue, 10.0, &process, 2.5, 54.0).unwrap();
            let g = e.crossing(0.05);
            assert!((g / 42.43 - 1.0).abs() < 0.01, "{g}");
            assert!((e.at(g).unwrap() - 0.05).abs() < 1e-6);
            // Below the table by 1/(1 − ρ)²: from 20/s to 10/s (ρ = 0.4, 0.2) by (0.6 / 0.8)².
            let fall = e.inflation(10.0) / e.inflation(20.0);
            assert!((fall - 0.5625).abs() < 1e-9 || e.inflation(10.0) <= 1.0, "{fall}");
            assert!(e.inflation(20.0) < e.inflation(g));
        }
    }

    #[test]
    fn a_cubic_is_found_again() {
        let points: Vec<(f64, f64, f64)> = (-5..=5)
            .map(|i| f64::from(i) * 0.1)
            .map(|x| (x, 1.0 + 2.0 * x - 3.0 * x * x + 0.5 * x * x * x, 1.0 + x * x))
            .collect();
        let terms = least_squares(&points).unwrap();
        for (got, want) in terms.iter().zip([1.0, 2.0, -3.0, 0.5]) {
            assert!((got - want).abs() < 1e-9, "{terms:?}");
        }
    }
}
