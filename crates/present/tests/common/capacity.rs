//! Searches of a simulated server, made in virtual time.

use std::collections::VecDeque;

use decide::capacity::{
    Ask, Criterion, Finished, Fleet, Halt, Happened, Kind, Look, Next, Over, ProbeTrust, ProbeVerdict,
    Runner, Sensitivity, Settings, Simulated, VirtualRunner, What, changes, search, search_tiers,
};
use decide::json::CapacityDocument;
use record::Environment;
use spec::{Burstiness, MarginalLimit, Metric, Nanos, Slo, Span, Statistic, Tier};

use super::{joint, marginal, ms, open};

/// Requests that are answered together.
const PLACES: usize = 48;

/// Continuous batching: each step gives every request in the batch a token and lets one more in.
#[derive(Default)]
pub struct Batching {
    next_id: u64,
    waiting: VecDeque<(u64, u32)>,
    batch: Vec<(u64, u32)>,
    step_ends: Option<Nanos>,
}

impl Batching {
    fn begin(&mut self, now: Nanos) {
        let mut length = 8.0;
        if self.batch.len() < PLACES
            && let Some(next) = self.waiting.pop_front()
        {
            self.batch.push(next);
            length += 20.0;
        }
        length += 0.3 * self.batch.len() as f64;
        self.step_ends = (!self.batch.is_empty()).then(|| now + ms(length));
    }
}

impl Simulated for Batching {
    fn submit(&mut self, now: Nanos, _: u32, output_tokens: u32) -> u64 {
        self.waiting.push_back((self.next_id, output_tokens));
        if self.step_ends.is_none() {
            self.begin(now);
        }
        self.next_id += 1;
        self.next_id - 1
    }
    fn next_event(&self) -> Option<Nanos> {
        self.step_ends
    }
    fn advance(&mut self, to: Nanos, out: &mut Vec<Happened>) {
        while let Some(at) = self.step_ends.filter(|at| *at <= to) {
            for (request, left) in &mut self.batch {
                *left -= 1;
                out.push(Happened { request: *request, at, what: What::Tokens(1) });
                if *left == 0 {
                    out.push(Happened { request: *request, at, what: What::Finished });
                }
            }
            self.batch.retain(|(_, left)| *left > 0);
            self.begin(at);
        }
    }
}

/// The server, behind a client that is late in one probe of the search.
struct LateOnce<R> {
    runner: R,
    left: Option<u32>,
}

impl<R: Runner> Runner for LateOnce<R> {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        let mut finished = self.runner.probe(ask, look)?;
        if ask.kind == Kind::Main {
            if self.left == Some(0) {
                let why = "send-lag: p99 6.8 ms; another process held both cores for 9 s".to_owned();
                finished.trust = ProbeTrust::ClientLimited(why);
            }
            self.left = self.left.and_then(|left| left.checked_sub(1));
        }
        Ok(finished)
    }
}

/// A target that is gone before the first probe.
struct Gone;

impl Runner for Gone {
    fn probe(&mut self, _: &Ask, _: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        Err(Halt::TargetDied("connection refused".to_owned()))
    }
}

pub fn over_rate() -> Over {
    Over::Rate { burstiness: Burstiness::POISSON }
}

fn settings(over: Over, slo: &Slo) -> Settings {
    Settings::new(over, Criterion::of(slo, Nanos::from_secs(60)).unwrap(), 7)
}

fn document(settings: &Settings, slo: Slo, late: Option<u32>, fleet: Option<(u32, f64)>) -> CapacityDocument {
    let server = |_, _| Box::<Batching>::default() as Box<dyn Simulated>;
    let runner = VirtualRunner::new(server, |_, _| (1024, 48));
    made(settings, slo, &mut LateOnce { runner, left: late }, fleet)
}

fn made(
    settings: &Settings,
    slo: Slo,
    runner: &mut dyn Runner,
    fleet: Option<(u32, f64)>,
) -> CapacityDocument {
    let mut spec = super::spec(open(1.0));
    spec.slo = slo;
    let environment = environment();
    let answer = search(settings, runner, &mut |_| {});
    let fleet = fleet.and_then(|(each, demand)| Fleet::of(&answer, Some(each), Some(demand)));
    CapacityDocument::new(&answer, fleet, &spec, &environment)
}

fn environment() -> Environment {
    Environment {
        started: "2026-11-30T10:15:00Z".to_owned(),
        tool_version: "0.1.0".to_owned(),
        ..Environment::default()
    }
}

