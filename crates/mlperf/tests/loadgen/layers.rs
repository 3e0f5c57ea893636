//! Log folders of the real LoadGen, layer by layer.

use std::collections::BTreeMap;

use mlperf::Draws;
use mlperf::layers::{
    Availability, Cache, CacheUse, Check, Declared, Division, Evidence, Finding, Instrument, Layer, Layers,
    Status,
};
use mlperf::read::{Logs, is_answer};
use serde_json::{Value, json};

use crate::oracle::{Case, cases};

fn logs(case: &Case) -> Logs {
    let summary = Some(case.file("mlperf_log_summary.txt"));
    let lines = case.file("mlperf_log_accuracy.json").lines();
    let answers = lines.filter(|line| is_answer(line.as_bytes())).count() as u64;
    Logs::parse(case.file("mlperf_log_detail.txt"), summary, Some(answers)).expect("logs")
}

fn look(performance: Logs, declared: Declared) -> Layers {
    Evidence { performance, declared, ..Evidence::default() }.layers().expect("layers")
}

fn layer<'a>(layers: &'a Layers, id: &str) -> &'a Layer {
    layers.layers.iter().find(|layer| layer.id == id).expect(id)
}

fn check<'a>(layers: &'a Layers, of: &str, id: &str) -> &'a Check {
    layer(layers, of).checks.iter().find(|check| check.id == id).expect(id)
}

/// With what is known of the program that sent.
fn with_instrument(performance: Logs, holds: Option<bool>) -> Layers {
    let finding = Some(Finding { holds, words: "looked at".into() });
    let instrument = Instrument { schedule_lag: finding.clone(), client: finding.clone(), clock: finding };
    Evidence { performance, instrument, ..Evidence::default() }.layers().expect("layers")
}

#[test]
fn a_program_that_sent_late_fails_l1_and_one_that_is_not_known_never_passes_it() {
    let case = cases().into_iter().find(|case| case.name == "server_valid").expect("the case");
    for (holds, status) in
        [(Some(true), Status::Passed), (Some(false), Status::Failed), (None, Status::Incomplete)]
    {
        let layers = with_instrument(logs(&case), holds);
        assert_eq!(layer(&layers, "L1").status, status);
        for id in ["schedule_lag", "client", "clock"] {
            assert_eq!(check(&layers, "L1", id).status, status, "{id}");
        }
        assert_eq!(layer(&layers, "L2").status, Status::Passed);
    }
}

