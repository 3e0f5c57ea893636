//! What a reader should know beside the checks, each with a next step where there is one.

use std::collections::BTreeMap;

use measure::{Measures, TokenSource};
use record::{Oddity, Run, Stopped};
use spec::{Connections, Metric, Phase, TokenizerChoice, View};

use crate::words::{cache, count, counted, number, percent, time};

/// All notes of a run, the gravest first.
pub fn notes(run: &Run, measures: &Measures, floor: &BTreeMap<Metric, String>) -> Vec<String> {
    let mut out = Vec::new();
    ending(run, &mut out);
    out.extend(floor.values().cloned());
    answers(run, measures, &mut out);
    counting(run, measures, &mut out);
    setting(run, measures, &mut out);
    let unknown = &run.header.environment.unknown;
    if !unknown.is_empty() {
        out.push(format!(
            "Unknown about the server: {}. Give them as labels, so that this run can be compared.",
            unknown.join(", ")
        ));
    }
    out
}

/// How the run ended. What the journal lost is in the report's `missing`.
fn ending(run: &Run, out: &mut Vec<String>) {
    match run.footer.stopped {
        Stopped::Finished => {}
        Stopped::Interrupted => {
            out.push("The run was interrupted: it covers what was measured until then.".to_owned());
        }
        Stopped::Killed => out.push(
            "The run was killed and its journal recovered: requests that were open then are lost. Measure again for a complete run.".to_owned(),
        ),
        Stopped::WriteError => out.push(
            "The journal could not be written to its end: free some space and measure again.".to_owned(),
        ),
    }
    out.extend(run.footer.warnings.iter().cloned());
    out.extend(run.header.environment.negotiated.iter().cloned());
}

/// What was odd about the answers.
fn answers(run: &Run, measures: &Measures, out: &mut Vec<String>) {
    let mut odd: BTreeMap<Oddity, u64> = BTreeMap::new();
    for request in run.requests.iter().filter(|r| r.phase == Phase::Measure) {
        for oddity in &request.oddities {
            *odd.entry(*oddity).or_insert(0) += 1;
        }
    }
    for (oddity, n) in odd {
        let answers = counted(n, "answer");
        out.push(match oddity {
            Oddity::NotStreamed => {
                format!("{answers} came as plain JSON although a stream was asked for: they have no TTFT.")
            }
            Oddity::UnterminatedEvent => {
                format!("{answers} ended without a blank line after the last event.")
            }
            Oddity::NoDone => format!("{answers} ended without [DONE]."),
            Oddity::NoFinish => {
                format!("{answers} ended without a finish reason: whether they are complete is unknown.")
            }
            Oddity::CountMismatch => {
                format!("{answers} carry a usage that differs from the sum of their chunks.")
            }
            Oddity::NoUsage => format!("{answers} carry no usage although it was asked for."),
            Oddity::SeveralChoices => format!("{answers} hold more than one choice."),
            Oddity::ClampedStamp => {
                format!("{answers} carry a stamp that was clamped because two clocks disagreed.")
            }
            Oddity::OwnLimit => format!(
                "{} never reached the server: this machine had no file or port left for a connection.",
                counted(n, "request")
            ),
        });
    }
    if measures.counts.stale_connections > 0 {
        out.push(format!(
            "{} went out again because the server had closed an idle connection.",
            counted(measures.counts.stale_connections, "request")
        ));
    }
    if measures.counts.retries > 0 {
        out.push(format!(
            "{} were made beyond the first; latencies run from the first.",
            counted(measures.counts.retries, "attempt")
        ));
    }
    if measures.tokens.output_of_failed > 0 {
        out.push(format!(
            "{} of requests that did not end well are in no throughput.",
            counted(measures.tokens.output_of_failed, "output token")
        ));
    }
}

