//! Does watching move what is watched? The real binary against the simulated engine, in interleaved pairs of runs
//! with one thing off and on: the live view, and reading the server's metrics a hundred times a second. What moves
//! is the middle of (the kernel's stamp of a read − the engine's own moment of that write). The tables of a run are
//! written once it is over, so they cannot.
#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_inferometer");
/// Pairs of runs for each thing; off and on take turns at going first.
const PAIRS: usize = 8;
const LOAD: [&str; 12] =
    ["-c", "16", "--duration", "4s", "--warmup", "none", "--isl", "32", "--osl", "64", "--if-busy", "share"];

/// What is switched on in one run of a pair.
#[derive(Clone, Copy)]
enum Watching {
    LiveView,
    Metrics,
}

/// One run's figures in nanoseconds.
#[derive(Clone, Copy)]
struct Figures {
    stamp: f64,
    client_lag: f64,
    send_lag: f64,
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("truth.jsonl");
    let (mut engine, url) = engine(&log);
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "| on against off, {PAIRS} pairs | median stamp | p99 client lag | p99 send lag |\n|---|---|---|---|"
    )
    .unwrap();
    for (name, watching) in [("live view", Watching::LiveView), ("metrics at 100 Hz", Watching::Metrics)] {
        let mut pairs = Vec::new();
        for pair in 0..PAIRS {
            let measure = |on: bool, number: usize| {
                let runs = folder.path().join(format!("{name}-{number}"));
                run(&url, &runs, on.then_some(watching));
                figures(&runs, &log)
            };
            let (first, second) = (measure(pair % 2 == 1, 2 * pair), measure(pair % 2 == 0, 2 * pair + 1));
            pairs.push(if pair % 2 == 0 { (first, second) } else { (second, first) });
        }
        let shift = |of: fn(&Figures) -> f64| {
            let mut all: Vec<f64> = pairs.iter().map(|(off, on)| (of(on) - of(off)) / 1e3).collect();
            all.sort_by(f64::total_cmp);
            (median(&all), all[0], all[all.len() - 1])
        };
        let told = |of: fn(&Figures) -> f64| {
            let (middle, low, high) = shift(of);
            format!("{middle:+.1} µs ({low:+.1} to {high:+.1})")
        };
        writeln!(
            out,
            "| {name} | {} | {} | {} |",
            told(|f| f.stamp),
            told(|f| f.client_lag),
            told(|f| f.send_lag)
        )
        .unwrap();
    }
    let _ = engine.kill();
    let _ = engine.wait();
}

fn engine(log: &Path) -> (Child, String) {
    let mut child = Command::new(BINARY)
        .args([
            "sim",
            "serve",
            "sim://fixed?ttft=20ms&tpot=10ms",
            "--port",
            "0",
            "--until-stdin-closes",
            "--truth",
        ])
        .arg(log)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: serde_json::Value = serde_json::from_str(&line).unwrap();
    let url = said["listening"].as_str().unwrap().to_owned();
    (child, url)
}

/// One run; the live view needs a terminal, which `script` (util-linux) gives it.
fn run(url: &str, runs: &Path, watching: Option<Watching>) {
    let mut args: Vec<String> = ["run", url, "--out", &runs.to_string_lossy()].map(str::to_owned).into();
    args.extend(LOAD.map(str::to_owned));
    let every = if matches!(watching, Some(Watching::Metrics)) { "10ms" } else { "off" };
    args.extend(["--metrics-every".to_owned(), every.to_owned()]);
    let mut command = if matches!(watching, Some(Watching::LiveView)) {
        let words: Vec<String> = args.iter().map(|word| format!("'{word}'")).collect();
        let line = format!("stty cols 120 rows 40; exec {BINARY} {} --progress live", words.join(" "));
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]);
        script
    } else {
        let mut plain = Command::new(BINARY);
        plain.args(&args).args(["--progress", "off"]);
        plain
    };
    // Whether the run is trusted is not the question here.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
}

fn figures(runs: &Path, log: &Path) -> Figures {
    let folder = only_entry(runs);
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let recorded = record::read(&folder.join("journal.jsonl.zst")).unwrap();
    let origin = recorded.header.environment.monotonic_origin_ns as f64;
    let truth = writes(log, &name);
    let (mut stamp, mut client_lag, mut send_lag) = (Vec::new(), Vec::new(), Vec::new());
    for request in recorded.requests.iter().filter(|r| r.state.is_ok()) {
        let Some(writes) = truth.get(&request.seq).filter(|w| w.len() == request.chunks.len()) else {
            continue;
        };
        for (chunk, written) in request.chunks.iter().zip(writes) {
            stamp.push(origin + chunk.arrival.0 as f64 - written);
            client_lag.push((chunk.seen.0 - chunk.arrival.0) as f64);
        }
        send_lag.extend(request.write_begin.map(|at| at.saturating_since(request.intended).0 as f64));
    }
    for values in [&mut stamp, &mut client_lag, &mut send_lag] {
        values.sort_by(f64::total_cmp);
    }
    Figures { stamp: median(&stamp), client_lag: p99(&client_lag), send_lag: p99(&send_lag) }
}

/// The moments of the engine's writes that carried tokens, for each request of a run.
fn writes(log: &Path, run: &str) -> BTreeMap<u64, Vec<f64>> {
    let text = std::fs::read_to_string(log).unwrap();
    text.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|line| {
            let seq = line["request_id"].as_str()?.strip_prefix(run)?.strip_prefix('-')?.parse().ok()?;
            let all = line["writes"].as_array()?.iter().filter(|w| w[1].as_u64().unwrap_or(0) > 0);
            Some((seq, all.filter_map(|w| w[0].as_f64()).collect()))
        })
        .collect()
}

fn only_entry(folder: &Path) -> PathBuf {
    std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn p99(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() * 99 / 100).copied().unwrap_or(f64::NAN)
}
