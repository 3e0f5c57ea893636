//! JSON lines: one request a line, every key checked.

use std::path::Path;

use serde_json::{Map, Value};

use super::{Loaded, Row, read};
use crate::CorpusError;
use crate::error::nearest;
use crate::prompt::{Content, Message};

const KEYS: [&str; 4] = ["prompt", "messages", "output_tokens", "extra_body"];
const MESSAGE_KEYS: [&str; 5] = ["role", "content", "name", "tool_calls", "tool_call_id"];
const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];
/// Body fields that the measurement owns: a row that changed them would not be measured.
const OWNED: [&str; 4] = ["prompt", "messages", "stream", "stream_options"];
/// Names of other formats for the same thing.
const OTHER_NAMES: [(&str, &str); 12] = [
    ("text", "prompt"),
    ("text_input", "prompt"),
    ("input", "prompt"),
    ("question", "prompt"),
    ("instruction", "prompt"),
    ("conversation", "messages"),
    ("conversations", "messages"),
    ("max_tokens", "output_tokens"),
    ("max_completion_tokens", "output_tokens"),
    ("output_length", "output_tokens"),
    ("extra", "extra_body"),
    ("body", "extra_body"),
];

/// Reads a file of rows. Each line is an object with `prompt` (a string) or `messages` (a list of
/// `{role, content}`), and optionally `output_tokens` (a whole number from 1) and `extra_body` (an
/// object merged over the request's body). Empty lines are skipped.
pub(crate) fn load(path: &Path) -> Result<Loaded, CorpusError> {
    let (bytes, sha256) = read(path)?;
    let mut rows = Vec::new();
    for (i, line) in bytes.split(|b| *b == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let row = parse(line).map_err(|problem| CorpusError::Row {
            path: path.to_owned(),
            line: i + 1,
            problem,
        })?;
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(CorpusError::DataSet {
            path: path.to_owned(),
            problem: "the file has no rows; each line should be an object with `prompt` or `messages`".into(),
        });
    }
    Ok(Loaded { sha256, rows, dropped: Vec::new(), turns_dropped: 0 })
}

fn parse(line: &[u8]) -> Result<Row, String> {
    let text = std::str::from_utf8(line)
        .map_err(|e| format!("not UTF-8 at byte {} of the line; save the file as UTF-8", e.valid_up_to()))?;
    let value: Value = serde_json::from_str(text).map_err(|e| {
        let hint = match text.trim_start().starts_with('[') {
            true => "; a JSON array is no JSON lines file: put one object on each line, or use the ShareGPT reader",
            false => "; each line must be one whole JSON object",
        };
        format!("not valid JSON at column {}: {e}{hint}", e.column())
    })?;
    let Value::Object(mut object) = value else {
        return Err(format!("expected an object with `prompt` or `messages`, got {}", kind(&value)));
    };
    unknown_keys(&object, &KEYS, &OTHER_NAMES, "key")?;
    let content = match (object.remove("prompt"), object.remove("messages")) {
        (Some(_), Some(_)) => return Err("both `prompt` and `messages`; a row has one of them".into()),
        (None, None) => return Err("neither `prompt` nor `messages`; a row needs one of them".into()),
        (Some(Value::String(text)), None) if text.is_empty() => {
            return Err("`prompt` is empty; servers refuse empty prompts".into());
        }
        (Some(Value::String(text)), None) => Content::Text(text),
        (Some(other), None) => return Err(format!("`prompt` must be a string, got {}", kind(&other))),
        (None, Some(Value::Array(messages))) => Content::Messages(
            messages
                .into_iter()
                .enumerate()
                .map(|(i, m)| message(m).map_err(|e| format!("message {}: {e}", i + 1)))
                .collect::<Result<_, _>>()?,
        ),
        (None, Some(other)) => return Err(format!("`messages` must be a list, got {}", kind(&other))),
    };
    if matches!(&content, Content::Messages(m) if m.is_empty()) {
        return Err("`messages` is empty; it needs at least one message".into());
    }
    let osl = match object.remove("output_tokens") {
        None | Some(Value::Null) => None,
        Some(value) => Some(
            value
                .as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .filter(|n| *n > 0)
                .ok_or_else(|| format!("`output_tokens` must be a whole number from 1, got {value}"))?,
        ),
    };
    let extra = match object.remove("extra_body") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(extra)) => extra,
        Some(other) => return Err(format!("`extra_body` must be an object, got {}", kind(&other))),
    };
    if let Some(key) = extra.keys().find(|key| OWNED.contains(&key.as_str())) {
        return Err(format!("`extra_body` must not set `{key}`: the measurement depends on it"));
    }
    Ok(Row { content, osl, extra })
}

