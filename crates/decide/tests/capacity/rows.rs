//! The rows of the calibration: a server, a limit, a load, and the truth.

use decide::capacity::{
    Ask, Control, Criterion, Finished, Halt, Look, Next, Over, Runner, Seen, Settings, Simulated,
    VirtualRunner,
};
use sim::draw::{Stream, normal, uniform};
use spec::{Burstiness, Nanos, Slo};

use super::servers::{Delay, Pairs, Queue, batching, fifo};

/// Makes a drained server, given a seed and the time since the search began.
pub type Server = fn(u64, Nanos) -> Box<dyn Simulated>;

/// One row.
#[derive(Clone, Copy)]
pub struct Row {
    pub name: &'static str,
    pub over: Load,
    /// Limits; a `%` at the front of the first sets the attainment of joint ones.
    pub limits: &'static [&'static str],
    pub server: Server,
    /// Input and output tokens on average, each spread evenly by half of it to both sides.
    pub tokens: (u32, u32),
    /// Noise between runs, of every latency.
    pub noise: f64,
    /// From long runs ([`super::truth`]); `None`: there is no single one.
    pub truth: Option<f64>,
    pub expect: Expect,
    pub max_load: Option<f64>,
    pub control: Control,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Load {
    Rate(f64),
    Concurrency,
    Users(f64),
}

/// What the row must show.
#[derive(Clone, Copy, PartialEq)]
pub enum Expect {
    /// Its bracket holds the truth in this share of seeds, and is narrow in that share.
    Bracket {
        coverage: f64,
        narrow: f64,
    },
    Unstable(f64),
    Unmet,
    NotReached,
}

const fn bracket(coverage: f64, narrow: f64) -> Expect {
    Expect::Bracket { coverage, narrow }
}

const RIGHT: Control = Control { used: true, places: 1.0, speed: 1.0 };
const OFF: Control = Control { used: false, ..RIGHT };
const WRONG: Control = Control { places: 0.7, speed: 0.85, ..RIGHT };

const BASE: Row = Row {
    name: "",
    over: Load::Rate(1.0),
    limits: &["p95(ttft)<=200ms"],
    server: |_, _| fifo(0.02, 1, None, 0.0, 1),
    tokens: (1, 1),
    noise: 0.0,
    truth: None,
    expect: bracket(0.92, 0.6),
    max_load: None,
    control: RIGHT,
};

/// 64 places, prompts of 512 and answers of 64 tokens.
fn batch(_: u64, _: Nanos) -> Box<dyn Simulated> {
    batching("h100", 64, 100_000, 2048)
}

const BATCH: Row = Row { server: batch, tokens: (512, 128), ..BASE };

