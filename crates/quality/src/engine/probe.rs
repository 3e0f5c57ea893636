//! What a server can be asked, proven and never assumed: a server that ignores `echo` answers as politely as one that
//! understands it.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::client::{Client, Manner};
use super::forms::{Heard, Input, Mode, Row, hear, request};
use super::{Fault, Server, tokens, walk};
use crate::{Generate, Prompt};

/// How one question to the server came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Proven.
    Yes,
    /// Refused, or proven wrong.
    No,
    /// It cannot be told.
    Unknown,
}

/// One capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name.
    pub id: &'static str,
    /// Whether the server has it.
    pub state: State,
    /// What was seen.
    pub words: String,
}

/// What was found out about a server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Probed {
    /// How it is spoken to from now on.
    pub manner: Manner,
    /// Each capability, in the order in which it was looked for.
    pub findings: Vec<Finding>,
}

impl Probed {
    /// A finding by its name.
    #[must_use]
    pub fn state(&self, id: &str) -> State {
        self.findings.iter().find(|finding| finding.id == id).map_or(State::Unknown, |finding| finding.state)
    }

    /// Why this server cannot score, with what can be done about it; `None`: it can.
    #[must_use]
    pub fn cannot_score(&self) -> Option<String> {
        if self.manner.mode != Mode::GenerateOnly {
            return None;
        }
        let seen = |id: &str| self.findings.iter().find(|f| f.id == id).map_or("", |f| f.words.as_str());
        Some(format!(
            "it gives no log-probabilities of a prompt (prompt_logprobs: {}; echo: {}; SGLang: {}; walk: {}). Scores of \
             it would be those of guessing\nhint: tasks that read what the server writes work; for the others serve the \
             model by vLLM, SGLang or llama-server, or ask the engine itself and not a gateway before it",
            seen("prompt_logprobs"),
            seen("echo"),
            seen("sglang_generate"),
            seen("walk")
        ))
    }
}

/// What the pair of continuations stands behind; the second is absurd.
const CONTEXT: &str = "The capital of France is";
const CONTINUATIONS: [&str; 2] = [" Paris", " seventeen"];
/// What is asked twice for the sake of determinism, answered greedily.
const PROMPTS: [&str; 3] = ["The capital of France is", "Two and two make", "Once upon a time"];
const ANSWER: u32 = 16;
/// Values of one text that differ by more than this are not of one model: caches and batches move them by less.
const NOISE: f64 = 0.05;

/// Looks for every capability. `extra`: fields of every request that generates; `prefix_token`: what the user says that
/// stands before a text without context.
///
/// # Errors
/// What would meet the next question too: no connection, a key that is refused, the user's stop.
pub fn probe(
    server: &dyn Server,
    model: &str,
    context: Option<u64>,
    extra: &Map<String, Value>,
    prefix_token: Option<u32>,
    max_tokens: u32,
) -> Result<Probed, Fault> {
    let manner = Manner {
        model: model.to_owned(),
        mode: Mode::GenerateOnly,
        tokenizer: false,
        named_ids: false,
        prefix: Vec::new(),
        empty: prefix_token,
        context,
        prefill_fields: false,
        max_tokens,
        extra: extra.clone(),
    };
    let mut prober = Prober { server, manner, findings: Vec::new() };
    prober.context()?;
    prober.tokenizer()?;
    prober.template()?;
    prober.modes()?;
    prober.generation()?;
    Ok(Probed { manner: prober.manner, findings: prober.findings })
}

struct Prober<'a> {
    server: &'a dyn Server,
    manner: Manner,
    findings: Vec<Finding>,
}

/// A fault of this question alone is a finding.
fn found<T>(answer: Result<T, Fault>) -> Result<Result<T, String>, Fault> {
    match answer {
        Err(fault) if fault.ends_the_run() => Err(fault),
        Err(fault) => Ok(Err(fault.to_string())),
        Ok(value) => Ok(Ok(value)),
    }
}

