//! Runs made by hand, each of one kind, for the pages to be made from.
#![allow(dead_code, missing_docs)]

pub mod capacity;
pub mod maximize;
pub mod quality;

use std::collections::BTreeMap;

use measure::Pictures;
use record::{
    Chunk, ClockSample, Connection, Environment, FailureClass, Finish, Footer, Header, InputTokens, Kind,
    LaneSample, MachineSample, OutputTokens, PromptIdentity, Request, Run, State, Stopped, TimeoutKind,
};
use spec::{
    Analysis, Api, Burstiness, CacheProtocol, Client, Closed, Dialect, Extent, Force, JointLimit,
    LengthControl, Lengths, Limit, Load, MarginalLimit, MaxField, Metric, Nanos, Op, Open, Phase, Phases,
    Rate, Readiness, Sampling, Slo, Source, Span, Spec, Statistic, Target, Timeouts, Tls, TokenizerChoice,
    Warmup, Workload,
};

use decide::RunReport;
use decide::sweep::{Asked, Order, Point, Recorded, SweepReport};

/// Noise that every platform repeats (SplitMix64).
struct Noise(u64);

impl Noise {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
    /// `middle` and a tail to the right.
    fn tailed(&mut self, middle: f64) -> f64 {
        let u = self.unit();
        middle * (0.7 + 0.3 * u + 0.12 * (-(1.0 - u).ln()))
    }
}

fn ms(x: f64) -> Nanos {
    Nanos((x * 1e6).round() as u64)
}

/// The report and the pictures of a run.
pub fn report(run: &Run) -> (RunReport, Pictures) {
    let report = RunReport::build(run, &run.header.spec.analysis);
    let pictures = measure::pictures(run, &report.measures);
    (report, pictures)
}

