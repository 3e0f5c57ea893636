//! Fresh random settings: the real LoadGen runs them, its moments are read from its trace, and the logs
//! are made again. Only where LoadGen can be started: `LOADGEN_PYTHON` names a Python that has
//! `mlcommons-loadgen` 6.0.17, or one lies in `.cache/loadgen`. `cargo xtask test` installs it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mlperf::{Draws, Effective, Sample, SampleLibrary};
use serde_json::{Value, json};
use spec::Nanos;

use crate::logs::{Run, answers_of, run, same_logs, written};
use crate::oracle::{Case, settings};

fn python() -> Option<PathBuf> {
    let near = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/loadgen/bin/python");
    std::env::var_os("LOADGEN_PYTHON").map(PathBuf::from).or_else(|| near.exists().then_some(near))
}

struct Dice(Draws);

impl Dice {
    fn one_of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.0.below(list.len() as u32) as usize].clone()
    }
    fn yes(&mut self, one_in: u32) -> bool {
        self.0.below(one_in) == 0
    }
    fn between(&mut self, low: u32, high: u32) -> u64 {
        u64::from(low + self.0.below(high - low + 1))
    }
    fn word(&mut self) -> u64 {
        u64::from(self.0.bits()) << 32 | u64::from(self.0.bits())
    }
}

/// Settings of every scenario, of some hundred quick queries.
fn drawn(dice: &mut Dice) -> Value {
    let scenario = dice.one_of(&["SingleStream", "MultiStream", "Server", "Offline"]);
    let mode = dice.one_of(&["PerformanceOnly", "PerformanceOnly", "AccuracyOnly", "SubmissionRun"]);
    let total = dice.between(1, 90);
    let mut settings = json!({
        "scenario": scenario,
        "mode": mode,
        "min_query_count": dice.between(2, 800),
        "min_duration_ms": dice.one_of(&[0_u64, 0, 20, 60]),
        "qsl_rng_seed": dice.word(),
        "sample_index_rng_seed": dice.word(),
        "schedule_rng_seed": dice.word(),
        "accuracy_log_rng_seed": dice.word(),
        "sample_concatenate_permutation": dice.yes(3),
        "use_token_latencies": dice.yes(3),
    });
    let mut set = |name: &str, value: Value| {
        settings[name] = value;
    };
    let percentile = dice.one_of(&[0.5, 0.9, 0.95, 0.97, 0.99]);
    match scenario {
        "SingleStream" => {
            set("single_stream_expected_latency_ns", json!(dice.one_of(&[50_000.0, 333_333.3, 4e6])));
            set("single_stream_target_latency_percentile", json!(percentile));
        }
        "MultiStream" => {
            set("multi_stream_expected_latency_ns", json!(dice.one_of(&[70_000.0, 5e5])));
            set("multi_stream_target_latency_percentile", json!(percentile));
            set("multi_stream_samples_per_query", json!(dice.between(1, 9)));
        }
        "Server" => {
            set("server_target_qps", json!(dice.between(2000, 9000) as f64 + 0.25));
            set("server_target_latency_percentile", json!(percentile));
            set("server_target_latency_ns", json!(dice.between(50_000, 5_000_000)));
            set("ttft_latency", json!(dice.between(50_000, 5_000_000)));
            set("tpot_latency", json!(dice.between(10_000, 100_000)));
        }
        _ => set("offline_expected_qps", json!(dice.between(100, 9000) as f64)),
    }
    match dice.between(0, 8) {
        0 => set("performance_issue_unique", json!(true)),
        1 => {
            set("performance_issue_same", json!(true));
        }
        2 => set("performance_sample_count_override", json!(dice.between(1, total as u32))),
        3 => set("accuracy_sample_count_override", json!(dice.between(1, total as u32))),
        4 if mode == "PerformanceOnly" => set("max_query_count", json!(dice.between(2, 300))),
        5 if mode == "PerformanceOnly" => set("accuracy_log_sampling_target", json!(20)),
        _ => {}
    }
    json!({
        "settings": settings,
        "seed": dice.word() >> 12,
        "wait_us": 60,
        "tok_base": 2,
        "tok_mod": dice.between(1, 5),
        "qsl_total": total,
        "qsl_perf": dice.between(1, total as u32),
    })
}

