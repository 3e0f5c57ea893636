//! Weighted least squares of one line and of two joined ones through points (ln load, ln throughput).

use measure::special::t_95;

use super::knee::{Rung, f_95};

/// No rate is known better than this, whatever its batches say; it also keeps one quiet point from
/// outweighing all others.
const ERROR_FLOOR: f64 = 0.01;
/// Residuals below this are none: keeps logarithms finite where points lie exactly on the curve.
const RESIDUAL_FLOOR: f64 = 1e-3;
/// Positions of the break that are tried in each of two passes.
const GRID: usize = 400;

/// A point in logarithms with its weight; the weights have the mean 1.
struct Point {
    x: f64,
    y: f64,
    weight: f64,
}

fn points(rungs: &[Rung]) -> Vec<Point> {
    let weight = |rung: &Rung| 1.0 / (rung.relative_error.powi(2) + ERROR_FLOOR * ERROR_FLOOR);
    let mean = rungs.iter().map(weight).sum::<f64>() / rungs.len() as f64;
    rungs
        .iter()
        .map(|rung| Point { x: rung.load.ln(), y: rung.throughput.ln(), weight: weight(rung) / mean })
        .collect()
}

/// The Bayesian information criterion (Schwarz 1978) of a fit with so many free numbers.
fn criterion(residual: f64, n: usize, free: usize) -> f64 {
    let n = n as f64;
    n * (residual / n).max(RESIDUAL_FLOOR * RESIDUAL_FLOOR).ln() + free as f64 * n.ln()
}

/// One straight line.
pub(super) struct Line {
    /// Slope.
    pub slope: f64,
    residual: f64,
    n: usize,
}

impl Line {
    /// Through at least two points.
    pub(super) fn through(rungs: &[Rung]) -> Self {
        let points = points(rungs);
        let sum = |f: &dyn Fn(&Point) -> f64| points.iter().map(|p| p.weight * f(p)).sum::<f64>();
        let (w, x, y) = (sum(&|_| 1.0), sum(&|p| p.x), sum(&|p| p.y));
        let (mx, my) = (x / w, y / w);
        let sxx = sum(&|p| (p.x - mx) * (p.x - mx));
        let slope = if sxx > 0.0 { sum(&|p| (p.x - mx) * (p.y - my)) / sxx } else { 0.0 };
        let residual = sum(&|p| (p.y - my - slope * (p.x - mx)).powi(2));
        Self { slope, residual, n: points.len() }
    }

    pub(super) fn criterion(&self) -> f64 {
        criterion(self.residual, self.n, 2)
    }
}

/// Two lines that meet.
pub(super) struct TwoPieces {
    /// Logarithm of the load where they meet, and its 95 % profile interval.
    pub position: f64,
    pub low: f64,
    pub high: f64,
    /// Logarithm of the throughput there.
    pub at_break: f64,
    /// Slopes before and behind, and the half width of the latter's 95 % interval.
    pub head: f64,
    pub tail: f64,
    pub tail_half: f64,
    /// Whether the best break has but one load beyond it on a side, so that it may lie further out.
    pub at_edge: bool,
    residual: f64,
    n: usize,
}

impl TwoPieces {
    pub(super) fn criterion(&self) -> f64 {
        criterion(self.residual, self.n, 4)
    }
}

/// The best break that leaves two points on each side, by a grid and a finer one around its best.
/// At least five points, ascending in load.
pub(super) fn two_pieces(rungs: &[Rung]) -> TwoPieces {
    let points = points(rungs);
    let n = points.len();
    let (from, to) = (points[1].x, points[n - 2].x);
    let step = (to - from) / GRID as f64;
    let coarse: Vec<f64> = (0..=GRID).map(|k| from + step * k as f64).collect();
    let solved = |positions: &[f64]| -> Vec<(f64, Joined)> {
        positions.iter().map(|&position| (position, Joined::at(&points, position))).collect()
    };
    let best_of =
        |list: &[(f64, Joined)]| list.iter().min_by(|a, b| a.1.residual.total_cmp(&b.1.residual)).copied();
    let mut tried = solved(&coarse);
    if let Some((around, _)) = best_of(&tried) {
        let finer: Vec<f64> = (0..=GRID)
            .map(|k| around + step * (2.0 * k as f64 / GRID as f64 - 1.0))
            .filter(|x| (from..=to).contains(x))
            .collect();
        tried.extend(solved(&finer));
    }
    // There is always one: the coarse grid is not empty.
    let (position, best) = best_of(&tried).unwrap_or((from, Joined::at(&points, from)));
    let freedom = (n - 4) as f64;
    let spread = (best.residual / freedom).max(RESIDUAL_FLOOR * RESIDUAL_FLOOR);
    let allowed = best.residual + f_95(freedom) * spread;
    let within = tried.iter().filter(|(_, joined)| joined.residual <= allowed).map(|(x, _)| *x);
    let (low, high) = within.fold((position, position), |(low, high), x| (low.min(x), high.max(x)));
    // The ends lie between two positions that were tried: the outer ones are taken. With a single
    // load on one side the break may lie anywhere before it.
    let (low, high) = (low - step, high + step);
    let low = if low <= from { points[0].x } else { low };
    let high = if high >= to { points[n - 1].x } else { high };
    TwoPieces {
        position,
        low,
        high,
        at_break: best.at_break,
        head: best.head,
        tail: best.tail,
        tail_half: t_95(freedom) * (best.tail_variance * spread).sqrt(),
        at_edge: position <= from || position >= to,
        residual: best.residual,
        n,
    }
}

/// The best two lines that meet at a given place.
#[derive(Clone, Copy)]
struct Joined {
    at_break: f64,
    head: f64,
    tail: f64,
    /// Variance of the tail's slope in units of the residual variance.
    tail_variance: f64,
    residual: f64,
}

impl Joined {
    /// y = a + h·min(x − b, 0) + t·max(x − b, 0).
    fn at(points: &[Point], place: f64) -> Self {
        let row = |p: &Point| [1.0, (p.x - place).min(0.0), (p.x - place).max(0.0)];
        let mut normal = [[0.0; 3]; 3];
        let mut right = [0.0; 3];
        for p in points {
            let row = row(p);
            for i in 0..3 {
                right[i] += p.weight * row[i] * p.y;
                for j in 0..3 {
                    normal[i][j] += p.weight * row[i] * row[j];
                }
            }
        }
        let inverse = inverse(&normal);
        let solution: [f64; 3] =
            std::array::from_fn(|i| (0..3).map(|j| inverse[i][j] * right[j]).sum::<f64>());
        let residual = points
            .iter()
            .map(|p| {
                let fitted: f64 = row(p).iter().zip(&solution).map(|(x, b)| x * b).sum();
                p.weight * (p.y - fitted).powi(2)
            })
            .sum();
        let [at_break, head, tail] = solution;
        Self { at_break, head, tail, tail_variance: inverse[2][2].max(0.0), residual }
    }
}

/// Of a symmetric matrix of three rows by its cofactors; loads differ, so it has one.
fn inverse(m: &[[f64; 3]; 3]) -> [[f64; 3]; 3] {
    let minor = |i: usize, j: usize| {
        let [a, b] = [(i + 1) % 3, (i + 2) % 3];
        let [c, d] = [(j + 1) % 3, (j + 2) % 3];
        m[a][c] * m[b][d] - m[a][d] * m[b][c]
    };
    let determinant: f64 = (0..3).map(|j| m[0][j] * minor(0, j)).sum();
    std::array::from_fn(|i| std::array::from_fn(|j| minor(j, i) / determinant))
}
