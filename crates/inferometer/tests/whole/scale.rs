//! Many requests and many streams: memory that grows as promised, and tables that stand in for a journal.

use std::path::Path;

use crate::harness::{Run, Sim, inferometer, only_run, run};
use crate::large::{self, cost};
use crate::truth::{Attempt, best_of_three};

/// 20 KiB for each stream in flight, beside what the process needs anyway.
const PER_STREAM: u64 = 20 << 10;
/// 200 MB for 100,000 requests of 64 events.
const PER_REQUEST: u64 = 2_000;

fn show(path: &Path) -> Run {
    Run::of(inferometer(&["show", "--json"]).arg(path).output().expect("starts"))
}

#[test]
fn a_summary_takes_two_kilobytes_for_each_request_of_64_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let [few, many] = [2_000, 22_000].map(|count| {
        let path = folder.path().join(format!("{count}.jsonl.zst"));
        large::write_journal(&path, &large::run(count, 64));
        let cost = cost(inferometer(&["show"]).arg(&path));
        assert!([0, 3].contains(&cost.code), "{cost:?}");
        cost.resident_bytes
    });
    let each = many.saturating_sub(few) / 20_000;
    assert!(each <= PER_REQUEST, "{each} bytes for each request ({few} and {many} in all)");
}

#[test]
fn two_thousand_streams_take_twenty_kilobytes_each_and_are_measured_right() {
    // Both ends live on this machine: each stream takes a descriptor here and one there.
    let sim = Sim::start("sim://fixed?ttft=500ms&tpot=250ms", None);
    let memory = |streams: &str, folder: &Path| {
        let args = ["run", &sim.url, "-c", streams, "-n", streams, "--warmup", "none", "--isl", "16"];
        cost(inferometer(&args).args(["--osl", "16", "--progress", "off", "--out"]).arg(folder))
    };
    let folder = tempfile::tempdir().expect("a folder");
    let few = memory("200", &folder.path().join("few"));
    let many = memory("2200", &folder.path().join("many"));
    assert!([0, 3].contains(&many.code), "{many:?}");
    let each = many.resident_bytes.saturating_sub(few.resident_bytes) / 2_000;
    assert!(each <= PER_STREAM, "{each} bytes for each stream: {few:?}, {many:?}");
    let shown = show(&only_run(&folder.path().join("many")));
    assert_eq!(shown.at("requests/ok"), 2_200, "{}", shown.stderr);
    // What it calls valid is true: 250 ms for each token.
    best_of_three("TPOT of 2,200 streams", || {
        let tpot = shown.number("metrics/tpot/p50/value") / 1e6;
        let figures = format!("TPOT p50 {tpot} ms");
        Attempt { disturbed: shown.is_disturbed(), good: (tpot - 250.0).abs() <= 2.5, figures }
    });
}

#[test]
fn tables_stand_in_for_a_journal_that_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["sim://fixed?ttft=20ms&tpot=2ms", "--rate", "100", "-n", "200", "--isl", "16", "--osl", "8"];
    let ran = run(folder.path(), &args);
    let dir = only_run(folder.path());
    // The table, then the folder without its journal.
    assert_eq!(show(&dir.join("requests.parquet")).json, ran.json);
    std::fs::remove_file(dir.join("journal.jsonl.zst")).expect("removed");
    assert_eq!(show(&dir).json, ran.json);
    assert!(inferometer(&["report"]).arg(&dir).status().expect("starts").success());
    // Without the samples the run is still read; it says what it lacks.
    std::fs::remove_file(dir.join("telemetry.parquet")).expect("removed");
    let without = show(&dir);
    assert!(without.json["missing"].to_string().contains("telemetry.parquet"), "{}", without.stderr);
    // What the samples told may have capped latencies; the books are the same.
    assert_eq!(without.json["requests"], ran.json["requests"]);
}

#[test]
fn what_a_killed_run_did_not_write_is_made_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let mut run = large::run(300, 4);
    large::write_journal(&dir.join("journal.jsonl.zst"), &run);
    let screen = inferometer(&["show"]).arg(dir).output().expect("starts");
    assert!(String::from_utf8_lossy(&screen.stderr).contains("inferometer report"), "the screen says how");
    assert!(!dir.join("requests.parquet").exists(), "show changes nothing");
    assert!(inferometer(&["report"]).arg(dir).status().expect("starts").success());
    for name in ["run.json", "requests.parquet", "telemetry.parquet", "report.html"] {
        assert!(dir.join(name).exists(), "{name} is missing");
    }
    run.requests.sort_by_key(|r| r.seq);
    assert_eq!(record::read(&dir.join("requests.parquet")).expect("the table"), run);
    let written: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("run.json")).expect("run.json")).expect("JSON");
    assert_eq!(written, show(dir).json);
}
