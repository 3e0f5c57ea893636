//! The ways in which engines give log-probabilities of a prompt: requests, and what their answers mean.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How a server gives the log-probabilities of tokens that it did not choose itself, the first the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// vLLM: `prompt_logprobs` on `/v1/completions`.
    PromptLogprobs,
    /// `echo` with `logprobs` on `/v1/completions`: OpenAI's older form, vLLM, llama-cpp-python.
    Echo,
    /// SGLang: `return_logprob` on `/generate`.
    Sglang,
    /// llama-server: one request for each token, which `logit_bias` forces; the log-probability that is told is that of
    /// the model without the bias.
    Walk,
    /// None: only tasks that read what the server writes.
    GenerateOnly,
}

impl Mode {
    /// Its name in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::PromptLogprobs => "prompt_logprobs",
            Self::Echo => "echo with logprobs",
            Self::Sglang => "SGLang's /generate",
            Self::Walk => "a walk of forced tokens",
            Self::GenerateOnly => "generation only",
        }
    }
}

/// What is scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// Token ids, sent as they are.
    Ids(&'a [u32]),
    /// Text: the server's tokenizer cuts it, with the special tokens that it adds by itself.
    Text(&'a str),
}

impl Input<'_> {
    fn value(self) -> Value {
        match self {
            Self::Ids(ids) => json!(ids),
            Self::Text(text) => json!(text),
        }
    }
}

/// What the model thought of one token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The token, where the server names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// Its log-probability, natural log.
    pub logprob: f64,
    /// Whether it was the likeliest; `None` where the server did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub greedy: Option<bool>,
    /// The likeliest tokens with their log-probabilities, descending, as far as they were asked for and have ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub top: Vec<(u32, f64)>,
}

/// Float32 softmax may come out this far above 0.
const ABOVE_ZERO: f64 = 1e-4;

impl Row {
    /// A row that can be right.
    pub(super) fn checked(self) -> Result<Self, String> {
        let fine = |value: f64| value.is_finite() && value <= ABOVE_ZERO;
        if fine(self.logprob) && self.top.iter().all(|(_, value)| fine(*value)) {
            return Ok(self);
        }
        Err(format!("{} is no log-probability: it must be finite and at most 0", self.logprob))
    }
}

/// The request for the rows of a whole prompt; `None`: this mode asks token by token, or not at all. `named`: the
/// server writes token ids in place of texts when it is asked to.
pub(super) fn request(
    mode: Mode,
    model: &str,
    input: Input<'_>,
    top: u32,
    named: bool,
) -> Option<(&'static str, Value)> {
    let base = json!({ "model": model, "prompt": input.value(), "max_tokens": 1, "temperature": 0 });
    let with = |more: Value| {
        let mut body = base.clone();
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        body
    };
    Some(match mode {
        Mode::PromptLogprobs => ("/v1/completions", with(json!({ "prompt_logprobs": top }))),
        // At least 1: some servers leave the values out for 0.
        Mode::Echo if named => (
            "/v1/completions",
            with(json!({ "echo": true, "logprobs": top.max(1), "return_tokens_as_token_ids": true })),
        ),
        Mode::Echo => ("/v1/completions", with(json!({ "echo": true, "logprobs": top.max(1) }))),
        Mode::Sglang => {
            let field = if matches!(input, Input::Ids(_)) { "input_ids" } else { "text" };
            let body = json!({
                field: input.value(),
                "sampling_params": { "max_new_tokens": 1, "temperature": 0 },
                "return_logprob": true, "logprob_start_len": 0, "top_logprobs_num": top.max(1),
            });
            ("/generate", body)
        }
        Mode::Walk | Mode::GenerateOnly => return None,
    })
}

/// What an answer says of its prompt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Heard {
    /// One for each token of the prompt; the first has none.
    pub rows: Vec<Option<Row>>,
    /// Tokens of the prompt by the server's usage.
    pub prompt_tokens: Option<u64>,
    /// The texts of the tokens joined, where they are texts.
    pub text: Option<String>,
}

/// Reads the answer to [`request`]. `n`: tokens sent, where they were counted before.
///
/// # Errors
/// What is missing or cannot be, in words.
pub(super) fn hear(mode: Mode, answer: &Value, n: Option<usize>) -> Result<Heard, String> {
    let prompt_tokens =
        answer["usage"]["prompt_tokens"].as_u64().or_else(|| answer["meta_info"]["prompt_tokens"].as_u64());
    let (rows, text) = match mode {
        Mode::PromptLogprobs => (prompt_logprobs(answer)?, None),
        Mode::Echo => echo(answer)?,
        Mode::Sglang => (sglang(answer)?, None),
        Mode::Walk | Mode::GenerateOnly => {
            return Err("this mode has no answer for a whole prompt".to_owned());
        }
    };
    let expected = n.or_else(|| usize::try_from(prompt_tokens?).ok());
    let told = rows.len();
    let Some(n) = expected else {
        return Err("the server does not say how many tokens the prompt has".to_owned());
    };
    // The generated token follows those of the prompt in an echo.
    let generated = usize::from(mode == Mode::Echo);
    if told < n || told > n + generated {
        return Err(format!("{told} values came for the {n} tokens of the prompt"));
    }
    let mut rows = rows;
    rows.truncate(n);
    if rows.first().is_some_and(Option::is_some) {
        return Err("the first token has a log-probability, although nothing stands before it".to_owned());
    }
    if let Some(hole) = rows.iter().skip(1).position(Option::is_none) {
        return Err(format!("token {} of the prompt has no log-probability", hole + 1));
    }
    let rows = rows.into_iter().map(|row| row.map(Row::checked).transpose()).collect::<Result<_, _>>()?;
    Ok(Heard { rows, prompt_tokens, text })
}

