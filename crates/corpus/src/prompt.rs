//! One prompt: its content, its lengths and what tells it apart.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use spec::seed::Fnv;

use crate::stream::{hash_bytes, hash_ids};

/// What a request says.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// One text: a completion's prompt, or one user message.
    Text(String),
    /// A conversation.
    Messages(Vec<Message>),
}

/// One message of a conversation; serialises as chat APIs take it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    pub role: String,
    /// Text, a list of content parts, or null beside tool calls.
    pub content: Value,
    /// `name`, `tool_calls`, `tool_call_id`, as the data set has them.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Message {
    /// The text of the message: the string, or the text parts joined by line breaks.
    pub fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let texts: Vec<&str> =
                    parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
                texts.join("\n")
            }
            _ => String::new(),
        }
    }
}

impl Content {
    /// The bytes that identify the content: the text, or roles and contents in order.
    pub(crate) fn hash(&self) -> u64 {
        match self {
            Content::Text(text) => hash_bytes(text.as_bytes()),
            Content::Messages(messages) => {
                let mut hash = Fnv::default();
                for message in messages {
                    hash.bytes(message.role.as_bytes());
                    hash.bytes(&[0]);
                    hash.bytes(message.content.to_string().as_bytes());
                    hash.bytes(Value::Object(message.rest.clone()).to_string().as_bytes());
                    hash.bytes(&[0]);
                }
                hash.mixed()
            }
        }
    }
    /// The texts whose tokens count as input, without the server's template.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Content::Text(text) => vec![text.clone()],
            Content::Messages(messages) => messages.iter().map(Message::text).collect(),
        }
    }
}

/// Hashes that tell prompts apart without keeping them: equal content, equal hashes, on every
/// machine and in every version of this format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Of the first 16 tokens, or 64 bytes without a tokenizer.
    pub first16: u64,
    /// Of the first 64 tokens, or 256 bytes.
    pub first64: u64,
    /// Of the whole content.
    pub whole: u64,
}

impl Identity {
    pub(crate) fn of_ids(ids: &[u32], whole: u64) -> Self {
        let first = |n: usize| hash_ids(&ids[..ids.len().min(n)]);
        Self { first16: first(16), first64: first(64), whole }
    }
    pub(crate) fn of_bytes(bytes: &[u8], whole: u64) -> Self {
        let first = |n: usize| hash_bytes(&bytes[..bytes.len().min(n)]);
        Self { first16: first(64), first64: first(256), whole }
    }
}

/// What goes into one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// What is said.
    pub content: Content,
    /// Input tokens that were asked for; `None`: as the data set has it.
    pub planned: Option<u32>,
    /// Input tokens that the content has by our tokenizer, without special tokens and template;
    /// `None` without a tokenizer.
    pub counted: Option<u32>,
    /// Tokens at the beginning that are shared with other prompts on purpose: counted by the
    /// tokenizer where there is one.
    pub shared: u32,
    /// What tells it apart.
    pub identity: Identity,
    /// The data set's own output length.
    pub osl: Option<u32>,
    /// Fields of this row that go into the request's body and win over the run's own.
    pub extra: Map<String, Value>,
}
