//! What the search is held against: doubling and bisection with probes of a fixed length, each load decided by two of
//! them that agree. No method with shorter probes holds the truth often enough to be compared with.

use decide::capacity::{Ask, Kind, Look, Next, Over, Runner};
use spec::{Closed, Load, Nanos, Open, Rate, Span};

use super::rows::Row;

/// Requests of a probe.
pub const REQUESTS: u64 = 10_000;
/// Of these the first do not count.
const TRANSIENT: usize = 1_000;
/// The bracket is as narrow as the search's own.
const WIDTH: f64 = 0.1;

/// The bracket of one search and its requests.
pub struct Found {
    pub low: f64,
    pub high: f64,
    pub requests: u64,
}

/// Doubles from one (halves, where that is too much already) until a load is on the other side, then bisects.
pub fn search(row: &Row, seed: u64) -> Found {
    let mut probes = Probes { row, seed, made: 0 };
    let whole = row.over().is_whole();
    let (mut low, mut high) = if probes.holds(1.0) { (1.0, 2.0) } else { (0.5, 1.0) };
    if high > 1.5 {
        while probes.holds(high) {
            (low, high) = (high, 2.0 * high);
        }
    } else {
        while !probes.holds(low) {
            (low, high) = (0.5 * low, low);
        }
    }
    while 2.0 * (high - low) / (high + low) > WIDTH && !(whole && high - low <= 1.0) {
        let middle = if whole { (0.5 * (low + high)).round() } else { 0.5 * (low + high) };
        if probes.holds(middle) { low = middle } else { high = middle }
    }
    Found { low, high, requests: probes.made * REQUESTS }
}

struct Probes<'a> {
    row: &'a Row,
    seed: u64,
    made: u64,
}

impl Probes<'_> {
    /// Two of at most three probes say so.
    fn holds(&mut self, load: f64) -> bool {
        let (first, second) = (self.one(load), self.one(load));
        if first == second { first } else { self.one(load) }
    }

    fn one(&mut self, x: f64) -> bool {
        let closed = |think: Nanos| {
            Load::Closed(Closed { concurrency: x as u32, think: Span(think), start_over: Span(think) })
        };
        let load = match self.row.over() {
            Over::Rate { burstiness } => {
                Load::Open(Open { rate: Rate::new(x).expect("a rate"), burstiness, cap: None, ramp: None })
            }
            Over::Concurrency => closed(Nanos::ZERO),
            Over::Users { think } => closed(think),
        };
        self.made += 1;
        let ask = Ask {
            number: 0,
            kind: Kind::Main,
            load,
            seed: spec::seed::mix(self.seed ^ (self.made << 32)),
            max_requests: REQUESTS,
            max_time: Nanos(u64::MAX / 4),
        };
        let criteria = self.row.criteria();
        let mut runner = self.row.runner();
        let mut done = |look: Look<'_>| {
            let horizon = |r| criteria.iter().map(|c| c.horizon(r)).max().unwrap_or_default();
            let longest = look.requests.iter().map(horizon).max().unwrap_or(Nanos::from_secs(1));
            let known = |r| criteria.iter().all(|c| c.determined(r, look.now));
            if look.requests.len() as u64 >= REQUESTS && look.requests.iter().all(known) {
                return Next::Stop;
            }
            Next::Again { requests: REQUESTS, horizon: longest }
        };
        let finished = runner.probe(&ask, &mut done).expect("a virtual server does not die");
        let kept = &finished.requests[TRANSIENT..];
        criteria.iter().all(|c| {
            let values: Vec<f64> = kept.iter().filter_map(|r| c.verdict(r)).collect();
            values.iter().sum::<f64>() / values.len() as f64 <= c.target().unwrap_or(1.0)
        })
    }
}
