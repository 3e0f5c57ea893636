//! LoadGen's scenarios on servers: what went out when, what the logs say of it, and what they are worth.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mlperf::read::Detail;
use record::Request;
use serde_json::Value;
use spec::Nanos;

use crate::harness::{Run, Started, closed_port, file, inferometer, signal, wait_until};
use crate::llama::Llama;

/// A run that was made, and its folder.
struct Made {
    run: Run,
    folder: PathBuf,
    _runs: tempfile::TempDir,
}

fn started(runs: &Path, args: &[&str]) -> Started {
    let mut command = inferometer(&["mlperf"]);
    command.args(args).args(["--isl", "16", "--osl", "4", "--json", "--progress", "off", "--out"]).arg(runs);
    Started::start(&mut command)
}

fn made(args: &[&str]) -> Made {
    let runs = tempfile::tempdir().expect("a folder");
    let run = started(runs.path(), args).end();
    let folder =
        PathBuf::from(run.at("folder").as_str().unwrap_or_else(|| panic!("{args:?}: {}", run.stderr)));
    Made { run, folder, _runs: runs }
}

impl Made {
    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(format!("mlperf_log_{name}"))).expect("a log")
    }

    fn detail(&self) -> Detail {
        Detail::parse(&self.log("detail.txt")).expect("a detail log")
    }

    /// Rows of one of its run folders, by `seq`.
    fn rows(&self, name: &str) -> Vec<Request> {
        record::read(&self.folder.join("runs").join(name)).expect("a run folder").requests
    }

    /// The status of a layer, or of one of its checks.
    fn status(&self, layer: &str, check: Option<&str>) -> String {
        status(&self.run.json, layer, check)
    }

    /// Integrity as far as it does not depend on how busy this machine is, and LoadGen's verdict.
    fn assert_sound(&self, valid: bool) {
        for check in ["no_errors", "complete", "logs_agree"] {
            assert_eq!(self.status("L1", Some(check)), "passed", "{check}: {}", self.run.json);
        }
        let verdict = if valid { "passed" } else { "failed" };
        assert_eq!(self.status("L2", None), verdict, "{}", self.run.json);
        let codes: &[i32] = if valid { &[0, 3, 5] } else { &[1, 3] };
        assert!(codes.contains(&self.run.code), "{}: {}", self.run.code, self.run.stderr);
        assert!(self.log("summary.txt").contains(if valid {
            "Result is : VALID"
        } else {
            "Result is : INVALID"
        }));
    }
}

fn status(json: &Value, layer: &str, check: Option<&str>) -> String {
    let find = |list: &Value, id: &str| {
        let found = list.as_array().and_then(|all| all.iter().find(|one| one["id"] == id).cloned());
        found.unwrap_or_else(|| panic!("no {id} in {list}"))
    };
    let layer = find(&json["layers"], layer);
    let of = check.map_or(layer.clone(), |check| find(&layer["checks"], check));
    of["status"].as_str().expect("a status").to_owned()
}

/// The schedule that LoadGen's rules give for made-up data of 40 samples.
fn schedule(by: impl FnOnce(&mut mlperf::TestSettings)) -> mlperf::Schedule {
    let round = mlperf::Round::named("v6.1").expect("known");
    let mut settings = mlperf::TestSettings {
        qsl_rng_seed: round.seeds.qsl,
        sample_index_rng_seed: round.seeds.sample_index,
        schedule_rng_seed: round.seeds.schedule,
        ..mlperf::TestSettings::default()
    };
    by(&mut settings);
    let library = mlperf::SampleLibrary { name: "d".into(), total: 40, performance: 40 };
    mlperf::Effective::new(&settings, &library).expect("settings").performance()
}

/// Requests carry the samples of the schedule, in its order: the same prompt for the same sample, and only for it.
fn assert_order(rows: &[Request], samples: &[u32]) {
    let mut prompts: std::collections::BTreeMap<u32, u64> = Default::default();
    for (row, sample) in rows.iter().zip(samples) {
        assert_eq!(*prompts.entry(*sample).or_insert(row.prompt.whole), row.prompt.whole, "{}", row.seq);
    }
    let different: std::collections::BTreeSet<u64> = prompts.values().copied().collect();
    assert_eq!(different.len(), prompts.len());
}

