//! One answer on its way out: tokens in, bytes out. Sans-IO; the timing is the caller's.

mod events;

use serde_json::json;

use super::http;
use super::prepare::{Generation, error_body};
use crate::config::{RoleMode, SimConfig, UsageMode};
use crate::faults::Fault;

/// What is to be written, and what follows.
#[derive(Debug, Default)]
pub struct Output {
    /// Bytes for single writes, in order, each with the tokens in it.
    pub writes: Vec<(Vec<u8>, u32)>,
    /// What then.
    pub then: Then,
}

/// What follows a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Then {
    /// More tokens.
    #[default]
    Continue,
    /// The answer is complete.
    Done,
    /// The answer is over; close the connection in order.
    Close,
    /// Reset the connection.
    Reset,
    /// Nothing for this long (ns); `None`: for ever.
    Stall(Option<u64>),
}

/// An answer on its way out.
#[derive(Debug)]
pub struct Answer {
    generation: Box<Generation>,
    number: u64,
    request_id: Option<String>,
    keep_alive: bool,
    chunked: bool,
    /// Begin of every event up to the token's text, with id and model.
    prefix: String,
    /// Tokens delivered to the client or into `text`.
    sent: u32,
    /// Tokens produced and not yet delivered.
    pending: u32,
    head_sent: bool,
    role_sent: bool,
    /// The fault has struck; what it holds back stays back until `release`.
    struck: bool,
    held: bool,
    /// The whole answer so far, where it is needed.
    text: String,
    reasoning_text: String,
    /// Held back by `buffered`.
    buffer: Vec<u8>,
    buffered_tokens: u32,
    /// Status that the client has been given; 0: none yet.
    pub status: u16,
    /// Finish reason that the client has been given.
    pub finish: Option<&'static str>,
    /// Prompt tokens from the prefix cache.
    pub cached: u32,
}

impl Answer {
    /// An answer of which nothing has been sent.
    pub fn new(
        config: &SimConfig,
        generation: Box<Generation>,
        number: u64,
        request_id: Option<String>,
        http11: bool,
        keep_alive: bool,
        created: i64,
    ) -> Self {
        let (kind, object) = match (generation.chat, generation.stream) {
            (true, true) => ("chatcmpl", "chat.completion.chunk"),
            (true, false) => ("chatcmpl", "chat.completion"),
            (false, _) => ("cmpl", "text_completion"),
        };
        let id = request_id.clone().unwrap_or_else(|| format!("sim-{number}"));
        let id = json!(format!("{kind}-{id}"));
        let prefix = format!(
            "{{\"id\":{id},\"object\":\"{object}\",\"created\":{created},\"model\":{},",
            json!(config.model)
        );
        Self {
            generation,
            number,
            request_id,
            keep_alive: keep_alive && http11,
            chunked: http11,
            prefix,
            sent: 0,
            pending: 0,
            head_sent: false,
            role_sent: false,
            struck: false,
            held: false,
            text: String::new(),
            reasoning_text: String::new(),
            buffer: Vec::new(),
            buffered_tokens: 0,
            status: 0,
            finish: None,
            cached: 0,
        }
    }

