//! Optional fields that a server rejected, and what to send instead.

use serde_json::Value;
use spec::{Api, Force, MaxField};

/// What is left out or renamed because the server rejected it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adaptation {
    /// Ask for usage in streams.
    pub usage: bool,
    /// Send `ignore_eos` where the spec forces lengths.
    pub ignore_eos: bool,
    /// Send `min_tokens` where the spec forces lengths.
    pub min_tokens: bool,
    /// The field of the output limit instead of the spec's.
    pub max_field: Option<MaxField>,
}

impl Default for Adaptation {
    fn default() -> Self {
        Self { usage: true, ignore_eos: true, min_tokens: true, max_field: None }
    }
}

impl Adaptation {
    /// Recognises which optional field a rejection is about. `None`: it is about something else, or
    /// that field is already gone, and asking again is of no use.
    ///
    /// Only fields that this tool adds by itself are given up; what the user asked for by name is not.
    pub fn after_rejection(&self, api: &Api, status: u16, body: &[u8]) -> Option<Adaptation> {
        if !matches!(status, 400 | 422) {
            return None;
        }
        let text = words(body);
        let says = |name: &str| mentions(&text, name);
        let mut next = *self;
        if api.stream && api.ask_usage && (says("stream_options") || says("include_usage")) {
            next.usage = false;
        }
        if matches!(api.length.force, Force::Auto) {
            next.ignore_eos &= !says("ignore_eos");
            next.min_tokens &= !says("min_tokens");
        }
        let field = self.max_field.unwrap_or(api.length.field);
        if self.max_field.is_none() && says("max_completion_tokens") && rejects_unknown(&text) {
            // OpenAI names the field to use instead; others only reject the one they do not know.
            next.max_field = Some(match field {
                MaxField::MaxTokens => MaxField::MaxCompletionTokens,
                MaxField::MaxCompletionTokens | MaxField::Both => MaxField::MaxTokens,
            });
        }
        (next != *self).then_some(next)
    }

    /// What was given up, in words for the record.
    pub fn describe(&self) -> Vec<String> {
        let mut out = Vec::new();
        if !self.usage {
            out.push("the server rejects stream_options: tokens are counted on this side".to_owned());
        }
        if !self.ignore_eos {
            out.push("the server rejects ignore_eos: output lengths are natural".to_owned());
        }
        if !self.min_tokens {
            out.push("the server rejects min_tokens".to_owned());
        }
        match self.max_field {
            Some(MaxField::MaxTokens) => {
                out.push("the server rejects max_completion_tokens: max_tokens is sent".to_owned());
            }
            Some(MaxField::MaxCompletionTokens) => {
                out.push("the server rejects max_tokens: max_completion_tokens is sent".to_owned());
            }
            Some(MaxField::Both) | None => {}
        }
        out
    }
}

/// The text of an error without the request that some servers echo in it (`input` of FastAPI).
fn words(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    match serde_json::from_str::<Value>(&text) {
        Ok(mut value) => {
            drop_echo(&mut value);
            value.to_string()
        }
        Err(_) => text.into_owned(),
    }
}

fn drop_echo(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.shift_remove("input");
            fields.values_mut().for_each(drop_echo);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_echo),
        _ => {}
    }
}

/// `name` as a whole word.
fn mentions(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(part)
            && !text[at + name.len()..].chars().next().is_some_and(part)
    })
}

fn rejects_unknown(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["unknown", "unrecognized", "unexpected", "extra", "not permitted", "not supported", "unsupported"]
        .iter()
        .any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api() -> Api {
        Api {
            dialect: spec::Dialect::Chat,
            stream: true,
            model: None,
            path: None,
            headers: Default::default(),
            key: None,
            extra_body: Default::default(),
            sampling: Default::default(),
            length: spec::LengthControl { field: MaxField::MaxTokens, force: Force::Auto },
            ask_usage: true,
            readiness: spec::Readiness {
                check: true,
                path: "/v1/models".into(),
                wait: spec::Span(spec::Nanos::from_secs(1)),
            },
            tls: Default::default(),
        }
    }

    #[test]
    fn recognises_the_rejected_field() {
        let full = Adaptation::default();
        let api = api();
        let after = |status, body: &str| full.after_rejection(&api, status, body.as_bytes());
        // transformers serve 5, word for word.
        assert_eq!(
            after(422, r#"{"detail":"Unexpected fields in the request: {'ignore_eos'}"}"#),
            Some(Adaptation { ignore_eos: false, ..full })
        );
        assert_eq!(
            after(422, r#"{"detail":"Unexpected fields in the request: {'min_tokens', 'ignore_eos'}"}"#),
            Some(Adaptation { ignore_eos: false, min_tokens: false, ..full })
        );
        assert_eq!(
            after(400, r#"{"error":{"message":"Unrecognized request argument supplied: stream_options"}}"#),
            Some(Adaptation { usage: false, ..full })
        );
        assert_eq!(
            after(
                400,
                r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}"#
            ),
            Some(Adaptation { max_field: Some(MaxField::MaxCompletionTokens), ..full })
        );
        // About something else, though the request is echoed.
        assert_eq!(
            after(
                422,
                r#"{"detail":[{"loc":["body","messages"],"msg":"Field required","input":{"ignore_eos":true}}]}"#
            ),
            None
        );
        // vLLM 0.32, word for word.
        assert_eq!(after(400, "max_tokens=1000000 cannot be greater than max_model_len=2048."), None);
        assert_eq!(after(500, "ignore_eos"), None);
        assert_eq!(after(400, "xignore_eos ignore_eosx"), None);
    }

    #[test]
    fn gives_a_field_up_once() {
        let api = api();
        let once = Adaptation::default().after_rejection(&api, 400, b"ignore_eos").unwrap();
        assert_eq!(once.after_rejection(&api, 400, b"ignore_eos"), None);
        assert_eq!(once.describe().len(), 1);
        assert!(Adaptation::default().describe().is_empty());
    }

    #[test]
    fn what_the_user_named_is_not_given_up() {
        let mut api = api();
        api.length.force = Force::IgnoreEos;
        api.ask_usage = false;
        let rejected = Adaptation::default().after_rejection(&api, 400, b"ignore_eos stream_options");
        assert_eq!(rejected, None);
    }

    #[test]
    fn an_unknown_new_field_becomes_the_old_one() {
        let mut api = api();
        api.length.field = MaxField::Both;
        let next =
            Adaptation::default().after_rejection(&api, 422, b"unknown field max_completion_tokens").unwrap();
        assert_eq!(next.max_field, Some(MaxField::MaxTokens));
        let range = b"max_completion_tokens must be at least 1";
        assert_eq!(Adaptation::default().after_rejection(&api, 400, range), None);
    }
}
