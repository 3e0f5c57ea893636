//! One judged item, as a journal keeps it.

use crate::{Answer, Ask};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// SHA-256 in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hash(pub String);

impl Hash {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// What one document of one task came to. Two journals are paired on (`task`, `doc_hash`, `repeat`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The task's name.
    pub task: String,
    /// The place of the document in its split.
    pub doc: u64,
    /// Which of several answers to the same document.
    #[serde(default)]
    pub repeat: u32,
    /// Of the document.
    pub doc_hash: Hash,
    /// Of what the model read.
    pub prompt_hash: Hash,
    /// Of the wanted answer.
    pub target_hash: Hash,
    /// A group within the task (an MMLU-Pro category, a depth and a length of a needle), where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// What was asked, in order.
    pub asks: Vec<Ask>,
    /// What came back, one for each ask.
    pub answers: Vec<Answer>,
    /// What was made of it, by the filter's name.
    pub outcomes: BTreeMap<String, Outcome>,
}

/// One filter's view of an item.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What the filter took out of the answer; `None` where nothing could be parsed.
    pub extracted: Option<Value>,
    /// Scores by metric. A metric that has no value here is absent, never 0.
    pub scores: BTreeMap<String, f64>,
    /// Parts of a metric that is no mean of items (the words and bytes of a perplexity), by metric.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parts: Map<String, Value>,
}

impl Item {
    /// Whether any ask failed: such an item has no scores, and counts as an error and not as a wrong answer.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.answers.iter().any(|answer| matches!(answer, Answer::Failed { .. }))
    }
}
