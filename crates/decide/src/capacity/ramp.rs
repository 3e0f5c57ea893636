//! The unloaded server, and the closed-loop ramp that shows its ceiling and calibrates the virtual
//! queue.

use std::ops::Range;

use spec::{Metric, Nanos};

use super::answer::StageReport;
use super::criterion::Criterion;
use super::evidence::determined;
use super::runner::{Ask, Finished, Halt, Kind, Next, ProbeTrust, Runner, Seen};
use super::settings::{CHECKED, MAX_USERS, Over, Settings};
use super::stats::{interpolate, mean, median};
use crate::words::limit_time;

/// Requests in a window of the warm-up, at least.
const WINDOW: usize = 5;
/// Length of a window of the warm-up, at least.
const WINDOW_TIME: Nanos = Nanos::from_secs(2);
/// Medians of successive windows that agree so well are steady.
const STEADY: f64 = 0.03;
/// After this long a server that is not steady is taken as it is.
const WARM_TIME: Nanos = Nanos::from_secs(60);
/// A ramp whose throughput grows by less from stage to stage is saturated.
const SATURATED: f64 = 1.1;
/// Stages that reach this share of the ceiling have reached it.
const NEAR_CEILING: f64 = 0.95;

/// What the warm-up and the ramp showed.
#[derive(Debug, Clone)]
pub(super) struct Ramp {
    pub stages: Vec<Stage>,
    /// More users no longer bring more throughput.
    pub saturated: bool,
    /// The largest throughput, per second.
    pub ceiling: f64,
    /// Its relative standard error, by how much service times differ.
    pub ceiling_error: f64,
    /// The ramp ended at the largest load that may be tried.
    pub capped: bool,
    /// The client could not load more than this many users.
    pub client_limit: Option<(u32, String)>,
    /// Unloaded, s.
    pub ttft: Option<f64>,
    /// Unloaded, s.
    pub e2e: Option<f64>,
    pub notes: Vec<String>,
}

/// One stage of the ramp. Medians in s.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub users: u32,
    pub throughput: f64,
    pub ttft: Option<f64>,
    pub tpot: Option<f64>,
    pub e2e: Option<f64>,
    /// That were judged.
    pub requests: usize,
    /// For each criterion the share of requests within it; of a mean 1 or 0.
    pub attained: Vec<f64>,
    /// Relative spread of the end-to-end latency over the root of its requests.
    error: f64,
}

impl Stage {
    pub(super) fn worst(&self) -> f64 {
        self.worst_of(0..self.attained.len())
    }
    /// Of some criteria.
    fn worst_of(&self, criteria: Range<usize>) -> f64 {
        self.attained.get(criteria).unwrap_or_default().iter().copied().fold(1.0, f64::min)
    }
    fn metric(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Ttft => self.ttft,
            Metric::Tpot => self.tpot,
            _ => self.e2e,
        }
    }
    pub(super) fn report(&self) -> StageReport {
        let ns = |v: Option<f64>| v.map(|s| s * 1e9);
        StageReport {
            users: self.users,
            requests_per_s: self.throughput,
            ttft_ns: ns(self.ttft),
            tpot_ns: ns(self.tpot),
            e2e_ns: ns(self.e2e),
            attained: self.attained.clone(),
        }
    }
}

/// Asks for probes and counts what they cost.
pub(super) struct Asker<'a> {
    pub settings: &'a Settings,
    pub runner: &'a mut dyn Runner,
    pub number: u32,
    pub requests: u64,
    pub time: Nanos,
    /// What a reader should know of the probes.
    pub notes: Vec<String>,
}

