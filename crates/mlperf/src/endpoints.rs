//! MLPerf Endpoints, the programme beside MLPerf Inference: its rules as data, the points of a curve, and
//! what they lack. The rules are tentative; what they leave open is not made up here.
//!
//! Other definitions than LoadGen's: a percentile is `sorted[floor(p·(n−1))]`, a time per output token the
//! time after the first chunk over the tokens after it, as a real number.

mod curve;
mod point;
mod regions;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

pub use curve::{Curve, Offline, Rule};
pub use point::{Coverage, Metrics, Point, Response, SteadyState, Window};
pub use regions::{Region, Regions};

/// The numbers of a version of the rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// `v1.0`.
    pub version: String,
    /// How firm they are: `tentative`.
    pub status: String,
    /// Where the numbers are from.
    pub source: String,
    /// A curve has at least so many points.
    pub min_points: usize,
    /// And at most so many.
    pub max_points: usize,
    /// The region of ultra-low concurrency reaches from 1 up to this.
    pub ultra_low_most: u64,
    /// Points up to this multiple of the largest concurrency are legal and count for no region.
    pub margin: f64,
    /// A dedicated Offline run reaches this share of the throughput at the largest concurrency.
    pub offline_share: f64,
    /// The percentile of latencies, as a share.
    pub percentile: f64,
    /// A steady-state window spans at least so many passes over the data set.
    pub least_super_passes: u64,
    /// And so long by the moments of issue.
    pub least_window_s: LeastWindow,
    /// What the rules leave open, by the numbers of their list of questions.
    pub open: Vec<String>,
    /// Benchmarks of single turns.
    pub models: Vec<Model>,
}

/// How long a window must span, s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeastWindow {
    /// At ultra-low concurrency.
    pub ultra_low: u64,
    /// Elsewhere.
    pub other: u64,
}

/// A benchmark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Samples of the data set.
    pub samples: u64,
    /// Samples of the accuracy run.
    pub accuracy_samples: u64,
}

impl Rules {
    /// Version 1.0. `None` if the data that are built in cannot be read, which a test rules out.
    pub fn v1_0() -> Option<&'static Rules> {
        static RULES: OnceLock<Option<Rules>> = OnceLock::new();
        RULES.get_or_init(|| serde_json::from_str(include_str!("data/endpoints-v1.0.json")).ok()).as_ref()
    }

    /// A benchmark by name.
    ///
    /// # Errors
    /// Names those that are known.
    pub fn model(&self, name: &str) -> Result<&Model, String> {
        let known: Vec<&str> = self.models.iter().map(|model| model.name.as_str()).collect();
        let found = self.models.iter().find(|model| model.name == name);
        found.ok_or_else(|| {
            format!(
                "MLPerf Endpoints {} has no benchmark `{name}`: it has {}",
                self.version,
                known.join(", ")
            )
        })
    }
}
