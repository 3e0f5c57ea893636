//! Simulated servers with a known limit.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use decide::capacity::{Happened, Simulated, What};
use sim::draw::{Stream, normal};
use sim::engine::batching::{Batching, BatchingConfig};
use sim::engine::fifo::{Fifo, FifoConfig};
use sim::roofline::Roofline;
use sim::{Emission, Engine, Event, Job};
use spec::Nanos;

/// An engine of `sim` as a server of the search.
pub struct OfSim {
    engine: Box<dyn Engine>,
    buffer: Vec<Emission>,
}

impl OfSim {
    pub fn new(engine: Box<dyn Engine>) -> Self {
        Self { engine, buffer: Vec::new() }
    }
}

impl Simulated for OfSim {
    fn submit(&mut self, now: Nanos, input_tokens: u32, output_tokens: u32) -> u64 {
        self.engine.submit(now, Job::new(input_tokens, output_tokens)).0
    }
    fn next_event(&self) -> Option<Nanos> {
        self.engine.next_event()
    }
    fn advance(&mut self, to: Nanos, out: &mut Vec<Happened>) {
        self.buffer.clear();
        self.engine.advance(to, &mut self.buffer);
        out.extend(self.buffer.iter().filter_map(|e| {
            let what = match e.event {
                Event::Started { .. } => return None,
                Event::Tokens(n) => What::Tokens(n),
                Event::Finished => What::Finished,
                Event::Rejected(_) => What::Refused,
            };
            Some(Happened { request: e.job.0, at: e.at, what })
        }));
    }
}

pub fn fifo(service_s: f64, servers: u32, queue: Option<u32>, noise: f64, seed: u64) -> Box<dyn Simulated> {
    let service = Nanos::from_secs_f64(service_s);
    let config = FifoConfig { service, servers, spread: false, queue, noise, seed };
    Box::new(OfSim::new(Box::new(Fifo::new(config))))
}

/// Continuous batching: `llama-3.1-8b` on one accelerator.
pub fn batching(accelerator: &str, max_seqs: u32, kv_blocks: u32, chunk: u32) -> Box<dyn Simulated> {
    let model = sim::models::model("llama-3.1-8b").expect("a known model");
    let config = BatchingConfig {
        roofline: Roofline {
            model,
            accelerator: sim::hardware::accelerator(accelerator).expect("a known accelerator"),
            count: 1,
            precision: sim::models::Precision::Bf16,
            compute_share: 0.6,
            memory_share: 0.8,
            overhead: Nanos::from_micros(500),
        },
        max_seqs,
        chunk,
        kv_blocks,
        context: 131_072,
        prefix_cache: false,
        queue: None,
        noise: 0.0,
        seed: 1,
    };
    Box::new(OfSim::new(Box::new(Batching::new(config))))
}

/// A server that answers each request after a time of its own: `rule` gives seconds, from the others
/// in flight and a standard normal of this request.
pub struct Delay<F> {
    rule: F,
    seed: u64,
    next_id: u64,
    due: BinaryHeap<Reverse<(Nanos, u64)>>,
}

impl<F: FnMut(u32, f64) -> f64 + 'static> Delay<F> {
    pub fn boxed(seed: u64, rule: F) -> Box<dyn Simulated> {
        Box::new(Self { rule, seed, next_id: 0, due: BinaryHeap::new() })
    }
}

impl<F: FnMut(u32, f64) -> f64> Simulated for Delay<F> {
    fn submit(&mut self, now: Nanos, _: u32, _: u32) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let luck = normal(self.seed, Stream::Noise, id);
        let after = (self.rule)(self.due.len() as u32, luck);
        self.due.push(Reverse((now + Nanos::from_secs_f64(after), id)));
        id
    }
    fn next_event(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }
    fn advance(&mut self, to: Nanos, out: &mut Vec<Happened>) {
        while let Some(&Reverse((at, request))) = self.due.peek().filter(|Reverse((at, _))| *at <= to) {
            self.due.pop();
            whole(request, at, out);
        }
    }
}

