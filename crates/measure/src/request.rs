//! The metrics of one request (definitions §2).

use record::{Chunk, Kind, Request};
use spec::{Metric, Nanos, View};

use crate::estimate::{Defined, Undefined};
use crate::summary::TokenSource;
use crate::tokens::{chunk_tokens, output_tokens};

/// One gap between two chunks of the same choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// When it ended: the arrival of the later chunk.
    pub at: Nanos,
    /// Since the chunk before.
    pub chunk: Nanos,
    /// Since the last chunk before that had a token; equal to `chunk` except after chunks without.
    pub token: Nanos,
    /// Tokens of the later chunk.
    pub tokens: u32,
}

impl Gap {
    /// Time per token of this gap; `None` for a chunk without tokens.
    pub fn per_token(&self) -> Option<f64> {
        (self.tokens > 0).then(|| self.token.0 as f64 / f64::from(self.tokens))
    }
}

/// The output of a request reduced to what its metrics need. With several choices there is one
/// timeline for each, and spans and first tokens are summed over them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    first: Nanos,
    last: Nanos,
    first_answer: Option<Nanos>,
    /// Σ over choices of last − first chunk.
    span: Nanos,
    choices: u32,
    /// Σ over choices of the first chunk's tokens.
    first_tokens: u64,
    max_gap: Option<Nanos>,
}

/// A request with its tokens resolved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observed<'a> {
    pub(crate) request: &'a Request,
    pub(crate) shape: Option<Shape>,
    pub(crate) output: Defined<(u32, TokenSource)>,
    pub(crate) chunk_source: TokenSource,
    /// Each chunk is one token.
    pub(crate) token_each: bool,
}

impl<'a> Observed<'a> {
    /// Resolves the tokens of a request; `tokens` is left with those of its chunks.
    pub(crate) fn new(request: &'a Request, tokens: &mut Vec<u32>) -> Self {
        let chunk_source = chunk_tokens(request, tokens);
        Self {
            request,
            shape: shape(request, tokens),
            output: output_tokens(request),
            chunk_source,
            token_each: tokens.iter().all(|&k| k == 1),
        }
    }
    /// Arrival of the last output.
    pub(crate) fn last(&self) -> Option<Nanos> {
        self.shape.map(|shape| shape.last)
    }

    fn output_shape(&self) -> Defined<Shape> {
        self.shape.ok_or_else(|| without_output(self.request))
    }
    fn streamed(&self) -> Defined<Shape> {
        let shape = self.output_shape()?;
        if self.request.streamed { Ok(shape) } else { Err(Undefined::NotStreamed) }
    }
    fn ttft(&self, view: View) -> Defined<Nanos> {
        Ok(self.streamed()?.first.saturating_since(start(self.request, view)?))
    }
    fn ttfat(&self, view: View) -> Defined<Nanos> {
        let answer = self.streamed()?.first_answer.ok_or(Undefined::ReasoningOnly)?;
        Ok(answer.saturating_since(start(self.request, view)?))
    }
    fn e2e(&self, view: View) -> Defined<Nanos> {
        e2e(self.request, view)
    }
    fn tpot(&self) -> Defined<f64> {
        let shape = self.streamed()?;
        let (n, _) = self.output?;
        // One choice: n − 1. Each further choice has a first token of its own.
        let after_first = u64::from(n).saturating_sub(u64::from(shape.choices));
        if after_first == 0 {
            return Err(Undefined::SingleToken);
        }
        // Several tokens in one chunk: the time between them cannot be observed, and is not 0.
        if shape.max_gap.is_none() {
            return Err(Undefined::SingleChunk);
        }
        Ok(shape.span.0 as f64 / after_first as f64)
    }
    fn decode_tpot(&self) -> Defined<f64> {
        let shape = self.streamed()?;
        let (n, _) = self.output?;
        let after_first = u64::from(n).saturating_sub(shape.first_tokens);
        if after_first == 0 {
            return Err(if n <= 1 { Undefined::SingleToken } else { Undefined::AllInFirstChunk });
        }
        if shape.max_gap.is_none() {
            return Err(Undefined::SingleChunk);
        }
        Ok(shape.span.0 as f64 / after_first as f64)
    }
    fn max_gap(&self) -> Defined<Nanos> {
        self.streamed()?.max_gap.ok_or(Undefined::SingleChunk)
    }
    fn user_tps(&self) -> Defined<f64> {
        let tpot = self.tpot()?;
        if tpot > 0.0 { Ok(1e9 / tpot) } else { Err(Undefined::NoSpan) }
    }

