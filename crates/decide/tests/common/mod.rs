//! A synthetic healthy run: what a quiet machine records of a server that behaves.
#![allow(dead_code, missing_docs)]

use std::collections::BTreeMap;

use measure::in_flight_series;
use record::{
    Chunk, ClockSample, Connection, Environment, Finish, Footer, Header, InputTokens, Kind, LaneSample,
    MachineSample, OutputTokens, PromptIdentity, Request, Run, State, Stopped,
};
use spec::{
    Analysis, Api, Burstiness, CacheProtocol, Client, Closed, Dialect, Extent, Force, JointLimit,
    LengthControl, Lengths, Limit, Load, MarginalLimit, MaxField, Metric, Nanos, Op, Open, Phase, Phases,
    Rate, Readiness, Sampling, Slo, Source, Span, Spec, Statistic, Target, Timeouts, Tls, TokenizerChoice,
    Warmup, Workload,
};

/// A generator of noise that every platform repeats (SplitMix64).
pub struct Noise(pub u64);

impl Noise {
    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
    /// 1 ± `spread`.
    pub fn around(&mut self, spread: f64) -> f64 {
        1.0 + spread * (2.0 * self.unit() - 1.0)
    }
}

pub fn ms(x: f64) -> Nanos {
    Nanos((x * 1e6).round() as u64)
}

pub fn spec(load: Load) -> Spec {
    Spec {
        target: Target::Http("http://127.0.0.1:8000".to_owned()).into(),
        api: Api {
            dialect: Dialect::Chat,
            stream: true,
            model: Some("m".to_owned()),
            path: None,
            headers: BTreeMap::new(),
            key: None,
            extra_body: serde_json::Map::new(),
            sampling: Sampling::default(),
            length: LengthControl { field: MaxField::MaxTokens, force: Force::Auto },
            ask_usage: true,
            readiness: Readiness {
                check: true,
                path: "/v1/models".to_owned(),
                wait: Span(Nanos::from_secs(10)),
            },
            tls: Tls::default(),
        },
        workload: Workload {
            source: Source::Synthetic,
            isl: Lengths::Fixed(512),
            osl: Lengths::Fixed(64),
            cache: CacheProtocol::Unique,
            tokenizer: TokenizerChoice::Auto,
        },
        load,
        phases: Phases {
            warmup: Warmup::Requests(12),
            measure: Extent::Duration(Span(Nanos::from_secs(30))),
            drain: Span(Nanos::from_secs(30)),
        },
        timeouts: Timeouts { total: Limit(None), ..Timeouts::default() },
        client: Client::default(),
        slo: Slo::default(),
        analysis: Analysis::default(),
        labels: BTreeMap::new(),
        seed: 7,
    }
}

pub fn open(rate: f64) -> Load {
    Load::Open(Open {
        rate: Rate::new(rate).unwrap(),
        burstiness: Burstiness::POISSON,
        cap: None,
        ramp: None,
    })
}

pub fn closed(concurrency: u32) -> Load {
    Load::Closed(Closed { concurrency, think: Span::default(), start_over: Span::default() })
}

pub fn joint(metric: Metric, ms_limit: f64) -> JointLimit {
    JointLimit {
        metric,
        op: Op::LessEq,
        value: ms_limit * 1e6,
        text: format!("{}<={ms_limit}ms", metric.name()),
    }
}

pub fn marginal(p: f64, metric: Metric, op: Op, ms_limit: f64) -> MarginalLimit {
    MarginalLimit {
        statistic: Statistic::Percentile(p),
        metric,
        op,
        value: ms_limit * 1e6,
        text: format!("{}({}){}{ms_limit}ms", measure::percentile_name(p), metric.name(), op.sign()),
    }
}

/// A request that went well: `tokens` chunks of one token.
pub fn request(seq: u64, phase: Phase, intended: Nanos, noise: &mut Noise, tokens: u32) -> Request {
    let write_begin = intended + Nanos(60_000);
    let mut at = write_begin + ms(100.0 * noise.around(0.1));
    let mut chunks = Vec::new();
    for read in 0..tokens {
        if read > 0 {
            at += ms(10.0 * noise.around(0.2));
        }
        chunks.push(Chunk {
            arrival: at,
            seen: at + Nanos(20_000),
            earliest: at,
            kernel: true,
            read,
            kind: Kind::Answer,
            tokens: None,
            text_bytes: 4,
            choice: 0,
        });
    }
    Request {
        seq,
        phase,
        user: None,
        lane: 0,
        intended,
        dispatched: Some(intended + Nanos(20_000)),
        admitted: None,
        connection: Some(Connection {
            id: (seq % 8) as u32,
            reused: true,
            connect: None,
            tls: None,
            ahead: false,
            stale: 0,
        }),
        write_begin: Some(write_begin),
        write_end: Some(write_begin + Nanos(10_000)),
        headers: Some(write_begin + Nanos(30_000_000)),
        done: Some(at + Nanos(30_000)),
        closed: Some(at + Nanos(50_000)),
        state: State::Ok,
        status: Some(200),
        streamed: true,
        output_reads: tokens,
        chunks: chunks.into(),
        input: InputTokens {
            planned: Some(512),
            counted: Some(512),
            server: Some(530),
            cached: None,
            shared: 0,
        },
        output: OutputTokens {
            asked: Some(tokens),
            forced: true,
            usage: Some(tokens),
            reasoning: None,
            retokenised: Some(tokens),
        },
        finish: Some(Finish::Length),
        attempts: 1,
        prompt: PromptIdentity { first16: seq + 1, first64: seq + 1, whole: seq + 1 },
        server_id: None,
        oddities: Vec::new(),
        cumulative_chunks: 0,
        cumulative_run: 0,
        echo_tokens: Some(0),
    }
}