fn message(value: Value) -> Result<Message, String> {
    let Value::Object(mut object) = value else {
        return Err(format!("expected an object with `role` and `content`, got {}", kind(&value)));
    };
    unknown_keys(
        &object,
        &MESSAGE_KEYS,
        &[("from", "role"), ("value", "content"), ("text", "content")],
        "key",
    )?;
    let role = match object.remove("role") {
        Some(Value::String(role)) if ROLES.contains(&role.as_str()) => role,
        Some(Value::String(role)) => {
            let hint = nearest(&role, ROLES).map(|r| format!(" (did you mean `{r}`?)")).unwrap_or_default();
            return Err(format!("unknown role `{role}`{hint}; roles are {}", ROLES.join(", ")));
        }
        Some(other) => return Err(format!("`role` must be a string, got {}", kind(&other))),
        None => return Err("`role` is missing".into()),
    };
    let content = match object.remove("content") {
        Some(content @ Value::String(_)) => content,
        Some(Value::Array(parts)) if !parts.is_empty() && parts.iter().all(Value::is_object) => {
            Value::Array(parts)
        }
        None | Some(Value::Null) if object.contains_key("tool_calls") => Value::Null,
        None => return Err("`content` is missing".into()),
        Some(other) => {
            return Err(format!("`content` must be a string or a list of parts, got {}", kind(&other)));
        }
    };
    Ok(Message { role, content, rest: object })
}

