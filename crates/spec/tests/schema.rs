//! The committed schema is the one of the code, and it agrees with the reader.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;

use serde_json::{Value, json};
use spec::{Draft, schema};

/// `UPDATE_SCHEMA=1 cargo test -p spec` writes the file.
#[test]
fn the_committed_schema_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/spec.schema.json");
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/spec.schema.json is not current; run UPDATE_SCHEMA=1 cargo test -p spec"
    );
}

#[test]
fn what_the_reader_takes_the_schema_takes() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let good = [
        json!({}),
        json!({ "target": "http://h:1", "load": { "rate": 6, "cap": null, "ramp": { "from": "1/s", "over": "30s" } } }),
        json!({ "load": { "concurrency": 16, "think": "8s" }, "slo": ["ttft<=500ms"], "attain": "95%" }),
        json!({ "workload": { "isl": 512, "osl": "100..500", "cache": "repeat:5", "tokenizer": "llama3" } }),
        json!({ "workload": { "isl": { "uniform": { "min": 1, "max": 5 } }, "source": { "jsonl": "x" } } }),
        json!({ "phases": { "warmup": "20 requests", "measure": { "duration": "30s" } } }),
        json!({ "slo": { "joint": ["ttft<=1s"], "attain": 0.9 }, "labels": { "gpus": 8 } }),
        json!({ "api": { "sampling": { "stop": ["a"] }, "key": "env:K", "headers": { "A": "b" } } }),
        json!({ "client": { "connections": "prewarmed:4" }, "timeouts": { "idle": "off" } }),
        json!({ "client": { "bind": ["127.0.0.2"], "pin": true, "http2": false } }),
        json!({ "client": { "bind": "127.0.0.2,127.0.0.3", "unix": "/run/s.sock" } }),
        json!({ "target": ["http://h:1", "http://h:2"] }),
    ];
    for value in &good {
        let faults: Vec<String> = validator.iter_errors(value).map(|e| e.to_string()).collect();
        assert!(faults.is_empty(), "{value}: {faults:?}");
        assert!(Draft::from_json(value).is_ok(), "{value}");
    }
    let bad = [
        json!({ "lod": {} }),
        json!({ "load": { "burstyness": 1 } }),
        json!({ "target": 5 }),
        json!({ "target": [] }),
        json!({ "client": { "bind": [5] } }),
        json!({ "client": { "lanes": -1 } }),
        json!({ "workload": { "isl": { "uniform": { "min": 1 } } } }),
        json!({ "slo": { "limits": [] } }),
        json!({ "api": { "dialect": "smoke-signals" } }),
    ];
    for value in &bad {
        assert!(!validator.is_valid(value), "{value}");
        assert!(Draft::from_json(value).is_err(), "{value}");
    }
}

#[test]
fn a_spec_with_every_default_fits_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for load in [json!({ "concurrency": 2 }), json!({ "rate": "inf" })] {
        let draft = json!({ "target": "http://h:1", "load": load, "phases": { "measure": "5 requests" }, "slo": ["e2e<1s"] });
        let spec = Draft::from_json(&draft).unwrap().resolve().unwrap();
        let value: Value = serde_json::to_value(&spec).unwrap();
        let faults: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(faults.is_empty(), "{faults:?}");
    }
}
