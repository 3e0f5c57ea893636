//! L4: what the reference checker would say, its known holes with it.
//!
//! The checker of `mlcommons/inference` lets runs pass that its own rules refuse. What it says is told as it
//! says it; where a run slips through, the hole is named beside the check.

use super::submission::Rules;
use super::{Check, Evidence, Findings, Status, said};
use crate::read::Detail;

const SOURCE: &str = "mlcommons/inference, tools/submission/submission_checker at b66003e1";

pub(super) fn checks(evidence: &Evidence, rules: &Rules<'_>, submission: &[Check]) -> Vec<Check> {
    let detail = &evidence.performance.detail;
    let mut checks = vec![
        loadgen_errors(detail),
        equal_issue(detail, rules),
        sample_count(detail, rules),
        seeds(detail, rules),
        latency(detail, rules),
        query_count(detail, rules),
        min_duration(detail),
        token_latency(detail, rules),
        performance_metric(detail, rules),
    ];
    // Here the checker reads the rules as they are: what L3 found is what it would say.
    for (id, as_in) in [
        ("accuracy", "accuracy"),
        ("compliance", "compliance"),
        ("system_and_measurements", "system_and_measurements"),
    ] {
        if let Some(check) = submission.iter().find(|check| check.id == as_in) {
            checks.push(Check { id, source: SOURCE.to_owned(), hole: None, ..check.clone() });
        }
    }
    checks
}

fn with_hole(mut check: Check, slips: bool, hole: &str) -> Check {
    if slips {
        check.hole = Some(hole.to_owned());
    }
    check
}

fn loadgen_errors(detail: &Detail) -> Check {
    let mut found = Findings::default();
    let count = detail.errors().len();
    found.fine(format!("{count} errors, which the checker does not count"));
    let hole =
        "errors are looked at only under --submission-exceptions: the condition is the wrong way round";
    with_hole(found.check("loadgen_errors", SOURCE), count > 0, hole)
}

fn equal_issue(detail: &Detail, rules: &Rules<'_>) -> Check {
    let mut found = Findings::default();
    let equal = detail.yes("effective_sample_concatenate_permutation");
    found.fine(format!(
        "sample_concatenate_permutation {}, which the checker asks for in v4.1 alone",
        said(equal)
    ));
    let slips = equal == Some(false) && rules.model.is_some();
    with_hole(found.check("equal_issue", SOURCE), slips, "runs without equal issue pass since v5.0")
}

fn sample_count(detail: &Detail, rules: &Rules<'_>) -> Check {
    let mut found = Findings::default();
    let loaded = detail.int("effective_performance_sample_count");
    let least = rules.model.map(|model| model.performance_samples);
    let enough = loaded.zip(least).map(|(loaded, least)| loaded >= least);
    found.must(enough, format!("{} samples loaded, at least {}", said(loaded), of_rules(least)));
    found.check("performance_sample_count", SOURCE)
}

fn seeds(detail: &Detail, rules: &Rules<'_>) -> Check {
    let mut found = Findings::default();
    for (name, wanted) in [
        ("qsl_rng_seed", rules.round.map(|round| round.seeds.qsl)),
        ("sample_index_rng_seed", rules.round.map(|round| round.seeds.sample_index)),
        ("schedule_rng_seed", rules.round.map(|round| round.seeds.schedule)),
    ] {
        let got = detail.int(&format!("effective_{name}"));
        let same = got.zip(wanted).map(|(got, wanted)| got == wanted);
        found.must(same, format!("{name} {}, wanted {}", said(got), of_rules(wanted)));
    }
    found.check("seeds", SOURCE)
}

fn latency(detail: &Detail, rules: &Rules<'_>) -> Check {
    let mut found = Findings::default();
    let scenario = detail.text("effective_scenario").unwrap_or_default();
    if ["Server", "SingleStream", "MultiStream"].contains(&scenario) {
        let met = detail.yes("early_stopping_met");
        found.must(met, format!("early stopping met: {}", said(met)));
    } else {
        found.fine("no early stopping in Offline");
    }
    if let Some(limit) = rules.model.and_then(|model| {
        let limits = model.limits.get(scenario)?;
        limits.target_latency_ns.or(limits.latency_ns)
    }) {
        let asked = detail.int("effective_target_latency_ns");
        let within = asked.map(|asked| asked <= limit);
        found.must(within, format!("target_latency {} ns, at most {limit} ns", said(asked)));
    }
    found.check("latency", SOURCE)
}

