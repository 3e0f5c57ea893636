//! Builds requests and runs by hand.
#![allow(dead_code)]

use std::collections::BTreeMap;

use record::{
    Chunk, Environment, FailureClass, Footer, Header, InputTokens, Kind, OutputTokens, PromptIdentity,
    Request, Run, State, Stopped, TimeoutKind,
};
use spec::*;

pub const MS: u64 = 1_000_000;

pub fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// A request sent at 0 with chunks of `(arrival ms, tokens)`, ended well at the last of them.
pub fn request(chunks: &[(u64, u32)]) -> Request {
    let chunks: Vec<Chunk> = chunks
        .iter()
        .enumerate()
        .map(|(i, &(at, tokens))| Chunk {
            arrival: ms(at),
            seen: ms(at),
            earliest: ms(at),
            kernel: true,
            read: i as u32,
            kind: Kind::Answer,
            tokens: Some(tokens),
            text_bytes: 4 * tokens,
            choice: 0,
        })
        .collect();
    let end = chunks.last().map(|chunk| chunk.arrival);
    let n = chunks.iter().filter_map(|chunk| chunk.tokens).sum();
    Request {
        seq: 0,
        phase: Phase::Measure,
        user: None,
        lane: 0,
        intended: Nanos::ZERO,
        dispatched: Some(Nanos::ZERO),
        admitted: None,
        connection: None,
        write_begin: Some(Nanos::ZERO),
        write_end: Some(Nanos::ZERO),
        headers: end,
        done: end,
        closed: end,
        state: State::Ok,
        status: Some(200),
        streamed: true,
        output_reads: chunks.len() as u32,
        chunks: chunks.into(),
        input: InputTokens { server: Some(10), ..InputTokens::default() },
        output: OutputTokens { usage: Some(n), ..OutputTokens::default() },
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

/// The same request, later by `by`.
pub fn shifted(mut request: Request, by: Nanos) -> Request {
    let shift = |at: &mut Option<Nanos>| {
        if let Some(at) = at {
            *at += by;
        }
    };
    request.intended += by;
    for at in [
        &mut request.dispatched,
        &mut request.admitted,
        &mut request.write_begin,
        &mut request.write_end,
        &mut request.headers,
        &mut request.done,
        &mut request.closed,
    ] {
        shift(at);
    }
    for chunk in request.chunks.edit().iter_mut() {
        chunk.arrival += by;
        chunk.seen += by;
        chunk.earliest += by;
    }
    request
}

/// A request that failed `after_ms` without output.
pub fn failed(after_ms: u64) -> Request {
    let mut request = request(&[]);
    request.closed = Some(ms(after_ms));
    request.state = State::Failed { class: FailureClass::Http5xx, detail: "503".to_owned() };
    request.output.usage = None;
    request
}

/// A request that hit the limit on its first token after `after_ms`.
pub fn timed_out(after_ms: u64) -> Request {
    let mut request = failed(after_ms);
    request.state = State::TimedOut { limit: TimeoutKind::FirstToken };
    request
}

/// A request that was never sent.
pub fn shed() -> Request {
    let mut request = failed(0);
    request.state = State::Shed;
    (request.dispatched, request.write_begin, request.write_end, request.closed) = (None, None, None, None);
    request
}

pub fn open(rate: f64) -> Load {
    Load::Open(Open {
        rate: Rate::new(rate).expect("a positive rate"),
        burstiness: Burstiness::POISSON,
        cap: None,
        ramp: None,
    })
}

pub fn spec(load: Load, slo: Slo) -> Spec {
    Spec {
        target: "http://127.0.0.1:1".parse().expect("a target"),
        api: Api {
            dialect: Dialect::Chat,
            stream: true,
            model: None,
            path: None,
            headers: BTreeMap::new(),
            key: None,
            extra_body: serde_json::Map::new(),
            sampling: Sampling::default(),
            length: LengthControl { field: MaxField::MaxTokens, force: Force::Auto },
            ask_usage: true,
            readiness: Readiness { check: false, path: String::new(), wait: Span(Nanos::ZERO) },
            tls: Tls::default(),
        },
        workload: Workload {
            source: Source::Synthetic,
            isl: Lengths::Fixed(10),
            osl: Lengths::Fixed(10),
            cache: CacheProtocol::Unique,
            tokenizer: TokenizerChoice::None,
        },
        load,
        phases: Phases {
            warmup: Warmup::None,
            measure: Extent::Requests(1),
            drain: Span(Nanos::from_secs(1)),
        },
        timeouts: Timeouts::default(),
        client: Client::default(),
        slo,
        analysis: Analysis::default(),
        labels: BTreeMap::new(),
        seed: 1,
    }
}

/// A run of these requests in this order; the measurement spans `measure`.
pub fn run_with(requests: Vec<Request>, measure: (Nanos, Nanos), load: Load, slo: Slo) -> Run {
    let requests: Vec<Request> =
        requests.into_iter().enumerate().map(|(i, r)| Request { seq: i as u64, ..r }).collect();
    let ended = requests.iter().filter_map(|r| r.closed).max().unwrap_or_default();
    let planned = requests.iter().filter(|r| r.phase == Phase::Measure).count() as u64;
    Run {
        header: Header {
            schema_version: record::SCHEMA_VERSION,
            spec: spec(load, slo),
            environment: Environment::default(),
        },
        requests,
        lanes: Vec::new(),
        machine: Vec::new(),
        clock: Vec::new(),
        server: Vec::new(),
        footer: Footer {
            measure_from: measure.0,
            measure_to: measure.1,
            ended,
            planned,
            stopped: Stopped::Finished,
            lost: 0,
            warnings: Vec::new(),
            others: Vec::new(),
        },
        missing: Vec::new(),
    }
}

pub fn run(requests: Vec<Request>) -> Run {
    let to = requests.iter().map(|r| r.intended).max().unwrap_or_default();
    run_with(requests, (Nanos::ZERO, to), open(1.0), Slo::default())
}

/// `count` requests of the given chunks, one each `every_ms`.
pub fn repeated(count: u64, every_ms: u64, chunks: &[(u64, u32)]) -> Vec<Request> {
    (0..count).map(|i| shifted(request(chunks), ms(i * every_ms))).collect()
}

pub fn limit(metric: Metric, op: Op, value: f64) -> JointLimit {
    JointLimit { metric, op, value, text: format!("{}{}{value}", metric.name(), op.sign()) }
}

#[track_caller]
pub fn close(actual: f64, expected: f64, tolerance: f64) {
    assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected} ± {tolerance}");
}