/// L1 and L2 of every case, and which checks of L2 failed.
#[test]
fn integrity_and_verdict_of_every_run() {
    let expected: BTreeMap<&str, (Status, Status, &[&str])> = BTreeMap::from([
        ("acc_ms", (Status::Passed, Status::Incomplete, &[][..])),
        ("acc_server_tokens", (Status::Passed, Status::Incomplete, &[])),
        ("acc_ss", (Status::Passed, Status::Incomplete, &[])),
        ("find_peak", (Status::Passed, Status::Failed, &["early_stopping"])),
        ("ms_too_few", (Status::Passed, Status::Failed, &["early_stopping"])),
        ("ms_valid", (Status::Passed, Status::Passed, &[])),
        ("offline_short", (Status::Passed, Status::Failed, &["min_duration"])),
        ("offline_tokens", (Status::Passed, Status::Passed, &[])),
        ("offline_valid", (Status::Passed, Status::Passed, &[])),
        ("server_acclog", (Status::Passed, Status::Failed, &["early_stopping"])),
        ("server_equal_issue", (Status::Passed, Status::Failed, &["early_stopping"])),
        ("server_exact459", (Status::Passed, Status::Passed, &[])),
        ("server_issue_same", (Status::Passed, Status::Failed, &["early_stopping"])),
        (
            "server_max_async",
            (Status::Failed, Status::Failed, &["min_queries", "min_samples", "early_stopping"]),
        ),
        ("server_max_query", (Status::Failed, Status::Failed, &["min_duration"])),
        ("server_perf_fail", (Status::Passed, Status::Failed, &["latency", "early_stopping"])),
        ("server_tokens_ttft_fail", (Status::Passed, Status::Failed, &["latency", "early_stopping"])),
        ("server_tokens_valid", (Status::Passed, Status::Passed, &[])),
        ("server_too_few", (Status::Passed, Status::Failed, &["early_stopping"])),
        ("server_valid", (Status::Passed, Status::Passed, &[])),
        ("ss_equal_issue", (Status::Passed, Status::Passed, &[])),
        ("ss_exact64", (Status::Passed, Status::Passed, &[])),
        ("ss_ran_out", (Status::Failed, Status::Failed, &["min_duration", "early_stopping"])),
        ("ss_tiny_trace", (Status::Passed, Status::Failed, &["early_stopping"])),
        ("ss_tokens", (Status::Passed, Status::Passed, &[])),
        ("ss_too_few", (Status::Passed, Status::Failed, &["early_stopping"])),
        ("ss_valid_p90", (Status::Passed, Status::Passed, &[])),
        ("submission_run_ss", (Status::Passed, Status::Passed, &[])),
    ]);
    let mut got = BTreeMap::new();
    for case in &cases() {
        let bare = look(logs(case), Declared::default());
        let layers = with_instrument(logs(case), Some(true));
        let (integrity, verdict) = (layer(&layers, "L1"), layer(&layers, "L2"));
        let failed: Vec<&str> = verdict
            .checks
            .iter()
            .filter(|check| check.status == Status::Failed)
            .map(|check| check.id)
            .collect();
        got.insert(case.name.clone(), (integrity.status, verdict.status, failed));
        // What its own logs do not say of the program that sent is not known.
        let without = if integrity.status == Status::Passed { Status::Incomplete } else { integrity.status };
        assert_eq!(layer(&bare, "L1").status, without, "{}", case.name);
        // As LoadGen said itself.
        let said = case.file("mlperf_log_summary.txt").contains("Result is : VALID");
        assert_eq!(verdict.status == Status::Passed, said, "{}: {verdict:?}", case.name);
        // Nothing is declared: nothing above can pass.
        assert!(
            ["L3", "L4", "L5"].iter().all(|id| layer(&layers, id).status != Status::Passed),
            "{}",
            case.name
        );
    }
    assert_eq!(got.len(), expected.len());
    for (name, (integrity, verdict, failed)) in got {
        assert_eq!((integrity, verdict, &failed[..]), expected[name.as_str()], "{name}");
    }
}

#[test]
fn the_answer_is_json_of_this_form() {
    let case = cases().into_iter().find(|case| case.name == "server_valid").expect("the case");
    let json = serde_json::to_value(look(logs(&case), Declared::default())).expect("JSON");
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&json), ["layers"]);
    let ids = |list: &Value| -> Vec<String> {
        list.as_array()
            .expect("a list")
            .iter()
            .map(|one| one["id"].as_str().expect("an id").to_owned())
            .collect()
    };
    assert_eq!(ids(&json["layers"]), ["L1", "L2", "L3", "L4", "L5"]);
    for layer in json["layers"].as_array().expect("a list") {
        assert_eq!(keys(layer), ["id", "status", "checks"]);
        for check in layer["checks"].as_array().expect("a list") {
            assert!(
                ["passed", "failed", "incomplete"].contains(&check["status"].as_str().expect("a status"))
            );
            assert!(!check["words"].as_str().expect("words").is_empty() && check["source"].is_string());
        }
    }
    let verdict = ["min_duration", "min_queries", "min_samples", "latency", "early_stopping"];
    assert_eq!(ids(&json["layers"][1]["checks"]), verdict);
    let submission = [
        "accuracy",
        "seed_and_settings",
        "no_log_errors",
        "compliance",
        "system_and_measurements",
        "division_and_model",
    ];
    assert_eq!(ids(&json["layers"][2]["checks"]), submission);
}

