//! Processes that are stopped, interrupted or killed, on either side: what was measured is kept, and told right.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use spec::seed::mix;

use crate::harness::{Run, Sim, Started, inferometer, only_run, signal, wait_until, with_limits};

const SECOND_NS: u64 = 1_000_000_000;

/// A run at 50 requests a second, and what is added.
fn steady_run(folder: &Path, target: &str, more: &[&str]) -> Started {
    let args = [target, "--rate", "50", "--isl", "16", "--osl", "8", "--warmup", "none"];
    Started::run(folder, &[&args[..], more].concat())
}

/// How many requests the journal of the only run below `folder` tells of so far.
fn heard(folder: &Path) -> usize {
    let journal = || Some(std::fs::read_dir(folder).ok()?.next()?.ok()?.path().join(record::folder::JOURNAL));
    journal().and_then(|path| record::read(&path).ok()).map_or(0, |run| run.requests.len())
}

pub fn wait_for_requests(folder: &Path, n: usize) {
    wait_until("requests in the journal", Duration::from_secs(30), || heard(folder) >= n);
}

#[test]
fn a_signal_ends_the_run_with_a_report_of_what_was_measured() {
    for name in ["INT", "TERM", "HUP"] {
        let folder = tempfile::tempdir().expect("a folder");
        let started = steady_run(folder.path(), "sim://fixed?ttft=20ms&tpot=2ms", &["--duration", "60s"]);
        wait_for_requests(folder.path(), 40);
        signal(started.pid(), name);
        let ran = started.end();
        assert!([0, 3].contains(&ran.code), "{name}: {}", ran.stderr);
        assert_eq!(ran.at("stopped"), "interrupted", "{name}: {}", ran.stderr);
        ran.assert_books_balance();
        assert!(ran.number("requests/ok") >= 40.0, "{name}: {}", ran.json["requests"]);
        let offered = ran.number("requests/offered");
        assert!(offered < 2000.0, "{name}: what was not due is not offered: {offered}");
    }
}

#[test]
fn a_second_signal_ends_the_program_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    // Answers take a minute, and an interrupted run waits for them for a while.
    let started = steady_run(folder.path(), "sim://fixed?ttft=20ms&tpot=8s", &["--duration", "60s"]);
    wait_until("a journal", Duration::from_secs(30), || {
        std::fs::read_dir(folder.path()).is_ok_and(|mut runs| runs.next().is_some())
    });
    std::thread::sleep(Duration::from_secs(1));
    signal(started.pid(), "INT");
    std::thread::sleep(Duration::from_millis(50));
    signal(started.pid(), "INT");
    let ran = started.end();
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    let shown =
        Run::of(inferometer(&["show", "--json"]).arg(only_run(folder.path())).output().expect("starts"));
    assert_eq!(shown.at("stopped"), "killed", "{}", shown.stderr);
}

/// Fifty runs, each killed at a moment of its own: whatever the engine had finished more than a second before is in
/// the report that is made of what is left.
#[test]
fn a_killed_run_is_readable_up_to_its_last_second() {
    const RUNS: u64 = 50;
    const AT_ONCE: u64 = 10;
    const SEED: u64 = 7;
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("truth.jsonl");
    let sim = Sim::start("sim://fixed?ttft=20ms&tpot=2ms", Some(&log));
    let numbers: Vec<u64> = (0..RUNS).collect();
    let mut kept = 0;
    for batch in numbers.chunks(AT_ONCE as usize) {
        std::thread::scope(|scope| {
            let killed: Vec<_> = batch
                .iter()
                .map(|number| {
                    let (runs, url) = (folder.path().join(number.to_string()), &sim.url);
                    scope.spawn(move || {
                        // The rate is part of the run's name, by which the engine's log knows it.
                        let rate = (20 + number).to_string();
                        let args = [url, "--rate", &rate, "--duration", "60s", "--isl", "16", "--osl", "8"];
                        let more = ["--warmup", "none", "--if-busy", "share"];
                        let started = Started::run(&runs, &[&args[..], &more].concat());
                        let after = Duration::from_millis(300 + mix(SEED ^ mix(*number)) % 3700);
                        std::thread::sleep(after);
                        let at = clock::Clock::with_origin(0).now().0;
                        signal(started.pid(), "KILL");
                        assert_eq!(started.end().code, -1);
                        (*number, runs, after, at)
                    })
                })
                .collect();
            for killed in killed {
                let (number, runs, after, at) = killed.join().expect("killed");
                let what = format!("seed {SEED}, run {number}, killed after {after:?}");
                kept +=
                    recovered(&what, &runs, &finished(&log, &format!("-r{}-", 20 + number), at - SECOND_NS));
            }
        });
    }
    // Half of the kills come later than two seconds after the start.
    assert!(kept > 500, "only {kept} requests had to be kept");
}

/// The numbers of those requests of a run that the engine had finished by then.
fn finished(log: &Path, run: &str, by_ns: u64) -> BTreeSet<u64> {
    let text = std::fs::read_to_string(log).expect("the engine's log");
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines
        .filter(|line| line["ended_ns"].as_u64().is_some_and(|ended| ended < by_ns))
        .filter_map(|line| {
            let id = line["request_id"].as_str()?;
            id.contains(run).then(|| id.rsplit('-').next()?.parse().ok())?
        })
        .collect()
}

