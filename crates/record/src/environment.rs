//! Where and against what a run was made; what is unknown is listed, not left out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::self_check::SelfCheck;

/// Where and against what a run was made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Wall time of the run's origin, RFC 3339, UTC. A label only.
    pub started: String,
    /// The run's origin on CLOCK_MONOTONIC in nanoseconds: relates stamps to another process of this machine.
    pub monotonic_origin_ns: u64,
    /// This tool's version and build.
    pub tool_version: String,
    /// Operating system, kernel, CPU model, cores, memory, governor, container.
    pub client: BTreeMap<String, String>,
    /// What the server tells of itself: model ids, `/version`, headers, maximum length.
    pub server: BTreeMap<String, String>,
    /// Addresses that the target's name was resolved to, frozen for the run.
    pub addresses: Vec<String>,
    /// Kernel receive stamps were available.
    pub kernel_stamps: bool,
    /// What was negotiated with the server before the run (fields that it rejected, fallbacks).
    pub negotiated: Vec<String>,
    /// The tokenizer used on this side, and by which way it was found.
    pub tokenizer: String,
    /// Where prompts come from, what was left out of a data set, and what prompts share, in words.
    #[serde(default)]
    pub workload: String,
    /// Hash of the workload: equal hashes mean equal prompts, lengths and timetable.
    pub workload_hash: String,
    /// Labels and facts that make runs comparable and are still unknown.
    pub unknown: Vec<String>,
    /// What a self-check found on this machine before; `null`: none that holds here.
    #[serde(default)]
    pub self_check: Option<SelfCheck>,
    /// Which self-check that is and of when, or why there is none.
    #[serde(default)]
    pub floor: String,
}

/// Labels without which a result cannot be compared or repeated by others.
pub const RECOMMENDED_LABELS: [&str; 5] = ["engine", "engine_version", "model_revision", "precision", "gpus"];

impl Environment {
    /// Lists in `unknown` the recommended labels that neither the spec's labels nor the server
    /// itself give; other entries of `unknown` stay.
    pub fn note_unknown(&mut self, labels: &BTreeMap<String, String>) {
        for name in RECOMMENDED_LABELS {
            let given = |map: &BTreeMap<String, String>| map.get(name).is_some_and(|v| !v.trim().is_empty());
            let known = given(labels) || given(&self.server);
            self.unknown.retain(|listed| !(known && listed == name));
            if !known && !self.unknown.iter().any(|listed| listed == name) {
                self.unknown.push(name.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_labels_are_listed_once() {
        let mut environment = Environment { unknown: vec!["tokenizer".to_owned()], ..Environment::default() };
        environment.server.insert("engine_version".to_owned(), "0.11.2".to_owned());
        let labels = BTreeMap::from(
            [("engine", "vllm"), ("precision", " "), ("gpus", "8xH100")].map(|(k, v)| (k.into(), v.into())),
        );
        environment.note_unknown(&labels);
        environment.note_unknown(&labels);
        assert_eq!(environment.unknown, ["tokenizer", "model_revision", "precision"]);
    }
}