/// A run that keeps all rules of v6.1 for llama3.1-8b in Server: a real log with other numbers in it.
fn submission() -> (String, Declared) {
    let case = cases().into_iter().find(|case| case.name == "server_tokens_valid").expect("the case");
    let mut text = case.file("mlperf_log_detail.txt").to_owned();
    for (key, value) in [
        ("effective_min_duration_ms", "600000"),
        ("effective_performance_sample_count", "13368"),
        ("effective_sample_concatenate_permutation", "true"),
        ("requested_server_ttft_latency", "2000000000"),
        ("requested_server_tpot_latency", "100000000"),
    ] {
        text = with(&text, key, value);
    }
    let scores = ["ROUGE1", "ROUGE2", "ROUGEL", "ROUGELSUM"].map(|name| (name.to_owned(), 39.0));
    let mut accuracy = BTreeMap::from(scores);
    accuracy.insert("GEN_LEN".into(), 8_167_644.0);
    let declared = Declared {
        round: Some("v6.1".into()),
        model: Some("llama3.1-8b".into()),
        division: Some(Division::Closed),
        availability: Some(Availability::Available),
        accuracy: Some(accuracy),
        compliance: BTreeMap::from([("TEST06".into(), true)]),
        system: Some(system()),
        measurements: Some(measurements()),
        cache: Some(Cache {
            protocol: CacheUse::WithinQuery,
            prompts_unique: Some(true),
            cached_tokens: Some(0),
        }),
        ..Declared::default()
    };
    (text, declared)
}

fn with(text: &str, key: &str, value: &str) -> String {
    let start = format!("\"key\": \"{key}\", \"value\": ");
    let line = |line: &str| match line.split_once(&start) {
        Some((before, rest)) => {
            let (_, after) = rest.split_once(", \"time_ms\"").expect("a line");
            format!("{before}{start}{value}, \"time_ms\"{after}\n")
        }
        None => format!("{line}\n"),
    };
    assert!(text.contains(&start), "{key}");
    text.lines().map(line).collect()
}

fn system() -> Value {
    let fields = "division submitter status system_name number_of_nodes host_processor_model_name \
         host_processors_per_node host_processor_core_count host_memory_capacity host_storage_capacity \
         host_storage_type accelerators_per_node accelerator_model_name accelerator_memory_capacity \
         framework operating_system system_type other_software_stack host_processor_frequency \
         host_processor_caches host_memory_configuration host_processor_interconnect host_networking \
         host_networking_topology accelerator_frequency accelerator_host_interconnect \
         accelerator_interconnect accelerator_interconnect_topology accelerator_memory_configuration \
         accelerator_on-chip_memories cooling hw_notes sw_notes host_network_card_count \
         system_type_detail";
    let mut system: serde_json::Map<String, Value> =
        fields.split_whitespace().map(|name| (name.to_owned(), json!("something"))).collect();
    for (name, value) in [
        ("division", "closed"),
        ("status", "available"),
        ("system_type", "datacenter"),
        ("is_network", "false"),
    ] {
        system.insert(name.into(), json!(value));
    }
    Value::Object(system)
}

fn measurements() -> Value {
    json!({
        "input_data_types": "int32",
        "retraining": "no",
        "starting_weights_filename": "weights",
        "weight_data_types": "fp8",
        "weight_transformations": "quantised",
    })
}

fn looked(detail: &str, declared: Declared) -> Layers {
    let (text, _) = submission();
    let mut accuracy = with(&text, "effective_accuracy_sample_count", "13368");
    accuracy = with(&accuracy, "effective_test_mode", "\"AccuracyOnly\"");
    let performance = Logs::parse(detail, None, None).expect("logs");
    let accuracy = Some(Logs::parse(&accuracy, None, None).expect("logs"));
    Evidence { performance, accuracy, declared, ..Evidence::default() }.layers().expect("layers")
}

#[test]
fn a_run_that_keeps_the_rules_passes_them_and_is_yet_unreviewed() {
    let (text, declared) = submission();
    let layers = looked(&text, declared);
    for id in ["L2", "L3", "L4"] {
        assert_eq!(layer(&layers, id).status, Status::Passed, "{:#?}", layer(&layers, id));
    }
    assert_eq!(layer(&layers, "L5").status, Status::Incomplete);
    assert!(check(&layers, "L5", "review").words.contains("not reviewed by MLCommons"));
    assert!(layer(&layers, "L4").checks.iter().all(|check| check.hole.is_none()));
}

