//! One request as it ended: the row that every number is computed from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{Nanos, Phase};

use crate::chunks::Chunks;

/// One request as it ended. All moments are nanoseconds since the run's origin on the monotonic
/// clock (definitions §1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Position in the plan.
    pub seq: u64,
    /// The phase in which it was intended.
    pub phase: Phase,
    /// Closed loop: which user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// The sending thread.
    pub lane: u16,
    /// When the plan wanted it to leave, or when its slot became free.
    pub intended: Nanos,
    /// When it left the pacer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatched: Option<Nanos>,
    /// When a cap let it go, if it waited at one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted: Option<Nanos>,
    /// The connection it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<Connection>,
    /// Just before its first byte went to the socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_begin: Option<Nanos>,
    /// Just after its last byte went to the socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_end: Option<Nanos>,
    /// Response head complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Nanos>,
    /// The protocol's own end: finish reason or `[DONE]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<Nanos>,
    /// The end of the body, or of the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<Nanos>,
    /// How it ended.
    pub state: State,
    /// HTTP status, if a head came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Whether the answer was a stream.
    pub streamed: bool,
    /// Every event that carried output, in order.
    #[serde(with = "crate::columns", default, skip_serializing_if = "Chunks::is_empty")]
    pub chunks: Chunks,
    /// Reads that carried output (several chunks of one read share its stamp).
    pub output_reads: u32,
    /// Token counts of the input.
    pub input: InputTokens,
    /// Token counts of the output.
    pub output: OutputTokens,
    /// Why the model stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// Attempts made, 1 without retries. Latencies run from the first.
    pub attempts: u32,
    /// Identity of the prompt.
    pub prompt: PromptIdentity,
    /// The server's id of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// What was odd about the answer without making it a failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub oddities: Vec<Oddity>,
    /// Chunks whose text strictly extends the text of the chunk before: a cumulative stream.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cumulative_chunks: u32,
    /// Longest run of such chunks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cumulative_run: u32,
    /// Length of the longest common prefix of answer and prompt, in tokens of about 4 bytes.
    /// `None`: not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo_tokens: Option<u32>,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// How a request ended (definitions §3). Every scheduled request has exactly one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// Ended well.
    Ok,
    /// Ended badly.
    Failed {
        /// What kind of failure.
        class: FailureClass,
        /// What came, in words, with the first bytes where that helps. Secrets are redacted.
        detail: String,
    },
    /// Cut by one of our limits.
    TimedOut {
        /// Which limit.
        limit: TimeoutKind,
    },
    /// Cut by us at the end of the window, or by Ctrl-C.
    Cancelled,
    /// The plan wanted it, a cap or the end of the run prevented it; never sent.
    Shed,
}

impl State {
    /// Ended well.
    pub fn is_ok(&self) -> bool {
        matches!(self, State::Ok)
    }
    /// Its latency is known only to exceed what was observed.
    pub fn is_censored(&self) -> bool {
        matches!(self, State::TimedOut { .. } | State::Cancelled)
    }
}

/// Classes of failure (definitions §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// No connection.
    Connect,
    /// No TLS session.
    Tls,
    /// A client error other than 429.
    #[serde(rename = "http_4xx")]
    Http4xx,
    /// Too many requests.
    #[serde(rename = "http_429")]
    Http429,
    /// A server error, or another status that is no success.
    #[serde(rename = "http_5xx")]
    Http5xx,
    /// An error inside a 200 stream.
    ServerError,
    /// Closed before its end.
    Truncated,
    /// A success without output.
    Empty,
    /// Malformed.
    Protocol,
}

impl FailureClass {
    /// Every class, in the order shown.
    pub const ALL: [FailureClass; 9] = [
        FailureClass::Connect,
        FailureClass::Tls,
        FailureClass::Http4xx,
        FailureClass::Http429,
        FailureClass::Http5xx,
        FailureClass::ServerError,
        FailureClass::Truncated,
        FailureClass::Empty,
        FailureClass::Protocol,
    ];
    /// As written in records.
    pub fn name(self) -> &'static str {
        match self {
            FailureClass::Connect => "connect",
            FailureClass::Tls => "tls",
            FailureClass::Http4xx => "http_4xx",
            FailureClass::Http429 => "http_429",
            FailureClass::Http5xx => "http_5xx",
            FailureClass::ServerError => "server_error",
            FailureClass::Truncated => "truncated",
            FailureClass::Empty => "empty",
            FailureClass::Protocol => "protocol",
        }
    }
}

