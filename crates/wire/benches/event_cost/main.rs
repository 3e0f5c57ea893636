//! What a streamed event and a plain request cost the client: processor time of a lane, and of the whole client with its
//! journal, beside that of a bare reader of the same streams.
//!
//! A server in a process of its own streams events of 268 bytes, as vLLM sends them. The floor is one thread that waits
//! by epoll and takes each read with its kernel stamp by one `recvmsg`; it parses nothing. All take the same streams in
//! turn, in the same run, so that their ratio means something on a machine whose speed changes.
#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

mod client;
mod floor;
#[allow(clippy::duplicate_mod, reason = "the tests' run against a server serves here too")]
#[path = "../../tests/rig/mod.rs"]
mod rig;
mod server;

use std::io::Write;

use client::Cost;
use server::{Pattern, Server, Streams, whole_answer};
use spec::Nanos;

const ROUNDS: usize = 3;

const STREAMS: [Streams; 3] = [
    Streams { count: 256, events: 200, step: Nanos::from_millis(20), pattern: Pattern::Even },
    Streams { count: 256, events: 200, step: Nanos::from_millis(20), pattern: Pattern::Together },
    Streams { count: 2_000, events: 80, step: Nanos::from_millis(50), pattern: Pattern::Even },
];

/// Connections and requests of the plain load.
const PLAIN: (usize, usize) = (64, 40_000);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "serve") {
        server::serve(&args[1..]);
        return;
    }
    let mut out = std::io::stdout();
    let _ = writeln!(
        out,
        "| load | bare reader | lane | ratio | whole client | ratio | goal of the whole |\n|---|---|---|---|---|---|---|"
    );
    for streams in STREAMS {
        let server = Server::of_streams(streams);
        let rate = 1e9 / streams.step.0 as f64;
        let pattern = if streams.pattern == Pattern::Even { "evenly" } else { "together" };
        let events = f64::from(streams.events) * streams.count as f64;
        let row = compare(
            events,
            || floor::streams(server.address, streams.count),
            || client::streams(server.address, streams),
        );
        let _ = writeln!(out, "| event, {} streams × {rate:.0}/s, {pattern} | {row} | 1.4 |", streams.count);
    }
    let server = Server::of_answers();
    let (connections, requests) = PLAIN;
    let body = "x".repeat(300);
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:8000\r\ncontent-type: application/json\r\n\
                accept: application/json\r\nuser-agent: bare\r\nx-request-id: bare-0000000\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    let row = compare(
        requests as f64,
        || floor::plain(server.address, connections, request.as_bytes(), whole_answer().len(), requests),
        || client::plain(server.address, connections, requests),
    );
    let _ = writeln!(out, "| plain request, {connections} connections | {row} | 2 |");
}

/// Microseconds for each of `of`, medians of rounds in which both take turns, and the medians of their ratios.
fn compare(of: f64, floor: impl Fn() -> Nanos, client: impl Fn() -> Cost) -> String {
    let each = |cpu: Nanos| cpu.0 as f64 / 1e3 / of;
    let rounds: Vec<[f64; 3]> = (0..ROUNDS)
        .map(|_| {
            let floor = each(floor());
            let Cost { lane, whole } = client();
            [floor, each(lane), each(whole)]
        })
        .collect();
    let median = |value: &dyn Fn(&[f64; 3]) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let [bare, lane, whole] = [0, 1, 2].map(|i| median(&|round| round[i]));
    let [of_lane, of_whole] = [1, 2].map(|i| median(&|round| round[i] / round[0]));
    format!("{bare:.2} µs | {lane:.2} µs | {of_lane:.2} | {whole:.2} µs | {of_whole:.2}")
}
