//! The append-only journal: the truth that everything else is rebuilt from.

use serde::{Deserialize, Serialize};
use spec::{Nanos, Spec};

use crate::environment::Environment;
use crate::row::Request;
use crate::sample::{ClockSample, LaneSample, MachineSample, ServerSample};

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::large_enum_variant)]
pub enum Entry {
    /// The first line: what was asked, and where.
    Header(Header),
    /// A request as it ended.
    Request(Request),
    /// A lane over a window.
    Lane(LaneSample),
    /// The machine.
    Machine(MachineSample),
    /// Both clocks.
    Clock(ClockSample),
    /// The server's metrics.
    Server(ServerSample),
    /// Counted after the run: our tokenizer over the whole answer of request `seq`.
    Retokenised {
        /// Position in the plan.
        seq: u64,
        /// Tokens.
        tokens: u32,
    },
    /// Texts of request `seq`; written only when the spec asks to keep them, and read apart.
    Text {
        /// Position in the plan.
        seq: u64,
        /// As sent.
        prompt: Option<String>,
        /// As received, joined.
        answer: Option<String>,
    },
    /// How the run went as a whole; the last line of a run that ended by itself.
    Footer(Footer),
}

/// The first line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the record format.
    pub schema_version: u32,
    /// The spec as run.
    pub spec: Spec,
    /// Where and against what.
    pub environment: Environment,
}

/// How the run went as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Footer {
    /// Intended start of the measurement.
    pub measure_from: Nanos,
    /// End of the span in which measured requests were intended.
    pub measure_to: Nanos,
    /// When the last request had ended.
    pub ended: Nanos,
    /// Requests that the plan held for the measurement.
    pub planned: u64,
    /// Why the run stopped.
    pub stopped: Stopped,
    /// Requests that had begun and left no record, at least: open when the run was killed, or not written.
    #[serde(default, skip_serializing_if = "is_none_lost")]
    pub lost: u64,
    /// Warnings of the instrument in words (journal back-pressure, fallback of stamps, …).
    pub warnings: Vec<String>,
    /// Other runs of this tool that measured the same endpoint from this machine meanwhile, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_none_lost(lost: &u64) -> bool {
    *lost == 0
}

/// Why a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// As planned.
    Finished,
    /// Ctrl-C or a signal.
    Interrupted,
    /// The journal ends without a footer: the process was killed.
    Killed,
    /// Disk full or another error of writing.
    WriteError,
}

/// Everything that one run left behind, in memory. What `measure` and `decide` read.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What was asked, and where.
    pub header: Header,
    /// Every request, ordered by `seq`.
    pub requests: Vec<Request>,
    /// Lanes, by time.
    pub lanes: Vec<LaneSample>,
    /// Machine, by time.
    pub machine: Vec<MachineSample>,
    /// Clocks, by time.
    pub clock: Vec<ClockSample>,
    /// Server, by time.
    pub server: Vec<ServerSample>,
    /// How it went; made up from the rows when the journal has none.
    pub footer: Footer,
    /// What is missing from a recovered journal, in words.
    pub missing: Vec<String>,
}