fn closed(row: &Request) -> Nanos {
    row.closed.expect("ended")
}

/// LoadGen's percentile: `sorted[trunc(n·p)]`.
fn percentile(mut values: Vec<u64>, p: f64) -> u64 {
    values.sort_unstable();
    values[(values.len() as f64 * p) as usize]
}

const QUICK: &str = "sim://fixed?ttft=1ms&tpot=100us";

#[test]
fn single_stream_sends_the_next_when_the_last_has_ended() {
    let args = ["--scenario", "single-stream", "--samples", "40", "--round", "v6.1"];
    let more = ["--min-duration", "1100ms", "--target-latency", "1"];
    let made = made(&[&["run", QUICK][..], &args, &more].concat());
    made.assert_sound(true);
    let (rows, detail) = (made.rows("performance"), made.detail());
    let by = |settings: &mut mlperf::TestSettings| {
        settings.min_duration_ms = 1100;
    };
    assert_order(&rows, &schedule(by).samples);
    assert!(rows.windows(2).all(|pair| pair[1].intended == closed(&pair[0])));
    // It ends with the first query that goes out after the least time.
    let (last, before) = (&rows[rows.len() - 1], &rows[rows.len() - 2]);
    let least = Nanos::from_millis(1100);
    assert!(last.intended >= least && before.intended < least);
    let latency = |row: &Request| closed(row).0 - row.dispatched.expect("sent").0;
    let latencies: Vec<u64> = rows.iter().map(latency).collect();
    assert_eq!(detail.int("result_90.00_percentile_latency_ns"), Some(percentile(latencies.clone(), 0.9)));
    assert_eq!(detail.int("result_query_count"), Some(rows.len() as u64));
    // 1 ms to the first token, three more of 0.1 ms.
    assert!(detail.int("result_min_latency_ns").expect("a latency") >= 1_300_000);
}

#[test]
fn multi_stream_sends_a_query_of_several_samples_when_the_slowest_has_ended() {
    let args = ["--scenario", "multi-stream", "--samples-per-query", "3", "--samples", "40", "--lanes", "2"];
    let more = ["--min-duration", "600ms", "--target-latency", "1"];
    let made = made(&[&["run", "sim://fixed?ttft=200us&tpot=50us"][..], &args, &more].concat());
    made.assert_sound(true);
    let (rows, detail) = (made.rows("performance"), made.detail());
    let by = |settings: &mut mlperf::TestSettings| {
        (settings.scenario, settings.multi_stream_samples_per_query) = (mlperf::Scenario::MultiStream, 3);
        (settings.min_query_count, settings.min_duration_ms) = (662, 600);
        settings.multi_stream_expected_latency_ns = 1e6;
    };
    assert_order(&rows, &schedule(by).samples);
    let queries: Vec<&[Request]> = rows.chunks(3).collect();
    assert!(queries.len() >= 662 && rows.len() % 3 == 0);
    for pair in queries.windows(2) {
        let done = pair[0].iter().map(closed).max();
        assert!(pair[1].iter().all(|row| Some(row.intended) == done));
    }
    let slowest = |rows: &&[Request]| {
        let issue = rows.iter().filter_map(|row| row.dispatched).min().expect("sent");
        rows.iter().map(closed).max().expect("ended").0 - issue.0
    };
    let latencies: Vec<u64> = queries.iter().map(slowest).collect();
    assert_eq!(detail.int("result_99.00_percentile_per_query_latency_ns"), Some(percentile(latencies, 0.99)));
    assert_eq!(detail.int("result_query_count"), Some(queries.len() as u64));
}

