//! llama-server has no log-probabilities of a prompt, but it tells that of a token that it writes, before any bias: so
//! each token of a text is forced by `logit_bias` and asked for by itself. The server keeps what it has computed for the
//! tokens before, so one request evaluates one token.

use serde_json::{Value, json};

use super::forms::Row;
use super::{Fault, Server};

/// Far beyond any difference of logits.
const FORCE: u32 = 1000;

/// The row of `target` after the tokens `before`, with the `top` likeliest.
pub(super) fn step(server: &dyn Server, before: &[u32], target: u32, top: u32) -> Result<Row, Fault> {
    let body = json!({
        "prompt": before, "n_predict": 1, "n_probs": top.max(1), "temperature": 0,
        "logit_bias": [[target, FORCE]], "cache_prompt": true, "post_sampling_probs": false, "stream": false,
    });
    let answer = server.post("/completion", &body)?.good()?;
    hear(&answer, target).map_err(Fault::Unusable)
}

/// Reads one step's answer.
pub(super) fn hear(answer: &Value, target: u32) -> Result<Row, String> {
    let told = &answer["completion_probabilities"][0];
    let id = |value: &Value| value["id"].as_u64().and_then(|id| u32::try_from(id).ok());
    let (Some(got), Some(logprob)) = (id(told), told["logprob"].as_f64()) else {
        return Err("there is no completion_probabilities with id and logprob in the answer".to_owned());
    };
    if got != target {
        return Err(format!("token {target} was forced by logit_bias and {got} came"));
    }
    let likeliest = told["top_logprobs"].as_array().into_iter().flatten();
    let top: Vec<(u32, f64)> =
        likeliest.filter_map(|entry| Some((id(entry)?, entry["logprob"].as_f64()?))).collect();
    let greedy = top.first().map(|(most, value)| *most == target || logprob >= *value);
    Row { id: Some(got), logprob, greedy, top }.checked()
}