impl<'a> Asker<'a> {
    pub(super) fn new(settings: &'a Settings, runner: &'a mut dyn Runner) -> Self {
        Self { settings, runner, number: 0, requests: 0, time: Nanos::ZERO, notes: Vec::new() }
    }
    /// Seed of the next probe: fresh for each, so that no two share a timetable.
    fn seed(&self) -> u64 {
        spec::seed::mix(self.settings.seed ^ spec::seed::mix(u64::from(self.number) + 1))
    }
    /// Time left in the budget.
    pub(super) fn left(&self) -> Option<Nanos> {
        self.settings.budget.map(|budget| budget.saturating_since(self.time))
    }
    pub(super) fn ask(
        &mut self,
        kind: Kind,
        load: spec::Load,
        (max_requests, max_time): (u64, Nanos),
        look: &mut dyn FnMut(super::runner::Look<'_>) -> Next,
    ) -> Result<Finished, Halt> {
        let max_time = self.left().map_or(max_time, |left| max_time.min(left));
        let ask = Ask { number: self.number, kind, load, seed: self.seed(), max_requests, max_time };
        let finished = self.runner.probe(&ask, look)?;
        self.number += 1;
        self.requests += finished.requests.len() as u64;
        self.time += finished.now + finished.waited.time;
        if finished.waited.still_busy {
            self.notes.push(format!(
                "probe {} began on a server that was still busy {} after the one before it had ended",
                ask.number,
                limit_time(finished.waited.time.0 as f64)
            ));
        }
        Ok(finished)
    }
}

const HOUR: Nanos = Nanos::from_secs(3600);
const DAY: Nanos = Nanos::from_secs(86_400);

/// One user at a time until three successive windows agree; gives the unloaded latencies.
fn warm(asker: &mut Asker<'_>, ramp: &mut Ramp) -> Result<(), Halt> {
    let load = Over::Concurrency.load(1.0, None);
    let mut look = |look: super::runner::Look<'_>| {
        let done: Vec<&Seen> =
            look.requests.iter().filter(|r| r.end.is_some_and(|e| e <= look.now)).collect();
        let windows = windows(&done);
        // A slow server gets the time for one window, one that never answers does not.
        let late = look.now >= WARM_TIME && (done.is_empty() || done.len() >= WINDOW);
        if late || steady(&windows) {
            return Next::Stop;
        }
        // A few more each time, so that a fast server is not looked at for every request.
        Next::Again { requests: (done.len() + done.len() / 8) as u64 + 1, horizon: WARM_TIME }
    };
    let finished = asker.ask(Kind::Warm, load, (1_000_000, HOUR), &mut look)?;
    if let ProbeTrust::ClientLimited(why) = &finished.trust {
        ramp.client_limit = Some((1, why.clone()));
        return Ok(());
    }
    let done: Vec<&Seen> =
        finished.requests.iter().filter(|r| r.end.is_some_and(|e| e <= finished.now)).collect();
    let windows = windows(&done);
    if !steady(&windows) {
        ramp.notes.push(
            "the unloaded server was not steady within its warm-up: its latency still moved \
             between windows"
                .to_owned(),
        );
    }
    let from = windows.get(windows.len().saturating_sub(3)).map_or(0, |w| w.from);
    let settled = &done[from.min(done.len())..];
    let of = |f: fn(&Seen) -> Option<Nanos>| {
        median(
            &mut settled
                .iter()
                .filter(|r| r.ok)
                .filter_map(|r| f(r))
                .map(Nanos::as_secs_f64)
                .collect::<Vec<_>>(),
        )
    };
    ramp.ttft = of(|r| r.ttft);
    ramp.e2e = of(|r| r.e2e);
    Ok(())
}

struct Window {
    from: usize,
    median: f64,
    /// Standard error of the median, by the spread of the window.
    error: f64,
}

/// Successive windows of at least five requests and two seconds, the last one complete.
fn windows(done: &[&Seen]) -> Vec<Window> {
    let mut out = Vec::new();
    let mut from = 0;
    for to in 1..=done.len() {
        let (first, last) = (done[from].intended, done[to - 1].end.unwrap_or_default());
        if to - from >= WINDOW && last.saturating_since(first) >= WINDOW_TIME {
            let mut e2e: Vec<f64> = done[from..to]
                .iter()
                .map(|r| r.end.unwrap_or_default().saturating_since(r.intended).as_secs_f64())
                .collect();
            let error = 1.25 * spread(&e2e) / (e2e.len() as f64).sqrt();
            out.push(Window { from, median: median(&mut e2e).unwrap_or(0.0), error });
            from = to;
        }
    }
    out
}

/// Whether the last three agree within 3 %, or within what their own spread explains.
fn steady(windows: &[Window]) -> bool {
    let Some(last) = windows.len().checked_sub(3).map(|n| &windows[n..]) else { return false };
    let by_median = |a: &&Window, b: &&Window| a.median.total_cmp(&b.median);
    let (Some(low), Some(high)) = (last.iter().min_by(by_median), last.iter().max_by(by_median)) else {
        return false;
    };
    high.median - low.median <= (STEADY * low.median).max(2.0 * low.error.hypot(high.error))
}

/// Standard deviation.
fn spread(values: &[f64]) -> f64 {
    let centre = mean(values);
    mean(&values.iter().map(|v| (v - centre).powi(2)).collect::<Vec<_>>()).sqrt()
}

