//! The machine output: its schema, its contract, its strictness.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use decide::RunReport;
use record::{FailureClass, Run, State, TimeoutKind};
use serde_json::Value;
use spec::{Analysis, Metric, Nanos, Op};

fn json(run: &Run) -> Value {
    RunReport::build(run, &Analysis::default()).to_json()
}

fn runs() -> Vec<(&'static str, Run)> {
    let mut slo = healthy_open(6.0, 30);
    slo.header.spec.slo.joint = vec![joint(Metric::Ttft, 200.0)];
    slo.header.spec.slo.marginal = vec![
        marginal(0.99, Metric::Ttft, Op::LessEq, 500.0),
        marginal(0.5, Metric::UserTps, Op::GreaterEq, 1e-5),
    ];
    let mut bad = healthy_open(6.0, 30);
    for (i, r) in measured(&mut bad).enumerate().filter(|(i, _)| i % 10 == 0) {
        r.state = if i % 20 == 0 {
            State::Failed { class: FailureClass::Http5xx, detail: "500".to_owned() }
        } else {
            State::TimedOut { limit: TimeoutKind::Stalled }
        };
    }
    let mut plain = healthy_open(6.0, 30);
    for r in measured(&mut plain) {
        r.streamed = false;
        r.chunks = r.chunks.last().into_iter().collect();
    }
    let mut none = healthy_open(6.0, 30);
    for r in measured(&mut none) {
        r.state = State::Failed { class: FailureClass::Connect, detail: "refused".to_owned() };
        r.chunks.edit().clear();
    }
    let mut empty = healthy_open(6.0, 30);
    empty.requests.clear();
    vec![
        ("healthy", healthy_open(6.0, 30)),
        ("closed", healthy_closed(4, 30)),
        ("slo", slo),
        ("bad", bad),
        ("not streamed", plain),
        ("nothing", none),
        ("empty", empty),
    ]
}

fn schema_path() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run.schema.json")
}

#[test]
fn the_committed_schema_is_the_generated_one() {
    let generated = format!("{}\n", serde_json::to_string_pretty(&decide::json::schema()).unwrap());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(schema_path(), &generated).unwrap();
    }
    let committed = std::fs::read_to_string(schema_path()).unwrap_or_default();
    assert!(committed == generated, "docs/run.schema.json is stale: run this test with UPDATE_SCHEMA=1");
}

