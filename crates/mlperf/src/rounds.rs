//! The rules of MLPerf Inference rounds that are numbers, as data with their source.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// One round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// Its name: `v6.1`.
    pub round: String,
    /// Where the numbers are from.
    pub source: String,
    /// The seeds of all runs; they change with every round.
    pub seeds: Seeds,
    /// What `min_duration` must be at least, ms.
    pub min_duration_ms: u64,
    /// Its models of language.
    pub models: Vec<Model>,
}

/// LoadGen's three seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seeds {
    /// Of the loaded set.
    #[serde(rename = "qsl_rng_seed")]
    pub qsl: u64,
    /// Of the order of samples.
    #[serde(rename = "sample_index_rng_seed")]
    pub sample_index: u64,
    /// Of arrivals.
    #[serde(rename = "schedule_rng_seed")]
    pub schedule: u64,
}

/// What a suite (datacenter, edge) asks of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Scenarios that must all be there.
    pub required: Vec<String>,
    /// Of these one must be there.
    pub one_of: Vec<String>,
}

/// The limits of one scenario at the 99th percentile, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Time to first token; the measured one must be below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ns: Option<u64>,
    /// Time per output token; the measured one must be below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot_ns: Option<u64>,
    /// Latency of the whole answer; the measured one may be equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<u64>,
    /// The setting `target_latency` may not be above this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_latency_ns: Option<u64>,
}

/// A metric and the number that it is held against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// As the reference checker calls it.
    pub metric: String,
    /// The number.
    pub value: f64,
}

/// The constants of a model in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// As the round's rules call it.
    pub name: String,
    /// Scenarios by suite.
    pub suites: BTreeMap<String, Suite>,
    /// Samples that a timed run must load.
    pub performance_samples: u64,
    /// Samples of the accuracy run, by scenario or `default`.
    pub accuracy_samples: BTreeMap<String, u64>,
    /// Samples that the one query of Offline must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offline_min_samples: Option<u64>,
    /// Limits by scenario. Of tokens the source has one table for all rounds; the rules' text differs from
    /// it once (gpt-oss-120b, Interactive: 20 ms per token there, 15 here).
    pub limits: BTreeMap<String, Limits>,
    /// Whether tokens must be timed.
    pub token_latencies: bool,
    /// What accuracy must reach, by scenario or `default`; the share that is conceded is in the numbers.
    pub accuracy_targets: BTreeMap<String, Vec<Target>>,
    /// What accuracy must not exceed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accuracy_upper_limits: Vec<Target>,
    /// The field of the detail log that is the result, by LoadGen's scenario.
    pub result_fields: BTreeMap<String, String>,
    /// Compliance tests.
    pub compliance: Vec<String>,
}

#[derive(Deserialize)]
struct File {
    rounds: Vec<Round>,
}

impl Round {
    /// All rounds whose rules are known here, the oldest first.
    pub fn all() -> &'static [Round] {
        static ALL: OnceLock<Vec<Round>> = OnceLock::new();
        ALL.get_or_init(|| {
            let file: Result<File, _> = serde_json::from_str(include_str!("data/rounds.json"));
            file.map(|file| file.rounds).unwrap_or_default()
        })
    }

    /// One round by name.
    ///
    /// # Errors
    /// Names the rounds that are known.
    pub fn named(name: &str) -> Result<&'static Round, String> {
        let known: Vec<&str> = Self::all().iter().map(|round| round.round.as_str()).collect();
        Self::all()
            .iter()
            .find(|round| round.round == name)
            .ok_or_else(|| format!("no rules of round `{name}`: known are {}", known.join(", ")))
    }

    /// The round whose seeds these are.
    pub fn of_seeds(seeds: Seeds) -> Option<&'static Round> {
        Self::all().iter().find(|round| round.seeds == seeds)
    }

    /// One model by name.
    ///
    /// # Errors
    /// Names the models of the round.
    pub fn model(&self, name: &str) -> Result<&Model, String> {
        let known: Vec<&str> = self.models.iter().map(|model| model.name.as_str()).collect();
        self.models.iter().find(|model| model.name == name).ok_or_else(|| {
            let hint = spec::nearest(name, known.iter().copied());
            let hint = hint.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
            format!("round {} has no model `{name}`{hint}: it has {}", self.round, known.join(", "))
        })
    }
}

impl Model {
    /// Whether the round runs the model in this scenario, Interactive being one of its own.
    pub fn has(&self, scenario: &str) -> bool {
        let named = |suite: &Suite| suite.required.iter().chain(&suite.one_of).any(|name| name == scenario);
        self.suites.values().any(named)
    }

    /// What accuracy must reach in this scenario.
    pub fn accuracy_targets(&self, scenario: &str) -> &[Target] {
        by_scenario(&self.accuracy_targets, scenario).map_or(&[], Vec::as_slice)
    }

    /// Samples of the accuracy run of this scenario.
    pub fn accuracy_samples(&self, scenario: &str) -> Option<u64> {
        by_scenario(&self.accuracy_samples, scenario).copied()
    }
}

fn by_scenario<'a, T>(map: &'a BTreeMap<String, T>, scenario: &str) -> Option<&'a T> {
    map.get(scenario).or_else(|| map.get("default"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_rounds_are_known_with_their_sources() {
        let names: Vec<&str> = Round::all().iter().map(|round| round.round.as_str()).collect();
        assert_eq!(names, ["v5.0", "v5.1", "v6.0", "v6.1"]);
        assert!(Round::all().iter().all(|round| round.source.contains("constants.py at b66003e1")));
        assert!(Round::named("v7.0").expect_err("unknown").contains("v6.1"));
        let v61 = Round::named("v6.1").expect("known");
        assert_eq!(v61.seeds.schedule, 16_159_082_839_903_944_936);
        assert_eq!(Round::of_seeds(v61.seeds), Some(v61));
        assert!(v61.model("llama2-70b").expect_err("unknown").contains("did you mean `llama2-70b-99.9`"));
    }

    /// The table of the round's text, entry by entry.
    #[test]
    fn constants_are_those_of_the_rules() {
        let model =
            |round: &str, name: &str| Round::named(round).expect("round").model(name).expect("model").clone();
        let llama = model("v6.1", "llama3.1-8b");
        assert_eq!((llama.performance_samples, llama.offline_min_samples), (13_368, Some(13_368)));
        assert_eq!(llama.limits["Server"].ttft_ns, Some(2_000_000_000));
        assert_eq!(llama.limits["Interactive"].tpot_ns, Some(30_000_000));
        assert_eq!(llama.compliance, ["TEST06"]);
        let targets = llama.accuracy_targets("Server");
        assert!(targets[0].metric == "ROUGE1" && (targets[0].value - 38.7792 * 0.99).abs() < 1e-9);
        let oss = model("v6.1", "gpt-oss-120b");
        assert_eq!((oss.accuracy_samples("Offline"), oss.compliance.len()), (Some(4395), 2));
        let vl = model("v6.1", "qwen3-vl-235b-a22b");
        assert_eq!(vl.limits["Interactive"].latency_ns, Some(1_500_000_000));
        assert_eq!(
            (vl.accuracy_samples("Interactive"), vl.accuracy_samples("Server")),
            (Some(8000), Some(48_289))
        );
        assert!(
            model("v6.0", "mixtral-8x7b").has("Server") && !model("v5.1", "deepseek-r1").has("Interactive")
        );
        assert_eq!(model("v5.0", "llama2-70b-interactive-99").limits["Server"].ttft_ns, Some(450_000_000));
    }
}