#[test]
fn server_follows_the_schedule_to_the_nanosecond_and_counts_from_when_a_query_was_due() {
    let args = ["--scenario", "server", "--samples", "40", "--target-qps", "470", "--min-duration", "1100ms"];
    let made = made(&[&["run", QUICK, "--target-latency", "20000"][..], &args].concat());
    made.assert_sound(true);
    let (rows, detail) = (made.rows("performance"), made.detail());
    let schedule = schedule(|settings| {
        (settings.scenario, settings.server_target_qps) = (mlperf::Scenario::Server, 470.0);
        settings.min_duration_ms = 1100;
    });
    let moments: Vec<Nanos> = rows.iter().map(|row| row.intended).collect();
    assert_eq!(moments, schedule.at);
    assert_order(&rows, &schedule.samples);
    assert_eq!(detail.int("generated_query_duration"), Some(schedule.duration.0));
    let latencies: Vec<u64> = rows.iter().map(|row| closed(row).0 - row.intended.0).collect();
    assert_eq!(detail.int("result_99.00_percentile_latency_ns"), Some(percentile(latencies, 0.99)));
    assert_eq!(detail.int("result_overlatency_query_count"), Some(0));
    let trace: Value = serde_json::from_str(&made.log("trace.json")).expect("valid JSON");
    assert!(trace["traceEvents"].as_array().is_some_and(|events| events.len() > 4 * rows.len()));
}

#[test]
fn offline_sends_all_in_one_query() {
    // One at a time, 10 ms each: 132 samples take longer than they must.
    let args =
        ["--scenario", "offline", "--samples", "40", "--target-qps", "100", "--min-duration", "1200ms"];
    let made = made(&[&["run", "sim://fifo?service=10ms"][..], &args].concat());
    made.assert_sound(true);
    let (rows, detail) = (made.rows("performance"), made.detail());
    let by = |settings: &mut mlperf::TestSettings| {
        (settings.scenario, settings.offline_expected_qps) = (mlperf::Scenario::Offline, 100.0);
        settings.min_duration_ms = 1200;
    };
    assert_order(&rows, &schedule(by).samples);
    assert!(rows.len() == 132 && rows.iter().all(|row| row.intended == Nanos::ZERO));
    let last = rows.iter().map(closed).max().expect("ended");
    assert_eq!(detail.int("result_max_latency_ns"), Some(last.0));
    let rate = detail.real("result_samples_per_second").expect("a rate");
    assert!((rate / (132.0 / last.as_secs_f64()) - 1.0).abs() < 1e-5, "{rate}");
}

#[test]
fn interactive_is_server_with_its_own_limits_and_times_tokens() {
    let args = ["--scenario", "interactive", "--benchmark", "llama3.1-8b", "--round", "v6.1"];
    let more = ["--target-qps", "420", "--min-duration", "1200ms", "--samples", "40", "--cache", "cold"];
    let made = made(&[&["run", QUICK][..], &args, &more].concat());
    let (rows, detail) = (made.rows("performance"), made.detail());
    assert_eq!(detail.text("effective_scenario"), Some("Server"));
    assert_eq!(detail.int("requested_server_ttft_latency"), Some(500_000_000));
    assert_eq!(detail.int("requested_server_tpot_latency"), Some(30_000_000));
    let first = |row: &Request| row.chunks.first().expect("output").arrival.0 - row.intended.0;
    let ttft: Vec<u64> = rows.iter().map(first).collect();
    assert_eq!(detail.int("result_first_token_99.00_percentile_latency_ns"), Some(percentile(ttft, 0.99)));
    let tpot = |row: &Request| (closed(row).0 - row.intended.0 - first(row)) / 3;
    let tpot: Vec<u64> = rows.iter().map(tpot).collect();
    assert_eq!(detail.int("result_time_per_output_token_99.00_percentile_ns"), Some(percentile(tpot, 0.99)));
    // How busy this machine is may decide whether the limits are kept, not what follows from it.
    let within = |key: &str, limit| detail.int(key).is_some_and(|got| got <= limit);
    let kept = within("result_first_token_99.00_percentile_latency_ns", 500_000_000)
        && within("result_time_per_output_token_99.00_percentile_ns", 30_000_000);
    assert_eq!(made.status("L2", Some("latency")), if kept { "passed" } else { "failed" });
    for check in ["no_errors", "complete", "logs_agree"] {
        assert_eq!(made.status("L1", Some(check)), "passed", "{}", made.run.json);
    }
    // Of this run too much is missing; what was declared is known to the folder.
    assert_eq!(made.status("L3", None), "failed");
    let told = made.run.json.to_string();
    assert!(told.contains("min_duration 1200 ms, at least 600000 ms"), "{told}");
    let again = inferometer(&["mlperf", "check", "--json"]).arg(&made.folder).output().expect("starts");
    let again: Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!(again["layers"], made.run.json["layers"]);
}

