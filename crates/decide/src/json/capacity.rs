//! The machine output of a search for capacity.

use record::Environment;
use schemars::JsonSchema;
use serde::Serialize;
use spec::Spec;

use super::capacity_quality::QualityDoc;
use super::capacity_tiers::TierDoc;
use super::shape::{Num, Tool};
use crate::capacity::{
    CapacityAnswer, Curve, Fleet, Needs, ProbeReport, ProbeVerdict, Sensitivity, StageReport, Verdict, figure,
};
use crate::maximize::{Maximum, Point};
use crate::trust::TrustVerdict;

/// A search for capacity.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CapacityDocument {
    /// Version of this shape.
    pub schema_version: u32,
    /// What measured.
    pub tool: Tool,
    /// What was asked, every default written out; its load is that of the first probe.
    pub spec: Spec,
    /// The seed of every random stream.
    pub seed: u64,
    /// Where and against what.
    pub environment: Environment,
    /// May the answer be believed?
    pub trust: SearchTrust,
    /// The answer.
    pub answer: AnswerDoc,
    /// Servers for a demand; `null`: nobody asked.
    pub fleet: Option<Fleet>,
    /// The unloaded server: time to first token, nanoseconds; `null`: none came.
    pub unloaded_ttft_ns: Option<Num>,
    /// The closed-loop ramp before the search.
    pub ramp: Vec<StageReport>,
    /// Each limit's own crossing and its fitted curve; none where only a lower bound is known.
    pub curves: Vec<Curve>,
    /// Every probe, in order.
    pub probes: Vec<ProbeReport>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// The tier that `answer`, `fleet`, `ramp`, `curves`, `probes` and `spec.slo` are of: the one that
    /// holds least, so that all tiers hold there; `null`: there are none.
    pub tier: Option<String>,
    /// Every tier, in the order in which they were asked for; empty: there are none.
    pub tiers: Vec<TierDoc>,
    /// The answer under other conditions; `null`: nobody asked.
    pub sensitivity: Option<Sensitivity>,
    /// The most of a throughput; `null`: what was asked for is the largest load. Where it is there,
    /// `answer` is the search for the limits at its best setting, or without limits its best load.
    pub maximum: Option<Maximum>,
    /// Whether it is still the same model at this load; `null`: nobody asked.
    pub quality: Option<QualityDoc>,
    /// The end of it; with tiers the largest exit code of all.
    pub verdict: crate::report::Verdict,
}

/// May the answer be believed?
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SearchTrust {
    /// `limited` when a probe was set aside, or the client ended the search.
    pub verdict: TrustVerdict,
    /// Probes that the client spoilt; they are in no figure.
    pub client_limited_probes: u64,
}

/// The answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AnswerDoc {
    /// `rate`, `concurrency` or `users`.
    pub over: String,
    /// Requests per second, or users; `null`: there is none, `verdict` says why.
    pub value: Option<Num>,
    /// Lower end of the bracket.
    pub low: Option<Num>,
    /// Upper end; `null`: only a lower bound is known.
    pub high: Option<Num>,
    /// How often such a bracket holds the truth.
    pub confidence: Num,
    /// What became of the search.
    pub verdict: Verdict,
    /// The limit that is crossed first; `null`: none was.
    pub limited_by: Option<String>,
    /// Good requests per second at the value.
    pub goodput_per_s: Option<Num>,
    /// What a resolved answer would take; `null`: nothing more, or not known.
    pub needs: Option<Needs>,
    /// Requests of the whole search.
    pub requests: u64,
    /// Time of its probes together, nanoseconds.
    pub duration_ns: u64,
}

impl CapacityDocument {
    /// The document of an answer.
    pub fn new(
        answer: &CapacityAnswer,
        fleet: Option<Fleet>,
        spec: &Spec,
        environment: &Environment,
    ) -> Self {
        let spoilt = |p: &&ProbeReport| matches!(p.verdict, ProbeVerdict::ClientLimited { .. });
        let client_limited_probes = answer.probes.iter().filter(spoilt).count() as u64;
        let is_limited = client_limited_probes > 0 || answer.verdict == Verdict::ClientLimited;
        let verdict = if is_limited { TrustVerdict::Limited } else { TrustVerdict::Valid };
        Self {
            schema_version: record::SCHEMA_VERSION,
            tool: Tool { name: "inferometer".to_owned(), version: environment.tool_version.clone() },
            spec: spec.redacted(),
            seed: spec.seed,
            environment: environment.clone(),
            trust: SearchTrust { verdict, client_limited_probes },
            answer: AnswerDoc {
                over: answer.over.clone(),
                value: answer.value.map(Num),
                low: answer.low.map(Num),
                high: answer.high.map(Num),
                confidence: Num(answer.confidence),
                verdict: answer.verdict,
                limited_by: answer.limited_by.clone(),
                goodput_per_s: answer.goodput_per_s.map(Num),
                needs: answer.needs,
                requests: answer.requests,
                duration_ns: answer.duration_ns,
            },
            fleet,
            unloaded_ttft_ns: answer.unloaded_ttft_ns.map(Num),
            ramp: answer.ramp.clone(),
            curves: answer.curves.clone(),
            probes: answer.probes.clone(),
            notes: answer.notes.clone(),
            tier: None,
            tiers: Vec::new(),
            sensitivity: None,
            maximum: None,
            quality: None,
            verdict: crate::report::Verdict {
                exit_code: answer.verdict.exit_code(),
                answer: in_one_sentence(answer, fleet),
            },
        }
    }

    /// The same with what was maximised: it is what was asked for, so its sentence is the answer.
    #[must_use]
    pub fn with_maximum(mut self, maximum: Maximum) -> Self {
        let limited = |point: &&Point| point.client_limited.is_some();
        let tried = maximum.points.iter().filter(limited).count() as u64;
        let surveyed = maximum.survey.iter().map(|s| &s.point).filter(limited).count() as u64;
        // The probes of the search are among the points.
        self.trust.client_limited_probes = self.trust.client_limited_probes.max(tried) + surveyed;
        if self.trust.client_limited_probes > 0 {
            self.trust.verdict = TrustVerdict::Limited;
        }
        self.verdict = crate::report::Verdict {
            exit_code: maximum.verdict.exit_code(),
            answer: maximum.sentence.clone(),
        };
        self.maximum = Some(maximum);
        self
    }

    /// The output itself.
    pub fn to_json(&self) -> serde_json::Value {
        // Every key is a string and every number finite, so this cannot fail.
        serde_json::to_value(self).unwrap_or(serde_json::Value::Null)
    }
}

/// What it holds, what of that is good, and what it means for a fleet.
fn in_one_sentence(answer: &CapacityAnswer, fleet: Option<Fleet>) -> String {
    let good = answer.goodput_per_s.map(|good| format!("goodput there {} req/s", figure(good)));
    // Where no load is held, no number of servers would do.
    let fleet = fleet.filter(|_| answer.low.is_some()).and_then(|fleet| fleet.words());
    let parts: Vec<String> = [Some(answer.sentence.clone()), good, fleet].into_iter().flatten().collect();
    parts.join("; ")
}
