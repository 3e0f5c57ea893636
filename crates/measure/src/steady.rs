//! Is the run at its plateau? Queue growth, decode speed and the steady window.

use record::{Request, Run};
use serde::Serialize;
use spec::Nanos;

use crate::estimate::{Defined, Undefined};
use crate::level::{Bins, Levels, in_flight_series};
use crate::request::{e2e, ended, for_each_gap};
use crate::tokens::{chunk_tokens, input_tokens};
use crate::trend::{Change, FEWEST_BINS, Growth, growth, speed_change};

/// Most bins of the speed test and of the growth test.
const MOST_BINS: usize = 20;
/// Fewest bins of 1 s with tokens that the speed test starts with.
const FEWEST_TO_START: usize = 10;

/// The span in which measured requests were intended: what steadiness is judged on.
pub fn analysis_span(run: &Run) -> (Nanos, Nanos) {
    (run.footer.measure_from, run.footer.measure_to.max(run.footer.measure_from))
}

/// What the bins of the speed test hold.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeedBins {
    /// The bins; those without tokens are left out of the series below.
    pub bins: Bins,
    /// Which bin each row belongs to.
    pub index: Vec<usize>,
    /// ln of the mean time per token in nanoseconds.
    pub ln_gap: Vec<f64>,
    /// Mean number in flight.
    pub in_flight: Vec<f64>,
    /// Input tokens per second of the requests whose first output fell into the bin.
    pub prompt_tokens_per_s: Vec<f64>,
}

/// The series that the speed test is made on; `None` for an empty span.
pub fn speed_bins(requests: &[Request], from: Nanos, to: Nanos) -> Option<SpeedBins> {
    let bins = Bins::of_width(from, to, Nanos::from_secs(1), MOST_BINS)?;
    let mut gap_ns = vec![0.0_f64; bins.count];
    let mut tokens_in = vec![0_u64; bins.count];
    let mut prompt = vec![0_u64; bins.count];
    let mut tokens = Vec::new();
    for request in requests {
        if let Some(bin) = request.chunks.first().and_then(|chunk| bins.index(chunk.arrival)) {
            prompt[bin] += u64::from(input_tokens(request).unwrap_or(0));
        }
        chunk_tokens(request, &mut tokens);
        for_each_gap(request, &tokens, |gap| {
            if gap.tokens > 0
                && let Some(bin) = bins.index(gap.at)
            {
                gap_ns[bin] += gap.token.0 as f64;
                tokens_in[bin] += u64::from(gap.tokens);
            }
        });
    }
    let levels = in_flight_series(requests).binned(&bins);
    // A bin whose tokens all came at one moment has no speed either.
    let index: Vec<usize> = (0..bins.count).filter(|&i| tokens_in[i] > 0 && gap_ns[i] > 0.0).collect();
    Some(SpeedBins {
        bins,
        ln_gap: index.iter().map(|&i| (gap_ns[i] / tokens_in[i] as f64).ln()).collect(),
        in_flight: index.iter().map(|&i| levels[i]).collect(),
        prompt_tokens_per_s: index.iter().map(|&i| prompt[i] as f64 / bins.width_s()).collect(),
        index,
    })
}

impl SpeedBins {
    /// The speed test on the rows from `row` on.
    pub fn change(&self, row: usize) -> Option<Change> {
        speed_change(
            self.ln_gap.get(row..)?,
            &[self.in_flight.get(row..)?, self.prompt_tokens_per_s.get(row..)?],
        )
    }
}

/// The outcome of the speed test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Steadiness {
    /// The test on the whole window.
    pub whole: Change,
    /// When the step of the whole window's test lies, at the resolution of a bin.
    pub at: Nanos,
    /// The part from here on passes: the start of the window when nothing was cut, else one bin
    /// after the last cut. `None`: no steady state.
    pub steady_from: Option<Nanos>,
    /// Bins with tokens.
    pub bins: usize,
}

/// Tests whether decode time per token, given the number in flight and the prompts that came in,
/// changed within [from, to). On a failure the part before the change is cut off and the rest is
/// tested, at most 4 times; the rest must be at least half of the window and 8 bins. Undefined with
/// fewer than 10 bins of at least 1 s that hold tokens.
pub fn steadiness(requests: &[Request], from: Nanos, to: Nanos) -> Defined<Steadiness> {
    let too_few = |n: usize| Undefined::TooFewSamples { n: n as u64, needed: FEWEST_TO_START as u64 };
    let speed = speed_bins(requests, from, to).ok_or(Undefined::NoSpan)?;
    let rows = speed.index.len();
    if rows < FEWEST_TO_START {
        return Err(too_few(rows));
    }
    let whole = speed.change(0).ok_or(too_few(rows))?;
    let at = |row: usize| speed.bins.edge(speed.index.get(row).copied().unwrap_or(speed.bins.count));
    let mut steadiness = Steadiness { whole, at: at(whole.at), steady_from: None, bins: rows };
    let (mut row, mut change, mut cuts) = (0, whole, 0);
    loop {
        if !change.fails() {
            let guard = usize::from(row > 0);
            steadiness.steady_from = Some(if row == 0 { from } else { at(row + guard) });
            return Ok(steadiness);
        }
        row += change.at;
        cuts += 1;
        if cuts > 4 || rows - row < FEWEST_BINS || 2 * (rows - row) < rows {
            return Ok(steadiness);
        }
        match speed.change(row) {
            Some(next) => change = next,
            None => return Ok(steadiness),
        }
    }
}

