//! L3: what a round's rules ask of a submission, read strictly.

mod documents;

use super::declared::{CacheUse, Declared, Division};
use super::{Check, Evidence, Findings, said};
use crate::read::Detail;
use crate::rounds::{Limits, Model, Round, Seeds};

const POLICIES: &str = "MLCommons inference_policies, inference_rules.adoc at ac93e89";

/// The rules that apply, as far as it is known which.
pub(super) struct Rules<'a> {
    pub(super) round: Option<&'static Round>,
    pub(super) model: Option<&'static Model>,
    /// As the round calls it: Interactive is one of its own.
    pub(super) scenario: Option<&'a str>,
    pub(super) division: Option<Division>,
}

impl<'a> Rules<'a> {
    pub(super) fn of(declared: &'a Declared, detail: &'a Detail) -> Result<Self, String> {
        let round = declared.round.as_deref().map(Round::named).transpose()?;
        let model = match (round, &declared.model) {
            (Some(round), Some(name)) => Some(round.model(name)?),
            _ => None,
        };
        let scenario = declared.scenario.as_deref().or_else(|| detail.text("effective_scenario"));
        Ok(Self { round, model, scenario, division: declared.division })
    }

    pub(super) fn limits(&self) -> Option<Limits> {
        self.model?.limits.get(self.scenario?).copied()
    }

    pub(super) fn source(&self) -> String {
        self.round.map_or_else(|| POLICIES.to_owned(), |round| format!("{}, {}", round.round, round.source))
    }

    fn is_open(&self) -> bool {
        self.division == Some(Division::Open)
    }
}

pub(super) fn checks(evidence: &Evidence, rules: &Rules<'_>) -> Vec<Check> {
    let declared = &evidence.declared;
    vec![
        accuracy(evidence, rules),
        seed_and_settings(evidence, rules),
        no_log_errors(evidence),
        compliance(declared, rules),
        documents::system_and_measurements(declared, rules),
        division_and_model(evidence, rules),
    ]
}

fn accuracy(evidence: &Evidence, rules: &Rules<'_>) -> Check {
    let mut found = Findings::default();
    // A submission run holds both in one log; an accuracy run that is looked at alone is one.
    let mode = evidence.performance.detail.text("effective_test_mode");
    let both = matches!(mode, Some("SubmissionRun" | "AccuracyOnly"));
    match evidence.accuracy.as_ref().or_else(|| both.then_some(&evidence.performance)) {
        None => found.unknown("there are no logs of an accuracy run"),
        Some(logs) => {
            let count = logs.detail.int("effective_accuracy_sample_count");
            let wanted = rules.model.zip(rules.scenario).and_then(|(m, s)| m.accuracy_samples(s));
            let all = count.zip(wanted).map(|(count, wanted)| count == wanted);
            found.must(all, format!("{} samples of {}", said(count), said(wanted)));
        }
    }
    let targets = rules.model.zip(rules.scenario).map(|(model, scenario)| model.accuracy_targets(scenario));
    match (&evidence.declared.accuracy, targets) {
        (None, _) => found.unknown("accuracy has no score yet: declare those of the reference scorer"),
        (Some(_), None) => found.unknown("no round and model are declared, so there is no target"),
        (Some(scores), Some(targets)) => {
            for target in targets {
                let score = scores.get(&target.metric).copied().filter(|score| score.is_finite());
                let words = format!("{} {}, at least {}", target.metric, said(score), target.value);
                let reached = score.map(|score| score >= target.value);
                // The open division shows its accuracy and is held to none.
                found.must(reached.map(|reached| reached || rules.is_open()), words);
            }
            for most in rules.model.map_or(&[][..], |model| &model.accuracy_upper_limits) {
                let score = scores.get(&most.metric).copied().filter(|score| score.is_finite());
                // The one that the rules never look for (see the reference checker) is not asked for.
                if let Some(score) = score {
                    let kept = score <= most.value || rules.is_open();
                    found.must(Some(kept), format!("{} {score}, at most {}", most.metric, most.value));
                }
            }
        }
    }
    found.check("accuracy", rules.source())
}