#[test]
fn accuracy_and_submission_keep_every_answer() {
    let base = ["--samples", "40", "--benchmark", "llama3.1-8b", "--round", "v6.1", "--tokenizer", "llama3"];
    let single = ["run", QUICK, "--scenario", "single-stream", "--mode", "accuracy"];
    let accuracy = made(&[&single[..], &base].concat());
    assert_eq!(accuracy.status("L1", Some("complete")), "passed", "{}", accuracy.run.json);
    // Scores come from elsewhere: until then accuracy is incomplete, or as here fails for its 40 samples.
    assert!(accuracy.run.json.to_string().contains("40 samples of 13368"));
    assert_eq!(accuracy.status("L2", None), "incomplete");
    let answers: Value = serde_json::from_str(&accuracy.log("accuracy.json")).expect("JSON");
    let answers = answers.as_array().expect("a list");
    let mut samples: Vec<u64> = answers.iter().filter_map(|one| one["qsl_idx"].as_u64()).collect();
    samples.sort_unstable();
    assert_eq!(samples, (0..40).collect::<Vec<u64>>());
    for answer in answers {
        let data = answer["data"].as_str().expect("hex");
        // Tokens of 32 bits, the first of them again on its own.
        assert!(!data.is_empty() && data.len() % 8 == 0, "{answer}");
        assert_eq!(&data[..8], answer["token_data"].as_str().expect("hex"));
        assert_eq!(answer["token_count"], 4);
    }

    let server = ["run", QUICK, "--scenario", "server", "--mode", "submission", "--target-qps", "400"];
    let short = ["--min-duration", "100ms", "--min-query-count", "10"];
    let both = made(&[&server[..], &base, &short].concat());
    both.assert_sound(false);
    let detail = both.detail();
    let modes: Vec<&str> = detail.all("generic_message").filter_map(Value::as_str).collect();
    assert_eq!(modes, ["Starting accuracy mode", "Starting performance mode"]);
    let counts: Vec<u64> = detail.all("generated_query_count").filter_map(Value::as_u64).collect();
    assert_eq!(counts, [both.rows("accuracy-1").len() as u64, both.rows("performance").len() as u64]);
    assert_eq!(both.log("accuracy.json").matches("seq_id").count(), 40);
}

/// Every scenario on a server that fails: the run ends, each failure counts, and integrity is gone.
#[test]
fn failures_and_stalls_end_in_every_scenario_and_fail_the_integrity() {
    let scenarios: [&[&str]; 4] = [
        &["single-stream", "--target-latency", "5"],
        &["multi-stream", "--samples-per-query", "3", "--set", "min_query_count=8", "--target-latency", "9"],
        &["server", "--target-qps", "150"],
        &["offline", "--target-qps", "40"],
    ];
    for fault in ["status=503:every=5", "stall=2:every=9"] {
        let target = format!("{QUICK}&fault={fault}");
        for scenario in scenarios {
            let args = ["run", &target, "--samples", "40", "--timeout", "150ms", "--scenario"];
            let short = ["--min-duration", "100ms", "--set"];
            let count =
                if scenario[0] == "multi-stream" { "max_query_count=0" } else { "min_query_count=24" };
            let made = made(&[&args[..], scenario, &short, &[count]].concat());
            let what = format!("{fault} {scenario:?}: {}", made.run.json);
            assert_eq!(made.status("L1", Some("no_errors")), "failed", "{what}");
            assert!(made.log("detail.txt").contains("samples failed or timed out."), "{what}");
            let failed = made.rows("performance").iter().filter(|row| !row.state.is_ok()).count();
            assert!(failed > 0 && [1, 3].contains(&made.run.code), "{}: {what}", made.run.code);
            assert_eq!(made.detail().get("result_max_latency_ns"), None, "a sample never came: {what}");
            assert_eq!(made.status("L2", None), "failed", "{what}");
        }
    }
}

