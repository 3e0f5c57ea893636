//! Servers whose best load and setting are known in closed form.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use decide::capacity::{Happened, Simulated, What};
use sim::draw::{Stream, normal};
use spec::Nanos;

/// What a request meets.
pub struct Met {
    /// Others in flight.
    pub others: u32,
    pub input: f64,
    pub output: f64,
    /// Standard normal of this request.
    pub luck: f64,
}

/// Answers each request after a time of its own, in seconds.
pub struct Delay<F> {
    rule: F,
    seed: u64,
    next_id: u64,
    due: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
}

impl<F: FnMut(&Met) -> f64 + 'static> Delay<F> {
    pub fn boxed(seed: u64, rule: F) -> Box<dyn Simulated> {
        Box::new(Self { rule, seed, next_id: 0, due: BinaryHeap::new() })
    }
}

impl<F: FnMut(&Met) -> f64> Simulated for Delay<F> {
    fn submit(&mut self, now: Nanos, input: u32, output: u32) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let met = Met {
            others: self.due.len() as u32,
            input: f64::from(input),
            output: f64::from(output),
            luck: normal(self.seed, Stream::Noise, id),
        };
        let after = (self.rule)(&met);
        self.due.push(Reverse((now + Nanos::from_secs_f64(after), id, output)));
        id
    }
    fn next_event(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }
    fn advance(&mut self, to: Nanos, out: &mut Vec<Happened>) {
        while let Some(&Reverse((at, request, tokens))) =
            self.due.peek().filter(|Reverse((at, ..))| *at <= to)
        {
            self.due.pop();
            whole(request, at, tokens, out);
        }
    }
}

/// One server, first come first served; `rule` gives the service in seconds.
pub struct Queue<F> {
    rule: F,
    free: Nanos,
    next_id: u64,
    due: std::collections::VecDeque<(Nanos, u64, u32)>,
}

impl<F: FnMut(f64, f64) -> f64 + 'static> Queue<F> {
    pub fn boxed(rule: F) -> Box<dyn Simulated> {
        Box::new(Self { rule, free: Nanos::ZERO, next_id: 0, due: std::collections::VecDeque::new() })
    }
}

impl<F: FnMut(f64, f64) -> f64> Simulated for Queue<F> {
    fn submit(&mut self, now: Nanos, input: u32, output: u32) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let service = (self.rule)(f64::from(input), f64::from(output));
        self.free = self.free.max(now) + Nanos::from_secs_f64(service);
        self.due.push_back((self.free, id, output));
        id
    }
    fn next_event(&self) -> Option<Nanos> {
        self.due.front().map(|d| d.0)
    }
    fn advance(&mut self, to: Nanos, out: &mut Vec<Happened>) {
        while let Some((at, request, tokens)) = self.due.front().copied().filter(|d| d.0 <= to) {
            self.due.pop_front();
            whole(request, at, tokens, out);
        }
    }
}

/// The whole answer at once.
fn whole(request: u64, at: Nanos, tokens: u32, out: &mut Vec<Happened>) {
    out.push(Happened { request, at, what: What::Tokens(tokens) });
    out.push(Happened { request, at, what: What::Finished });
}
