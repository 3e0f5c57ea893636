//! Schedules that LoadGen 6.0.17 (PyPI `mlcommons-loadgen`, GCC 14.2.1) made from fixed seeds.

use mlperf::{Mode, SampleLibrary, Scenario, Schedule};
use serde_json::Value;

use crate::oracle;

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().map_or_else(Vec::new, |list| list.iter().filter_map(Value::as_u64).collect())
}

#[test]
fn draws_and_moments_are_loadgens() {
    let text = include_str!("../data/loadgen-6.0.17-schedules.json");
    let cases: Vec<Value> = serde_json::from_str(text).expect("JSON");
    assert_eq!(cases.len(), 16);
    for case in &cases {
        let name = &case["name"];
        let count = |name: &str| case[name].as_u64().expect("a count");
        let library =
            SampleLibrary { name: "PyQSL".into(), total: count("qsl_total"), performance: count("qsl_perf") };
        let settings = oracle::settings(&case["settings"]);
        let effective = mlperf::Effective::new(&settings, &library).expect("settings");
        assert_eq!(effective.min_query_count, count("effective_min_query_count"), "{name}");
        let schedule: Schedule = if settings.mode == Mode::AccuracyOnly {
            effective.accuracy().swap_remove(0)
        } else {
            effective.performance()
        };
        let wide = |list: &[u32]| list.iter().map(|n| u64::from(*n)).collect::<Vec<u64>>();
        let loaded = numbers(&case["loaded_set_first50"]);
        assert_eq!(wide(&schedule.loaded[..loaded.len()]), loaded, "{name}");
        assert_eq!(schedule.loaded.len() as u64, case["loaded_set_len"], "{name}");
        assert_eq!(schedule.at.len() as u64, case["generated_query_count"], "{name}");
        assert_eq!(schedule.samples_per_query as u64, case["generated_samples_per_query"], "{name}");
        let (first, last) = (numbers(&case["sample_idx"]), numbers(&case["last5_sample_idx"]));
        assert_eq!(wide(&schedule.samples[..first.len()]), first, "{name}");
        assert_eq!(wide(&schedule.samples[schedule.samples.len() - last.len()..]), last, "{name}");
        let moments: Vec<u64> = schedule.at.iter().map(|at| at.0).collect();
        let (first, last) = (numbers(&case["arrival_ns"]), numbers(&case["last5_arrival_ns"]));
        // A logarithm may differ by one unit in its last place, and a moment by a nanosecond for each.
        let near = |ours: &[u64], theirs: &[u64]| ours.iter().zip(theirs).all(|(a, b)| a.abs_diff(*b) <= 1);
        if settings.scenario == Scenario::Server {
            assert!(near(&moments[..first.len()], &first), "{name}: {:?} {first:?}", &moments[..first.len()]);
            assert!(near(&moments[moments.len() - last.len()..], &last), "{name}");
        }
        let duration = case["generated_query_duration_ns"].as_u64().expect("nanoseconds");
        assert!(schedule.duration.0.abs_diff(duration) <= 1, "{name}: {} {duration}", schedule.duration.0);
    }
}