#[test]
fn equal_to_a_limit_is_valid_and_no_submission() {
    let (text, declared) = submission();
    let text = with(&text, "result_first_token_99.00_percentile_latency_ns", "2000000000");
    let layers = looked(&text, declared.clone());
    assert_eq!(layer(&layers, "L2").status, Status::Passed);
    assert_eq!(check(&layers, "L3", "division_and_model").status, Status::Failed);
    assert_eq!(layer(&layers, "L3").status, Status::Failed);
    let below = with(&text, "result_first_token_99.00_percentile_latency_ns", "1999999999");
    assert_eq!(layer(&looked(&below, declared), "L3").status, Status::Passed);
}

/// Each breach fails the check that it belongs to, and no other.
#[test]
fn each_rule_decides() {
    let broken = |id: &str, key: &str, value: &str| {
        let (text, declared) = submission();
        let layers = looked(&with(&text, key, value), declared);
        let failed: Vec<&str> = layer(&layers, "L3")
            .checks
            .iter()
            .filter(|check| check.status == Status::Failed)
            .map(|check| check.id)
            .collect();
        assert_eq!(failed, [id], "{key} {value}");
    };
    broken("seed_and_settings", "effective_qsl_rng_seed", "1");
    broken("seed_and_settings", "effective_min_duration_ms", "599999");
    broken("seed_and_settings", "effective_performance_sample_count", "13367");
    broken("seed_and_settings", "effective_sample_concatenate_permutation", "false");
    broken("seed_and_settings", "requested_server_ttft_latency", "2000000001");
    broken("seed_and_settings", "effective_target_latency_percentile", "0.98");
    broken("division_and_model", "result_validity", "\"INVALID\"");
    broken("division_and_model", "result_time_per_output_token_99.00_percentile_ns", "100000000");
    broken("division_and_model", "effective_test_mode", "\"FindPeakPerformance\"");
    let declared = |change: fn(&mut Declared)| {
        let (text, mut declared) = submission();
        change(&mut declared);
        looked(&text, declared)
    };
    let status = |change: fn(&mut Declared), id: &str| check(&declared(change), "L3", id).status;
    assert_eq!(status(|d| d.accuracy = None, "accuracy"), Status::Incomplete);
    let low = |d: &mut Declared| {
        d.accuracy.as_mut().expect("scores").insert("ROUGE2".into(), 15.7);
    };
    assert_eq!(status(low, "accuracy"), Status::Failed);
    assert_eq!(status(|d| d.compliance.clear(), "compliance"), Status::Incomplete);
    assert_eq!(status(|d| d.system = None, "system_and_measurements"), Status::Incomplete);
    assert_eq!(status(|d| d.measurements = Some(json!({})), "system_and_measurements"), Status::Failed);
    assert_eq!(status(|d| d.scenario = Some("SingleStream".into()), "division_and_model"), Status::Failed);
    let cache = |protocol, prompts_unique, cached_tokens| {
        let (text, mut declared) = submission();
        declared.cache = Some(Cache { protocol, prompts_unique, cached_tokens });
        check(&looked(&text, declared), "L3", "seed_and_settings").status
    };
    assert_eq!(cache(CacheUse::WarmPrefix, Some(true), Some(0)), Status::Failed);
    assert_eq!(cache(CacheUse::WithinQuery, Some(true), Some(1)), Status::Failed);
    assert_eq!(cache(CacheUse::WithinQuery, None, Some(0)), Status::Incomplete);
    assert_eq!(cache(CacheUse::Cold, None, Some(0)), Status::Passed);
    assert_eq!(cache(CacheUse::Cold, None, None), Status::Incomplete);
    assert_eq!(status(|d| d.cache = None, "seed_and_settings"), Status::Incomplete);
    let (text, mut unknown) = submission();
    unknown.round = Some("v9".into());
    let evidence = Evidence {
        performance: Logs::parse(&text, None, None).expect("logs"),
        declared: unknown,
        ..Evidence::default()
    };
    assert!(evidence.layers().expect_err("no such round").contains("known are v5.0, v5.1, v6.0, v6.1"));
}

