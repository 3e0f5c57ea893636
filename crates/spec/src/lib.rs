//! What is asked: the typed [`Spec`], its units, limits and defaults.
//!
//! `Draft` (flags and YAML, nothing checked) becomes [`Spec`] (complete, checked, every default
//! written out). This crate reads no clock and opens no socket; the only files it reads are texts
//! that it is handed.

pub mod api;
pub mod draft;
mod error;
mod forms;
mod grammar;
mod knob;
pub mod load;
mod loads;
mod node;
mod objective;
mod read;
mod resolve;
mod schema;
pub mod secret;
mod sections;
pub mod seed;
pub mod slo;
pub mod target;
mod targets;
mod tier;
pub mod units;
pub mod words;
pub mod workload;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use api::{Api, Dialect, Force, KeySource, LengthControl, MaxField, Readiness, Sampling, Tls};
pub use draft::Draft;
pub use error::{Excerpt, ParseError, SpecError, nearest};
pub use grammar::AnyLimit;
pub use knob::{Dial, Knob, Turn, Values};
pub use load::{Closed, Extent, Load, Open, Phase, Phases, Ramp, Timeouts, Warmup};
pub use loads::Loads;
pub use objective::Objective;
pub use resolve::DEFAULT_SEED;
pub use schema::schema;
pub use secret::Secret;
pub use slo::{JointLimit, MarginalLimit, Metric, Op, Slo, Statistic};
pub use target::{SimTarget, Target};
pub use targets::Targets;
pub use tier::Tier;
pub use units::{Burstiness, Limit, Nanos, ParseUnitError, Rate, Share, Span};
pub use workload::{CacheProtocol, Lengths, Source, TokenizerChoice, Workload};

/// Everything that defines one run. Serialised into `run.json` with every default written out; the
/// same text is accepted back as a spec file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The server that is measured, or several that share the requests.
    pub target: Targets,
    /// How the server is spoken to.
    pub api: Api,
    /// What is in a request.
    pub workload: Workload,
    /// When requests leave.
    pub load: Load,
    /// Warm-up, measurement, drain.
    pub phases: Phases,
    /// Every time limit of a request.
    pub timeouts: Timeouts,
    /// The measuring side: lanes and connections.
    pub client: Client,
    /// The limits that the answer is judged by.
    pub slo: Slo,
    /// How numbers are computed from the records.
    pub analysis: Analysis,
    /// Free labels that make the record comparable (`engine`, `gpus`, `precision`, …).
    pub labels: BTreeMap<String, String>,
    /// The one seed from which every named random stream is derived.
    pub seed: u64,
}

/// The measuring side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Sending threads, each with connections of its own.
    pub lanes: u16,
    /// Connection policy.
    pub connections: Connections,
    /// Take receive times from the kernel where it gives them.
    pub kernel_stamps: bool,
    /// Attempts beyond the first for a failed request. 0: an attempt is an attempt.
    pub retries: u32,
    /// Keep prompt and answer texts in the journal.
    pub keep_text: bool,
    /// Between two readings of the server's metrics; off: they are not read while the run goes on.
    #[serde(default = "each_second")]
    pub metrics_every: Limit,
    /// Each lane and the pacer on a core of its own.
    #[serde(default)]
    pub pin: bool,
    /// Lanes and pacer under `SCHED_FIFO`, memory locked.
    #[serde(default)]
    pub realtime: bool,
    /// Source addresses of connections, used in turn. Empty: the system chooses.
    #[serde(default)]
    pub bind: Vec<IpAddr>,
    /// Unix socket that is spoken to; the target still gives the `host` header and the path.
    #[serde(default)]
    pub unix: Option<PathBuf>,
    /// Speak HTTP/2: by prior knowledge, with TLS by ALPN. One request at a time on a connection.
    #[serde(default)]
    pub http2: bool,
}

fn each_second() -> Limit {
    Limit(Some(Nanos::from_secs(1)))
}

impl Default for Client {
    fn default() -> Self {
        Self {
            lanes: 1,
            connections: Connections::Keepalive,
            kernel_stamps: true,
            retries: 0,
            keep_text: false,
            metrics_every: each_second(),
            pin: false,
            realtime: false,
            bind: Vec::new(),
            unix: None,
            http2: false,
        }
    }
}

/// Connection policy of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// A new connection for each request.
    Fresh,
    /// Idle connections are used again.
    Keepalive,
    /// This many are opened before the first request, then kept.
    Prewarmed(u32),
}

/// How numbers are computed from the records; may be changed after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Analysis {
    /// Percentile rule of definitions §4.
    pub percentile: PercentileRule,
    /// Where latencies start. `None`: user view in open loop, server view in closed loop.
    pub view: Option<View>,
}

/// Percentile rules (definitions §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PercentileRule {
    /// Interpolate at rank p(n−1)+1 (Hyndman–Fan type 7).
    #[default]
    Linear,
    /// x at rank ⌈pn⌉.
    NearestRank,
    /// x at zero-based index trunc(p·n), as MLPerf LoadGen.
    Loadgen,
}

/// Where a latency starts (definitions §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// From the intended send.
    User,
    /// From the first byte written.
    Server,
}

impl Spec {
    /// The view that latencies are reported in (definitions §1): user view in open loop unless
    /// chosen otherwise.
    pub fn view(&self) -> View {
        self.analysis.view.unwrap_or(match self.load {
            Load::Open(_) => View::User,
            Load::Closed(_) => View::Server,
        })
    }
}
