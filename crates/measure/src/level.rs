//! Requests in flight as a function of time.

use record::Request;
use spec::Nanos;

use crate::request::ended;

/// A step function of time: the level from each moment on. Before the first step it is 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Levels {
    steps: Vec<(Nanos, u64)>,
}

/// Requests in flight: from the first byte written to the end of the body. Where one ends at the
/// moment another starts, the end comes first, so touching requests never count twice.
pub fn in_flight_series(requests: &[Request]) -> Levels {
    Levels::new(requests.iter().filter_map(|request| {
        let from = request.write_begin?;
        Some((from, ended(request)?.max(from)))
    }))
}

impl Levels {
    /// From spans; a span of no length is never in flight.
    pub fn new(spans: impl Iterator<Item = (Nanos, Nanos)>) -> Self {
        let mut starts = Vec::new();
        let mut ends = Vec::new();
        for (from, to) in spans.filter(|(from, to)| to > from) {
            starts.push(from);
            ends.push(to);
        }
        starts.sort_unstable();
        ends.sort_unstable();
        let mut steps: Vec<(Nanos, u64)> = Vec::with_capacity(2 * starts.len());
        let (mut i, mut j) = (0, 0);
        while j < ends.len() {
            let at = starts.get(i).map_or(ends[j], |&start| start.min(ends[j]));
            while ends.get(j) == Some(&at) {
                j += 1;
            }
            while starts.get(i) == Some(&at) {
                i += 1;
            }
            // Every span that has ended has started before.
            steps.push((at, (i - j) as u64));
        }
        Self { steps }
    }
    /// The level at a moment.
    pub fn at(&self, moment: Nanos) -> u64 {
        let index = self.steps.partition_point(|&(at, _)| at <= moment);
        index.checked_sub(1).map_or(0, |index| self.steps[index].1)
    }
    /// The steps: moment and the level from then on.
    pub fn steps(&self) -> &[(Nanos, u64)] {
        &self.steps
    }
    /// Time-weighted mean over [from, to); `None` for an empty span.
    pub fn mean(&self, from: Nanos, to: Nanos) -> Option<f64> {
        let span = to.since(from).filter(|span| span.0 > 0)?;
        let mut level = self.at(from);
        let mut since = from;
        let mut area: u128 = 0;
        let index = self.steps.partition_point(|&(at, _)| at <= from);
        for &(at, next) in self.steps[index..].iter().take_while(|&&(at, _)| at < to) {
            area += u128::from(level) * u128::from(at.saturating_since(since).0);
            (since, level) = (at, next);
        }
        area += u128::from(level) * u128::from(to.saturating_since(since).0);
        Some(area as f64 / span.0 as f64)
    }
    /// Largest level within [from, to].
    pub fn peak(&self, from: Nanos, to: Nanos) -> u64 {
        let index = self.steps.partition_point(|&(at, _)| at <= from);
        let within = self.steps[index..].iter().take_while(|&&(at, _)| at <= to).map(|&(_, level)| level);
        within.max().unwrap_or(0).max(self.at(from))
    }
    /// Time-weighted means over the bins.
    pub fn binned(&self, bins: &Bins) -> Vec<f64> {
        (0..bins.count).map(|i| self.mean(bins.edge(i), bins.edge(i + 1)).unwrap_or(0.0)).collect()
    }
}

/// Equal bins that tile a span exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bins {
    /// Start of the first.
    pub from: Nanos,
    /// End of the last.
    pub to: Nanos,
    /// How many, at least 1.
    pub count: usize,
}

impl Bins {
    /// `count` equal bins; `None` for an empty span or no bins.
    pub fn new(from: Nanos, to: Nanos, count: usize) -> Option<Self> {
        (to > from && count > 0).then_some(Self { from, to, count })
    }
    /// As many equal bins as fit of at least `width`, at most `most`, at least one.
    pub fn of_width(from: Nanos, to: Nanos, width: Nanos, most: usize) -> Option<Self> {
        let span = to.since(from)?;
        Self::new(from, to, ((span.0 / width.0.max(1)) as usize).clamp(1, most.max(1)))
    }
    /// Start of bin `index`, and for `index` = `count` the end of the last.
    pub fn edge(&self, index: usize) -> Nanos {
        self.from + Nanos(scaled(self.to.saturating_since(self.from).0, index as u64, self.count as u64))
    }
    /// Width of a bin in seconds.
    pub fn width_s(&self) -> f64 {
        self.to.saturating_since(self.from).as_secs_f64() / self.count as f64
    }
    /// The bin that holds a moment; the last one includes its end.
    pub fn index(&self, moment: Nanos) -> Option<usize> {
        if moment < self.from || moment > self.to {
            return None;
        }
        let span = self.to.saturating_since(self.from).0.max(1);
        let offset = moment.saturating_since(self.from).0;
        let mut index = (scaled(offset, self.count as u64, span) as usize).min(self.count - 1);
        // Edges are rounded down to whole nanoseconds.
        while index + 1 < self.count && self.edge(index + 1) <= moment {
            index += 1;
        }
        Some(index)
    }
}

/// value · by / of without overflow, rounded down; `of` is not 0. Division of 128 bits is slow, and seldom needed.
fn scaled(value: u64, by: u64, of: u64) -> u64 {
    match value.checked_mul(by) {
        Some(product) => product / of,
        None => (u128::from(value) * u128::from(by) / u128::from(of)) as u64,
    }
}
