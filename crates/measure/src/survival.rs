//! Kaplan–Meier: the distribution of latencies when some requests were cut.

/// A latency, or the time after which a request was cut.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lifetime {
    /// Observed time.
    pub time: f64,
    /// The request was cut here; its latency is longer.
    pub cut: bool,
}

/// The estimate of P(latency > t) as a falling step function.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Survival {
    steps: Vec<(f64, f64)>,
}

/// The product-limit estimate. A request cut at the very time at which another ended counts as still
/// running then (the usual convention).
pub fn kaplan_meier(lifetimes: &[Lifetime]) -> Survival {
    let mut sorted = lifetimes.to_vec();
    sorted.sort_by(|a, b| a.time.total_cmp(&b.time).then(a.cut.cmp(&b.cut)));
    let mut steps = Vec::new();
    let mut surviving = 1.0;
    let mut i = 0;
    while i < sorted.len() {
        let time = sorted[i].time;
        let group = sorted[i..].iter().take_while(|l| l.time.total_cmp(&time).is_eq());
        let (mut ended, mut all) = (0_usize, 0_usize);
        for lifetime in group {
            all += 1;
            ended += usize::from(!lifetime.cut);
        }
        if ended > 0 {
            let at_risk = sorted.len() - i;
            surviving *= (at_risk - ended) as f64 / at_risk as f64;
            steps.push((time, surviving));
        }
        i += all;
    }
    Survival { steps }
}

impl Survival {
    /// P(latency > t).
    pub fn at(&self, time: f64) -> f64 {
        let index = self.steps.partition_point(|&(at, _)| at <= time);
        index.checked_sub(1).map_or(1.0, |index| self.steps[index].1)
    }
    /// The smallest time by which the share `p` has ended; `None` when it was not reached.
    pub fn percentile(&self, p: f64) -> Option<f64> {
        // The product of many ratios is off by a few last places.
        self.steps.iter().find(|&&(_, surviving)| surviving <= 1.0 - p + 1e-12).map(|&(at, _)| at)
    }
}
