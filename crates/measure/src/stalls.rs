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
/// The span is looked at in this many parts.
const SLICES: u64 = 8;

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
    let streamed: Vec<(Nanos, Nanos, &Request)> = requests
        .iter()
        .filter(|request| request.streamed)
        .filter_map(|request| {
            let first = request.chunks.iter().map(|chunk| chunk.arrival).min()?;
            Some((first, request.chunks.latest()?, request))
        })
        .collect();
    let mut firsts: Vec<Nanos> = streamed.iter().map(|(first, ..)| *first).collect();
    let mut lasts: Vec<Nanos> = streamed.iter().map(|(_, last, _)| *last).collect();
    firsts.sort_unstable();
    lasts.sort_unstable();
    // Nothing arrives inside a silence, so whoever spans its start spans it whole. Asked in the order of time.
    let (mut begun, mut over) = (0, 0);
    let mut streams = |at: Nanos| {
        begun += firsts[begun..].iter().take_while(|first| **first <= at).count();
        over += lasts[over..].iter().take_while(|last| **last <= at).count();
        begun - over
    };
    let mut largest = vec![0.0_f64; (span.0 / WINDOW.0) as usize + 1];
    let mut long: Vec<(Nanos, Nanos)> = Vec::new();
    let mut any = false;
    let mut before: Option<Nanos> = None;
    // Slice by slice: the arrivals of a long run are millions, and not wanted all at once.
    let mut arrivals = Vec::new();
    for slice in 0..SLICES {
        let begins =
            |slice: u64| Nanos(from.0 + (u128::from(span.0) * u128::from(slice) / u128::from(SLICES)) as u64);
        let (low, high) = (begins(slice), begins(slice + 1));
        let is_last = slice + 1 == SLICES;
        arrivals.clear();
        let within = streamed.iter().filter(|(first, last, _)| *first <= high && *last >= low);
        let all = within.flat_map(|(.., request)| &request.chunks);
        arrivals.extend(
            all.map(|chunk| chunk.arrival).filter(|&at| at >= low && (at < high || is_last && at <= to)),
        );
        arrivals.sort_unstable();
        for &at in &arrivals {
            let Some(last) = before.replace(at).filter(|&last| streams(last) >= 2) else { continue };
            let gap = at.saturating_since(last);
            let window = (last.saturating_since(from).0 / WINDOW.0) as usize;
            largest[window] = largest[window].max(gap.0 as f64);
            any = true;
            if gap > FLOOR {
                long.push((last, at));
            }
        }
    }
    if !any {
        return None;
    }
    largest.retain(|&gap| gap > 0.0);
    largest.sort_unstable_by(f64::total_cmp);
    let usual = percentile(&largest, 0.9, spec::PercentileRule::Linear).unwrap_or(0.0);
    let limit = FLOOR.max(Nanos((3.0 * usual) as u64));
    let pauses: Vec<(Nanos, Nanos)> =
        long.into_iter().filter(|&(a, b)| b.saturating_since(a) > limit).collect();
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
