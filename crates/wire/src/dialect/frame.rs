//! The JSON of one event, or of a whole answer that is no stream: OpenAI's shape and what real
//! servers make of it.

use std::borrow::Cow;

use record::{Finish, Kind};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::chat::Delta;
use super::lenient::{Count, Items, Length, Maybe, Text};

/// One event, or a whole answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Frame<'a> {
    /// The server's id of the answer.
    #[serde(borrow)]
    pub id: Text<'a>,
    /// `error` where the whole frame is an error.
    #[serde(borrow)]
    pub object: Text<'a>,
    /// What came, for each choice.
    #[serde(borrow)]
    pub choices: Items<Choice<'a>>,
    /// Token counts so far or in all.
    pub usage: Maybe<Usage>,
    /// llama.cpp: its own counts, there without being asked for.
    pub timings: Maybe<Timings>,
    /// An error inside a success.
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
    /// The error's text where the whole frame is an error.
    #[serde(borrow)]
    pub message: Text<'a>,
}

/// One choice of a frame.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Choice<'a> {
    /// Its number, 0 if absent.
    pub index: Count,
    /// Chat, streamed.
    #[serde(borrow)]
    pub delta: Maybe<Delta<'a>>,
    /// Chat, not streamed.
    #[serde(borrow)]
    pub message: Maybe<Delta<'a>>,
    /// Completions, streamed or not.
    #[serde(borrow)]
    pub text: Text<'a>,
    /// Why the model stopped.
    #[serde(borrow)]
    pub finish_reason: Text<'a>,
    /// Log-probabilities in any of their shapes.
    #[serde(borrow)]
    pub logprobs: Maybe<Logprobs<'a>>,
    /// vLLM: ids of the tokens of this event.
    pub token_ids: Length,
}

impl Choice<'_> {
    /// Appends the text of this choice, whichever dialect it is written in, and says its kind.
    pub fn write(&self, out: &mut String) -> Option<Kind> {
        let delta = self.delta.0.as_ref().or(self.message.0.as_ref());
        let chat = delta.and_then(|delta| delta.write(out));
        super::completions::write(self, out).or(chat)
    }

    /// Its text and what that is, where it carries one text, as it stands in the JSON, and nothing else
    /// that counts.
    pub fn only_text(&self) -> Option<(&str, Kind)> {
        if self.finish().is_some() || self.proven_tokens().is_some() {
            return None;
        }
        let chat = self.delta.0.as_ref().or(self.message.0.as_ref());
        match (chat.map(Delta::only_text), super::completions::only_text(self)) {
            (None, text) => text.map(|text| (text, Kind::Answer)),
            (Some(found), None) if self.text.get().is_none() => found,
            _ => None,
        }
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        u16::try_from(self.index.0.unwrap_or(0)).unwrap_or(u16::MAX)
    }

    /// Tokens that the choice itself proves: ids, else log-probabilities.
    pub fn proven_tokens(&self) -> Option<u32> {
        let ids = self.token_ids.0;
        ids.or_else(|| self.logprobs.0.as_ref().and_then(Logprobs::tokens)).filter(|n| *n > 0)
    }

    /// The finish reason; an empty one is none.
    pub fn finish(&self) -> Option<&str> {
        self.finish_reason.get()
    }
}

/// Log-probabilities: `content` and `refusal` lists (chat; llama.cpp also on completions), a
/// `tokens` list (completions), or one bare token (mistral.rs).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Logprobs<'a> {
    content: Length,
    refusal: Length,
    tokens: Length,
    #[serde(borrow)]
    token: Text<'a>,
}

impl Logprobs<'_> {
    fn tokens(&self) -> Option<u32> {
        match (self.content.0, self.refusal.0) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b).or(self.tokens.0).or(self.token.get().map(|_| 1)),
        }
    }
}

/// OpenAI's `usage`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens.
    pub prompt_tokens: Count,
    /// Output tokens.
    pub completion_tokens: Count,
    /// Details of the input.
    pub prompt_tokens_details: Maybe<PromptDetails>,
    /// Details of the output.
    pub completion_tokens_details: Maybe<CompletionDetails>,
    /// SGLang: the detail outside its group.
    pub reasoning_tokens: Count,
}

impl Copy for Maybe<PromptDetails> {}
impl Copy for Maybe<CompletionDetails> {}

/// Details of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct PromptDetails {
    /// From the prefix cache.
    pub cached_tokens: Count,
}

