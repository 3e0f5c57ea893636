//! How true the instrument's stamps, sends and rates are on this machine, as a table: client, engine and the engine's
//! own log of the truth, in processes of their own over loopback. The limits that tests hold are looser.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "a benchmark may fail, and uses a part of what tests share"
)]

#[path = "../tests/whole/harness.rs"]
mod harness;
#[path = "../tests/whole/sends.rs"]
mod sends;
#[path = "../tests/whole/truth.rs"]
mod truth;

use std::io::Write;

use harness::{linear, only_run, percentile, run};
use sends::{INSTANT, Ramp, critical, distance_from_exponential, lateness, measured, worst_rate};
use truth::{Errors, Held, held};

const STREAMS: &str = "sim://fixed?ttft=100ms&tpot=20ms";

fn main() {
    row("property", "figure", "goal on a quiet machine", "the run's own verdict");
    row("---", "---", "---", "---");
    pacing();
    law();
    stamps();
    many(256);
    many(640);
    reported();
    let ramp = Ramp::measure();
    let far = |(_, ours, law): &(f64, f64, f64)| (ours / law - 1.0).abs();
    let worst = ramp.points.iter().map(far).fold(0.0, f64::max);
    row(
        "T10 pause of 1.4 s at 500/s, p85 to p99.9 against the engine's log",
        &format!("within {:.2} %", 100.0 * worst),
        "2 %",
        if ramp.disturbed { "disturbed" } else { "undisturbed" },
    );
}

fn row(property: &str, figure: &str, goal: &str, verdict: &str) {
    let _ = writeln!(std::io::stdout(), "| {property} | {figure} | {goal} | {verdict} |");
}

fn verdict(json: &serde_json::Value) -> &str {
    json["trust"]["verdict"].as_str().unwrap_or("none")
}

fn pacing() {
    let folder = tempfile::tempdir().unwrap();
    let args = [INSTANT, "--rate", "500", "-d", "20s", "--warmup", "none", "--isl", "16", "--osl", "1"];
    let ran = run(folder.path(), &args);
    let run = record::read(&only_run(folder.path())).unwrap();
    let requests = measured(&run);
    let late = lateness(&requests);
    let us = |share: f64| percentile(&mut late.clone(), share) / 1e3;
    let said = verdict(&ran.json);
    let early = late.iter().filter(|late| **late < 0.0).count();
    row("T1 sends before their time", &format!("{early} of {}", late.len()), "0", said);
    row(
        "T2 lateness at Poisson 500/s, p50/p99",
        &format!("{:.0}/{:.0} µs", us(0.5), us(0.99)),
        "30/250 µs",
        said,
    );
    row(
        "T3 sent/planned in any 5 s",
        &format!("off by {:.2} % at most", 100.0 * worst_rate(&requests)),
        "0.1 %",
        said,
    );
}

fn law() {
    let (mut passed, mut limited) = (0, 0);
    for seed in 1..=10 {
        let folder = tempfile::tempdir().unwrap();
        let seed = seed.to_string();
        let args = [INSTANT, "--rate", "300", "-n", "500", "--warmup", "none", "--isl", "16", "--osl", "1"];
        let ran = run(folder.path(), &args.into_iter().chain(["--seed", &seed]).collect::<Vec<_>>());
        let run = record::read(&only_run(folder.path())).unwrap();
        let (distance, n) = distance_from_exponential(&measured(&run), 300.0);
        passed += u32::from(distance <= critical(n));
        limited += u32::from(ran.is_disturbed());
    }
    row(
        "T4 real gaps exponential (Kolmogorov, 1 %)",
        &format!("{passed} of 10 seeds"),
        "9",
        &format!("{limited} disturbed"),
    );
}

fn us(list: &[f64], shares: &[f64]) -> String {
    let figures: Vec<String> =
        shares.iter().map(|share| format!("{:.0}", Errors::us(list, *share))).collect();
    format!("{} µs", figures.join("/"))
}

fn stamps() {
    let args = ["-c", "64", "-n", "512", "--isl", "64", "--osl", "50"];
    let Held { ran, errors, .. } = held(STREAMS, &args);
    let said = verdict(&ran.json);
    let arrival = us(&errors.arrival, &[0.5, 0.99, 0.999]);
    row("T5 kernel stamp after the engine's write, p50/p99/p99.9", &arrival, "10/50/200 µs", said);
    let args: Vec<&str> = args.into_iter().chain(["--no-kernel-stamps"]).collect();
    let user = held(STREAMS, &args);
    let arrival = us(&user.errors.arrival, &[0.5, 0.99]);
    row("T6 the program's own stamp after it, p50/p99", &arrival, "40/500 µs", verdict(&user.ran.json));
    row("T7 gap between tokens, p99 of the error", &us(&errors.gap, &[0.99]), "60 µs", said);
    let ttft: Vec<f64> = errors.ttft.iter().map(|error| error.abs()).collect();
    row("T8 TTFT, p50/p99 of the error", &us(&ttft, &[0.5, 0.99]), "80/400 µs", said);
}

/// A server of 100 ms to the first token and 10 ms for each one after it, 64 tokens: what is reported beside what its
/// own log says.
fn reported() {
    let loads = [("100", "1000"), ("200", "2000"), ("1000", "5000"), ("inf", "1000")];
    for (rate, requests) in loads {
        let args = ["--rate", rate, "-n", requests, "--isl", "64", "--osl", "64"];
        let Held { ran, errors, .. } = held("sim://fixed?ttft=100ms&tpot=10ms", &args);
        let ms =
            |path: &str| ran.at(path).as_f64().map_or("withheld".to_owned(), |ns| format!("{:.2}", ns / 1e6));
        let truth = |list: &[f64], share| linear(&mut list.to_vec(), share) / 1e6;
        let pair = |path: &str, list: &[f64]| {
            let [p50, p99] = ["p50", "p99"].map(|p| ms(&format!("{path}/{p}/value")));
            format!("{p50}/{p99} ms, truly {:.2}/{:.2}", truth(list, 0.5), truth(list, 0.99))
        };
        let what = if rate == "inf" { "1,000 at once".to_owned() } else { format!("{rate}/s") };
        for (metric, path, list) in [
            ("TTFT from the first byte sent", "other_view/ttft", &errors.engine_ttft),
            ("TTFT from the intended send", "metrics/ttft", &errors.engine_ttft),
            ("TPOT", "metrics/tpot", &errors.engine_tpot),
        ] {
            row(
                &format!("{what}: {metric}, p50/p99"),
                &pair(path, list),
                "1 % where valid",
                verdict(&ran.json),
            );
        }
    }
}

/// Streams of 50 tokens a second.
fn many(streams: u32) {
    let (count, requests) = (streams.to_string(), (4 * streams).to_string());
    let Held { ran, recorded, errors, .. } =
        held(STREAMS, &["-c", &count, "-n", &requests, "--isl", "16", "--osl", "50"]);
    let busy: u64 = recorded.lanes.iter().map(|sample| sample.busy.0).sum();
    let reads: u64 = recorded.requests.iter().map(|r| u64::from(r.output_reads)).sum();
    let heard: u64 = recorded.requests.iter().map(|r| r.chunks.len() as u64).sum();
    row(
        &format!("T9 {streams} streams × 50/s: lane per event, lost, joined in one read"),
        &format!(
            "{:.1} µs, {} of {}, {:.2} %",
            busy as f64 / 1e3 / heard as f64,
            errors.written - errors.heard,
            errors.written,
            100.0 * (1.0 - reads as f64 / heard as f64)
        ),
        "15 µs, 0, 0.1 %",
        verdict(&ran.json),
    );
}