    /// The value of a metric that each request has once; nanoseconds or tokens per second. Metrics
    /// that are pooled over gaps or belong to the whole run are not applicable to one request.
    pub(crate) fn value(&self, metric: Metric, view: View) -> Defined<f64> {
        let ns = |value: Nanos| value.0 as f64;
        match metric {
            Metric::Ttft => self.ttft(view).map(ns),
            Metric::Ttfat => self.ttfat(view).map(ns),
            Metric::E2e => self.e2e(view).map(ns),
            Metric::Tpot => self.tpot(),
            Metric::DecodeTpot => self.decode_tpot(),
            Metric::MaxGap => self.max_gap().map(ns),
            Metric::UserTps => self.user_tps(),
            Metric::ScheduleLag => schedule_lag(self.request).map(ns),
            Metric::Itl
            | Metric::Icl
            | Metric::ClientLag
            | Metric::ErrorRate
            | Metric::RequestThroughput
            | Metric::OutputTokenThroughput => Err(Undefined::NotApplicable),
        }
    }

    /// What a request that did not end well is known to exceed in this metric, in nanoseconds; 0
    /// when nothing is known. Only requests that were cut (by a limit or by us) are known to have
    /// lasted longer than observed; a failure may come at any moment.
    pub(crate) fn bound(&self, metric: Metric, view: View) -> f64 {
        let request = self.request;
        if !request.state.is_censored() {
            return 0.0;
        }
        let waited = || Some(ended(request)?.saturating_since(start(request, view).ok()?).0 as f64);
        let bound = match metric {
            Metric::Ttft => self.ttft(view).map(|ttft| ttft.0 as f64).ok().or_else(waited),
            Metric::Ttfat => self.ttfat(view).map(|ttfat| ttfat.0 as f64).ok().or_else(waited),
            Metric::E2e => waited(),
            Metric::MaxGap => self.shape.and_then(|shape| {
                let open = ended(request)?.saturating_since(shape.last);
                Some(open.max(shape.max_gap.unwrap_or_default()).0 as f64)
            }),
            _ => None,
        };
        bound.unwrap_or(0.0)
    }
}

/// Why a request has no output.
fn without_output(request: &Request) -> Undefined {
    if request.write_begin.is_none() { Undefined::NotSent } else { Undefined::NoOutput }
}

fn shape(request: &Request, tokens: &[u32]) -> Option<Shape> {
    struct Track {
        choice: u16,
        first: Nanos,
        last: Nanos,
    }
    let mut tracks: Vec<Track> = Vec::new();
    let mut single: Option<Track> = None;
    let (mut max_gap, mut first_answer, mut first_tokens) = (None, None, 0_u64);
    with_tokens(request, tokens, |chunk, k| {
        if first_answer.is_none() && chunk.kind != Kind::Reasoning {
            first_answer = Some(chunk.arrival);
        }
        let track = match &mut single {
            Some(track) if track.choice == chunk.choice => Some(track),
            _ => tracks.iter_mut().find(|track| track.choice == chunk.choice),
        };
        match track {
            Some(track) => {
                // Stamps never run backwards within a choice.
                let at = chunk.arrival.max(track.last);
                max_gap = max_gap.max(at.since(track.last));
                track.last = at;
            }
            None => {
                first_tokens += u64::from(k);
                let track = Track { choice: chunk.choice, first: chunk.arrival, last: chunk.arrival };
                if single.is_none() {
                    single = Some(track);
                } else {
                    tracks.push(track);
                }
            }
        }
    });
    let all = || single.iter().chain(&tracks);
    Some(Shape {
        first: all().map(|track| track.first).min()?,
        last: all().map(|track| track.last).max()?,
        first_answer,
        span: all().map(|track| track.last.saturating_since(track.first)).sum(),
        choices: all().count() as u32,
        first_tokens,
        max_gap,
    })
}