impl Prober<'_> {
    fn note(&mut self, id: &'static str, state: State, words: impl Into<String>) {
        self.findings.push(Finding { id, state, words: words.into() });
    }

    fn noted<T>(&mut self, id: &'static str, outcome: Result<(T, String), String>) -> Option<T> {
        match outcome {
            Ok((value, words)) => {
                self.note(id, State::Yes, words);
                Some(value)
            }
            Err(words) => {
                self.note(id, State::No, words);
                None
            }
        }
    }

    /// llama-server tells its context and its special tokens on a page of its own.
    fn context(&mut self) -> Result<(), Fault> {
        let props = found(self.server.get("/props").and_then(super::Reply::good))?.unwrap_or(Value::Null);
        let of_props = props["default_generation_settings"]["n_ctx"].as_u64();
        self.manner.context = self.manner.context.or(of_props);
        match self.manner.context {
            Some(n) => self.note("context", State::Yes, format!("{n} tokens, prompt and answer together")),
            None => self.note("context", State::Unknown, "the server does not tell its context"),
        }
        if self.manner.empty.is_none() {
            // The text of a special token is cut into that token alone.
            for field in ["bos_token", "eos_token"] {
                let Some(text) = props[field].as_str().filter(|text| !text.is_empty()) else { continue };
                let ids = found(tokens::encode(self.server, &self.manner.model, text, false))?;
                if let Ok(&[id]) = ids.as_deref() {
                    self.manner.empty = Some(id);
                    break;
                }
            }
        }
        Ok(())
    }

    fn tokenizer(&mut self) -> Result<(), Fault> {
        let ids = found(tokens::encode(self.server, &self.manner.model, CONTEXT, false))?;
        let words = |ids: &Vec<u32>| format!("`{CONTEXT}` is {} tokens", ids.len());
        let ids = self.noted("tokenize", ids.map(|ids| (ids.clone(), words(&ids))));
        self.manner.tokenizer = ids.is_some();
        let Some(ids) = ids else {
            self.note("detokenize", State::Unknown, "there are no token ids to ask about");
            return Ok(());
        };
        let text = found(tokens::decode(self.server, &self.manner.model, &ids))?;
        let outcome = text.and_then(|text| match text.trim_start() == CONTEXT {
            true => Ok(((), "gives the text back".to_owned())),
            false => Err(format!("gives `{text}` for the tokens of `{CONTEXT}`")),
        });
        self.noted("detokenize", outcome);
        match found(tokens::prefix(self.server, &self.manner.model))? {
            Ok((prefix, behind)) => {
                let tail = if behind { ", and adds tokens behind it, which are left out" } else { "" };
                let words = match prefix.as_slice() {
                    [] => format!("the tokenizer puts nothing before a text{tail}"),
                    ids => {
                        format!("the tokenizer puts {ids:?} before a text{tail}; scored texts begin with it")
                    }
                };
                if let Some(first) = prefix.first() {
                    self.manner.empty = self.manner.empty.or(Some(*first));
                }
                self.manner.prefix = prefix;
                self.note("bos", State::Yes, words);
            }
            Err(words) => self.note("bos", State::Unknown, words),
        }
        Ok(())
    }

    fn template(&mut self) -> Result<(), Fault> {
        let messages = json!([{ "role": "user", "content": CONTEXT }]);
        let applied = self.server.post("/apply-template", &json!({ "messages": messages }));
        let applied = found(applied.and_then(super::Reply::good))?;
        if let Ok(Some(text)) = applied.as_ref().map(|page| page["prompt"].as_str()) {
            let longer = text.contains(CONTEXT) && text.len() > CONTEXT.len();
            let state = if longer { State::Yes } else { State::No };
            self.note(
                "template",
                state,
                format!("/apply-template gives {} characters", text.chars().count()),
            );
            return Ok(());
        }
        let body = json!({ "model": self.manner.model, "messages": messages, "add_generation_prompt": true });
        let counted = found(self.server.post("/tokenize", &body).and_then(super::Reply::good))?;
        match counted.as_ref().map(|page| page["tokens"].as_array().map(Vec::len)) {
            Ok(Some(n)) if n > 0 => {
                self.manner.prefill_fields = true;
                self.note("template", State::Yes, format!("/tokenize makes {n} tokens of a turn"));
            }
            _ => self.note("template", State::Unknown, "the server does not tell what it makes of turns"),
        }
        Ok(())
    }

    /// The best mode that holds; the others are looked for all the same, as a record.
    fn modes(&mut self) -> Result<(), Fault> {
        let mut holds = Vec::new();
        for (id, mode) in [
            ("prompt_logprobs", Mode::PromptLogprobs),
            ("echo", Mode::Echo),
            ("sglang_generate", Mode::Sglang),
        ] {
            let outcome = self.whole(mode)?;
            if let Some(named) = self.noted(id, outcome) {
                holds.push((mode, named));
            }
        }
        let outcome = self.walk()?;
        if self.noted("walk", outcome).is_some() {
            holds.push((Mode::Walk, false));
        }
        if let Some((mode, named)) = holds.first() {
            self.manner.mode = *mode;
            self.manner.named_ids = *named;
        }
        self.steady()
    }

    /// The same text scored twice: caches and batches move values a little, another model behind one address much.
    fn steady(&mut self) -> Result<(), Fault> {
        let text = format!("{CONTEXT}{}", CONTINUATIONS[0]);
        if self.manner.mode == Mode::GenerateOnly || !self.manner.tokenizer {
            self.note("same_scores", State::Unknown, "there is nothing to score twice");
            return Ok(());
        }
        let client = Client::new(self.server, &self.manner);
        let once = || client.encode(&text).and_then(|ids| client.rows(&ids, 1, 1));
        let pair = match (found(once())?, found(once())?) {
            (Ok(first), Ok(second)) => Ok((first, second)),
            (Err(words), _) | (_, Err(words)) => Err(words),
        };
        match pair {
            Ok((first, second)) => {
                let differ = first.iter().zip(&second).map(|(a, b)| (a.logprob - b.logprob).abs());
                let most = differ.fold(0.0, f64::max);
                let state = if most <= NOISE { State::Yes } else { State::No };
                self.note("same_scores", state, format!("scored twice, values differ by {most:.6} at most"));
            }
            Err(words) => self.note("same_scores", State::No, words),
        }
        Ok(())
    }

    /// Whether the answers to two continuations prove that prompts are scored.
    fn whole(&self, mode: Mode) -> Result<Result<(bool, String), String>, Fault> {
        let first = match found(self.pair(mode, true))? {
            // A field that is not known is refused by some; the rest may hold without it.
            Err(_) if mode == Mode::Echo => match found(self.pair(mode, false))? {
                Err(words) => return Ok(Err(words)),
                Ok(pair) => pair,
            },
            Err(words) => return Ok(Err(words)),
            Ok(pair) => pair,
        };
        let named = first.iter().all(|heard| heard.rows.iter().flatten().all(|row| row.id.is_some()));
        let last = |heard: &Heard| heard.rows.last().cloned().flatten();
        let rows: Vec<Row> = first.iter().filter_map(last).collect();
        Ok(differ(&rows).map(|words| {
            let ids = if named { "" } else { "; it names no token ids" };
            (named && mode == Mode::Echo, format!("{words}{ids}"))
        }))
    }

    fn pair(&self, mode: Mode, named: bool) -> Result<Vec<Heard>, Fault> {
        let one = |continuation: &&str| {
            let text = format!("{CONTEXT}{continuation}");
            let ids = match self.manner.tokenizer {
                true => Some(tokens::encode(self.server, &self.manner.model, &text, false)?),
                false => None,
            };
            let input = ids.as_deref().map_or(Input::Text(&text), Input::Ids);
            let Some((path, body)) = request(mode, &self.manner.model, input, 1, named) else {
                return Err(Fault::Unusable("not a mode for whole prompts".to_owned()));
            };
            let answer = self.server.post(path, &body)?.good()?;
            let heard = hear(mode, &answer, ids.as_ref().map(Vec::len)).map_err(Fault::Unusable)?;
            echoed(&heard, ids.as_deref(), &text).map_err(Fault::Unusable)?;
            Ok(heard)
        };
        CONTINUATIONS.iter().map(one).collect()
    }

    fn walk(&self) -> Result<Result<((), String), String>, Fault> {
        if !self.manner.tokenizer {
            return Ok(Err("needs /tokenize".to_owned()));
        }
        let [one, other] = CONTINUATIONS.map(|continuation| {
            found(tokens::encode(self.server, &self.manner.model, &format!("{CONTEXT}{continuation}"), false))
        });
        let (one, other) = match (one?, other?) {
            (Ok(one), Ok(other)) => (one, other),
            (Err(words), _) | (_, Err(words)) => return Ok(Err(words)),
        };
        // The first token that they do not share.
        let at = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
        let step = |ids: &Vec<u32>| match ids.get(at) {
            Some(target) => walk::step(self.server, &ids[..at], *target, 1),
            None => Err(Fault::Unusable("two different continuations have the same tokens".to_owned())),
        };
        let rows = found([one, other].iter().map(step).collect::<Result<Vec<Row>, Fault>>())?;
        Ok(rows.and_then(|rows| differ(&rows)).map(|words| ((), words)))
    }

    fn generation(&mut self) -> Result<(), Fault> {
        let manner = self.manner.clone();
        let client = Client::new(self.server, &manner);
        let write = |prompt: Prompt, temperature: f64, seed: Option<u64>| {
            let mut extra = Map::new();
            if let Some(seed) = seed {
                extra.insert("seed".to_owned(), json!(seed));
            }
            let ask = Generate { temperature, extra, ..Generate::greedy(prompt, ANSWER) };
            found(client.generate(&ask))
        };
        let turn = |text: &str| Prompt::of_user(text.to_owned());
        let text = |text: &str| Prompt::Text(text.to_owned());
        let chat = write(turn(PROMPTS[0]), 0.0, None)?;
        let plain = write(text(PROMPTS[0]), 0.0, None)?;
        let works = plain.is_ok();
        let words = |path: &str, made: &crate::Generated| {
            let reason = made.finish_reason.as_deref().unwrap_or("no reason");
            format!("{path} writes and ends by `{reason}`")
        };
        let chats = self.noted("chat", chat.map(|made| ((), words("/v1/chat/completions", &made)))).is_some();
        self.noted("completions", plain.map(|made| ((), words("/v1/completions", &made))));
        if !works && !chats {
            self.note("determinism", State::Unknown, "the server writes nothing");
            return Ok(());
        }
        let prompt = |words: &str| if works { text(words) } else { turn(words) };
        let (mut alike, mut asked) = (0, 0);
        for words in PROMPTS {
            let twice = [write(prompt(words), 0.0, None)?, write(prompt(words), 0.0, None)?];
            if let [Ok(a), Ok(b)] = twice {
                asked += 1;
                alike += u32::from(a.text == b.text);
            }
        }
        let state = match (alike, asked) {
            (_, 0) => State::Unknown,
            (alike, asked) if alike == asked => State::Yes,
            _ => State::No,
        };
        self.note("determinism", state, format!("{alike} of {asked} greedy answers came out the same twice"));
        let seeded = [7, 7, 8].map(|seed| write(prompt(PROMPTS[2]), 1.0, Some(seed)));
        let [a, b, other] = seeded;
        let (state, words) = match (a?, b?, other?) {
            (Ok(a), Ok(b), Ok(other)) if a.text == b.text && a.text != other.text => {
                (State::Yes, "one seed gives one answer, another seed another".to_owned())
            }
            (Ok(a), Ok(b), Ok(_)) if a.text == b.text => {
                (State::Unknown, "two seeds give the same answer at temperature 1".to_owned())
            }
            (Ok(_), Ok(_), Ok(_)) => (State::No, "one seed gives two answers".to_owned()),
            (Err(words), ..) | (_, Err(words), _) | (.., Err(words)) => (State::No, words),
        };
        self.note("seeds", state, words);
        Ok(())
    }
}

/// What came back is what was sent.
fn echoed(heard: &Heard, ids: Option<&[u32]>, text: &str) -> Result<(), String> {
    if let Some(ids) = ids {
        for (place, (row, sent)) in heard.rows.iter().zip(ids).enumerate() {
            if let Some(got) = row.as_ref().and_then(|row| row.id)
                && got != *sent
            {
                return Err(format!("token {place} was sent as {sent} and came back as {got}"));
            }
        }
    }
    match &heard.text {
        Some(back) if !back.contains(text) => {
            Err(format!("the prompt does not come back: `{}`", back.chars().take(60).collect::<String>()))
        }
        _ => Ok(()),
    }
}

/// A model thinks differently of the two continuations.
fn differ(rows: &[Row]) -> Result<String, String> {
    let [a, b] = rows else { return Err("no log-probability for the last token".to_owned()) };
    if (a.logprob - b.logprob).abs() < 1e-6 {
        return Err(format!("two different continuations have the same log-probability, {}", a.logprob));
    }
    Ok(format!("` Paris` {:.3}, ` seventeen` {:.3}", a.logprob, b.logprob))
}
