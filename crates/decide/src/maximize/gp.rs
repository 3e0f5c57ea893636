//! A Gaussian process with known noise of each observation (Rasmussen and Williams 2006, chapters 2 and
//! 5): Matérn 5/2 with a length scale for each coordinate around a plane in the first of them, and noise
//! between runs beside that of each observation. Its parameters are those of the largest posterior
//! density; those of the plane are integrated out (section 2.7 there).

use nalgebra::{Cholesky, Const, DMatrix, DVector, Dyn, Matrix2, Vector2};

/// Covariances of observations are never closer to singular than this share of the variance.
const JITTER: f64 = 1e-8;
/// Precision of the prior of the plane: it may be as steep as ten times the spread of the values.
const PLANE: f64 = 0.01;
/// Starting points of the search for the parameters.
const STARTS: u32 = 40;
/// Steps of that search, each half of the one before where none leads up.
const STEPS: u32 = 60;

/// Prior of the logarithm of a parameter: mean and standard deviation. Coordinates lie in [0, 1], values
/// have unit variance.
const SCALE: (f64, f64) = (-0.7, 0.8);
const VARIANCE: (f64, f64) = (0.3, 1.0);
const RUN_NOISE: (f64, f64) = (-3.0, 1.0);

/// A value somewhere, with the variance of its noise.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Observation {
    /// Coordinates in [0, 1].
    pub x: Vec<f64>,
    pub y: f64,
    pub noise: f64,
}

/// Correlation of two points, 1 where they meet: Matérn with ν = 5/2.
pub(super) fn matern(a: &[f64], b: &[f64], scales: &[f64]) -> f64 {
    let square: f64 = a.iter().zip(b).zip(scales).map(|((a, b), s)| ((a - b) / s).powi(2)).sum();
    let r = (5.0 * square).sqrt();
    (1.0 + r + r * r / 3.0) * (-r).exp()
}

/// Logarithms: a scale for each coordinate, then the standard deviations of the process and of runs.
type Parameters = Vec<f64>;

/// The fitted process.
pub(super) struct Gp {
    at: Vec<Vec<f64>>,
    scales: Vec<f64>,
    variance: f64,
    solved: Solved,
    centre: f64,
    unit: f64,
}

/// What the plane is made of at a point: a constant, and the first coordinate.
fn basis(x: &[f64]) -> Vector2<f64> {
    Vector2::new(1.0, x.first().copied().unwrap_or(0.0))
}

impl Gp {
    /// Fits; `None` of fewer than three observations or where the values are not finite.
    pub(super) fn fit(data: &[Observation]) -> Option<Self> {
        let dimensions = data.first()?.x.len();
        if data.len() < 3 || !data.iter().all(|o| o.y.is_finite() && o.noise.is_finite()) {
            return None;
        }
        let n = data.len() as f64;
        let centre = data.iter().map(|o| o.y).sum::<f64>() / n;
        let unit = (data.iter().map(|o| (o.y - centre).powi(2)).sum::<f64>() / n).sqrt().max(1e-9);
        let scaled: Vec<Observation> = data
            .iter()
            .map(|o| Observation { x: o.x.clone(), y: (o.y - centre) / unit, noise: o.noise / (unit * unit) })
            .collect();
        let density = |p: &Parameters| Solved::new(&scaled, p).map_or(f64::NEG_INFINITY, |s| s.density(p));
        let best = climb(dimensions + 2, &density);
        Some(Self {
            at: data.iter().map(|o| o.x.clone()).collect(),
            scales: best[..dimensions].iter().map(|s| s.exp()).collect(),
            variance: (2.0 * best[dimensions]).exp(),
            solved: Solved::new(&scaled, &best)?,
            centre,
            unit,
        })
    }

    /// Mean and standard deviation of the surface itself, without noise.
    pub(super) fn at(&self, x: &[f64]) -> (f64, f64) {
        let solved = &self.solved;
        let beside = DVector::from_iterator(
            self.at.len(),
            self.at.iter().map(|other| self.variance * matern(x, other, &self.scales)),
        );
        let mean = basis(x).dot(&solved.plane) + beside.dot(&solved.weights);
        let explained = beside.dot(&solved.factor.solve(&beside));
        let left = basis(x) - solved.basis.tr_mul(&solved.factor.solve(&beside));
        let of_plane = left.dot(&solved.plane_factor.solve(&left));
        let variance = (self.variance - explained + of_plane).max(0.0);
        (self.centre + self.unit * mean, self.unit * variance.sqrt())
    }
}

/// The observations under given parameters.
struct Solved {
    factor: Cholesky<f64, Dyn>,
    basis: nalgebra::OMatrix<f64, Dyn, Const<2>>,
    plane: Vector2<f64>,
    plane_factor: Cholesky<f64, Const<2>>,
    /// K⁻¹ (y − plane).
    weights: DVector<f64>,
    /// (y − plane)ᵀ K⁻¹ (y − plane).
    misfit: f64,
}

impl Solved {
    fn new(data: &[Observation], parameters: &Parameters) -> Option<Self> {
        let n = data.len();
        let (scales, rest) = parameters.split_at(parameters.len() - 2);
        let scales: Vec<f64> = scales.iter().map(|s| s.exp()).collect();
        let (variance, run_noise) = ((2.0 * rest[0]).exp(), (2.0 * rest[1]).exp());
        let covariance = DMatrix::from_fn(n, n, |i, j| {
            let own = if i == j { data[i].noise + run_noise + JITTER * variance } else { 0.0 };
            variance * matern(&data[i].x, &data[j].x, &scales) + own
        });
        let factor = Cholesky::new(covariance)?;
        let y = DVector::from_iterator(n, data.iter().map(|o| o.y));
        let basis = nalgebra::OMatrix::<f64, Dyn, Const<2>>::from_fn(n, |i, j| basis(&data[i].x)[j]);
        let of_basis = factor.solve(&basis);
        let plane_factor = Cholesky::new(basis.tr_mul(&of_basis) + Matrix2::identity() * PLANE)?;
        let plane = plane_factor.solve(&of_basis.tr_mul(&y));
        let residual = &y - &basis * plane;
        let weights = factor.solve(&residual);
        Some(Self { misfit: residual.dot(&weights), factor, basis, plane, plane_factor, weights })
    }