    /// Whether the connection may be used again after a complete answer.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive && (self.chunked || !self.generation.stream)
    }

    /// The head of a chunked event stream is out, and more is to come.
    pub fn streaming(&self) -> bool {
        self.head_sent && self.chunked && self.generation.stream
    }

    /// Work for the engine.
    pub fn job(&self) -> &crate::engine::Job {
        &self.generation.job
    }

    /// The fault that strikes this answer.
    pub fn fault(&self) -> Option<Fault> {
        self.generation.fault
    }

    /// Tokens that the usage counts so far.
    pub fn completion_tokens(&self) -> u32 {
        if matches!(self.generation.fault, Some(Fault::Empty)) {
            return 0;
        }
        let echoed =
            if self.generation.echo.is_some() && self.sent > 0 { self.job().input_tokens } else { 0 };
        self.sent + echoed
    }

    /// The request has been accepted by the engine.
    pub fn accepted(&mut self, config: &SimConfig) -> Output {
        let mut out = Output::default();
        if self.generation.stream && config.shape.headers_at_once {
            let mut bytes = self.head();
            if config.shape.role == RoleMode::Separate {
                self.role(config, &mut bytes);
            }
            self.emit(config, &mut out, bytes, 0);
        }
        out
    }

    /// The engine has produced `tokens` more; `finished`: these were the last.
    pub fn produced(&mut self, config: &SimConfig, tokens: u32, finished: bool) -> Output {
        self.pending += tokens;
        if self.held {
            return Output::default();
        }
        if self.generation.stream { self.stream(config, finished) } else { self.whole(config, finished) }
    }

    /// The stall is over; `finished`: the engine had produced everything meanwhile.
    pub fn release(&mut self, config: &SimConfig, finished: bool) -> Output {
        self.held = false;
        self.produced(config, 0, finished)
    }

    /// Tokens that the fault lets through first; `None`: it does not wait for tokens, or has struck.
    fn threshold(&self) -> Option<u32> {
        match self.generation.fault {
            _ if self.struck => None,
            Some(
                Fault::ErrorInStream(k)
                | Fault::Truncate(k)
                | Fault::Reset(k)
                | Fault::Malformed(k)
                | Fault::Stall { tokens: k, .. },
            ) => Some(k),
            _ => None,
        }
    }

    fn stream(&mut self, config: &SimConfig, finished: bool) -> Output {
        let mut out = Output::default();
        let per_chunk = config.shape.tokens_per_chunk;
        loop {
            if self.threshold().is_some_and(|k| self.sent >= k || (finished && self.pending == 0)) {
                self.struck = true;
                if let Some(then) = self.strike(config, &mut out) {
                    out.then = then;
                    return out;
                }
            }
            let mut k = self.pending.min(per_chunk);
            if let Some(threshold) = self.threshold() {
                k = k.min(threshold - self.sent);
            }
            let whole_chunk = k == per_chunk || self.threshold().is_some_and(|t| self.sent + k == t);
            if k == 0 || !(whole_chunk || finished) {
                break;
            }
            self.pending -= k;
            let last = finished && self.pending == 0;
            if matches!(self.generation.fault, Some(Fault::Empty)) {
                continue;
            }
            let mut bytes = self.head();
            if config.shape.role != RoleMode::None {
                self.role(config, &mut bytes);
            }
            self.tokens(config, k, last, &mut bytes);
            self.emit(config, &mut out, bytes, k);
        }
        // The engine may say "finished" while the fault still waits for its strike at the very end.
        if finished {
            self.finish_stream(config, &mut out);
        }
        out
    }

    /// Whether the chunk of `k` tokens that ends the answer carries the finish reason too.
    fn joins_finish(&self, config: &SimConfig) -> bool {
        config.shape.finish_joined && self.threshold().is_none()
    }

    fn finish_stream(&mut self, config: &SimConfig, out: &mut Output) {
        let mut bytes = self.head();
        if matches!(self.generation.fault, Some(Fault::Empty)) && config.shape.role != RoleMode::None {
            self.role(config, &mut bytes);
        }
        if self.finish.is_none() {
            let reason = self.generation.finish;
            self.finish = Some(reason);
            let event = if self.generation.chat {
                format!(
                    "{}\"choices\":[{{\"index\":0,\"delta\":{{}},\"logprobs\":null,\"finish_reason\":\"{reason}\",\"stop_reason\":null}}]",
                    self.prefix
                )
            } else {
                format!(
                    "{}\"choices\":[{{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"{reason}\",\"stop_reason\":null}}]",
                    self.prefix
                )
            };
            self.event(config, event, &mut bytes);
        }
        let usage = match config.shape.usage {
            UsageMode::Always | UsageMode::Continuous => true,
            UsageMode::Asked => self.generation.include_usage,
            UsageMode::Never => false,
        };
        if usage {
            let event = format!("{}\"choices\":[],\"usage\":{}}}", self.prefix, self.usage());
            self.frame(&format!("data: {event}\n\n"), &mut bytes);
        }
        if config.shape.done {
            self.frame("data: [DONE]\n\n", &mut bytes);
        }
        if self.chunked {
            bytes.extend_from_slice(b"0\r\n\r\n");
        }
        self.buffer.extend_from_slice(&bytes);
        out.writes.push((std::mem::take(&mut self.buffer), std::mem::take(&mut self.buffered_tokens)));
        out.then = if self.keep_alive() { Then::Done } else { Then::Close };
    }

    /// The fault strikes; `Some`: the answer ends or pauses with it.
    fn strike(&mut self, config: &SimConfig, out: &mut Output) -> Option<Then> {
        match self.generation.fault {
            Some(Fault::ErrorInStream(_)) => {
                let mut bytes = self.head();
                let body = error_body(500, "InternalServerError", None, "EngineCore encountered an issue.");
                self.frame(
                    &format!("data: {}\n\ndata: [DONE]\n\n", String::from_utf8_lossy(&body)),
                    &mut bytes,
                );
                if self.chunked {
                    bytes.extend_from_slice(b"0\r\n\r\n");
                }
                self.push_all(out, bytes);
                Some(if self.keep_alive() { Then::Done } else { Then::Close })
            }
            Some(Fault::Truncate(_)) => {
                let bytes = self.head();
                self.push_all(out, bytes);
                Some(Then::Close)
            }
            Some(Fault::Reset(_)) => {
                let bytes = self.head();
                self.push_all(out, bytes);
                Some(Then::Reset)
            }
            Some(Fault::Stall { span, .. }) => {
                self.held = true;
                Some(Then::Stall(span.map(|s| s.0)))
            }
            Some(Fault::Malformed(_)) => {
                let mut bytes = self.head();
                let event =
                    format!("data: {}\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\n\n", self.prefix);
                self.frame(&event, &mut bytes);
                self.emit(config, out, bytes, 0);
                None
            }
            _ => None,
        }
    }

    /// Queues bytes for a write, or keeps them when the stream is buffered.
    fn emit(&mut self, config: &SimConfig, out: &mut Output, bytes: Vec<u8>, tokens: u32) {
        if config.shape.buffered {
            self.buffer.extend_from_slice(&bytes);
            self.buffered_tokens += tokens;
        } else if !bytes.is_empty() {
            out.writes.push((bytes, tokens));
        }
    }

    /// Queues everything, buffered or not.
    fn push_all(&mut self, out: &mut Output, bytes: Vec<u8>) {
        self.buffer.extend_from_slice(&bytes);
        if !self.buffer.is_empty() {
            out.writes.push((std::mem::take(&mut self.buffer), std::mem::take(&mut self.buffered_tokens)));
        }
    }

    /// The answer in one piece.
    fn whole(&mut self, config: &SimConfig, finished: bool) -> Output {
        let mut out = Output::default();
        if !finished {
            return out;
        }
        if !self.struck
            && let Some(Fault::Stall { span, .. }) = self.generation.fault
        {
            self.struck = true;
            self.held = true;
            out.then = Then::Stall(span.map(|s| s.0));
            return out;
        }
        self.sent += std::mem::take(&mut self.pending);
        let fault = self.generation.fault;
        if let Some(Fault::ErrorInStream(_)) = fault {
            self.status = 500;
            let body = error_body(500, "InternalServerError", None, "EngineCore encountered an issue.");
            let id = self.request_id.as_deref();
            out.writes.push((http::answer(500, "application/json", id, self.keep_alive, &body), 0));
            out.then = if self.keep_alive { Then::Done } else { Then::Close };
            return out;
        }
        if let Some(Fault::Reset(_)) = fault {
            out.then = Then::Reset;
            return out;
        }
        let mut body = self.whole_body(config);
        if let Some(Fault::Malformed(_)) = fault {
            body.truncate(body.len() / 2);
        }
        self.status = 200;
        let id = self.request_id.as_deref();
        let mut bytes = http::answer(200, "application/json", id, self.keep_alive, body.as_bytes());
        out.then = if self.keep_alive { Then::Done } else { Then::Close };
        if let Some(Fault::Truncate(_)) = fault {
            bytes.truncate(bytes.len() - body.len() / 2);
            out.then = Then::Close;
        } else {
            self.finish = Some(self.generation.finish);
        }
        out.writes.push((bytes, self.completion_tokens()));
        out
    }
}
