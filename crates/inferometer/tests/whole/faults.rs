//! What goes wrong, and what the report makes of it.

use record::{FailureClass, State, TimeoutKind};

use crate::harness::{only_run, quiet_run, recorded, run};
use crate::scripted::{Scripted, plain};

#[test]
fn fast_failures_leave_the_median_alone_and_lower_the_attainment() {
    let common =
        ["-c", "8", "-n", "200", "--isl", "32", "--osl", "8", "--warmup", "none", "--slo", "ttft<=1s"];
    let at = |uri: &'static str| std::iter::once(uri).chain(common).collect::<Vec<_>>();
    let (good, _good) = quiet_run(&at("sim://fixed?ttft=50ms&tpot=2ms"));
    let (bad, _bad) = quiet_run(&at("sim://fixed?ttft=50ms&tpot=2ms&fault=status=503:after=5ms:every=10"));
    assert_eq!(bad.json["requests"]["failed"], 20, "{}\n{}", bad.json["requests"], bad.stderr);
    assert_eq!(bad.json["requests"]["failed_by_class"]["http_5xx"], 20);
    bad.assert_books_balance();
    assert_eq!(bad.check("failures"), "fail");
    if good.is_disturbed() || bad.is_disturbed() {
        return;
    }
    let (p50, expected) = (bad.number("metrics/ttft/p50/value"), good.number("metrics/ttft/p50/value"));
    assert!((p50 / expected - 1.0).abs() < 0.1, "p50 {p50} against {expected}");
    assert!(bad.number("slo/joint/attainment/value") <= 0.9);
    // A percentile among the failed is larger than any value.
    assert!(bad.at("metrics/ttft/p95/value").is_null(), "{}", bad.json["metrics"]["ttft"]);
}

#[test]
fn a_run_that_fails_completely_exits_4_and_leaves_a_summary() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = run(
        folder.path(),
        &[
            "sim://fixed?fault=status=500",
            "-c",
            "4",
            "-n",
            "20",
            "--isl",
            "16",
            "--osl",
            "4",
            "--warmup",
            "none",
        ],
    );
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(only_run(folder.path()).join("run.json").exists());
    assert_eq!(ran.json["requests"]["failed"], 20);
    assert!(ran.at("metrics/ttft/p50").is_null());
    assert!(ran.at("throughput/requests_per_s").as_f64().is_none_or(|r| r == 0.0));
}

/// Each fault gives the right class, nothing hangs, nothing is lost.
#[test]
fn every_fault_has_its_class() {
    for (fault, state, class) in [
        ("status=429", "failed", "http_429"),
        ("status=400", "failed", "http_4xx"),
        ("status=500", "failed", "http_5xx"),
        ("error-in-stream=2", "failed", "server_error"),
        ("truncate=2", "failed", "truncated"),
        ("reset=2", "failed", "truncated"),
        ("empty", "failed", "empty"),
        ("malformed=2", "failed", "protocol"),
        ("html", "failed", "protocol"),
        ("stall=2", "timed_out", "stalled"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let uri = format!("sim://fixed?ttft=5ms&tpot=1ms&fault={fault}:seq=3");
        let ran = run(
            folder.path(),
            &[
                &uri,
                "-c",
                "1",
                "-n",
                "6",
                "--isl",
                "16",
                "--osl",
                "6",
                "--warmup",
                "none",
                "--idle-timeout",
                "500ms",
                "--no-check",
            ],
        );
        assert_eq!(ran.json["requests"]["ok"], 5, "{fault}: {}\n{}", ran.json["requests"], ran.stderr);
        assert_eq!(ran.json["requests"][state], 1, "{fault}: {}", ran.json["requests"]);
        let by = if state == "failed" { "failed_by_class" } else { "timed_out_by_kind" };
        assert_eq!(ran.json["requests"][by][class], 1, "{fault}: {}", ran.json["requests"]);
        ran.assert_books_balance();
    }
}

#[test]
fn a_server_that_rejects_optional_fields_is_asked_once_without() {
    for (fault, word) in [("reject-stream-options", "stream_options"), ("reject-ignore-eos", "ignore_eos")] {
        let folder = tempfile::tempdir().expect("a folder");
        let uri = format!("sim://fixed?ttft=2ms&tpot=1ms&fault={fault}");
        let ran = run(folder.path(), &[&uri, "-c", "2", "-n", "10", "--isl", "16", "--osl", "4"]);
        assert_eq!(ran.json["requests"]["ok"], 10, "{fault}: {}\n{}", ran.json["requests"], ran.stderr);
        let told = ran.json["environment"]["negotiated"].to_string();
        assert!(told.contains(word), "{told}");
    }
}

#[test]
fn odd_streams_are_told_apart_from_good_ones() {
    for (options, check) in
        [("buffered=on", "buffered"), ("fault=cumulative", "cumulative"), ("fault=echo", "echo")]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let uri = format!("sim://fixed?ttft=20ms&tpot=2ms&{options}");
        let ran = run(
            folder.path(),
            &[&uri, "-c", "4", "-n", "40", "--isl", "64", "--osl", "16", "--warmup", "none"],
        );
        assert_eq!(ran.check(check), "fail", "{options}\n{}", ran.stderr);
    }
}

