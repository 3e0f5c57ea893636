//! The crossing from all probes at once: logit miss(x) = logit q + β ln(x/θ) + u with u ~ N(0, τ²)
//! between runs, on a grid of (θ, β, τ).

use super::stats::{expit, logit};

/// Points in ln θ.
const POINTS: usize = 90;
/// Slopes.
const SLOPES: usize = 12;
/// Slopes from here on are called a cliff: the odds of a miss grow a hundredfold within 4 %.
const CLIFF: f64 = 110.0;
/// Weights of the noise between runs, from none to more than one may hope to fit through.
const SPREAD_WEIGHTS: [f64; 5] = [0.25, 0.25, 0.2, 0.17, 0.13];
/// Log-odds move by τ from run to run.
const SHARE_SPREADS: [f64; 5] = [0.1, 0.3, 0.6, 1.2, 2.0];
/// The same for the logarithm of a mean over its limit.
const MEAN_SPREADS: [f64; 5] = [0.01, 0.03, 0.08, 0.2, 0.5];
/// How often the overload guard is wrong.
const FALSE_ALARM: f64 = 0.02;
/// Half of the prior is flat; the other half lies around what the virtual queue expects, with these
/// widths in ln θ (heavy tails) and ln β.
const PRIOR_WIDTHS: (f64, f64) = (0.15, 0.5);
/// Nodes and weights of Gauss and Hermite for a standard normal.
const NODES: [(f64, f64); 5] = [
    (-2.856_970_013_872_806, 0.011_257_411_327_720_69),
    (-1.355_626_179_974_266, 0.222_075_922_005_612_6),
    (0.0, 0.533_333_333_333_333_3),
    (1.355_626_179_974_266, 0.222_075_922_005_612_6),
    (2.856_970_013_872_806, 0.011_257_411_327_720_69),
];

/// What one probe says of the crossing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Datum {
    /// `k` misses among `n` effective draws, at ln(load) `x`.
    Misses { x: f64, k: f64, n: f64 },
    /// The logarithm of a mean over its limit and its variance.
    Mean { x: f64, ln: f64, variance: f64 },
    /// The queue grew without end: the crossing lies below.
    Divergent { x: f64 },
}

/// What kind of limit is fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// Log-odds of a miss, against those of the target.
    Share { q: f64 },
    /// Logarithm of a mean over its limit.
    Mean,
}

impl Scale {
    fn slopes(self) -> [f64; SLOPES] {
        let (low, high): (f64, f64) = match self {
            Scale::Share { .. } => (1.5, 300.0),
            Scale::Mean => (0.2, 60.0),
        };
        std::array::from_fn(|i| low * (high / low).powf(i as f64 / (SLOPES - 1) as f64))
    }
    fn spreads(self) -> [f64; 5] {
        match self {
            Scale::Share { .. } => SHARE_SPREADS,
            Scale::Mean => MEAN_SPREADS,
        }
    }
    fn target(self) -> f64 {
        match self {
            Scale::Share { q } => logit(q),
            Scale::Mean => 0.0,
        }
    }
}

/// Where the crossing is expected before any probe, and how steep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expected {
    pub theta: f64,
    /// `None`: not known.
    pub slope: Option<f64>,
}

impl Expected {
    /// Density of ln θ over that of the flat prior of this length.
    fn theta(self, at: f64, length: f64) -> f64 {
        let z = (at - self.theta) / PRIOR_WIDTHS.0;
        0.5 + 0.5 * length / (std::f64::consts::PI * PRIOR_WIDTHS.0 * (1.0 + z * z))
    }
    /// Weights of the slopes.
    fn slopes(self, slopes: &[f64; SLOPES]) -> [f64; SLOPES] {
        let Some(slope) = self.slope else { return [1.0 / SLOPES as f64; SLOPES] };
        let bell = slopes.map(|s| (-0.5 * ((s / slope.max(0.1)).ln() / PRIOR_WIDTHS.1).powi(2)).exp());
        let total: f64 = bell.iter().sum();
        bell.map(|w| 0.5 / SLOPES as f64 + 0.5 * w / total.max(1e-300))
    }
}