/// Runs LoadGen and makes a case of what it left.
fn ran(python: &Path, given: &Value) -> Case {
    let folder = tempfile::tempdir().expect("a folder");
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/loadgen/drive.py");
    let mut child = Command::new(python)
        .args([driver.as_path(), folder.path()])
        .stdin(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(given.to_string().as_bytes()).expect("written");
    drop(stdin);
    assert!(child.wait().expect("ends").success(), "{given}");
    let mut files = serde_json::Map::new();
    for name in ["summary.txt", "detail.txt", "accuracy.json", "trace.json"] {
        let name = format!("mlperf_log_{name}");
        let text = std::fs::read_to_string(folder.path().join(&name)).expect("a log");
        files.insert(name, text.into());
    }
    let mut delays = given.clone();
    delays["delay"] = json!({"tok_base": given["tok_base"], "tok_mod": given["tok_mod"]});
    Case::new(format!("{given}"), files, delays)
}

/// The samples of a trace, moments from its start.
fn traced(case: &Case) -> Vec<Sample> {
    let timed = case.settings().use_token_latencies;
    let mut samples = BTreeMap::new();
    let mut first_at: BTreeMap<u64, u64> = BTreeMap::new();
    let mut first_of: BTreeMap<u64, u64> = BTreeMap::new();
    let of = |line: &str| {
        ["Sample", "Token", "Token_Latency"]
            .iter()
            .any(|name| line.contains(&format!("\"name\":\"{name}\",")))
    };
    for line in case.file("mlperf_log_trace.json").lines().filter(|line| of(line)) {
        let event: Value = serde_json::from_str(line.trim_end_matches(',')).expect(line);
        let args = &event["args"];
        let number = |name: &str| args[name].as_u64().expect("a number");
        let at = (event["ts"].as_f64().expect("a moment") * 1000.0).round() as u64;
        match (event["name"].as_str(), event["ph"].as_str()) {
            (Some("Token_Latency"), _) => {
                first_at.insert(at, number("issue_delay") + number("issue_to_done"));
            }
            (Some("Token"), Some("b")) => {
                first_of.insert(number("sample_seq"), number("complete_ns"));
            }
            (Some("Sample"), Some("b")) => {
                let sequence = number("sample_seq");
                let index = number("sample_idx");
                let first = first_of.get(&sequence).or_else(|| first_at.get(&at)).copied();
                let tokens = case.delay("tok_base", 2) + index % case.delay("tok_mod", 1);
                let sample = Sample {
                    query: number("query_seq"),
                    index: index as u32,
                    scheduled: Nanos(at),
                    issue_delay: Nanos(number("issue_start_ns")),
                    latency: Some(Nanos(number("complete_ns"))),
                    first_token: first.filter(|_| timed).map(Nanos),
                    tokens: timed.then_some(tokens),
                };
                samples.insert(sequence, sample);
            }
            _ => {}
        }
    }
    samples.into_values().collect()
}

#[test]
fn random_settings_give_the_same_logs() {
    let Some(python) = python() else {
        println!("no LoadGen here: LOADGEN_PYTHON names no Python that has mlcommons-loadgen 6.0.17");
        return;
    };
    let seed = std::env::var("LOADGEN_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one("mlperf") as u32);
    println!("LOADGEN_SEED={seed}");
    let mut dice = Dice(Draws::new(u64::from(seed)));
    let draws: u32 = std::env::var("LOADGEN_DRAWS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let mut compared = 0;
    for _ in 0..2 * draws {
        let given = drawn(&mut dice);
        let library = SampleLibrary {
            name: "PyQSL".into(),
            total: given["qsl_total"].as_u64().expect("a count"),
            performance: given["qsl_perf"].as_u64().expect("a count"),
        };
        if Effective::new(&settings(&given["settings"]), &library).is_err() {
            continue;
        }
        let case = ran(&python, &given);
        // LoadGen's own logger fell behind, its clock was read across a millisecond, or it divided by zero:
        // what our logs never say.
        let own = ["Logging allocation detected", "PerfClock and system_clock differ", ": -nan,", ": inf,"];
        if own.iter().any(|words| case.file("mlperf_log_detail.txt").contains(words)) {
            continue;
        }
        let run: Run = run(&case, traced(&case));
        let (summary, detail) = written(&run, &case);
        same_logs(&case, &detail);
        assert_eq!(summary, case.file("mlperf_log_summary.txt"), "{given}");
        assert_eq!(answers_of(&case, &run), case.file("mlperf_log_accuracy.json"), "{given}");
        compared += 1;
        if compared == draws {
            return;
        }
    }
    panic!("{compared} of {draws} runs could be compared");
}
