//! `batching`: continuous batching as vLLM's V1 scheduler does it. Every step serves running
//! sequences first (one token each, or the next piece of their prompt), then admits waiting ones
//! within the token budget; when KV blocks run out, the youngest running sequence loses its blocks
//! and is computed again later.

use std::collections::VecDeque;

use spec::Nanos;

use super::kv::{Block, KvPool};
use super::{BLOCK_TOKENS, Emission, Engine, Event, Gauges, Job, JobId, Rejection};
use crate::draw::{self, IdMap};
use crate::roofline::{Roofline, StepWork};

/// Parameters of `batching`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchingConfig {
    /// How long a step takes.
    pub roofline: Roofline,
    /// Sequences in a step.
    pub max_seqs: u32,
    /// Tokens in a step: prompts are cut into pieces of at most this size.
    pub chunk: u32,
    /// KV blocks of 16 tokens.
    pub kv_blocks: u32,
    /// Longest prompt and answer together.
    pub context: u32,
    /// Keep finished blocks for later prompts.
    pub prefix_cache: bool,
    /// At most this many wait; more are turned away.
    pub queue: Option<u32>,
    /// Coefficient of variation of the step time; 0: none.
    pub noise: f64,
    /// Seed of the noise.
    pub seed: u64,
}

#[derive(Debug)]
struct Sequence {
    job: Job,
    arrived: Nanos,
    /// Tokens whose KV is in blocks.
    computed: u32,
    /// Tokens produced.
    produced: u32,
    /// Tokens computed by the step under way.
    in_step: u32,
    blocks: Vec<Block>,
    /// Blocks that have been named in the prefix cache.
    named: usize,
    started: bool,
}

impl Sequence {
    /// Tokens known so far: the prompt and what was produced.
    fn known(&self) -> u32 {
        self.job.input_tokens + self.produced
    }
}

/// The engine.
#[derive(Debug)]
pub struct Batching {
    config: BatchingConfig,
    pool: KvPool,
    sequences: IdMap<JobId, Sequence>,
    waiting: VecDeque<JobId>,
    /// In order of admission.
    running: Vec<JobId>,
    refused: Vec<Emission>,
    /// End of the step under way.
    step_end: Option<Nanos>,
    now: Nanos,
    next_id: u64,
    gauges: Gauges,
}

