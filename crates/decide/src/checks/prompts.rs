//! Lengths and identity of what was asked: `out_length`, `in_length`, `unique`, `cache`.

use std::collections::HashSet;

use record::Request;
use spec::{CacheProtocol, Dialect, Metric, Source};

use crate::facts::{Facts, median};
use crate::limits;
use crate::trust::{Cap, Capped, Check, CheckId};
use crate::words::{count, counted, number, percent};

/// What to do about prompts that a cache answers for.
const CACHED: &str =
    "Prompts were already in the server's cache: use a new seed (--seed) or empty the cache.";

/// Output lengths delivered against asked.
pub fn out_length(facts: &Facts) -> Check {
    let tokens = &facts.measures.tokens;
    let limit = format!("at most {} of answers", percent(limits::OUT_LENGTH));
    if tokens.forced == 0 {
        let natural = match tokens.output_mean {
            Ok(mean) => format!("lengths are the model's own: {} tokens in the mean", number(mean)),
            Err(_) => "lengths are the model's own".to_owned(),
        };
        return Check::unknown(
            CheckId::OutLength,
            natural,
            limit,
            "Runs compare only at equal output lengths: force them (--force) where the server allows it.",
        );
    }
    let share = tokens.forced_missed as f64 / tokens.forced as f64;
    let figure = if tokens.forced_missed == 0 {
        format!("all {} as long as asked", counted(tokens.forced, "answer"))
    } else {
        format!(
            "{} of {} not as long as asked ({})",
            count(tokens.forced_missed),
            counted(tokens.forced, "answer"),
            percent(share)
        )
    };
    Check::judged(CheckId::OutLength, share > limits::OUT_LENGTH, figure, limit).if_failed(
        "Answers have another length than asked: force the length (--force min_tokens) or use another field (--max-field).",
        [Capped::Metric(Metric::Tpot), Capped::Metric(Metric::E2e), Capped::Throughput].map(Cap::Flag),
    )
}

/// Server's count minus ours, with ours.
fn input_differences(facts: &Facts) -> Vec<(i64, i64)> {
    facts
        .measured
        .iter()
        .filter_map(|r| {
            let planned = i64::from(r.input.counted.or(r.input.planned)?);
            Some((i64::from(r.input.server?) - planned, planned))
        })
        .filter(|(_, planned)| *planned > 0)
        .collect()
}

/// Input lengths against the server's count.
pub fn in_length(facts: &Facts) -> Check {
    let limit = format!(
        "median within {}, {} of requests near it",
        percent(limits::IN_LENGTH),
        percent(1.0 - limits::IN_LENGTH_OFF)
    );
    let all = input_differences(facts);
    let Some(typical) = median(&mut all.iter().map(|(d, _)| *d).collect::<Vec<_>>()) else {
        return Check::unknown(
            CheckId::InLength,
            "only one count of the input",
            limit,
            "Compare with a server that reports usage, and with a tokenizer on this side (--tokenizer).",
        );
    };
    let mut ratios: Vec<f64> = all.iter().map(|(d, planned)| *d as f64 / *planned as f64).collect();
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[(ratios.len() - 1) / 2];
    let off = all
        .iter()
        .filter(|(d, planned)| {
            (d - typical).abs() as f64
                > limits::IN_LENGTH_TOKENS.max(limits::IN_LENGTH_SHARE * *planned as f64)
        })
        .count();
    let off_share = off as f64 / all.len() as f64;
    let scattered = off_share > limits::IN_LENGTH_OFF;
    let chat = facts.run.header.spec.api.dialect == Dialect::Chat;
    // A template adds the same few tokens to every prompt, which is much of a short one.
    let template = chat && !scattered && (0..=limits::TEMPLATE_TOKENS).contains(&typical);
    let sign = if typical < 0 { "fewer" } else { "more" };
    let figure = format!(
        "server counts {} {sign} per prompt ({}); {} differ from that",
        counted(typical.unsigned_abs(), "token"),
        percent(ratio.abs()),
        counted(off as u64, "prompt"),
    );
    let note = (template && typical > 0)
        .then(|| format!("the constant {} are the chat template", counted(typical.unsigned_abs(), "token")));
    Check::judged(
        CheckId::InLength,
        scattered || (!template && ratio.abs() > limits::IN_LENGTH),
        figure,
        limit,
    )
    .with_note(note)
    .if_failed(
        format!(
            "The server counted {} {sign} input tokens: another tokenizer or a template is in play. Name the model's own (--tokenizer).",
            percent(ratio.abs())
        ),
        [],
    )
}