#[test]
fn a_server_that_is_not_there_is_told_and_leaves_nothing() {
    let runs = tempfile::tempdir().expect("a folder");
    let url = format!("http://127.0.0.1:{}", closed_port());
    let args = ["run", &url, "--scenario", "server", "--wait", "50ms"];
    let ran = started(runs.path(), &args).end();
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(runs.path()).expect("a folder").count(), 0);
}

#[test]
fn a_signal_leaves_logs_that_say_what_is_missing() {
    for scenario in ["single-stream", "server", "offline"] {
        let runs = tempfile::tempdir().expect("a folder");
        let args = ["run", "sim://fixed?ttft=20ms&tpot=2ms", "--scenario", scenario, "--samples", "40"];
        let rate = ["--min-query-count", "20000", "--cap", "2", "--target-qps", "200"];
        let more = match scenario {
            "single-stream" => &rate[..2],
            "offline" => &rate[..4],
            _ => &[&rate[4..], &rate[..2]].concat(),
        };
        let started = started(runs.path(), &[&args[..], more].concat());
        let journal = || {
            let folder = std::fs::read_dir(runs.path()).ok()?.next()?.ok()?.path();
            record::read(&folder.join("runs/performance")).ok()
        };
        wait_until("requests in the journal", Duration::from_secs(30), || {
            journal().is_some_and(|run| run.requests.len() >= 10)
        });
        signal(started.pid(), "INT");
        let ran = started.end();
        assert!([1, 3].contains(&ran.code), "{scenario}: {}", ran.stderr);
        assert_eq!(status(&ran.json, "L1", Some("no_errors")), "failed", "{}", ran.json);
        let complete = status(&ran.json, "L1", Some("complete"));
        // An Offline query goes out as a whole; what of it was not answered is an error.
        assert_eq!(complete, if scenario == "offline" { "passed" } else { "failed" }, "{}", ran.json);
        let folder = ran.at("folder").as_str().expect("a folder").to_owned();
        let detail =
            std::fs::read_to_string(Path::new(&folder).join("mlperf_log_detail.txt")).expect("a log");
        assert!(detail.contains("The run was ended before its time") && detail.contains("\"INVALID\""));
        let again = Run::of(inferometer(&["mlperf", "check", &folder, "--json"]).output().expect("starts"));
        assert_eq!(again.json["layers"], ran.json["layers"]);
    }
}

#[test]
fn stop_rules_end_a_run_with_loadgens_errors() {
    for (scenario, rule, words, count) in [
        ("server", "max_query_count=20", "Max query count reached. query_count 20", Some(20)),
        ("single-stream", "max_query_count=12", "Max query count reached. query_count 12", Some(12)),
        ("server", "max_duration=100", "Max test duration reached.", None),
        ("single-stream", "max_duration=100", "Max test duration reached.", None),
        ("server", "max_async_queries=2", "Too many outstanding queries.", None),
    ] {
        let target = if rule.starts_with("max_async") { "sim://fifo?service=100ms" } else { QUICK };
        let rate: &[&str] = if scenario == "server" { &["--target-qps", "200"] } else { &[] };
        let args = ["run", target, "--scenario", scenario, "--samples", "40", "--set", rule];
        let made = made(&[&args[..], rate].concat());
        assert!(made.log("detail.txt").contains(words), "{scenario} {rule}: {}", made.run.json);
        assert_eq!(made.status("L1", Some("complete")), "failed", "{scenario} {rule}");
        let issued = made.detail().int("result_query_count").expect("a count");
        assert!(count.is_none_or(|count| issued == count) && issued < 2000, "{scenario} {rule}: {issued}");
        // What was under way may end.
        assert!(made.rows("performance").iter().all(|row| row.state.is_ok()), "{scenario} {rule}");
    }
}

