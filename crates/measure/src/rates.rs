//! What passed inside a span of time: completions, tokens and the level in flight.

use record::{Request, Run, State};
use serde::Serialize;
use spec::Nanos;

use crate::estimate::{Defined, Undefined};
use crate::level::in_flight_series;
use crate::request::{ended, with_tokens};
use crate::tokens::{chunk_tokens, output_tokens};

/// Rates inside a span, per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rates {
    /// Requests that ended well inside the span.
    pub completions_per_s: f64,
    /// Output tokens that arrived inside the span, of requests that ended well or that we cut.
    pub output_tokens_per_s: f64,
    /// Time-weighted mean in flight.
    pub in_flight: f64,
}

/// Rates inside [from, to), whichever phase a request belongs to: what a part of the run such as the
/// steady window held (definitions §5).
pub fn rates_in(run: &Run, from: Nanos, to: Nanos) -> Defined<Rates> {
    let in_flight = in_flight_series(&run.requests).mean(from, to).ok_or(Undefined::NoSpan)?;
    let inside = |at: Nanos| at >= from && at < to;
    let (mut completions, mut output, mut tokens) = (0_u64, 0.0, Vec::new());
    for request in run.requests.iter().filter(|request| counts_in_throughput(request)) {
        completions += u64::from(request.state.is_ok() && ended(request).is_some_and(inside));
        token_line(request, &mut tokens, |at, amount| output += if inside(at) { amount } else { 0.0 });
    }
    let seconds = to.saturating_since(from).as_secs_f64();
    Ok(Rates {
        completions_per_s: completions as f64 / seconds,
        output_tokens_per_s: output / seconds,
        in_flight,
    })
}

/// Whether the tokens of a request are part of a throughput: those of failed and timed-out requests
/// are not; those that had arrived when we cut a request ourselves are.
pub(crate) fn counts_in_throughput(request: &Request) -> bool {
    matches!(request.state, State::Ok | State::Cancelled)
}

/// Visits when the output tokens of a request arrived: its `n` tokens, spread over its chunks as
/// their tokens are, so that every rate is made from one and the same count.
pub(crate) fn token_line(request: &Request, tokens: &mut Vec<u32>, mut visit: impl FnMut(Nanos, f64)) {
    let Ok((n, _)) = output_tokens(request) else { return };
    chunk_tokens(request, tokens);
    let sum: u64 = tokens.iter().map(|&k| u64::from(k)).sum();
    if sum == 0 {
        return;
    }
    let scale = f64::from(n) / sum as f64;
    with_tokens(request, tokens, |chunk, k| visit(chunk.arrival, f64::from(k) * scale));
}