impl Ramp {
    /// Warms the server up and climbs: 1, 2, 4, … users, until they are too many for every tier.
    /// `tiers`: where the criteria of each lie among all.
    pub(super) fn climb(asker: &mut Asker<'_>, tiers: &[Range<usize>]) -> Result<Ramp, Halt> {
        let mut ramp = Ramp {
            stages: Vec::new(),
            saturated: false,
            ceiling: 0.0,
            ceiling_error: 0.0,
            capped: false,
            client_limit: None,
            ttft: None,
            e2e: None,
            notes: Vec::new(),
        };
        warm(asker, &mut ramp)?;
        if ramp.client_limit.is_some() {
            return Ok(ramp);
        }
        if ramp.e2e.is_none() {
            ramp.notes.push("no request of a single user ended well in the warm-up".to_owned());
            return Ok(ramp);
        }
        let over = asker.settings.over;
        let most = match over {
            Over::Rate { .. } => MAX_USERS,
            _ => asker.settings.max_load.map_or(MAX_USERS, |m| m.min(f64::from(MAX_USERS)) as u32),
        };
        let (mut users, mut bad) = (1_u32, 0);
        loop {
            let stage = match stage(asker, users, ramp.e2e)? {
                Ok(stage) => stage,
                Err(why) => {
                    ramp.client_limit = Some((users, why));
                    break;
                }
            };
            let before = ramp.stages.last().map_or(0.0, |s| s.throughput);
            bad += u32::from(tiers.iter().all(|tier| stage.worst_of(tier.clone()) < 0.5));
            let enough = match over {
                Over::Rate { .. } => {
                    ramp.saturated = users > 1 && stage.throughput < SATURATED * before;
                    ramp.saturated || bad >= 2
                }
                _ => bad >= 1,
            };
            ramp.stages.push(stage);
            if enough {
                break;
            }
            if users >= most {
                ramp.capped = true;
                break;
            }
            users = (users * 2).min(most);
        }
        if let Some(top) = ramp.stages.iter().max_by(|a, b| a.throughput.total_cmp(&b.throughput)) {
            ramp.ceiling = top.throughput;
            ramp.ceiling_error = top.error;
        }
        Ok(ramp)
    }

    /// The ramp as one tier sees it.
    pub(super) fn of(&self, tier: &Range<usize>) -> Ramp {
        let mut ramp = self.clone();
        for stage in &mut ramp.stages {
            stage.attained = stage.attained.get(tier.clone()).unwrap_or_default().to_vec();
        }
        ramp
    }

    /// Places in the engine, by Little's law from the top of the ramp.
    pub(super) fn places(&self) -> Option<f64> {
        let (top, ttft) = (self.stages.last()?, self.ttft?);
        Some((f64::from(top.users) - top.throughput * (top.ttft? - ttft)).max(1.0))
    }

    /// What is in flight in equilibrium when this many requests per second arrive; at and above the
    /// ceiling what it takes to reach that.
    pub(super) fn in_flight(&self, rate: f64) -> f64 {
        let target = rate.min(NEAR_CEILING * self.ceiling);
        let mut below = (0.0, 0.0);
        for stage in &self.stages {
            let here = (stage.throughput, f64::from(stage.users));
            if here.0 >= target {
                return interpolate(&[below, here], target);
            }
            below = here;
        }
        below.1
    }

    /// How many in flight an arrival finds when a limit is just hit; the smallest over the limits of
    /// the criterion. `None`: its limits have nothing to do with crowding.
    pub(super) fn crowd(&self, criterion: &Criterion) -> Option<f64> {
        criterion
            .thresholds()
            .into_iter()
            .filter_map(|(metric, ns)| self.crowd_of(metric, ns / 1e9))
            .reduce(f64::min)
    }

    fn crowd_of(&self, metric: Metric, limit: f64) -> Option<f64> {
        let known: Vec<(f64, f64)> =
            self.stages.iter().filter_map(|s| Some((f64::from(s.users), s.metric(metric)?))).collect();
        if let Some(pair) = known.windows(2).find(|w| w[0].1 <= limit && w[1].1 > limit) {
            // Where a queue forms, each further user waits for one more completion: a line.
            let share = (limit - pair[0].1) / (pair[1].1 - pair[0].1);
            return Some(pair[0].0 + share * (pair[1].0 - pair[0].0));
        }
        let (users, top) = *known.last()?;
        if metric == Metric::Tpot || top > limit {
            return None;
        }
        // Beyond the ramp each further one waits for one more completion.
        Some(users + self.ceiling * (limit - top))
    }

    /// The largest stage that holds every criterion's share, and the smallest that breaks one.
    pub(super) fn bracket(&self, criteria: &[Criterion]) -> (Option<&Stage>, Option<&Stage>) {
        let holds = |s: &Stage| {
            s.attained.iter().zip(criteria).all(|(share, c)| *share >= 1.0 - c.target().unwrap_or(0.5))
        };
        let good = self.stages.iter().rev().find(|s| holds(s));
        let bad = self.stages.iter().find(|s| s.worst() < 0.5);
        (good, bad)
    }
}

