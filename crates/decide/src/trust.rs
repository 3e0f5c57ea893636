//! The verdict on the measurement itself.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use measure::Measures;
use record::Run;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{Metric, Statistic};

use crate::bound::error_bounds;
use crate::checks::sending::bound_caps;
use crate::checks::{answers, clock, load, machine, prompts, samples, sending, server, steady};
use crate::facts::Facts;
use crate::limits;
use crate::windows::{ClientWindows, LimitedWindows};

/// May the numbers be believed?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trust {
    /// The verdict.
    pub verdict: TrustVerdict,
    /// Every check, failed first, then unknown, then passed.
    pub checks: Vec<Check>,
    /// The seconds in which this side was the bottleneck.
    pub client: ClientWindows,
}

/// The verdict on the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrustVerdict {
    /// Every number may be believed.
    Valid,
    /// Some numbers are capped; the checks say which and why.
    Limited,
    /// Nothing may be concluded.
    Invalid,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Stable name.
    pub id: CheckId,
    /// Passed, failed or unknown.
    pub state: CheckState,
    /// What was found, in words with units.
    pub figure: String,
    /// What is allowed, in words with units.
    pub limit: String,
    /// What to do about it; absent when passed.
    pub advice: Option<String>,
    /// Something worth knowing that is no failure.
    pub note: Option<String>,
    /// What a failure caps.
    pub caps: Vec<Cap>,
}

impl Check {
    /// A check as it came out.
    pub fn new(id: CheckId, state: CheckState, figure: impl Into<String>, limit: impl Into<String>) -> Self {
        Self {
            id,
            state,
            figure: figure.into(),
            limit: limit.into(),
            advice: None,
            note: None,
            caps: Vec::new(),
        }
    }

    /// Failed or passed.
    pub fn judged(id: CheckId, fails: bool, figure: impl Into<String>, limit: impl Into<String>) -> Self {
        Self::new(id, if fails { CheckState::Fail } else { CheckState::Pass }, figure, limit)
    }

    /// No data, or too little to decide; with what would give them.
    pub fn unknown(
        id: CheckId,
        why: impl Into<String>,
        limit: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { advice: Some(advice.into()), ..Self::new(id, CheckState::Unknown, why, limit) }
    }

    /// What to do and what is capped, if it failed.
    pub fn if_failed(mut self, advice: impl Into<String>, caps: impl IntoIterator<Item = Cap>) -> Self {
        if self.state == CheckState::Fail {
            self.advice = Some(advice.into());
            for cap in caps {
                if !self.caps.contains(&cap) {
                    self.caps.push(cap);
                }
            }
        }
        self
    }

    /// Something worth knowing that is no failure.
    pub fn with_note(mut self, note: Option<String>) -> Self {
        self.note = note;
        self
    }

    /// A failure so grave that nothing may be concluded: every number is marked and so no limit is
    /// judged, but what was counted stays to be read.
    pub fn grave(mut self, grave: bool) -> Self {
        if grave {
            self.state = CheckState::Fail;
            let cap = Cap::Flag(Capped::Everything);
            if !self.caps.contains(&cap) {
                self.caps.push(cap);
            }
        }
        self
    }

    /// Whether it failed so gravely that nothing may be concluded.
    pub fn is_grave(&self) -> bool {
        self.state == CheckState::Fail && self.caps.contains(&Cap::Flag(Capped::Everything))
    }

    /// Whether it failed.
    pub fn failed(&self) -> bool {
        self.state == CheckState::Fail
    }
}

