//! Time itself: `clock`.

use record::{ClockSample, Request};
use spec::Nanos;

use crate::facts::Facts;
use crate::limits;
use crate::trust::{Check, CheckId};
use crate::words::{counted, time};

/// The wall clock did not step, and no duration is negative.
pub fn clock(facts: &Facts) -> Check {
    let limit = format!("no step above {}", time(limits::CLOCK_STEP.0 as f64));
    let backwards = facts.run.clock.windows(2).any(|pair| pair[1].at < pair[0].at)
        || facts.run.requests.iter().any(runs_backwards);
    if backwards {
        return Check::judged(CheckId::Clock, true, "time ran backwards between two stamps", limit)
            .if_failed("The monotonic clock went back: no duration of this run can be used.", [])
            .grave(true);
    }
    if facts.run.clock.len() < 2 {
        return Check::unknown(
            CheckId::Clock,
            "the two clocks were not compared",
            limit,
            "Let the run last long enough for two readings of the clocks.",
        );
    }
    let steps: Vec<f64> = facts
        .run
        .clock
        .windows(2)
        .map(|pair| step(&pair[0], &pair[1]))
        .filter(|s| *s > limits::CLOCK_STEP.0 as f64)
        .collect();
    let worst = steps.iter().copied().fold(0.0, f64::max);
    let figure = if steps.is_empty() {
        "no step of the wall clock".to_owned()
    } else {
        format!("{} of up to {}", counted(steps.len() as u64, "step"), time(worst))
    };
    Check::judged(CheckId::Clock, !steps.is_empty(), figure, limit)
        .if_failed(format!("The wall clock jumped by {}; only labels are affected.", time(worst)), [])
}

/// Change of the offset between two readings beyond drift and the width of both, in nanoseconds.
pub fn step(a: &ClockSample, b: &ClockSample) -> f64 {
    let change = (i128::from(b.offset_ns) - i128::from(a.offset_ns)).unsigned_abs() as f64;
    let drift = limits::DRIFT * b.at.saturating_since(a.at).0 as f64;
    (change - drift - (a.width + b.width).0 as f64).max(0.0)
}

/// Whether two stamps of a request are in the wrong order.
fn runs_backwards(request: &Request) -> bool {
    let order = [request.dispatched, request.write_begin, request.write_end];
    let mut last = Nanos::ZERO;
    for stamp in order.into_iter().flatten() {
        if stamp < last {
            return true;
        }
        last = stamp;
    }
    let sent = request.write_begin.unwrap_or(Nanos::ZERO);
    request.chunks.first().is_some_and(|c| c.arrival < sent)
        || request.chunks.pairs().any(|(before, after)| after.arrival < before.arrival)
        || request.closed.is_some_and(|closed| closed < sent)
}