impl Batching {
    /// An idle engine.
    pub fn new(config: BatchingConfig) -> Self {
        Self {
            pool: KvPool::new(config.kv_blocks, config.prefix_cache),
            config,
            sequences: IdMap::default(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            refused: Vec::new(),
            step_end: None,
            now: Nanos::ZERO,
            next_id: 0,
            gauges: Gauges { kv_blocks_total: config.kv_blocks, ..Gauges::default() },
        }
    }

    /// The longest request that can ever run.
    fn limit(&self) -> u32 {
        self.config.context.min(self.config.kv_blocks.saturating_mul(BLOCK_TOKENS))
    }

    /// When an idle engine at `present` would begin its next step.
    fn next_start(&self, present: Nanos) -> Option<Nanos> {
        if !self.running.is_empty() {
            return Some(present);
        }
        let first = self.sequences.get(self.waiting.front()?)?;
        Some(present.max(first.arrived))
    }

    /// Gives `id` blocks for `tokens` tokens in all; takes them from the youngest running sequences
    /// if it must. `false`: `id` itself was the youngest and has been sent back to the queue.
    fn make_room(&mut self, id: JobId, tokens: u32) -> bool {
        loop {
            let Some(sequence) = self.sequences.get_mut(&id) else { return false };
            let wanted = tokens.div_ceil(BLOCK_TOKENS).saturating_sub(sequence.blocks.len() as u32);
            if self.pool.take(wanted, &mut sequence.blocks) {
                return true;
            }
            let Some(victim) = self.running.pop() else { return false };
            if let Some(sequence) = self.sequences.get_mut(&victim) {
                self.pool.give_back(&mut sequence.blocks);
                sequence.computed = 0;
                sequence.in_step = 0;
                sequence.named = 0;
            }
            self.waiting.push_front(victim);
            self.gauges.preemptions += 1;
            if victim == id {
                return false;
            }
        }
    }

    /// Plans the step that begins at `begin`; sets `step_end` unless there is nothing to do.
    fn plan(&mut self, begin: Nanos, out: &mut Vec<Emission>) {
        let mut budget = self.config.chunk.max(1);
        let preempted_before = self.gauges.preemptions;
        let mut at = 0;
        // Running sequences first, oldest first; the list shrinks from its end when one is preempted.
        while at < self.running.len() && budget > 0 {
            let id = self.running[at];
            let (computed, left) = match self.sequences.get(&id) {
                Some(s) => (s.computed, s.known() - s.computed),
                None => (0, 0),
            };
            let new = left.min(budget);
            if !self.make_room(id, computed + new) {
                break;
            }
            if let Some(sequence) = self.sequences.get_mut(&id) {
                sequence.in_step = new;
            }
            budget -= new;
            at += 1;
        }
        if self.gauges.preemptions == preempted_before {
            self.admit(begin, &mut budget, out);
        }
        let mut work = StepWork::default();
        for id in &self.running {
            let Some(s) = self.sequences.get(id).filter(|s| s.in_step > 0) else { continue };
            let (new, old) = (u64::from(s.in_step), u64::from(s.computed));
            work.tokens += new;
            work.sequences += 1;
            // Token j of the piece sees the old context and the piece up to itself.
            work.attended += new * old + new * (new + 1) / 2;
            work.context += old;
        }
        if work.tokens > 0 {
            let factor = draw::wobble(self.config.noise, self.config.seed, self.gauges.steps);
            let duration = (self.config.roofline.step(&work).0 as f64 * factor).round().max(1.0);
            self.step_end = Some(begin + Nanos(duration as u64));
        }
    }

    fn admit(&mut self, begin: Nanos, budget: &mut u32, out: &mut Vec<Emission>) {
        while *budget > 0 && (self.running.len() as u32) < self.config.max_seqs.max(1) {
            let Some(&id) = self.waiting.front() else { return };
            let Some(sequence) = self.sequences.get_mut(&id) else {
                self.waiting.pop_front();
                continue;
            };
            if sequence.arrived > begin {
                return;
            }
            // The last token must be computed, or there would be nothing to sample from.
            let known = sequence.known();
            let usable = (((known - 1) / BLOCK_TOKENS) as usize).min(sequence.job.blocks.len());
            let hashes: &[u64] = if self.config.prefix_cache { &sequence.job.blocks[..usable] } else { &[] };
            let (hit, idle) = self.pool.lookup(hashes);
            let cached = hit as u32 * BLOCK_TOKENS;
            let new = (known - cached).min(*budget);
            let fresh = (cached + new).div_ceil(BLOCK_TOKENS) - hit as u32;
            if fresh + idle > self.pool.free() {
                return;
            }
            self.pool.share(&hashes[..hit], &mut sequence.blocks);
            if !self.pool.take(fresh, &mut sequence.blocks) {
                // Cannot be: the blocks have just been counted.
                self.pool.give_back(&mut sequence.blocks);
                return;
            }
            sequence.computed = cached;
            sequence.named = hit;
            sequence.in_step = new;
            *budget -= new;
            self.gauges.prefix_hits += u64::from(cached);
            if self.config.prefix_cache {
                self.gauges.prefix_queries += u64::from(known);
            }
            if !sequence.started {
                sequence.started = true;
                out.push(Emission { job: id, at: begin, event: Event::Started { cached } });
            }
            self.waiting.pop_front();
            self.running.push(id);
        }
    }

    /// Books the results of the step that ends at `at`.
    fn finish_step(&mut self, at: Nanos, out: &mut Vec<Emission>) {
        self.gauges.steps += 1;
        let pool = &mut self.pool;
        let sequences = &mut self.sequences;
        self.running.retain(|id| {
            let Some(s) = sequences.get_mut(id) else { return false };
            s.computed += std::mem::take(&mut s.in_step);
            let full = ((s.computed.min(s.job.input_tokens)) / BLOCK_TOKENS) as usize;
            while s.named < full.min(s.job.blocks.len()).min(s.blocks.len()) {
                pool.name(s.blocks[s.named], s.job.blocks[s.named]);
                s.named += 1;
            }
            if s.computed < s.known() {
                return true;
            }
            s.produced += 1;
            out.push(Emission { job: *id, at, event: Event::Tokens(1) });
            if s.produced < s.job.output_tokens {
                return true;
            }
            out.push(Emission { job: *id, at, event: Event::Finished });
            pool.give_back(&mut s.blocks);
            sequences.remove(id);
            false
        });
    }
}

impl Engine for Batching {
    fn submit(&mut self, now: Nanos, job: Job) -> JobId {
        let id = JobId(self.next_id);
        self.next_id += 1;
        let arrived = now.max(self.now);
        let needed = job.input_tokens.saturating_add(job.output_tokens);
        let waiting = self.waiting.len() as u32;
        let refusal = if needed > self.limit() {
            Some(Rejection::Context { needed, limit: self.limit() })
        } else if self.config.queue.is_some_and(|q| waiting >= q && waiting > 0) {
            Some(Rejection::QueueFull { waiting })
        } else {
            None
        };
        if let Some(why) = refusal {
            self.refused.push(Emission { job: id, at: arrived, event: Event::Rejected(why) });
            return id;
        }
        let sequence = Sequence {
            job,
            arrived,
            computed: 0,
            produced: 0,
            in_step: 0,
            blocks: Vec::new(),
            named: 0,
            started: false,
        };
        self.sequences.insert(id, sequence);
        self.waiting.push_back(id);
        id
    }

    fn cancel(&mut self, _now: Nanos, id: JobId) {
        if let Some(mut sequence) = self.sequences.remove(&id) {
            // The step under way still takes its time.
            self.pool.give_back(&mut sequence.blocks);
            self.waiting.retain(|other| *other != id);
            self.running.retain(|other| *other != id);
        }
        self.refused.retain(|e| e.job != id);
    }

    fn next_event(&self) -> Option<Nanos> {
        let refused = self.refused.first().map(|e| e.at);
        let start = self.step_end.is_none().then(|| self.next_start(self.now)).flatten();
        [refused, start, self.step_end].into_iter().flatten().min()
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Emission>) {
        let first = out.len();
        out.append(&mut self.refused);
        let mut present = self.now;
        loop {
            let begin = match self.step_end {
                Some(end) if end > to => break,
                Some(end) => {
                    self.step_end = None;
                    self.finish_step(end, out);
                    present = end;
                    end
                }
                None => match self.next_start(present) {
                    Some(begin) if begin <= to => begin,
                    _ => break,
                },
            };
            let preemptions = self.gauges.preemptions;
            self.plan(begin, out);
            if self.step_end.is_none() && self.gauges.preemptions == preemptions && present == begin {
                // Nothing can run at this moment: the rest waits for a later arrival.
                match self.next_start(begin) {
                    Some(later) if later > begin => present = later,
                    _ => break,
                }
            }
        }
        out[first..].sort_by_key(|e| e.at);
        self.now = self.now.max(to);
    }

    fn gauges(&self) -> Gauges {
        Gauges {
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u32,
            kv_blocks_used: self.pool.total() - self.pool.free(),
            ..self.gauges
        }
    }
}
