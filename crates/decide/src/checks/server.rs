//! Other load on the same endpoint: `foreign`.

use record::{Request, ServerSample, Stopped};
use spec::Nanos;

use crate::facts::Facts;
use crate::limits;
use crate::trust::{Cap, Capped, Check, CheckId};
use crate::words::{counted, percent};

/// Nobody else used the endpoint.
pub fn foreign(facts: &Facts) -> Check {
    let limit = format!("tokens within {} of ours", percent(limits::FOREIGN_TOKENS));
    let samples: Vec<&ServerSample> =
        facts.run.server.iter().filter(|s| s.at >= facts.from && s.at <= facts.to).collect();
    let requests = foreign_requests(&samples);
    // What an incomplete journal lost would count as somebody else's.
    let incomplete = !facts.run.missing.is_empty()
        || matches!(facts.run.footer.stopped, Stopped::Killed | Stopped::WriteError);
    let tokens = if incomplete { None } else { foreign_tokens(facts, &samples) };
    let before = running_before(facts);
    let others = &facts.run.footer.others;
    if requests.is_none() && tokens.is_none() && before.is_none() && others.is_empty() {
        return Check::unknown(
            CheckId::Foreign,
            "the server's metrics were not read",
            limit,
            "Constant load of others cannot be seen from here: let the server's /metrics be read.",
        );
    }
    let crowded = requests.is_some_and(|share| share > limits::FOREIGN_SCRAPES);
    let beyond = tokens.is_some_and(|x| x > limits::FOREIGN_TOKENS);
    let occupied = before.filter(|running| *running > 0.0);
    let of_all = tokens.map_or(0.0, |x| if x > 0.0 { x / (1.0 + x) } else { 0.0 });
    let mut parts = Vec::new();
    if let Some(x) = tokens {
        let side = if x < 0.0 { "fewer" } else { "more" };
        parts.push(format!("{} {side} tokens than ours", percent(x.abs())));
    }
    if let Some(share) = requests {
        parts.push(format!("requests of others in {} of scrapes", percent(share)));
    }
    if let Some(running) = occupied {
        parts.push(format!("{} ran there before ours began", counted(running.ceil() as u64, "request")));
    }
    if !others.is_empty() {
        parts.push(format!("this machine measured it at the same time: {}", others.join("; ")));
    }
    if parts.is_empty() {
        // A look before the run says nothing of what ran beside it.
        return Check::unknown(
            CheckId::Foreign,
            "nothing ran there before ours began; what ran beside it was not seen",
            limit,
            "Let the server's metrics be read while the run goes on (--metrics-every 1s).",
        );
    }
    let advice = if !others.is_empty() {
        "Another run measured this endpoint at the same time: measure one at a time.".to_owned()
    } else if beyond {
        format!("Someone else used this endpoint: {} of its tokens were not ours.", percent(of_all))
    } else {
        "Someone else used this endpoint: requests that were not ours ran on it.".to_owned()
    };
    let fails = crowded || beyond || occupied.is_some() || !others.is_empty();
    Check::judged(CheckId::Foreign, fails, parts.join("; "), limit)
        .grave(of_all > limits::INVALID_FOREIGN)
        .if_failed(
            advice,
            [Cap::Flag(Capped::Latencies), Cap::Flag(Capped::Throughput), Cap::Flag(Capped::Slo)],
        )
}

/// Share of scrapes with clearly more requests on the server than ours.
fn foreign_requests(samples: &[&ServerSample]) -> Option<f64> {
    let seen: Vec<bool> = samples
        .iter()
        .filter_map(|s| {
            let total = s.running? + s.waiting.unwrap_or(0.0);
            let ours = f64::from(s.ours_in_flight);
            let limit = limits::FOREIGN_REQUESTS.max(limits::FOREIGN_SHARE * ours);
            Some(total - ours >= limit)
        })
        .collect();
    (!seen.is_empty()).then(|| seen.iter().filter(|b| **b).count() as f64 / seen.len() as f64)
}

/// Tokens that the server generated between the first and the last scrape, over ours, minus 1.
fn foreign_tokens(facts: &Facts, samples: &[&ServerSample]) -> Option<f64> {
    let counted: Vec<(Nanos, f64)> =
        samples.iter().filter_map(|s| s.generated_tokens.map(|n| (s.at, n))).collect();
    let (first, last) = (counted.first()?, counted.last()?);
    if last.0 <= first.0 || last.1 < first.1 {
        return None;
    }
    let ours: f64 = facts.run.requests.iter().map(|r| tokens_between(r, first.0, last.0)).sum();
    (ours > 0.0).then(|| (last.1 - first.1) / ours - 1.0)
}

/// Output tokens of a request that arrived in `(from, to]`.
fn tokens_between(request: &Request, from: Nanos, to: Nanos) -> f64 {
    let chunks = request.chunks.len();
    let total = request.output.usage.or(request.output.retokenised).map_or(chunks as f64, f64::from);
    let each = if chunks > 0 { total / chunks as f64 } else { 0.0 };
    request
        .chunks
        .iter()
        .filter(|c| c.arrival > from && c.arrival <= to)
        .map(|c| c.tokens.map_or(each, f64::from))
        .sum()
}

/// Requests on the server before any of ours was sent, waiting ones among them; the last look counts.
fn running_before(facts: &Facts) -> Option<f64> {
    let first = facts.run.requests.iter().filter_map(|r| r.dispatched.or(r.write_begin)).min()?;
    let before = facts.run.server.iter().filter(|s| s.at <= first && s.ours_in_flight == 0);
    before.filter_map(|s| Some(s.running? + s.waiting.unwrap_or(0.0))).next_back()
}