/// Two tiers from the same probes, with a demand.
pub fn tiers() -> CapacityDocument {
    let texts =
        ["fast: p95(ttft)<=150ms", "standard: ttft<=500ms, tpot<=45ms, attain 90%"].map(str::to_owned);
    let tiers = Tier::read_all(&texts, None).unwrap();
    let all: Vec<Settings> = tiers.iter().map(|tier| settings(over_rate(), &tier.slo)).collect();
    let server = |_, _| Box::<Batching>::default() as Box<dyn Simulated>;
    let mut runner = VirtualRunner::new(server, |_, _| (1024, 48));
    let answers = search_tiers(&all, &mut runner, &mut |_, _| {});
    let parts: Vec<_> = tiers
        .into_iter()
        .zip(answers)
        .map(|(tier, answer)| {
            let fleet = Fleet::of(&answer, Some(8), Some(120.0));
            (tier, answer, fleet)
        })
        .collect();
    CapacityDocument::of_tiers(&parts, &super::spec(open(1.0)), &environment()).unwrap()
}

/// With the answer for other burstiness and lengths: the same answer for each, as far as a page goes.
pub fn sensitivity() -> CapacityDocument {
    let slo = latencies(250.0, 40.0);
    let settings = settings(over_rate(), &slo);
    let server = |_, _| Box::<Batching>::default() as Box<dyn Simulated>;
    let answer = search(&settings, &mut VirtualRunner::new(server, |_, _| (1024, 48)), &mut |_| {});
    let (all, notes) = changes(over_rate(), true);
    let changed: Vec<_> = all.into_iter().map(|change| (change, vec![answer.clone()])).collect();
    let table = Sensitivity::new(over_rate(), &[None], &[answer], &changed, notes);
    CapacityDocument { sensitivity: Some(table), ..resolved() }
}

pub fn latencies(ttft: f64, tpot: f64) -> Slo {
    Slo {
        marginal: vec![marginal(0.95, Metric::Ttft, ttft), marginal(0.95, Metric::Tpot, tpot)],
        ..Slo::default()
    }
}

/// Resolved, with one probe that the client spoilt.
pub fn resolved() -> CapacityDocument {
    let slo = latencies(250.0, 40.0);
    document(&settings(over_rate(), &slo), slo, Some(3), Some((8, 120.0)))
}

/// The same with few probes: wider than asked.
pub fn unresolved() -> CapacityDocument {
    let slo = latencies(250.0, 40.0);
    let few = Settings { max_probes: 2, width: 0.02, ..settings(over_rate(), &slo) };
    document(&few, slo, None, None)
}

/// Limits that not even one user gets.
pub fn unmet() -> CapacityDocument {
    let slo = latencies(15.0, 40.0);
    document(&settings(over_rate(), &slo), slo, None, Some((8, 120.0)))
}

/// Limits that hold as far as loads may be tried.
pub fn not_reached() -> CapacityDocument {
    let slo = Slo { marginal: vec![marginal(0.95, Metric::Ttft, 250.0)], ..Slo::default() };
    let low = Settings { max_load: Some(10.0), ..settings(over_rate(), &slo) };
    document(&low, slo, None, Some((8, 120.0)))
}

/// Whole users, a joint limit, and one on a mean.
pub fn users() -> CapacityDocument {
    let think = Nanos::from_secs(4);
    let slo = Slo {
        joint: vec![joint(Metric::Ttft, 500.0), joint(Metric::Tpot, 45.0)],
        marginal: vec![MarginalLimit {
            statistic: Statistic::Mean,
            metric: Metric::E2e,
            value: 1.5e9,
            text: format!("mean(e2e)<={}", Span(Nanos::from_millis(1500))),
            ..marginal(0.5, Metric::E2e, 1500.0)
        }],
        attain: 0.95,
    };
    document(&settings(Over::Users { think }, &slo), slo, None, None)
}

/// Nothing was measured.
pub fn nothing() -> CapacityDocument {
    let slo = latencies(250.0, 40.0);
    made(&settings(over_rate(), &slo), slo, &mut Gone, Some((8, 120.0)))
}

/// A search whose texts try to write into the page.
pub fn hostile() -> CapacityDocument {
    let mut document = resolved();
    let evil = "<script>alert('1')</script>\"'&\u{1b}[31m\u{0}\u{202e}";
    document.notes.push(evil.to_owned());
    document.verdict.answer.push_str(evil);
    document.answer.limited_by = Some(evil.to_owned());
    document.spec.api.model = Some(evil.to_owned());
    document.environment.started = evil.to_owned();
    for curve in &mut document.curves {
        curve.limit.push_str(evil);
    }
    for probe in &mut document.probes {
        for limit in &mut probe.limits {
            limit.limit.push_str(evil);
        }
        if let ProbeVerdict::ClientLimited { why } = &mut probe.verdict {
            why.push_str(evil);
        }
    }
    document
}

/// Every search with its name.
pub fn all() -> Vec<(&'static str, CapacityDocument)> {
    vec![
        ("capacity", resolved()),
        ("capacity-unresolved", unresolved()),
        ("capacity-unmet", unmet()),
        ("capacity-not-reached", not_reached()),
        ("capacity-users", users()),
        ("capacity-tiers", tiers()),
        ("capacity-sensitivity", sensitivity()),
        ("capacity-nothing", nothing()),
        ("capacity-hostile", hostile()),
    ]
}
