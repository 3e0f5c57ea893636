//! What came back: `failures`, `censored`, `token_count`, `buffered`, `cumulative`, `echo`.

use record::Request;
use spec::{Metric, Nanos};

use crate::facts::Facts;
use crate::limits;
use crate::trust::{Cap, Capped, Check, CheckId};
use crate::words::{count, counted, percent};

/// What failed, in words: `3 http_5xx, 2 timed out`.
pub fn classes(facts: &Facts) -> String {
    let counts = &facts.measures.counts;
    let mut parts: Vec<String> =
        counts.failed_by_class.iter().map(|(class, n)| format!("{} {}", count(*n), class.name())).collect();
    let others = [(counts.timed_out, "timed out"), (counts.cancelled, "cut"), (counts.shed, "never sent")];
    parts.extend(others.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{} {word}", count(*n))));
    parts.join(", ")
}

/// Few failures.
pub fn failures(facts: &Facts) -> Check {
    let limit = format!("at most {}", percent(limits::FAILURES));
    let (bad, offered) = (facts.not_ok(), facts.measures.counts.offered);
    if offered == 0 {
        return Check::unknown(CheckId::Failures, "no request", limit, "Measure at least one request.");
    }
    let share = bad as f64 / offered as f64;
    let figure = match bad {
        0 => format!("none of {}", counted(offered, "request")),
        _ => format!("{} of {} ({})", count(bad), counted(offered, "request"), percent(share)),
    };
    let fails = share > limits::FAILURES && bad >= limits::FAILURES_AT_LEAST;
    Check::judged(CheckId::Failures, fails, figure, limit).grave(share > limits::INVALID_FAILURES).if_failed(
        format!(
            "{} of {} failed ({}): fix these before reading latencies.",
            count(bad),
            counted(offered, "request"),
            classes(facts)
        ),
        [Cap::Flag(Capped::Completed)],
    )
}

/// Few requests of which only a lower bound of the latency is known.
pub fn censored(facts: &Facts) -> Check {
    let limit = format!("at most {}", percent(limits::CENSORED));
    let counts = &facts.measures.counts;
    if counts.offered == 0 {
        return Check::unknown(CheckId::Censored, "no request", limit, "Measure at least one request.");
    }
    let cut = counts.timed_out + counts.cancelled;
    let share = cut as f64 / counts.offered as f64;
    let figure = match cut {
        0 => "none timed out or cut".to_owned(),
        _ => format!(
            "{} of {} timed out or cut ({})",
            count(cut),
            counted(counts.offered, "request"),
            percent(share)
        ),
    };
    Check::judged(CheckId::Censored, share > limits::CENSORED, figure, limit).if_failed(
        "Requests were cut before their end: let the drain (--drain) last at least three times p99, or raise the time limits (--first-token-timeout, --idle-timeout, --total-timeout).",
        [Cap::Flag(Capped::Completed)],
    )
}

/// Two counts of the output agree.
pub fn token_count(facts: &Facts) -> Check {
    let limit = format!("within {}", percent(limits::TOKEN_COUNT));
    let Ok(off) = facts.measures.tokens.usage_vs_retokenised else {
        return Check::unknown(
            CheckId::TokenCount,
            "only one source of the output's length",
            limit,
            "A tokenizer on this side (--tokenizer) beside the server's usage would let the two be compared.",
        );
    };
    let source = facts.measures.tokens.output_source.iter().max_by_key(|(_, n)| **n).map(|(s, _)| *s);
    let source = match source {
        Some(measure::TokenSource::Server) => "the server's usage",
        Some(measure::TokenSource::Tokenizer) => "our tokenizer",
        Some(measure::TokenSource::Chunks) | None => "the chunks",
    };
    let side = if off < 0.0 { "below" } else { "above" };
    Check::judged(
        CheckId::TokenCount,
        off.abs() > limits::TOKEN_COUNT,
        format!("usage {} {side} our own count", percent(off.abs())),
        limit,
    )
    .if_failed(
        format!("Two token counts disagree by {}: per-token numbers use {source}.", percent(off.abs())),
        [Metric::Tpot, Metric::DecodeTpot, Metric::Itl, Metric::UserTps]
            .map(|m| Cap::Flag(Capped::Metric(m))),
    )
}

/// Output tokens of a request by the best source.
fn output_tokens(request: &Request) -> Option<u32> {
    request.output.usage.or(request.output.retokenised).or(u32::try_from(request.chunks.len()).ok())
}

/// Time from the first byte sent to the last output.
fn served(request: &Request) -> Option<Nanos> {
    request.chunks.last()?.arrival.since(request.write_begin?)
}

/// Whether the output came in one piece, and whether the request can tell. `shortest` is the
/// smallest end-to-end time of the run: the own time of a request that waited in a queue says nothing
/// about the speed at which its output can come.
fn came_at_once(request: &Request, shortest: Nanos) -> Option<bool> {
    let tokens = output_tokens(request).filter(|n| *n >= limits::BUFFERED_TOKENS)?;
    if !request.streamed || !request.state.is_ok() {
        return None;
    }
    let (first, last) = (request.chunks.first()?.arrival, request.chunks.last()?.arrival);
    let by_share = Nanos((shortest.0 as f64 * limits::BUFFERED_SHARE) as u64);
    let by_tokens = Nanos(limits::BUFFERED_PER_TOKEN.0 * u64::from(tokens));
    Some(last.saturating_since(first) <= by_share.max(by_tokens))
}

/// The stream was not held back and sent in one piece.
pub fn buffered(facts: &Facts) -> Check {
    let limit = format!("below {} of streams in one piece", percent(limits::BUFFERED));
    let shortest = facts.measured.iter().filter(|r| r.state.is_ok()).filter_map(|r| served(r)).min();
    let shortest = shortest.unwrap_or_default();
    let judged: Vec<bool> = facts.measured.iter().filter_map(|r| came_at_once(r, shortest)).collect();
    if judged.is_empty() {
        let why = if facts.streamed() { "every answer is too short to tell" } else { "not streamed" };
        return Check::unknown(
            CheckId::Buffered,
            why,
            limit,
            format!("Streams of at least {} tokens show it.", limits::BUFFERED_TOKENS),
        );
    }
    let at_once = judged.iter().filter(|b| **b).count() as u64;
    let share = at_once as f64 / judged.len() as f64;
    let first_token = [
        Metric::Ttft,
        Metric::Ttfat,
        Metric::Tpot,
        Metric::DecodeTpot,
        Metric::Itl,
        Metric::Icl,
        Metric::MaxGap,
        Metric::UserTps,
    ];
    Check::judged(
        CheckId::Buffered,
        share >= limits::BUFFERED && at_once >= limits::BUFFERED_AT_LEAST,
        format!("{} of {} in one piece", count(at_once), counted(judged.len() as u64, "stream")),
        limit,
    )
    .if_failed(
        "The stream came in one piece, for the tokens that it claims: a proxy buffers it, the server does, or its token count is wrong. Measure past the proxy, check the count, or read E2E only.",
        first_token.map(|m| Cap::Withhold(Capped::Metric(m))),
    )
}

/// Chunks are deltas.
pub fn cumulative(facts: &Facts) -> Check {
    let limit = format!("fewer than {} streams whose chunks repeat the text", limits::CUMULATIVE_STREAMS);
    let streams: Vec<&&Request> =
        facts.measured.iter().filter(|r| r.streamed && r.chunks.len() >= limits::CUMULATIVE_CHUNKS).collect();
    if streams.is_empty() {
        return Check::unknown(
            CheckId::Cumulative,
            "no stream of at least four chunks",
            limit,
            "Longer streams show it.",
        );
    }
    let repeating = streams
        .iter()
        .filter(|r| {
            let share = f64::from(r.cumulative_chunks) / (r.chunks.len() - 1) as f64;
            share >= limits::CUMULATIVE && r.cumulative_run >= limits::CUMULATIVE_RUN
        })
        .count() as u64;
    Check::judged(
        CheckId::Cumulative,
        repeating >= limits::CUMULATIVE_STREAMS,
        format!("{} of {} repeating the text", count(repeating), counted(streams.len() as u64, "stream")),
        limit,
    )
    .if_failed(
        "Chunks repeat the whole text: gaps between tokens are not those of single tokens. Ask the server for deltas.",
        [Metric::Itl, Metric::DecodeTpot].map(|m| Cap::Flag(Capped::Metric(m))),
    )
}

/// Answers do not begin with their prompts.
pub fn echo(facts: &Facts) -> Check {
    let limit = format!("below {} of answers", percent(limits::ECHO));
    let compared: Vec<bool> = facts
        .measured
        .iter()
        .filter_map(|r| {
            let common = r.echo_tokens?;
            let prompt = r.input.counted.or(r.input.planned).or(r.input.server)?;
            let half = (f64::from(prompt) * limits::ECHO_SHARE).ceil() as u32;
            Some(common >= half.clamp(limits::ECHO_MIN, limits::ECHO_TOKENS))
        })
        .collect();
    if compared.is_empty() {
        return Check::unknown(
            CheckId::Echo,
            "answers were not compared with prompts",
            limit,
            "Prompts that are kept during the run can be compared.",
        );
    }
    let echoes = compared.iter().filter(|b| **b).count() as u64;
    let share = echoes as f64 / compared.len() as f64;
    Check::judged(
        CheckId::Echo,
        share >= limits::ECHO && echoes > 0,
        format!("{} of {} starting with the prompt", count(echoes), counted(compared.len() as u64, "answer")),
        limit,
    )
    .if_failed(
        "The answer contains the prompt: switch that off, for example --extra-body '{\"echo\": false}'.",
        [
            Capped::Metric(Metric::Tpot),
            Capped::Metric(Metric::DecodeTpot),
            Capped::Metric(Metric::Itl),
            Capped::Metric(Metric::UserTps),
            Capped::Throughput,
        ]
        .map(Cap::Flag),
    )
}