/// Details of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct CompletionDetails {
    /// Thinking.
    pub reasoning_tokens: Count,
}

/// llama.cpp's `timings`, of which only the counts are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Timings {
    /// Input tokens from the cache.
    pub cache_n: Count,
    /// Input tokens computed.
    pub prompt_n: Count,
    /// Output tokens.
    pub predicted_n: Count,
}

/// What a frame tells of token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Input tokens.
    pub input: Option<u32>,
    /// Of these, from the prefix cache.
    pub cached: Option<u32>,
    /// Output tokens.
    pub output: Option<u32>,
    /// Of these, thinking.
    pub reasoning: Option<u32>,
}

impl Counts {
    /// These, and those of `other` where these say nothing.
    pub fn or(self, other: Counts) -> Counts {
        Counts {
            input: self.input.or(other.input),
            cached: self.cached.or(other.cached),
            output: self.output.or(other.output),
            reasoning: self.reasoning.or(other.reasoning),
        }
    }
}

impl Frame<'_> {
    /// Token counts, from `usage`, else from llama.cpp's `timings`.
    pub fn counts(&self) -> Option<Counts> {
        if let Some(u) = self.usage.0 {
            let counts = Counts {
                input: u.prompt_tokens.0,
                cached: u.prompt_tokens_details.0.and_then(|d| d.cached_tokens.0),
                output: u.completion_tokens.0,
                reasoning: u
                    .completion_tokens_details
                    .0
                    .and_then(|d| d.reasoning_tokens.0)
                    .or(u.reasoning_tokens.0),
            };
            if counts.output.is_some() || counts.input.is_some() {
                return Some(counts);
            }
        }
        let t = self.timings.0?;
        let cached = t.cache_n.0;
        Some(Counts {
            input: t.prompt_n.0.map(|n| n.saturating_add(cached.unwrap_or(0))),
            cached,
            output: t.predicted_n.0,
            reasoning: None,
        })
    }

    /// The error that the frame is, in the server's words: an `error`, an object of that name, or a
    /// bare `message` where nothing else came.
    pub fn error(&self) -> Option<String> {
        if let Some(raw) = self.error.map(RawValue::get)
            && !matches!(raw, "false" | "{}" | "[]" | "\"\"")
        {
            return Some(error_words(raw));
        }
        let bare = self.choices.0.is_empty() && self.counts().is_none();
        match self.message.get() {
            Some(words) if bare || self.object.0 == "error" => Some(words.to_owned()),
            None if self.object.0 == "error" => Some("the server gave no message".to_owned()),
            _ => None,
        }
    }
}

/// The words of an error value: its `message`, else the JSON as it came.
pub fn error_words(json: &str) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Inner<'a> {
        #[serde(borrow)]
        message: Text<'a>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    if let Ok(text) = serde_json::from_str::<String>(json) {
        return text;
    }
    match serde_json::from_str::<Maybe<Inner<'_>>>(json) {
        Ok(Maybe(Some(Inner { message, error }))) => match (message.get(), error) {
            (Some(message), _) => message.to_owned(),
            (None, Some(inner)) => error_words(inner.get()),
            (None, None) => json.to_owned(),
        },
        _ => json.to_owned(),
    }
}

/// The finish reasons of all servers in our words.
pub fn finish(word: &str) -> Finish {
    match word {
        "stop" | "eos" | "eos_token" | "stop_sequence" | "end_turn" => Finish::Stop,
        "length" | "max_tokens" => Finish::Length,
        "tool_calls" | "function_call" | "tool_use" => Finish::ToolCalls,
        "content_filter" => Finish::ContentFilter,
        other => Finish::Other(other.chars().take(64).collect()),
    }
}

/// JSON that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// What was wrong, without the text.
    pub reason: String,
    /// The text stops before its end.
    pub cut: bool,
}