fn prompt_logprobs(answer: &Value) -> Result<Vec<Option<Row>>, String> {
    let choice = &answer["choices"][0];
    let list = choice["prompt_logprobs"].as_array().or_else(|| answer["prompt_logprobs"].as_array());
    let list = list.ok_or("there is no prompt_logprobs in the answer")?;
    list.iter().map(|entry| entry.as_object().map(of_vllm).transpose()).collect()
}

/// `{"id": {"logprob", "rank"}}`: the token of the prompt first, then the likeliest.
fn of_vllm(entry: &serde_json::Map<String, Value>) -> Result<Row, String> {
    let mut all = Vec::new();
    for (id, value) in entry {
        let id: u32 = id.parse().map_err(|_| format!("`{id}` is no token id"))?;
        all.push((id, value["logprob"].as_f64().unwrap_or(f64::NAN), value["rank"].as_u64()));
    }
    let &(id, logprob, rank) = all.first().ok_or("an entry of prompt_logprobs is empty")?;
    let mut top: Vec<(u32, f64)> = all.iter().map(|&(id, logprob, _)| (id, logprob)).collect();
    // Less likely than all the others, it is there only because it is the prompt's.
    if rank.is_some_and(|rank| rank > all.len() as u64) {
        top.remove(0);
    }
    top.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(Row { id: Some(id), logprob, greedy: rank.map(|rank| rank == 1), top })
}

fn echo(answer: &Value) -> Result<(Vec<Option<Row>>, Option<String>), String> {
    let logprobs = &answer["choices"][0]["logprobs"];
    let values =
        logprobs["token_logprobs"].as_array().ok_or("there is no logprobs.token_logprobs in the answer")?;
    let tokens = logprobs["tokens"].as_array().ok_or("there is no logprobs.tokens in the answer")?;
    if tokens.len() != values.len() {
        return Err(format!("{} tokens and {} log-probabilities came", tokens.len(), values.len()));
    }
    let top = logprobs["top_logprobs"].as_array();
    let mut rows = Vec::new();
    for (place, value) in values.iter().enumerate() {
        let Some(logprob) = value.as_f64() else {
            rows.push(None);
            continue;
        };
        let likeliest = top.and_then(|top| top.get(place)).and_then(Value::as_object);
        let most = likeliest.and_then(|dict| dict.values().filter_map(Value::as_f64).reduce(f64::max));
        let named = likeliest.into_iter().flatten();
        let mut top: Vec<(u32, f64)> =
            named.filter_map(|(name, value)| Some((named_id(name)?, value.as_f64()?))).collect();
        top.sort_by(|a, b| b.1.total_cmp(&a.1));
        let id = tokens.get(place).and_then(Value::as_str).and_then(named_id);
        rows.push(Some(Row { id, logprob, greedy: most.map(|most| logprob >= most), top }));
    }
    let words: Option<Vec<&str>> = tokens.iter().map(Value::as_str).collect();
    let text =
        words.filter(|words| words.iter().all(|word| named_id(word).is_none())).map(|words| words.concat());
    Ok((rows, text))
}

/// `token_id:504`, as vLLM writes ids in place of texts.
fn named_id(token: &str) -> Option<u32> {
    token.strip_prefix("token_id:")?.parse().ok()
}

fn sglang(answer: &Value) -> Result<Vec<Option<Row>>, String> {
    let meta = &answer["meta_info"];
    let list = meta["input_token_logprobs"].as_array().ok_or("there is no meta_info.input_token_logprobs")?;
    let likeliest = meta["input_top_logprobs"].as_array();
    let pair = |entry: &Value| Some((u32::try_from(entry[1].as_u64()?).ok()?, entry[0].as_f64()?));
    let mut rows = Vec::new();
    for (place, entry) in list.iter().enumerate() {
        let Some(logprob) = entry[0].as_f64() else {
            rows.push(None);
            continue;
        };
        let id = entry[1].as_u64().and_then(|id| u32::try_from(id).ok());
        let top = likeliest.and_then(|all| all.get(place)).and_then(Value::as_array);
        let mut top: Vec<(u32, f64)> = top.into_iter().flatten().filter_map(pair).collect();
        top.sort_by(|a, b| b.1.total_cmp(&a.1));
        rows.push(Some(Row { id, logprob, greedy: top.first().map(|(_, most)| logprob >= *most), top }));
    }
    Ok(rows)
}
