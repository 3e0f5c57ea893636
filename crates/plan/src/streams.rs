//! Random streams: one for each concern, named and versioned, so that a change in one leaves the
//! others alone.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use spec::seed::stream_key;

/// Version of the derivation and of every draw built on it. A change of any drawn value raises it.
pub const VERSION: u32 = 1;

/// Gaps between open-loop arrivals.
pub const ARRIVALS: &str = "arrivals";
/// Input lengths.
pub const ISL: &str = "isl";
/// Output lengths.
pub const OSL: &str = "osl";

/// The stream `name` of `seed`: ChaCha with 8 rounds, keyed by [`spec::seed::stream_key`] of
/// `inferometer/VERSION/NAME`.
pub fn stream(seed: u64, name: &str) -> ChaCha8Rng {
    ChaCha8Rng::from_seed(stream_key(seed, format!("inferometer/{VERSION}/{name}").as_bytes()))
}

/// Uniform in (0, 1], in steps of 2⁻⁵³; never 0, so that its logarithm exists.
pub(crate) fn unit(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// Exponential with mean 1, by inversion.
pub(crate) fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    -libm::log(unit(rng))
}

/// Standard normal, by Marsaglia's polar method (Marsaglia and Bray 1964); the second value of a
/// pair is dropped, so that a draw depends on nothing but the stream's position.
pub(crate) fn normal(rng: &mut ChaCha8Rng) -> f64 {
    loop {
        let x = 2.0 * unit(rng) - 1.0;
        let y = 2.0 * unit(rng) - 1.0;
        let s = x * x + y * y;
        if s > 0.0 && s < 1.0 {
            return x * libm::sqrt(-2.0 * libm::log(s) / s);
        }
    }
}

/// Gamma with shape `alpha` > 0, scaled to mean 1 (variance 1/α).
///
/// Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM TOMS 26, 2000), with
/// their boost γ(α) = γ(α + 1) · U^(1/α) below 1. α = 1 is drawn as an exponential and α = ∞ is 1.
pub(crate) fn gamma_of_mean_one(rng: &mut ChaCha8Rng, alpha: f64) -> f64 {
    if alpha.is_infinite() {
        return 1.0;
    }
    #[expect(clippy::float_cmp, reason = "exactly 1 names the exponential")]
    if alpha == 1.0 {
        return exponential(rng);
    }
    let (shape, boost) = match alpha < 1.0 {
        true => (alpha + 1.0, libm::pow(unit(rng), 1.0 / alpha)),
        false => (alpha, 1.0),
    };
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (3.0 * libm::sqrt(d));
    loop {
        let x = normal(rng);
        let root = 1.0 + c * x;
        if root <= 0.0 {
            continue;
        }
        let v = root * root * root;
        // ln U < x²/2 + d − dv + d ln v, with d factored out so that a huge shape stays finite.
        if libm::log(unit(rng)) < 0.5 * x * x + d * (1.0 - v + libm::log(v)) {
            // Divided last below 1, where the boost may be 0; first above, where d may be huge.
            return if alpha < 1.0 { d * v * boost / alpha } else { d / alpha * v };
        }
    }
}

/// An integer in `0..n`, every one equally often (Lemire 2019). `n` of 0 gives 0.
pub(crate) fn below(rng: &mut ChaCha8Rng, n: u64) -> u64 {
    let reject_below = n.wrapping_neg().checked_rem(n).unwrap_or(0);
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(n);
        if product as u64 >= reject_below {
            return (product >> 64) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_name_and_by_seed() {
        let first = |seed, name| stream(seed, name).next_u64();
        assert_eq!(first(42, "isl"), first(42, "isl"));
        assert_ne!(first(42, "isl"), first(42, "osl"));
        assert_ne!(first(42, "isl"), first(43, "isl"));
        assert_ne!(first(0, "isl"), first(0, "osl"));
    }

    /// Sample mean and variance of `n` draws.
    fn moments(n: usize, mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let xs: Vec<f64> = (0..n).map(|_| draw()).collect();
        assert!(xs.iter().all(|x| x.is_finite()));
        let mean = xs.iter().sum::<f64>() / n as f64;
        (mean, xs.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1) as f64)
    }

    #[test]
    fn gamma_has_mean_one_and_variance_one_over_alpha() {
        for alpha in [0.1, 0.25, 0.5, 0.99, 1.0, 1.01, 2.0, 4.0, 100.0] {
            let mut rng = stream(7, "gamma");
            let n = 100_000;
            let (mean, variance) = moments(n, || gamma_of_mean_one(&mut rng, alpha));
            // Standard errors of the mean and of the variance (excess kurtosis of a gamma: 6/α).
            let se_mean = (1.0 / alpha / n as f64).sqrt();
            let se_variance = ((2.0 + 6.0 / alpha) / n as f64).sqrt() / alpha;
            assert!((mean - 1.0).abs() < 4.0 * se_mean, "α {alpha}: mean {mean}");
            assert!((variance - 1.0 / alpha).abs() < 4.0 * se_variance, "α {alpha}: variance {variance}");
        }
    }

    #[test]
    fn extreme_shapes_stay_finite() {
        let mut rng = stream(1, "extreme");
        for alpha in [f64::MIN_POSITIVE, 1e-300, 1e-9, 1e9, 1e300, f64::MAX, f64::INFINITY] {
            for _ in 0..100 {
                let gap = gamma_of_mean_one(&mut rng, alpha);
                assert!(gap.is_finite() && gap >= 0.0, "α {alpha}: {gap}");
            }
        }
    }

    #[test]
    fn integers_below_cover_their_range_evenly() {
        let mut rng = stream(3, "below");
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[below(&mut rng, 6) as usize] += 1;
        }
        // Chi-square with 5 degrees of freedom: 20.5 is its 99.9 % point.
        let chi: f64 = counts.iter().map(|c| (f64::from(*c) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 20.5, "{counts:?}");
        assert_eq!(below(&mut rng, 1), 0);
        assert_eq!(below(&mut rng, 0), 0);
    }
}