impl CheckId {
    /// As written in files: `send_lag`.
    pub fn name(self) -> &'static str {
        match self {
            CheckId::SendLag => "send_lag",
            CheckId::LaneStall => "lane_stall",
            CheckId::ClientLag => "client_lag",
            CheckId::Machine => "machine",
            CheckId::LaneBusy => "lane_busy",
            CheckId::Coalesced => "coalesced",
            CheckId::Arrivals => "arrivals",
            CheckId::InFlight => "in_flight",
            CheckId::Bookkeeping => "bookkeeping",
            CheckId::Overload => "overload",
            CheckId::Steady => "steady",
            CheckId::Stalls => "stalls",
            CheckId::Samples => "samples",
            CheckId::Failures => "failures",
            CheckId::Censored => "censored",
            CheckId::OutLength => "out_length",
            CheckId::InLength => "in_length",
            CheckId::TokenCount => "token_count",
            CheckId::Unique => "unique",
            CheckId::Cache => "cache",
            CheckId::Buffered => "buffered",
            CheckId::Cumulative => "cumulative",
            CheckId::Echo => "echo",
            CheckId::Foreign => "foreign",
            CheckId::Clock => "clock",
        }
    }
    /// For people: `send lag`.
    pub fn label(self) -> String {
        self.name().replace('_', " ")
    }
}

/// State of a check. Unknown is never passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// Within its limit.
    Pass,
    /// Beyond its limit.
    Fail,
    /// No data, or too little to decide.
    Unknown,
}

/// What a failed check does to a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cap {
    /// Keep the value, mark it.
    Flag(Capped),
    /// Replace the value by the reason.
    Withhold(Capped),
}

/// What is capped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Capped {
    /// One metric.
    Metric(Metric),
    /// One percentile of one metric; the share in ten-thousandths (9,900: p99).
    Percentile(Metric, u16),
    /// Every latency.
    Latencies,
    /// What is computed over completed requests only: means, deviations, `of completed` percentiles.
    Completed,
    /// Throughputs and goodput.
    Throughput,
    /// Attainment, goodput and every SLO verdict.
    Slo,
    /// Everything: what a check does that makes the measurement invalid.
    Everything,
}

/// The checks, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckId {
    /// Requests left on time.
    SendLag,
    /// No sending thread stood still.
    LaneStall,
    /// The program saw bytes soon after the kernel.
    ClientLag,
    /// The machine had CPU to spare.
    Machine,
    /// Lanes were not the bottleneck.
    LaneBusy,
    /// Output events came in reads of their own.
    Coalesced,
    /// Arrivals as planned.
    Arrivals,
    /// In flight as planned.
    InFlight,
    /// The books balance.
    Bookkeeping,
    /// The queue did not grow during the whole run.
    Overload,
    /// Speed did not change during the run.
    Steady,
    /// All streams paused together.
    Stalls,
    /// Samples enough for each percentile.
    Samples,
    /// Few failures.
    Failures,
    /// Few censored requests.
    Censored,
    /// Output lengths delivered against asked.
    OutLength,
    /// Input lengths against the server's count.
    InLength,
    /// Token counts of two sources agree.
    TokenCount,
    /// Prompts were unique as declared.
    Unique,
    /// Cache hits as declared.
    Cache,
    /// The stream was not held back and sent in one piece.
    Buffered,
    /// Chunks are deltas.
    Cumulative,
    /// Answers do not contain their prompts.
    Echo,
    /// Nobody else used the endpoint.
    Foreign,
    /// The wall clock did not step.
    Clock,
}

