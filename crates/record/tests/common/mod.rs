//! Rows to write: a plain run, and arbitrary entries.

#![allow(dead_code)] // each test file uses its part

use std::collections::BTreeMap;

use proptest::option;
use proptest::prelude::*;
use record::{
    Chunk, ClockSample, Connection, Entry, Environment, FailureClass, Finish, Footer, Header, InputTokens,
    Kind, LaneSample, MachineSample, Oddity, OutputTokens, PromptIdentity, Request, SCHEMA_VERSION,
    ServerSample, State, Stopped, TimeoutKind,
};
use spec::{
    Analysis, Api, CacheProtocol, Client, Closed, Dialect, Extent, Force, KeySource, LengthControl, Lengths,
    Load, MaxField, Nanos, Phase, Phases, Readiness, Sampling, Slo, Source, Span, Spec, Target, Timeouts,
    Tls, TokenizerChoice, Warmup, Workload,
};

pub fn spec() -> Spec {
    Spec {
        target: Target::Http("http://127.0.0.1:8000".to_owned()).into(),
        api: Api {
            dialect: Dialect::Chat,
            stream: true,
            model: Some("m".to_owned()),
            path: None,
            headers: BTreeMap::new(),
            key: Some(KeySource::Env("KEY".to_owned())),
            extra_body: serde_json::Map::new(),
            sampling: Sampling::default(),
            length: LengthControl { field: MaxField::MaxTokens, force: Force::Auto },
            ask_usage: true,
            readiness: Readiness {
                check: true,
                path: "/v1/models".to_owned(),
                wait: Span(Nanos::from_secs(1)),
            },
            tls: Tls::default(),
        },
        workload: Workload {
            source: Source::Synthetic,
            isl: Lengths::Fixed(512),
            osl: Lengths::Normal { mean: 128.0, sd: 0.1, max: None },
            cache: CacheProtocol::Unique,
            tokenizer: TokenizerChoice::Auto,
        },
        load: Load::Closed(Closed { concurrency: 4, think: Span::default(), start_over: Span::default() }),
        phases: Phases {
            warmup: Warmup::None,
            measure: Extent::Duration(Span(Nanos::from_secs(60))),
            drain: Span(Nanos::from_secs(1)),
        },
        timeouts: Timeouts::default(),
        client: Client::default(),
        slo: Slo::default(),
        analysis: Analysis::default(),
        labels: BTreeMap::new(),
        seed: 7,
    }
}

pub fn header() -> Header {
    Header { schema_version: SCHEMA_VERSION, spec: spec(), environment: Environment::default() }
}

pub fn footer() -> Footer {
    Footer {
        measure_from: Nanos::ZERO,
        measure_to: Nanos::from_secs(1),
        ended: Nanos::from_secs(2),
        planned: 10,
        stopped: Stopped::Finished,
        lost: 0,
        warnings: Vec::new(),
        others: Vec::new(),
    }
}

/// A streamed answer of `chunks` tokens, 20 ms apart with some scatter; requests are 10 ms apart.
pub fn request(seq: u64, chunks: u32) -> Request {
    let begun = seq * 10_000_000;
    let mut noise = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = move |below: u64| {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise % below
    };
    let mut at = begun + 150_000_000;
    let chunks: Vec<Chunk> = (0..chunks)
        .map(|read| {
            at += 19_000_000 + draw(2_000_000);
            Chunk {
                arrival: Nanos(at),
                seen: Nanos(at + 4_000 + draw(30_000)),
                earliest: Nanos(at),
                kernel: true,
                read,
                kind: Kind::Answer,
                tokens: None,
                text_bytes: 1 + draw(8) as u32,
                choice: 0,
            }
        })
        .collect();
    Request {
        seq,
        phase: Phase::Measure,
        user: Some((seq % 4) as u32),
        lane: 0,
        intended: Nanos(begun),
        dispatched: Some(Nanos(begun + 900)),
        admitted: None,
        connection: Some(Connection {
            id: 3,
            reused: true,
            connect: None,
            tls: None,
            ahead: false,
            stale: 0,
        }),
        write_begin: Some(Nanos(begun + 10_000)),
        write_end: Some(Nanos(begun + 30_000)),
        headers: Some(Nanos(begun + 140_000_000)),
        done: Some(Nanos(at + 40_000)),
        closed: Some(Nanos(at + 60_000)),
        state: State::Ok,
        status: Some(200),
        streamed: true,
        output_reads: chunks.len() as u32,
        input: InputTokens {
            planned: Some(512),
            counted: Some(512),
            server: Some(530),
            cached: None,
            shared: 0,
        },
        output: OutputTokens {
            asked: Some(64),
            forced: true,
            usage: Some(chunks.len() as u32),
            reasoning: None,
            retokenised: None,
        },
        chunks: chunks.into(),
        finish: Some(Finish::Length),
        attempts: 1,
        prompt: PromptIdentity { first16: draw(u64::MAX), first64: draw(u64::MAX), whole: draw(u64::MAX) },
        server_id: Some(format!("chatcmpl-{:032x}", draw(u64::MAX))),
        oddities: Vec::new(),
        cumulative_chunks: 0,
        cumulative_run: 0,
        echo_tokens: Some(0),
    }
}