#[test]
fn the_peak_is_found_as_loadgen_searches_it() {
    // One at a time, 5 ms each: at most 200 a second, and a queue before that.
    let args = ["find-peak", "sim://fifo?service=5ms", "--scenario", "server", "--samples", "40"];
    let search = ["--target-qps", "150", "--decimals", "0", "--step", "0.2", "--target-latency", "60"];
    let short = ["--min-duration", "200ms", "--min-query-count", "20"];
    let made = made(&[&args[..], &search, &short].concat());
    let peak = made.run.at("peak_qps").as_f64().unwrap_or_else(|| panic!("{}", made.run.stderr));
    assert!((150.0..640.0).contains(&peak), "{peak}");
    let detail = made.detail();
    let said: Vec<&str> = detail.all("generic_message").filter_map(Value::as_str).collect();
    assert_eq!(said[0], "Starting FindPeakPerformance mode");
    assert_eq!(said[1], "FindPeakPerformance: Check validity of the base settings field: 150.000000");
    assert_eq!(said[said.len() - 1], format!("FindPeakPerformance: Found peak performance field: {peak:.6}"));
    assert_eq!(detail.real("effective_target_qps"), Some(150.0));
    let target = format!("target_qps : {}", mlperf::log::general(peak));
    assert!(made.log("summary.txt").lines().any(|line| line == target), "{target}");
    assert_eq!(made.status("L1", Some("complete")), "passed");
    assert_eq!(made.status("L2", Some("latency")), "passed");

    let high = ["--target-qps", "900", "--target-latency", "20"];
    let ran = self::made(&[&args[..], &high, &short].concat());
    assert!(ran.run.at("peak_qps").is_null() && ran.run.stderr.contains("begin lower"), "{}", ran.run.stderr);
    assert_eq!(ran.status("L1", Some("no_errors")), "failed");
}

#[test]
fn settings_are_told_with_their_source_and_slips_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let dry = |more: &[&str]| {
        let mut command = inferometer(&["mlperf", "run", QUICK, "--dry-run"]);
        let out = command.args(more).current_dir(folder.path()).output().expect("starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    // The arrivals of a hundred queries at 100 a second under the seeds of v6.1, as LoadGen made them.
    let server =
        ["--scenario", "server", "--round", "v6.1", "--target-qps", "100", "--set", "min_duration=0"];
    let (code, said, _) = dry(&server);
    assert_eq!(code, Some(0));
    assert!(said.contains("generated_query_duration 1090293182"), "{said}");
    assert!(said.contains("seeds of v6.1") && said.contains("(--target-qps, *.Server.target_qps)"), "{said}");

    file(folder.path(), "user.conf", "*.Server.target_qps = 7\n*.*.min_query_count = 5\n");
    file(folder.path(), "mlperf.conf", "*.Server.target_latency = 33\n");
    file(folder.path(), "bad.conf", "*.Server.target_qsp = 7\n");
    let files = ["--scenario", "server", "--user-conf", "user.conf", "--mlperf-conf", "mlperf.conf"];
    let (_, said, _) = dry(&files);
    let line = |name: &str| said.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("server_target_qps").ends_with("7  (user.conf:1, *.Server.target_qps)"), "{said}");
    assert!(line("server_target_latency_ns").ends_with("33000000  (mlperf.conf:1, *.Server.target_latency)"));
    for (args, words) in [
        (&["--scenario", "server", "--user-conf", "bad.conf"][..], "did you mean `target_qps`"),
        (&["--scenario", "server", "--set", "ttft_latncy=4"], "did you mean `ttft_latency`"),
        (&["--scenario", "server", "--set", "qsl_rng_seed=4"], "mlperf.conf alone"),
        (&["--scenario", "server", "--set", "target_qps"], "KEY=VALUE"),
        (&["--scenario", "single-stream", "--target-qps", "4"], "Server and Offline alone"),
        (&["--scenario", "interactive"], "--benchmark llama3.1-8b"),
        (&["--scenario", "interactive", "--benchmark", "llama3.1-8b-edge"], "no limits for llama3.1-8b-edge"),
        (&["--scenario", "server", "--benchmark", "lama3.1-8b"], "did you mean llama3.1-8b?"),
        (&["--scenario", "server", "--round", "v9"], "known are v5.0"),
        (&["--scenario", "server", "--timeout", "soon"], "--timeout"),
        (&["--scenario", "server", "--dataset", "none.jsonl"], "none.jsonl"),
        (&["--scenario", "server", "--benchmark", "llama3.1-8b", "--no-stream"], "leave --no-stream out"),
        (&["--scenario", "offline", "--mode", "find-peak"], "Server alone"),
    ] {
        let (code, _, said) = dry(args);
        assert!(code == Some(2) && said.contains(words), "{args:?}: {code:?} {said}");
    }
}

