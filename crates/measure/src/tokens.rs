//! How many tokens a request and each of its chunks have, and who says so (definitions §2).

use record::Request;

use crate::estimate::{Defined, Undefined};
use crate::summary::TokenSource;

/// A difference between two counts of the same output above this share is a warning.
pub const DISAGREEMENT: f64 = 0.01;

/// Output tokens `n` of a request: the server's usage, else our tokenizer over the whole text, else
/// the chunks. Nothing is credited to a request without output.
pub fn output_tokens(request: &Request) -> Defined<(u32, TokenSource)> {
    if request.chunks.is_empty() {
        return Err(Undefined::NoOutput);
    }
    // A count of 0 beside visible output tells nothing.
    let known = |count: Option<u32>| count.filter(|&tokens| tokens > 0);
    if let Some(tokens) = known(request.output.usage) {
        return Ok((tokens, TokenSource::Server));
    }
    if let Some(tokens) = known(request.output.retokenised) {
        return Ok((tokens, TokenSource::Tokenizer));
    }
    let counted: u32 =
        request.chunks.iter().map(|chunk| chunk.tokens.unwrap_or(1)).fold(0, u32::saturating_add);
    if counted > 0 { Ok((counted, TokenSource::Chunks)) } else { Err(Undefined::NoTokenCount) }
}

/// Input tokens of a request: the server's usage, else what our tokenizer counted, else the plan.
pub fn input_tokens(request: &Request) -> Option<u32> {
    request.input.server.or(request.input.counted).or(request.input.planned)
}

/// Tokens of each chunk, written to `tokens` in the order of the chunks; says where they come from:
///
/// 1. the events themselves, when every one tells;
/// 2. a total spread by text length: our tokenizer's count, or without one the server's usage less
///    thinking that was never sent. Each chunk has at least one token when there are enough;
/// 3. one for each chunk.
pub fn chunk_tokens(request: &Request, tokens: &mut Vec<u32>) -> TokenSource {
    let chunks = &request.chunks;
    tokens.clear();
    tokens.extend(chunks.iter().map_while(|chunk| chunk.tokens));
    if tokens.len() == chunks.len() && tokens.iter().any(|&k| k > 0) {
        return TokenSource::Server;
    }
    tokens.clear();
    let counted = request.output.retokenised.filter(|&tokens| tokens > 0);
    let total = counted.or_else(|| visible_usage(request)).unwrap_or(0);
    if total == 0 || chunks.is_empty() {
        tokens.resize(chunks.len(), 1);
        return TokenSource::Chunks;
    }
    // One each first, so that a stream of single tokens stays one whatever their lengths.
    let each = u32::from(total as usize >= chunks.len());
    let rest = u64::from(total) - u64::from(each) * chunks.len() as u64;
    if rest == 0 {
        tokens.resize(chunks.len(), each);
        return TokenSource::Tokenizer;
    }
    let bytes: u64 = chunks.iter().map(|chunk| u64::from(chunk.text_bytes).max(1)).sum();
    let (mut seen, mut given) = (0_u64, 0_u64);
    for chunk in chunks {
        seen += u64::from(chunk.text_bytes).max(1);
        // Rounding the running total keeps the sum exact.
        let upto = match rest.checked_mul(2 * seen).and_then(|twice| twice.checked_add(bytes)) {
            Some(twice) => twice / (2 * bytes),
            None => {
                let twice = u128::from(rest) * u128::from(seen) * 2 + u128::from(bytes);
                (twice / (u128::from(bytes) * 2)) as u64
            }
        };
        tokens.push(each + (upto - given) as u32);
        given = upto;
    }
    TokenSource::Tokenizer
}

/// The server's usage without thinking that left no chunk.
fn visible_usage(request: &Request) -> Option<u32> {
    let usage = request.output.usage?;
    let thought = request.output.reasoning.unwrap_or(0);
    let shown = || thought > 0 && request.chunks.iter().any(|chunk| chunk.kind == record::Kind::Reasoning);
    Some(if shown() { usage } else { usage.saturating_sub(thought) })
}

/// usage / retokenised − 1 of one request, where both exist.
pub fn disagreement(request: &Request) -> Option<f64> {
    let (usage, own) = (request.output.usage?, request.output.retokenised?);
    (own > 0).then(|| f64::from(usage) / f64::from(own) - 1.0)
}

/// Tokens of requests that we cut at the end (definitions §3, `cancelled`): the server delivered
/// them inside the window, so they are part of the throughput; they are no part of the totals over
/// completed requests.
pub fn cut_output(requests: &[Request]) -> u64 {
    requests
        .iter()
        .filter(|request| request.phase == spec::Phase::Measure && request.state == record::State::Cancelled)
        .filter_map(|request| output_tokens(request).ok())
        .map(|(tokens, _)| u64::from(tokens))
        .sum()
}