fn seed_and_settings(evidence: &Evidence, rules: &Rules<'_>) -> Check {
    let mut found = Findings::default();
    let detail = &evidence.performance.detail;
    let seed = |name: &str| detail.int(&format!("effective_{name}_rng_seed"));
    let seeds = (seed("qsl"), seed("sample_index"), seed("schedule"));
    let seeds = match seeds {
        (Some(qsl), Some(sample_index), Some(schedule)) => Some(Seeds { qsl, sample_index, schedule }),
        _ => None,
    };
    match rules.round {
        Some(round) => {
            let same = seeds.map(|seeds| seeds == round.seeds);
            found.must(same, format!("seeds of {}: {}", round.round, said(same)));
            let asked = detail.int("effective_min_duration_ms");
            let long = asked.map(|asked| asked >= round.min_duration_ms);
            found.must(
                long,
                format!("min_duration {} ms, at least {} ms", said(asked), round.min_duration_ms),
            );
        }
        None => {
            let of = seeds.and_then(Round::of_seeds).map(|round| round.round.as_str());
            let hint = of.map_or("no round has these seeds", |round| round);
            found.unknown(format!("no round is declared (by its seeds: {hint})"));
        }
    }
    for (key, must) in [("performance_issue_unique", false), ("performance_issue_same", false)] {
        let value = detail.yes(&format!("effective_{key}"));
        found.must(value.map(|value| value == must), format!("{key} {}", said(value)));
    }
    if let Some(model) = rules.model {
        of_model(&mut found, detail, rules, model);
    }
    cache(&mut found, &evidence.declared);
    found.check("seed_and_settings", rules.source())
}

fn of_model(found: &mut Findings, detail: &Detail, rules: &Rules<'_>, model: &Model) {
    let loaded = detail.int("effective_performance_sample_count");
    let enough = loaded.map(|loaded| loaded >= model.performance_samples);
    found.must(enough, format!("{} samples loaded, at least {}", said(loaded), model.performance_samples));
    if !rules.is_open() {
        let equal = detail.yes("effective_sample_concatenate_permutation");
        found.must(equal, format!("every sample as often as any other: {}", said(equal)));
    }
    if model.token_latencies {
        // LoadGen logs the switch only when it is on.
        let timed = detail.yes("requested_use_token_latencies").unwrap_or(false);
        found.must(Some(timed), format!("use_token_latencies {timed}"));
    }
    let logged = detail.text("effective_scenario");
    if logged == Some("Offline")
        && let Some(least) = model.offline_min_samples
    {
        let each = detail.int("effective_samples_per_query");
        let enough = each.map(|each| each >= least || rules.is_open());
        found.must(enough, format!("{} samples in the query, at least {least}", said(each)));
    }
    let percentile = match logged {
        Some("SingleStream") => Some(0.9),
        Some("Server" | "MultiStream") => Some(0.99),
        _ => None,
    };
    if let Some(wanted) = percentile {
        let got = detail.real("effective_target_latency_percentile");
        let same = got.map(|got| (got - wanted).abs() < 1e-9);
        found.must(same, format!("percentile {}, as the rules: {wanted}", said(got)));
    }
    let Some(limits) = rules.limits() else { return };
    let most = [
        ("effective_target_latency_ns", limits.target_latency_ns),
        ("requested_server_ttft_latency", limits.ttft_ns),
        ("requested_server_tpot_latency", limits.tpot_ns),
    ];
    for (key, limit) in most {
        let Some(limit) = limit else { continue };
        let asked = detail.int(key);
        found.must(asked.map(|asked| asked <= limit), format!("{key} {}, at most {limit}", said(asked)));
    }
}

/// Nothing may be taken from one query for another.
fn cache(found: &mut Findings, declared: &Declared) {
    let Some(cache) = declared.cache else {
        found.unknown("the cache protocol is not declared: cold, within-query or warm-prefix");
        return;
    };
    let tokens = cache.cached_tokens;
    match cache.protocol {
        CacheUse::WarmPrefix => found.wrong("prefixes were warm: for engineering, never for a submission"),
        CacheUse::Cold => {
            found.must(tokens.map(|tokens| tokens == 0), format!("cold: cached tokens {}", shown(tokens)));
        }
        CacheUse::WithinQuery => {
            let words = format!("within a query: cached tokens {}", shown(tokens));
            found.must(tokens.map(|tokens| tokens == 0), words);
            found.must(cache.prompts_unique, format!("prompts unique: {}", shown(cache.prompts_unique)));
        }
    }
}

