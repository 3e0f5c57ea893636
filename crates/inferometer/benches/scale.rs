//! Many streams at once and many requests in one run: memory and time, as a table.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "a benchmark may fail, and uses a part of what tests share"
)]

#[path = "../tests/whole/harness.rs"]
mod harness;
#[path = "../tests/whole/large.rs"]
mod large;

use std::io::Write;
use std::path::{Path, PathBuf};

use harness::{Run, Sim, inferometer, only_run};
use large::{Cost, cost};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let wanted = |name: &str| args.is_empty() || args.iter().any(|arg| arg == name);
    row("what", "figure", "goal");
    row("---", "---", "---");
    if wanted("streams") {
        streams();
    }
    if wanted("journal") {
        journal();
    }
    if wanted("tables") {
        tables();
    }
}

fn row(what: &str, figure: &str, goal: &str) {
    let _ = writeln!(std::io::stdout(), "| {what} | {figure} | {goal} |");
}

fn show(path: &Path) -> Cost {
    let cost = cost(inferometer(&["show"]).arg(path));
    assert!([0, 3].contains(&cost.code), "{cost:?}");
    cost
}

/// 10,000 streams of 2 tokens a second from one process, beside 100.
fn streams() {
    let sim = Sim::start("sim://fixed?ttft=1s&tpot=500ms", None);
    let folder = tempfile::tempdir().unwrap();
    let run = |streams: &str| {
        let args = ["run", &sim.url, "-c", streams, "-n", streams, "--warmup", "none", "--isl", "16"];
        let mut command = inferometer(&args);
        command.args(["--osl", "16", "--progress", "off", "--out"]).arg(folder.path().join(streams));
        cost(&mut command)
    };
    let few = run("100");
    let many = run("10000");
    if ![0, 3].contains(&many.code) {
        row("10,000 streams", &format!("not run: exit {} (see `ulimit -Hn`)", many.code), "");
        return;
    }
    let shown = Run::of(
        inferometer(&["show", "--json"]).arg(only_run(&folder.path().join("10000"))).output().unwrap(),
    );
    let each = (many.resident_bytes - few.resident_bytes) as f64 / 9_900.0 / 1024.0;
    row("10,000 streams at once, resident memory for each", &format!("{each:.1} KiB"), "20 KiB");
    row(
        "their TPOT of 500 ms, p50/p99, and the run's own verdict",
        &format!(
            "{:.2}/{:.2} ms, {} of 10,000 ok, {}",
            shown.number("metrics/tpot/p50/value") / 1e6,
            shown.number("metrics/tpot/p99/value") / 1e6,
            shown.at("requests/ok"),
            shown.at("trust/verdict"),
        ),
        "true, or not valid",
    );
}

/// 100,000 requests of 64 events, from their journal.
fn journal() {
    let folder = tempfile::tempdir().unwrap();
    let costs = [1_000, 101_000].map(|count| {
        let path = folder.path().join(format!("{count}.zst"));
        large::write_journal(&path, &large::run(count, 64));
        show(&path)
    });
    let grown = (costs[1].resident_bytes - costs[0].resident_bytes) as f64 / 1e6;
    row("100,000 requests of 64 events, resident memory of the summary", &format!("{grown:.0} MB"), "200 MB");
    row("the same, time of the summary", &format!("{:.1} s", costs[1].seconds), "3 s");
}

/// 1,000,000 requests of 64 events, from their table; it is made once and kept below `target/`.
fn tables() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("a-million-requests");
    let table = folder.join("requests.parquet");
    if !table.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        let run = large::run(1_000_000, 64);
        record::tables::write_telemetry(&folder.join("telemetry.parquet"), &run).unwrap();
        record::tables::write_requests(&table, &run).unwrap();
    }
    let cost = show(&table);
    row(
        "1,000,000 requests of 64 events from their table, time and resident memory",
        &format!("{:.1} s, {:.1} GB", cost.seconds, cost.resident_bytes as f64 / 1e9),
        "20 s",
    );
}
