//! Request bodies: what is sent, and what it asks for.
#![allow(clippy::unwrap_used)]

use corpus::{Content, Message};
use serde_json::{Map, Value, json};
use spec::{Api, Dialect, Force, LengthControl, MaxField, Nanos, Readiness, Sampling, Span, Tls};
use wire::dialect::{Adaptation, Asked, PromptRef, body};

fn api(dialect: Dialect) -> Api {
    Api {
        dialect,
        stream: true,
        model: None,
        path: None,
        headers: Default::default(),
        key: None,
        extra_body: Map::new(),
        sampling: Sampling::default(),
        length: LengthControl { field: MaxField::MaxTokens, force: Force::Auto },
        ask_usage: true,
        readiness: Readiness { check: true, path: "/v1/models".into(), wait: Span(Nanos::from_secs(1)) },
        tls: Tls::default(),
    }
}
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other}"),
    }
}
fn sent(api: &Api, osl: Option<u32>, adaptation: &Adaptation) -> (Value, Asked) {
    let body = body(api, "m", PromptRef::Text("Hi"), osl, None, adaptation);
    (serde_json::from_slice(&body.bytes).unwrap(), body.asked)
}

#[test]
fn all_that_is_needed_for_an_exact_length() {
    let full = Adaptation::default();
    let (chat, asked) = sent(&api(Dialect::Chat), Some(64), &full);
    assert_eq!(
        chat,
        json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }], "stream": true,
            "stream_options": { "include_usage": true }, "max_tokens": 64, "min_tokens": 64, "ignore_eos": true })
    );
    assert_eq!(asked, Asked { stream: true, usage: true, output_tokens: Some(64), forced: true });
    let (completions, _) = sent(&api(Dialect::Completions), Some(64), &full);
    assert_eq!(completions["prompt"], "Hi");
    assert_eq!(completions.get("messages"), None);
}

#[test]
fn a_natural_length_asks_for_nothing() {
    let (sent, asked) = sent(&api(Dialect::Chat), None, &Adaptation::default());
    for field in ["max_tokens", "max_completion_tokens", "min_tokens", "ignore_eos", "temperature"] {
        assert_eq!(sent.get(field), None, "{field}");
    }
    assert_eq!((asked.output_tokens, asked.forced), (None, false));
}

#[test]
fn length_fields_and_forces() {
    for (field, old, new) in [
        (MaxField::MaxTokens, true, false),
        (MaxField::MaxCompletionTokens, false, true),
        (MaxField::Both, true, true),
    ] {
        let mut api = api(Dialect::Chat);
        api.length.field = field;
        let (sent, asked) = sent(&api, Some(5), &Adaptation::default());
        assert_eq!(sent.get("max_tokens").is_some(), old);
        assert_eq!(sent.get("max_completion_tokens").is_some(), new);
        assert_eq!(asked.output_tokens, Some(5));
    }
    for (force, eos, least) in [
        (Force::Auto, true, true),
        (Force::IgnoreEos, true, false),
        (Force::MinTokens, false, true),
        (Force::None, false, false),
    ] {
        let mut api = api(Dialect::Chat);
        api.length.force = force;
        let (sent, asked) = sent(&api, Some(5), &Adaptation::default());
        assert_eq!(sent.get("ignore_eos").is_some(), eos);
        assert_eq!(sent.get("min_tokens").is_some(), least);
        assert_eq!(asked.forced, eos || least);
    }
}

#[test]
fn what_the_server_rejected_is_left_out() {
    let gone = Adaptation {
        usage: false,
        ignore_eos: false,
        min_tokens: false,
        max_field: Some(MaxField::MaxCompletionTokens),
    };
    let (sent, asked) = sent(&api(Dialect::Chat), Some(5), &gone);
    assert_eq!(
        sent,
        json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }], "stream": true,
            "max_completion_tokens": 5 })
    );
    assert_eq!(asked, Asked { stream: true, usage: false, output_tokens: Some(5), forced: false });
    assert_eq!(gone.describe().len(), 4);
}

#[test]
fn the_users_fields_win_and_the_rows_win_over_them() {
    let mut api = api(Dialect::Chat);
    api.sampling = Sampling {
        temperature: Some(0.5),
        top_p: Some(0.9),
        top_k: Some(3),
        seed: Some(-1),
        stop: vec!["x".into()],
    };
    api.extra_body = object(json!({ "temperature": 1, "stream_options": { "continuous_usage_stats": true },
        "min_tokens": null, "chat_template_kwargs": { "enable_thinking": false } }));
    let row = object(json!({ "temperature": 2, "tools": [] }));
    let body = body(&api, "m", PromptRef::Text("Hi"), Some(5), Some(&row), &Adaptation::default());
    let sent: Value = serde_json::from_slice(&body.bytes).unwrap();
    assert_eq!(
        sent,
        json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }], "stream": true,
            "stream_options": { "include_usage": true, "continuous_usage_stats": true }, "max_tokens": 5,
            "ignore_eos": true, "temperature": 2, "top_p": 0.9, "top_k": 3, "seed": -1, "stop": ["x"],
            "chat_template_kwargs": { "enable_thinking": false }, "tools": [] })
    );
    // A stream switched off in the fields is not expected.
    api.extra_body = object(json!({ "stream": false, "stream_options": null }));
    let (_, asked) = self::sent(&api, None, &Adaptation::default());
    assert_eq!((asked.stream, asked.usage), (false, true));
}

#[test]
fn conversations_go_out_as_they_are() {
    let message = |value: Value| serde_json::from_value::<Message>(value).unwrap();
    let given = json!([{ "role": "system", "content": "Be brief." },
        { "role": "user", "content": [{ "type": "text", "text": "Hi" }], "name": "x" }]);
    let content = Content::Messages(given.as_array().unwrap().iter().cloned().map(message).collect());
    let json = |dialect| -> Value {
        let made = body(&api(dialect), "m", PromptRef::from(&content), None, None, &Adaptation::default());
        serde_json::from_slice(&made.bytes).unwrap()
    };
    assert_eq!(json(Dialect::Chat)["messages"], given);
    assert_eq!(json(Dialect::Completions)["prompt"], "Be brief.\n\nHi");
    let text = Content::Text("Hi".into());
    assert!(matches!(PromptRef::from(&text), PromptRef::Text("Hi")));
}