fn shown<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "not known".to_owned(), |value| value.to_string())
}

fn no_log_errors(evidence: &Evidence) -> Check {
    let mut found = Findings::default();
    let logs = [("performance", Some(&evidence.performance)), ("accuracy", evidence.accuracy.as_ref())];
    for (name, logs) in logs {
        let Some(logs) = logs else { continue };
        let errors = logs.detail.errors();
        match errors.first() {
            Some(first) => found.wrong(format!("{name}: {} errors, the first: {first}", errors.len())),
            None => found.fine(format!("{name}: no error")),
        }
    }
    found.check("no_log_errors", POLICIES)
}

fn compliance(declared: &Declared, rules: &Rules<'_>) -> Check {
    let mut found = Findings::default();
    match rules.model {
        _ if rules.is_open() => found.fine("the open division needs no compliance tests"),
        None => found.unknown("no round and model are declared"),
        Some(model) if model.compliance.is_empty() => {
            found.fine(format!("{} has no compliance test in this round", model.name));
        }
        Some(model) => {
            for test in &model.compliance {
                match declared.compliance.get(test) {
                    None => found.unknown(format!("{test}: no result is declared")),
                    Some(true) => found.fine(format!("{test} passed")),
                    Some(false) => found.wrong(format!("{test} failed")),
                }
            }
        }
    }
    found.check("compliance", rules.source())
}

fn division_and_model(evidence: &Evidence, rules: &Rules<'_>) -> Check {
    let mut found = Findings::default();
    let detail = &evidence.performance.detail;
    match rules.division {
        None => found.unknown("no division is declared: closed, network or open"),
        Some(Division::Network) => {
            let named = detail.text("sut_name").map(|name| name.contains("Network SUT"));
            found.must(named, "the network division wants `Network SUT` in the system's name");
        }
        Some(_) => {}
    }
    let valid = detail.text("result_validity").map(|valid| valid == "VALID");
    found.must(valid, format!("LoadGen's verdict: {}", said(detail.text("result_validity"))));
    let mode = detail.text("effective_test_mode");
    let timed = mode.map(|mode| mode == "PerformanceOnly" || mode == "SubmissionRun");
    found.must(timed, format!("mode {}", said(mode)));
    match (rules.model, rules.scenario) {
        (None, _) => found.unknown("no round and model are declared, so there are no limits"),
        (_, None) => found.unknown("the log names no scenario"),
        (Some(model), Some(scenario)) => {
            let has = model.has(scenario);
            found.must(Some(has), format!("the round has {} in scenario {scenario}: {has}", model.name));
            let logged = detail.text("effective_scenario").unwrap_or_default();
            let run_as = if scenario == "Interactive" { "Server" } else { scenario };
            found.must(
                Some(logged == run_as),
                format!("{scenario} is run as {run_as}, the log is of {logged}"),
            );
            limits(&mut found, detail, rules);
        }
    }
    found.check("division_and_model", rules.source())
}

/// Tokens must come below their limits; whole answers may be equal to theirs.
fn limits(found: &mut Findings, detail: &Detail, rules: &Rules<'_>) {
    let Some(limits) = rules.limits() else { return };
    for (key, limit) in [
        ("result_first_token_99.00_percentile_latency_ns", limits.ttft_ns),
        ("result_time_per_output_token_99.00_percentile_ns", limits.tpot_ns),
    ] {
        let Some(limit) = limit else { continue };
        let got = detail.get(key).and_then(serde_json::Value::as_i64);
        let below = got.map(|got| i128::from(got) < i128::from(limit));
        found.must(below, format!("{key} {}, below {limit} (equal is not below)", said(got)));
    }
    if let Some(limit) = limits.latency_ns {
        let key = "result_99.00_percentile_latency_ns";
        let got = detail.int(key);
        found.must(got.map(|got| got <= limit), format!("{key} {}, at most {limit}", said(got)));
    }
}
