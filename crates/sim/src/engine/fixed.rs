//! `fixed`: known latencies and no limit. Token i of a job appears `ttft + (i − 1) · tpot` after its
//! arrival, whatever else runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use spec::Nanos;

use super::{Emission, Engine, Event, Gauges, Job, JobId};
use crate::draw;

/// Parameters of `fixed`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FixedConfig {
    /// Arrival to first token.
    pub ttft: Nanos,
    /// Between tokens.
    pub tpot: Nanos,
    /// Coefficient of variation of every latency, drawn independently; 0: none.
    pub noise: f64,
    /// Seed of the noise.
    pub seed: u64,
}

#[derive(Debug)]
struct Active {
    left: u32,
    /// Number of the next noise draw of this job.
    draws: u64,
}

/// The engine.
#[derive(Debug)]
pub struct Fixed {
    config: FixedConfig,
    active: BTreeMap<JobId, Active>,
    due: BinaryHeap<Reverse<(Nanos, JobId)>>,
    started: Vec<Emission>,
    next_id: u64,
    steps: u64,
}

impl Fixed {
    /// An idle engine.
    pub fn new(config: FixedConfig) -> Self {
        Self {
            config,
            active: BTreeMap::new(),
            due: BinaryHeap::new(),
            started: Vec::new(),
            next_id: 0,
            steps: 0,
        }
    }

    fn noisy(&self, base: Nanos, id: JobId, draw: u64) -> Nanos {
        // A job's draws have numbers of their own: 2^24 tokens each.
        let factor = draw::wobble(self.config.noise, self.config.seed, (id.0 << 24) | draw);
        Nanos((base.0 as f64 * factor).round() as u64)
    }
}

impl Engine for Fixed {
    fn submit(&mut self, now: Nanos, job: Job) -> JobId {
        let id = JobId(self.next_id);
        self.next_id += 1;
        self.active.insert(id, Active { left: job.output_tokens.max(1), draws: 1 });
        self.started.push(Emission { job: id, at: now, event: Event::Started { cached: 0 } });
        self.due.push(Reverse((now + self.noisy(self.config.ttft, id, 0), id)));
        id
    }

    fn cancel(&mut self, _now: Nanos, id: JobId) {
        // Its entry in the heap is skipped when it comes up.
        self.active.remove(&id);
        self.started.retain(|e| e.job != id);
    }

    fn next_event(&self) -> Option<Nanos> {
        let first = self.started.iter().map(|e| e.at).min();
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        match (first, due) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Emission>) {
        self.started.sort_by_key(|e| e.at);
        let ready = self.started.partition_point(|e| e.at <= to);
        let begin = out.len();
        out.extend(self.started.drain(..ready));
        while let Some(&Reverse((at, id))) = self.due.peek() {
            if at > to {
                break;
            }
            self.due.pop();
            let Some(active) = self.active.get_mut(&id) else { continue };
            active.left -= 1;
            self.steps += 1;
            let draws = active.draws;
            active.draws += 1;
            let done = active.left == 0;
            out.push(Emission { job: id, at, event: Event::Tokens(1) });
            if done {
                self.active.remove(&id);
                out.push(Emission { job: id, at, event: Event::Finished });
            } else {
                self.due.push(Reverse((at + self.noisy(self.config.tpot, id, draws), id)));
            }
        }
        // Starts were collected first; put them in their place among the tokens.
        out[begin..].sort_by_key(|e| e.at);
    }

    fn gauges(&self) -> Gauges {
        Gauges { running: self.active.len() as u32, steps: self.steps, ..Gauges::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_at_ttft_and_then_every_tpot() {
        let config =
            FixedConfig { ttft: Nanos::from_millis(100), tpot: Nanos::from_millis(10), noise: 0.0, seed: 1 };
        let mut engine = Fixed::new(config);
        let a = engine.submit(Nanos::from_millis(5), Job::new(100, 3));
        let b = engine.submit(Nanos::from_millis(6), Job::new(100, 1));
        let mut out = Vec::new();
        engine.advance(Nanos::from_millis(115), &mut out);
        assert_eq!(engine.next_event(), Some(Nanos::from_millis(125)));
        engine.advance(Nanos::from_secs(1), &mut out);
        let tokens: Vec<(u64, u64)> = out
            .iter()
            .filter(|e| matches!(e.event, Event::Tokens(1)))
            .map(|e| (e.job.0, e.at.0 / 1_000_000))
            .collect();
        assert_eq!(tokens, [(a.0, 105), (b.0, 106), (a.0, 115), (a.0, 125)]);
        assert_eq!(engine.next_event(), None);
        assert_eq!(engine.gauges().running, 0);
    }

    #[test]
    fn a_cancelled_job_is_silent() {
        let config = FixedConfig { ttft: Nanos(10), tpot: Nanos(10), noise: 0.0, seed: 1 };
        let mut engine = Fixed::new(config);
        let a = engine.submit(Nanos(0), Job::new(1, 5));
        let mut out = Vec::new();
        engine.advance(Nanos(20), &mut out);
        engine.cancel(Nanos(20), a);
        out.clear();
        engine.advance(Nanos(1000), &mut out);
        assert_eq!(out, []);
        assert_eq!(engine.next_event(), None);
    }
}
