//! Where the next probe of a survey is worth most: expected improvement of the throughput times the
//! chance that the limits hold (Schonlau, Welch and Jones 1998; Gardner et al. 2014).

use measure::special::normal_cdf;

use super::gp::Gp;
use super::space::{Space, spread};

/// A point may be the best so far when the limits hold there with this chance.
pub(super) const SURE: f64 = 0.95;
/// Points of the cube that are looked at.
const CANDIDATES: u32 = 1200;
/// And around one of them, within this width.
const AROUND: u32 = 200;
const WIDE: f64 = 0.2;
/// Loads that are looked at along a setting.
const LOADS: u32 = 100;

/// The two surfaces: logarithm of the throughput, and log-odds of a miss beyond the target.
pub(super) struct Surfaces {
    pub throughput: Gp,
    /// `None`: no limits, they hold everywhere.
    pub excess: Option<Gp>,
}

impl Surfaces {
    /// Chance that the limits hold.
    pub(super) fn holds(&self, x: &[f64]) -> f64 {
        self.excess.as_ref().map_or(1.0, |gp| {
            let (mean, sd) = gp.at(x);
            normal_cdf(-mean / sd.max(1e-9))
        })
    }

    /// The best point that holds with this chance, by posterior mean: its place in the cube and
    /// ln(throughput).
    pub(super) fn best<'x>(
        &self,
        points: impl Iterator<Item = &'x Vec<f64>>,
        chance: f64,
    ) -> Option<(&'x Vec<f64>, f64)> {
        points
            .filter(|x| self.holds(x) >= chance)
            .map(|x| (x, self.throughput.at(x).0))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Improvement of ln(throughput) over `incumbent` that is to be expected at a point, times the chance
    /// that the limits hold. Without an incumbent what counts is that they hold.
    pub(super) fn worth(&self, x: &[f64], incumbent: Option<f64>) -> f64 {
        let holds = self.holds(x);
        let Some(incumbent) = incumbent else { return holds };
        let (mean, sd) = self.throughput.at(x);
        expected_improvement(mean, sd, incumbent) * holds
    }
}

/// E max(0, Y − best) of Y ~ N(mean, sd²).
pub(super) fn expected_improvement(mean: f64, sd: f64, best: f64) -> f64 {
    if sd < 1e-12 {
        return (mean - best).max(0.0);
    }
    let u = (mean - best) / sd;
    let density = (-0.5 * u * u).exp() / (2.0 * std::f64::consts::PI).sqrt();
    (mean - best) * normal_cdf(u) + sd * density
}

/// Points of the cube as they can be set, spread evenly over it.
pub(super) fn everywhere(space: &Space<'_>, seed: u64) -> Vec<Vec<f64>> {
    (0..CANDIDATES).map(|k| settable(space, &spread(k, space.dimensions(), seed))).collect()
}

/// The same around one of them.
pub(super) fn around(space: &Space<'_>, seed: u64, centre: &[f64]) -> Vec<Vec<f64>> {
    let near = |k: u32| -> Vec<f64> {
        let shift = spread(k, centre.len(), seed);
        let moved = centre.iter().zip(shift).map(|(c, s)| (c + WIDE * (s - 0.5)).clamp(0.0, 1.0));
        settable(space, &moved.collect::<Vec<_>>())
    };
    (0..AROUND).map(near).collect()
}

/// A place of the knobs at each of many loads.
pub(super) fn along(space: &Space<'_>, x: &[f64]) -> Vec<Vec<f64>> {
    let at = |k: u32| {
        let mut x = x.to_vec();
        x[0] = f64::from(k) / f64::from(LOADS);
        settable(space, &x)
    };
    (0..=LOADS).map(at).collect()
}

fn settable(space: &Space<'_>, x: &[f64]) -> Vec<f64> {
    let (setting, load) = space.decode(x);
    space.encode(&setting, load)
}

/// The point that is worth most, among some everywhere and then around the best of these.
pub(super) fn next(
    space: &Space<'_>,
    surfaces: &Surfaces,
    seed: u64,
    best: Option<&(Vec<f64>, f64)>,
) -> Option<(Vec<f64>, f64)> {
    let incumbent = best.map(|(_, value)| *value);
    let most = |points: Vec<Vec<f64>>| {
        let rated = points.into_iter().map(|x| {
            let worth = surfaces.worth(&x, incumbent);
            (x, worth)
        });
        rated.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let mut points = everywhere(space, seed);
    points.extend(best.iter().flat_map(|(x, _)| around(space, seed, x)));
    let first = most(points)?;
    let closer = most(around(space, seed ^ 1, &first.0))?;
    Some(if closer.1 > first.1 { closer } else { first })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a standard normal over 0 the improvement is 1/√(2π); over 1 it is φ(1) − (1 − Φ(1)) = 0.0833155.
    #[test]
    fn expected_improvement_by_value() {
        assert!((expected_improvement(0.0, 1.0, 0.0) - 0.398_942_28).abs() < 1e-8);
        assert!((expected_improvement(0.0, 1.0, 1.0) - 0.083_315_47).abs() < 1e-8);
        assert!((expected_improvement(2.0, 0.0, 1.5) - 0.5).abs() < 1e-12);
        assert!(expected_improvement(1.0, 0.0, 1.5).abs() < 1e-12);
    }
}