fn query_count(detail: &Detail, rules: &Rules<'_>) -> Check {
    let mut found = Findings::default();
    if detail.text("effective_scenario") == Some("Offline") {
        let least = rules.model.and_then(|model| model.offline_min_samples);
        let each = detail.int("effective_samples_per_query");
        let enough = each.zip(least).map(|(each, least)| each >= least);
        found.must(enough, format!("{} samples in the query, at least {}", said(each), of_rules(least)));
    } else {
        found.fine("early stopping decides, no count of queries");
    }
    found.check("min_query_count", SOURCE)
}

fn min_duration(detail: &Detail) -> Check {
    let mut found = Findings::default();
    let asked = detail.int("effective_min_duration_ms");
    let long = asked.map(|asked| asked >= 600_000);
    found.must(long, format!("min_duration {} ms, at least 600000 ms", said(asked)));
    let short = long == Some(true) && detail.yes("result_min_duration_met") == Some(false);
    let hole = "the setting is read, not how long the run lasted";
    with_hole(found.check("min_duration", SOURCE), short, hole)
}

/// Limits are those of the scenario that the log names, and that is Server for Interactive too.
fn token_latency(detail: &Detail, rules: &Rules<'_>) -> Check {
    let mut found = Findings::default();
    let mut slips = false;
    match rules.model {
        None => found.unknown("no round and model are declared"),
        Some(model) if !model.token_latencies => {
            found.fine(format!("{} has no limits of tokens", model.name))
        }
        Some(model) => {
            let timed = detail.yes("requested_use_token_latencies").unwrap_or(false);
            found.must(Some(timed), format!("use_token_latencies {timed}"));
            if detail.text("effective_scenario") == Some("Server") {
                let limits = model.limits.get("Server").copied().unwrap_or_default();
                let strict = rules.limits().unwrap_or_default();
                for (key, limit, own) in [
                    ("result_first_token_99.00_percentile_latency_ns", limits.ttft_ns, strict.ttft_ns),
                    ("result_time_per_output_token_99.00_percentile_ns", limits.tpot_ns, strict.tpot_ns),
                ] {
                    let got = detail.get(key).and_then(serde_json::Value::as_i64).map(i128::from);
                    let below =
                        |limit: Option<u64>| got.zip(limit).map(|(got, limit)| got < i128::from(limit));
                    found.must(below(limit), format!("{key} {}, below {}", said(got), of_rules(limit)));
                    slips |= below(limit) == Some(true) && below(own) == Some(false);
                }
            }
        }
    }
    let hole = "an Interactive run is held against the limits of Server, for its log says Server";
    with_hole(found.check("token_latency", SOURCE), slips, hole)
}

fn performance_metric(detail: &Detail, rules: &Rules<'_>) -> Check {
    let mut found = Findings::default();
    let scenario = detail.text("effective_scenario").unwrap_or_default();
    match rules.model.map(|model| model.result_fields.get(scenario)) {
        None => found.unknown("no round and model are declared"),
        Some(None) => found.wrong(format!("no result of scenario `{scenario}`")),
        Some(Some(key)) => {
            let value = detail.real(key);
            found.must(value.map(|_| true), format!("{key} {}", said(value)));
        }
    }
    let slips = detail.text("result_validity") == Some("INVALID");
    let check = found.check("performance_metric", SOURCE);
    let slips = slips && check.status != Status::Failed;
    with_hole(check, slips, "LoadGen's verdict is read and not asked for: INVALID passes")
}

fn of_rules(value: Option<u64>) -> String {
    value.map_or_else(|| "what no declared round and model say".to_owned(), |value| value.to_string())
}
