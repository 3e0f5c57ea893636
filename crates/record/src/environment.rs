//! Where and against what a run was made; what is unknown is listed, not left out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Hash of the workload: equal hashes mean equal prompts, lengths and timetable.
    pub workload_hash: String,
    /// Labels and facts that make runs comparable and are still unknown.
    pub unknown: Vec<String>,
}