/// Poisson arrivals at `rate`, 2 s of warm-up, then `seconds` of measurement, on a quiet machine of
/// two cores.
pub fn healthy_open(rate: f64, seconds: u64) -> Run {
    let mut noise = Noise(42);
    let (from, to) = (Nanos::from_secs(2), Nanos::from_secs(2 + seconds));
    let total = (rate * (seconds + 2) as f64) as u64;
    // Order statistics of a uniform: Poisson, given the count.
    let mut times: Vec<f64> = (0..total).map(|_| noise.unit() * (seconds + 2) as f64).collect();
    times.sort_by(f64::total_cmp);
    let mut requests = Vec::new();
    for (seq, time) in times.into_iter().enumerate() {
        let intended = Nanos::from_secs_f64(time);
        let phase = if intended < from { Phase::Warmup } else { Phase::Measure };
        requests.push(request(seq as u64, phase, intended, &mut noise, 64));
    }
    run(spec(open(rate)), requests, from, to)
}

/// `users` users without think time; warm-up of 2 s.
pub fn healthy_closed(users: u32, seconds: u64) -> Run {
    let mut noise = Noise(43);
    let (from, to) = (Nanos::from_secs(2), Nanos::from_secs(2 + seconds));
    let mut requests = Vec::new();
    for user in 0..users {
        let mut free = Nanos(u64::from(user) * 1_000_000);
        while free < to {
            let phase = if free < from { Phase::Warmup } else { Phase::Measure };
            let mut r = request(0, phase, free, &mut noise, 64);
            r.user = Some(user);
            free = r.closed.unwrap() + Nanos(40_000);
            requests.push(r);
        }
    }
    requests.sort_by_key(|r| r.intended);
    for (seq, r) in requests.iter_mut().enumerate() {
        r.seq = seq as u64;
        r.prompt = PromptIdentity { first16: r.seq + 1, first64: r.seq + 1, whole: r.seq + 1 };
    }
    run(spec(closed(users)), requests, from, to)
}

/// Puts a quiet machine around requests.
pub fn run(spec: Spec, requests: Vec<Request>, from: Nanos, to: Nanos) -> Run {
    let ended = requests.iter().filter_map(|r| r.closed).max().unwrap_or(to).max(to);
    let seconds = ended.0 / 1_000_000_000 + 1;
    let planned = requests.iter().filter(|r| r.phase == Phase::Measure).count() as u64;
    let mut out = Run {
        header: Header {
            schema_version: record::SCHEMA_VERSION,
            spec,
            environment: Environment {
                started: "2026-11-30T10:15:00Z".to_owned(),
                tool_version: "0.1.0".to_owned(),
                kernel_stamps: true,
                tokenizer: "embedded:test".to_owned(),
                ..Environment::default()
            },
        },
        requests,
        lanes: Vec::new(),
        machine: (0..=seconds)
            .map(|s| MachineSample {
                at: Nanos::from_secs(s),
                cores: 2,
                busy: Nanos(s * 600_000_000),
                steal: Nanos::ZERO,
                own: Nanos(s * 100_000_000),
                target: None,
                lane_wait: Nanos(s * 2_000_000),
                lane_run: Nanos(s * 80_000_000),
                lane_slices: s * 400,
            })
            .collect(),
        clock: (0..=seconds * 10)
            .map(|k| ClockSample {
                at: Nanos(k * 100_000_000),
                offset_ns: 1_000_000_000 + (k % 3) as i64 * 200,
                width: Nanos(500),
            })
            .collect(),
        server: Vec::new(),
        footer: Footer {
            measure_from: from,
            measure_to: to,
            ended,
            planned,
            stopped: Stopped::Finished,
            lost: 0,
            warnings: Vec::new(),
            others: Vec::new(),
        },
        missing: Vec::new(),
    };
    watch_lanes(&mut out);
    out
}

/// Lane samples that agree with the records.
pub fn watch_lanes(run: &mut Run) {
    let levels = in_flight_series(&run.requests);
    let windows = run.footer.ended.0 / 250_000_000 + 1;
    run.lanes = (0..windows)
        .map(|k| {
            let (from, to) = (Nanos(k * 250_000_000), Nanos((k + 1) * 250_000_000));
            LaneSample {
                lane: 0,
                from,
                to,
                busy: Nanos(12_000_000),
                heartbeat_max: Nanos(1_500_000),
                heartbeats: 50,
                in_flight: levels.at(to) as u32,
            }
        })
        .collect();
}

/// Requests of the measurement.
/// Sends a request later, and everything that follows.
pub fn shift(r: &mut Request, by: Nanos) {
    for stamp in
        [&mut r.dispatched, &mut r.write_begin, &mut r.write_end, &mut r.headers, &mut r.done, &mut r.closed]
            .into_iter()
            .flatten()
    {
        *stamp += by;
    }
    for chunk in r.chunks.edit().iter_mut() {
        chunk.arrival += by;
        chunk.seen += by;
        chunk.earliest += by;
    }
}

pub fn measured(run: &mut Run) -> impl Iterator<Item = &mut Request> {
    run.requests.iter_mut().filter(|r| r.phase == Phase::Measure)
}

/// The machine that a self-check is of.
pub fn a_machine() -> record::Machine {
    record::Machine {
        cpu_model: "X".to_owned(),
        cores: 2,
        kernel: "6.1".to_owned(),
        tool_version: "0.1.0".to_owned(),
    }
}