fn spec(load: Load) -> Spec {
    Spec {
        target: Target::Http("http://127.0.0.1:8000".to_owned()).into(),
        api: Api {
            dialect: Dialect::Chat,
            stream: true,
            model: Some("llama-3.1-8b".to_owned()),
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
            osl: Lengths::Fixed(32),
            cache: CacheProtocol::Unique,
            tokenizer: TokenizerChoice::Auto,
        },
        load,
        phases: Phases {
            warmup: Warmup::Requests(12),
            measure: Extent::Duration(Span(Nanos::from_secs(60))),
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

fn open(rate: f64) -> Load {
    Load::Open(Open {
        rate: Rate::new(rate).unwrap(),
        burstiness: Burstiness::POISSON,
        cap: None,
        ramp: None,
    })
}

fn joint(metric: Metric, limit: f64) -> JointLimit {
    let text = format!("{}<={limit}ms", metric.name());
    JointLimit { metric, op: Op::LessEq, value: limit * 1e6, text }
}

fn marginal(p: f64, metric: Metric, limit: f64) -> MarginalLimit {
    MarginalLimit {
        statistic: Statistic::Percentile(p),
        metric,
        op: Op::LessEq,
        value: limit * 1e6,
        text: format!("{}({})<={limit}ms", measure::percentile_name(p), metric.name()),
    }
}

fn request(seq: u64, phase: Phase, intended: Nanos, noise: &mut Noise, tokens: u32) -> Request {
    let write_begin = intended + Nanos(30_000) + Nanos((noise.unit() * 40_000.0) as u64);
    let mut at = write_begin + ms(noise.tailed(52.0));
    let pace = noise.tailed(10.0);
    let mut chunks = Vec::new();
    for read in 0..tokens {
        if read > 0 {
            at += ms(pace * (0.9 + 0.2 * noise.unit()));
        }
        chunks.push(Chunk {
            arrival: at,
            seen: at + Nanos(12_000 + (noise.unit() * 30_000.0) as u64),
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

/// Puts a quiet machine of two cores around requests.
fn around(spec: Spec, requests: Vec<Request>, from: Nanos, to: Nanos) -> Run {
    let ended = requests.iter().filter_map(|r| r.closed).max().unwrap_or(to).max(to);
    let seconds = ended.0 / 1_000_000_000 + 1;
    let planned = requests.iter().filter(|r| r.phase == Phase::Measure).count() as u64;
    let mut environment = Environment {
        started: "2026-11-30T10:15:00Z".to_owned(),
        tool_version: "0.1.0".to_owned(),
        kernel_stamps: true,
        tokenizer: "embedded:test".to_owned(),
        addresses: vec!["127.0.0.1:8000".to_owned()],
        ..Environment::default()
    };
    environment.client.insert("kernel".to_owned(), "Linux 6.8".to_owned());
    environment.note_unknown(&spec.labels);
    let mut run = Run {
        header: Header { schema_version: record::SCHEMA_VERSION, spec, environment },
        lanes: Vec::new(),
        requests,
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
    watch_lanes(&mut run);
    run
}

/// Lane samples that agree with the records.
fn watch_lanes(run: &mut Run) {
    let levels = measure::in_flight_series(&run.requests);
    run.lanes = (0..=run.footer.ended.0 / 250_000_000)
        .map(|k| LaneSample {
            lane: 0,
            from: Nanos(k * 250_000_000),
            to: Nanos((k + 1) * 250_000_000),
            busy: Nanos(12_000_000),
            heartbeat_max: Nanos(1_500_000),
            heartbeats: 50,
            in_flight: levels.at(Nanos((k + 1) * 250_000_000)) as u32,
        })
        .collect();
}

/// Poisson arrivals at `rate`: 2 s of warm-up, then `seconds`.
fn poisson(rate: f64, seconds: u64, tokens: u32) -> Run {
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
        requests.push(request(seq as u64, phase, intended, &mut noise, tokens));
    }
    around(spec(open(rate)), requests, from, to)
}

/// A quiet run with limits that hold, one that is missed and one that is undecided.
pub fn valid() -> Run {
    let mut run = poisson(20.0, 60, 32);
    run.header.spec.slo = Slo {
        joint: vec![joint(Metric::Ttft, 100.0), joint(Metric::Tpot, 16.0)],
        marginal: vec![
            marginal(0.99, Metric::Ttft, 110.0),
            marginal(0.95, Metric::E2e, 380.0),
            MarginalLimit {
                statistic: Statistic::Whole,
                metric: Metric::ErrorRate,
                op: Op::LessEq,
                value: 0.01,
                text: "error_rate<=1%".to_owned(),
            },
        ],
        attain: 0.95,
    };
    run
}

/// The same, without a limit.
pub fn without_limits() -> Run {
    poisson(20.0, 60, 32)
}

/// Sends that come too late during a part of the run.
pub fn client_limited() -> Run {
    late(valid(), Nanos::from_secs(10)..Nanos::from_secs(15))
}

/// Sends that come too late during the whole run.
pub fn invalid() -> Run {
    late(valid(), Nanos::ZERO..Nanos::MAX)
}

/// One request in six leaves 180 ms late.
fn late(mut run: Run, when: std::ops::Range<Nanos>) -> Run {
    let by = ms(180.0);
    let chosen =
        |r: &&mut Request| r.phase == Phase::Measure && r.seq.is_multiple_of(6) && when.contains(&r.intended);
    for r in run.requests.iter_mut().filter(chosen) {
        for stamp in [&mut r.write_begin, &mut r.write_end, &mut r.headers, &mut r.done, &mut r.closed] {
            *stamp = stamp.map(|t| t + by);
        }
        for chunk in r.chunks.edit().iter_mut() {
            chunk.arrival += by;
            chunk.seen += by;
            chunk.earliest += by;
        }
    }
    watch_lanes(&mut run);
    run
}

/// A queue that grows during the whole run: each request waits 0.6 s longer for each second of it.
pub fn overloaded() -> Run {
    let mut run = valid();
    for r in &mut run.requests {
        let wait = Nanos((r.intended.0 as f64 * 0.6) as u64);
        for stamp in [&mut r.headers, &mut r.done, &mut r.closed] {
            *stamp = stamp.map(|t| t + wait);
        }
        for chunk in r.chunks.edit().iter_mut() {
            chunk.arrival += wait;
            chunk.seen += wait;
            chunk.earliest += wait;
        }
    }
    run.footer.ended = run.requests.iter().filter_map(|r| r.closed).max().unwrap();
    watch_lanes(&mut run);
    run
}

/// A server that refuses every request.
pub fn all_failed() -> Run {
    let mut run = poisson(20.0, 10, 32);
    for request in &mut run.requests {
        fail(request, FailureClass::Http4xx, "HTTP 404: {\"error\":\"model `M` does not exist\"}");
    }
    watch_lanes(&mut run);
    run
}

fn fail(request: &mut Request, class: FailureClass, detail: &str) {
    request.state = State::Failed { class, detail: detail.to_owned() };
    request.chunks.edit().clear();
    request.output_reads = 0;
    request.status = Some(404);
    request.output = OutputTokens { asked: Some(32), forced: true, ..OutputTokens::default() };
    request.finish = None;
    request.done = None;
    request.closed = request.write_end.map(|t| t + Nanos(3_000_000));
}

/// Failures of two classes and one stream that stood still.
pub fn some_failed() -> Run {
    let mut run = valid();
    let text = "HTTP 503: {\"error\":\"no healthy upstream\"}";
    for request in run.requests.iter_mut().filter(|r| r.phase == Phase::Measure && r.seq.is_multiple_of(60)) {
        fail(request, FailureClass::Http5xx, text);
    }
    if let Some(request) = run.requests.iter_mut().find(|r| r.seq == 501) {
        request.chunks.edit().truncate(4);
        request.state = State::TimedOut { limit: TimeoutKind::Stalled };
        request.finish = None;
        request.done = None;
    }
    watch_lanes(&mut run);
    run
}

/// One request, one user.
pub fn single() -> Run {
    let mut spec =
        spec(Load::Closed(Closed { concurrency: 1, think: Span::default(), start_over: Span::default() }));
    spec.phases.warmup = Warmup::Requests(0);
    spec.phases.measure = Extent::Requests(1);
    let mut only = request(0, Phase::Measure, Nanos::from_millis(1), &mut Noise(5), 16);
    only.user = Some(0);
    around(spec, vec![only], Nanos::from_millis(1), Nanos::from_millis(1))
}

/// Whole answers instead of streams.
pub fn not_streamed() -> Run {
    let mut run = poisson(20.0, 20, 32);
    run.header.spec.api.stream = false;
    for request in &mut run.requests {
        request.streamed = false;
        if let Some(last) = request.chunks.last() {
            request.chunks = [Chunk { read: 0, ..last }].into_iter().collect();
        }
        request.output_reads = 1;
    }
    watch_lanes(&mut run);
    run
}

/// Sixty requests at once.
pub fn burst() -> Run {
    let mut noise = Noise(3);
    let mut spec = spec(open(f64::INFINITY));
    spec.phases.warmup = Warmup::Requests(0);
    let requests = (0..60).map(|seq| request(seq, Phase::Measure, Nanos(1_000_000), &mut noise, 16));
    around(spec, requests.collect(), Nanos(1_000_000), Nanos(1_000_000))
}

/// Twenty thousand requests.
pub fn large() -> Run {
    let mut run = poisson(330.0, 60, 2);
    run.header.spec.slo.joint = vec![joint(Metric::Ttft, 100.0)];
    run
}

/// A server and a user that try to write into the page.
pub fn hostile() -> Run {
    let mut run = some_failed();
    let evil = "<script>alert('1')</script>\"'&\u{1b}[31m\u{0}\u{7}";
    run.header.spec.api.model = Some(format!("m{evil}"));
    run.header.spec.labels.insert(format!("k{evil}"), evil.to_owned());
    run.header.environment.server.insert(format!("s{evil}"), evil.to_owned());
    run.header.environment.negotiated.push(evil.to_owned());
    run.footer.warnings.push(evil.to_owned());
    for request in &mut run.requests {
        if let State::Failed { detail, .. } = &mut request.state {
            *detail = format!("HTTP 500: {evil}\r\n\"quoted\" \u{202e}");
        }
        request.finish = request.finish.take().map(|_| Finish::Other(evil.to_owned()));
    }
    run
}

/// Every kind with its name.
pub fn all() -> Vec<(&'static str, Run)> {
    vec![
        ("valid", valid()),
        ("without-limits", without_limits()),
        ("client-limited", client_limited()),
        ("invalid", invalid()),
        ("overloaded", overloaded()),
        ("all-failed", all_failed()),
        ("some-failed", some_failed()),
        ("single", single()),
        ("not-streamed", not_streamed()),
        ("burst", burst()),
        ("large", large()),
        ("hostile", hostile()),
    ]
}

/// A closed loop for 30 s against a server that serves 32 at once and lets the others wait.
fn closed_loop(users: u32, seed: u64) -> Run {
    const PLACES: u32 = 32;
    let mut noise = Noise(seed ^ u64::from(users));
    let (from, to) = (Nanos::from_secs(2), Nanos::from_secs(32));
    let wait = 370.0 * f64::from(users.saturating_sub(PLACES)) / f64::from(PLACES);
    let mut spec = spec(Load::Closed(Closed {
        concurrency: users,
        think: Span::default(),
        start_over: Span::default(),
    }));
    spec.seed = seed;
    spec.slo = Slo {
        joint: vec![joint(Metric::Ttft, 500.0), joint(Metric::Tpot, 16.0)],
        marginal: vec![marginal(0.95, Metric::Ttft, 800.0), marginal(0.99, Metric::E2e, 2000.0)],
        attain: 0.95,
    };
    let mut requests = Vec::new();
    for user in 0..users {
        let mut free = ms(noise.unit() * 400.0);
        while free < to {
            let phase = if free < from { Phase::Warmup } else { Phase::Measure };
            let mut r = request(0, phase, free, &mut noise, 32);
            r.user = Some(user);
            let late = ms(wait * (0.8 + 0.4 * noise.unit()));
            for stamp in [&mut r.headers, &mut r.done, &mut r.closed] {
                *stamp = stamp.map(|t| t + late);
            }
            for chunk in r.chunks.edit().iter_mut() {
                chunk.arrival += late;
                chunk.seen += late;
                chunk.earliest += late;
            }
            free = r.closed.unwrap() + Nanos(40_000);
            requests.push(r);
        }
    }
    requests.sort_by_key(|r| r.intended);
    for (seq, r) in requests.iter_mut().enumerate() {
        r.seq = seq as u64;
        r.prompt = PromptIdentity { first16: r.seq + 1, first64: r.seq + 1, whole: r.seq + 1 };
    }
    around(spec, requests, from, to)
}

fn point(runs: Vec<Run>) -> Point {
    let runs = runs.into_iter().enumerate();
    let runs = runs.map(|(i, run)| Recorded { name: format!("2026-11-30T10-15-0{i}Z-m"), run }).collect();
    Point::new(runs, &Analysis::default()).unwrap()
}

fn asked(points: &[Point], repeats: u32) -> Asked {
    Asked {
        spec: points[0].spec.clone(),
        seed: 42,
        loads: points.iter().map(|p| p.load).collect(),
        repeats,
        order: Order::Shuffled,
        accelerators: Some(2),
        missing: Vec::new(),
        ended: None,
        tool_version: "0.1.0".to_owned(),
    }
}

/// A sweep with a knee, three limits that are crossed, and one load that is unknown.
pub fn sweep() -> SweepReport {
    let mut points: Vec<Point> = [1, 2, 4, 8, 16, 32, 64, 128]
        .into_iter()
        .map(|users| point(vec![closed_loop(users, 1), closed_loop(users, 2)]))
        .collect();
    points.push(point(vec![late(closed_loop(256, 1), Nanos::ZERO..Nanos::MAX)]));
    SweepReport::build(asked(&points, 2), points)
}

/// Two rates without a limit, and a third that was not measured.
pub fn partial_sweep() -> SweepReport {
    let points: Vec<Point> = [4.0, 8.0].map(|rate| point(vec![poisson(rate, 20, 32)])).into();
    let asked = Asked {
        accelerators: None,
        missing: vec![16.0],
        ended: Some("it was interrupted".to_owned()),
        ..asked(&points, 1)
    };
    SweepReport::build(asked, points)
}

/// A sweep of a server that writes where it should not.
pub fn hostile_sweep() -> SweepReport {
    let points = vec![point(vec![hostile()])];
    let asked = Asked { ended: Some("<script>alert(1)</script>\u{1b}[2J".to_owned()), ..asked(&points, 1) };
    SweepReport::build(asked, points)
}

/// Every sweep with its name.
pub fn sweeps() -> Vec<(&'static str, SweepReport)> {
    vec![("sweep", sweep()), ("sweep-partial", partial_sweep()), ("sweep-hostile", hostile_sweep())]
}
