//! The engine's own log of the truth, and by how much the instrument's stamps differ from it.

use std::collections::BTreeMap;
use std::path::Path;

use sim::TruthRow;

use crate::harness::{Run, Sim, only_run, percentile, run};

/// The rows of the log by the request's position in the plan; probes before the run have none.
pub fn truth(path: &Path) -> BTreeMap<u64, TruthRow> {
    let text = std::fs::read_to_string(path).expect("the engine's log");
    text.lines()
        .map(|line| serde_json::from_str::<TruthRow>(line).expect("a line of the log"))
        .filter_map(|row| Some((row.request_id.rsplit('-').next()?.parse().ok()?, row)))
        .collect()
}

/// Errors of one run's stamps in nanoseconds, over its measured requests that ended well.
#[derive(Debug, Default)]
pub struct Errors {
    /// Arrival of an event after the engine's stamp just before it wrote it.
    pub arrival: Vec<f64>,
    /// TTFT − the engine's own, from its reception of the request to its first write; either sign.
    pub ttft: Vec<f64>,
    /// Distance between a gap between events and the engine's own.
    pub gap: Vec<f64>,
    /// The engine's own TTFT of each request: from its reception to the first write.
    pub engine_ttft: Vec<f64>,
    /// And its time per output token.
    pub engine_tpot: Vec<f64>,
    /// Events that the engine wrote.
    pub written: u64,
    /// Events that we have.
    pub heard: u64,
}

impl Errors {
    /// A percentile of one of the lists, in microseconds.
    pub fn us(list: &[f64], share: f64) -> f64 {
        percentile(&mut list.to_vec(), share) / 1e3
    }
    /// The same without signs.
    pub fn abs_us(list: &[f64], share: f64) -> f64 {
        percentile(&mut list.iter().map(|x| x.abs()).collect::<Vec<_>>(), share) / 1e3
    }
}

/// A run against the engine of known timing, with what it wrote down.
pub struct Held {
    pub ran: Run,
    pub recorded: record::Run,
    pub errors: Errors,
}

/// Runs `args` against `engine` in a process of its own and holds each stamp against its log.
pub fn held(engine: &str, args: &[&str]) -> Held {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("truth.jsonl");
    let sim = Sim::start(engine, Some(&log));
    let runs = folder.path().join("runs");
    let mut all = vec![sim.url.as_str()];
    all.extend_from_slice(args);
    let ran = run(&runs, &all);
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    sim.end();
    let recorded = record::read(&only_run(&runs)).expect("the journal");
    let errors = errors(&recorded, &truth(&log));
    Held { ran, recorded, errors }
}

fn errors(run: &record::Run, truth: &BTreeMap<u64, TruthRow>) -> Errors {
    let origin = run.header.environment.monotonic_origin_ns as f64;
    let mut errors = Errors::default();
    for request in run.requests.iter().filter(|r| r.state.is_ok() && r.phase == spec::Phase::Measure) {
        let engine =
            truth.get(&request.seq).unwrap_or_else(|| panic!("the engine knows no request {}", request.seq));
        let writes: Vec<f64> =
            engine.writes.iter().filter(|(_, tokens)| *tokens > 0).map(|(at, _)| *at as f64).collect();
        let arrivals: Vec<f64> = request.chunks.iter().map(|c| c.arrival.0 as f64).collect();
        errors.written += writes.len() as u64;
        errors.heard += arrivals.len() as u64;
        let (Some(first), Some(sent)) = (arrivals.first(), request.write_begin) else { continue };
        errors.engine_ttft.push(writes[0] - engine.received_ns as f64);
        if let [first, .., last] = writes[..] {
            errors.engine_tpot.push((last - first) / (writes.len() - 1) as f64);
        }
        errors.ttft.push((first - sent.0 as f64) - (writes[0] - engine.received_ns as f64));
        errors.arrival.extend(arrivals.iter().zip(&writes).map(|(ours, true_)| ours + origin - true_));
        for (ours, true_) in arrivals.windows(2).zip(writes.windows(2)) {
            errors.gap.push(((ours[1] - ours[0]) - (true_[1] - true_[0])).abs());
        }
    }
    errors
}

/// One attempt at a figure, and whether other work took the CPU from it, by the run's own checks.
pub struct Attempt {
    pub disturbed: bool,
    /// What was found, in words.
    pub figures: String,
    /// Whether it keeps the limit.
    pub good: bool,
}

/// The best of three: other work on a shared machine only ever adds to an error. Attempts that other work disturbed, as
/// the run itself says, prove nothing either way.
pub fn best_of_three(what: &str, mut attempt: impl FnMut() -> Attempt) {
    let mut bad = Vec::new();
    for _ in 0..3 {
        let attempt = attempt();
        if attempt.good {
            return;
        }
        bad.push(attempt);
    }
    let told: Vec<&str> = bad.iter().map(|a| a.figures.as_str()).collect();
    assert!(bad.iter().all(|a| a.disturbed), "{what}: {told:#?}");
}
