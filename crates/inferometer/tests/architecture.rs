//! The house has a direction: a crate may use only those below it.

use std::collections::BTreeMap;
use std::process::Command;

/// Who may use whom. `sim` must stay an independent truth, so it never sees `wire`.
const EDGES: [(&str, &[&str]); 14] = [
    ("spec", &[]),
    ("clock", &["spec"]),
    ("plan", &["spec"]),
    ("corpus", &["spec"]),
    ("record", &["spec", "clock"]),
    ("wire", &["spec", "plan", "corpus", "clock", "record"]),
    ("measure", &["spec", "record"]),
    ("decide", &["spec", "plan", "record", "measure", "quality"]),
    ("present", &["spec", "record", "measure", "decide", "quality"]),
    ("sim", &["spec", "clock"]),
    ("mlperf", &["spec"]),
    ("quality", &["spec", "measure"]),
    (
        "inferometer",
        &[
            "spec", "plan", "corpus", "clock", "record", "wire", "measure", "decide", "present", "sim",
            "mlperf", "quality",
        ],
    ),
    ("xtask", &[]),
];

#[test]
fn every_edge_runs_downwards() {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .output()
        .expect("cargo metadata runs");
    let metadata: serde_json::Value = serde_json::from_slice(&out.stdout).expect("cargo metadata is JSON");
    let allowed: BTreeMap<&str, &[&str]> = EDGES.into_iter().collect();
    let packages = metadata["packages"].as_array().expect("packages");
    assert_eq!(packages.len(), EDGES.len(), "every crate of the workspace stands in EDGES");
    for package in packages {
        let name = package["name"].as_str().expect("name");
        let below = allowed.get(name).unwrap_or_else(|| panic!("{name} is not in EDGES"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = dependency["name"].as_str().expect("name");
            let is_dev = dependency["kind"] == "dev";
            if allowed.contains_key(used) && dependency["path"].is_string() && !is_dev {
                assert!(below.contains(&used), "{name} must not use {used}");
            }
        }
    }
}
