//! One probe: looks, stops, and what is kept of it.

use measure::interval::wilson_at;
use spec::Nanos;

use super::answer::{Latency, Measured, ProbeVerdict};
use super::criterion::Criterion;
use super::evidence::{Pool, Probe, Sample, determined, transient};
use super::fit::{Model, gap_cv};
use super::guard::diverges;
use super::ramp::{Asker, again};
use super::runner::{Finished, Halt, Kind, Look, Next, ProbeTrust, Seen};
use super::settings::{FIRST_LOOK, Over, Settings};
use super::stats::mean;

/// Misses in the last third that end a hopeless probe, at two successive looks.
const HOPELESS: f64 = 0.8;
/// A mean counts as hopeless at so many times its limit.
const HOPELESS_MEAN: f64 = 4.0;
/// Requests before which nothing is hopeless.
const HOPELESS_FROM: usize = 150;
/// A pass needs at least this share of the independent requests that the virtual queue asks for: a
/// clean probe from an empty start says little near saturation.
const PASSING: f64 = 0.5;
/// Fewer determined requests say nothing.
const LEAST: usize = 20;
const DAY: Nanos = Nanos::from_secs(86_400);

/// How a probe decides.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rule {
    pub kind: Kind,
    /// Standard errors.
    pub z: f64,
    /// Requests at which it ends undecided.
    pub cap: u64,
    /// For each criterion what earlier probes say of noise and control; `None`: its own.
    pub pools: Vec<Option<Pool>>,
    /// Where the crossing is thought to lie.
    pub centre: f64,
    /// What is in flight at this load when the server is full, by the ramp.
    pub full: f64,
}

struct Progress<'a> {
    settings: &'a Settings,
    model: &'a Model,
    rule: &'a Rule,
    load: f64,
    hopeless_before: bool,
}

impl Progress<'_> {
    /// What the first requests say, as known at `now`; `None`: nothing yet.
    fn verdict(&mut self, first: &[Seen], now: Nanos) -> Option<ProbeVerdict> {
        let n = first.len();
        let dropped = transient(self.settings.over, self.load, n);
        // A wave that breaks no limit is no failure, and growth without end will break one.
        let breaks = |c: &Criterion| {
            let series: Vec<Option<f64>> = first.iter().map(|r| c.verdict(r)).collect();
            of_last_third(&series).is_some_and(|value| value > c.target().unwrap_or(1.0))
        };
        if let Over::Rate { burstiness } = self.settings.over
            && self.settings.criteria.iter().any(breaks)
            && diverges(first, now, gap_cv(burstiness), self.rule.full)
        {
            return Some(ProbeVerdict::Divergent);
        }
        let intended: Vec<f64> = first.iter().map(|r| r.intended.as_secs_f64()).collect();
        // Below the crossing a short check has its own word; at it and above, crowds take their time.
        let is_near = self.rule.kind != Kind::Below;
        let (mut passed, mut hopeless) = (true, false);
        for (c, criterion) in self.settings.criteria.iter().enumerate() {
            let series: Vec<Option<f64>> = first.iter().map(|r| criterion.verdict(r)).collect();
            hopeless |= is_hopeless(&series, criterion);
            let pool = self.rule.pools[c];
            let uses_control = pool.is_some_and(|p| p.b > 0.0);
            let controls = uses_control
                .then(|| self.model.controls(c, self.load, &intended, self.rule.centre))
                .flatten();
            let sample = Sample::new(&series, dropped, controls.as_ref());
            if sample.m == 0 {
                passed = false;
                continue;
            }
            let is_share = criterion.target().is_some();
            let mut pool = pool.unwrap_or_else(|| {
                let expected =
                    is_near.then(|| self.model.inflation(c, self.load, self.rule.centre)).flatten();
                Pool { b: 0.0, ..Pool::of(&[(sample.clone(), 1.0)], criterion.target(), expected) }
            });
            if is_near && is_share && sample.corrected(pool.b) < criterion.target().unwrap_or(0.0) {
                let expected = self.model.inflation(c, self.load, self.rule.centre).unwrap_or(1.0);
                pool.inflation = pool.inflation.max(PASSING * expected);
            }
            match side(criterion, &sample, pool, self.rule.z) {
                Some(true) => {}
                Some(false) => return Some(ProbeVerdict::Fail),
                None => passed = false,
            }
        }
        if passed {
            return Some(ProbeVerdict::Pass);
        }
        let hopeless = hopeless && n >= HOPELESS_FROM;
        let twice = hopeless && self.hopeless_before;
        self.hopeless_before = hopeless;
        twice.then_some(ProbeVerdict::Fail)
    }
}

