//! Lengths in tokens, drawn for each request from a stream of its own.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use spec::Lengths;

use crate::PlanError;
use crate::streams::{below, normal, stream};

/// Draws lengths in tokens; `None` where the data set decides.
#[derive(Debug, Clone)]
pub struct LengthDraws {
    rng: ChaCha8Rng,
    rule: Rule,
}

#[derive(Debug, Clone)]
enum Rule {
    Fixed(u32),
    Uniform {
        min: u32,
        count: u64,
    },
    Normal {
        mean: f64,
        sd: f64,
        max: f64,
    },
    /// Of the logarithm.
    LogNormal {
        mu: f64,
        sigma: f64,
        max: f64,
    },
    List(Arc<[u32]>),
    Data,
}

impl LengthDraws {
    /// The draws of `lengths` from the stream `name` of `seed`; `list` holds the numbers of a
    /// [`Lengths::File`].
    pub fn new(
        lengths: &Lengths,
        list: Option<&Arc<[u32]>>,
        seed: u64,
        name: &'static str,
    ) -> Result<Self, PlanError> {
        let cap = |max: &Option<u32>| f64::from(max.unwrap_or(u32::MAX).max(1));
        let moments = |mean: f64, sd: f64| match mean.is_finite() && sd.is_finite() && sd >= 0.0 {
            true => Ok(()),
            false => Err(PlanError::Lengths { which: name, why: "mean and deviation must be finite" }),
        };
        let rule = match lengths {
            Lengths::Fixed(n) => Rule::Fixed((*n).max(1)),
            Lengths::Uniform { min, max } if min <= max => {
                Rule::Uniform { min: *min, count: u64::from(max - min) + 1 }
            }
            Lengths::Uniform { .. } => {
                return Err(PlanError::Lengths { which: name, why: "the smallest exceeds the largest" });
            }
            Lengths::Normal { mean, sd, max } => {
                moments(*mean, *sd)?;
                Rule::Normal { mean: *mean, sd: *sd, max: cap(max) }
            }
            Lengths::LogNormal { mean, sd, max } => {
                moments(*mean, *sd)?;
                if *mean <= 0.0 {
                    return Err(PlanError::Lengths { which: name, why: "a log-normal mean is positive" });
                }
                // Moments of the log-normal, solved for those of the logarithm.
                let cv = sd / mean;
                let variance = libm::log1p(cv * cv);
                Rule::LogNormal {
                    mu: libm::log(*mean) - 0.5 * variance,
                    sigma: libm::sqrt(variance),
                    max: cap(max),
                }
            }
            Lengths::File(_) => match list {
                Some(list) if !list.is_empty() => Rule::List(Arc::clone(list)),
                Some(_) => return Err(PlanError::Lengths { which: name, why: "the list is empty" }),
                None => return Err(PlanError::Lengths { which: name, why: "its file was not read" }),
            },
            Lengths::Data => Rule::Data,
        };
        Ok(Self { rng: stream(seed, name), rule })
    }

    /// The length of the next request, at least 1.
    pub fn draw(&mut self) -> Option<u32> {
        let rng = &mut self.rng;
        Some(match &self.rule {
            Rule::Fixed(n) => *n,
            Rule::Uniform { min, count } => (min + below(rng, *count) as u32).max(1),
            Rule::Normal { mean, sd, max } => clamp(mean + sd * normal(rng), *max),
            Rule::LogNormal { mu, sigma, max } => clamp(libm::exp(mu + sigma * normal(rng)), *max),
            Rule::List(list) => list[below(rng, list.len() as u64) as usize].max(1),
            Rule::Data => return None,
        })
    }
}

/// Rounded, in `[1, max]`.
fn clamp(x: f64, max: f64) -> u32 {
    libm::round(x).clamp(1.0, max) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(lengths: &Lengths, n: usize) -> Vec<u32> {
        let mut d = LengthDraws::new(lengths, None, 42, "isl").unwrap();
        (0..n).filter_map(|_| d.draw()).collect()
    }
    fn moments(xs: &[u32]) -> (f64, f64) {
        let mean = xs.iter().map(|x| f64::from(*x)).sum::<f64>() / xs.len() as f64;
        (mean, (xs.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / xs.len() as f64).sqrt())
    }

    #[test]
    fn each_rule_has_its_moments_and_its_bounds() {
        assert_eq!(draws(&Lengths::Fixed(512), 3), [512; 3]);
        assert!(draws(&Lengths::Data, 3).is_empty());

        let uniform = draws(&Lengths::Uniform { min: 100, max: 103 }, 4_000);
        for value in 100..=103 {
            let count = uniform.iter().filter(|x| **x == value).count();
            assert!((900..1_100).contains(&count), "{value}: {count}");
        }

        let (mean, sd) = moments(&draws(&Lengths::Normal { mean: 512.0, sd: 64.0, max: None }, 20_000));
        assert!((mean - 512.0).abs() < 2.0 && (sd - 64.0).abs() < 1.5, "{mean} {sd}");

        let (mean, sd) = moments(&draws(&Lengths::LogNormal { mean: 512.0, sd: 300.0, max: None }, 40_000));
        assert!((mean - 512.0).abs() < 6.0 && (sd - 300.0).abs() < 12.0, "{mean} {sd}");

        let clamped = draws(&Lengths::Normal { mean: 1.0, sd: 500.0, max: Some(64) }, 2_000);
        assert_eq!((clamped.iter().min(), clamped.iter().max()), (Some(&1), Some(&64)));
        let clamped = draws(&Lengths::LogNormal { mean: 512.0, sd: 3000.0, max: Some(2048) }, 2_000);
        assert!(clamped.iter().all(|x| (1..=2048).contains(x)));
        assert_eq!(draws(&Lengths::Normal { mean: 7.0, sd: 0.0, max: None }, 2), [7, 7]);
    }

    #[test]
    fn a_list_is_drawn_with_replacement() {
        let list: Arc<[u32]> = Arc::from([3, 5]);
        let mut d = LengthDraws::new(&Lengths::File("x".into()), Some(&list), 42, "isl").unwrap();
        let drawn: Vec<_> = (0..1_000).filter_map(|_| d.draw()).collect();
        let threes = drawn.iter().filter(|x| **x == 3).count();
        assert!(drawn.iter().all(|x| [3, 5].contains(x)) && (430..570).contains(&threes));
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        for lengths in [
            Lengths::File("x".into()),
            Lengths::Uniform { min: 2, max: 1 },
            Lengths::Normal { mean: f64::NAN, sd: 1.0, max: None },
            Lengths::LogNormal { mean: 0.0, sd: 1.0, max: None },
        ] {
            assert!(LengthDraws::new(&lengths, None, 1, "isl").is_err(), "{lengths:?}");
        }
    }

    /// The same on every machine; values from a second implementation, written in Python.
    #[test]
    fn lengths_are_golden() {
        assert_eq!(draws(&Lengths::Uniform { min: 1, max: 1000 }, 5), [332, 189, 582, 261, 177]);
        assert_eq!(
            draws(&Lengths::Normal { mean: 512.0, sd: 64.0, max: None }, 5),
            [476, 546, 416, 523, 561]
        );
        assert_eq!(
            draws(&Lengths::LogNormal { mean: 512.0, sd: 300.0, max: None }, 5),
            [326, 590, 196, 483, 668]
        );
    }
}
