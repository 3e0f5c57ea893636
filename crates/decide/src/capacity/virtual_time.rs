//! The runner in virtual time: any simulated server, as fast as the processor allows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use plan::Arrivals;
use spec::{Load, Nanos};

use super::runner::{Ask, Finished, Halt, Look, Next, ProbeTrust, Runner, Seen, Waited};

/// A user whose request ended at the moment at which it was sent comes back after this long: no
/// answer, however short, takes no time at all.
const TURNAROUND: Nanos = Nanos::from_millis(1);

/// Something that a simulated server did to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happened {
    /// Which, as counted by [`Simulated::submit`].
    pub request: u64,
    /// When, since the probe's origin.
    pub at: Nanos,
    /// What.
    pub what: What,
}

/// What a simulated server did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// So many tokens came.
    Tokens(u32),
    /// The answer ended.
    Finished,
    /// The request was turned away.
    Refused,
}

/// A server in virtual time; time never runs backwards.
pub trait Simulated {
    /// A request arrives; requests are numbered from 0.
    fn submit(&mut self, now: Nanos, input_tokens: u32, output_tokens: u32) -> u64;
    /// When `advance` has something to do next; `None`: idle.
    fn next_event(&self) -> Option<Nanos>;
    /// Does everything that is due up to and including `to`, in order of time.
    fn advance(&mut self, to: Nanos, out: &mut Vec<Happened>);
}

/// Runs probes on simulated servers: a drained one for each probe.
pub struct VirtualRunner<S, L> {
    server: S,
    lengths: L,
    elapsed: Nanos,
}

impl<S, L> VirtualRunner<S, L>
where
    S: FnMut(u64, Nanos) -> Box<dyn Simulated>,
    L: FnMut(u64, u64) -> (u32, u32),
{
    /// `server` makes a drained server, given the probe's seed and how long the search has been
    /// running; `lengths` gives input and output tokens of request `n` under a seed.
    pub fn new(server: S, lengths: L) -> Self {
        Self { server, lengths, elapsed: Nanos::ZERO }
    }
}

/// When the next request is intended.
enum Source {
    Open { arrivals: Box<Arrivals>, next: Option<Nanos> },
    Closed { free: BinaryHeap<Reverse<Nanos>>, think: Nanos },
}

impl Source {
    fn new(ask: &Ask) -> Self {
        match &ask.load {
            Load::Open(open) => {
                let mut arrivals = Box::new(Arrivals::new(open, ask.seed));
                let next = arrivals.next();
                Source::Open { arrivals, next }
            }
            Load::Closed(closed) => Source::Closed {
                free: (0..closed.concurrency).map(|user| Reverse(closed.start_of(user))).collect(),
                think: closed.think.0,
            },
        }
    }
    fn peek(&self) -> Option<Nanos> {
        match self {
            Source::Open { next, .. } => *next,
            Source::Closed { free, .. } => free.peek().map(|Reverse(at)| *at),
        }
    }
    fn take(&mut self) {
        match self {
            Source::Open { arrivals, next } => *next = arrivals.next(),
            Source::Closed { free, .. } => {
                free.pop();
            }
        }
    }
    fn ended(&mut self, sent: Nanos, at: Nanos) {
        if let Source::Closed { free, think } = self {
            let back = if at > sent { at } else { at + TURNAROUND };
            free.push(Reverse(back + *think));
        }
    }
}

impl<S, L> Runner for VirtualRunner<S, L>
where
    S: FnMut(u64, Nanos) -> Box<dyn Simulated>,
    L: FnMut(u64, u64) -> (u32, u32),
{
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        let mut server = (self.server)(ask.seed, self.elapsed);
        let mut source = Source::new(ask);
        let mut requests: Vec<Seen> = Vec::new();
        let mut out = Vec::new();
        let mut now = Nanos::ZERO;
        let Next::Again { requests: mut want, mut horizon } = look(Look { now, requests: &requests }) else {
            return Ok(Finished { requests, now, trust: ProbeTrust::Trusted, waited: Waited::default() });
        };
        // Of the first `want` requests, those that have ended.
        let mut ended_first = 0_u64;
        loop {
            let due =
                source.peek().filter(|at| *at <= ask.max_time && (requests.len() as u64) < ask.max_requests);
            let aged = requests.get(want.max(1) as usize - 1).map(|last| last.intended + horizon);
            let Some(next) = [due, server.next_event(), aged].into_iter().flatten().min() else { break };
            now = now.max(next);
            out.clear();
            server.advance(now, &mut out);
            for event in &out {
                let Some(seen) = requests.get_mut(event.request as usize) else { continue };
                if note(seen, event) {
                    ended_first += u64::from(event.request < want);
                    source.ended(seen.intended, event.at);
                }
            }
            while (requests.len() as u64) < ask.max_requests
                && let Some(at) = source.peek().filter(|at| *at <= now && *at <= ask.max_time)
            {
                source.take();
                let n = requests.len() as u64;
                let (input, output) = (self.lengths)(ask.seed, n);
                let (asked, input_tokens) = (Some(output), Some(input));
                requests.push(Seen { intended: at, asked, input_tokens, ..Seen::default() });
                server.submit(now, input, output);
            }
            let have = requests.len() as u64 >= want;
            let is_aged = aged.is_some_and(|at| at <= now);
            if have && (ended_first >= want || is_aged) {
                match look(Look { now, requests: &requests }) {
                    Next::Stop => break,
                    Next::Again { requests: more, horizon: age } => {
                        if more == want && is_aged && age <= horizon {
                            // Asked the same again though nothing more can be known: let it end.
                            break;
                        }
                        (want, horizon) = (more, age);
                        let first = &requests[..requests.len().min(want as usize)];
                        ended_first = first.iter().filter(|r| r.end.is_some()).count() as u64;
                    }
                }
            }
        }
        self.elapsed += now;
        Ok(Finished { requests, now, trust: ProbeTrust::Trusted, waited: Waited::default() })
    }
}

/// Writes an event down; `true` when the request has ended with it.
fn note(seen: &mut Seen, event: &Happened) -> bool {
    let since = event.at.saturating_since(seen.intended);
    match event.what {
        What::Tokens(n) => {
            seen.output_tokens += n;
            seen.ttft.get_or_insert(since);
            // So far the last output; the end of the answer.
            seen.e2e = Some(since);
            false
        }
        What::Finished => {
            seen.end = Some(event.at);
            seen.ok = true;
            if let (Some(first), Some(last)) = (seen.ttft, seen.e2e)
                && seen.output_tokens > 1
            {
                seen.tpot = Some((last.0 - first.0) as f64 / f64::from(seen.output_tokens - 1));
            }
            true
        }
        What::Refused => {
            seen.end = Some(event.at);
            true
        }
    }
}
