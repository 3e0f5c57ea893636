//! The machine output of a self-check.

use record::SelfCheck;
use schemars::JsonSchema;
use serde::Serialize;

use super::shape::FloorDoc;
use crate::report::Verdict;
use crate::self_check::{Against, believes_above, verdict, verdict_against};

/// A self-check and what it means.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SelfCheckDocument {
    /// What was measured; the file that is kept holds the same.
    #[serde(flatten)]
    pub self_check: SelfCheck,
    /// The error that every value has with the best stamps of this machine; `null`: not measured.
    pub floor: Option<FloorDoc>,
    /// Latencies above this are the server's, nanoseconds; `null`: not measured.
    pub believe_above_ns: Option<u64>,
    /// The file that it is kept in; `null`: it is not kept.
    pub kept: Option<String>,
    /// Whether this machine can offer a load to a server; `null`: not asked.
    pub against: Option<Against>,
    /// The end of it.
    pub verdict: Verdict,
}

impl SelfCheckDocument {
    /// The document of a self-check, and of a load if one was asked for.
    pub fn new(self_check: SelfCheck, kept: Option<String>, against: Option<Against>) -> Self {
        let verdict = match &against {
            Some(against) if self_check.is_quiet() => verdict_against(against),
            _ => verdict(&self_check),
        };
        let floor = self_check.floor(true).or_else(|| self_check.floor(false));
        Self {
            floor: floor.map(|f| FloorDoc { latency_ns: f.latency_ns, gap_ns: f.gap_ns }),
            believe_above_ns: believes_above(&self_check),
            self_check,
            kept,
            against,
            verdict,
        }
    }

    /// The output itself.
    pub fn to_json(&self) -> serde_json::Value {
        // Every key is a string and every number finite, so this cannot fail.
        serde_json::to_value(self).unwrap_or(serde_json::Value::Null)
    }
}
