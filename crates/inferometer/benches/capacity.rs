//! The search for capacity in real time, over HTTP, by the real binary: against simulated engines whose limit is known,
//! and three times each against a real engine, where its brackets must overlap.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "a benchmark may fail, and uses a part of what tests share"
)]

#[path = "../tests/whole/harness.rs"]
mod harness;
#[path = "../tests/whole/llama.rs"]
mod llama;

use std::io::Write;

use harness::{Sim, inferometer};
use llama::Llama;
use serde_json::Value;

/// Requests per second that one server of 20 ms takes with p95 of TTFT at most 200 ms (M/D/1; the calibration's row).
const OF_20_MS: f64 = 42.43;

/// A simulated engine, what is asked of it, and the truth.
struct Known {
    engine: &'static str,
    asked: [&'static str; 4],
    truth: f64,
}

const KNOWN: [Known; 5] = [
    Known {
        engine: "sim://fifo?service=70700us&tokens=end",
        asked: ["--over", "rate", "--slo", "p95(ttft)<=707ms"],
        truth: OF_20_MS * 20.0 / 70.7,
    },
    Known {
        engine: "sim://fifo?service=2829us&tokens=end",
        asked: ["--over", "rate", "--slo", "p95(ttft)<=28290us"],
        truth: OF_20_MS * 20.0 / 2.829,
    },
    // Users beyond the servers wait in turn: ttft = users / servers × service.
    Known {
        engine: "sim://fifo?service=1s&servers=273&tokens=end",
        asked: ["--over", "concurrency", "--slo", "p95(ttft)<=1100ms"],
        truth: 300.0,
    },
    Known {
        engine: "sim://fifo?service=2s&servers=636&tokens=end",
        asked: ["--over", "concurrency", "--slo", "p95(ttft)<=2200ms"],
        truth: 699.0,
    },
    // 0.42 a second on the engine's clock, which runs a hundred times faster here.
    Known {
        engine: "sim://fifo?service=2s&tokens=end&time_scale=100",
        asked: ["--over", "rate", "--slo", "p95(ttft)<=200ms"],
        truth: OF_20_MS,
    },
];

const REAL: [[&str; 4]; 2] =
    [["--over", "concurrency", "--slo", "p95(tpot)<=30ms"], ["--over", "rate", "--slo", "p95(ttft)<=1s"]];

/// Short answers and a limit of time: this engine ends some ten requests a second.
const OF_REAL: [&str; 8] = ["--model", "smollm2", "--isl", "16", "--osl", "8", "--budget", "90s"];

fn main() {
    row("engine", "asked", "truth", "answer", "requests", "time");
    row("---", "---", "---", "---", "---", "---");
    for known in &KNOWN {
        let sim = Sim::start(known.engine, None);
        let found = search(&sim.url, &known.asked, &["--isl", "16", "--osl", "4"]);
        let holds = found.low <= known.truth && known.truth <= found.high;
        let place = match (holds, found.high.is_infinite()) {
            (true, false) => "inside",
            (true, true) => "above it",
            (false, _) => "outside",
        };
        let truth = format!("{:.1}, {place}", known.truth);
        found.tell(known.engine, &known.asked, &truth);
    }
    let Some(llama) = Llama::start() else { return };
    for asked in &REAL {
        let found: Vec<Found> = (0..3).map(|_| search(&llama.url(), asked, &OF_REAL)).collect();
        let overlap = found.iter().all(|a| found.iter().all(|b| a.low <= b.high && b.low <= a.high));
        for one in found {
            one.tell("llama.cpp", asked, if overlap { "all overlap" } else { "do not overlap" });
        }
    }
}

struct Found {
    low: f64,
    high: f64,
    json: Value,
}

impl Found {
    fn tell(&self, engine: &str, asked: &[&str; 4], truth: &str) {
        let answer = &self.json["answer"];
        let bracket = match self.high.is_infinite() {
            true => format!("at least {:.1}", self.low),
            false => format!("{:.1}–{:.1}", self.low, self.high),
        };
        let words = format!("{bracket}, {}", answer["verdict"].as_str().unwrap_or_default());
        let seconds = answer["duration_ns"].as_f64().unwrap_or_default() / 1e9;
        row(
            &format!("`{engine}`"),
            &format!("{}, {}", asked[1], asked[3]),
            truth,
            &words,
            &answer["requests"].to_string(),
            &format!("{seconds:.0} s"),
        );
    }
}

fn search(url: &str, asked: &[&str; 4], lengths: &[&str]) -> Found {
    let folder = tempfile::tempdir().unwrap();
    let mut command = inferometer(&["capacity", url]);
    command.args(asked).args(lengths).args(["--json", "--progress", "off", "--if-busy", "share", "--out"]);
    let out = command.arg(folder.path()).output().unwrap();
    let json: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&out.stderr)));
    let end = |name: &str| json["answer"][name].as_f64();
    let (low, high) = (end("low").unwrap_or(0.0), end("high").unwrap_or(f64::INFINITY));
    Found { low, high, json }
}

fn row(engine: &str, asked: &str, truth: &str, answer: &str, requests: &str, time: &str) {
    let _ = writeln!(std::io::stdout(), "| {engine} | {asked} | {truth} | {answer} | {requests} | {time} |");
}