#[test]
fn every_output_fits_the_schema() {
    let validator = jsonschema::validator_for(&decide::json::schema()).unwrap();
    for (name, run) in runs() {
        let out = json(&run);
        let errors: Vec<String> =
            validator.iter_errors(&out).map(|e| format!("{e} at {}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
    }
    // A schema that accepts anything would prove nothing.
    let mut broken = json(&healthy_open(6.0, 30));
    broken["trust"]["verdict"] = "fine".into();
    assert!(!validator.is_valid(&broken));
}

#[test]
fn keys_and_their_order_are_the_contract() {
    let mut run = healthy_open(6.0, 30);
    run.header.spec.slo.joint = vec![joint(Metric::Ttft, 200.0)];
    run.header.spec.slo.marginal = vec![marginal(0.95, Metric::Ttft, Op::LessEq, 500.0)];
    let out = json(&run);
    let keys = |v: &Value| v.as_object().map(|o| o.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let starts = |v: &Value, want: &[&str]| {
        let have = keys(v);
        assert_eq!(have[..want.len()], *want, "{have:?}");
    };
    starts(
        &out,
        &[
            "schema_version",
            "tool",
            "spec",
            "seed",
            "environment",
            "trust",
            "requests",
            "window",
            "metrics",
            "throughput",
            "slo",
            "verdict",
        ],
    );
    starts(&out["tool"], &["name", "version"]);
    starts(&out["trust"], &["verdict", "checks"]);
    starts(&out["trust"]["checks"][0], &["id", "state", "figure", "limit", "advice"]);
    starts(
        &out["requests"],
        &["offered", "ok", "failed", "timed_out", "cancelled", "shed", "failed_by_class"],
    );
    starts(&out["window"], &["duration_ns", "steady"]);
    starts(&out["metrics"], &["ttft", "tpot", "itl", "icl", "e2e"]);
    starts(
        &out["metrics"]["ttft"],
        &[
            "unit",
            "view",
            "estimator",
            "n",
            "mean",
            "stddev",
            "min",
            "max",
            "p50",
            "p90",
            "p95",
            "p99",
            "p99.9",
            "undefined",
        ],
    );
    starts(&out["metrics"]["ttft"]["p50"], &["value", "low", "high"]);
    starts(
        &out["throughput"],
        &[
            "requests_per_s",
            "output_tokens_per_s",
            "input_tokens_per_s",
            "offered_per_s",
            "sent_per_s",
            "in_flight_mean",
            "in_flight_peak",
        ],
    );
    starts(&out["slo"], &["joint", "marginal"]);
    starts(&out["slo"]["joint"], &["limits", "good", "offered", "attainment", "goodput_per_s", "bounds"]);
    starts(&out["slo"]["marginal"][0], &["limit", "value_ns"]);
    starts(&out["verdict"], &["exit_code", "answer"]);
    assert_eq!(out["metrics"]["ttft"]["unit"], "ns");
    assert_eq!(out["metrics"]["ttft"]["view"], "user");
    assert_eq!(out["metrics"]["ttft"]["estimator"], "linear");
    assert_eq!(out["trust"]["verdict"], "valid");
    assert_eq!(out["tool"]["name"], "inferometer");
    assert_eq!(out["slo"]["marginal"][0]["met"], true);
    // Whole nanoseconds are written as integers.
    assert!(out["metrics"]["ttft"]["min"].is_u64(), "{}", out["metrics"]["ttft"]["min"]);
}

#[test]
fn a_null_has_its_reason_and_every_number_is_finite() {
    for (name, run) in runs() {
        let out = json(&run);
        let text = out.to_string();
        assert!(!text.contains("NaN") && !text.contains("inf\""), "{name}");
        for metric in ["ttft", "tpot", "itl", "icl", "e2e"] {
            assert!(out["metrics"][metric].is_object(), "{name}: {metric}");
        }
        for (metric, doc) in out["metrics"].as_object().unwrap() {
            for figures in [doc, &doc["completed"]] {
                for key in ["p50", "p90", "p95", "p99", "p99.9", "mean", "stddev", "min", "max"] {
                    let Some(figure) = figures.get(key) else { continue };
                    let missing = figure.is_null() || figure.get("value").is_some_and(Value::is_null);
                    let reason = figures["undefined"].get(key);
                    assert_eq!(
                        missing,
                        reason.is_some_and(Value::is_string),
                        "{name}: {metric} {key}: {figure}"
                    );
                }
            }
        }
        for part in ["throughput", "tokens", "instrument"] {
            for (key, value) in out[part].as_object().unwrap() {
                if value.is_null() && key != "cached" {
                    assert!(out[part]["undefined"].get(key).is_some(), "{name}: {part}.{key}");
                }
            }
        }
        let counts = &out["requests"];
        let sum: u64 = ["ok", "failed", "timed_out", "cancelled", "shed"]
            .iter()
            .map(|k| counts[k].as_u64().unwrap())
            .sum();
        assert_eq!(sum, counts["offered"].as_u64().unwrap(), "{name}");
    }
}

#[test]
fn few_samples_and_censored_percentiles() {
    let out = json(&healthy_open(6.0, 30));
    let n = out["metrics"]["ttft"]["n"].as_u64().unwrap();
    assert!(out["metrics"]["ttft"]["p99"].is_null());
    assert_eq!(out["metrics"]["ttft"]["undefined"]["p99"], format!("too few samples ({n} of 368)"));
    let mut run = healthy_open(6.0, 30);
    for r in measured(&mut run).step_by(10) {
        r.state = State::TimedOut { limit: TimeoutKind::Total };
        r.closed = Some(r.write_begin.unwrap() + Nanos::from_secs(9));
    }
    let out = json(&run);
    let p95 = &out["metrics"]["e2e"]["p95"];
    assert!(p95["value"].is_null() && p95["high"].is_null() && p95["low"].as_f64().unwrap() >= 9e9, "{p95}");
    assert!(out["metrics"]["e2e"]["undefined"]["p95"].as_str().unwrap().starts_with("> 9.00\u{a0}s"));
    assert!(out["metrics"]["e2e"]["completed"]["p95"]["value"].is_number());
    assert_eq!(out["requests"]["timed_out_by_kind"]["total"], measured(&mut run).count().div_ceil(10));
}

#[test]
fn no_secret_leaves() {
    let mut run = healthy_open(6.0, 30);
    run.header.spec.api.headers.insert("Authorization".to_owned(), "Bearer sk-very-secret".to_owned());
    assert!(!json(&run).to_string().contains("sk-very-secret"));
}