/// Prompts were unique as declared.
pub fn unique(facts: &Facts) -> Check {
    let limit = format!("at least {} distinct", percent(limits::UNIQUE));
    let spec = &facts.run.header.spec;
    // Warm-up prompts fill the cache as well, so they count.
    let sent: Vec<&Request> = facts.run.requests.iter().filter(|r| r.write_begin.is_some()).collect();
    if sent.iter().all(|r| r.prompt == Default::default()) || sent.is_empty() {
        return Check::unknown(
            CheckId::Unique,
            "prompts were not compared",
            limit,
            "Prompts without a recorded identity cannot be told apart.",
        );
    }
    let n = sent.len() as u64;
    let by: fn(&Request) -> u64 = match spec.workload.cache {
        CacheProtocol::Unique => |r| r.prompt.first64,
        CacheProtocol::SharedPrefix { .. } | CacheProtocol::Repeat { .. } => |r| r.prompt.whole,
    };
    let distinct = sent.iter().map(|r| by(r)).collect::<HashSet<_>>().len() as u64;
    let expected = match spec.workload.cache {
        CacheProtocol::Repeat { prompts } => n.min(u64::from(prompts)),
        _ => n,
    };
    let share = distinct as f64 / expected.max(1) as f64;
    let repeated = 1.0 - share;
    let figure = format!("{} of {} distinct", count(distinct), counted(expected, "prompt"));
    if spec.workload.source != Source::Synthetic && share < limits::UNIQUE {
        return Check::unknown(
            CheckId::Unique,
            format!("{figure}, as the data set has them"),
            limit,
            "Prompts of the data set repeat: a prefix cache may answer for them.",
        );
    }
    Check::judged(CheckId::Unique, share < limits::UNIQUE, figure, limit)
        .if_failed(CACHED, cache_caps(repeated))
}

/// Cache hits as declared.
pub fn cache(facts: &Facts) -> Check {
    let limit = format!("at most {} of input tokens beyond the plan", percent(limits::CACHE));
    let reported: Vec<&&Request> = facts.measured.iter().filter(|r| r.input.cached.is_some()).collect();
    if reported.is_empty() {
        return Check::unknown(
            CheckId::Cache,
            "the server does not report cached tokens",
            limit,
            "Hidden cache hits cannot be excluded: let the server report cached tokens.",
        );
    }
    let template =
        median(&mut input_differences(facts).iter().map(|(d, _)| *d).collect::<Vec<_>>()).unwrap_or(0).max(0);
    let repeats = matches!(facts.run.header.spec.workload.cache, CacheProtocol::Repeat { .. });
    let (mut excess, mut cached, mut input) = (0_i64, 0_i64, 0_i64);
    for request in &reported {
        let hit = i64::from(request.input.cached.unwrap_or(0));
        let own = request.input.server.or(request.input.counted).or(request.input.planned).unwrap_or(0);
        // With prompts used in turn, a whole prompt may come from the cache by plan.
        let planned = if repeats { i64::from(own) } else { i64::from(request.input.shared) };
        excess += (hit - planned - template - limits::CACHE_BLOCK).max(0);
        cached += hit;
        input += i64::from(own);
    }
    let of_input = |tokens: i64| if input > 0 { tokens as f64 / input as f64 } else { 0.0 };
    let share = of_input(excess);
    let figure =
        format!("{} of input tokens cached, {} beyond the plan", percent(of_input(cached)), percent(share));
    Check::judged(CheckId::Cache, share > limits::CACHE, figure, limit).if_failed(CACHED, cache_caps(share))
}

/// TTFT and throughput flagged, beyond a fifth withheld.
fn cache_caps(share: f64) -> [Cap; 2] {
    let capped = [Capped::Metric(Metric::Ttft), Capped::Throughput];
    if share > limits::CACHE_WITHHOLD { capped.map(Cap::Withhold) } else { capped.map(Cap::Flag) }
}