    /// Logarithm of the posterior density of the parameters, up to a constant.
    fn density(&self, parameters: &Parameters) -> f64 {
        let half = |diagonal: &mut dyn Iterator<Item = f64>| diagonal.map(f64::ln).sum::<f64>();
        let half_determinant = half(&mut self.factor.l_dirty().diagonal().iter().copied())
            + half(&mut self.plane_factor.l_dirty().diagonal().iter().copied());
        let priors = priors(parameters.len());
        let prior: f64 = parameters.iter().zip(priors).map(|(p, (mean, sd))| ((p - mean) / sd).powi(2)).sum();
        let of_plane = PLANE * self.plane.norm_squared();
        -0.5 * (self.misfit + of_plane + prior) - half_determinant
    }
}

fn priors(count: usize) -> impl Iterator<Item = (f64, f64)> {
    std::iter::repeat_n(SCALE, count.saturating_sub(2)).chain([VARIANCE, RUN_NOISE])
}

/// The best of points spread over the prior, and from there up by a compass search.
fn climb(count: usize, density: &dyn Fn(&Parameters) -> f64) -> Parameters {
    let spread = |k: u32| -> Parameters {
        let place = super::space::halton(k + 1, count);
        priors(count).zip(place).map(|((mean, sd), u)| mean + 2.0 * sd * (2.0 * u - 1.0)).collect()
    };
    let middle: Parameters = priors(count).map(|(mean, _)| mean).collect();
    let mut best = (density(&middle), middle);
    for k in 0..STARTS {
        let at = spread(k);
        let here = density(&at);
        if here > best.0 {
            best = (here, at);
        }
    }
    let mut step = 0.5;
    for _ in 0..STEPS {
        let before = best.0;
        for i in 0..count {
            for sign in [-1.0, 1.0] {
                let mut at = best.1.clone();
                at[i] += sign * step;
                let here = density(&at);
                if here > best.0 {
                    best = (here, at);
                }
            }
        }
        if best.0 - before < 1e-6 {
            step *= 0.5;
            if step < 0.01 {
                break;
            }
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(list: &[(f64, f64)], noise: f64) -> Vec<Observation> {
        list.iter().map(|(x, y)| Observation { x: vec![*x], y: *y, noise }).collect()
    }

    /// (1 + √5 + 5/3) e^−√5 = 0.5239941.
    #[test]
    fn correlation_at_a_distance_of_one_length_scale() {
        assert!((matern(&[0.0, 0.3], &[2.0, 0.3], &[2.0, 1.0]) - 0.523_994_1).abs() < 1e-7);
        assert!((matern(&[0.4], &[0.4], &[0.1]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_smooth_curve_is_found_again_between_its_points() {
        let f = |x: f64| (3.0 * x).sin();
        let at: Vec<(f64, f64)> = (0..9).map(|i| (f64::from(i) / 8.0, f(f64::from(i) / 8.0))).collect();
        let gp = Gp::fit(&observed(&at, 1e-6)).unwrap();
        for x in [0.06, 0.31, 0.55, 0.93] {
            let (mean, sd) = gp.at(&[x]);
            assert!((mean - f(x)).abs() < 0.03 && sd < 0.1, "{x}: {mean} ± {sd}, not {}", f(x));
        }
        // Far away it knows less.
        assert!(gp.at(&[3.0]).1 > 3.0 * gp.at(&[0.5]).1);
    }

    /// Two values at one place, 0 with a variance of 0.01 and 1 with 0.04: weighted by precision
    /// (0 · 100 + 1 · 25) / 125 = 0.2.
    #[test]
    fn each_observation_counts_by_its_own_noise() {
        let one = |y: f64, noise: f64| Observation { x: vec![0.5], y, noise };
        let of = |data: &[Observation]| {
            let solved = Solved::new(data, &vec![0.0, 0.0, -20.0]).unwrap();
            let at = data.iter().map(|o| o.x.clone()).collect();
            let gp = Gp { at, scales: vec![1.0], variance: 1.0, solved, centre: 0.0, unit: 1.0 };
            gp.at(&[0.5])
        };
        let (mean, sd) = of(&[one(0.0, 0.01), one(1.0, 0.04)]);
        assert!((mean - 0.2).abs() < 1e-3 && (sd - (1.0_f64 / 125.0).sqrt()).abs() < 1e-3, "{mean} ± {sd}");
        assert!((of(&[one(0.0, 0.04), one(1.0, 0.01)]).0 - 0.8).abs() < 1e-3);
    }

    #[test]
    fn what_carries_no_surface_is_none() {
        assert!(Gp::fit(&[]).is_none());
        assert!(Gp::fit(&observed(&[(0.1, 1.0), (0.2, 2.0)], 0.1)).is_none());
        assert!(Gp::fit(&observed(&[(0.1, 1.0), (0.2, f64::NAN), (0.3, 1.0)], 0.1)).is_none());
        // All alike.
        let flat = Gp::fit(&observed(&[(0.1, 2.0), (0.2, 2.0), (0.3, 2.0)], 0.01)).unwrap();
        assert!((flat.at(&[0.15]).0 - 2.0).abs() < 1e-6);
    }
}
