//! OpenAI `/v1/chat/completions`: what a delta or a message carries.

use record::Kind;
use serde::Deserialize;

use super::lenient::{Items, Maybe, Text};

/// A `delta` of a stream or the `message` of a whole answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Delta<'a> {
    #[serde(borrow)]
    content: Text<'a>,
    #[serde(borrow)]
    reasoning: Text<'a>,
    #[serde(borrow)]
    reasoning_content: Text<'a>,
    #[serde(borrow)]
    refusal: Text<'a>,
    #[serde(borrow)]
    tool_calls: Items<Call<'a>>,
    #[serde(borrow)]
    function_call: Maybe<Function<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Call<'a> {
    #[serde(borrow)]
    function: Maybe<Function<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Function<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    arguments: Text<'a>,
}

impl Delta<'_> {
    /// Appends the text, in the order in which a model writes it, and says what kind it is. An event
    /// that ends the thinking and begins the answer counts as answer.
    ///
    /// `reasoning` and `reasoning_content` are two names of one thing; a server that sends both
    /// sends the same text twice.
    pub fn write(&self, out: &mut String) -> Option<Kind> {
        let mut kind = None;
        let mut put = |text: &Text<'_>, of: Kind| {
            if let Some(text) = text.get() {
                out.push_str(text);
                kind = match (kind, of) {
                    (Some(Kind::Answer), _) => Some(Kind::Answer),
                    (_, of) => Some(of),
                };
            }
        };
        let thinking =
            if self.reasoning_content.get().is_some() { &self.reasoning_content } else { &self.reasoning };
        put(thinking, Kind::Reasoning);
        put(&self.content, Kind::Answer);
        put(&self.refusal, Kind::Refusal);
        let calls = self.tool_calls.0.iter().filter_map(|call| call.function.0.as_ref());
        for function in calls.chain(self.function_call.0.as_ref()) {
            put(&function.name, Kind::ToolCall);
            put(&function.arguments, Kind::ToolCall);
        }
        kind
    }

    /// Its text and what that is, where it carries one text only, as it stands in the JSON.
    pub fn only_text(&self) -> Option<(&str, Kind)> {
        if !self.tool_calls.0.is_empty() || self.function_call.0.is_some() {
            return None;
        }
        let texts = [
            (&self.content, Kind::Answer),
            (&self.reasoning, Kind::Reasoning),
            (&self.reasoning_content, Kind::Reasoning),
            (&self.refusal, Kind::Refusal),
        ];
        let mut present = texts.into_iter().filter(|(text, _)| text.get().is_some());
        match (present.next(), present.next()) {
            (Some((text, kind)), None) => text.verbatim().map(|text| (text, kind)),
            _ => None,
        }
    }
}
