//! Moments at which all streams paused together.

use record::Request;
use serde::Serialize;
use spec::Nanos;

use crate::interval::sample_stddev;
use crate::percentile::percentile;

/// Shortest pause that is ever called a stall.
const FLOOR: Nanos = Nanos::from_millis(150);
/// Windows whose largest gaps tell what is usual.
const WINDOW: Nanos = Nanos::from_millis(250);

/// All pauses of all streams.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stalls {
    /// A pause is longer than this: max(150 ms, 3 × the 90th percentile of the largest gap in each
    /// 250 ms).
    pub limit: Nanos,
    /// Start and end of each pause, by time.
    pub pauses: Vec<(Nanos, Nanos)>,
    /// Their total length / the span.
    pub share: f64,
    /// Coefficient of variation of the time from one pause to the next, from 3 pauses on. Below 0.3
    /// they are periodic.
    pub spacing_cv: Option<f64>,
    /// Mean time from one pause to the next.
    pub spacing_mean: Option<Nanos>,
}

impl Stalls {
    /// Worth a note: at least 3 pauses and at least 1 % of the time.
    pub fn notable(&self) -> bool {
        self.pauses.len() >= 3 && self.share >= 0.01
    }
    /// The pauses come at equal distances.
    pub fn periodic(&self) -> bool {
        self.spacing_cv.is_some_and(|cv| cv < 0.3)
    }
}

/// Finds pauses of all streams within [from, to): no output from any request while at least two were
/// between their first and last output. `None` when never two streams ran at once.
pub fn stalls(requests: &[Request], from: Nanos, to: Nanos) -> Option<Stalls> {
    let span = to.since(from).filter(|span| span.0 > 0)?;
    let (mut firsts, mut lasts, mut arrivals) = (Vec::new(), Vec::new(), Vec::new());
    for request in requests.iter().filter(|request| request.streamed) {
        let stamps = request.chunks.iter().map(|chunk| chunk.arrival);
        if let (Some(first), Some(last)) = (stamps.clone().min(), stamps.clone().max()) {
            firsts.push(first);
            lasts.push(last);
            arrivals.extend(stamps.filter(|&at| at >= from && at <= to));
        }
    }
    arrivals.sort_unstable();
    firsts.sort_unstable();
    lasts.sort_unstable();
    // Nothing arrives inside a silence, so whoever spans its start spans it whole.
    let streams =
        |at: Nanos| firsts.partition_point(|&first| first <= at) - lasts.partition_point(|&last| last <= at);
    // Visited twice instead of kept: a long run has millions.
    let gaps = || arrivals.windows(2).map(|pair| (pair[0], pair[1])).filter(|&(a, _)| streams(a) >= 2);
    let mut largest = vec![0.0_f64; (span.0 / WINDOW.0) as usize + 1];
    let mut any = false;
    for (a, b) in gaps() {
        let window = (a.saturating_since(from).0 / WINDOW.0) as usize;
        largest[window] = largest[window].max(b.saturating_since(a).0 as f64);
        any = true;
    }
    if !any {
        return None;
    }
    largest.retain(|&gap| gap > 0.0);
    largest.sort_unstable_by(f64::total_cmp);
    let usual = percentile(&largest, 0.9, spec::PercentileRule::Linear).unwrap_or(0.0);
    let limit = FLOOR.max(Nanos((3.0 * usual) as u64));
    let pauses: Vec<(Nanos, Nanos)> = gaps().filter(|&(a, b)| b.saturating_since(a) > limit).collect();
    let total: Nanos = pauses.iter().map(|&(a, b)| b.saturating_since(a)).sum();
    let spacing: Vec<f64> =
        pauses.windows(2).map(|pair| pair[1].0.saturating_since(pair[0].0).0 as f64).collect();
    let mean = crate::interval::mean(&spacing);
    Some(Stalls {
        limit,
        share: total.0 as f64 / span.0 as f64,
        spacing_cv: mean.and_then(|mean| Some(sample_stddev(&spacing)? / mean)),
        spacing_mean: mean.map(|mean| Nanos(mean as u64)),
        pauses,
    })
}