fn nanos() -> impl Strategy<Value = Nanos> {
    // Both plausible and extreme moments.
    prop_oneof![(0u64..100_000_000_000).prop_map(Nanos), any::<u64>().prop_map(Nanos)]
}

pub fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Answer), Just(Kind::Reasoning), Just(Kind::ToolCall), Just(Kind::Refusal)]
}

pub fn chunk() -> impl Strategy<Value = Chunk> {
    let small = prop_oneof![Just(0u32), Just(1), any::<u32>()];
    let tokens = prop_oneof![Just(None), Just(Some(1)), option::of(any::<u32>())];
    (nanos(), nanos(), nanos(), any::<bool>(), small.clone(), kind(), tokens, small, any::<u16>()).prop_map(
        |(arrival, seen, earliest, kernel, read, kind, tokens, text_bytes, choice)| Chunk {
            arrival,
            seen,
            earliest,
            kernel,
            read,
            kind,
            tokens,
            text_bytes,
            choice,
        },
    )
}

fn state() -> impl Strategy<Value = State> {
    let class = (0..FailureClass::ALL.len()).prop_map(|i| FailureClass::ALL[i]);
    let limit = prop_oneof![
        Just(TimeoutKind::Connect),
        Just(TimeoutKind::FirstToken),
        Just(TimeoutKind::Stalled),
        Just(TimeoutKind::Total)
    ];
    prop_oneof![
        Just(State::Ok),
        Just(State::Cancelled),
        Just(State::Shed),
        (class, any::<String>()).prop_map(|(class, detail)| State::Failed { class, detail }),
        limit.prop_map(|limit| State::TimedOut { limit }),
    ]
}

/// Any request. `word` gives other finish reasons than the four known.
pub fn any_request() -> impl Strategy<Value = Request> {
    let moments = proptest::array::uniform7(option::of(nanos()));
    let oddity = prop_oneof![
        Just(Oddity::NotStreamed),
        Just(Oddity::UnterminatedEvent),
        Just(Oddity::NoDone),
        Just(Oddity::NoFinish),
        Just(Oddity::CountMismatch),
        Just(Oddity::NoUsage),
        Just(Oddity::SeveralChoices),
        Just(Oddity::ClampedStamp)
    ];
    let finish = prop_oneof![
        Just(Finish::Stop),
        Just(Finish::Length),
        Just(Finish::ToolCalls),
        Just(Finish::ContentFilter),
        "x[a-z\"\\\\é]{0,6}".prop_map(Finish::Other)
    ];
    let connection = (any::<u32>(), any::<bool>(), option::of(nanos()), option::of(nanos()), any::<u32>())
        .prop_map(|(id, reused, connect, tls, stale)| Connection {
            id,
            reused,
            connect,
            tls,
            ahead: !reused && id % 2 == 0,
            stale,
        });
    let head =
        (any::<u64>(), any::<bool>(), option::of(any::<u32>()), any::<u16>(), nanos(), moments, state());
    let body = (
        option::of(any::<u16>()),
        proptest::collection::vec(chunk(), 0..12),
        proptest::array::uniform9(option::of(any::<u32>())),
        option::of(finish),
        proptest::array::uniform3(any::<u64>()),
        option::of(any::<String>()),
        proptest::collection::vec(oddity, 0..3),
        option::of(connection),
        proptest::array::uniform4(any::<u32>()),
        any::<bool>(),
    );
    (head, body).prop_map(|(head, body)| {
        let (seq, warm, user, lane, intended, m, state) = head;
        let (status, chunks, t, finish, hash, server_id, oddities, connection, n, flag) = body;
        Request {
            seq,
            phase: if warm { Phase::Warmup } else { Phase::Measure },
            user,
            lane,
            intended,
            dispatched: m[0],
            admitted: m[1],
            connection,
            write_begin: m[2],
            write_end: m[3],
            headers: m[4],
            done: m[5],
            closed: m[6],
            state,
            status,
            streamed: flag,
            output_reads: n[0],
            chunks: chunks.into(),
            input: InputTokens { planned: t[0], counted: t[1], server: t[2], cached: t[3], shared: n[1] },
            output: OutputTokens {
                asked: t[4],
                forced: !flag,
                usage: t[5],
                reasoning: t[6],
                retokenised: t[7],
            },
            finish,
            attempts: n[2],
            prompt: PromptIdentity { first16: hash[0], first64: hash[1], whole: hash[2] },
            server_id,
            oddities,
            cumulative_chunks: n[3],
            cumulative_run: n[1],
            echo_tokens: t[8],
        }
    })
}

