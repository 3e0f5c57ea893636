//! Any bytes, cut anywhere, give one record and no panic. The first four bytes choose dialect, end
//! and cuts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use record::{InputTokens, OutputTokens, PromptIdentity, Request, State};
use spec::{Dialect, Nanos, Phase};
use wire::answer::{AnswerBuilder, EndOfBody, Expect};
use wire::stamp::Stamp;

/// A row before anything has come.
fn row() -> Request {
    Request {
        seq: 0,
        phase: Phase::Measure,
        user: None,
        lane: 0,
        intended: Nanos::ZERO,
        dispatched: None,
        admitted: None,
        connection: None,
        write_begin: None,
        write_end: None,
        headers: None,
        done: None,
        closed: None,
        state: State::Cancelled,
        status: None,
        streamed: false,
        chunks: record::Chunks::default(),
        output_reads: 0,
        input: InputTokens::default(),
        output: OutputTokens::default(),
        finish: None,
        attempts: 1,
        prompt: PromptIdentity::default(),
        server_id: None,
        oddities: Vec::new(),
        cumulative_chunks: 0,
        cumulative_run: 0,
        echo_tokens: None,
    }
}

fn read(body: &[u8], size: usize, expect: &Expect, end: &EndOfBody) -> (Request, Option<String>) {
    let mut builder = AnswerBuilder::new(expect.clone());
    builder.head(200, &http::HeaderMap::new(), Stamp::default());
    for segment in body.chunks(size.max(1)) {
        builder.body(segment, Stamp::default());
    }
    builder.end(end.clone(), Some(Nanos::ZERO));
    let mut row = row();
    let text = builder.fold(&mut row);
    (row, text)
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, body)) = data.split_first_chunk::<4>() else { return };
    let dialect = if choice[0] & 1 == 0 { Dialect::Chat } else { Dialect::Completions };
    let end = match choice[1] % 3 {
        0 => EndOfBody::Clean,
        1 => EndOfBody::Broken("reset".into()),
        _ => EndOfBody::Cut(State::Cancelled),
    };
    let mut expect = Expect::stream(dialect);
    expect.limit = 64 * (1 + usize::from(choice[2]));
    let whole = read(body, body.len(), &expect, &end);
    assert_eq!(read(body, usize::from(choice[3]), &expect, &end), whole);
    assert_eq!(read(body, 1, &expect, &end), whole);
});
