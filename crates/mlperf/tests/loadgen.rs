//! Schedules that LoadGen 6.0.17 (PyPI `mlcommons-loadgen`, GCC 14.2.1) made from fixed seeds.

use mlperf::{Mode, Scenario, Seeds, Settings};
use serde_json::Value;
use spec::Nanos;

fn settings(case: &Value) -> Settings {
    let asked = &case["settings"];
    let number = |name: &str| asked[name].as_u64().unwrap_or(0);
    let rate = |name: &str| asked[name].as_f64().unwrap_or(1.0);
    let scenario = match asked["scenario"].as_str() {
        Some("Server") => Scenario::Server { target_qps: rate("server_target_qps") },
        Some("SingleStream") => Scenario::SingleStream { every: Nanos::from_millis(1) },
        Some("Offline") => Scenario::Offline { expected_qps: rate("offline_expected_qps") },
        other => panic!("{other:?}"),
    };
    let count = |name: &str| u32::try_from(case[name].as_u64().expect("a count")).expect("a count");
    Settings {
        scenario,
        mode: if asked["mode"] == "AccuracyOnly" { Mode::Accuracy } else { Mode::Performance },
        min_duration: Nanos::from_millis(number("min_duration_ms")),
        min_queries: number("min_query_count"),
        equal_issue: asked["sample_concatenate_permutation"] == true,
        total: count("qsl_total"),
        performance_count: count("qsl_perf"),
        seeds: Seeds {
            qsl: number("qsl_rng_seed"),
            sample_index: number("sample_index_rng_seed"),
            schedule: number("schedule_rng_seed"),
        },
    }
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().map_or_else(Vec::new, |list| list.iter().filter_map(Value::as_u64).collect())
}

#[test]
fn draws_and_moments_are_loadgens() {
    let text = include_str!("data/loadgen-6.0.17-schedules.json");
    let cases: Vec<Value> = serde_json::from_str(text).expect("JSON");
    assert_eq!(cases.len(), 16);
    for case in &cases {
        let name = &case["name"];
        let schedule = settings(case).schedule();
        let wide = |list: &[u32]| list.iter().map(|n| u64::from(*n)).collect::<Vec<u64>>();
        let loaded = numbers(&case["loaded_set_first50"]);
        assert_eq!(wide(&schedule.loaded[..loaded.len()]), loaded, "{name}");
        assert_eq!(schedule.loaded.len() as u64, case["loaded_set_len"], "{name}");
        assert_eq!(schedule.at.len() as u64, case["generated_query_count"], "{name}");
        let (first, last) = (numbers(&case["sample_idx"]), numbers(&case["last5_sample_idx"]));
        assert_eq!(wide(&schedule.samples[..first.len()]), first, "{name}");
        assert_eq!(wide(&schedule.samples[schedule.samples.len() - last.len()..]), last, "{name}");
        let moments: Vec<u64> = schedule.at.iter().map(|at| at.0).collect();
        let (first, last) = (numbers(&case["arrival_ns"]), numbers(&case["last5_arrival_ns"]));
        // A logarithm may differ by one unit in its last place, and a moment by a nanosecond for each.
        let near = |ours: &[u64], theirs: &[u64]| ours.iter().zip(theirs).all(|(a, b)| a.abs_diff(*b) <= 1);
        assert!(near(&moments[..first.len()], &first), "{name}: {:?} {first:?}", &moments[..first.len()]);
        assert!(near(&moments[moments.len() - last.len()..], &last), "{name}");
        if matches!(settings(case).scenario, Scenario::Server { .. }) {
            let duration = case["generated_query_duration_ns"].as_u64().expect("nanoseconds");
            assert!(
                schedule.duration.0.abs_diff(duration) <= 1,
                "{name}: {} {duration}",
                schedule.duration.0
            );
        }
    }
}