/// The posterior of one crossing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Posterior {
    /// ln θ, equally spaced.
    pub theta: Vec<f64>,
    /// Mass at each; sums to 1.
    pub mass: Vec<f64>,
    /// Posterior mean of the slope (of its logarithm).
    pub slope: f64,
    /// Posterior mean of the noise between runs.
    pub spread: f64,
    /// Mass at the steepest slopes.
    pub cliff: f64,
}

impl Posterior {
    /// The posterior over ln θ in `range`, twice: the second time only where the first has its mass.
    pub(super) fn new(scale: Scale, data: &[Datum], range: (f64, f64), expected: Option<Expected>) -> Self {
        let length = range.1 - range.0;
        let first = Self::on(scale, data, range, length, expected);
        let step = (range.1 - range.0) / (POINTS - 1) as f64;
        let low = (first.quantile(0.0005) - step).max(range.0);
        let high = (first.quantile(0.9995) + step).min(range.1);
        Self::on(scale, data, (low, high), length, expected)
    }

    fn on(
        scale: Scale,
        data: &[Datum],
        (low, high): (f64, f64),
        length: f64,
        expected: Option<Expected>,
    ) -> Self {
        let theta: Vec<f64> =
            (0..POINTS).map(|i| low + (high - low) * i as f64 / (POINTS - 1) as f64).collect();
        let (slopes, spreads, target) = (scale.slopes(), scale.spreads(), scale.target());
        let of_slope = expected.map_or([1.0 / SLOPES as f64; SLOPES], |e| e.slopes(&slopes));
        let of_theta: Vec<f64> =
            theta.iter().map(|t| expected.map_or(1.0, |e| e.theta(*t, length)).ln()).collect();
        let mut log = vec![0.0_f64; POINTS * SLOPES * spreads.len()];
        for (t, tau) in spreads.iter().enumerate() {
            for (s, beta) in slopes.iter().enumerate() {
                for (i, at) in theta.iter().enumerate() {
                    let cell = &mut log[(t * SLOPES + s) * POINTS + i];
                    *cell = SPREAD_WEIGHTS[t].ln() + of_slope[s].ln() + of_theta[i];
                    for datum in data {
                        *cell += likelihood(datum, *at, *beta, *tau, target);
                    }
                }
            }
        }
        let top = log.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut mass = vec![0.0; POINTS];
        let (mut total, mut slope, mut spread, mut cliff) = (0.0, 0.0, 0.0, 0.0);
        for (t, tau) in spreads.iter().enumerate() {
            for (s, beta) in slopes.iter().enumerate() {
                for (i, m) in mass.iter_mut().enumerate() {
                    let w = (log[(t * SLOPES + s) * POINTS + i] - top).exp();
                    *m += w;
                    total += w;
                    slope += w * beta.ln();
                    spread += w * tau;
                    if *beta >= CLIFF {
                        cliff += w;
                    }
                }
            }
        }
        mass.iter_mut().for_each(|m| *m /= total);
        Self { theta, mass, slope: (slope / total).exp(), spread: spread / total, cliff: cliff / total }
    }

    /// The ln θ below which this share of the mass lies, each point's mass spread over its cell.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        quantile(&self.theta, &self.mass, share)
    }

    /// P(ln θ > at).
    pub(super) fn above(&self, at: f64) -> f64 {
        let half = 0.5 * self.cell();
        let mut sum = 0.0;
        for (t, m) in self.theta.iter().zip(&self.mass) {
            let part = if half > 0.0 {
                ((t + half - at) / (2.0 * half)).clamp(0.0, 1.0)
            } else {
                f64::from(*t > at)
            };
            sum += m * part;
        }
        sum.clamp(0.0, 1.0)
    }

    fn cell(&self) -> f64 {
        self.theta.get(1).map_or(0.0, |t| t - self.theta[0])
    }
}

/// The smallest of several crossings.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Smallest {
    theta: Vec<f64>,
    mass: Vec<f64>,
    /// For each crossing the chance that it is the smallest.
    pub chance: Vec<f64>,
}