/// Runs one stage; `Err`: the client was the limit.
fn stage(asker: &mut Asker<'_>, users: u32, e2e: Option<f64>) -> Result<Result<Stage, String>, Halt> {
    let settings = asker.settings;
    let (drop, least) = match settings.over {
        Over::Rate { .. } => (users as usize, (2 * users as usize).max(20)),
        // From eight users on a stage is large enough to be a check of lower loads.
        _ => (users as usize, (users as usize / 2).max(if users < 8 { 20 } else { CHECKED })),
    };
    // Whole rounds of the users, since servers like to answer them together.
    let keep = least.div_ceil(users as usize) * users as usize;
    let over = match settings.over {
        // Their starts spread: users in step wait for each other's prefill, which arrivals by chance do not.
        Over::Rate { .. } => Over::Users { think: Nanos::ZERO },
        over => over,
    };
    let load = over.load(f64::from(users), e2e);
    let start = match &load {
        spec::Load::Closed(closed) => closed.start_over.0,
        spec::Load::Open(_) => Nanos::ZERO,
    };
    let want = drop + keep;
    let criteria = &settings.criteria;
    let mut look = |look: super::runner::Look<'_>| match look.requests.get(..want) {
        Some(first) if determined(criteria, first, look.now) >= want => Next::Stop,
        Some(first) => again(criteria, first, want),
        None => again(criteria, look.requests, want),
    };
    // A server that works off one request after the other takes this long, several times over.
    let longest = Nanos::from_secs_f64(4.0 * want as f64 * e2e.unwrap_or(0.0)) + start + WARM_TIME;
    let limits = ((want + 2 * users as usize) as u64, longest.min(DAY));
    let finished = asker.ask(Kind::Ramp, load, limits, &mut look)?;
    if let ProbeTrust::ClientLimited(why) = finished.trust {
        return Ok(Err(why));
    }
    Ok(Ok(Stage::new(users, criteria, &finished, drop, want)))
}

/// Look again when `want` requests are determined.
pub(crate) fn again(criteria: &[Criterion], requests: &[Seen], want: usize) -> Next {
    let of = |r: &Seen| criteria.iter().map(|c| c.horizon(r)).max().unwrap_or_default();
    let horizon = requests.iter().map(of).max().unwrap_or(HOUR);
    Next::Again { requests: want as u64, horizon }
}

impl Stage {
    fn new(users: u32, criteria: &[Criterion], finished: &Finished, drop: usize, want: usize) -> Stage {
        let known = finished.requests.len().min(want);
        let kept = &finished.requests[drop.min(known)..known];
        let mut ends: Vec<(Nanos, bool)> = finished
            .requests
            .iter()
            .filter_map(|r| r.end.filter(|e| *e <= finished.now).map(|e| (e, r.ok)))
            .collect();
        ends.sort_unstable();
        // From the end of the first round on; what ends with the last counted request still counts.
        let from = ends.get(drop.saturating_sub(1)).map_or(Nanos::ZERO, |e| e.0);
        let to = ends.get(want - 1).or(ends.last()).map_or(Nanos::ZERO, |e| e.0);
        let good = ends.iter().take(want).filter(|(e, ok)| *ok && *e > from).count();
        let span = to.saturating_since(from).as_secs_f64();
        let values = |f: fn(&Seen) -> Option<f64>| {
            kept.iter().filter(|r| r.ok && r.end.is_some()).filter_map(f).collect::<Vec<f64>>()
        };
        let e2e = values(|r| r.e2e.map(Nanos::as_secs_f64));
        let centre = mean(&e2e);
        let spread = spread(&e2e);
        let attained = criteria.iter().map(|c| {
            let verdicts: Vec<f64> = kept.iter().filter_map(|r| c.verdict(r)).collect();
            match c.target() {
                _ if verdicts.is_empty() => 0.0,
                Some(_) => 1.0 - mean(&verdicts),
                None => f64::from(u8::from(mean(&verdicts) <= 1.0)),
            }
        });
        Stage {
            users,
            throughput: if span > 0.0 { good as f64 / span } else { 0.0 },
            ttft: median(&mut values(|r| r.ttft.map(Nanos::as_secs_f64))),
            tpot: median(&mut values(|r| r.tpot.map(|t| t / 1e9))),
            requests: kept.len(),
            attained: attained.collect(),
            error: if centre > 0.0 { spread / centre / (good.max(1) as f64).sqrt() } else { 0.0 },
            e2e: median(&mut e2e.clone()),
        }
    }
}
