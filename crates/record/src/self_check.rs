//! What a self-check found: how well this machine measures. Kept for the machine, and in the header
//! of every run that is made on it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the form below; files of another version are not read.
pub const SELF_CHECK_VERSION: u32 = 1;

/// How well a machine measures. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelfCheck {
    /// Version of this form.
    pub schema_version: u32,
    /// When it began, RFC 3339, UTC.
    pub measured: String,
    /// The machine that it holds for.
    pub machine: Machine,
    /// It was made in a shorter time, so its figures are rougher.
    pub quick: bool,
    /// What answered, and where it ran.
    pub server: String,
    /// Why this machine was too noisy to be believed, one sentence for each cause; empty: it was not.
    pub noise: Vec<String>,
    /// How late requests left, without handshakes, at `send_rate_per_s`; `null`: none was sent.
    pub send_lag: Option<Spread>,
    /// Open loop, Poisson; requests per second.
    pub send_rate_per_s: f64,
    /// Receive stamp of an event − the server's own moment just before it wrote it, absolute.
    pub stamp_error: ByStamp,
    /// Time to first token − the same by the server's own log, absolute: the floor of latencies.
    pub latency_error: ByStamp,
    /// Gap between two events − the same by the server's own log, absolute: the floor of gaps.
    pub gap_error: ByStamp,
    /// Processor time of the lane for each request that is answered in one piece; `null`: the system does not tell.
    pub cpu_per_request_ns: Option<f64>,
    /// Processor time of the lane for each streamed event; `null`: the system does not tell.
    pub cpu_per_event_ns: Option<f64>,
    /// Longest delay of a heartbeat while the machine had little to do; `null`: none was answered.
    pub heartbeat_max_ns: Option<u64>,
    /// Share of all cores that the hypervisor took; `null`: the system does not tell.
    pub steal_share: Option<f64>,
    /// Spells of about a second in which it took more than a run may lose.
    pub steal_spells: u64,
    /// Requests per second that one lane sent on time.
    pub rate: Ceiling,
    /// Streams that one lane heard on time, each of `tokens_per_s`.
    pub streams: Ceiling,
    /// Events per second of each stream.
    pub tokens_per_s: f64,
}

/// What makes two machines the same for a self-check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The processor as it names itself.
    pub cpu_model: String,
    /// Cores that this program may use.
    pub cores: u32,
    /// The operating system's kernel.
    pub kernel: String,
    /// This tool's version.
    pub tool_version: String,
}

/// A distribution in five figures, nanoseconds. A percentile is `null` where there are too few values for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Values.
    pub n: u64,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p99_9_ns: Option<u64>,
    /// Largest.
    pub max_ns: u64,
}

/// The same error with the kernel's receive stamps and with this program's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ByStamp {
    /// With the kernel's; `null`: it gives none here.
    pub kernel: Option<Spread>,
    /// With this program's own.
    pub user: Option<Spread>,
}

/// The largest load of a ladder that stayed within the limits of the trust checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// The largest load that held; 0: not even the smallest did.
    pub holds: u64,
    /// The smallest load that did not hold; `null`: none was met.
    pub fails: Option<u64>,
    /// Why the ladder ended.
    pub ended_by: EndedBy,
    /// The same in words.
    pub why: String,
}

/// Why a ladder ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// This side failed a check of a run: `holds` is its ceiling.
    Client,
    /// The server could not deliver any more: the ceiling is at least `holds`.
    Server,
    /// The ladder has no further rung: the ceiling is at least `holds`.
    Ladder,
}

/// What this instrument adds to a latency and to a gap, nanoseconds: the median errors of a self-check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// To a latency that has a start.
    pub latency_ns: u64,
    /// To a time between two events.
    pub gap_ns: u64,
}

impl SelfCheck {
    /// The errors of a measurement with or without kernel stamps. The median stands for the error
    /// that every request has; the tail holds the server's own preemption between its stamp and its
    /// write, which is no error of the client.
    pub fn floor(&self, kernel_stamps: bool) -> Option<Floor> {
        let of = |error: &ByStamp| if kernel_stamps { error.kernel } else { error.user }?.p50_ns;
        Some(Floor { latency_ns: of(&self.latency_error)?, gap_ns: of(&self.gap_error)? })
    }

    /// The machine was quiet enough for its figures to mean anything.
    pub fn is_quiet(&self) -> bool {
        self.noise.is_empty()
    }
}

impl Machine {
    /// From [`crate::client::facts`]. What the system does not tell is `unknown`.
    pub fn of(facts: &BTreeMap<String, String>, tool_version: &str) -> Self {
        let fact = |name: &str| facts.get(name).cloned().unwrap_or_else(|| "unknown".to_owned());
        Self {
            cpu_model: fact("cpu_model"),
            cores: facts
                .get("cores_usable")
                .or_else(|| facts.get("cores"))
                .and_then(|n| n.parse().ok())
                .unwrap_or(0),
            kernel: fact("kernel"),
            tool_version: tool_version.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_known_by_four_facts() {
        let facts = BTreeMap::from(
            [("cpu_model", "X"), ("cores", "8"), ("cores_usable", "2"), ("kernel", "6.1")]
                .map(|(k, v)| (k.to_owned(), v.to_owned())),
        );
        let machine = Machine::of(&facts, "0.1.0");
        assert_eq!((machine.cpu_model.as_str(), machine.cores), ("X", 2));
        assert_ne!(machine, Machine::of(&facts, "0.2.0"));
        assert_eq!(Machine::of(&BTreeMap::new(), "0.1.0").kernel, "unknown");
    }
}
