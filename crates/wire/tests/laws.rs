//! Laws: the segmentation never matters, nothing panics, and an independent splitter agrees.
#![allow(clippy::unwrap_used)]

mod common;

use bytes::Bytes;
use common::{Answer, stamp, timeless};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use spec::Dialect;
use sse_core::{SseDecoder, SseEvent};
use wire::answer::EndOfBody;
use wire::sse::Splitter;

/// Pieces from which streams, nearly streams and nonsense are made.
const PIECES: &[&str] = &[
    "data:",
    "data: ",
    "data",
    ":",
    " ",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "\r\n\r\n",
    "event: error\n",
    "event:x",
    "id: 1\n",
    "retry: 5\n",
    ": ping\n\n",
    "\u{feff}",
    "null",
    "[DONE]",
    "data: [DONE]\n\n",
    "{",
    "}",
    "{}",
    "\"choices\":[",
    "]",
    "\"error\":",
    "\"usage\":{\"completion_tokens\":3}",
    ",",
    "é",
    "🌍",
    "\u{2028}",
    "<html>",
    "\\ud83d",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":1,\"delta\":{\"reasoning\":\"b\"}}],\"usage\":{\"completion_tokens\":2}}\n\n",
    "data: {\"choices\":[{\"text\":\"\",\"token_ids\":[1,2]}]}\r\r",
    "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":4}}\n\n",
    "data: {\"error\":{\"message\":\"x\"}}\n\n",
];

fn soup() -> impl Strategy<Value = String> {
    vec(select(PIECES), 0..24).prop_map(|pieces| pieces.concat())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 1..5),
    ];
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn answer(body: Vec<u8>, chat: bool, end: u8) -> Answer {
    let end = match end % 3 {
        0 => EndOfBody::Clean,
        1 => EndOfBody::Broken("reset".into()),
        _ => EndOfBody::Cut(record::State::Cancelled),
    };
    let dialect = if chat { Dialect::Chat } else { Dialect::Completions };
    let mut answer = Answer { end, ..Answer::stream(dialect, body) };
    answer.expect.prompt = Some("ab ab ab".into());
    answer.expect.limit = 300;
    answer
}

fn segments<'a>(body: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
    at.sort_unstable();
    at.push(body.len());
    let mut from = 0;
    at.iter().map(|to| &body[std::mem::replace(&mut from, *to)..*to]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_one_record(body in bytes(), cuts in vec(any::<Index>(), 0..12), chat: bool, end: u8) {
        let answer = answer(body, chat, end);
        let whole = timeless(answer.whole());
        prop_assert_eq!(&timeless(answer.read(segments(&answer.body, &cuts))), &whole);
        prop_assert_eq!(&timeless(answer.read(answer.body.chunks(1))), &whole);
        let row = whole.0;
        if row.state.is_ok() {
            prop_assert!(!row.chunks.is_empty());
        }
    }

    #[test]
    fn a_prefix_gives_no_more(body in bytes(), cut: Index, chat: bool) {
        let whole = answer(body.clone(), chat, 1).whole().0;
        let prefix = answer(body[..cut.index(body.len() + 1)].to_vec(), chat, 1).whole().0;
        // A complete last event without its blank line counts; what follows may spoil just that one.
        let most = whole.chunks.len() + 1;
        prop_assert!(prefix.chunks.len() <= most || whole.state.is_ok() != prefix.state.is_ok());
    }

    #[test]
    fn an_independent_splitter_agrees(body in soup(), cuts in vec(any::<Index>(), 0..12)) {
        let mut theirs = Vec::new();
        let mut decoder = SseDecoder::new();
        let mut all = Bytes::copy_from_slice(body.as_bytes());
        while let Some(event) = decoder.next(&mut all) {
            if let SseEvent::Message(message) = event.unwrap() {
                theirs.push((message.event.into_owned(), message.data));
            }
        }
        let mut ours = Vec::new();
        let mut splitter = Splitter::default();
        for (read, segment) in segments(body.as_bytes(), &cuts).into_iter().enumerate() {
            splitter.push(segment, stamp(read as u32, 1), |event| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let name = if event.name.is_empty() { "message".to_owned() } else { text(event.name) };
                assert!(event.terminated);
                ours.push((name, text(event.data)));
            }).unwrap();
        }
        prop_assert_eq!(ours, theirs);
    }

    /// An event bears the stamp of the read that holds the byte that completed it.
    #[test]
    fn stamps_are_those_of_the_completing_read(
        texts in vec("[a-z]{0,8}", 1..8),
        cuts in vec(any::<Index>(), 0..12),
        crlf: bool,
    ) {
        let mut body = String::new();
        let mut complete = Vec::new();
        for text in &texts {
            body.push_str(&format!("data: {text}{}", if crlf { "\r\n" } else { "\n" }));
            // The CR of the blank line already ends it.
            complete.push(body.len());
            body.push_str(if crlf { "\r\n" } else { "\n" });
        }
        let parts = segments(body.as_bytes(), &cuts);
        let mut ends = Vec::new();
        let mut seen = Vec::new();
        let mut splitter = Splitter::default();
        let mut end = 0;
        for (read, segment) in parts.iter().enumerate() {
            end += segment.len();
            ends.push(end);
            splitter.push(segment, stamp(read as u32, 1), |event| seen.push(event.stamp.read)).unwrap();
        }
        let expected: Vec<u32> = complete
            .iter()
            .map(|at| ends.iter().position(|end| end > at).unwrap() as u32)
            .collect();
        prop_assert_eq!(seen, expected);
    }
}