/// Which of our limits cut a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutKind {
    /// No connection in time.
    Connect,
    /// No output in time.
    FirstToken,
    /// No byte for the idle limit.
    Stalled,
    /// Not ended in time.
    Total,
}

impl TimeoutKind {
    /// As written in records.
    pub fn name(self) -> &'static str {
        match self {
            TimeoutKind::Connect => "connect",
            TimeoutKind::FirstToken => "first_token",
            TimeoutKind::Stalled => "stalled",
            TimeoutKind::Total => "total",
        }
    }
}

/// One server-sent event that carried output, or the whole answer where nothing was streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Kernel receive time of the read that completed it, or `seen` without kernel stamps.
    pub arrival: Nanos,
    /// When the program saw it.
    pub seen: Nanos,
    /// Earliest moment at which it can have arrived: `arrival` with a kernel stamp, else the end
    /// of the lane's previous poll.
    pub earliest: Nanos,
    /// `arrival` is the kernel's.
    pub kernel: bool,
    /// Number of the read within the answer; chunks of one read share it.
    pub read: u32,
    /// What it carries.
    pub kind: Kind,
    /// Tokens, where the event itself tells (running usage, token ids, log-probs).
    pub tokens: Option<u32>,
    /// Bytes of text.
    pub text_bytes: u32,
    /// Choice index (`n` > 1).
    pub choice: u16,
}

/// What a chunk carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Answer text.
    Answer,
    /// Thinking.
    Reasoning,
    /// A tool or function call.
    ToolCall,
    /// A refusal.
    Refusal,
}

/// Token counts of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InputTokens {
    /// What the plan asked for, by our tokenizer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned: Option<u32>,
    /// What the prompt really has, by our tokenizer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<u32>,
    /// The server's usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<u32>,
    /// Of these, from the server's prefix cache, where it reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<u32>,
    /// Tokens that the plan itself shares with other prompts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shared: u32,
}

/// Token counts of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutputTokens {
    /// What was asked for; `None`: natural length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<u32>,
    /// Whether the length was forced, so that delivered must equal asked.
    pub forced: bool,
    /// The server's usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<u32>,
    /// Of these, thinking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u32>,
    /// Our tokenizer over the whole joined text, without special tokens; filled after the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retokenised: Option<u32>,
}

/// The connection a request used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// Its number on the lane.
    pub id: u32,
    /// It had carried a request before.
    pub reused: bool,
    /// TCP handshake, if this request waited for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<Nanos>,
    /// TLS handshake, if this request waited for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Nanos>,
    /// Earlier connections that the server had closed while idle and that died before any byte of
    /// an answer; the request went out again on a new one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stale: u32,
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// By itself or at a stop string.
    Stop,
    /// At the length limit.
    Length,
    /// To call a tool.
    ToolCalls,
    /// A filter.
    ContentFilter,
    /// Another word of the server's.
    Other(String),
}

impl Finish {
    /// As written in records.
    pub fn name(&self) -> &str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ToolCalls => "tool_calls",
            Finish::ContentFilter => "content_filter",
            Finish::Other(word) => word,
        }
    }
}

/// Hashes that tell prompts apart without keeping them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PromptIdentity {
    /// Of the first 16 tokens (or 64 bytes without a tokenizer).
    pub first16: u64,
    /// Of the first 64 tokens (or 256 bytes).
    pub first64: u64,
    /// Of the whole prompt.
    pub whole: u64,
}

/// What was odd about an answer without making it a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Oddity {
    /// A stream was asked for, a plain JSON body came.
    NotStreamed,
    /// A complete last event had no blank line after it.
    UnterminatedEvent,
    /// The finish reason came, `[DONE]` did not.
    NoDone,
    /// `[DONE]` came without a finish reason.
    NoFinish,
    /// Usage and the sum of per-chunk counts differ.
    CountMismatch,
    /// Usage was asked for and did not come.
    NoUsage,
    /// More than one choice.
    SeveralChoices,
    /// Some time ran backwards between two stamps and was clamped.
    ClampedStamp,
    /// This machine had no file or port left for a connection: the server never heard of the request.
    OwnLimit,
}