#[test]
fn a_data_set_is_read_in_the_order_of_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String = (0..6).map(|i| format!("{{\"prompt\": \"sample number {i} of six\"}}\n")).collect();
    let path = file(folder.path(), "six.jsonl", &lines);
    let mut command =
        inferometer(&["mlperf", "run", QUICK, "--scenario", "single-stream", "--mode", "accuracy"]);
    command.args([
        "--json",
        "--progress",
        "off",
        "--osl",
        "4",
        "--tokenizer",
        "none",
        "--cache",
        "within-query",
    ]);
    command.arg("--dataset").arg(&path).arg("--out").arg(folder.path().join("runs"));
    let ran = Started::start(&mut command).end();
    let made = PathBuf::from(ran.at("folder").as_str().unwrap_or_else(|| panic!("{}", ran.stderr)));
    let detail = std::fs::read_to_string(made.join("mlperf_log_detail.txt")).expect("a log");
    let detail = Detail::parse(&detail).expect("reads");
    assert_eq!(
        (detail.text("qsl_name"), detail.int("qsl_reported_total_count")),
        (Some("six.jsonl"), Some(6))
    );
    // What went out first is the sample that the schedule has first.
    let answers = std::fs::read_to_string(made.join("mlperf_log_accuracy.json")).expect("a log");
    let answers: Value = serde_json::from_str(&answers).expect("JSON");
    let first =
        answers.as_array().and_then(|all| all.iter().find(|one| one["seq_id"] == 0)).expect("the first");
    let sent = std::fs::read_to_string(made.join("runs/accuracy-1/first-request.json")).expect("the request");
    assert!(sent.contains(&format!("sample number {} of six", first["qsl_idx"])), "{sent}");
    // Prompts that all begin alike could be taken from a cache.
    let kept = std::fs::read_to_string(made.join("mlperf.json")).expect("beside");
    let kept: Value = serde_json::from_str(&kept).expect("JSON");
    assert_eq!(kept["declared"]["cache"]["protocol"], "within-query");
}

/// Folders that the real LoadGen wrote, by the verb.
#[test]
fn real_loadgen_folders_get_the_layered_answer() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../mlperf/tests/data/loadgen-6.0.17-cases.json.zst");
    let text = zstd::decode_all(std::fs::File::open(path).expect("the cases")).expect("zstd");
    let cases: Value = serde_json::from_slice(&text).expect("JSON");
    let folder = tempfile::tempdir().expect("a folder");
    for (name, verdict, valid) in [
        ("server_tokens_valid", "passed", "VALID"),
        ("ss_valid_p90", "passed", "VALID"),
        ("ms_too_few", "failed", "INVALID"),
        ("offline_short", "failed", "INVALID"),
    ] {
        let dir = folder.path().join(name);
        std::fs::create_dir(&dir).expect("made");
        for (log, text) in cases[name].as_object().expect("files") {
            std::fs::write(dir.join(log), text.as_str().expect("text")).expect("written");
        }
        let ran = Run::of(inferometer(&["mlperf", "check", "--json"]).arg(&dir).output().expect("starts"));
        let ids: Vec<&str> =
            ran.json["layers"].as_array().expect("layers").iter().filter_map(|l| l["id"].as_str()).collect();
        assert_eq!(ids, ["L1", "L2", "L3", "L4", "L5"]);
        assert_eq!(status(&ran.json, "L2", None), verdict, "{name}");
        for check in ["no_errors", "complete", "logs_agree"] {
            assert_eq!(status(&ran.json, "L1", Some(check)), "passed", "{name}");
        }
        for check in ["schedule_lag", "client", "clock"] {
            assert_eq!(status(&ran.json, "L1", Some(check)), "incomplete", "unknown is never passed: {name}");
        }
        assert_ne!(status(&ran.json, "L5", None), "passed");
        assert!(ran.json.to_string().contains(&format!("summary {valid}, detail {valid}")), "{name}");
        assert_eq!(ran.code, 1, "{name}: a short run is no submission");
    }
}

