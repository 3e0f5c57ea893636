//! Ctrl-C, SIGKILL, full disks: what was measured is kept.

use std::process::Stdio;
use std::time::Duration;

use crate::harness::{Run, Sim, inferometer, only_run, signal, wait_until};

#[test]
fn ctrl_c_gives_a_valid_partial_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command =
        inferometer(&["run", "sim://fixed?ttft=20ms&tpot=2ms", "--rate", "40", "--duration", "60s"]);
    command.args(["--isl", "16", "--osl", "8", "--warmup", "none", "--json", "--out"]).arg(folder.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    std::thread::sleep(Duration::from_millis(2500));
    signal(child.id(), "INT");
    let ran = Run::of(child.wait_with_output().expect("ends"));
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    assert_eq!(ran.at("stopped"), "interrupted", "{}", ran.stderr);
    ran.assert_books_balance();
    let offered = ran.number("requests/offered");
    assert!((40.0..200.0).contains(&offered), "what was not due is not offered: {offered}");
    assert!(ran.number("requests/ok") >= 40.0);
}

#[test]
fn a_killed_run_is_readable_up_to_its_last_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("truth.jsonl");
    let runs = folder.path().join("runs");
    let sim = Sim::start("sim://fixed?ttft=20ms&tpot=2ms", Some(&log));
    let mut command =
        inferometer(&["run", &sim.url, "--rate", "50", "--duration", "60s", "--isl", "16", "--osl", "8"]);
    command.args(["--warmup", "none", "--out"]).arg(&runs);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    wait_until("100 requests", Duration::from_secs(30), || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.lines().count() > 100)
    });
    // Whatever the engine had finished one second before the kill must be in the recovered report.
    let finished = || std::fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    let before = finished();
    std::thread::sleep(Duration::from_millis(1100));
    signal(child.id(), "KILL");
    child.wait().expect("ended");

    let dir = only_run(&runs);
    assert!(!dir.join("run.json").exists(), "it was killed before it could write");
    let shown = Run::of(inferometer(&["show", "--json"]).arg(&dir).output().expect("starts"));
    assert_eq!(shown.at("stopped"), "killed", "{}", shown.stderr);
    assert!(shown.number("requests/ok") >= before as f64 - 2.0, "{} of {before}", shown.json["requests"]);
    assert!(!shown.json["missing"].as_array().expect("a list").is_empty(), "it says what is missing");
    shown.assert_books_balance();
}

#[test]
fn a_folder_that_cannot_be_written_is_named_before_the_run() {
    let run = Run::of(
        inferometer(&["run", "sim://fixed", "-n", "1", "--out", "/proc/no-such-place"])
            .output()
            .expect("starts"),
    );
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("/proc/no-such-place"), "{}", run.stderr);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let command = format!(
        "{} run 'sim://fixed?ttft=1ms&tpot=1ms' -n 2 --osl 2 --json --out {} 2>/dev/null | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}",
        crate::harness::BINARY,
        folder.path().display()
    );
    let out = std::process::Command::new("bash").args(["-c", &command]).output().expect("bash");
    assert_ne!(String::from_utf8_lossy(&out.stdout).trim(), "101", "no panic");
}