/// Makes every check that one run can feed, and the verdict.
pub fn judge(run: &Run, measures: &Measures) -> Trust {
    let facts = Facts::new(run, measures);
    let limited = LimitedWindows::new(&facts);
    let bounds = error_bounds(&facts, &limited);
    let arrivals = load::arrivals(&facts);
    let sent_in_time = !arrivals.failed();
    let caps = bound_caps(&bounds);
    let judges: [&(dyn Fn() -> Check + Sync); 25] = [
        &|| sending::send_lag(&facts, &bounds),
        &|| machine::lane_stall(&facts, &caps),
        &|| machine::client_lag(&facts, &limited),
        &|| machine::machine(&facts),
        &|| machine::lane_busy(&facts),
        &|| machine::coalesced(&facts),
        &|| arrivals.clone(),
        &|| load::in_flight(&facts),
        &|| load::bookkeeping(&facts),
        &|| steady::overload(&facts, sent_in_time),
        &|| steady::steady(&facts),
        &|| steady::stalls(&facts),
        &|| samples::samples(&facts),
        &|| answers::failures(&facts),
        &|| answers::censored(&facts),
        &|| prompts::out_length(&facts),
        &|| prompts::in_length(&facts),
        &|| answers::token_count(&facts),
        &|| prompts::unique(&facts),
        &|| prompts::cache(&facts),
        &|| answers::buffered(&facts),
        &|| answers::cumulative(&facts),
        &|| answers::echo(&facts),
        &|| server::foreign(&facts),
        &|| clock::clock(&facts),
    ];
    let mut checks = in_parallel(&judges);
    if limited.share() > limits::INVALID_WINDOWS {
        let culprit = limited.culprit();
        let advice = "This side was the bottleneck for most of the time: run the client alone, with more lanes, or at a lower load.";
        for check in checks.iter_mut().filter(|c| c.id == culprit) {
            let grave = check.clone().grave(true);
            *check = Check { advice: grave.advice.clone().or(Some(advice.to_owned())), ..grave };
        }
    }
    let trust = Trust::of(checks, &must_know(run));
    // A run that ended before its measurement began says nothing at all.
    let verdict = if measures.counts.offered == 0 { TrustVerdict::Invalid } else { trust.verdict };
    Trust { verdict, client: limited.report(), ..trust }
}

/// Asks the judges on all cores, as each may read millions of chunks; the checks in the judges' order.
fn in_parallel(judges: &[&(dyn Fn() -> Check + Sync)]) -> Vec<Check> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(judges.len());
    let next = AtomicUsize::new(0);
    let take = || {
        let mine = std::iter::from_fn(|| {
            let i = next.fetch_add(1, Relaxed);
            Some((i, judges.get(i)?()))
        });
        mine.collect::<Vec<_>>()
    };
    let mut checks = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut checks = take();
        for other in others {
            match other.join() {
                Ok(more) => checks.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        checks
    });
    checks.sort_by_key(|(i, _)| *i);
    checks.into_iter().map(|(_, check)| check).collect()
}

/// Checks that a number rests on: unknown ones limit the measurement.
pub(crate) fn must_know(run: &Run) -> Vec<CheckId> {
    let mut out =
        vec![CheckId::SendLag, CheckId::Arrivals, CheckId::InFlight, CheckId::Failures, CheckId::Clock];
    let relied = run.header.spec.slo.marginal.iter().any(|m| matches!(m.statistic, Statistic::Percentile(_)));
    if relied {
        out.push(CheckId::Samples);
    }
    out
}

impl Trust {
    /// The verdict over checks: invalid when one failed gravely, limited when one failed or one that
    /// must be known is unknown, else valid. Never an average.
    pub fn of(mut checks: Vec<Check>, must_know: &[CheckId]) -> Self {
        let verdict = if checks.iter().any(Check::is_grave) {
            TrustVerdict::Invalid
        } else if checks
            .iter()
            .any(|c| c.failed() || (c.state == CheckState::Unknown && must_know.contains(&c.id)))
        {
            TrustVerdict::Limited
        } else {
            TrustVerdict::Valid
        };
        let order = |state: CheckState| match state {
            CheckState::Fail => 0,
            CheckState::Unknown => 1,
            CheckState::Pass => 2,
        };
        checks.sort_by_key(|c| (order(c.state), c.id));
        Self { verdict, checks, client: ClientWindows::default() }
    }

    /// The check of this name.
    pub fn check(&self, id: CheckId) -> Option<&Check> {
        self.checks.iter().find(|c| c.id == id)
    }

    /// The checks in this state.
    pub fn in_state(&self, state: CheckState) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |c| c.state == state)
    }

    /// Caps with the check that sets them.
    pub fn caps(&self) -> impl Iterator<Item = (CheckId, Cap)> + '_ {
        self.checks.iter().flat_map(|c| c.caps.iter().map(|cap| (c.id, *cap)))
    }
}
