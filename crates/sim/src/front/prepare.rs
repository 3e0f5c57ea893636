//! From a request's body to what the engine is asked for; runs beside the timing loop.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::config::SimConfig;
use crate::engine::Job;
use crate::faults::Fault;
use crate::text::{self, Counter};

/// A request that waits to be looked at.
#[derive(Debug)]
pub struct Raw {
    /// Its connection.
    pub conn: usize,
    /// Its number from 1 among generation requests; 0 for `/tokenize`.
    pub number: u64,
    /// Which endpoint.
    pub endpoint: Endpoint,
    /// The body.
    pub body: Vec<u8>,
}

/// Endpoints with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
    /// `/tokenize`.
    Tokenize,
}

/// What a request turned out to be.
#[derive(Debug)]
pub enum Prepared {
    /// An answer that needs no engine.
    Answer {
        /// HTTP status.
        status: u16,
        /// JSON.
        body: Vec<u8>,
        /// The fault that made it so.
        fault: Option<Fault>,
    },
    /// Work for the engine.
    Generate(Box<Generation>),
}

/// Work for the engine, and how its result is to look.
#[derive(Debug)]
pub struct Generation {
    /// For the engine.
    pub job: Job,
    /// Chat or completions.
    pub chat: bool,
    /// As an event stream.
    pub stream: bool,
    /// `stream_options.include_usage`.
    pub include_usage: bool,
    /// `stream_options.continuous_usage_stats`.
    pub continuous_usage: bool,
    /// `length` or `stop`.
    pub finish: &'static str,
    /// The prompt's text, when the answer is to begin with it.
    pub echo: Option<String>,
    /// What goes wrong.
    pub fault: Option<Fault>,
}

/// An error body in vLLM's shape.
pub fn error_body(status: u16, kind: &str, param: Option<&str>, message: &str) -> Vec<u8> {
    json!({"error": {"message": message, "type": kind, "param": param, "code": status}})
        .to_string()
        .into_bytes()
}

struct Refusal {
    status: u16,
    kind: &'static str,
    param: Option<&'static str>,
    message: String,
}

fn refuse(param: &'static str, message: impl Into<String>) -> Refusal {
    Refusal { status: 400, kind: "BadRequestError", param: Some(param), message: message.into() }
}

/// Looks at a request: checks it as vLLM would, counts its tokens, decides its length.
pub fn prepare(config: &SimConfig, raw: &Raw) -> Prepared {
    let result = match serde_json::from_slice::<Value>(&raw.body) {
        Err(e) => Err(Refusal {
            status: 400,
            kind: "Bad Request",
            param: Some("body"),
            message: format!("1 validation error: JSON decode error: {e}"),
        }),
        Ok(body) => match raw.endpoint {
            Endpoint::Tokenize => tokenize(config, &body),
            _ => generate(config, raw, &body),
        },
    };
    result.unwrap_or_else(|r| Prepared::Answer {
        status: r.status,
        body: error_body(r.status, r.kind, r.param, &r.message),
        fault: None,
    })
}

fn tokenize(config: &SimConfig, body: &Value) -> Result<Prepared, Refusal> {
    let (ids, _) = prompt_ids(config, body, body.get("messages").is_some())?;
    let answer =
        json!({"count": ids.len(), "max_model_len": config.context, "tokens": ids, "token_strs": null});
    Ok(Prepared::Answer { status: 200, body: answer.to_string().into_bytes(), fault: None })
}

/// Token ids of the prompt with its template, and its bare text.
fn prompt_ids(config: &SimConfig, body: &Value, chat: bool) -> Result<(Vec<u32>, String), Refusal> {
    if chat {
        return chat_ids(config.counter, body);
    }
    let missing = || refuse("prompt", "1 validation error: {'type': 'missing', 'loc': 'body.prompt'}");
    let prompt = body.get("prompt").ok_or_else(missing)?;
    // A batch of one prompt is that prompt.
    let prompt = match prompt.as_array().map(Vec::as_slice) {
        Some([one]) if one.is_string() || one.is_array() => one,
        Some([first, _, ..]) if first.is_string() || first.is_array() => {
            return Err(refuse("prompt", "this simulated server takes one prompt in a request"));
        }
        _ => prompt,
    };
    if let Some(text) = prompt.as_str() {
        let mut ids: Vec<u32> = vec![0; config.counter.leading_tokens() as usize];
        ids.extend(config.counter.tokens(text));
        return Ok((ids, text.to_owned()));
    }
    let ids = prompt.as_array().and_then(|a| {
        a.iter().map(|v| v.as_u64().and_then(|n| u32::try_from(n).ok())).collect::<Option<Vec<u32>>>()
    });
    let ids = ids.ok_or_else(|| refuse("prompt", "prompt must be a string or a list of token ids"))?;
    Ok((ids, String::new()))
}

