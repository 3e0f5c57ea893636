//! Several runs of one load, taken as one: their measured requests one behind another, and how well
//! their throughput is known.

use record::{Run, State, Stopped};
use spec::{Nanos, Phase};

use crate::correlation::mean_lag_factor;
use crate::estimate::{Defined, Estimate, Interval, Method, Undefined};
use crate::interval::{mean, sample_stddev};
use crate::level::Bins;
use crate::request::ended;
use crate::special::t_95;
use crate::summary::Window;

/// Batches into which the measurement of a run is cut, and the fewest that carry a spread.
const BATCHES: usize = 20;
const FEWEST: usize = 10;
/// Completions of a mean batch.
const COMPLETIONS: u64 = 2;
/// Repeats from which their own spread counts: with two, Student's t of one degree says nothing.
const REPEATS: usize = 3;

/// The measured requests of runs under one spec, as if they had been made one after the other: each
/// run's window begins where the window of the one before ends, so that durations add up. Warm-up
/// requests and samples of the instrument are left out. `None` of no runs.
pub fn joined(runs: Vec<(Run, Window)>) -> Option<Run> {
    let mut joined: Option<Run> = None;
    let (mut end, mut seq) = (Nanos::ZERO, 0);
    for (mut run, window) in runs {
        run.requests.retain(|request| request.phase == Phase::Measure);
        run.requests.sort_by_key(|request| (request.intended, request.seq));
        let first = joined.is_none();
        // Wraps around where a run moves to the left; the sums come out right all the same.
        let by = if first { 0 } else { end.0.wrapping_sub(window.from.0) };
        for request in &mut run.requests {
            request.seq = seq;
            seq += 1;
            shift(request, by);
        }
        end = Nanos(window.to.0.wrapping_add(by));
        match &mut joined {
            None => {
                run.lanes.clear();
                run.machine.clear();
                run.clock.clear();
                run.server.clear();
                joined = Some(run);
            }
            Some(all) => {
                all.requests.append(&mut run.requests);
                // The planned spans add up as well.
                all.footer.measure_to += run.footer.measure_to.saturating_since(run.footer.measure_from);
                all.footer.planned += run.footer.planned;
                all.missing.append(&mut run.missing);
                if run.footer.stopped != Stopped::Finished {
                    all.footer.stopped = run.footer.stopped;
                }
            }
        }
    }
    if let Some(all) = &mut joined {
        all.footer.ended = end;
    }
    joined
}

fn shift(request: &mut record::Request, by: u64) {
    let move_one = |t: &mut Nanos| t.0 = t.0.wrapping_add(by);
    move_one(&mut request.intended);
    for stamp in [
        &mut request.dispatched,
        &mut request.admitted,
        &mut request.write_begin,
        &mut request.write_end,
        &mut request.headers,
        &mut request.done,
        &mut request.closed,
    ] {
        stamp.iter_mut().for_each(move_one);
    }
    if by != 0 {
        for chunk in request.chunks.edit().iter_mut() {
            move_one(&mut chunk.arrival);
            move_one(&mut chunk.seen);
            move_one(&mut chunk.earliest);
        }
    }
}

/// Completed requests of one run: how many over how long, and how well that rate is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Completed {
    /// Requests that ended well.
    pub ok: u64,
    /// Over this duration.
    pub duration: Nanos,
    /// Standard error of the rate over the rate, from batch means.
    pub relative_error: Defined<f64>,
    /// Batches that this comes from.
    pub batches: usize,
}

impl Completed {
    /// Of a run whose window is known. The spread comes from equal batches of the span in which
    /// measured requests were intended: completions of either phase count where they fall, and the
    /// lag-1 correlation of the batches widens it.
    pub fn of(run: &Run, window: &Window, ok: u64) -> Self {
        let (from, to) = (run.footer.measure_from, run.footer.measure_to);
        let ends: Vec<Nanos> = run
            .requests
            .iter()
            .filter(|request| request.state == State::Ok)
            .filter_map(ended)
            .filter(|at| *at >= from && *at <= to)
            .collect();
        let needed = FEWEST as u64 * COMPLETIONS;
        let batches = (ends.len() / COMPLETIONS as usize).min(BATCHES);
        let relative_error = match Bins::new(from, to, batches).filter(|bins| bins.count >= FEWEST) {
            None => Err(Undefined::TooFewSamples { n: ends.len() as u64, needed }),
            Some(bins) => {
                let mut counts = vec![0.0; bins.count];
                for at in ends {
                    if let Some(batch) = bins.index(at) {
                        counts[batch] += 1.0;
                    }
                }
                batch_error(&counts).ok_or(Undefined::NoneCompleted)
            }
        };
        Self { ok, duration: window.duration, relative_error, batches }
    }

    fn rate(&self) -> f64 {
        self.ok as f64 / self.duration.as_secs_f64()
    }
}

/// Standard error of the mean of batches over their mean, widened by their lag-1 correlation; `None` where the mean is
/// not positive or a single batch has no spread.
pub fn batch_error(batches: &[f64]) -> Option<f64> {
    let mean = mean(batches).filter(|mean| *mean > 0.0)?;
    let spread = sample_stddev(batches)?;
    Some(spread / mean / (batches.len() as f64).sqrt() * mean_lag_factor(batches).sqrt())
}

/// The throughput of runs of one load: all completions over all durations. Its interval is the wider
/// one of the runs' own batch means and, from three runs on, of the spread between them; open where
/// a run completed too little for a spread.
pub fn throughput(runs: &[Completed]) -> Defined<Estimate> {
    let ok: u64 = runs.iter().map(|run| run.ok).sum();
    let seconds: f64 = runs.iter().map(|run| run.duration.as_secs_f64()).sum();
    if runs.is_empty() || ok == 0 {
        return Err(Undefined::NoneCompleted);
    }
    if seconds <= 0.0 {
        return Err(Undefined::NoSpan);
    }
    let value = ok as f64 / seconds;
    let within: Option<f64> =
        runs.iter().map(|run| Some((run.ok as f64 * run.relative_error.ok()?).powi(2))).sum::<Option<f64>>();
    let half_within = within.map(|sum| {
        let freedom: usize = runs.iter().map(|run| run.batches.saturating_sub(1)).sum();
        t_95(freedom as f64) * sum.sqrt() / seconds
    });
    let half_between = (runs.len() >= REPEATS).then(|| {
        let rates: Vec<f64> = runs.iter().map(Completed::rate).collect();
        let n = rates.len() as f64;
        t_95(n - 1.0) * sample_stddev(&rates).unwrap_or(0.0) / n.sqrt()
    });
    let interval = half_within.map_or(Interval::default(), |within| {
        let half = within.max(half_between.unwrap_or(0.0));
        Interval { low: Some((value - half).max(0.0)), high: Some(value + half) }
    });
    Ok(Estimate { value, interval, n: ok, n_eff: ok as f64, method: Method::Mean })
}