/// Every row of the table.
pub const ROWS: &[Row] = &[
    Row { name: "fifo, Poisson, p95", truth: Some(42.43), ..BASE },
    Row { name: "fifo, Poisson, p99", limits: &["p99(ttft)<=200ms"], truth: Some(38.71), ..BASE },
    Row { name: "fifo, burstiness 0.25, p95", over: Load::Rate(0.25), truth: Some(24.74), ..BASE },
    Row {
        name: "fifo, loose limit (50 services)",
        limits: &["p95(ttft)<=1s"],
        truth: Some(48.63),
        expect: bracket(0.85, 0.0),
        ..BASE
    },
    Row {
        name: "batching, closed, p95",
        truth: Some(68.0),
        over: Load::Concurrency,
        limits: &["p95(ttft)<=200ms"],
        expect: bracket(0.92, 0.9),
        ..BATCH
    },
    Row { name: "batching, Poisson, p95", truth: Some(33.84), limits: &["p95(ttft)<=200ms"], ..BATCH },
    Row { name: "batching, Poisson, p99", truth: Some(31.6), limits: &["p99(ttft)<=200ms"], ..BATCH },
    Row {
        name: "batching, closed, joint",
        truth: Some(50.0),
        over: Load::Concurrency,
        limits: &["%95", "ttft<=200ms", "tpot<=12ms"],
        expect: bracket(0.92, 0.9),
        ..BATCH
    },
    Row {
        name: "batching, burstiness 0.25, p95",
        truth: Some(25.59),
        over: Load::Rate(0.25),
        limits: &["p95(ttft)<=200ms"],
        ..BATCH
    },
    Row {
        name: "batching, Poisson, joint",
        truth: Some(28.76),
        limits: &["%95", "ttft<=200ms", "tpot<=12ms"],
        expect: bracket(0.92, 0.8),
        ..BATCH
    },
    Row {
        name: "cliff at 300, closed",
        over: Load::Concurrency,
        server: |seed, _| Delay::boxed(seed, |n, luck| if n >= 300 { 0.5 } else { 0.1 * (0.1 * luck).exp() }),
        truth: Some(300.0),
        expect: bracket(0.92, 0.9),
        ..BASE
    },
    Row {
        name: "cliff at 64, Poisson",
        server: |seed, _| Delay::boxed(seed, |n, _| if n >= 64 { 1.1 } else { 1.0 }),
        limits: &["p95(ttft)<=1050ms"],
        truth: Some(51.08),
        ..BASE
    },
    Row {
        name: "cliff at 700, closed",
        over: Load::Concurrency,
        server: |seed, _| Delay::boxed(seed, |n, luck| if n >= 700 { 0.5 } else { 0.1 * (0.1 * luck).exp() }),
        truth: Some(700.0),
        expect: bracket(0.92, 0.9),
        ..BASE
    },
    Row {
        name: "fifo, 15 % noise between runs",
        noise: 0.15,
        truth: Some(42.43),
        expect: bracket(0.84, 0.0),
        ..BASE
    },
    Row {
        name: "flat, 15 % noise between runs",
        server: flat,
        noise: 0.15,
        truth: FLAT,
        expect: bracket(0.92, 0.0),
        ..BASE
    },
    Row { name: "flat, no noise", server: flat, truth: FLAT, expect: bracket(0.92, 0.4), ..BASE },
    Row {
        name: "shedding beyond 8 waiting",
        server: |_, _| fifo(0.02, 1, Some(8), 0.0, 1),
        truth: Some(49.17),
        expect: bracket(0.92, 0.25),
        ..BASE
    },
    Row {
        name: "fifo with a hole from 25 to 35/s",
        server: |seed, born| {
            Queue::boxed(seed, born, |a| {
                (0.02, if a.rate > 25.0 && a.rate < 35.0 && a.luck > 0.8 { 0.4 } else { 0.0 })
            })
        },
        expect: Expect::Unstable(0.6),
        ..BASE
    },
    Row {
        name: "slow when idle, in twos",
        truth: Some(41.68),
        server: |_, _| Pairs::boxed(0.02, 0.3),
        expect: bracket(0.92, 0.0),
        ..BASE
    },
    Row {
        name: "warms up over 20 s",
        server: |seed, born| Queue::boxed(seed, born, |a| (0.02 * (1.0 + (-a.age / 4.0).exp()), 0.0)),
        truth: Some(42.43),
        ..BASE
    },
    Row {
        name: "tiny, 0.39/s",
        server: |_, _| fifo(2.166_67, 1, None, 0.0, 1),
        limits: &["p95(ttft)<=21667ms"],
        truth: Some(0.3917),
        ..BASE
    },
    Row {
        name: "huge, 2,896/s",
        server: |_, _| fifo(0.000_293, 1, None, 0.0, 1),
        limits: &["p95(ttft)<=2930us"],
        truth: Some(2896.0),
        ..BASE
    },
    Row {
        name: "fifo, Poisson, p95, no virtual queue",
        truth: Some(42.43),
        control: OFF,
        expect: bracket(0.9, 0.0),
        ..BASE
    },
    Row {
        name: "fifo, Poisson, p95, a wrong virtual queue",
        truth: Some(42.43),
        control: WRONG,
        expect: bracket(0.9, 0.0),
        ..BASE
    },
    Row {
        name: "batching, Poisson, p95, no virtual queue",
        truth: Some(33.84),
        limits: &["p95(ttft)<=200ms"],
        control: OFF,
        expect: bracket(0.9, 0.0),
        ..BATCH
    },
    Row {
        name: "batching, Poisson, p95, a wrong virtual queue",
        truth: Some(33.84),
        limits: &["p95(ttft)<=200ms"],
        control: WRONG,
        expect: bracket(0.9, 0.0),
        ..BATCH
    },
    // Others: further disciplines, lengths and limits.
    Row {
        name: "others: fifo, two servers",
        truth: Some(41.70),
        server: |_, _| fifo(0.04, 2, None, 0.0, 1),
        ..BASE
    },
    Row {
        name: "others: fifo, service times vary by half",
        truth: Some(40.63),
        server: |seed, _| fifo(0.02, 1, None, 0.5, seed),
        ..BASE
    },
    Row {
        name: "others: fifo, burstiness 4, p95",
        truth: Some(44.14),
        over: Load::Rate(4.0),
        limits: &["p95(ttft)<=100ms"],
        server: |seed, _| fifo(0.02, 1, None, 0.3, seed),
        ..BASE
    },
    Row {
        name: "others: batching, 16 places on a100",
        truth: Some(6.80),
        server: |_, _| batching("a100", 16, 100_000, 2048),
        limits: &["p95(ttft)<=600ms"],
        tokens: (900, 60),
        ..BASE
    },
    Row {
        name: "others: batching, short of KV blocks",
        truth: Some(25.49),
        server: |_, _| batching("h100", 256, 1500, 2048),
        limits: &["p95(ttft)<=500ms"],
        tokens: (512, 128),
        ..BASE
    },
    Row {
        name: "others: batching, 256 places, p95 of TTFT and of TPOT",
        truth: Some(53.24),
        server: |_, _| batching("h100", 256, 22_000, 8192),
        limits: &["p95(ttft)<=500ms", "p95(tpot)<=40ms"],
        tokens: (512, 128),
        ..BASE
    },
    Row {
        name: "others: fifo, users who think for 2 s",
        truth: Some(99.0),
        over: Load::Users(2.0),
        server: |seed, _| fifo(0.02, 1, None, 0.5, seed),
        ..BASE
    },
    Row {
        name: "others: batching, p95 of TTFT and of TPOT",
        truth: Some(28.65),
        limits: &["p95(ttft)<=200ms", "p95(tpot)<=12ms"],
        ..BATCH
    },
    Row { name: "others: batching, mean TPOT", truth: Some(31.70), limits: &["mean(tpot)<=11ms"], ..BATCH },
    Row { name: "others: fifo, mean TTFT", truth: Some(42.81), limits: &["mean(ttft)<=80ms"], ..BASE },
    Row { name: "others: fifo, p90", truth: Some(37.68), limits: &["p90(ttft)<=100ms"], ..BASE },
    Row {
        name: "others: shedding, 2 % of errors",
        truth: Some(44.62),
        limits: &["error_rate<=2%"],
        server: |_, _| fifo(0.02, 1, Some(8), 0.0, 1),
        ..BASE
    },
    Row {
        name: "others: a limit below the service time",
        limits: &["p95(ttft)<=15ms"],
        expect: Expect::Unmet,
        ..BASE
    },
    Row {
        name: "others: batching, 256 places, a limit beyond the largest load",
        server: |_, _| batching("h100", 256, 22_000, 8192),
        limits: &["p95(ttft)<=500ms", "p95(tpot)<=40ms"],
        tokens: (512, 128),
        expect: Expect::NotReached,
        max_load: Some(40.0),
        ..BASE
    },
    Row {
        name: "others: a limit beyond the largest load",
        max_load: Some(30.0),
        expect: Expect::NotReached,
        ..BASE
    },
];

