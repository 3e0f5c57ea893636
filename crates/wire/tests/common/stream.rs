//! Streams made of events, and what their records say.

use record::{FailureClass, Kind, Request, State};
use spec::Dialect;

use super::{Answer, timeless};

pub fn delta(fields: &str) -> String {
    format!(
        "data: {{\"id\":\"c-1\",\"choices\":[{{\"index\":0,\"delta\":{{{fields}}},\"finish_reason\":null}}]}}\n\n"
    )
}
pub fn role() -> String {
    delta(r#""role":"assistant","content":"""#)
}
pub fn content(text: &str) -> String {
    delta(&format!("\"content\":{}", serde_json::to_string(text).unwrap()))
}
pub fn finish(word: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{word}\"}}]}}\n\n")
}
pub fn usage(n: u32) -> String {
    format!("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{n}}}}}\n\n")
}
pub const DONE: &str = "data: [DONE]\n\n";

/// Role, three chunks, finish, usage, end mark.
pub fn base() -> Vec<String> {
    vec![role(), content("Hel"), content("lo "), content("you"), finish("stop"), usage(3), DONE.to_owned()]
}
/// The base with event `at` replaced by `with`.
pub fn replaced(at: usize, with: &[String]) -> String {
    let mut events = base();
    events.splice(at..=at, with.iter().cloned());
    events.concat()
}

pub fn class(row: &Request) -> Option<FailureClass> {
    match &row.state {
        State::Failed { class, .. } => Some(*class),
        _ => None,
    }
}
pub fn detail(row: &Request) -> &str {
    match &row.state {
        State::Failed { detail, .. } => detail,
        other => panic!("{other:?}"),
    }
}
pub fn kinds(row: &Request) -> Vec<Kind> {
    row.chunks.iter().map(|c| c.kind).collect()
}
pub fn tokens(row: &Request) -> Vec<Option<u32>> {
    row.chunks.iter().map(|c| c.tokens).collect()
}

/// The record and text, after the check that they are the same in every segmentation.
pub fn read(name: &str, answer: &Answer) -> (Request, Option<String>) {
    answer.same_in_every_segmentation(name);
    answer.whole()
}
pub fn chat(name: &str, body: impl Into<Vec<u8>>) -> (Request, Option<String>) {
    read(name, &Answer::chat(body))
}
pub fn completions(name: &str, body: impl Into<Vec<u8>>) -> (Request, Option<String>) {
    read(name, &Answer::stream(Dialect::Completions, body))
}

/// The record of the base stream.
pub fn assert_base(name: &str, got: (Request, Option<String>)) {
    assert_eq!(timeless(got), timeless(Answer::chat(base().concat()).whole()), "{name}");
}
