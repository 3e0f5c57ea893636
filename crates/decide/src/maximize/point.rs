//! The throughput of a probe, from its rows.

use measure::repeats::batch_error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{Closed, Load, Nanos, Objective, Turn};

use crate::capacity::{
    Ask, Criterion, Finished, Kind, Over, ProbeTrust, Seen, Z95, batch_means, long_run_variance, mean,
    transient,
};

/// Equal spans of a probe that its throughput is counted in.
const BINS: usize = 20;
/// Requests that end in a mean span, at least.
const PER_BIN: usize = 2;
/// An open loop falls behind when what is in flight grows by more than so many roots of it.
const STILL: f64 = 3.0;
/// Fewer ends tell no throughput.
const FEWEST: usize = 5;

/// The throughput at a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Position among all probes, from 0.
    pub number: u32,
    /// What the probe was for.
    pub kind: Kind,
    /// Where the knobs beside the load stood.
    pub setting: Vec<Turn>,
    /// Requests per second, or users; `null`: a closed loop of a search over rates, which offers none.
    pub load: Option<f64>,
    /// What is maximised, per second; `null`: too little ended, or nobody counts it.
    pub per_s: Option<f64>,
    /// Its standard error as a share of it.
    pub error: Option<f64>,
    /// Requests that ended well, per second.
    pub requests_per_s: Option<f64>,
    /// Of these, within every limit; `null` too where there is none.
    pub goodput_per_s: Option<f64>,
    /// Requests that were intended.
    pub requests: u64,
    /// What held this client back; such a probe says nothing of the server.
    pub client_limited: Option<String>,
}

impl Point {
    pub(super) fn new(
        number: u32,
        setting: &[Turn],
        (over, ask): (Over, &Ask),
        finished: &Finished,
        (objective, criteria): (Objective, &[Criterion]),
    ) -> Self {
        let of = |what: Objective| rate(over, ask, finished, &|seen| weight(what, criteria, seen));
        let value = of(objective);
        let client_limited = match &finished.trust {
            ProbeTrust::Trusted => None,
            ProbeTrust::ClientLimited(why) => Some(why.clone()),
        };
        Self {
            number,
            kind: ask.kind,
            setting: setting.to_vec(),
            load: on_axis(over, ask),
            per_s: value.map(|(per_s, _)| per_s),
            error: value.map(|(_, error)| error),
            requests_per_s: of(Objective::RequestThroughput).map(|(per_s, _)| per_s),
            goodput_per_s: Some(())
                .filter(|()| !criteria.is_empty())
                .and_then(|()| of(Objective::Goodput))
                .map(|(per_s, _)| per_s),
            requests: finished.requests.len() as u64,
            client_limited,
        }
    }

    /// 95 % interval of the throughput.
    pub fn interval(&self) -> Option<(f64, f64)> {
        Some(interval(self.per_s?, self.error?))
    }
}

/// 95 % interval of a value that is known up to a relative standard error; its ends are as many
/// times away.
pub(super) fn interval(value: f64, error: f64) -> (f64, f64) {
    let factor = (Z95 * error).exp();
    (value / factor, value * factor)
}

/// The load as the search counts it; `None`: a warm-up, or a closed loop where rates are searched.
fn on_axis(over: Over, ask: &Ask) -> Option<f64> {
    match (over, &ask.load) {
        _ if ask.kind == Kind::Warm => None,
        (Over::Rate { .. }, Load::Open(open)) => Some(open.rate.per_second()),
        (Over::Concurrency | Over::Users { .. }, Load::Closed(closed)) => Some(f64::from(closed.concurrency)),
        _ => None,
    }
}

/// What an ended request adds; `None`: it is not known.
fn weight(objective: Objective, criteria: &[Criterion], seen: &Seen) -> Option<f64> {
    match objective {
        Objective::OutputTokenThroughput => Some(f64::from(seen.output_tokens)),
        Objective::TotalTokenThroughput => {
            Some(f64::from(seen.output_tokens) + f64::from(seen.input_tokens?))
        }
        Objective::RequestThroughput => Some(1.0),
        Objective::Goodput => {
            let within = criteria.iter().all(|c| c.verdict(seen).is_none_or(|v| v < 1.0));
            Some(f64::from(u8::from(within)))
        }
    }
}

/// Weight per second and its relative standard error.
fn rate(over: Over, ask: &Ask, finished: &Finished, weight: &Weight<'_>) -> Option<(f64, f64)> {
    match &ask.load {
        Load::Open(open) => of_timetable(over, open.rate.per_second(), &finished.requests, weight),
        Load::Closed(closed) => of_users(closed, &finished.requests, weight),
    }
}

