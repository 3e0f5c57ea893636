//! A language model of bytes behind HTTP, fast and the same each time, that scores in the way a test wants, or lies.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

/// How the server gives log-probabilities of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scores {
    /// As vLLM does.
    PromptLogprobs,
    /// As OpenAI's older form has it.
    Echo,
    /// An echo without any value: every choice would score 0.
    EmptyEcho,
    /// `echo` is ignored: the values are those of the generated token.
    IgnoredEcho,
    /// An echo in which every value is 0.
    ZeroEcho,
    /// As SGLang does.
    Sglang,
    /// As llama-server does: only what it writes.
    Walk,
    /// Not at all.
    Nothing,
}

/// The model.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    pub scores: Scores,
    /// Added to the seed of its likings, in so many of 100 contexts: 0 is the model itself.
    pub damage: u64,
    /// Damaged only while more requests than this are in flight.
    pub crowd: u64,
    /// Before every answer.
    pub delay: Duration,
    pub tokenizer: bool,
}

const BOS: u32 = 256;
const CONTEXT: u64 = 2048;

impl Model {
    pub fn new(scores: Scores) -> Self {
        Self { scores, damage: 0, crowd: 0, delay: Duration::ZERO, tokenizer: true }
    }

    /// Log-probabilities of all bytes after the last two tokens.
    pub fn row(&self, before: &[u32]) -> Vec<f64> {
        let mut state = before
            .iter()
            .rev()
            .take(2)
            .fold(0x9e37_79b9_7f4a_7c15_u64, |state, token| mix(state ^ u64::from(*token)));
        if mix(state) % 100 < self.damage {
            state = mix(state ^ 1);
        }
        let logits: Vec<f64> = (0..256_u64)
            .map(|byte| {
                // Letters and spaces are likelier, so that it writes something that can be read.
                let liked = if byte == 32 || (97..123).contains(&byte) { 4.0 } else { 0.0 };
                liked + (mix(state ^ (byte << 20)) % 1_000) as f64 / 200.0
            })
            .collect();
        let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
        logits.iter().map(|logit| logit - sum.ln()).collect()
    }

    fn logprob(&self, before: &[u32], token: u32) -> f64 {
        self.row(before).get(token as usize).copied().unwrap_or(-20.0)
    }

    fn top(&self, before: &[u32], k: usize) -> Vec<(u32, f64)> {
        let mut all: Vec<(u32, f64)> = (0..).zip(self.row(before)).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(k);
        all
    }

    pub fn write(&self, prompt: &[u32], n: u64, temperature: f64, seed: u64) -> Vec<u32> {
        let mut ids = prompt.to_vec();
        for place in 0..n {
            let place = if temperature > 0.0 { mix(seed ^ place) as usize % 3 } else { 0 };
            let next = self.top(&ids, 3)[place].0;
            ids.push(next);
        }
        ids.split_off(prompt.len())
    }

    fn answer(&self, path: &str, body: &Value) -> (u16, Value) {
        let none = (404, json!({ "error": "not found" }));
        match path {
            "/v1/models" => {
                (200, json!({ "data": [{ "id": "bytes", "owned_by": "test", "max_model_len": CONTEXT }] }))
            }
            "/tokenize" if self.tokenizer && body["prompt"].is_string() => {
                (200, json!({ "tokens": ids(&body["prompt"]) }))
            }
            // As vLLM tells it to lm-evaluation-harness.
            "/tokenizer_info" if self.tokenizer => {
                (200, json!({ "bos_token": "\u{1}", "eos_token": "\u{1}", "chat_template": null }))
            }
            "/detokenize" if self.tokenizer => (200, json!({ "prompt": text(&ids(&body["tokens"])) })),
            "/v1/completions" => (200, self.completion(body)),
            "/v1/chat/completions" => {
                let prompt = ids(&json!(body["messages"].to_string()));
                let (made, n) = self.made(&prompt, body);
                let message = json!({ "role": "assistant", "content": text(&made) });
                (
                    200,
                    json!({ "choices": [{ "message": message, "finish_reason": "length" }], "usage": usage(prompt.len(), n) }),
                )
            }
            "/generate" if self.scores == Scores::Sglang => (200, self.sglang(body)),
            "/completion" if self.scores == Scores::Walk => (200, self.step(body)),
            _ => none,
        }
    }

    fn made(&self, prompt: &[u32], body: &Value) -> (Vec<u32>, u64) {
        let n = body["max_tokens"].as_u64().unwrap_or(16);
        let (temperature, seed) =
            (body["temperature"].as_f64().unwrap_or(1.0), body["seed"].as_u64().unwrap_or(0));
        (self.write(prompt, n, temperature, seed), n)
    }

    fn completion(&self, body: &Value) -> Value {
        let prompt = ids(&body["prompt"]);
        let (made, n) = self.made(&prompt, body);
        let mut choice = json!({ "index": 0, "text": text(&made), "finish_reason": "length" });
        let k = body["prompt_logprobs"].as_u64();
        if let (Scores::PromptLogprobs, Some(k)) = (self.scores, k) {
            let rows = (0..prompt.len()).map(|at| match at {
                0 => Value::Null,
                at => self.of_vllm(&prompt[..at], prompt[at], k as usize),
            });
            choice["prompt_logprobs"] = rows.collect();
        }
        if body["echo"] == true {
            choice["logprobs"] = self.echo(&prompt, &made, body);
        }
        json!({ "choices": [choice], "usage": usage(prompt.len(), n) })
    }

