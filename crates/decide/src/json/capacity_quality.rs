//! The machine output of quality at the load of a search's answer.

use quality::stats::Decision;
use schemars::JsonSchema;
use serde::Serialize;

use super::capacity::CapacityDocument;
use super::shape::Num;
use crate::qualified::{AtLoad, Quality};

/// Is it still the same model at this load?
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct QualityDoc {
    /// `pass`, `fail` or `inconclusive`; `null`: no load is held, so there was none to ask at.
    pub verdict: Option<Decision>,
    /// Why there is no PASS; `null`: there is one.
    pub reason: Option<String>,
    /// Good requests per second at the answer's load, by a server that is still the same model there. `null`: there is
    /// no PASS, `reason` says why, or there is no goodput.
    pub qualified_goodput_per_s: Option<Num>,
    /// Folder of the baseline.
    pub base: String,
    /// Suite of its questions.
    pub suite: String,
    /// The questions at the load; `null`: they were not asked to the end.
    pub at_load: Option<AtLoad>,
}

impl CapacityDocument {
    /// The same with the quality at its load: the sentence ends with it, and the process with the larger exit code of the
    /// two.
    #[must_use]
    pub fn with_quality(mut self, quality: Quality) -> Self {
        let verdict = quality.verdict();
        let passes = verdict == Some(Decision::Pass);
        self.verdict.answer.push_str(&format!("; {}", quality.words()));
        let code = verdict.map_or(0, Decision::exit_code);
        self.verdict.exit_code = self.verdict.exit_code.max(code);
        self.quality = Some(QualityDoc {
            verdict,
            reason: quality.reason(),
            qualified_goodput_per_s: self.answer.goodput_per_s.filter(|_| passes),
            base: quality.base,
            suite: quality.suite,
            at_load: quality.at_load,
        });
        self
    }
}