fn unknown_keys(
    object: &Map<String, Value>,
    known: &[&str],
    others: &[(&str, &str)],
    what: &str,
) -> Result<(), String> {
    let Some(key) = object.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let better = others
        .iter()
        .find(|(other, _)| key.eq_ignore_ascii_case(other))
        .map(|(_, ours)| *ours)
        .or_else(|| nearest(key, known.iter().copied()));
    let hint = better.map(|k| format!(" (did you mean `{k}`?)")).unwrap_or_default();
    Err(format!("unknown {what} `{key}`{hint}; known are {}", known.join(", ")))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn file(text: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }
    fn load_text(text: &str) -> Result<Loaded, CorpusError> {
        let (_dir, path) = file(text.as_bytes());
        load(&path)
    }
    fn error(text: &str) -> String {
        load_text(text).unwrap_err().to_string()
    }

    #[test]
    fn rows_carry_prompt_messages_length_and_extras() {
        let loaded = load_text(concat!(
            "\u{feff}{\"prompt\":\"Hi there\",\"output_tokens\":7}\r\n",
            "\n  \n",
            "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},",
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Why?\"}]}],",
            "\"extra_body\":{\"thinking_budget\":12}}"
        ))
        .unwrap();
        assert_eq!(loaded.rows.len(), 2);
        assert_eq!(loaded.rows[0].content, Content::Text("Hi there".into()));
        assert_eq!(loaded.rows[0].osl, Some(7));
        assert_eq!(loaded.rows[1].extra, *json!({"thinking_budget": 12}).as_object().unwrap());
        assert_eq!(loaded.rows[1].content.texts(), ["Be brief.", "Why?"]);
        let Content::Messages(messages) = &loaded.rows[1].content else { panic!() };
        assert_eq!(
            serde_json::to_value(messages).unwrap(),
            json!([{"role":"system","content":"Be brief."},
                   {"role":"user","content":[{"type":"text","text":"Why?"}]}])
        );
    }

    #[test]
    fn tool_turns_pass_through_whole() {
        let text = r#"{"messages":[{"role":"user","content":"2+2?"},{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]},{"role":"tool","tool_call_id":"a","content":"4"}]}"#;
        let loaded = load_text(text).unwrap();
        let Content::Messages(messages) = &loaded.rows[0].content else { panic!() };
        let whole: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_value(messages).unwrap(), whole["messages"]);
    }

    #[test]
    fn hostile_rows_are_refused_with_line_and_advice() {
        let good = "{\"prompt\":\"a\"}\n";
        for (row, words) in [
            (r#"{"promt":"a"}"#, vec!["unknown key `promt`", "did you mean `prompt`?"]),
            (r#"{"text":"a"}"#, vec!["did you mean `prompt`?"]),
            (r#"{"prompt":"a","max_tokens":4}"#, vec!["did you mean `output_tokens`?"]),
            (r#"{"prompt":"a","zebra":4}"#, vec!["unknown key `zebra`;", "extra_body"]),
            (r#"{"prompt":3}"#, vec!["`prompt` must be a string, got a number"]),
            (r#"{"prompt":""}"#, vec!["`prompt` is empty"]),
            (r#"{}"#, vec!["neither `prompt` nor `messages`"]),
            (r#"{"prompt":"a","messages":[]}"#, vec!["both"]),
            (r#"{"messages":[]}"#, vec!["`messages` is empty"]),
            (r#"{"messages":{}}"#, vec!["must be a list"]),
            (r#"{"messages":[{"role":"usr","content":"a"}]}"#, vec!["message 1", "did you mean `user`?"]),
            (r#"{"messages":[{"role":"user"}]}"#, vec!["`content` is missing"]),
            (r#"{"messages":[{"role":"user","content":null}]}"#, vec!["must be a string or a list"]),
            (r#"{"messages":[{"from":"user","value":"a"}]}"#, vec!["did you mean `role`?"]),
            (r#"{"messages":["a"]}"#, vec!["expected an object", "got a string"]),
            (r#"{"prompt":"a","output_tokens":0}"#, vec!["whole number from 1, got 0"]),
            (r#"{"prompt":"a","output_tokens":-1}"#, vec!["got -1"]),
            (r#"{"prompt":"a","output_tokens":1.5}"#, vec!["got 1.5"]),
            (r#"{"prompt":"a","output_tokens":99999999999}"#, vec!["got 99999999999"]),
            (r#"{"prompt":"a","extra_body":[1]}"#, vec!["must be an object, got a list"]),
            (r#"{"prompt":"a","extra_body":{"stream":false}}"#, vec!["must not set `stream`"]),
            (r#"{"prompt":"a""#, vec!["not valid JSON", "column"]),
            (r#"{"prompt":"a"}{"prompt":"b"}"#, vec!["not valid JSON", "one whole JSON object"]),
            (r#"["#, vec!["JSON array", "ShareGPT"]),
            (r#""a""#, vec!["expected an object", "got a string"]),
        ] {
            let message = error(&format!("{good}\n{row}\n{good}"));
            assert!(message.contains("rows.jsonl:3: "), "{message}");
            for word in words {
                assert!(message.contains(word), "{row}: {message}");
            }
        }
    }

    #[test]
    fn unreadable_empty_and_broken_files_say_so() {
        assert!(error("").contains("no rows"));
        assert!(error("\n \n").contains("no rows"));
        let (_dir, path) = file(b"{\"prompt\":\"a\"}\n{\"prompt\":\"\xff\"}\n");
        assert!(load(&path).unwrap_err().to_string().contains(":2: not UTF-8 at byte 11"));
        let missing = load(Path::new("/nowhere/rows.jsonl")).unwrap_err().to_string();
        assert!(missing.contains("cannot read /nowhere/rows.jsonl"), "{missing}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn no_line_brings_the_reader_down(
            line in r#"(\{|\[)?("(prompt|messages|role|extra_body|output_tokens)"|[:,\[\]{}]|"[a-zé]{0,3}"|-?[0-9]{1,12}|null|true| ){0,14}\}?"#,
            noise in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            for bytes in [line.as_bytes(), noise.as_slice()] {
                if let Ok(row) = parse(bytes) {
                    // What is accepted can be sent: there is something to say.
                    let said = match row.content {
                        Content::Text(text) => !text.is_empty(),
                        Content::Messages(messages) => !messages.is_empty(),
                    };
                    prop_assert!(said);
                }
            }
        }

        #[test]
        fn every_sound_row_is_read_back(prompt in "\\PC{1,40}", osl in proptest::option::of(1u32..)) {
            let row = parse(json!({"prompt": prompt, "output_tokens": osl}).to_string().as_bytes()).unwrap();
            prop_assert_eq!(row.content, Content::Text(prompt));
            prop_assert_eq!(row.osl, osl);
        }
    }
}
