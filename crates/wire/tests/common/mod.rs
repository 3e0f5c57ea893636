//! Shared by the tests: an empty row, feeding a body in segments, recorded answers.
#![allow(dead_code, clippy::unwrap_used)]

pub mod stream;

use std::path::PathBuf;

use http::{HeaderMap, HeaderName, HeaderValue};
use record::{InputTokens, OutputTokens, PromptIdentity, Request, State};
use spec::{Dialect, Nanos, Phase};
use wire::answer::{AnswerBuilder, EndOfBody, Expect};
use wire::stamp::Stamp;

/// A row before anything has come.
pub fn row() -> Request {
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

/// Read number `read`, at that many milliseconds.
pub fn stamp(read: u32, ms: u64) -> Stamp {
    let at = Nanos::from_millis(ms);
    Stamp { arrival: at, seen: at, earliest: at, kernel: true, read }
}

/// Headers from pairs.
pub fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap()))
        .collect()
}

/// What came, as the server sent it.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub end: EndOfBody,
    pub expect: Expect,
}

impl Answer {
    /// A chat stream that ended cleanly.
    pub fn chat(body: impl Into<Vec<u8>>) -> Self {
        Self::stream(Dialect::Chat, body)
    }

    /// A stream that ended cleanly.
    pub fn stream(dialect: Dialect, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: headers(&[("content-type", "text/event-stream")]),
            body: body.into(),
            end: EndOfBody::Clean,
            expect: Expect::stream(dialect),
        }
    }

    /// The record when the body comes in these segments, the i-th at i milliseconds.
    pub fn read<'a>(&self, segments: impl IntoIterator<Item = &'a [u8]>) -> (Request, Option<String>) {
        let mut builder = AnswerBuilder::new(self.expect.clone());
        builder.head(self.status, &self.headers, stamp(0, 0));
        for (read, segment) in (0..).zip(segments) {
            builder.body(segment, stamp(read, u64::from(read) + 1));
        }
        builder.end(self.end.clone(), Some(Nanos::from_secs(3600)));
        let mut row = row();
        let text = builder.fold(&mut row);
        (row, text)
    }

    /// The whole body in one segment.
    pub fn whole(&self) -> (Request, Option<String>) {
        self.read([self.body.as_slice()])
    }

    /// In two segments.
    pub fn cut(&self, at: usize) -> (Request, Option<String>) {
        let (a, b) = self.body.split_at(at);
        self.read([a, b])
    }

    /// Holds the record against that of every cut into two, of single bytes, and of small pieces.
    pub fn same_in_every_segmentation(&self, name: &str) {
        let expected = timeless(self.whole());
        for at in 0..=self.body.len() {
            assert_eq!(timeless(self.cut(at)), expected, "{name}: cut at {at}");
        }
        for size in [1, 2, 3, 7, 64] {
            assert_eq!(timeless(self.read(self.body.chunks(size))), expected, "{name}: pieces of {size}");
        }
    }
}

/// The record without what depends on when bytes came and in how many reads.
pub fn timeless((mut row, text): (Request, Option<String>)) -> (Request, Option<String>) {
    for chunk in row.chunks.edit().iter_mut() {
        chunk.arrival = Nanos::ZERO;
        chunk.seen = Nanos::ZERO;
        chunk.earliest = Nanos::ZERO;
        chunk.read = 0;
    }
    row.output_reads = 0;
    row.done = row.done.map(|_| Nanos::ZERO);
    (row, text)
}

/// A recorded answer: head, body, the offsets at which the server's own chunks end, and whether the
/// body ended as HTTP says.
pub struct Recorded {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub ends: Vec<usize>,
    pub clean: bool,
}

/// Where the recorded answers are.
pub fn streams() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/streams")
}

/// Reads `ENGINE/NAME`.
pub fn recorded(name: &str) -> Recorded {
    let raw = std::fs::read(streams().join(format!("{name}.http"))).unwrap();
    let split = raw.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&raw[..split]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let pairs: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let headers = headers(&pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect::<Vec<_>>());
    let rest = &raw[split + 4..];
    let (body, ends, clean) = if headers.get("transfer-encoding").is_some_and(|v| v == "chunked") {
        dechunk(rest)
    } else {
        let length = headers.get("content-length").map(|v| v.to_str().unwrap().parse::<usize>().unwrap());
        (rest.to_vec(), vec![rest.len()], length.is_none_or(|n| n == rest.len()))
    };
    Recorded { status, headers, body, ends, clean }
}

fn dechunk(mut raw: &[u8]) -> (Vec<u8>, Vec<usize>, bool) {
    let mut body = Vec::new();
    let mut ends = Vec::new();
    loop {
        let Some(line) = raw.windows(2).position(|w| w == b"\r\n") else { return (body, ends, false) };
        let size = usize::from_str_radix(std::str::from_utf8(&raw[..line]).unwrap().trim(), 16).unwrap();
        raw = &raw[line + 2..];
        if size == 0 {
            return (body, ends, true);
        }
        let here = size.min(raw.len());
        body.extend_from_slice(&raw[..here]);
        ends.push(body.len());
        if raw.len() < size + 2 {
            return (body, ends, false);
        }
        raw = &raw[size + 2..];
    }
}

/// FNV-1a, 64 bits.
pub fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