/// On which side of its target a sample lies: `true` within the limit; `None`: undecided.
fn side(criterion: &Criterion, sample: &Sample, pool: Pool, z: f64) -> Option<bool> {
    let value = sample.corrected(pool.b);
    let (low, high, target) = match criterion.target() {
        Some(q) => {
            let interval = wilson_at(value.clamp(0.0, 1.0), sample.m as f64 / pool.inflation, z);
            (interval.low?, interval.high?, q)
        }
        None => {
            let half = z * (pool.inflation / sample.m as f64).sqrt() * value;
            (value - half, value + half, 1.0)
        }
    };
    if high < target {
        Some(true)
    } else if low > target {
        Some(false)
    } else {
        None
    }
}

fn is_hopeless(series: &[Option<f64>], criterion: &Criterion) -> bool {
    let worst = if criterion.target().is_some() { HOPELESS } else { HOPELESS_MEAN };
    of_last_third(series).is_some_and(|value| value >= worst)
}

/// Mean over the last third of the requests; `None`: the limit applies to none of them.
fn of_last_third(series: &[Option<f64>]) -> Option<f64> {
    let last: Vec<f64> = series[series.len() - series.len() / 3..].iter().filter_map(|v| *v).collect();
    (!last.is_empty()).then(|| mean(&last))
}

/// Runs a probe at `load` and keeps what it says.
pub(super) fn run(
    asker: &mut Asker<'_>,
    model: &Model,
    rule: &Rule,
    load: f64,
    e2e: Option<f64>,
) -> Result<Probe, Halt> {
    let settings = asker.settings;
    let criteria = &settings.criteria;
    let is_open = matches!(settings.over, Over::Rate { .. });
    let (first, cap) = match settings.over {
        Over::Rate { .. } => {
            let least = (load * settings.least_time.as_secs_f64()).ceil() as u64;
            (FIRST_LOOK, rule.cap.max(least))
        }
        _ => {
            let least = 3 * load as u64;
            (FIRST_LOOK.max(least), rule.cap.max(least))
        }
    };
    let mut progress = Progress { settings, model, rule, load, hopeless_before: false };
    let mut want = first.min(cap);
    let mut decided: Option<(ProbeVerdict, usize)> = None;
    let mut look = |look: Look<'_>| loop {
        let n = want as usize;
        let Some(first) = look.requests.get(..n) else { return again(criteria, look.requests, n) };
        if determined(criteria, first, look.now) < n {
            return again(criteria, first, n);
        }
        let now = moment(criteria, first);
        let verdict = progress.verdict(first, now);
        let long_enough = now >= settings.least_time || verdict == Some(ProbeVerdict::Divergent);
        if verdict.is_some() && long_enough {
            decided = verdict.map(|v| (v, n));
            return Next::Stop;
        }
        if want >= cap && (long_enough || is_open) {
            decided = Some((verdict.unwrap_or(ProbeVerdict::Undecided), n));
            return Next::Stop;
        }
        want = if want >= cap { want * 2 } else { (want + want / 2).min(cap) };
    };
    let (most, time) = if is_open {
        // The last of them is intended about cap / load after the start.
        (cap, Nanos::from_secs_f64((2.0 * cap as f64 / load).min(3e8)) + Nanos::from_secs(10))
    } else {
        (cap * 16 + 4 * load as u64, DAY)
    };
    let finished = asker.ask(rule.kind, settings.over.load(load, e2e), (most, time), &mut look)?;
    Ok(keep(settings, rule, load, asker.number - 1, &finished, decided))
}

/// What a probe that was made under other limits says under these. Only what was known when the last
/// request was intended counts: from then on the server is no longer under this load.
pub(super) fn borrow(
    settings: &Settings,
    model: &Model,
    rule: &Rule,
    load: f64,
    number: u32,
    finished: &Finished,
) -> Probe {
    let sent = finished.requests.iter().map(|r| r.intended).max().unwrap_or_default();
    let known = determined(&settings.criteria, &finished.requests, sent.min(finished.now));
    let least = if settings.over.is_whole() { FIRST_LOOK.max(3 * load as u64) } else { FIRST_LOOK } as usize;
    let mut progress = Progress { settings, model, rule, load, hopeless_before: false };
    let (mut verdict, mut n) = (None, least);
    while n < known {
        let first = &finished.requests[..n];
        verdict = progress.verdict(first, moment(&settings.criteria, first));
        n += n / 2;
    }
    if known >= least {
        let first = &finished.requests[..known];
        verdict = progress.verdict(first, moment(&settings.criteria, first));
    }
    let decided = Some((verdict.unwrap_or(ProbeVerdict::Undecided), known));
    Probe { borrowed: true, ..keep(settings, rule, load, number, finished, decided) }
}

