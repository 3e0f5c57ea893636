//! The whole answer of one run: what `run.json` holds and every page is made from.

use std::collections::BTreeMap;

use measure::{Measures, measure};
use record::{Environment, Footer, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{Analysis, Metric, Spec};

use crate::caps::apply_caps;
use crate::instrument::{InstrumentReport, floor_notes};
use crate::notes::notes;
use crate::trust::{self, Trust};
use crate::{slo, verdict};

/// The whole answer of one run. Its JSON form is the contract in `docs/run.schema.json`; `json.rs`
/// is the only place that knows the shape.
#[derive(Debug, Clone, PartialEq)]
pub struct RunReport {
    /// The spec as run.
    pub spec: Spec,
    /// Where and against what.
    pub environment: Environment,
    /// How the run went as a whole.
    pub footer: Footer,
    /// What a recovered journal is missing.
    pub missing: Vec<String>,
    /// May the numbers be believed?
    pub trust: Trust,
    /// The numbers, withheld ones already replaced by their reason.
    pub measures: Measures,
    /// Metrics that carry a mark, and why.
    pub flags: BTreeMap<Metric, Vec<String>>,
    /// Metrics whose values are near the instrument's own error.
    pub floor_notes: BTreeMap<Metric, String>,
    /// What the instrument did, and what is known of it.
    pub instrument: InstrumentReport,
    /// The limits.
    pub slo: SloReport,
    /// The end of it.
    pub verdict: Verdict,
    /// What a reader should know beside the checks, each with a next step where there is one.
    pub notes: Vec<String>,
}

impl RunReport {
    /// From a run's records to its answer: numbers, trust, caps, limits, verdict, notes.
    pub fn build(run: &Run, analysis: &Analysis) -> Self {
        let spec = &run.header.spec;
        let mut measures = measure(run, analysis);
        let trust = trust::judge(run, &measures);
        let mut slo = slo::judge(run, &measures, &spec.slo);
        slo::withhold(&mut slo, &trust, spec);
        let flags = apply_caps(&mut measures, &trust);
        let verdict = verdict::verdict(&trust, &slo, &measures, spec);
        let instrument = InstrumentReport::new(run, &measures);
        let floor_notes = floor_notes(&measures, instrument.floor);
        let notes = notes(run, &measures, &floor_notes);
        Self {
            spec: Spec { analysis: *analysis, ..spec.clone() },
            environment: run.header.environment.clone(),
            footer: run.footer.clone(),
            missing: run.missing.clone(),
            trust,
            measures,
            flags,
            floor_notes,
            instrument,
            slo,
            verdict,
            notes,
        }
    }
}

/// The limits and what became of them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SloReport {
    /// Limits on each request, all at once.
    pub joint: Option<JointReport>,
    /// Limits on statistics, each on its own.
    pub marginal: Vec<MarginalReport>,
    /// Limits on several metrics, each alone and all at once; `None`: fewer, or withheld.
    #[serde(default)]
    pub together: Option<crate::together::Together>,
}

/// Joint SLO (definitions §6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JointReport {
    /// The limits as written.
    pub limits: Vec<String>,
    /// Good requests; `None` when withheld.
    pub good: Option<u64>,
    /// Offered requests.
    pub offered: u64,
    /// good / offered with its Wilson interval on the effective sample size. Under overload only its
    /// upper end is known: the share falls as the run gets longer.
    pub attainment: Share,
    /// The share demanded.
    pub target: f64,
    /// Whether the share is reached: undecided while the interval includes the target.
    pub met: Option<bool>,
    /// good / duration; `None` when withheld.
    pub goodput_per_s: Option<f64>,
    /// Share of requests within each limit alone; empty when withheld.
    pub alone: Vec<(String, f64)>,
    /// What the margins alone would allow for the joint rate; `None` when withheld.
    pub bounds: Option<(f64, f64)>,
    /// Why it is undecided, or what a check took away.
    pub reason: Option<String>,
}

/// A share with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// The share; `None` when withheld or nothing was offered.
    pub value: Option<f64>,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// One marginal limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MarginalReport {
    /// The limit as written.
    pub limit: String,
    /// The value on the limit's own scale; nanoseconds for times. A value that is only known to lie
    /// beyond a bound is `None` with the bound in `low` or `high`.
    pub value: Option<f64>,
    /// 95 % interval.
    pub low: Option<f64>,
    /// 95 % interval.
    pub high: Option<f64>,
    /// Met, not met, or undecided.
    pub met: Option<bool>,
    /// Why undecided, what a check took away, or on what it was decided.
    pub reason: Option<String>,
}

/// The end of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The process's exit code.
    pub exit_code: u8,
    /// The answer in one sentence.
    pub answer: String,
}
