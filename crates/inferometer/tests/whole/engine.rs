//! A real engine ([`crate::llama`]). Without its paths in the environment these tests say so and pass.

use std::time::Duration;

use crate::harness::{Run, run};
use crate::llama::Llama;

fn measure(llama: &Llama, args: &[&str]) -> (Run, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = llama.url();
    let mut all = vec![url.as_str(), "--model", "smollm2"];
    all.extend_from_slice(args);
    (run(folder.path(), &all), folder)
}

#[test]
fn a_real_engine_counts_what_we_count() {
    let Some(llama) = Llama::start() else { return };
    for args in [
        &["-c", "2", "-n", "12"][..],
        &["--rate", "2", "-n", "10"][..],
        &["--api", "completions", "-c", "2", "-n", "12"][..],
        &["--api", "completions", "--no-stream", "-c", "2", "-n", "8"][..],
        &["--no-stream", "-c", "2", "-n", "8"][..],
    ] {
        let name = "llamacpp:tokens_predicted_total";
        let seconds = "llamacpp:tokens_predicted_seconds_total";
        let (tokens_before, seconds_before) = (llama.counter(name), llama.counter(seconds));
        let mut all = vec!["--isl", "48", "--osl", "24", "--warmup", "none", "--no-check"];
        all.extend_from_slice(args);
        let (ran, _folder) = measure(&llama, &all);
        assert_eq!(
            ran.json["requests"]["ok"], ran.json["requests"]["offered"],
            "{args:?}: {}\n{}",
            ran.json["requests"], ran.stderr
        );
        let tokens = llama.counter(name) - tokens_before;
        let ours = ran.at("tokens/output").as_u64().expect("a count");
        assert_eq!(ours, tokens as u64, "{args:?}: the engine's counter against ours");
        assert_eq!(Some(ours), ran.at("requests/ok").as_u64().map(|ok| 24 * ok), "{args:?}: forced lengths");
        if !args.contains(&"--no-stream") {
            // The engine's own decode time per token: the client sees it plus nothing but noise.
            let theirs = (llama.counter(seconds) - seconds_before) / tokens * 1e9;
            let tpot = ran.number("metrics/tpot/mean/value");
            assert!((tpot / theirs - 1.0).abs() <= 0.10, "{args:?}: TPOT {tpot} ns against {theirs} ns");
        }
    }
}

#[test]
fn a_real_engine_ends_answers_by_itself_when_not_forced() {
    let Some(llama) = Llama::start() else { return };
    let (ran, _folder) =
        measure(&llama, &["-c", "2", "-n", "8", "--isl", "24", "--osl", "64", "--force", "none"]);
    assert_eq!(ran.json["requests"]["failed"], 0, "{}\n{}", ran.json["requests"], ran.stderr);
    assert!(ran.number("tokens/output_mean") <= 64.0);
    assert_eq!(ran.check("out_length"), "unknown", "natural lengths are not judged");
}

#[test]
fn a_context_overflow_is_the_servers_400_with_its_words() {
    let Some(llama) = Llama::start() else { return };
    let (ran, _folder) =
        measure(&llama, &["-c", "1", "-n", "2", "--isl", "4000", "--osl", "8", "--warmup", "none"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert_eq!(ran.json["requests"]["failed_by_class"]["http_4xx"], 2, "{}", ran.json["requests"]);
    let detail = ran.json["requests"]["first_failure"].to_string();
    assert!(detail.contains("context"), "{detail}");
}

#[test]
fn an_unknown_model_is_named_before_the_load() {
    let Some(llama) = Llama::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let ran = run(folder.path(), &[&llama.url(), "--model", "smollm3", "-c", "1", "-n", "1"]);
    // llama.cpp answers to any name; what it offers is known all the same.
    assert!(ran.stderr.contains("smollm2") || ran.json.to_string().contains("smollm2"), "{}", ran.stderr);
}

#[test]
fn a_real_engine_killed_in_the_middle_is_reported_as_truncated_and_refused() {
    let Some(mut llama) = Llama::start() else { return };
    let url = llama.url();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_owned();
    let running = std::thread::spawn(move || {
        run(
            &path,
            &[
                &url,
                "--model",
                "smollm2",
                "-c",
                "3",
                "--duration",
                "8s",
                "--isl",
                "24",
                "--osl",
                "48",
                "--warmup",
                "none",
            ],
        )
    });
    std::thread::sleep(Duration::from_secs(4));
    llama.kill();
    let ran = running.join().expect("ended");
    ran.assert_books_balance();
    assert!(ran.number("requests/failed") >= 1.0, "{}\n{}", ran.json["requests"], ran.stderr);
    let classes = ran.json["requests"]["failed_by_class"].to_string();
    assert!(classes.contains("truncated") || classes.contains("connect"), "{classes}");
}