/// The whole answer at once.
fn whole(request: u64, at: Nanos, out: &mut Vec<Happened>) {
    out.push(Happened { request, at, what: What::Tokens(1) });
    out.push(Happened { request, at, what: What::Finished });
}

/// What a [`Queue`] knows of an arrival.
pub struct Arrival {
    /// Seconds since the search began.
    pub age: f64,
    /// Arrivals per second over the last eight seconds.
    pub rate: f64,
    /// Standard normal of this request.
    pub luck: f64,
}

/// One server, first come first served. `rule` gives the service time and a delay after it that holds
/// nobody up, s.
pub struct Queue<F> {
    rule: F,
    seed: u64,
    born: Nanos,
    next_id: u64,
    free: Nanos,
    recent: VecDeque<Nanos>,
    due: BinaryHeap<Reverse<(Nanos, u64)>>,
}

impl<F: FnMut(&Arrival) -> (f64, f64) + 'static> Queue<F> {
    /// `born`: time before this probe.
    pub fn boxed(seed: u64, born: Nanos, rule: F) -> Box<dyn Simulated> {
        let (recent, due) = (VecDeque::new(), BinaryHeap::new());
        Box::new(Self { rule, seed, born, next_id: 0, free: Nanos::ZERO, recent, due })
    }
}

impl<F: FnMut(&Arrival) -> (f64, f64)> Simulated for Queue<F> {
    fn submit(&mut self, now: Nanos, _: u32, _: u32) -> u64 {
        const SPAN: Nanos = Nanos::from_secs(8);
        let id = self.next_id;
        self.next_id += 1;
        while self.recent.front().is_some_and(|at| now.saturating_since(*at) > SPAN) {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        let span = now.min(SPAN).as_secs_f64().max(0.02);
        let begin = self.free.max(now);
        let arrival = Arrival {
            age: (self.born + begin).as_secs_f64(),
            rate: self.recent.len() as f64 / span,
            luck: normal(self.seed, Stream::Noise, id),
        };
        let (service, after) = (self.rule)(&arrival);
        self.free = begin + Nanos::from_secs_f64(service);
        self.due.push(Reverse((self.free + Nanos::from_secs_f64(after), id)));
        id
    }
    fn next_event(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }
    fn advance(&mut self, to: Nanos, out: &mut Vec<Happened>) {
        while let Some(&Reverse((at, request))) = self.due.peek().filter(|Reverse((at, _))| *at <= to) {
            self.due.pop();
            whole(request, at, out);
        }
    }
}

/// A single server that takes requests in twos: the first of a pair waits for the second, but no
/// longer than `patience`. Slow when idle.
pub struct Pairs {
    service: Nanos,
    patience: Nanos,
    next_id: u64,
    held: Option<(u64, Nanos)>,
    free: Nanos,
    due: VecDeque<(Nanos, u64)>,
}

impl Pairs {
    pub fn boxed(service_s: f64, patience_s: f64) -> Box<dyn Simulated> {
        let (service, patience) = (Nanos::from_secs_f64(service_s), Nanos::from_secs_f64(patience_s));
        Box::new(Self { service, patience, next_id: 0, held: None, free: Nanos::ZERO, due: VecDeque::new() })
    }
    fn serve(&mut self, id: u64, at: Nanos) {
        self.free = self.free.max(at) + self.service;
        self.due.push_back((self.free, id));
    }
}

impl Simulated for Pairs {
    fn submit(&mut self, now: Nanos, _: u32, _: u32) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        match self.held.take() {
            Some((first, _)) => {
                self.serve(first, now);
                self.serve(id, now);
            }
            None => self.held = Some((id, now + self.patience)),
        }
        id
    }
    fn next_event(&self) -> Option<Nanos> {
        [self.due.front().map(|d| d.0), self.held.map(|h| h.1)].into_iter().flatten().min()
    }
    fn advance(&mut self, to: Nanos, out: &mut Vec<Happened>) {
        if let Some((id, until)) = self.held.filter(|h| h.1 <= to) {
            self.held = None;
            self.serve(id, until);
        }
        while let Some(&(at, request)) = self.due.front().filter(|(at, _)| *at <= to) {
            self.due.pop_front();
            whole(request, at, out);
        }
    }
}