/// What an ended request adds.
type Weight<'a> = dyn Fn(&Seen) -> Option<f64> + 'a;

/// Of an open loop. One that keeps up completes what it is offered, so its throughput is the rate times
/// what a request adds, and the luck of the timetable does not matter; of one that falls behind it is
/// what ends in the span in which requests were intended that count, whenever its request was intended.
fn of_timetable(over: Over, rate: f64, requests: &[Seen], weight: &Weight<'_>) -> Option<(f64, f64)> {
    let kept = requests.get(transient(over, rate, requests.len())..)?;
    let (from, to) = (kept.first()?.intended, kept.last()?.intended);
    let inside: Vec<(&Seen, Nanos)> = requests
        .iter()
        .filter_map(|seen| Some((seen, seen.end.filter(|end| *end > from && *end <= to)?)))
        .collect();
    let intended = kept.len() as f64;
    let of = |seen: &Seen| if seen.ok { weight(seen) } else { Some(0.0) };
    if inside.len() < FEWEST {
        return None;
    }
    let took: f64 = inside.iter().map(|(seen, end)| end.saturating_since(seen.intended).as_secs_f64()).sum();
    // A queue that stays where it is varies by about the root of what is in flight (Little 1961).
    let in_flight = rate * took / inside.len() as f64;
    if inside.len() as f64 + 1.0 + STILL * in_flight.sqrt() >= intended {
        let longest = inside.iter().map(|(seen, end)| end.saturating_since(seen.intended)).max()?;
        // The last ones are left out: of them only the short answers have ended.
        let complete = kept.iter().filter(|seen| seen.intended + longest <= to && seen.end.is_some());
        let mut adds: Vec<f64> = complete.map(of).collect::<Option<_>>()?;
        if adds.len() < FEWEST {
            adds = kept.iter().filter(|seen| seen.end.is_some()).map(of).collect::<Option<_>>()?;
        }
        let (n, each) = (adds.len(), mean(&adds));
        let variance = long_run_variance(&batch_means(&adds, BINS), n) / n as f64;
        // What is in flight at either end is the luck of the moment.
        let grown = (intended - inside.len() as f64).max(in_flight.sqrt()) / intended;
        return Some((rate * each, (variance.sqrt() / each).hypot(grown))).filter(|_| each > 0.0);
    }
    let span = to.saturating_since(from).as_secs_f64();
    let count = (inside.len() / PER_BIN).min(BINS);
    let mut bins = vec![0.0; count];
    for (seen, end) in &inside {
        let at = end.saturating_since(from).as_secs_f64() / span;
        bins[((at * count as f64) as usize).min(count - 1)] += of(seen)?;
    }
    let total: f64 = bins.iter().sum();
    // The ends of the span cut a request in two.
    let cut = 0.5 / inside.len() as f64;
    let spread = batch_error(&bins).unwrap_or(1.0 / (inside.len() as f64).sqrt());
    Some((total / span, spread.hypot(cut))).filter(|_| total > 0.0)
}

