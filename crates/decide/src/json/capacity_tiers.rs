//! The machine output of a search with tiers: each with its own answer, from the same probes.

use record::Environment;
use schemars::JsonSchema;
use serde::Serialize;
use spec::{Slo, Spec, Tier};

use super::capacity::{AnswerDoc, CapacityDocument, SearchTrust};
use crate::capacity::{CapacityAnswer, Curve, Fleet, ProbeReport, StageReport};

/// One tier.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TierDoc {
    /// Its name.
    pub name: String,
    /// Its limits.
    pub slo: Slo,
    /// May its answer be believed?
    pub trust: SearchTrust,
    /// Its answer.
    pub answer: AnswerDoc,
    /// Servers for a demand of this tier alone; `null`: nobody asked.
    pub fleet: Option<Fleet>,
    /// The ramp, with the shares within its limits.
    pub ramp: Vec<StageReport>,
    /// Its limits' crossings.
    pub curves: Vec<Curve>,
    /// Every probe, whichever tier it was made for, under the limits of this one.
    pub probes: Vec<ProbeReport>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// The end of it.
    pub verdict: crate::report::Verdict,
}

impl CapacityDocument {
    /// The document of a search with tiers, each with its answer and servers for the demand; there is
    /// at least one.
    pub fn of_tiers(
        tiers: &[(Tier, CapacityAnswer, Option<Fleet>)],
        spec: &Spec,
        environment: &Environment,
    ) -> Option<Self> {
        let documents: Vec<Self> = tiers
            .iter()
            .map(|(tier, answer, fleet)| {
                let spec = Spec { slo: tier.slo.clone(), ..spec.clone() };
                Self { tier: Some(tier.name.clone()), ..Self::new(answer, *fleet, &spec, environment) }
            })
            .collect();
        let holds = |document: &&Self| {
            let answer = &document.answer;
            answer.value.or(answer.low).map_or(0.0, |load| load.0)
        };
        let least = documents.iter().min_by(|a, b| holds(a).total_cmp(&holds(b)))?;
        let said =
            documents.iter().zip(tiers).map(|(d, (t, ..))| format!("{}: {}", t.name, d.verdict.answer));
        let answer = said.collect::<Vec<_>>().join(". ");
        let exit_code = documents.iter().map(|d| d.verdict.exit_code).max().unwrap_or_default();
        Some(Self {
            tiers: documents.iter().cloned().zip(tiers).map(|(d, (t, ..))| d.part(t.name.clone())).collect(),
            verdict: crate::report::Verdict { exit_code, answer },
            ..least.clone()
        })
    }

    fn part(self, name: String) -> TierDoc {
        TierDoc {
            name,
            slo: self.spec.slo,
            trust: self.trust,
            answer: self.answer,
            fleet: self.fleet,
            ramp: self.ramp,
            curves: self.curves,
            probes: self.probes,
            notes: self.notes,
            verdict: self.verdict,
        }
    }

    /// One document for each tier, as if it had been searched alone; of a search without tiers itself.
    pub fn each(&self) -> Vec<Self> {
        if self.tiers.is_empty() {
            return vec![self.clone()];
        }
        let one = |tier: &TierDoc| Self {
            spec: Spec { slo: tier.slo.clone(), ..self.spec.clone() },
            trust: tier.trust.clone(),
            answer: tier.answer.clone(),
            fleet: tier.fleet,
            ramp: tier.ramp.clone(),
            curves: tier.curves.clone(),
            probes: tier.probes.clone(),
            notes: tier.notes.clone(),
            tier: Some(tier.name.clone()),
            tiers: Vec::new(),
            sensitivity: None,
            verdict: tier.verdict.clone(),
            ..self.clone()
        };
        self.tiers.iter().map(one).collect()
    }
}
