//! What goes out and what comes back: the items that pass between source, lanes and journal.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use bytes::Bytes;
use plan::Intent;
use record::{
    Chunks, Entry, FailureClass, InputTokens, OutputTokens, PromptIdentity, Request, State, TimeoutKind,
};
use spec::{Nanos, Phase};

use crate::dialect::Asked;

/// One request, ready to be sent: serialised before it is due.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// What the plan wanted.
    pub intent: Intent,
    /// The body.
    pub body: Bytes,
    /// What the body asks for, after every merge.
    pub asked: Asked,
    /// Identity of the prompt.
    pub prompt: PromptIdentity,
    /// Token counts of the input, as far as this side knows them.
    pub input: InputTokens,
    /// The prompt (in chat the last message), to tell an answer that repeats it.
    pub text: Option<Arc<str>>,
}

/// A request that could not be made up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("request {seq} could not be made: {why}")]
pub struct SourceError {
    /// Position in the plan.
    pub seq: u64,
    /// Why.
    pub why: String,
}

/// Makes requests up. Runs on a thread of its own, ahead of time; it may be slow, but must return.
pub trait Source: Send {
    /// The request of `intent`. Called in the order of the plan.
    fn next(&mut self, intent: Intent) -> Result<Outgoing, SourceError>;
}

impl<F: FnMut(Intent) -> Result<Outgoing, SourceError> + Send> Source for F {
    fn next(&mut self, intent: Intent) -> Result<Outgoing, SourceError> {
        self(intent)
    }
}

/// What a run gives off, in the order in which it happens. The channel is unbounded: no lane ever
/// waits for the journal.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are the large one")]
pub enum Output {
    /// The first item: the origin of the run is fixed.
    Began {
        /// The origin on `CLOCK_MONOTONIC`, in nanoseconds.
        monotonic_origin_ns: u64,
        /// The origin on the wall clock, in nanoseconds since the Unix epoch. A label.
        wall_origin_ns: i64,
    },
    /// A request has ended.
    Heard {
        /// Its row.
        request: Request,
        /// The joined text of the answer.
        text: Option<String>,
    },
    /// A sample of the instrument, the machine, the clocks or the server.
    Sample(Entry),
    /// The last item that counts: the run has ended, well or not. Do not wait for the channel to
    /// close: a thread that was left behind may hold its end for ever.
    Ended,
}

/// What comes out of a run, for the thread that keeps its books; it ends when every sender is gone.
///
/// A reader that waits in the channel is woken by each send, and the lane that sends pays for it: a call
/// into the kernel for each request. This one looks some hundred times a second and takes all that has come.
pub fn outputs(receiver: &Receiver<Output>) -> impl Iterator<Item = Output> {
    const LOOK: Duration = Duration::from_millis(5);
    std::iter::from_fn(move || {
        loop {
            match receiver.try_recv() {
                Ok(output) => return Some(output),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => std::thread::sleep(LOOK),
            }
        }
    })
}

/// A request on its way to a lane.
#[derive(Debug)]
pub(crate) struct Order {
    pub outgoing: Outgoing,
    pub phase: Phase,
    pub user: Option<u32>,
    pub intended: Nanos,
    pub dispatched: Nanos,
}

impl Order {
    /// Its row before anything has happened.
    pub fn row(&self, lane: u16) -> Request {
        let Outgoing { intent, asked, prompt, input, .. } = &self.outgoing;
        let output =
            OutputTokens { asked: asked.output_tokens, forced: asked.forced, ..OutputTokens::default() };
        Request {
            dispatched: Some(self.dispatched),
            user: self.user,
            lane,
            phase: self.phase,
            streamed: asked.stream,
            input: *input,
            output,
            prompt: *prompt,
            ..shed_row(intent, self.intended)
        }
    }
}

/// The row of a request that was due and never sent.
pub(crate) fn shed_row(intent: &Intent, intended: Nanos) -> Request {
    Request {
        seq: intent.seq,
        phase: intent.phase,
        user: None,
        lane: 0,
        intended,
        dispatched: None,
        admitted: None,
        connection: None,
        write_begin: None,
        write_end: None,
        headers: None,
        done: None,
        closed: None,
        state: State::Shed,
        status: None,
        streamed: false,
        chunks: Chunks::default(),
        output_reads: 0,
        input: InputTokens { planned: intent.isl, ..InputTokens::default() },
        output: OutputTokens { asked: intent.osl, ..OutputTokens::default() },
        finish: None,
        attempts: 0,
        prompt: PromptIdentity::default(),
        server_id: None,
        oddities: Vec::new(),
        cumulative_chunks: 0,
        cumulative_run: 0,
        echo_tokens: None,
    }
}

pub(crate) fn failed(class: FailureClass, detail: impl Into<String>) -> State {
    State::Failed { class, detail: detail.into() }
}

pub(crate) fn timed_out(limit: TimeoutKind) -> State {
    State::TimedOut { limit }
}