fn finite() -> impl Strategy<Value = Option<f64>> {
    option::of(any::<f64>().prop_filter("finite", |f| f.is_finite()))
}

pub fn any_server_sample() -> impl Strategy<Value = ServerSample> {
    (nanos(), proptest::array::uniform7(finite()), any::<u32>()).prop_map(|(at, f, ours_in_flight)| {
        ServerSample {
            at,
            running: f[0],
            waiting: f[1],
            generated_tokens: f[2],
            prompt_tokens: f[3],
            cached_tokens: f[4],
            kv_usage: f[5],
            preemptions: f[6],
            ours_in_flight,
        }
    })
}

pub fn any_lane_sample() -> impl Strategy<Value = LaneSample> {
    (any::<u16>(), nanos(), nanos(), nanos(), nanos(), any::<u32>(), any::<u32>()).prop_map(
        |(lane, from, to, busy, heartbeat_max, heartbeats, in_flight)| LaneSample {
            lane,
            from,
            to,
            busy,
            heartbeat_max,
            heartbeats,
            in_flight,
        },
    )
}

pub fn any_machine_sample() -> impl Strategy<Value = MachineSample> {
    (nanos(), any::<u32>(), proptest::array::uniform5(nanos()), option::of(nanos()), any::<u64>()).prop_map(
        |(at, cores, n, target, lane_slices)| MachineSample {
            at,
            cores,
            busy: n[0],
            steal: n[1],
            own: n[2],
            target,
            lane_wait: n[3],
            lane_run: n[4],
            lane_slices,
        },
    )
}

pub fn any_clock_sample() -> impl Strategy<Value = ClockSample> {
    (nanos(), any::<i64>(), nanos()).prop_map(|(at, offset_ns, width)| ClockSample { at, offset_ns, width })
}

pub fn any_entry() -> impl Strategy<Value = Entry> {
    let footer = (nanos(), nanos(), nanos(), any::<u64>(), proptest::collection::vec(any::<String>(), 0..3))
        .prop_map(|(measure_from, measure_to, ended, planned, warnings)| Footer {
            measure_from,
            measure_to,
            ended,
            planned,
            stopped: Stopped::Interrupted,
            lost: planned / 2,
            warnings,
            others: Vec::new(),
        });
    prop_oneof![
        Just(Entry::Header(header())),
        any_request().prop_map(Entry::Request),
        any_lane_sample().prop_map(Entry::Lane),
        any_machine_sample().prop_map(Entry::Machine),
        any_clock_sample().prop_map(Entry::Clock),
        any_server_sample().prop_map(Entry::Server),
        (any::<u64>(), any::<u32>()).prop_map(|(seq, tokens)| Entry::Retokenised { seq, tokens }),
        (any::<u64>(), option::of(any::<String>()), option::of(any::<String>()))
            .prop_map(|(seq, prompt, answer)| Entry::Text { seq, prompt, answer }),
        footer.prop_map(Entry::Footer),
    ]
}