impl Smallest {
    /// The minimum of independent crossings: it lies above x when all of them do.
    pub(super) fn of(all: &[Posterior]) -> Self {
        if let [one] = all {
            return Self { theta: one.theta.clone(), mass: one.mass.clone(), chance: vec![1.0] };
        }
        let ends = |share: f64| all.iter().map(|p| p.quantile(share)).fold(f64::INFINITY, f64::min);
        // Below the smallest end and above the smallest upper end lies nothing of the minimum.
        let (low, high) = (ends(1e-6) - 1e-6, ends(1.0 - 1e-6) + 1e-6);
        const N: usize = 400;
        let edges: Vec<f64> = (0..=N).map(|i| low + (high - low) * i as f64 / N as f64).collect();
        let above: Vec<Vec<f64>> = all.iter().map(|p| edges.iter().map(|e| p.above(*e)).collect()).collect();
        let mut chance = vec![0.0; all.len()];
        let (mut theta, mut mass) = (Vec::with_capacity(N), Vec::with_capacity(N));
        for i in 0..N {
            theta.push(0.5 * (edges[i] + edges[i + 1]));
            let joint = |e: usize| above.iter().map(|a| a[e]).product::<f64>();
            mass.push((joint(i) - joint(i + 1)).max(0.0));
            for (j, c) in chance.iter_mut().enumerate() {
                let others: f64 = above
                    .iter()
                    .enumerate()
                    .filter(|(o, _)| *o != j)
                    .map(|(_, a)| 0.5 * (a[i] + a[i + 1]))
                    .product();
                *c += (above[j][i] - above[j][i + 1]).max(0.0) * others;
            }
        }
        let total: f64 = mass.iter().sum();
        mass.iter_mut().for_each(|m| *m /= total.max(1e-300));
        let total: f64 = chance.iter().sum();
        chance.iter_mut().for_each(|c| *c /= total.max(1e-300));
        Self { theta, mass, chance }
    }

    /// As [`Posterior::quantile`].
    pub(super) fn quantile(&self, share: f64) -> f64 {
        quantile(&self.theta, &self.mass, share)
    }

    /// Standard deviation of ln θ.
    pub(super) fn sd(&self) -> f64 {
        let centre: f64 = self.theta.iter().zip(&self.mass).map(|(t, m)| t * m).sum();
        self.theta.iter().zip(&self.mass).map(|(t, m)| (t - centre).powi(2) * m).sum::<f64>().max(0.0).sqrt()
    }
}

fn quantile(theta: &[f64], mass: &[f64], share: f64) -> f64 {
    let cell = theta.get(1).map_or(0.0, |t| t - theta[0]);
    let mut sum = 0.0;
    for (t, m) in theta.iter().zip(mass) {
        if sum + m >= share && *m > 0.0 {
            let part = ((share - sum) / m).clamp(0.0, 1.0);
            return (t + cell * (part - 0.5)).clamp(theta[0], theta[theta.len() - 1]);
        }
        sum += m;
    }
    theta.last().copied().unwrap_or(0.0)
}

/// ln of the likelihood of a probe, up to a constant of its own.
fn likelihood(datum: &Datum, theta: f64, beta: f64, tau: f64, target: f64) -> f64 {
    match *datum {
        Datum::Divergent { x } => expit(4.0 * beta * (x - theta)).max(FALSE_ALARM).ln(),
        Datum::Mean { x, ln, variance } => student(ln - beta * (x - theta), variance + tau * tau),
        Datum::Misses { x, k, n } => {
            let eta = target + beta * (x - theta);
            let hits = n - k;
            if k >= 2.5 && hits >= 2.5 {
                let odds = ((k + 0.5) / (hits + 0.5)).ln();
                return student(odds - eta, 1.0 / (k + 0.5) + 1.0 / (hits + 0.5) + tau * tau);
            }
            // ln p = −softplus(−η): finite for every η.
            let sum: f64 = NODES
                .iter()
                .map(|(node, weight)| {
                    let eta = eta + tau * node;
                    weight * (-k * softplus(-eta) - hits * softplus(eta)).exp()
                })
                .sum();
            sum.max(1e-300).ln()
        }
    }
}

fn softplus(x: f64) -> f64 {
    if x > 30.0 { x } else { x.exp().ln_1p() }
}

