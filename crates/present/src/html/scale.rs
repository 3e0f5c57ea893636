//! Axes: from data to the 1000 × 1000 box that the page stretches.

/// Width and height of the drawing box.
pub(super) const BOX: f64 = 1000.0;

/// A linear or logarithmic axis over `[low, high]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    log: bool,
    clock: bool,
}

/// Steps of a time axis, in seconds.
const CLOCK_STEPS: [f64; 15] =
    [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0];

impl Scale {
    /// Linear over the range; a range without width is widened.
    pub(super) fn linear(low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, log: false, clock: false }
    }

    /// Seconds from zero, with ticks at round times of day.
    pub(super) fn seconds(end: f64) -> Self {
        Self { clock: true, ..Self::linear(0.0, end) }
    }

    /// As [`Scale::of_latencies`], but a linear range far from zero starts near its smallest value:
    /// for curves, whose shape counts.
    pub(super) fn of_spread(values: impl Iterator<Item = f64> + Clone) -> Self {
        let scale = Self::of_latencies(values.clone());
        let low = values.clone().filter(|v| v.is_finite()).fold(f64::INFINITY, f64::min);
        let high = values.filter(|v| v.is_finite()).fold(f64::NEG_INFINITY, f64::max);
        if scale.log || low < 0.3 * high || high <= 0.0 {
            return scale;
        }
        let margin = (0.08 * (high - low)).max(0.02 * high);
        Self::linear((low - margin).max(0.0), high + margin)
    }

    /// Loads, each with room beside it: logarithmic when they span more than 20 ×.
    pub(super) fn of_loads(values: impl Iterator<Item = f64> + Clone) -> Self {
        let scale = Self::of_latencies(values);
        if scale.log { Self { low: scale.low / 1.1, high: scale.high * 1.1, ..scale } } else { scale }
    }

    /// Logarithmic when positive values span more than 20 ×, else linear from zero.
    pub(super) fn of_latencies(values: impl Iterator<Item = f64> + Clone) -> Self {
        let positive = values.filter(|v| *v > 0.0 && v.is_finite());
        let low = positive.clone().fold(f64::INFINITY, f64::min);
        let high = positive.fold(0.0, f64::max);
        if high <= 0.0 {
            return Self::linear(0.0, 1.0);
        }
        if high > 20.0 * low {
            Self { low: low / 1.1, high: high * 1.1, log: true, clock: false }
        } else {
            Self::linear(0.0, high * 1.06)
        }
    }

    pub(super) fn is_log(&self) -> bool {
        self.log
    }

    /// Position in `[0, 1]`, clamped.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.low).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.clamp(0.0, 1.0)
    }

    /// From left to right.
    pub(super) fn x(&self, value: f64) -> f64 {
        self.share(value) * BOX
    }

    /// From bottom to top.
    pub(super) fn y(&self, value: f64) -> f64 {
        (1.0 - self.share(value)) * BOX
    }

    /// Four to six round values inside the range.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.log { self.log_ticks() } else { self.linear_ticks() }
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 4.5;
        let power = 10f64.powf(rough.log10().floor());
        if self.clock && rough >= 0.8 {
            let step = CLOCK_STEPS.into_iter().find(|s| *s >= rough * 0.8).unwrap_or(power * 10.0);
            return (0..12).map(|i| f64::from(i) * step).take_while(|t| *t <= self.high).collect();
        }
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|m| m * power)
            .find(|s| *s >= rough * 0.8)
            .unwrap_or(power * 10.0);
        let first = (self.low / step).ceil();
        (0..12).map(|i| (first + f64::from(i)) * step).take_while(|t| *t <= self.high * 1.000_001).collect()
    }

    /// Whether a value lies on the axis.
    pub(super) fn holds(&self, value: f64) -> bool {
        value >= self.low && value <= self.high
    }

    fn log_ticks(&self) -> Vec<f64> {
        let (from, to) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let steps: &[f64] = match to - from {
            0..=2 => &[1.0, 2.0, 5.0],
            3..=5 => &[1.0],
            _ => &[1.0],
        };
        let every = ((to - from) / 6).max(1);
        (from..=to)
            .filter(|p| (p - from) % every == 0)
            .flat_map(|p| steps.iter().map(move |s| s * 10f64.powi(p)))
            .filter(|t| *t >= self.low && *t <= self.high)
            .collect()
    }
}

/// The scale of nines: 0, 50, 90, 99, 99.9 % at equal steps of −log(1 − share).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Nines {
    top: f64,
}

impl Nines {
    /// Up to this share.
    pub(super) fn up_to(share: f64) -> Self {
        Self { top: Self::depth(share.clamp(0.9, 0.9999)) }
    }

    fn depth(share: f64) -> f64 {
        -(1.0 - share).log10()
    }

    pub(super) fn y(&self, share: f64) -> f64 {
        (1.0 - (Self::depth(share.min(0.999_999)) / self.top).min(1.0)) * BOX
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
        [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999]
            .into_iter()
            .filter(|s| Self::depth(*s) <= self.top + 1e-9)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_round_and_inside() {
        for (low, high) in [(0.0, 1.0), (0.0, 87.0), (0.0, 3378.0), (0.0, 0.004), (5.0, 5.0)] {
            let ticks = Scale::linear(low, high).ticks();
            assert!((2..=7).contains(&ticks.len()), "{low}..{high}: {ticks:?}");
            assert!(ticks.windows(2).all(|w| w[0] < w[1]));
        }
        let log = Scale::of_latencies([12.0, 900.0].into_iter());
        assert!(log.is_log());
        assert_eq!(log.ticks(), [20.0, 50.0, 100.0, 200.0, 500.0]);
        assert!(!Scale::of_latencies([100.0, 300.0].into_iter()).is_log());
    }

    #[test]
    fn time_has_round_steps_and_a_far_spread_starts_near_itself() {
        assert_eq!(Scale::seconds(600.0).ticks(), [0.0, 120.0, 240.0, 360.0, 480.0, 600.0]);
        assert_eq!(Scale::seconds(64.0).ticks(), [0.0, 15.0, 30.0, 45.0, 60.0]);
        assert_eq!(Scale::seconds(1.0).ticks(), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        let spread = Scale::of_spread([80.0, 100.0].into_iter());
        assert!(spread.share(80.0) > 0.0 && spread.share(80.0) < 0.1);
        assert!(Scale::of_spread([10.0, 100.0].into_iter()).share(10.0) > 0.05);
        assert!((Scale::of_spread([5.0, 5.0].into_iter()).share(5.0) - 0.5).abs() < 0.01);
        assert!(Scale::of_spread(std::iter::empty()).share(0.0).abs() < 1e-9);
    }

    #[test]
    fn nines_are_equally_far_apart() {
        let nines = Nines::up_to(0.999);
        let gap = |a, b| nines.y(a) - nines.y(b);
        assert!((gap(0.9, 0.99) - gap(0.99, 0.999)).abs() < 1e-6);
        assert_eq!(nines.ticks(), [0.0, 0.5, 0.9, 0.99, 0.999]);
    }
}
