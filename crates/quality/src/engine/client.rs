//! Asks of tasks, in the way that this server was proven to answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::forms::{self, Input, Mode, Row};
use super::{Fault, Server, tokens, walk};
use crate::divergence::{Bos, Window, Windows};
use crate::python;
use crate::task::{Tokenize, encode_pair};
use crate::{Answer, Ask, Generate, Generated, Prompt, Role, Scored};

/// How this server is spoken to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manner {
    /// Model name sent.
    pub model: String,
    /// How log-probabilities are got.
    pub mode: Mode,
    /// `/tokenize` gives ids.
    pub tokenizer: bool,
    /// The server writes token ids in an echo when it is asked to.
    #[serde(default)]
    pub named_ids: bool,
    /// What the tokenizer puts in front of a text by itself.
    pub prefix: Vec<u32>,
    /// What stands for an empty context: BOS, else EOS.
    pub empty: Option<u32>,
    /// Tokens that the server takes, prompt and answer together.
    pub context: Option<u64>,
    /// A last turn of the assistant is a prefill only with fields that say so (vLLM, SGLang).
    #[serde(default)]
    pub prefill_fields: bool,
    /// Most tokens of an answer where a task sets no limit.
    pub max_tokens: u32,
    /// Fields added to every request that generates.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl Tokenize for Client<'_> {
    type Error = Fault;
    fn encode(&self, text: &str) -> Result<Vec<u32>, Fault> {
        Client::encode(self, text)
    }
}

/// A window of lm-evaluation-harness's API models where the server tells no context: 2,048.
const USUAL_CONTEXT: u64 = 2048;

/// Asks one server in its manner.
pub struct Client<'a> {
    server: &'a dyn Server,
    manner: &'a Manner,
}

impl<'a> Client<'a> {
    /// Of this server.
    pub fn new(server: &'a dyn Server, manner: &'a Manner) -> Self {
        Self { server, manner }
    }

    /// Asks. What concerns this question alone is an answer: [`Answer::Failed`].
    ///
    /// # Errors
    /// What would meet the next question too: no connection, a key that is refused, the user's stop.
    pub fn answer(&self, ask: &Ask) -> Result<Answer, Fault> {
        let answered = match ask {
            Ask::Generate(generate) => self.generate(generate).map(Answer::Generated),
            Ask::Score { context, continuation } => self.score(context, continuation).map(Answer::Scored),
            Ask::Rolling { text } => self.rolling(text).map(Answer::Scored),
        };
        match answered {
            Err(fault) if fault.ends_the_run() => Err(fault),
            Err(fault) => Ok(Answer::Failed { reason: fault.to_string() }),
            Ok(answer) => Ok(answer),
        }
    }