/// Who counted tokens, and whether lengths were forced.
fn counting(run: &Run, measures: &Measures, out: &mut Vec<String>) {
    let tokens = &measures.tokens;
    for (source, n) in &tokens.output_source {
        match source {
            TokenSource::Server => {}
            TokenSource::Tokenizer => out.push(format!(
                "The output of {} is counted by the tokenizer on this side, because the server sent no usage.",
                counted(*n, "request")
            )),
            TokenSource::Chunks => out.push(format!(
                "The output of {} is counted by its chunks, because neither usage nor a tokenizer is there: TPOT and tokens/s may be too low. Name a tokenizer.",
                counted(*n, "request")
            )),
        }
    }
    if run.header.spec.workload.tokenizer == TokenizerChoice::None {
        out.push("No tokenizer on this side: prompts have only about the length asked for.".to_owned());
    }
    if tokens.forced == 0 && measures.counts.ok > 0 {
        let mean = tokens
            .output_mean
            .map_or_else(|_| String::new(), |m| format!(", {} tokens in the mean", number(m)));
        let asked = run.requests.iter().any(|r| r.output.asked.is_some());
        let at_most = if asked { " up to the limit asked for" } else { "" };
        out.push(format!(
            "Output lengths are the model's own{at_most}{mean}: compare only with runs of the same lengths."
        ));
    }
    if let Ok(per_chunk) = tokens.per_chunk
        && per_chunk > 1.01
    {
        out.push(format!(
            "A chunk carries {} tokens in the mean: ITL spreads each gap over the tokens of its chunk, ICL does not.",
            number(per_chunk)
        ));
    }
}

/// How things were measured.
fn setting(run: &Run, measures: &Measures, out: &mut Vec<String>) {
    out.push(match measures.view {
        View::User => "Latencies start at the intended send (user view): waiting before a request leaves counts. The server view is on the page and in run.json.".to_owned(),
        View::Server => "Latencies start at the first byte written (server view): waiting before a request leaves does not count. The user view is on the page and in run.json.".to_owned(),
    });
    let warmup = measures.warmup.offered;
    if warmup > 0 {
        let cold = measures
            .cold_ttft
            .map_or_else(|_| String::new(), |ttft| format!("; their mean TTFT was {}", time(ttft.0 as f64)));
        out.push(format!("{} of the warm-up are not counted{cold}.", counted(warmup, "request")));
    } else {
        out.push("There was no warm-up: the first requests may have met a cold server.".to_owned());
    }
    // The corpus knows what it made; a record from before it said so has the protocol alone.
    let workload = &run.header.environment.workload;
    out.push(if workload.is_empty() {
        format!("Cache protocol: {}.", cache(&run.header.spec.workload.cache))
    } else {
        format!("Prompts: {workload}")
    });
    let sent: Vec<_> =
        run.requests.iter().filter(|r| r.phase == Phase::Measure).filter_map(|r| r.connection).collect();
    let waited: Vec<u64> = sent.iter().filter_map(|c| Some(c.waited()?.0)).collect();
    if !waited.is_empty() {
        let mean = waited.iter().sum::<u64>() as f64 / waited.len() as f64;
        let part = match measures.view {
            View::User => "which is part of their latencies",
            View::Server => "which is no part of their latencies",
        };
        let policy = match run.header.spec.client.connections {
            Connections::Fresh => "each request opens a connection",
            Connections::Keepalive | Connections::Prewarmed(_) => "idle connections are used again",
        };
        out.push(format!(
            "{} of {} waited for a new connection, {} in the mean, {part}; {policy}.",
            count(waited.len() as u64),
            counted(sent.len() as u64, "request"),
            time(mean)
        ));
    }
    if let Ok(wait) = measures.throughput.cap_wait_mean
        && measures.throughput.capped_share > 0.0
    {
        out.push(format!(
            "{} of requests waited at the cap, {} in the mean over all.",
            percent(measures.throughput.capped_share),
            time(wait.0 as f64)
        ));
    }
}