#[test]
fn an_early_stop_shows_in_the_output_lengths() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = run(
        folder.path(),
        &[
            "sim://fixed?ttft=5ms&tpot=1ms&fault=early-stop=0.5:every=5",
            "-c",
            "4",
            "-n",
            "50",
            "--isl",
            "16",
            "--osl",
            "16",
            "--warmup",
            "none",
        ],
    );
    assert_eq!(ran.check("out_length"), "fail", "{}", ran.stderr);
    assert_eq!(ran.json["requests"]["ok"], 50);
}

#[test]
fn a_key_stands_in_no_artefact() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = "sk-very-secret-0123456789";
    let mut command = crate::harness::inferometer(&["run"]);
    command
        .args([
            "sim://fixed?ttft=2ms&tpot=1ms",
            "-c",
            "1",
            "-n",
            "3",
            "--api-key-env",
            "MY_KEY",
            "--html",
            "--json",
            "--out",
        ])
        .arg(folder.path())
        .args(["-H", "X-Api-Key: sk-very-secret-0123456789"])
        .env("MY_KEY", key);
    let out = command.output().expect("starts");
    let dir = only_run(folder.path());
    for entry in std::fs::read_dir(&dir).expect("the run folder") {
        let path = entry.expect("an entry").path();
        let mut bytes = std::fs::read(&path).expect("readable");
        if path.extension().is_some_and(|e| e == "zst") {
            bytes = zstd::decode_all(&bytes[..]).expect("zstd");
        }
        assert!(!bytes.windows(key.len()).any(|w| w == key.as_bytes()), "{}", path.display());
    }
    for text in [out.stdout, out.stderr] {
        assert!(!String::from_utf8_lossy(&text).contains(key));
    }
}

/// Plain HTTP, or nothing, where TLS is expected.
#[test]
fn a_handshake_that_fails() {
    let plain_text = Scripted::start(|link| {
        link.part(1);
        link.send("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        link.hold();
    });
    let silent = Scripted::start(|link| {
        link.hold();
    });
    for (server, class, kind) in
        [(plain_text, Some(FailureClass::Tls), None), (silent, None, Some(TimeoutKind::Connect))]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let url = server.url.replace("http:", "https:");
        let mut args = vec![url.as_str(), "--model", "m", "--no-check", "-c", "1", "-n", "2", "--insecure"];
        args.extend(["--warmup", "none", "--tokenizer", "none", "--connect-timeout", "500ms"]);
        let ran = run(folder.path(), &args);
        assert_eq!(ran.code, 4, "{}", ran.stderr);
        for request in recorded(folder.path()).requests {
            let expected = match (&request.state, class, kind) {
                (State::Failed { class: found, .. }, Some(class), _) => *found == class,
                (State::TimedOut { limit }, _, Some(kind)) => *limit == kind,
                _ => false,
            };
            assert!(expected, "{:?}", request.state);
        }
    }
}

/// A refusal that comes while eight megabytes of request are still on their way.
#[test]
fn a_large_request_that_is_refused_half_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let prompt = "many words ".repeat(800_000);
    let data = crate::harness::file(folder.path(), "large.jsonl", &format!("{{\"prompt\":\"{prompt}\"}}\n"));
    let data = format!("jsonl:{}", data.display());
    for (name, closes_at_once) in [("lingers", false), ("closes at once", true)] {
        let server = Scripted::start(move |link| {
            link.part(1000);
            link.send(plain("413 Large", "connection: close\r\n", "{\"error\":\"too long\"}"));
            if !closes_at_once {
                link.half_close();
                link.hold();
            }
        });
        let runs = folder.path().join(name);
        let mut args = vec![server.url.as_str(), "--model", "m", "--no-check", "-c", "1", "-n", "2"];
        args.extend([
            "--warmup",
            "none",
            "--tokenizer",
            "none",
            "--data",
            &data,
            "--isl",
            "data",
            "--osl",
            "3",
        ]);
        let ran = run(&runs, &args);
        let rows = recorded(&runs).requests;
        assert_eq!((ran.code, rows.len()), (4, 2), "{name}: {}", ran.stderr);
        for request in rows {
            let State::Failed { class, detail } = &request.state else { panic!("{name}: {request:?}") };
            // Where the server resets what it did not read, its words may be lost on the way.
            assert!(
                *class == FailureClass::Http4xx || (closes_at_once && *class == FailureClass::Truncated),
                "{name}: {class:?} {detail}"
            );
        }
    }
}
