//! What a server is asked over HTTP to score or to write, and what its answer means. Pure: whoever has a connection
//! gives a [`Server`].
//!
//! Engines give the log-probabilities of a prompt in different ways, or not at all; [`probe`] finds out which one a
//! server really has, and a [`Client`] uses that one and no other.

mod client;
mod forms;
mod probe;
mod tokens;
mod walk;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use client::{Client, Lead, Manner};
pub use forms::{Input, Mode, Row};
pub use probe::{Finding, Probed, State, probe};

/// Asks one server, one question at a time, each within a time limit.
pub trait Server {
    /// GET.
    ///
    /// # Errors
    /// No answer; an answer of any status is one.
    fn get(&self, path: &str) -> Result<Reply, Fault>;
    /// POST of a JSON body.
    ///
    /// # Errors
    /// No answer; an answer of any status is one.
    fn post(&self, path: &str, body: &Value) -> Result<Reply, Fault>;
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// The body; null where it is no JSON.
    pub body: Value,
    /// The beginning of the body on one line.
    pub excerpt: String,
}

impl Reply {
    /// The body of a success.
    ///
    /// # Errors
    /// Another status, or no JSON.
    pub fn good(self) -> Result<Value, Fault> {
        match self.status {
            200..=299 if !self.body.is_null() => Ok(self.body),
            200..=299 => Err(Fault::Unusable(format!("the answer is no JSON: {}", self.excerpt))),
            status => Err(Fault::Refused { status, excerpt: self.excerpt }),
        }
    }
}

/// Why there is no answer, or none that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The user ended it.
    #[error("stopped")]
    Stopped,
    /// No connection.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// Nothing within the time limit, or the connection broke.
    #[error("{0}")]
    NoAnswer(String),
    /// Another status than a success.
    #[error("status {status}: {excerpt}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The beginning of the body.
        excerpt: String,
    },
    /// An answer that does not hold what was asked for, or a question that this server cannot be asked.
    #[error("{0}")]
    Unusable(String),
}

impl Fault {
    /// Whether it concerns the server as a whole, so that the next question would end the same way.
    #[must_use]
    pub fn ends_the_run(&self) -> bool {
        matches!(self, Self::Stopped | Self::Unreachable(_) | Self::Refused { status: 401 | 403, .. })
    }
}
