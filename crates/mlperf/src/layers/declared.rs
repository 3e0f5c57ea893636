//! What logs cannot say and a submitter declares.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A division of MLPerf Inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Division {
    /// The same model for all.
    Closed,
    /// Closed, over a network.
    Network,
    /// Other models, nothing compared.
    Open,
}

/// When others can have the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Availability {
    /// Now.
    Available,
    /// Soon.
    Preview,
    /// For research, development or internal use.
    Rdi,
}

/// What a prefix cache may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheUse {
    /// Nothing was in the cache when the run began, and nothing was taken from it.
    Cold,
    /// A query uses what it put there itself: prompts are unique, cached tokens zero.
    WithinQuery,
    /// Prefixes were warm: for engineering, never for a submission.
    WarmPrefix,
}

/// The cache protocol of a run, and what shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Cache {
    /// What was declared.
    pub protocol: CacheUse,
    /// Whether no prompt began as another did.
    pub prompts_unique: Option<bool>,
    /// Prompt tokens that the server says it took from its cache, in all.
    pub cached_tokens: Option<u64>,
}

/// What logs cannot say. Everything may be left out: what rests on it is incomplete then.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Declared {
    /// The round whose rules apply: `v6.1`.
    pub round: Option<String>,
    /// The model as the round's rules call it: `llama3.1-8b`.
    pub model: Option<String>,
    /// The scenario, if it is not that of the log: `Interactive`.
    pub scenario: Option<String>,
    /// The division.
    pub division: Option<Division>,
    /// When others can have the system.
    pub availability: Option<Availability>,
    /// Scores of the accuracy run by metric, as the reference scorer calls them: `ROUGE1`.
    pub accuracy: Option<BTreeMap<String, f64>>,
    /// How compliance tests went, by name: `TEST06`.
    pub compliance: BTreeMap<String, bool>,
    /// The description of the system: `systems/<name>.json`.
    pub system: Option<Value>,
    /// `measurements.json`.
    pub measurements: Option<Value>,
    /// The cache protocol.
    pub cache: Option<Cache>,
}
