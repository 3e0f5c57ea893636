//! Request bodies.

use corpus::{Content, Message};
use serde_json::{Map, Value, json};
use spec::{Api, Dialect, Force, MaxField};

use super::Adaptation;

/// The content of one request, borrowed.
#[derive(Debug, Clone, Copy)]
pub enum PromptRef<'a> {
    /// One text; in chat the message of a user.
    Text(&'a str),
    /// A conversation; in completions the texts of its messages, a blank line between them.
    Messages(&'a [Message]),
}

impl<'a> From<&'a Content> for PromptRef<'a> {
    fn from(content: &'a Content) -> Self {
        match content {
            Content::Text(text) => PromptRef::Text(text),
            Content::Messages(messages) => PromptRef::Messages(messages),
        }
    }
}

/// A request body and what it really asks for, after every merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// JSON.
    pub bytes: Vec<u8>,
    /// What it asks for.
    pub asked: Asked,
}

/// What a request body asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// A stream.
    pub stream: bool,
    /// Token counts (an answer that is no stream always has them).
    pub usage: bool,
    /// At most this many output tokens.
    pub output_tokens: Option<u32>,
    /// Exactly that many, as far as the server obeys.
    pub forced: bool,
}

/// The body of one request.
///
/// Over the fields that this tool writes go those of `api.extra_body`, and over these the fields of
/// `row`, which the data set gives for this very request. Both are merged as a JSON merge patch (RFC 7396): objects are merged field by field,
/// `null` removes a field.
pub fn body(
    api: &Api,
    model: &str,
    prompt: PromptRef<'_>,
    output_tokens: Option<u32>,
    row: Option<&Map<String, Value>>,
    adaptation: &Adaptation,
) -> Body {
    let mut fields = Map::new();
    fields.insert("model".into(), model.into());
    match api.dialect {
        Dialect::Chat => fields.insert("messages".into(), messages(prompt)),
        Dialect::Completions => fields.insert("prompt".into(), text(prompt).into()),
    };
    fields.insert("stream".into(), api.stream.into());
    if api.stream && api.ask_usage && adaptation.usage {
        fields.insert("stream_options".into(), json!({ "include_usage": true }));
    }
    if let Some(n) = output_tokens {
        let field = adaptation.max_field.unwrap_or(api.length.field);
        if field != MaxField::MaxCompletionTokens {
            fields.insert("max_tokens".into(), n.into());
        }
        if field != MaxField::MaxTokens {
            fields.insert("max_completion_tokens".into(), n.into());
        }
        let force = api.length.force;
        if matches!(force, Force::Auto | Force::MinTokens) && adaptation.min_tokens {
            fields.insert("min_tokens".into(), n.into());
        }
        if matches!(force, Force::Auto | Force::IgnoreEos) && adaptation.ignore_eos {
            fields.insert("ignore_eos".into(), true.into());
        }
    }
    let sampling = &api.sampling;
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.into(), value);
        }
    };
    put("temperature", sampling.temperature.map(Value::from));
    put("top_p", sampling.top_p.map(Value::from));
    put("top_k", sampling.top_k.map(Value::from));
    put("seed", sampling.seed.map(Value::from));
    put("stop", (!sampling.stop.is_empty()).then(|| json!(sampling.stop)));
    merge(&mut fields, &api.extra_body);
    if let Some(row) = row {
        merge(&mut fields, row);
    }
    let asked = asked(&fields);
    // Texts, numbers, lists and maps always serialise.
    let bytes = serde_json::to_vec(&fields).unwrap_or_default();
    Body { bytes, asked }
}

fn asked(fields: &Map<String, Value>) -> Asked {
    let number = |name: &str| fields.get(name).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    let truth = |value: Option<&Value>| value.and_then(Value::as_bool) == Some(true);
    let stream = truth(fields.get("stream"));
    let output_tokens = number("max_completion_tokens").or(number("max_tokens"));
    let least = number("min_tokens");
    Asked {
        stream,
        usage: !stream || truth(fields.get("stream_options").and_then(|o| o.get("include_usage"))),
        output_tokens,
        forced: output_tokens.is_some() && (truth(fields.get("ignore_eos")) || least == output_tokens),
    }
}

fn messages(prompt: PromptRef<'_>) -> Value {
    match prompt {
        PromptRef::Text(text) => json!([{ "role": "user", "content": text }]),
        PromptRef::Messages(messages) => messages.iter().map(|message| json!(message)).collect(),
    }
}

fn text(prompt: PromptRef<'_>) -> String {
    match prompt {
        PromptRef::Text(text) => text.to_owned(),
        PromptRef::Messages(messages) => messages.iter().map(Message::text).collect::<Vec<_>>().join("\n\n"),
    }
}

/// RFC 7396.
fn merge(into: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => {
                into.shift_remove(name);
            }
            Value::Object(patch) => {
                let slot = into.entry(name.clone()).or_insert(Value::Null);
                if !slot.is_object() {
                    *slot = Value::Object(Map::new());
                }
                if let Value::Object(inner) = slot {
                    merge(inner, patch);
                }
            }
            value => {
                into.insert(name.clone(), value.clone());
            }
        }
    }
}