/// Student's t with 6 degrees of freedom: one probe that went astray does not rule the rest.
fn student(residual: f64, variance: f64) -> f64 {
    -3.5 * (residual * residual / (6.0 * variance)).ln_1p() - 0.5 * variance.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grid ten times as fine, with the integral over u in 400 steps.
    fn brute(data: &[Datum], q: f64, range: (f64, f64)) -> (f64, f64, f64) {
        let scale = Scale::Share { q };
        let n = 900;
        let mut mass = vec![0.0; n];
        let theta = |i: usize| range.0 + (range.1 - range.0) * i as f64 / (n - 1) as f64;
        for (t, tau) in scale.spreads().iter().enumerate() {
            for beta in scale.slopes() {
                for (i, m) in mass.iter_mut().enumerate() {
                    let mut like = SPREAD_WEIGHTS[t];
                    for datum in data {
                        let Datum::Misses { x, k, n } = *datum else { unreachable!() };
                        let eta = logit(q) + beta * (x - theta(i));
                        if k >= 2.5 {
                            let z = ((k + 0.5) / (n - k + 0.5)).ln() - eta;
                            let v = 1.0 / (k + 0.5) + 1.0 / (n - k + 0.5) + tau * tau;
                            like *= (1.0 + z * z / (6.0 * v)).powf(-3.5) / v.sqrt();
                        } else {
                            let (mut sum, mut norm) = (0.0, 0.0);
                            for j in 0..400 {
                                let u = -6.0 + 12.0 * (j as f64 + 0.5) / 400.0;
                                let w = (-0.5_f64 * u * u).exp();
                                let p = expit(eta + tau * u);
                                sum += w * p.powf(k) * (1.0 - p).powf(n - k);
                                norm += w;
                            }
                            like *= sum / norm;
                        }
                    }
                    *m += like;
                }
            }
        }
        let total: f64 = mass.iter().sum();
        let at = |share: f64| {
            let mut sum = 0.0;
            (0..n)
                .find(|i| {
                    sum += mass[*i] / total;
                    sum >= share
                })
                .map_or(range.1, theta)
        };
        (at(0.025), at(0.5), at(0.975))
    }

    #[test]
    fn the_grid_agrees_with_brute_force() {
        let q: f64 = 0.05;
        let x = |v: f64| v.ln();
        let data = [
            Datum::Misses { x: x(40.0), k: 0.0, n: 60.0 },
            Datum::Misses { x: x(42.0), k: 4.0, n: 90.0 },
            Datum::Misses { x: x(44.0), k: 12.0, n: 80.0 },
            Datum::Misses { x: x(45.0), k: 1.0, n: 15.0 },
        ];
        let range = (20.0_f64.ln(), 54.0_f64.ln());
        let p = Posterior::new(Scale::Share { q }, &data, range, None);
        let (low, middle, high) = brute(&data, q, range);
        for (got, want) in [(p.quantile(0.025), low), (p.quantile(0.5), middle), (p.quantile(0.975), high)] {
            assert!((got - want).abs() < 0.01, "{} against {}", got.exp(), want.exp());
        }
        assert!((p.mass.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn no_data_leave_the_prior() {
        let p = Posterior::new(Scale::Share { q: 0.05 }, &[], (0.0, 1.0), None);
        assert!((p.quantile(0.025) - 0.025).abs() < 0.01 && (p.quantile(0.5) - 0.5).abs() < 0.01);
        assert!((p.above(0.75) - 0.25).abs() < 0.01);
    }

    #[test]
    fn divergence_says_below_and_only_that() {
        let p = Posterior::new(Scale::Share { q: 0.05 }, &[Datum::Divergent { x: 0.5 }], (0.0, 1.0), None);
        assert!(p.above(0.55) < 0.12, "{}", p.above(0.55));
        assert!((p.quantile(0.5) - 0.25).abs() < 0.05);
    }

    /// The minimum of two independent uniforms on (0, 1) lies below x with 1 − (1 − x)².
    #[test]
    fn the_smallest_of_two() {
        let p = Posterior::new(Scale::Share { q: 0.05 }, &[], (0.0, 1.0), None);
        let both = Smallest::of(&[p.clone(), p]);
        assert!((both.quantile(0.5) - (1.0 - 0.5_f64.sqrt())).abs() < 0.01);
        assert!((both.chance[0] - 0.5).abs() < 1e-6);
    }
}