    /// Token ids of a text, without special tokens.
    ///
    /// # Errors
    /// The server has no tokenizer, or no answer.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Fault> {
        if !self.manner.tokenizer {
            return Err(Fault::Unusable("the server has no /tokenize".to_owned()));
        }
        tokens::encode(self.server, &self.manner.model, text, false)
    }

    /// The text of token ids.
    ///
    /// # Errors
    /// The server has no tokenizer, or no answer.
    pub fn decode(&self, ids: &[u32]) -> Result<String, Fault> {
        tokens::decode(self.server, &self.manner.model, ids)
    }

    /// What stands for an empty context.
    ///
    /// # Errors
    /// The server tells none.
    pub fn empty_context(&self) -> Result<u32, Fault> {
        self.manner.empty.ok_or_else(|| {
            Fault::Unusable(
                "what stands before a text without context is not known: the server tells neither BOS nor EOS; give it \
                 by --prefix-token ID"
                    .to_owned(),
            )
        })
    }

    /// Rows of the tokens from `from` on, each after all before it, with the `top` likeliest.
    ///
    /// # Errors
    /// No answer, or none that is sound.
    pub fn rows(&self, ids: &[u32], from: usize, top: u32) -> Result<Vec<Row>, Fault> {
        if from == 0 || from > ids.len() {
            return Err(Fault::Unusable("the first token of a prompt has no log-probability".to_owned()));
        }
        if let Some(context) = self.manner.context
            && ids.len() as u64 >= context
        {
            return Err(Fault::Unusable(format!(
                "{} tokens are to be scored, and the server's context is {context}",
                ids.len()
            )));
        }
        if self.manner.mode == Mode::Walk {
            let step = |at: usize| walk::step(self.server, &ids[..at], ids[at], top);
            return (from..ids.len()).map(step).collect();
        }
        let heard = self.heard(Input::Ids(ids), top, Some(ids.len()))?;
        let strange = heard
            .iter()
            .zip(ids)
            .find_map(|(row, sent)| Some((row.as_ref()?.id?, *sent)).filter(|(a, b)| a != b));
        if let Some((got, sent)) = strange {
            return Err(Fault::Unusable(format!("token {sent} was sent and {got} came back")));
        }
        Ok(heard.into_iter().skip(from).flatten().collect())
    }

    fn heard(&self, input: Input<'_>, top: u32, n: Option<usize>) -> Result<Vec<Option<Row>>, Fault> {
        let none = || {
            Fault::Unusable("this server cannot score: it gives no log-probabilities of a prompt".to_owned())
        };
        let named = self.manner.named_ids;
        let (path, body) =
            forms::request(self.manner.mode, &self.manner.model, input, top, named).ok_or_else(none)?;
        let answer = self.server.post(path, &body)?.good()?;
        Ok(forms::hear(self.manner.mode, &answer, n).map_err(Fault::Unusable)?.rows)
    }

    /// The pair is cut as lm-evaluation-harness cuts it, behind the tokens that the tokenizer puts before any text.
    fn score(&self, context: &str, continuation: &str) -> Result<Scored, Fault> {
        if !self.manner.tokenizer {
            return self.score_text(python::rstrip(context), &format!("{context}{continuation}"));
        }
        let empty = if context.is_empty() { self.empty_context()? } else { 0 };
        let (mut ids, scored) = encode_pair(self, empty, context, continuation)?;
        if !context.is_empty() {
            ids.splice(0..0, self.manner.prefix.iter().copied());
        }
        if ids.is_empty() {
            ids.push(self.empty_context()?);
        }
        let from = ids.len();
        ids.extend(scored);
        self.scored(&ids, from)
    }

    fn scored(&self, ids: &[u32], from: usize) -> Result<Scored, Fault> {
        if from >= ids.len() {
            return Err(Fault::Unusable("the continuation adds no token to its context".to_owned()));
        }
        Ok(sum(&self.rows(ids, from, 1)?))
    }

    /// Without a tokenizer, the server's own cutting of both texts tells where the continuation begins.
    fn score_text(&self, context: &str, joined: &str) -> Result<Scored, Fault> {
        if context.is_empty() {
            return Err(Fault::Unusable(
                "an empty context needs token ids, and the server has no /tokenize".to_owned(),
            ));
        }
        let before = self.heard(Input::Text(context), 1, None)?.len();
        let rows = self.heard(Input::Text(joined), 1, None)?;
        let rows: Vec<Row> = rows.into_iter().skip(before).flatten().collect();
        if rows.is_empty() {
            return Err(Fault::Unusable("the continuation adds no token to its context".to_owned()));
        }
        Ok(sum(&rows))
    }

    fn rolling(&self, text: &str) -> Result<Scored, Fault> {
        let ids = self.encode(text)?;
        let lead = match self.manner.prefix.last() {
            Some(bos) => *bos,
            None => self.empty_context()?,
        };
        // A token less than the context for the prefix, and one for the token that the server adds.
        let room = usize::try_from(self.manner.context.unwrap_or(USUAL_CONTEXT)).unwrap_or(usize::MAX);
        let mut all = Vec::new();
        for window in (Windows::Rolling { size: room.saturating_sub(2).max(1) }).over(ids.len()) {
            all.extend(self.window(&ids, window, Lead::of(Bos::FirstWindow, window, lead), 1)?);
        }
        Ok(sum(&all))
    }

    /// The rows of the scored tokens of a window of a text, with a special token at its head.
    ///
    /// # Errors
    /// As [`Client::rows`].
    pub fn window(&self, text: &[u32], window: Window, lead: Lead, top: u32) -> Result<Vec<Row>, Fault> {
        let Some(part) = text.get(window.from..window.to) else {
            return Err(Fault::Unusable("a window goes beyond its text".to_owned()));
        };
        let mut ids = part.to_vec();
        let mut from = window.scored.saturating_sub(window.from);
        match lead {
            Lead::None => {}
            Lead::Before(token) => {
                ids.insert(0, token);
                from += 1;
            }
            Lead::InPlace(token) => ids.iter_mut().take(1).for_each(|first| *first = token),
        }
        self.rows(&ids, from, top)
    }

    /// Text after a prompt.
    ///
    /// # Errors
    /// No answer, or none that holds a text.
    pub fn generate(&self, ask: &Generate) -> Result<Generated, Fault> {
        let mut body = Map::new();
        body.insert("model".into(), json!(self.manner.model));
        let path = match &ask.prompt {
            Prompt::Text(text) => {
                body.insert("prompt".into(), json!(text));
                "/v1/completions"
            }
            Prompt::Chat(messages) => {
                body.insert("messages".into(), json!(messages));
                let prefill = messages.last().is_some_and(|last| last.role == Role::Assistant);
                if prefill && self.manner.prefill_fields {
                    body.insert("add_generation_prompt".into(), json!(false));
                    body.insert("continue_final_message".into(), json!(true));
                }
                "/v1/chat/completions"
            }
        };
        body.insert("max_tokens".into(), json!(ask.max_tokens.unwrap_or(self.manner.max_tokens)));
        body.insert("temperature".into(), json!(ask.temperature));
        if !ask.stop.is_empty() {
            body.insert("stop".into(), json!(ask.stop));
        }
        body.extend(self.manner.extra.clone());
        body.extend(ask.extra.clone());
        let answer = self.server.post(path, &Value::Object(body))?.good()?;
        generated(&answer).map_err(Fault::Unusable)
    }
}

