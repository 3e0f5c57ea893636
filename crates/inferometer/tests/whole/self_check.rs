//! How well this machine measures, and what a run makes of it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Run, Sim, inferometer, signal};

/// `inferometer self-check --quick ARGS --json` with its state in `folder`.
fn self_check(folder: &Path, args: &[&str]) -> Run {
    let mut command = inferometer(&["self-check", "--quick", "--json"]);
    command.args(args).env("INFEROMETER_STATE_DIR", folder);
    Run::of(command.output().expect("the binary starts"))
}

/// A run on a machine whose state is in `folder`.
fn run(folder: &Path, runs: &Path, args: &[&str]) -> Run {
    let mut command = inferometer(&["run"]);
    command.args(args).args(["--json", "--progress", "off", "--out"]).arg(runs);
    Run::of(command.env("INFEROMETER_STATE_DIR", folder).output().expect("the binary starts"))
}

/// Keeps what a self-check told, as if the machine had been quiet and its figures these. Nobody here can make the
/// machine quiet; what is done with the figures does not depend on it.
fn keep(state: &Path, told: &Value, change: impl FnOnce(&mut Value)) {
    let mut check = told.clone();
    check["noise"] = json!([]);
    check["cpu_per_request_ns"] = json!(50_000.0);
    check["cpu_per_event_ns"] = json!(10_000.0);
    check["heartbeat_max_ns"] = json!(3_000_000);
    change(&mut check);
    std::fs::create_dir_all(state).expect("a folder");
    std::fs::write(state.join("self-check-made.json"), check.to_string()).expect("written");
}

#[test]
fn the_machine_is_measured_kept_and_read_by_the_next_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let (state, runs) = (folder.path().join("state"), folder.path().join("runs"));
    let ran = self_check(&state, &[]);
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    let schema = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/self-check.schema.json"),
    );
    let schema: Value = serde_json::from_str(&schema.expect("the schema")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    assert!(validator.is_valid(&ran.json), "{:?}", validator.iter_errors(&ran.json).next());

    let noisy = !ran.json["noise"].as_array().expect("a list").is_empty();
    assert_eq!(ran.code, if noisy { 3 } else { 0 }, "{}", ran.json["verdict"]);
    let lag = &ran.json["send_lag"];
    let of = |spread: &Value, name: &str| spread[name].as_u64().unwrap_or_else(|| panic!("{name}: {spread}"));
    assert!(of(lag, "p50_ns") <= of(lag, "p99_ns") && of(lag, "p99_ns") <= of(lag, "max_ns"), "{lag}");
    assert!(ran.number("cpu_per_request_ns") > 0.0 && ran.number("cpu_per_event_ns") > 0.0);
    let compared = !ran.at("stamp_error/kernel").is_null();
    assert!(compared || noisy, "{}", ran.json["noise"]);
    if compared {
        // The program sees an event after the kernel has stamped it.
        let (kernel, user) = (ran.number("stamp_error/kernel/p50_ns"), ran.number("stamp_error/user/p50_ns"));
        assert!(kernel < user || noisy, "{kernel} and {user}");
    }
    if noisy {
        assert!(ran.json["kept"].is_null() && !state.exists());
    } else {
        assert!(ran.number("rate/holds") >= 1_000.0 && ran.number("streams/holds") >= 64.0);
        assert!(Path::new(ran.json["kept"].as_str().expect("a path")).exists());
        assert!(ran.number("floor/latency_ns") > 0.0 && ran.number("believe_above_ns") > 0.0);
    }

    // An error of 3 ms in latencies and none to speak of in gaps; a broken file beside it.
    std::fs::remove_dir_all(&state).unwrap_or_default();
    let error =
        |ns: u64| json!({ "n": 64, "p50_ns": ns, "p99_ns": null, "p99_9_ns": null, "max_ns": 9 * ns });
    let both = |ns: u64| json!({ "kernel": error(ns), "user": error(ns) });
    keep(&state, &ran.json, |check| {
        check["latency_error"] = both(3_000_000);
        check["gap_error"] = both(1);
    });
    std::fs::write(state.join("self-check-broken.json"), "{").expect("written");
    let load = ["sim://fixed?ttft=4ms&tpot=1ms", "-c", "2", "-n", "40", "--isl", "16", "--osl", "40"];
    let next = run(&state, &runs, &load);
    assert!([0, 3].contains(&next.code), "{}", next.stderr);
    assert_eq!(next.at("instrument/floor/latency_ns"), &json!(3_000_000));
    assert_eq!(next.at("environment/self_check/machine"), ran.at("machine"));
    let note = next.at("metrics/ttft/note").as_str().expect("a note").to_owned();
    assert!(
        note.starts_with("TTFT p50") && note.contains("ten times this instrument's error of 3.00"),
        "{note}"
    );
    assert!(next.json["notes"].as_array().expect("notes").iter().any(|n| n == note.as_str()));
    assert!(next.at("metrics/e2e/note").is_null(), "42 ms are more");
    let screen: String = next.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(screen.contains("is not used") && screen.contains("self-check-broken.json"), "{screen}");
    assert!(screen.contains("own error 3.00 ms (self-check of "), "{screen}");

    // On a machine that nobody has checked the error is unknown, not nothing.
    let fresh = run(&folder.path().join("nothing"), &runs, &load);
    assert!(fresh.at("instrument/floor").is_null() && fresh.at("metrics/ttft/note").is_null());
    assert!(
        fresh.at("environment/floor").as_str().is_some_and(|s| s.contains("run `inferometer self-check`"))
    );
}

