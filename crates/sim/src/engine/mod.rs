//! The contract of an engine model: jobs go in, dated emissions come out. Pure, integer nanoseconds.

pub mod batching;
pub mod fifo;
pub mod fixed;
pub mod kv;

use std::sync::Arc;

use spec::Nanos;

/// Tokens of a KV block, and of a block of the prefix cache.
pub const BLOCK_TOKENS: u32 = 16;

/// What an engine is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Tokens of the prompt, at least 1.
    pub input_tokens: u32,
    /// Tokens that will be generated, at least 1.
    pub output_tokens: u32,
    /// Chained hashes of the prompt's full 16-token blocks, for the prefix cache. May be empty or
    /// shorter than the prompt: tokens without a hash are never shared.
    pub blocks: Arc<[u64]>,
}

impl Job {
    /// A job that shares nothing with any other.
    pub fn new(input_tokens: u32, output_tokens: u32) -> Self {
        Self { input_tokens: input_tokens.max(1), output_tokens: output_tokens.max(1), blocks: Arc::new([]) }
    }
}

/// Identity of a submitted job, unique in its engine, counted from 0 in order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// Something that an engine did at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emission {
    /// Whose.
    pub job: JobId,
    /// When, in engine time.
    pub at: Nanos,
    /// What.
    pub event: Event,
}

/// What an engine did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The job left the queue for the first time; this many prompt tokens came from the prefix cache.
    Started {
        /// Prompt tokens that need not be computed.
        cached: u32,
    },
    /// This many tokens were produced.
    Tokens(u32),
    /// The last token has been produced.
    Finished,
    /// The job was turned away.
    Rejected(Rejection),
}

/// Why a job was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Prompt and answer are longer than the engine can hold.
    #[error("the request needs {needed} tokens of context and the engine holds {limit}; ask for less")]
    Context {
        /// Prompt and answer.
        needed: u32,
        /// What the engine holds for one request.
        limit: u32,
    },
    /// The waiting queue is full.
    #[error("{waiting} requests wait already, which is this engine's limit; try again later")]
    QueueFull {
        /// Requests waiting.
        waiting: u32,
    },
}

/// State of an engine at its last advance, for `/metrics` and for tests.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gauges {
    /// Jobs being worked on.
    pub running: u32,
    /// Jobs waiting.
    pub waiting: u32,
    /// KV blocks held by jobs.
    pub kv_blocks_used: u32,
    /// KV blocks that exist; 0: the model has no such limit.
    pub kv_blocks_total: u32,
    /// Times that a running job lost its blocks and had to start again.
    pub preemptions: u64,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Prompt tokens found there.
    pub prefix_hits: u64,
    /// Steps done.
    pub steps: u64,
}

impl Gauges {
    /// Share of the KV blocks in use, 0 where there is no limit.
    pub fn kv_usage(&self) -> f64 {
        if self.kv_blocks_total == 0 {
            0.0
        } else {
            f64::from(self.kv_blocks_used) / f64::from(self.kv_blocks_total)
        }
    }
}

/// An engine model. Time is whatever the caller says; it never runs backwards in `advance`.
pub trait Engine: Send {
    /// A job arrives at `now`. A moment before the last `advance` is allowed (the caller took time to
    /// look at the job): an engine without a queue honours it, one with a queue lets the job wait
    /// from its own present on.
    fn submit(&mut self, now: Nanos, job: Job) -> JobId;
    /// Forgets a job, done or not; no further emission of it. Unknown ids are ignored.
    fn cancel(&mut self, now: Nanos, id: JobId);
    /// When `advance` will next have something to do; `None`: idle.
    fn next_event(&self) -> Option<Nanos>;
    /// Does everything that is due up to and including `to`, in order of time.
    fn advance(&mut self, to: Nanos, out: &mut Vec<Emission>);
    /// The state after the last `advance`.
    fn gauges(&self) -> Gauges;
}