/// A token at the head of a window that is no part of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// None.
    None,
    /// Before the window's first token.
    Before(u32),
    /// In place of it.
    InPlace(u32),
}

impl Lead {
    /// Where `token` stands at this window under a rule. [`Bos::Once`] is a part of the text already.
    #[must_use]
    pub fn of(bos: Bos, window: Window, token: u32) -> Self {
        match bos {
            Bos::Never | Bos::Once => Self::None,
            Bos::ReplacesFirst => Self::InPlace(token),
            Bos::FirstWindow if window.from == 0 && window.scored == 0 => Self::Before(token),
            Bos::FirstWindow => Self::None,
        }
    }
}

fn sum(rows: &[Row]) -> Scored {
    Scored {
        logprob: rows.iter().map(|row| row.logprob).sum(),
        greedy: rows.iter().map(|row| row.greedy).try_fold(true, |all, greedy| Some(all && greedy?)),
        tokens: rows.len() as u64,
    }
}

fn generated(answer: &Value) -> Result<Generated, String> {
    let choice = answer["choices"].get(0).ok_or("there are no choices in the answer")?;
    let message = &choice["message"];
    let reasoning = ["reasoning_content", "reasoning"].iter().find_map(|field| message[*field].as_str());
    let text = match (choice["text"].as_str(), message["content"].as_str()) {
        (Some(text), _) | (None, Some(text)) => text,
        // A model that has not ended its thinking has no content.
        (None, None) if message.is_object() => "",
        (None, None) => return Err("there is neither text nor message in the answer".to_owned()),
    };
    let ids = choice["token_ids"].as_array().into_iter().flatten();
    Ok(Generated {
        text: text.to_owned(),
        reasoning: reasoning.map(str::to_owned),
        finish_reason: choice["finish_reason"].as_str().map(str::to_owned),
        output_tokens: answer["usage"]["completion_tokens"].as_u64(),
        token_ids: ids.filter_map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect(),
    })
}