/// Checks that the report on a killed run holds these requests; gives how many they are.
fn recovered(what: &str, runs: &Path, finished: &BTreeSet<u64>) -> usize {
    let dir = || std::fs::read_dir(runs).ok()?.next()?.ok().map(|entry| entry.path());
    // Killed before it had begun: then nothing had been finished.
    let Some(journal) = dir().map(|dir| dir.join(record::folder::JOURNAL)).filter(|path| path.exists())
    else {
        assert!(finished.is_empty(), "{what}: no journal, but {finished:?}");
        return 0;
    };
    if finished.is_empty() {
        return 0;
    }
    let rows = record::read(&journal).unwrap_or_else(|error| panic!("{what}: {error}")).requests;
    let found: BTreeSet<u64> = rows.iter().filter(|r| r.state.is_ok()).map(|r| r.seq).collect();
    let lost: Vec<_> = finished.difference(&found).collect();
    assert!(lost.is_empty(), "{what}: {lost:?} of {} are lost, {} found", finished.len(), found.len());
    let dir = only_run(runs);
    assert!(!dir.join("run.json").exists(), "{what}: it was killed before it could write");
    let shown = Run::of(inferometer(&["show", "--json"]).arg(&dir).output().expect("starts"));
    assert_eq!(shown.at("stopped"), "killed", "{what}: {}", shown.stderr);
    assert_eq!(shown.json["requests"]["ok"], found.len(), "{what}: {}", shown.json["requests"]);
    assert!(!shown.json["missing"].as_array().expect("a list").is_empty(), "{what}: it says what is missing");
    shown.assert_books_balance();
    finished.len()
}

/// The whole client stands still for a second: it says so, and does not charge the server with the second.
#[test]
fn a_client_that_stood_still_accuses_nobody_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = ["--duration", "3s", "--slo", "ttft<=200ms", "--attain", "90%"];
    let started = steady_run(folder.path(), "sim://fixed?ttft=20ms&tpot=2ms", &limits);
    wait_for_requests(folder.path(), 50);
    signal(started.pid(), "STOP");
    std::thread::sleep(Duration::from_secs(1));
    signal(started.pid(), "CONT");
    let ran = started.end();
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert_eq!(ran.check("lane_stall"), "fail", "{}", ran.json["trust"]);
    assert_eq!(ran.check("send_lag"), "fail", "{}", ran.json["trust"]);
    // Nor itself of more than that: the books were kept.
    assert_eq!(ran.check("bookkeeping"), "pass", "{}", ran.json["trust"]);
    assert_eq!(ran.json["requests"]["ok"], ran.json["requests"]["offered"], "{}", ran.json["requests"]);
    assert!(ran.json["slo"]["joint"]["met"].is_null(), "{}", ran.json["slo"]);
}

/// The server stands still for a second: that is the server's, and every stream has it.
#[test]
fn a_server_that_stood_still_is_told_from_this_side() {
    let folder = tempfile::tempdir().expect("a folder");
    let sim = Sim::start("sim://fixed?ttft=20ms&tpot=50ms", None);
    let started = steady_run(folder.path(), &sim.url, &["--duration", "3s"]);
    wait_for_requests(folder.path(), 50);
    signal(sim.pid(), "STOP");
    std::thread::sleep(Duration::from_secs(1));
    signal(sim.pid(), "CONT");
    let ran = started.end();
    ran.assert_books_balance();
    assert_eq!(ran.json["requests"]["ok"], ran.json["requests"]["offered"], "{}", ran.json["requests"]);
    assert!(ran.number("metrics/max_gap/max") > 0.9e9, "{}", ran.json["metrics"]["max_gap"]);
    let stalls = ran.figure("stalls");
    assert!(stalls.contains("1 common pause") || ran.is_disturbed(), "{stalls}");
    assert!(ran.check("lane_stall") == "pass" || ran.is_disturbed(), "{}", ran.json["trust"]);
}

/// A server that goes away in the middle: every request has a state, the run ends by itself.
#[test]
fn a_server_killed_in_the_middle_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut sim = Sim::start("sim://fixed?ttft=20ms&tpot=5ms", None);
    let started = steady_run(folder.path(), &sim.url, &["--duration", "3s"]);
    wait_for_requests(folder.path(), 40);
    sim.kill();
    let ran = started.end();
    ran.assert_books_balance();
    assert!(ran.number("requests/ok") > 20.0, "{}", ran.json["requests"]);
    let failed = &ran.json["requests"]["failed_by_class"];
    assert!(failed["connect"].as_u64().is_some_and(|n| n > 20), "{failed}");
    assert!(
        ran.json["requests"]["failed"].as_f64() > failed["connect"].as_f64(),
        "open streams were cut: {failed}"
    );
    assert_eq!(ran.check("failures"), "fail");
}

/// Too few open files, known before the run, or met in its course.
#[test]
fn a_limit_of_open_files_is_this_sides() {
    let folder = tempfile::tempdir().expect("a folder");
    let sim = Sim::start("sim://fixed?ttft=500ms&tpot=10ms", None);
    let args = ["run", &sim.url, "--isl", "16", "--osl", "8", "--warmup", "none", "--json", "--out"];
    let limited = |load: &[&str]| {
        let mut command =
            with_limits("ulimit -n 64", &[&args[..], &[&folder.path().to_string_lossy()], load].concat());
        Started::start(&mut command).end()
    };
    let ran = limited(&["-c", "200", "-n", "400"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("ulimit -n"), "{}", ran.stderr);
    // Few enough to be hit by some requests only: a limit on failures would be missed, were they the server's.
    let ran = limited(&["--rate", "80", "-n", "200", "--slo", "error_rate<=1%"]);
    ran.assert_books_balance();
    let limits = &ran.json["slo"]["marginal"];
    assert_eq!(ran.code, 3, "no server is blamed: {}\n{}", ran.json["verdict"], ran.stderr);
    assert!(limits[0]["met"].is_null(), "{limits}");
    assert_eq!(ran.check("arrivals"), "fail", "{}", ran.json["trust"]);
    assert!(ran.stderr.contains("ran out of open files (ulimit -n)"), "{}", ran.stderr);
}
