//! `mlperf_log_trace.json`: the moments of each sample, for viewers of Chrome's trace format.
//!
//! LoadGen writes spans of its own threads too, and doubles quotes in some of them, so that no parser reads
//! its file as a whole. Here are the events of samples alone, as LoadGen spells them, in valid JSON.

use std::fmt::Write;

use spec::Nanos;

use crate::Scenario;
use crate::stats::Sample;

/// The trace of samples; moments are from the start of the log, to which the run began at `began`.
pub fn trace(scenario: Scenario, samples: &[Sample], began: Nanos, build: &str, pid: u64) -> String {
    let mut out = String::from("{\"traceEvents\":[\n");
    for (sequence, sample) in samples.iter().enumerate() {
        let due = micros(began + sample.scheduled);
        let delay = sample.issue_delay.0;
        let mut pair = |name: &str, done: Nanos| {
            let end = micros(began + sample.scheduled + done);
            let _ = write!(
                out,
                "{{\"name\":\"{name}\",\"cat\":\"default\",\"ph\":\"b\",\"pid\":{pid},\"id\":{sequence},\"ts\":{due},\
                 \"args\":{{\"sample_seq\":{sequence},\"query_seq\":{},\"sample_idx\":{},\"issue_start_ns\":{delay},\
                 \"complete_ns\":{}}}}},\n{{\"name\":\"{name}\",\"cat\":\"default\",\"ph\":\"e\", \"pid\":{pid},\
                 \"id\":{sequence},\"ts\":{end}}},\n",
                sample.query, sample.index, done.0
            );
        };
        let server = scenario == Scenario::Server;
        if let (Some(first), false) = (sample.first_token, server) {
            pair("Token", first);
        }
        if let Some(latency) = sample.latency {
            pair("Sample", latency);
        }
        if server {
            for (name, done) in [("Token_Latency", sample.first_token), ("Latency", sample.latency)] {
                let Some(done) = done else { continue };
                let _ = writeln!(
                    out,
                    "{{\"name\":\"{name}\",\"ph\": \"C\",\"pid\":{pid},\"ts\":{due},\"args\":{{ \
                     \"issue_delay\":{delay},\"issue_to_done\":{}}}}},",
                    done.0.saturating_sub(delay)
                );
            }
        }
    }
    let build = serde_json::Value::from(build);
    let _ = write!(
        out,
        "{{\"name\":\"LastTrace\"}}\n],\n\"displayTimeUnit\":\"ns\",\n\"otherData\":{{\n\"version\":{build}\n}}\n}}\n"
    );
    out
}

fn micros(at: Nanos) -> String {
    format!("{}.{:03}", at.0 / 1000, at.0 % 1000)
}