const FLAT: Option<f64> = Some(35.25);

/// Latency grows with the cube root of the requests in flight, hence with the root of the rate; it
/// varies by 20 % from request to request.
fn flat(seed: u64, _: Nanos) -> Box<dyn Simulated> {
    Delay::boxed(seed, |n, luck| 0.0766 * f64::from(n + 1).cbrt() * (0.2 * luck).exp())
}

impl Row {
    pub fn over(&self) -> Over {
        match self.over {
            Load::Rate(shape) => Over::Rate { burstiness: Burstiness::new(shape).expect("a shape") },
            Load::Concurrency => Over::Concurrency,
            Load::Users(think) => Over::Users { think: Nanos::from_secs_f64(think) },
        }
    }

    pub fn criteria(&self) -> Vec<Criterion> {
        let mut slo = Slo::default();
        for limit in self.limits {
            if let Some(percent) = limit.strip_prefix('%') {
                slo.attain = percent.parse::<f64>().expect("a percentage") / 100.0;
            } else if limit.contains('(') || limit.starts_with("error") {
                slo.marginal.push(limit.parse().expect("a limit"));
            } else {
                slo.joint.push(limit.parse().expect("a limit"));
            }
        }
        Criterion::of(&slo, Nanos::from_secs(60)).expect("limits on load")
    }

    pub fn settings(&self, seed: u64) -> Settings {
        let mut settings = Settings::new(self.over(), self.criteria(), seed);
        settings.least_time = Nanos::ZERO;
        settings.max_load = self.max_load;
        settings.control = self.control;
        settings
    }

    /// The runner of a search.
    pub fn runner(&self) -> Noisy<impl Runner> {
        Noisy { inner: self.virtual_time(), sd: self.noise }
    }

    pub fn virtual_time(&self) -> VirtualRunner<Server, impl FnMut(u64, u64) -> (u32, u32)> {
        let (input, output) = self.tokens;
        let around = |mean: u32, seed: u64, n: u64| {
            let share = 0.5 + uniform(seed, Stream::Words, n);
            ((f64::from(mean) * share).round() as u32).max(1)
        };
        let draw = move |seed: u64, n: u64| (around(input, seed, 2 * n), around(output, seed, 2 * n + 1));
        VirtualRunner::new(self.server, draw)
    }
}

/// Every latency of a run is longer or shorter by the same factor, drawn for each run.
pub struct Noisy<R> {
    pub inner: R,
    pub sd: f64,
}

impl<R: Runner> Runner for Noisy<R> {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        if self.sd <= 0.0 {
            return self.inner.probe(ask, look);
        }
        let factor = (self.sd * normal(ask.seed, Stream::Length, 0)).exp();
        let slowed = |seen: &Seen| {
            let longer = |t: Nanos| Nanos((t.0 as f64 * factor) as u64);
            Seen {
                ttft: seen.ttft.map(longer),
                e2e: seen.e2e.map(longer),
                tpot: seen.tpot.map(|t| t * factor),
                ..*seen
            }
        };
        let mut finished = self.inner.probe(ask, &mut |seen| {
            let requests: Vec<Seen> = seen.requests.iter().map(slowed).collect();
            look(Look { now: seen.now, requests: &requests })
        })?;
        finished.requests.iter_mut().for_each(|r| *r = slowed(r));
        Ok(finished)
    }
}