/// Visits the gaps between the chunks of a streamed request, each choice on a timeline of its own,
/// in the order in which they ended. `tokens` are those of the chunks.
pub fn for_each_gap(request: &Request, tokens: &[u32], mut visit: impl FnMut(Gap)) {
    if !request.streamed {
        return;
    }
    // (choice, last chunk, last chunk with a token)
    let mut last: Vec<(u16, Nanos, Nanos)> = Vec::with_capacity(1);
    with_tokens(request, tokens, |chunk, k| {
        match last.iter_mut().find(|(choice, ..)| *choice == chunk.choice) {
            Some((_, before, before_token)) => {
                let at = chunk.arrival.max(*before);
                visit(Gap {
                    at,
                    chunk: at.saturating_since(*before),
                    token: at.saturating_since(*before_token),
                    tokens: k,
                });
                *before = at;
                if k > 0 {
                    *before_token = at;
                }
            }
            None => last.push((chunk.choice, chunk.arrival, chunk.arrival)),
        }
    });
}

/// Visits each chunk with its tokens. No `zip`: that one is not inlined, and reads all of each chunk.
#[inline]
pub(crate) fn with_tokens(request: &Request, tokens: &[u32], mut visit: impl FnMut(Chunk, u32)) {
    let mut tokens = tokens.iter();
    for chunk in &request.chunks {
        let Some(&k) = tokens.next() else { break };
        visit(chunk, k);
    }
}

/// Visits the client lag of each read that has a kernel stamp: program after kernel.
pub fn for_each_read_lag(request: &Request, mut visit: impl FnMut(Nanos)) {
    let mut before = None;
    for chunk in &request.chunks {
        if before != Some(chunk.read) && chunk.kernel {
            visit(chunk.seen.saturating_since(chunk.arrival));
        }
        before = Some(chunk.read);
    }
}

/// Where latencies start: the intended send, or the first byte written (of the first attempt).
pub fn start(request: &Request, view: View) -> Defined<Nanos> {
    match view {
        View::User => Ok(request.intended),
        View::Server => request.write_begin.ok_or(Undefined::NotSent),
    }
}

/// The last moment known of a request that was sent: the end of its body, else its latest stamp.
pub fn ended(request: &Request) -> Option<Nanos> {
    request.closed.or_else(|| {
        [
            request.chunks.latest(),
            request.done,
            request.headers,
            request.write_end,
            request.write_begin,
            request.dispatched,
        ]
        .into_iter()
        .flatten()
        .max()
    })
}

/// The value of a metric of one request: nanoseconds for times, tokens per second for speed.
pub fn value(request: &Request, metric: Metric, view: View) -> Defined<f64> {
    Observed::new(request, &mut Vec::new()).value(metric, view)
}
/// Time to the first output token of any kind.
pub fn ttft(request: &Request, view: View) -> Defined<Nanos> {
    Observed::new(request, &mut Vec::new()).ttft(view)
}
/// Time to the first token that is no thinking.
pub fn ttfat(request: &Request, view: View) -> Defined<Nanos> {
    Observed::new(request, &mut Vec::new()).ttfat(view)
}
/// Time to the last output.
pub fn e2e(request: &Request, view: View) -> Defined<Nanos> {
    let last = request.chunks.latest().ok_or_else(|| without_output(request))?;
    Ok(last.saturating_since(start(request, view)?))
}
/// Time per output token after the first, in nanoseconds.
pub fn tpot(request: &Request) -> Defined<f64> {
    Observed::new(request, &mut Vec::new()).tpot()
}
/// Time per token of the chunks after the first, in nanoseconds.
pub fn decode_tpot(request: &Request) -> Defined<f64> {
    Observed::new(request, &mut Vec::new()).decode_tpot()
}
/// The largest gap between chunks.
pub fn max_gap(request: &Request) -> Defined<Nanos> {
    Observed::new(request, &mut Vec::new()).max_gap()
}
/// Output speed of one user, tokens per second.
pub fn user_tps(request: &Request) -> Defined<f64> {
    Observed::new(request, &mut Vec::new()).user_tps()
}
/// Write begin after the intended send.
pub fn schedule_lag(request: &Request) -> Defined<Nanos> {
    Ok(request.write_begin.ok_or(Undefined::NotSent)?.saturating_since(request.intended))
}
