//! The worked cases of the definitions, as far as they are decided by reading the answer: which
//! events are chunks, at which moment, with how many tokens.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Answer, row, stamp};
use record::{Kind, Request};
use spec::Nanos;
use wire::answer::{AnswerBuilder, EndOfBody, Expect};

/// The record of a chat stream whose events come at these milliseconds, the body ending at `close`.
fn timed(events: &[(u64, &str)], close: u64) -> Request {
    let expect = Expect::stream(spec::Dialect::Chat);
    let mut builder = AnswerBuilder::new(expect);
    builder.head(200, &Answer::chat("").headers, stamp(0, 1));
    for (read, (ms, event)) in events.iter().enumerate() {
        builder.body(format!("data: {event}\n\n").as_bytes(), stamp(read as u32, *ms));
    }
    builder.end(EndOfBody::Clean, Some(Nanos::from_millis(close)));
    let mut row = row();
    builder.fold(&mut row);
    row
}
fn content(text: &str, running: Option<u32>) -> String {
    let usage = running.map_or(String::new(), |n| format!(",\"usage\":{{\"completion_tokens\":{n}}}"));
    format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]{usage}}}")
}
const FINISH: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
fn usage(n: u32) -> String {
    format!("{{\"choices\":[],\"usage\":{{\"completion_tokens\":{n}}}}}")
}
fn at(row: &Request) -> Vec<u64> {
    row.chunks.iter().map(|c| c.arrival.0 / 1_000_000).collect()
}
fn tokens(row: &Request) -> Vec<Option<u32>> {
    row.chunks.iter().map(|c| c.tokens).collect()
}

#[test]
fn three_tokens() {
    let row = timed(
        &[
            (100, &content("a", None)),
            (150, &content("b", None)),
            (200, &content("c", None)),
            (230, FINISH),
            (230, &usage(3)),
            (240, "[DONE]"),
        ],
        250,
    );
    assert_eq!(at(&row), [100, 150, 200]);
    assert_eq!(row.output.usage, Some(3));
    assert_eq!(row.done, Some(Nanos::from_millis(230)));
    assert_eq!(row.closed, Some(Nanos::from_millis(250)));
}

#[test]
fn chunks_of_several_tokens() {
    let row = timed(
        &[
            (100, &content("a", Some(1))),
            (160, &content("bcd", Some(4))),
            (180, &content("e", Some(5))),
            (180, FINISH),
            (180, "[DONE]"),
        ],
        181,
    );
    assert_eq!((at(&row), tokens(&row)), (vec![100, 160, 180], vec![Some(1), Some(3), Some(1)]));
    assert_eq!(row.output.usage, Some(5));
    let row = timed(
        &[
            (100, &content("abcd", Some(4))),
            (120, &content("e", Some(5))),
            (140, &content("f", Some(6))),
            (140, FINISH),
        ],
        150,
    );
    assert_eq!(tokens(&row), [Some(4), Some(1), Some(1)]);
}

#[test]
fn ten_chunks_of_four() {
    let text = content("abcdefgh", None);
    let last = usage(40);
    let mut events: Vec<(u64, &str)> = (0..10).map(|i| (100 + 20 * i, text.as_str())).collect();
    events.extend([(300, FINISH), (300, last.as_str()), (300, "[DONE]")]);
    let row = timed(&events, 301);
    assert_eq!(row.chunks.len(), 10);
    assert_eq!(tokens(&row), [None; 10], "nothing in the stream tells the tokens of a chunk");
    assert_eq!(row.output.usage, Some(40));
    assert_eq!(row.oddities, []);
}

#[test]
fn the_role_is_no_token() {
    let role = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
    let row = timed(&[(5, role), (200, &content("a", None)), (201, FINISH)], 202);
    assert_eq!(at(&row), [200]);
    assert_eq!(row.headers, Some(Nanos::from_millis(1)));
}

#[test]
fn thinking_has_a_moment_of_its_own() {
    for field in ["reasoning", "reasoning_content"] {
        let thinking = format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"{field}\":\"hm\"}}}}]}}");
        let row = timed(&[(50, &thinking), (900, &content("a", None)), (901, FINISH)], 902);
        let seen: Vec<_> = row.chunks.iter().map(|c| (c.kind, c.arrival)).collect();
        assert_eq!(
            seen,
            [(Kind::Reasoning, Nanos::from_millis(50)), (Kind::Answer, Nanos::from_millis(900))],
            "{field}"
        );
    }
}

#[test]
fn one_read_with_many_events_is_one_moment() {
    let events: String = (0..4).map(|_| format!("data: {}\n\n", content("a", None))).collect();
    let (row, _) = Answer::chat(events + "data: [DONE]\n\n").whole();
    assert_eq!(row.output_reads, 1);
    assert!(row.chunks.iter().all(|c| c.read == 0 && c.arrival == Nanos::from_millis(1)));
}

#[test]
fn time_never_runs_backwards() {
    let text = content("a", None);
    let row = timed(&[(100, &text), (90, &text), (120, &text), (120, FINISH)], 130);
    assert_eq!(at(&row), [100, 100, 120]);
    assert!(row.oddities.contains(&record::Oddity::ClampedStamp));
    assert!(row.chunks.iter().all(|c| c.earliest <= c.arrival && c.arrival <= c.seen));
}