/// What was found by giving the reference checker a passing folder with one thing changed.
#[test]
fn holes_of_the_reference_checker_are_named() {
    let (text, declared) = submission();
    let hole = |text: &str, declared: Declared, id: &str| {
        let layers = looked(text, declared);
        let check = check(&layers, "L4", id).clone();
        assert_eq!(check.status, Status::Passed, "{check:?}");
        assert_eq!(layer(&layers, "L3").status, Status::Failed, "{id}");
        check.hole.expect(id)
    };
    let invalid = with(&text, "result_validity", "\"INVALID\"");
    assert!(hole(&invalid, declared.clone(), "performance_metric").contains("INVALID passes"));
    let unequal = with(&text, "effective_sample_concatenate_permutation", "false");
    assert!(hole(&unequal, declared.clone(), "equal_issue").contains("since v5.0"));
    let error = text.replacen("\"is_error\": false", "\"is_error\": true", 1);
    assert!(hole(&error, declared.clone(), "loadgen_errors").contains("wrong way round"));
    // 1.9 s to the first token: within Server's limit, far from Interactive's.
    let slow = with(&text, "result_first_token_99.00_percentile_latency_ns", "1900000000");
    let interactive = Declared { scenario: Some("Interactive".into()), ..declared.clone() };
    assert!(hole(&slow, interactive, "token_latency").contains("limits of Server"));
    // What it does refuse.
    for (key, value, id) in [
        ("result_first_token_99.00_percentile_latency_ns", "2000000000", "token_latency"),
        ("effective_min_duration_ms", "599999", "min_duration"),
        ("early_stopping_met", "false", "latency"),
        ("effective_schedule_rng_seed", "7", "seeds"),
    ] {
        let layers = looked(&with(&text, key, value), declared.clone());
        assert_eq!(check(&layers, "L4", id).status, Status::Failed, "{key}");
    }
}

#[test]
fn a_log_that_contradicts_itself_is_found_out() {
    let case = cases().into_iter().find(|case| case.name == "server_perf_fail").expect("the case");
    let text = with(case.file("mlperf_log_detail.txt"), "result_perf_constraints_met", "true");
    let text = with(&text, "early_stopping_met", "true");
    let text = with(&text, "result_validity", "\"VALID\"");
    let summary = Some(case.file("mlperf_log_summary.txt"));
    let layers = look(Logs::parse(&text, summary, None).expect("logs"), Declared::default());
    assert_eq!(check(&layers, "L1", "logs_agree").status, Status::Failed);
    for id in ["latency", "early_stopping"] {
        let check = check(&layers, "L2", id);
        assert!(check.status == Status::Failed && check.words.contains("contradicts itself"), "{check:?}");
    }
}

/// Our own log is of the same form, and no submission.
#[test]
fn a_log_of_our_own_is_for_comparison() {
    let (text, declared) = submission();
    let ours = with(&text, "loadgen_version", "\"inferometer 0.1.0\"");
    let layers = looked(&ours, declared);
    assert_eq!(check(&layers, "L5", "official_loadgen").status, Status::Failed);
    assert!(check(&layers, "L5", "official_loadgen").words.contains("not to be submitted"));
}

/// Whatever stands in a log, there is an answer, or words on what is no log.
#[test]
fn no_log_brings_the_check_down() {
    let (text, declared) = submission();
    let all = cases();
    let texts: Vec<&str> =
        all.iter().map(|case| case.file("mlperf_log_detail.txt")).chain([text.as_str()]).collect();
    let odd =
        ["-1", "0", "18446744073709551615", "1e308", "0.5", "\"x\"", "null", "[]", "{}", "true", "nan", ""];
    let mut draws = Draws::new(7);
    let mut refused = 0;
    for _ in 0..600 {
        let text = texts[draws.below(texts.len() as u32) as usize];
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for _ in 0..6 {
            let at = draws.below(lines.len() as u32) as usize;
            let value = odd[draws.below(odd.len() as u32) as usize];
            let Some((before, rest)) = lines[at].split_once("\"value\": ") else { continue };
            let Some((_, after)) = rest.split_once(", \"time_ms\"") else { continue };
            lines[at] = format!("{before}\"value\": {value}, \"time_ms\"{after}");
        }
        match Logs::parse(&lines.join("\n"), None, None) {
            Ok(logs) => {
                let _ = look(logs, declared.clone());
            }
            Err(words) => {
                assert!(words.contains("mlperf_log_detail.txt:"), "{words}");
                refused += 1;
            }
        }
    }
    assert!((50..500).contains(&refused), "{refused}");
}
