//! A user's way: measure, read, analyse again, report.

use crate::harness::{Sim, inferometer, only_run, quiet_run, run};

#[test]
fn a_run_on_the_embedded_engine_is_trusted_and_can_be_analysed_again() {
    let (ran, folder) = quiet_run(&[
        "sim://llama-3.1-8b@h100",
        "--rate",
        "8",
        "--isl",
        "256",
        "--osl",
        "32",
        "--duration",
        "8s",
        "--slo",
        "ttft<=2s",
        "--slo",
        "p50(tpot)<=100ms",
        // 60 requests decide a share of 80 %, not one of 95 %.
        "--attain",
        "80%",
    ]);
    ran.assert_ends(0);
    if !ran.is_disturbed() {
        assert_eq!(ran.json["trust"]["verdict"], "valid", "{}", ran.json["trust"]);
        assert_eq!(ran.json["slo"]["joint"]["met"], true, "{}", ran.json["slo"]);
        assert!(ran.stderr.contains("valid"), "the screen goes to stderr: {}", ran.stderr);
    }
    assert_eq!(ran.json["schema_version"], 1);
    ran.assert_books_balance();
    assert!(ran.number("requests/ok") >= 30.0);
    assert!((ran.number("tokens/output_mean") - 32.0).abs() < 1e-9, "{}", ran.json["tokens"]);

    let dir = only_run(folder.path());
    for name in
        ["run.json", "journal.jsonl.zst", "requests.parquet", "telemetry.parquet", "first-request.json"]
    {
        assert!(dir.join(name).exists(), "{name} is missing");
    }
    let text = std::fs::read(dir.join("run.json")).expect("run.json");
    let written: serde_json::Value = serde_json::from_slice(&text).expect("strict JSON");
    assert_eq!(written, ran.json, "--json prints run.json");

    // Under another rule, without running again.
    let shown =
        inferometer(&["show", "--percentile", "nearest-rank", "--json"]).arg(&dir).output().expect("starts");
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!(shown["metrics"]["ttft"]["estimator"], "nearest-rank");
    assert_eq!(shown["requests"], ran.json["requests"]);
    assert_eq!(shown["metrics"]["ttft"]["max"], ran.json["metrics"]["ttft"]["max"]);

    // The same rule gives the same file.
    let again = inferometer(&["show", "--json"]).arg(&dir).output().expect("starts");
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!(again, ran.json);

    let status = inferometer(&["report"]).arg(&dir).status().expect("starts");
    assert!(status.success());
    let page = std::fs::read_to_string(dir.join("report.html")).expect("report.html");
    assert!(page.len() < 400_000, "{} bytes", page.len());
    for part in ["Can this measurement be believed?", "TTFT", "<svg", "Definitions used"] {
        assert!(page.contains(part), "{part} is missing");
    }
    // One file, no network: nothing is loaded from anywhere.
    for loader in ["<script src", "<link", "@import", "src=\"http", "url(http"] {
        assert!(!page.contains(loader), "{loader}");
    }

    // The spec that ran is a spec file.
    let spec = folder.path().join("again.json");
    std::fs::write(&spec, ran.json["spec"].to_string()).expect("written");
    let checked = inferometer(&["spec", "check"]).arg(&spec).output().expect("starts");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let checked: serde_json::Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    assert_eq!(checked, ran.json["spec"]);
}

#[test]
fn a_limit_that_fails_exits_1_and_the_joint_rate_lies_within_its_bounds() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = run(
        folder.path(),
        &[
            "sim://fixed?ttft=50ms&tpot=2ms",
            "-c",
            "8",
            "-n",
            "120",
            "--isl",
            "32",
            "--osl",
            "8",
            "--slo",
            "ttft<=20ms",
            "--slo",
            "tpot<=50ms",
        ],
    );
    ran.assert_ends(1);
    let joint = &ran.json["slo"]["joint"];
    // What a check took away is null.
    assert!(joint["met"] == false || ran.is_disturbed(), "{joint}");
    assert!(joint["good"] == 0 || ran.is_disturbed(), "{joint}");
    if let Some(bounds) = joint["bounds"].as_array() {
        assert_eq!((bounds[0].as_f64(), bounds[1].as_f64()), (Some(0.0), Some(0.0)));
    }
}

#[test]
fn every_dialect_and_load_model_runs() {
    let sim = Sim::start("sim://fixed?ttft=5ms&tpot=1ms", None);
    for (name, args) in [
        ("completions", &["--api", "completions", "-c", "4", "-n", "20"][..]),
        ("not streamed", &["--no-stream", "-c", "4", "-n", "20"][..]),
        ("completions, not streamed", &["--api", "completions", "--no-stream", "-c", "4", "-n", "20"][..]),
        ("constant", &["--rate", "40", "--burstiness", "inf", "-n", "20"][..]),
        ("bursty", &["--rate", "40", "--burstiness", "0.25", "-n", "20"][..]),
        ("capped", &["--rate", "200", "--cap", "2", "-n", "20"][..]),
        ("at once", &["--rate", "inf", "-n", "20"][..]),
        ("ramp", &["--rate", "40", "--ramp", "4:500ms", "-n", "20"][..]),
        ("think", &["-c", "4", "--think", "20ms", "-n", "20"][..]),
        ("fresh connections", &["-c", "4", "-n", "20", "--connections", "fresh"][..]),
        ("prewarmed", &["-c", "4", "-n", "20", "--connections", "prewarmed:4"][..]),
        ("lanes", &["-c", "5", "-n", "20", "--lanes", "3"][..]),
        ("shared prefix", &["-c", "4", "-n", "20", "--cache", "shared-prefix:16/2"][..]),
        ("repeat", &["-c", "4", "-n", "20", "--cache", "repeat:3"][..]),
        ("lengths", &["-c", "4", "-n", "20", "--isl", "lognormal(64,32)", "--osl", "4..12"][..]),
        ("no tokenizer", &["-c", "4", "-n", "20", "--tokenizer", "none"][..]),
        ("no warm-up", &["-c", "4", "-n", "20", "--warmup", "none"][..]),
        ("no check", &["-c", "4", "-n", "20", "--no-check", "--model", "fixed"][..]),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut all = vec![sim.url.as_str(), "--isl", "64", "--osl", "8"];
        // A later flag of the same name is an error: the case's own lengths replace the common ones.
        if args.contains(&"--isl") {
            all.truncate(1);
        }
        all.extend_from_slice(args);
        let ran = run(folder.path(), &all);
        assert!([0, 3].contains(&ran.code), "{name}: {}", ran.stderr);
        assert_eq!(ran.json["requests"]["ok"], 20, "{name}: {}\n{}", ran.json["requests"], ran.stderr);
        ran.assert_books_balance();
    }
}

#[test]
fn the_same_seed_sends_the_same_bodies_and_another_seed_other_ones() {
    let sim = Sim::start("sim://fixed?ttft=1ms&tpot=1ms", None);
    let first = |seed: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        run(
            folder.path(),
            &[&sim.url, "-c", "1", "-n", "1", "--osl", "2", "--seed", seed, "--warmup", "none"],
        );
        let text = std::fs::read_to_string(only_run(folder.path()).join("first-request.json")).expect("kept");
        let kept: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        kept["body"].to_string()
    };
    let one = first("7");
    assert_eq!(one, first("7"));
    assert_ne!(one, first("8"));
}