/// Reads the JSON of one event and hands it to `use_it`.
///
/// What a strict reader rejects but a server may well send is repaired first: repeated keys (the
/// last counts), text that is no UTF-8 and halves of surrogate pairs (U+FFFD).
pub fn read<R>(json: &[u8], use_it: impl FnOnce(&Frame<'_>) -> R) -> Result<R, Malformed> {
    match parse(json) {
        Ok(frame) => Ok(use_it(&frame)),
        Err(first) => {
            let malformed = Malformed { reason: first.to_string(), cut: first.is_eof() };
            let text = String::from_utf8_lossy(json);
            let text = replace_lone_surrogates(&text);
            let value: serde_json::Value = serde_json::from_str(&text).map_err(|_| malformed.clone())?;
            let again = serde_json::to_vec(&value).map_err(|_| malformed.clone())?;
            parse(&again).map(|frame| use_it(&frame)).map_err(|_| malformed)
        }
    }
}

fn parse(json: &[u8]) -> Result<Frame<'_>, serde_json::Error> {
    // A derived reader would also take a list for an object, field by field.
    if json.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        return Err(serde::de::Error::custom("expected an object"));
    }
    serde_json::from_slice(json)
}

/// Escapes of half a surrogate pair become the replacement character.
fn replace_lone_surrogates(json: &str) -> Cow<'_, str> {
    if !json.contains("\\u") {
        return Cow::Borrowed(json);
    }
    let unit = |at: usize| -> Option<u32> {
        let hex = json.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(hex, 16).ok()
    };
    let mut out = String::with_capacity(json.len());
    let mut at = 0;
    while let Some(found) = json[at..].find('\\') {
        let escape = at + found;
        out.push_str(&json[at..escape]);
        let take = match unit(escape) {
            Some(0xd800..=0xdbff) if matches!(unit(escape + 6), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                out.push_str("\\ufffd");
                at = escape + 6;
                continue;
            }
            Some(_) => 6,
            // Another escape: the backslash and the character after it.
            None => 1 + json[escape + 1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&json[escape..escape + take]);
        at = escape + take;
    }
    out.push_str(&json[at..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        for (from, to) in [
            (r#"a\ud83db"#, r#"a\ufffdb"#),
            (r#"\udc00"#, r#"\ufffd"#),
            (r#"\ud83d\ude00"#, r#"\ud83d\ude00"#),
            (r#"\\ud83d"#, r#"\\ud83d"#),
            (r#"\ud83d\ud83d\ude00"#, r#"\ufffd\ud83d\ude00"#),
            (r#"\u12"#, r#"\u12"#),
            (r#"é\"#, r#"é\"#),
        ] {
            assert_eq!(replace_lone_surrogates(from), to, "{from}");
        }
    }

    #[test]
    fn what_does_not_fit_counts_as_absent() {
        for json in [
            r#"{"choices":null,"usage":null,"timings":3,"error":null}"#,
            r#"{"choices":{"a":1},"usage":[],"id":7}"#,
            r#"{"choices":[null,1,"x"],"usage":{"completion_tokens":-1,"prompt_tokens":"many"}}"#,
            r#"{}"#,
        ] {
            let seen = read(json.as_bytes(), |f| (f.choices.0.len(), f.counts(), f.error()));
            assert_eq!(seen, Ok((0, None, None)), "{json}");
        }
        let odd = r#"{"usage":{"completion_tokens":3.0,"prompt_tokens":4}}"#;
        let counts = read(odd.as_bytes(), |f| f.counts()).unwrap().unwrap();
        assert_eq!((counts.output, counts.input), (Some(3), Some(4)));
    }

    #[test]
    fn repaired_and_not() {
        let text = |json: &[u8]| read(json, |f| f.choices.0[0].text.0.to_string());
        assert_eq!(text(br#"{"choices":[{"text":"a","text":"b"}]}"#), Ok("b".into()));
        assert_eq!(text(b"{\"choices\":[{\"text\":\"\xf0\x9f\"}]}"), Ok("\u{fffd}".into()));
        assert_eq!(text(br#"{"choices":[{"text":"\ud83d"}]}"#), Ok("\u{fffd}".into()));
        assert!(read(b"{\"choices\":[", |_| ()).unwrap_err().cut);
        assert!(!read(b"{oops}", |_| ()).unwrap_err().cut);
        assert!(read(b"[1]", |_| ()).is_err());
        assert!(read(b"3", |_| ()).is_err());
    }

    #[test]
    fn error_words_of_every_shape() {
        for (json, words) in [
            (r#""Unauthorized""#, "Unauthorized"),
            (r#"{"message":"m","code":500}"#, "m"),
            (r#"{"error":{"message":"inner"}}"#, "inner"),
            (r#"{"code":5}"#, r#"{"code":5}"#),
            ("17", "17"),
        ] {
            assert_eq!(error_words(json), words);
        }
    }
}
