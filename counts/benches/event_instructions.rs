//! Counted instructions of one streamed event: split, dialect and row, and its part of the journal.
//!
//! Counted by valgrind, so a busy machine changes nothing. A count above its limit fails; the limits
//! are the counts of the compiler named below and a tolerance for others.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark may fail")]

#[allow(clippy::duplicate_mod, reason = "the tests' empty row serves here too")]
#[path = "../../crates/wire/tests/common/mod.rs"]
mod common;

use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group};
use record::{Entry, Request};
use spec::Dialect;
use std::hint::black_box;
use wire::answer::{AnswerBuilder, EndOfBody, Expect};

/// Events of one answer: so many that head and end do not count.
const EVENTS: u64 = 1_000;
/// Counted for each event with rustc 1.95 on x86-64.
const HEARD: u64 = 1_480;
/// The same for its part of a line of the journal.
const WRITTEN: u64 = 284;
/// In per cent: another compiler may count a little more.
const TOLERANCE: u64 = 8;

const fn limit(each: u64) -> u64 {
    each * EVENTS * (100 + TOLERANCE) / 100
}

/// The events of one answer in vLLM's shape, one for each read.
fn events() -> Vec<String> {
    let event = |text: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion.chunk\",\
             \"created\":1764489600,\"model\":\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[{{\"index\":0,\
             \"delta\":{{\"content\":\"{text}\"}},\"logprobs\":null,\"finish_reason\":{finish},\
             \"token_ids\":null}}]}}\n\n"
        )
    };
    let mut events: Vec<String> = (1..EVENTS).map(|_| event(" token", "null")).collect();
    events.push(event("", "\"length\""));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn hear(events: &[String]) -> Request {
    let mut answer = AnswerBuilder::new(Expect::stream(Dialect::Chat));
    let headers = common::headers(&[("content-type", "text/event-stream")]);
    answer.head(200, &headers, common::stamp(0, 0));
    for (read, event) in (0..).zip(events) {
        answer.body(event.as_bytes(), common::stamp(read, u64::from(read) * 10));
    }
    answer.end(EndOfBody::Clean, None);
    let mut row = common::row();
    answer.fold(&mut row);
    row
}

fn entry() -> Entry {
    let row = hear(&events());
    assert_eq!(row.chunks.len() as u64, EVENTS - 1, "{:?}", row.state);
    Entry::Request(row)
}

#[library_benchmark]
#[bench::of_a_chat(events())]
fn heard(events: Vec<String>) -> (Request, Vec<String>) {
    (black_box(hear(black_box(&events))), events)
}

#[library_benchmark(config = limited(WRITTEN))]
#[bench::of_a_chat(entry())]
fn written(entry: Entry) -> (Vec<u8>, Entry) {
    (serde_json::to_vec(black_box(&entry)).unwrap(), entry)
}

fn limited(each: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, limit(each))]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

library_benchmark_group!(name = of_an_event, benchmarks = [heard, written]);

gungraun::main!(config = limited(HEARD); library_benchmark_groups = of_an_event);