#[test]
fn a_load_for_a_server_is_judged_without_putting_it_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let (state, log) = (folder.path().join("state"), folder.path().join("truth.jsonl"));
    let sim = Sim::start("sim://fixed?ttft=20ms&tpot=2ms&event_bytes=300", Some(&log));
    let told = self_check(&folder.path().join("first"), &[]);
    keep(&state, &told.json, |_| {});

    let small = self_check(&state, &["--against", &sim.url, "--rate", "5", "--isl", "32", "--osl", "16"]);
    // Other work may take the cores while this is tried: then it says so and nothing else.
    let can = small.at("against/can").as_str().expect("an answer").to_owned();
    let why = small.at("against/limited_by").as_str().expect("words").to_owned();
    match can.as_str() {
        "yes" => assert!(small.code == 0 && small.number("against/headroom") > 0.0, "{}", small.stderr),
        "cannot_tell" => assert!(small.code == 5 && why.contains("took the cores"), "{why}"),
        _ => assert!(small.code == 1 && !why.contains("a lane has one core"), "{why}"),
    }
    // Sixteen tokens and a last event of its own, each filled up to 300 bytes and framed.
    let events = small.number("against/shape/events");
    assert!((16.0..=17.0).contains(&events), "{events}");
    assert!(
        (280.0..400.0).contains(&small.number("against/shape/bytes_per_event")),
        "{}",
        small.json["against"]
    );

    let absurd = self_check(&state, &["--against", &sim.url, "--rate", "1e6", "--osl", "16"]);
    assert_eq!((absurd.code, absurd.at("against/can")), (1, &json!("no")), "{}", absurd.stderr);
    assert!(absurd.stderr.contains("No: this machine cannot offer 1,000,000"), "{}", absurd.stderr);
    // Two questions, two requests: the loads went elsewhere.
    let lines = || std::fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    crate::harness::wait_until("both probes in the log", Duration::from_secs(5), || lines() >= 2);
    assert_eq!(lines(), 2);
}

#[test]
fn wrong_questions_have_an_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    for (args, needle) in [
        (&["--against", "http://127.0.0.1:9"][..], "hint: --rate 400"),
        (&["--against", "http://127.0.0.1:9", "--rate", "5", "-c", "5"], "name two loads"),
        (&["--against", "http://127.0.0.1:9", "--rate=-1"], "above 0"),
        (&["--against", "http://127.0.0.1:9", "--rate", "nan"], "above 0"),
        (&["--against", "http://127.0.0.1:9", "-c", "0"], "above 0"),
        (&["--against", "http://127.0.0.1:9", "-c", "1", "--osl", "0"], "from 1"),
        (&["--against", "sim://fixed", "--rate", "5"], "is simulated on this machine"),
        (&["--rate", "5"], "--against"),
    ] {
        let ran = self_check(folder.path(), args);
        assert!(ran.code == 2 && ran.stderr.contains(needle), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn ctrl_c_ends_it_and_keeps_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = inferometer(&["self-check", "--json"]);
    command.env("INFEROMETER_STATE_DIR", folder.path().join("state"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    std::thread::sleep(Duration::from_millis(1500));
    signal(child.id(), "INT");
    let ran = Run::of(child.wait_with_output().expect("ends"));
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing of it is kept") && ran.json.is_null(), "{}", ran.stderr);
    assert!(!folder.path().join("state").exists());
}
