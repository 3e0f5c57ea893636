//! Distribution functions that the intervals need, for real-valued parameters.

use libm::erfc;
use statrs::function::erf::erfc_inv;
use statrs::function::gamma::ln_gamma;

/// Regularised incomplete beta function I_x(a, b) for a, b > 0, by the continued fraction of DLMF
/// 8.17.22 evaluated with the modified Lentz method. Arguments outside [0, 1] are clamped.
pub fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges quickly only below the mean; the symmetry covers the rest.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta_below(b, a, 1.0 - x);
    }
    incomplete_beta_below(a, b, x)
}

fn incomplete_beta_below(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    // About the square root of the larger parameter is needed; this serves beyond 1e9 samples.
    const MAX_STEPS: u32 = 100_000;
    let ln_front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    let guard = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..MAX_STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
        let change = d * c;
        fraction *= change;
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (ln_front.exp() * fraction / a).clamp(0.0, 1.0)
}

/// The x at which I_x(a, b) = q, by bisection to the last bits of an f64.
pub fn beta_quantile(q: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high || high - low < 1e-15 {
            break;
        }
        if incomplete_beta(a, b, middle) < q {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// The two-sided 95 % quantile of Student's t with `df` > 0 degrees of freedom, not only whole ones.
pub fn t_95(df: f64) -> f64 {
    t_beyond(0.05, df)
}

/// The t > 0 with P(|T| > t) = `outside` in (0, 1), for Student's T with `df` > 0 degrees of freedom.
pub fn t_beyond(outside: f64, df: f64) -> f64 {
    // P(|T| > t) = I_x(df/2, 1/2) with x = df/(df + t²).
    let x = beta_quantile(outside, 0.5 * df, 0.5);
    (df * (1.0 - x) / x).sqrt()
}

/// P(T ≤ t) for Student's T with `df` > 0 degrees of freedom.
pub fn t_cdf(t: f64, df: f64) -> f64 {
    let outside = incomplete_beta(0.5 * df, 0.5, df / (df + t * t));
    if t > 0.0 { 1.0 - 0.5 * outside } else { 0.5 * outside }
}

/// The x with P(Z ≤ x) = `p` in (0, 1), for Z standard normal.
pub fn normal_quantile(p: f64) -> f64 {
    -std::f64::consts::SQRT_2 * erfc_inv(2.0 * p)
}

/// P(Z ≤ x) for Z standard normal.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * erfc(-x / std::f64::consts::SQRT_2)
}

/// P(B ≤ k) for B binomial with n trials and success probability p.
pub fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    incomplete_beta((n - k) as f64, k as f64 + 1.0, 1.0 - p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_at_known_points() {
        for (x, p) in [(0.0, 0.5), (1.959_963_985, 0.975), (-1.0, 0.158_655_254)] {
            assert!((normal_cdf(x) - p).abs() < 1e-9, "{x}: {}", normal_cdf(x));
            assert!((normal_quantile(p) - x).abs() < 1e-8, "{p}: {}", normal_quantile(p));
        }
    }

    /// Tables of Student's t: 5 % on one side at 10 degrees of freedom is 1.812, at 1 it is 6.314.
    #[test]
    fn student_at_known_points() {
        for (df, t) in [(10.0, 1.812_461), (1.0, 6.313_752)] {
            assert!((t_beyond(0.1, df) - t).abs() < 1e-5, "{df}: {}", t_beyond(0.1, df));
            assert!((t_cdf(-t, df) - 0.05).abs() < 1e-7 && (t_cdf(t, df) - 0.95).abs() < 1e-7, "{df}");
        }
    }
}
