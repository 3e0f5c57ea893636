//! The instrument against the engine's own log of the truth: stamps, gaps, first tokens, many streams.

use crate::harness::{linear, run};
use crate::truth::{Attempt, Errors, Held, best_of_three, held};

const FIXED: &str = "sim://fixed?ttft=100ms&tpot=10ms";
/// 64 streams of 50 tokens a second.
const STREAMS: [&str; 8] = ["-c", "64", "-n", "192", "--isl", "64", "--osl", "50"];

/// A run against the truth is within its limits, or other work disturbed it.
fn within(what: &str, engine: &str, args: &[&str], judge: impl Fn(&Held) -> (bool, String)) {
    best_of_three(what, || {
        let held = held(engine, args);
        let (good, figures) = judge(&held);
        Attempt { disturbed: held.ran.is_disturbed(), figures, good }
    });
}

/// p99 of TTFT to a millisecond, of gaps to a fifth of one, every read stamped by the kernel, nothing lost.
fn as_the_engine_says(held: &Held) -> (bool, String) {
    assert_eq!(held.ran.at("environment/kernel_stamps"), true, "{}", held.ran.json["environment"]);
    let stamped = held.recorded.requests.iter().all(|r| r.chunks.iter().all(|c| c.kernel));
    assert!(stamped, "kernel stamps on all reads");
    assert_eq!(held.errors.heard, held.errors.written);
    let (ttft, gap) = (Errors::abs_us(&held.errors.ttft, 0.99), Errors::us(&held.errors.gap, 0.99));
    (ttft <= 1_000.0 && gap <= 200.0, format!("p99 |TTFT − truth| {ttft} us, |gap − truth| {gap} us"))
}

#[test]
fn thirty_two_streams_are_measured_to_a_millisecond_and_their_gaps_to_a_fifth_of_one() {
    let args = ["--isl", "64", "--osl", "32", "-c", "32", "-n", "640"];
    within("32 streams", FIXED, &args, as_the_engine_says);
}

#[test]
fn a_hundred_poisson_arrivals_a_second_are_measured_as_well() {
    let args = ["--isl", "64", "--osl", "32", "--rate", "100", "-n", "1000"];
    within("100 arrivals a second", FIXED, &args, as_the_engine_says);
}

/// T5, T7, T8: the kernel's stamp after the engine's write, gaps between tokens, time to first token.
#[test]
fn kernel_stamps_keep_to_the_engines_writes() {
    within("kernel stamps", "sim://fixed?ttft=100ms&tpot=20ms", &STREAMS, |held| {
        let Errors { arrival, ttft, gap, .. } = &held.errors;
        let [p99, p999] = [0.99, 0.999].map(|p| Errors::us(arrival, p));
        let (gap, ttft) = (Errors::us(gap, 0.99), Errors::abs_us(ttft, 0.5));
        let good = p99 <= 100.0 && p999 <= 1_000.0 && gap <= 150.0 && ttft <= 250.0;
        (good, format!("arrival p99 {p99}, p99.9 {p999}; gap p99 {gap}; TTFT p50 {ttft} us"))
    });
}

/// T6: without the kernel's stamps the program's own are later, and bounded.
#[test]
fn user_stamps_are_later_and_bounded() {
    let args: Vec<&str> = STREAMS.into_iter().chain(["--no-kernel-stamps"]).collect();
    within("user stamps", "sim://fixed?ttft=100ms&tpot=20ms", &args, |held| {
        assert_eq!(held.ran.at("environment/kernel_stamps"), false);
        let [p50, p99] = [0.5, 0.99].map(|p| Errors::us(&held.errors.arrival, p));
        (p50 <= 100.0 && p99 <= 10_000.0, format!("arrival p50 {p50}, p99 {p99} us"))
    });
}

/// T9: nothing is lost or joined at 256 streams of 50 tokens a second, and what one event costs.
#[test]
fn two_hundred_fifty_six_streams_lose_nothing() {
    let args = ["-c", "256", "-n", "512", "--isl", "16", "--osl", "50"];
    within("256 streams", "sim://fixed?ttft=100ms&tpot=20ms", &args, |held| {
        assert_eq!(held.errors.heard, held.errors.written);
        assert_eq!(held.errors.written, 512 * 50);
        let reads: u64 = held.recorded.requests.iter().map(|r| u64::from(r.output_reads)).sum();
        let joined = 1.0 - reads as f64 / held.errors.heard as f64;
        (joined < 0.01, format!("{} of events came in the read of another", joined))
    });
}

/// The four loads of the accuracy case: 64 tokens each from a server of 100 ms to the first and 10 ms from one to the
/// next. Wherever a run says that it is valid, its median and p99 are within 1 % of the server's own log; from the
/// intended moment on, which the server does not know, within the 5 % that a valid run may be late by.
#[test]
fn a_valid_run_is_within_one_per_cent_of_the_servers_log() {
    for (name, load) in [
        ("100/s", &["--rate", "100", "-n", "400"][..]),
        ("200/s", &["--rate", "200", "-n", "600"]),
        ("1000/s", &["--rate", "1000", "-n", "2000"]),
        ("1000 at once", &["--rate", "inf", "-n", "1000"]),
    ] {
        let held = held(FIXED, &[&["--isl", "64", "--osl", "64"], load].concat());
        if held.ran.json["trust"]["verdict"] != "valid" {
            continue;
        }
        let (ttft, tpot) = (held.errors.engine_ttft, held.errors.engine_tpot);
        for (path, truly, within) in
            [("other_view/ttft", &ttft, 0.01), ("metrics/ttft", &ttft, 0.05), ("metrics/tpot", &tpot, 0.01)]
        {
            for (percentile, share) in [("p50", 0.5), ("p99", 0.99)] {
                let expected = linear(&mut truly.clone(), share);
                let value = held.ran.number(&format!("{path}/{percentile}/value"));
                let off = value / expected - 1.0;
                assert!(off.abs() <= within, "{name}: {path} {percentile} {value}, truly {expected}");
            }
        }
    }
}

/// Definitions §7: one server with 0.5 s service, arrivals at 0.1·i s, cap 1.
#[test]
fn waiting_at_the_cap_is_never_omitted() {
    const LOAD: [&str; 13] = [
        "sim://fifo?service=500ms",
        "--rate",
        "10",
        "--burstiness",
        "inf",
        "--cap",
        "1",
        "-n",
        "8",
        "--warmup=none",
        "--isl=16",
        "--osl",
        "1",
    ];
    best_of_three("waiting at the cap", || {
        let folder = tempfile::tempdir().expect("a folder");
        let ran = run(folder.path(), &LOAD);
        assert_eq!(ran.json["requests"]["ok"], 8, "{}", ran.stderr);
        // A run that other work disturbed withholds figures.
        let ms = |path: &str| ran.at(path).as_f64().map_or(f64::NAN, |ns| ns / 1e6);
        let user = (ms("metrics/e2e/mean/value"), ms("metrics/e2e/max"));
        let server = ms("other_view/e2e/mean/value");
        let near = |ours: f64, truth: f64| (ours - truth).abs() <= 20.0;
        Attempt {
            disturbed: ran.is_disturbed(),
            good: near(user.0, 1900.0) && near(user.1, 3300.0) && near(server, 500.0),
            figures: format!("user view {user:?}, server view {server} ms"),
        }
    });
}
