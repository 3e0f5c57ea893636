//! How the server is spoken to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Span;

/// How the server is spoken to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// The protocol.
    pub dialect: Dialect,
    /// Ask for a stream.
    pub stream: bool,
    /// Model name sent; `None`: the only one that `/v1/models` offers.
    pub model: Option<String>,
    /// Path instead of the dialect's own.
    pub path: Option<String>,
    /// Extra headers. Values are redacted in every artefact when the name sounds secret.
    pub headers: BTreeMap<String, String>,
    /// Where the API key is read from; the key itself is never part of a spec.
    pub key: Option<KeySource>,
    /// Fields merged over the request body.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// How the output length is controlled.
    pub length: LengthControl,
    /// Ask for `stream_options.include_usage`; a server that rejects it is asked once without.
    pub ask_usage: bool,
    /// Check before the run that the server answers.
    pub readiness: Readiness,
    /// TLS options.
    pub tls: Tls,
}

/// The protocols spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// OpenAI `/v1/chat/completions`.
    Chat,
    /// OpenAI `/v1/completions`.
    Completions,
}

impl Dialect {
    /// The path below the target's address.
    pub fn default_path(self) -> &'static str {
        match self {
            Dialect::Chat => "/v1/chat/completions",
            Dialect::Completions => "/v1/completions",
        }
    }
}

/// Where the API key is read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeySource {
    /// This environment variable.
    Env(String),
    /// The first line of this file.
    File(PathBuf),
}

/// Sampling parameters; only those set are sent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Top-k sampling.
    pub top_k: Option<u32>,
    /// The server's sampling seed.
    pub seed: Option<i64>,
    /// Stop strings.
    #[serde(default)]
    pub stop: Vec<String>,
}

/// How the output length is controlled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LengthControl {
    /// The field that carries the limit.
    pub field: MaxField,
    /// How an exact length is forced.
    pub force: Force,
}

/// The field that carries the output limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MaxField {
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
    /// Both, with the same value.
    Both,
}

/// How an exact output length is forced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Force {
    /// `ignore_eos: true` and `min_tokens` = the limit; a server that rejects the fields is asked
    /// once without, and the report calls lengths natural.
    Auto,
    /// `ignore_eos: true` only.
    IgnoreEos,
    /// `min_tokens` only.
    MinTokens,
    /// Nothing: the model ends where it likes, at most at the limit.
    None,
}

/// Check before the run that the server answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Readiness {
    /// Whether to check at all.
    pub check: bool,
    /// The path asked, with the same authentication as requests.
    pub path: String,
    /// How long to wait for a good answer.
    pub wait: Span,
}

/// TLS options.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Accept any certificate.
    pub insecure: bool,
    /// Additional roots, PEM.
    pub cacert: Option<PathBuf>,
}