/// When the last of these requests was determined.
fn moment(criteria: &[Criterion], first: &[Seen]) -> Nanos {
    let known = |r: &Seen| {
        let horizon = criteria.iter().map(|c| c.horizon(r)).max().unwrap_or_default();
        r.end.map_or(r.intended + horizon, |end| end.min(r.intended + horizon))
    };
    first.iter().map(known).max().unwrap_or_default()
}

fn keep(
    settings: &Settings,
    rule: &Rule,
    load: f64,
    number: u32,
    finished: &Finished,
    decided: Option<(ProbeVerdict, usize)>,
) -> Probe {
    let criteria = &settings.criteria;
    let (mut verdict, n) = decided
        .unwrap_or_else(|| (ProbeVerdict::Undecided, determined(criteria, &finished.requests, finished.now)));
    let n = n.min(finished.requests.len());
    let first = &finished.requests[..n];
    let dropped = if n < LEAST { n } else { transient(settings.over, load, n) };
    let measured = measured(criteria, finished, n, dropped);
    if let ProbeTrust::ClientLimited(why) = &finished.trust {
        verdict = ProbeVerdict::ClientLimited { why: why.clone() };
    }
    Probe {
        number,
        kind: rule.kind,
        load,
        verdict,
        intended: first.iter().map(|r| r.intended.as_secs_f64()).collect(),
        series: criteria.iter().map(|c| first.iter().map(|r| c.verdict(r)).collect()).collect(),
        dropped,
        measured,
        borrowed: false,
    }
}

fn measured(criteria: &[Criterion], finished: &Finished, n: usize, dropped: usize) -> Measured {
    let kept = &finished.requests[dropped..n];
    let now = finished.now;
    let mut out = Measured {
        requests: kept.len() as u64,
        intended: finished.requests.len() as u64,
        duration_ns: now.0,
        ..Measured::default()
    };
    let ended = |r: &Seen| r.ok && r.end.is_some_and(|e| e <= now);
    out.failed = kept.iter().filter(|r| !ended(r)).count() as u64;
    let (Some(from), Some(to)) = (kept.first().map(|r| r.intended), kept.last().map(|r| r.intended)) else {
        return out;
    };
    let span = to.saturating_since(from).as_secs_f64();
    if span > 0.0 {
        // All ends within the span, also of requests that were intended before it.
        let within = |r: &&Seen| r.ok && r.end.is_some_and(|e| e > from && e <= to);
        let inside: Vec<&Seen> = finished.requests.iter().filter(within).collect();
        let good = |r: &&&Seen| criteria.iter().all(|c| c.verdict(r).is_none_or(|v| v < 1.0));
        let overlap =
            |r: &Seen| r.end.unwrap_or(now).min(to).saturating_since(r.intended.max(from)).as_secs_f64();
        out.requests_per_s = Some(inside.len() as f64 / span);
        out.goodput_per_s = Some(inside.iter().filter(good).count() as f64 / span);
        out.output_tokens_per_s = Some(inside.iter().map(|r| f64::from(r.output_tokens)).sum::<f64>() / span);
        out.in_flight = Some(finished.requests.iter().map(overlap).sum::<f64>() / span);
    }
    let latency =
        |f: fn(&Seen) -> Option<f64>| latency(kept.iter().filter(|r| ended(r)).filter_map(f).collect());
    out.ttft = latency(|r| r.ttft.map(|t| t.0 as f64));
    out.tpot = latency(|r| r.tpot);
    out.e2e = latency(|r| r.e2e.map(|t| t.0 as f64));
    out
}

fn latency(mut values: Vec<f64>) -> Option<Latency> {
    values.sort_by(f64::total_cmp);
    let at = |p: f64| values.get((p * values.len() as f64) as usize).or(values.last()).copied();
    Some(Latency { p50_ns: at(0.5)?, p95_ns: at(0.95)?, p99_ns: at(0.99)? })
}