    fn of_vllm(&self, before: &[u32], token: u32, k: usize) -> Value {
        let all = self.top(before, 256);
        let rank = 1 + all.iter().position(|(id, _)| *id == token).unwrap_or(255);
        let mut entry = Map::new();
        entry.insert(token.to_string(), json!({ "logprob": self.logprob(before, token), "rank": rank }));
        for (place, (id, logprob)) in all.iter().take(k).enumerate() {
            entry.entry(id.to_string()).or_insert_with(|| json!({ "logprob": logprob, "rank": place + 1 }));
        }
        Value::Object(entry)
    }

    fn echo(&self, prompt: &[u32], made: &[u32], body: &Value) -> Value {
        let all: Vec<u32> = prompt.iter().chain(made).copied().collect();
        let named = body["return_tokens_as_token_ids"] == true;
        let name = |id: u32| if named { format!("token_id:{id}") } else { text(&[id]) };
        let from = match self.scores {
            Scores::Echo | Scores::ZeroEcho => 0,
            Scores::IgnoredEcho => prompt.len(),
            _ => return json!({ "tokens": [], "token_logprobs": [], "top_logprobs": [] }),
        };
        let k = body["logprobs"].as_u64().unwrap_or(1) as usize;
        let (mut tokens, mut values, mut tops) = (Vec::new(), Vec::new(), Vec::new());
        for (at, id) in all.iter().enumerate().skip(from) {
            tokens.push(name(*id));
            let logprob = if self.scores == Scores::ZeroEcho { 0.0 } else { self.logprob(&all[..at], *id) };
            values.push(if at == 0 { Value::Null } else { json!(logprob) });
            let mut top: Map<String, Value> =
                self.top(&all[..at], k).into_iter().map(|(id, value)| (name(id), json!(value))).collect();
            top.insert(name(*id), json!(logprob));
            tops.push(if at == 0 { Value::Null } else { Value::Object(top) });
        }
        json!({ "tokens": tokens, "token_logprobs": values, "top_logprobs": tops })
    }

    fn sglang(&self, body: &Value) -> Value {
        let prompt = ids(if body["input_ids"].is_array() { &body["input_ids"] } else { &body["text"] });
        let k = body["top_logprobs_num"].as_u64().unwrap_or(0) as usize;
        let entry = |(id, logprob): (u32, f64)| json!([logprob, id, null]);
        let input: Vec<Value> = (0..prompt.len())
            .map(|at| match at {
                0 => json!([null, prompt[0], null]),
                at => entry((prompt[at], self.logprob(&prompt[..at], prompt[at]))),
            })
            .collect();
        let tops: Vec<Value> = (0..prompt.len())
            .map(|at| match at {
                0 => Value::Null,
                at => self.top(&prompt[..at], k).into_iter().map(entry).collect(),
            })
            .collect();
        json!({ "text": "x", "meta_info": { "prompt_tokens": prompt.len(), "input_token_logprobs": input, "input_top_logprobs": tops } })
    }

    fn step(&self, body: &Value) -> Value {
        let before = ids(&body["prompt"]);
        let target = body["logit_bias"][0][0].as_u64().and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
        let entry = |id: u32, logprob: f64| json!({ "id": id, "token": text(&[id]), "logprob": logprob });
        let mut told = entry(target, self.logprob(&before, target));
        let k = body["n_probs"].as_u64().unwrap_or(0) as usize;
        told["top_logprobs"] = self.top(&before, k).into_iter().map(|(id, value)| entry(id, value)).collect();
        json!({ "content": text(&[target]), "completion_probabilities": [told] })
    }
}

fn usage(prompt: usize, made: u64) -> Value {
    json!({ "prompt_tokens": prompt, "completion_tokens": made })
}

fn ids(value: &Value) -> Vec<u32> {
    match value {
        Value::String(text) => text.bytes().map(u32::from).collect(),
        Value::Array(all) if all.first().is_some_and(Value::is_array) => ids(&all[0]),
        Value::Array(all) => all.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect(),
        _ => vec![BOS],
    }
}

fn text(ids: &[u32]) -> String {
    let bytes: Vec<u8> = ids.iter().filter_map(|id| u8::try_from(*id).ok()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// SplitMix64's mixing.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The model, served until it is dropped.
pub struct Served {
    pub url: String,
    address: SocketAddr,
    pub requests: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Served {
    pub fn start(model: Model) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address");
        let (requests, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let in_flight = Arc::<AtomicU64>::default();
        let (count, stopped) = (requests.clone(), stop.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (count, in_flight) = (count.clone(), in_flight.clone());
                std::thread::spawn(move || serve(stream, model, &count, &in_flight));
            }
        });
        Self { url: format!("http://{address}"), address, requests, stop }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// One request on one connection.
fn serve(mut stream: TcpStream, model: Model, count: &AtomicU64, in_flight: &AtomicU64) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut read = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        if let Some(end) = read.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).into_owned();
            let length = head.to_ascii_lowercase();
            let length =
                length.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            let whole = end + 4 + length.unwrap_or(0);
            if read.len() >= whole {
                let path = head.split_whitespace().nth(1).unwrap_or_default();
                let body = serde_json::from_slice(&read[end + 4..whole]).unwrap_or(Value::Null);
                in_flight.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(model.delay);
                count.fetch_add(1, Ordering::SeqCst);
                let is_full = in_flight.load(Ordering::SeqCst) > model.crowd;
                let (status, answer) =
                    Model { damage: if is_full { model.damage } else { 0 }, ..model }.answer(path, &body);
                in_flight.fetch_sub(1, Ordering::SeqCst);
                let answer = answer.to_string();
                let head =
                    format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close");
                let head = format!("{head}\r\ncontent-length: {}\r\n\r\n", answer.len());
                return stream.write_all((head + &answer).as_bytes()).ok();
            }
        }
        let n = stream.read(&mut buffer).ok().filter(|n| *n > 0)?;
        read.extend_from_slice(&buffer[..n]);
    }
}
