//! `fifo`: first come, first served, deterministic service, one or more servers. With Poisson
//! arrivals and one server this is M/D/1, whose mean wait ρ/(2μ(1−ρ)) is known exactly
//! (Pollaczek–Khinchine).

use std::collections::{BTreeMap, VecDeque};

use spec::Nanos;

use super::{Emission, Engine, Event, Gauges, Job, JobId, Rejection};
use crate::draw;

/// Parameters of `fifo`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FifoConfig {
    /// Service time of a job, whatever its lengths.
    pub service: Nanos,
    /// Servers that work side by side.
    pub servers: u32,
    /// Spread the tokens evenly over the service (token i of n at i/n of it); otherwise all come at
    /// its end.
    pub spread: bool,
    /// At most this many wait; more are turned away.
    pub queue: Option<u32>,
    /// Coefficient of variation of the service time; 0: none.
    pub noise: f64,
    /// Seed of the noise.
    pub seed: u64,
}

#[derive(Debug)]
struct InService {
    begin: Nanos,
    service: Nanos,
    tokens: u32,
    sent: u32,
}

impl InService {
    /// When the next token (or the whole answer) is due.
    fn due(&self, spread: bool) -> Nanos {
        if spread {
            let share = u128::from(self.service.0) * u128::from(self.sent + 1) / u128::from(self.tokens);
            self.begin + Nanos(share as u64)
        } else {
            self.begin + self.service
        }
    }
}

/// The engine.
#[derive(Debug)]
pub struct Fifo {
    config: FifoConfig,
    waiting: VecDeque<(JobId, Nanos, u32)>,
    serving: BTreeMap<JobId, InService>,
    refused: Vec<Emission>,
    now: Nanos,
    next_id: u64,
    served: u64,
}

impl Fifo {
    /// An idle engine.
    pub fn new(config: FifoConfig) -> Self {
        Self {
            config,
            waiting: VecDeque::new(),
            serving: BTreeMap::new(),
            refused: Vec::new(),
            now: Nanos::ZERO,
            next_id: 0,
            served: 0,
        }
    }

    fn free(&self) -> bool {
        (self.serving.len() as u32) < self.config.servers.max(1)
    }

    fn next_token(&self) -> Option<(Nanos, JobId)> {
        self.serving.iter().map(|(id, s)| (s.due(self.config.spread), *id)).min()
    }

    /// Starts waiting jobs while a server is free; each begins at `at` or at its arrival if later.
    fn fill(&mut self, at: Nanos, to: Nanos, out: &mut Vec<Emission>) {
        while self.free() {
            let Some(&(id, arrived, tokens)) = self.waiting.front() else { return };
            let begin = at.max(arrived);
            if begin > to {
                return;
            }
            self.waiting.pop_front();
            let factor = draw::wobble(self.config.noise, self.config.seed, id.0);
            let service = Nanos((self.config.service.0 as f64 * factor).round() as u64);
            out.push(Emission { job: id, at: begin, event: Event::Started { cached: 0 } });
            self.serving.insert(id, InService { begin, service, tokens, sent: 0 });
        }
    }
}

impl Engine for Fifo {
    fn submit(&mut self, now: Nanos, job: Job) -> JobId {
        let id = JobId(self.next_id);
        self.next_id += 1;
        let now = now.max(self.now);
        // A job that can begin at once does not wait.
        let idle = (self.config.servers.max(1) as usize).saturating_sub(self.serving.len());
        let waiting = self.waiting.len().saturating_sub(idle) as u32;
        if self.config.queue.is_some_and(|limit| waiting >= limit && self.waiting.len() >= idle) {
            let event = Event::Rejected(Rejection::QueueFull { waiting });
            self.refused.push(Emission { job: id, at: now, event });
        } else {
            // First come, not first looked at: a job may be submitted after one that came later.
            let place = self.waiting.partition_point(|(_, arrived, _)| *arrived <= now);
            self.waiting.insert(place, (id, now, job.output_tokens.max(1)));
        }
        id
    }

    fn cancel(&mut self, now: Nanos, id: JobId) {
        self.waiting.retain(|(other, _, _)| *other != id);
        self.refused.retain(|e| e.job != id);
        if self.serving.remove(&id).is_some() {
            // The server is free from now on, not from an earlier moment on.
            self.now = self.now.max(now);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let refused = self.refused.first().map(|e| e.at);
        let token = self.next_token().map(|(at, _)| at);
        let start = self.free().then(|| self.waiting.front().map(|(_, at, _)| (*at).max(self.now))).flatten();
        [refused, token, start].into_iter().flatten().min()
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Emission>) {
        let begin = out.len();
        out.append(&mut self.refused);
        let present = self.now;
        self.fill(present, to, out);
        while let Some((at, id)) = self.next_token() {
            if at > to {
                break;
            }
            let spread = self.config.spread;
            let Some(job) = self.serving.get_mut(&id) else { break };
            let tokens = if spread { 1 } else { job.tokens };
            job.sent += tokens;
            let done = job.sent >= job.tokens;
            out.push(Emission { job: id, at, event: Event::Tokens(tokens) });
            if done {
                self.serving.remove(&id);
                self.served += 1;
                out.push(Emission { job: id, at, event: Event::Finished });
                self.fill(at, to, out);
            }
        }
        // A start in the future of a running job's tokens was noted before them.
        out[begin..].sort_by_key(|e| e.at);
        self.now = self.now.max(to);
    }

    fn gauges(&self) -> Gauges {
        Gauges {
            running: self.serving.len() as u32,
            waiting: self.waiting.len() as u32,
            steps: self.served,
            ..Gauges::default()
        }
    }
}