fn chat_ids(counter: Counter, body: &Value) -> Result<(Vec<u32>, String), Refusal> {
    let missing = "1 validation error: {'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required'}";
    let messages = body.get("messages").and_then(Value::as_array);
    let messages = messages.filter(|m| !m.is_empty()).ok_or_else(|| refuse("messages", missing))?;
    let (mut ids, mut all) = (Vec::new(), String::new());
    text::begin_chat(&mut ids);
    for message in messages {
        let mut content = String::new();
        match message.get("content") {
            Some(Value::String(s)) => content.push_str(s),
            Some(Value::Array(parts)) => {
                for part in parts {
                    content.push_str(part.get("text").and_then(Value::as_str).unwrap_or(""));
                }
            }
            _ => {}
        }
        text::frame(&mut ids, &counter.tokens(&content));
        all.push_str(&content);
    }
    text::end_chat(&mut ids);
    Ok((ids, all))
}

fn count_field(body: &Value, key: &'static str, least: u64) -> Result<Option<u32>, Refusal> {
    match body.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(n) if n >= least => Ok(Some(u32::try_from(n).unwrap_or(u32::MAX))),
            _ => Err(refuse(key, format!("{key} must be a number of at least {least}, got {value}."))),
        },
    }
}

fn flag(body: &Value, key: &str) -> bool {
    body.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// The first rule that strikes this request and can apply to it.
fn strike(config: &SimConfig, number: u64, body: &Value) -> Option<Fault> {
    let has = |key: &str| body.get(key).is_some_and(|v| !v.is_null());
    let applies = |fault: &Fault| match fault {
        Fault::SlowAccept(_) => false,
        Fault::RejectStreamOptions => has("stream_options"),
        Fault::RejectIgnoreEos => has("ignore_eos") || has("min_tokens"),
        Fault::IgnoreIgnoreEos => has("ignore_eos"),
        Fault::IgnoreMaxCompletionTokens => has("max_completion_tokens"),
        _ => true,
    };
    let mut rules = config.faults.iter().enumerate();
    rules.find(|(i, r)| applies(&r.fault) && r.strikes(config.seed, *i, number)).map(|(_, r)| r.fault)
}

fn generate(config: &SimConfig, raw: &Raw, body: &Value) -> Result<Prepared, Refusal> {
    let fault = strike(config, raw.number, body);
    let refusal = match fault {
        Some(Fault::RejectStreamOptions) => Some("stream_options"),
        // Each rejection names one field, as real servers do.
        Some(Fault::RejectIgnoreEos) if body.get("ignore_eos").is_some() => Some("ignore_eos"),
        Some(Fault::RejectIgnoreEos) => Some("min_tokens"),
        _ => None,
    };
    if let Some(field) = refusal {
        let message = format!("Unrecognized request argument supplied: {field}");
        let body = error_body(400, "invalid_request_error", Some(field), &message);
        return Ok(Prepared::Answer { status: 400, body, fault });
    }
    if let Some(model) = body.get("model").and_then(Value::as_str)
        && model != config.model
    {
        return Err(Refusal {
            status: 404,
            kind: "NotFoundError",
            param: Some("model"),
            message: format!("The model `{model}` does not exist. Served here: {}.", config.model),
        });
    }
    let chat = raw.endpoint == Endpoint::Chat;
    if count_field(body, "n", 1)?.unwrap_or(1) > 1 {
        return Err(refuse("n", "this simulated server makes one choice in a request"));
    }
    let (ids, prompt) = prompt_ids(config, body, chat)?;
    let input = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    if input == 0 {
        return Err(refuse("prompt", "The decoder prompt cannot be empty"));
    }
    let limit = config.context;
    if input >= limit {
        let message = format!(
            "This model's maximum context length is {limit} tokens. However, your prompt contains {input} input tokens. Please reduce the length of the input prompt."
        );
        return Err(refuse("input_tokens", message));
    }
    let newer = match fault {
        Some(Fault::IgnoreMaxCompletionTokens) => None,
        _ => count_field(body, "max_completion_tokens", 1)?,
    };
    let asked = match newer {
        Some(n) => Some(n),
        None => count_field(body, "max_tokens", 1)?,
    };
    let most = asked.unwrap_or(if chat { limit - input } else { 16.min(limit - input) });
    if most > limit - input {
        let message = format!(
            "This model's maximum context length is {limit} tokens. However, you requested {most} output tokens and your prompt contains {input} input tokens, for a total of {} tokens.",
            u64::from(most) + u64::from(input)
        );
        return Err(refuse("max_tokens", message));
    }
    let least = count_field(body, "min_tokens", 0)?.unwrap_or(0);
    if least > most {
        return Err(refuse(
            "min_tokens",
            format!("min_tokens must be at most max_tokens={most}, got {least}."),
        ));
    }
    let natural = text::natural_length(config.natural_length, config.seed, raw.number);
    let forced = flag(body, "ignore_eos") && fault != Some(Fault::IgnoreIgnoreEos);
    let mut output = if forced { most } else { natural.max(least).min(most) };
    let mut finish = if output == most { "length" } else { "stop" };
    if let Some(Fault::EarlyStop(share)) = fault {
        output = ((f64::from(output) * share) as u32).max(1);
        finish = "stop";
    }
    if let Some(Fault::Empty) = fault {
        (output, finish) = (1, "stop");
    }
    let options = body.get("stream_options").unwrap_or(&Value::Null);
    Ok(Prepared::Generate(Box::new(Generation {
        job: Job { input_tokens: input, output_tokens: output, blocks: text::block_hashes(&ids) },
        chat,
        stream: flag(body, "stream"),
        include_usage: flag(options, "include_usage"),
        continuous_usage: flag(options, "continuous_usage_stats"),
        finish,
        echo: matches!(fault, Some(Fault::Echo)).then_some(prompt),
        fault,
    })))
}

/// Looks at requests on a thread of its own until the sender is gone.
pub fn worker(
    config: Arc<SimConfig>,
    requests: std::sync::mpsc::Receiver<Raw>,
    results: std::sync::mpsc::Sender<(usize, u64, Prepared)>,
    wake: impl Fn(),
) {
    for raw in requests {
        let prepared = prepare(&config, &raw);
        if results.send((raw.conn, raw.number, prepared)).is_err() {
            return;
        }
        wake();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn config() -> SimConfig {
        match "sim://fixed?count=bytes&context=5000".parse() {
            Ok(spec::Target::Sim(sim)) => SimConfig::from_target(&sim).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e3f64..1e3).prop_map(Value::from),
            ".{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("content|text|role|type", inner, 0..3)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_a_client_sends_is_answered_or_within_the_context(
            fields in prop::collection::btree_map(
                "prompt|messages|max_tokens|max_completion_tokens|min_tokens|ignore_eos|stream|stream_options|n|model",
                json_value(), 0..6),
            chat in any::<bool>(),
        ) {
            let config = config();
            let endpoint = if chat { Endpoint::Chat } else { Endpoint::Completions };
            let body = Value::Object(fields.into_iter().collect()).to_string().into_bytes();
            match prepare(&config, &Raw { conn: 1, number: 1, endpoint, body }) {
                Prepared::Answer { status, body, .. } => {
                    prop_assert!((400..500).contains(&status));
                    let body: Value = serde_json::from_slice(&body).unwrap();
                    prop_assert_eq!(&body["error"]["code"], &json!(status));
                }
                Prepared::Generate(g) => {
                    prop_assert!(g.job.output_tokens >= 1 && g.job.input_tokens >= 1);
                    prop_assert!(g.job.input_tokens + g.job.output_tokens <= config.context);
                    prop_assert_eq!(g.job.blocks.len() as u32, g.job.input_tokens / 16);
                }
            }
        }
    }
}