#[test]
fn a_sweep_is_a_curve_of_endpoints_that_says_what_it_lacks() {
    let runs = tempfile::tempdir().expect("a folder");
    let mut sweep = inferometer(&["sweep", "sim://fixed?ttft=4ms&tpot=1ms", "-c", "1,4,40", "-n", "80"]);
    sweep
        .args(["--isl", "16", "--osl", "5", "--warmup", "none", "--progress", "off", "--out"])
        .arg(runs.path());
    Started::start(&mut sweep).end();
    let folder = std::fs::read_dir(runs.path()).expect("runs").next().expect("one").expect("an entry").path();
    let mut endpoints = inferometer(&["mlperf", "endpoints", "--samples", "20", "--json"]);
    let ran = Run::of(endpoints.arg(&folder).output().expect("starts"));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let points = ran.json["points"].as_array().unwrap_or_else(|| panic!("{}", ran.stderr));
    let of = |key: &str| points.iter().map(|point| point[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("concurrency"), [1, 4, 40]);
    // log2(39) / 3 = 1.76: 1 + 3.4 and 1 + 11.5.
    assert_eq!(
        (&ran.json["regions"]["low_end"], &ran.json["regions"]["medium_end"]),
        (&4.into(), &13.into())
    );
    for point in points {
        let number = |key: &str| point["total"][key].as_f64().unwrap_or_else(|| panic!("no {key}: {point}"));
        // 4 ms, then 1 ms for each token after the first; never faster.
        assert!(number("ttft_p90_ms") >= 4.0 && number("tpot_p90_ms") >= 0.95, "{point}");
        assert!((number("tps_per_user") * number("tpot_p90_ms") - 1000.0).abs() < 1e-6, "{point}");
        assert_eq!(point["total"]["n_samples_completed"], 80);
        assert_eq!(point["steady_state"]["status"], "insufficient_duration");
    }
    let checks = ran.json["checks"].as_array().expect("checks");
    let holds = |id: &str| checks.iter().find(|check| check["id"] == id).map(|check| check["holds"].clone());
    assert_eq!(holds("point-count"), Some(false.into()));
    assert_eq!(holds("med-concurrency-coverage"), Some(false.into()));
    assert_eq!(holds("ultra-low-concurrency-coverage"), Some(true.into()));
    assert_eq!(holds("steady-state-basis"), Some(Value::Null));
    assert_eq!(ran.json["point_configs"][2]["region"], "high_concurrency");
    assert_eq!(ran.json["rules"]["status"], "tentative");
}

#[test]
fn a_real_engine_in_single_stream_and_server() {
    let Some(llama) = Llama::start() else { return };
    let url = llama.url();
    let tokens = "llamacpp:tokens_predicted_total";
    let base = ["--model", "smollm2", "--samples", "40", "--set", "use_token_latencies=1", "--no-check"];
    for (scenario, more, valid) in [
        ("single-stream", &["--set", "min_query_count=64", "--set", "min_duration=300"][..], true),
        (
            "server",
            &["--target-qps", "8", "--set", "min_duration=1500", "--set", "min_query_count=10"],
            false,
        ),
    ] {
        let before = llama.counter(tokens);
        let made = made(&[&["run", &url, "--scenario", scenario][..], &base, more].concat());
        let predicted = (llama.counter(tokens) - before) as u64;
        // Twelve queries are too few for a 99th percentile: all else is as it must be.
        made.assert_sound(valid);
        for check in ["min_duration", "min_queries", "min_samples"] {
            assert_eq!(made.status("L2", Some(check)), "passed", "{scenario}: {}", made.run.json);
        }
        let rows = made.rows("performance");
        let detail = made.detail();
        assert_eq!(detail.int("result_query_count"), Some(rows.len() as u64));
        assert_eq!(predicted, 4 * rows.len() as u64, "{scenario}: forced lengths");
        let per_token = detail.int("result_time_per_output_token_50.00_percentile_ns").expect("a time");
        let first = detail.int("result_first_token_50.00_percentile_latency_ns").expect("a time");
        assert!(per_token > 100_000 && first > per_token, "{scenario}: {first} {per_token}");
    }
}