/// Where growth is looked for: the analysis window without the start-up of the load, which is the
/// first 2 × median e2e and at least 5 s since the load began, at most a third of the run.
pub fn growth_span(run: &Run) -> (Nanos, Nanos) {
    let (from, to) = analysis_span(run);
    let began = run.requests.iter().filter_map(|request| request.write_begin).min().unwrap_or(from);
    let skip = Nanos((2 * median_e2e(run).0).max(5_000_000_000));
    let most = Nanos(to.saturating_since(began).0 / 3);
    (from.max(began + skip.min(most)), to)
}

/// Median end-to-end latency (server view) of completed measured requests; zero without any.
pub fn median_e2e(run: &Run) -> Nanos {
    let ok = run.requests.iter().filter(|r| r.phase == spec::Phase::Measure && r.state.is_ok());
    let mut values: Vec<Nanos> = ok.filter_map(|r| e2e(r, spec::View::Server).ok()).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Requests that are in flight or wait at a cap, as a function of time. A cap bounds what is in
/// flight, so only those who wait show that a rate is not held.
fn queue(run: &Run) -> Levels {
    Levels::new(run.requests.iter().filter_map(|request| match request.write_begin {
        Some(sent) => {
            let from = if request.admitted.is_some() { request.intended.min(sent) } else { sent };
            Some((from, ended(request)?.max(from)))
        }
        // It left the pacer and was never let in.
        None => request.dispatched.map(|from| (from, run.footer.ended.max(from))),
    }))
}

/// Growth of the number in flight and waiting at a cap, over 20 bins of the growth span.
pub fn queue_growth(run: &Run) -> Defined<Growth> {
    let (from, to) = growth_span(run);
    let bins = Bins::new(from, to, MOST_BINS).ok_or(Undefined::NoSpan)?;
    let arrivals = run.requests.iter().filter(|r| r.intended >= from && r.intended < to).count();
    let seconds = to.saturating_since(from).as_secs_f64();
    growth(&queue(run).binned(&bins), bins.width_s(), arrivals as f64 / seconds).ok_or(Undefined::NotSent)
}

/// Whether growth over a span of this length means that the queue grew during the whole run.
pub fn is_overload(growth: &Growth, span: Nanos) -> bool {
    if span >= Nanos::from_secs(50) {
        growth.share > 0.03 && growth.z > 3.0
    } else {
        growth.share > 0.05 && growth.z > 3.5
    }
}

/// From when on the number in flight is at its plateau: the first moment at which it reaches 90 % of
/// its mean over the second half of the span.
pub fn plateau_from(levels: &Levels, from: Nanos, to: Nanos) -> Option<Nanos> {
    let middle = Bins::new(from, to, 2)?.edge(1);
    let plateau = 0.9 * levels.mean(middle, to)?;
    if plateau <= 0.0 {
        return None;
    }
    if levels.at(from) as f64 >= plateau {
        return Some(from);
    }
    levels
        .steps()
        .iter()
        .find(|&&(at, level)| at >= from && at < to && level as f64 >= plateau)
        .map(|&(at, _)| at)
}

/// The steady window (definitions §5): from when the number in flight is at its plateau and the
/// speed no longer changes, to the last intended send. `None` when the queue grows, the speed changes
/// until the end, or the run is too short to tell. Never shorter than half of the measurement.
pub fn steady_window(run: &Run) -> Option<(Nanos, Nanos)> {
    let (from, to) = analysis_span(run);
    let steadiness = steadiness(&run.requests, from, to).ok()?;
    let (growth_from, growth_to) = growth_span(run);
    let overloaded =
        queue_growth(run).is_ok_and(|growth| is_overload(&growth, growth_to.saturating_since(growth_from)));
    if overloaded && matches!(run.header.spec.load, spec::Load::Open(_)) {
        return None;
    }
    let plateau = plateau_from(&in_flight_series(&run.requests), from, to)?;
    let start = steadiness.steady_from?.max(plateau);
    let long_enough = 2 * to.saturating_since(start).0 >= to.saturating_since(from).0;
    // The guard bin after a cut may leave a little less than half.
    let cut = steadiness.steady_from.is_some_and(|steady| steady > from);
    (to > start && (long_enough || cut)).then_some((start, to))
}
