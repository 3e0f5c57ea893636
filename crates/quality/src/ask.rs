//! What a task asks of a server, and what came back.

use serde::{Deserialize, Serialize};

/// One question to a server. A task says what it wants; the mode (echo, prompt log-probs, a walk) is
/// chosen by what the server was proven to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ask {
    /// Text after a prompt.
    Generate(Generate),
    /// The log-probability of `continuation` after `context`, natural log. An empty context stands for the
    /// prefix token of the model (BOS, else EOS).
    Score {
        /// What comes before; not scored.
        context: String,
        /// What is scored.
        continuation: String,
    },
    /// The log-probability of a whole text in windows, natural log.
    Rolling {
        /// What is scored.
        text: String,
    },
}

/// Text wanted after a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generate {
    /// What the model reads.
    pub prompt: Prompt,
    /// Most tokens to answer with; `None` leaves it to the caller's budget.
    pub max_tokens: Option<u32>,
    /// The answer ends before the first of these.
    pub stop: Vec<String>,
    /// 0 is greedy.
    pub temperature: f64,
    /// Further fields for the request's body, as the task names them (`top_p`, …).
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Generate {
    /// The likeliest text, at most so many tokens, with no stop but the model's own.
    #[must_use]
    pub fn greedy(prompt: Prompt, max_tokens: u32) -> Self {
        Self {
            prompt,
            max_tokens: Some(max_tokens),
            stop: Vec::new(),
            temperature: 0.0,
            extra: serde_json::Map::new(),
        }
    }
}

/// What the model reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Prompt {
    /// Plain text, for `/v1/completions`.
    Text(String),
    /// Turns, for `/v1/chat/completions`. A last turn of the assistant is a prefill.
    Chat(Vec<Message>),
}

impl Prompt {
    /// A single turn of the user.
    #[must_use]
    pub fn of_user(content: String) -> Self {
        Self::Chat(vec![Message { role: Role::User, content }])
    }
}

/// One turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Whose turn it is.
    pub role: Role,
    /// What is said.
    pub content: String,
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions.
    System,
    /// The one who asks.
    User,
    /// The model.
    Assistant,
}

/// What a server made of an [`Ask`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Answer {
    /// To [`Ask::Generate`].
    Generated(Generated),
    /// To [`Ask::Score`] and [`Ask::Rolling`].
    Scored(Scored),
    /// No answer that could be judged: what went wrong, in words. Never a score of 0 by itself.
    Failed {
        /// What went wrong.
        reason: String,
    },
}

/// A text that a server wrote.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Generated {
    /// As it came, after the thinking where the server keeps that apart.
    pub text: String,
    /// What the server kept apart as thinking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// `stop`, `length`, …: the server's word.
    pub finish_reason: Option<String>,
    /// By the server's usage.
    pub output_tokens: Option<u64>,
    /// Token ids, where the server tells them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub token_ids: Vec<u32>,
}

/// A text that a server scored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scored {
    /// Sum over the scored tokens, natural log.
    pub logprob: f64,
    /// Whether each scored token was the likeliest; `None` where the server did not tell.
    pub greedy: Option<bool>,
    /// Tokens scored.
    pub tokens: u64,
}