/// Of a closed loop: users times what a request adds over the time that it and the pause after it take
/// (Little 1961), since users that come and go together make any count over a short time a matter of
/// luck. The first round, in which all begin at once, does not count.
fn of_users(closed: &Closed, requests: &[Seen], weight: &Weight<'_>) -> Option<(f64, f64)> {
    let users = closed.concurrency as usize;
    let ended = requests.iter().take_while(|seen| seen.end.is_some()).count();
    let cycles: Vec<(f64, f64)> = requests[users.min(2 * ended / 3)..ended]
        .iter()
        .map(|seen| {
            let took = seen.end?.saturating_since(seen.intended) + closed.think.0;
            Some((if seen.ok { weight(seen)? } else { 0.0 }, took.as_secs_f64()))
        })
        .collect::<Option<_>>()?;
    let n = cycles.len();
    let (total, time) = cycles.iter().fold((0.0, 0.0), |(w, t), cycle| (w + cycle.0, t + cycle.1));
    if n < FEWEST || total <= 0.0 || time <= 0.0 {
        return None;
    }
    let each = total / time;
    let residuals: Vec<f64> = cycles.iter().map(|(w, t)| w - each * t).collect();
    let variance = long_run_variance(&batch_means(&residuals, BINS), n) / n as f64;
    Some((f64::from(closed.concurrency) * each, variance.sqrt() * n as f64 / total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::{Burstiness, Open, Rate, Span};

    /// Two users, a request each 100 ms, ten tokens out of twenty in: 20 requests a second.
    fn steady() -> (Ask, Finished) {
        let load =
            Load::Closed(Closed { concurrency: 2, think: Span::default(), start_over: Span::default() });
        let ask = Ask {
            number: 0,
            kind: Kind::Main,
            load,
            seed: 1,
            max_requests: 100,
            max_time: Nanos::from_secs(60),
        };
        let one = |i: u64| Seen {
            intended: Nanos::from_millis(100 * (i / 2)),
            end: Some(Nanos::from_millis(100 * (i / 2) + 100)),
            ok: true,
            ttft: Some(Nanos::from_millis(if i.is_multiple_of(2) { 50 } else { 90 })),
            output_tokens: 10,
            input_tokens: Some(20),
            ..Seen::default()
        };
        let requests: Vec<Seen> = (0..82).map(one).collect();
        let now = Nanos::from_millis(4_100);
        (
            ask,
            Finished {
                requests,
                now,
                trust: ProbeTrust::Trusted,
                waited: crate::capacity::Waited::default(),
            },
        )
    }

    fn point(objective: Objective, change: impl Fn(&mut Seen)) -> Point {
        let (ask, mut finished) = steady();
        finished.requests.iter_mut().for_each(change);
        let slo = spec::Slo { marginal: vec!["p95(ttft)<=60ms".parse().unwrap()], ..spec::Slo::default() };
        let criteria = Criterion::of(&slo, Nanos::from_secs(60)).unwrap();
        Point::new(3, &[], (Over::Concurrency, &ask), &finished, (objective, &criteria))
    }

    #[test]
    fn users_over_the_time_that_a_request_takes_are_a_throughput() {
        let near = |objective, wanted: f64| {
            let value = point(objective, |_| {}).per_s.unwrap();
            assert!((value / wanted - 1.0).abs() < 1e-9, "{objective}: {value}");
        };
        near(Objective::RequestThroughput, 20.0);
        near(Objective::OutputTokenThroughput, 200.0);
        near(Objective::TotalTokenThroughput, 600.0);
        near(Objective::Goodput, 10.0);
        let point = point(Objective::OutputTokenThroughput, |_| {});
        assert_eq!((point.load, point.number), (Some(2.0), 3));
        assert!(point.error.unwrap() < 1e-9);
    }

    fn of_rate(rate: f64) -> Point {
        let (mut ask, finished) = steady();
        let rate = Rate::new(rate).unwrap();
        ask.load = Load::Open(Open { rate, burstiness: Burstiness::POISSON, cap: None, ramp: None });
        let over = Over::Rate { burstiness: Burstiness::POISSON };
        Point::new(0, &[], (over, &ask), &finished, (Objective::OutputTokenThroughput, &[]))
    }

    /// All end, ten tokens each: ten times the rate, whatever the timetable had.
    #[test]
    fn an_open_loop_that_keeps_up_completes_what_it_is_offered() {
        let point = of_rate(19.0);
        assert!((point.per_s.unwrap() - 190.0).abs() < 1e-9, "{point:?}");
        assert_eq!((point.load, point.goodput_per_s), (Some(19.0), None));
        // Two of 66 are in flight at the end.
        assert!((point.error.unwrap() - 2.0 / 66.0).abs() < 1e-9, "{point:?}");
    }

    /// Two are intended each 10 ms and one ends: it falls behind. From 0.16 s to 0.8 s 64 end.
    #[test]
    fn an_open_loop_that_falls_behind_gives_what_ends() {
        let one = |i: u64| Seen {
            intended: Nanos::from_millis(5 * i),
            end: Some(Nanos::from_millis(10 * i + 5)).filter(|end| *end <= Nanos::from_millis(800)),
            ok: true,
            output_tokens: 10,
            ..Seen::default()
        };
        let requests: Vec<Seen> = (0..=160).map(one).collect();
        let over = Over::Rate { burstiness: Burstiness::POISSON };
        let (per_s, error) = of_timetable(over, 200.0, &requests, &|_| Some(10.0)).unwrap();
        assert!((per_s / 1000.0 - 1.0).abs() < 0.02 && error < 0.05, "{per_s} ± {error}");
    }

    #[test]
    fn what_nobody_counts_or_did_not_end_well_is_no_throughput() {
        assert_eq!(point(Objective::TotalTokenThroughput, |s| s.input_tokens = None).per_s, None);
        assert_eq!(point(Objective::RequestThroughput, |s| s.ok = false).per_s, None);
        let half = point(Objective::RequestThroughput, |s| s.ok = s.ttft == Some(Nanos::from_millis(50)));
        assert!((half.per_s.unwrap() - 10.0).abs() < 1e-9);
    }
}
