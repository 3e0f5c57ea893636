//! When to send what: pure functions of a [`spec::Spec`] and its seed.
//!
//! The same spec gives the same plan on every machine: random streams are named and versioned, and
//! no platform's own logarithm takes part in a draw.

mod arrivals;
mod intents;
mod lengths;
mod phases;
mod script;
mod split;
mod streams;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use spec::{Extent, Lengths, Load, Nanos, Open, Phase, Phases, Spec, Warmup};

pub use arrivals::Arrivals;
pub use intents::{ClosedIntents, OpenIntents};
pub use lengths::LengthDraws;
pub use phases::PhaseTracker;
pub use script::{Script, Timetable, Turns};
pub use split::{lane_of, share};
pub use streams::{ARRIVALS, ISL, OSL, VERSION, stream};

/// One request that the plan wants sent. Times are relative to the run's origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Position in the plan, from 0, over warm-up and measurement.
    pub seq: u64,
    /// Open loop: when it should leave. Closed loop: think time to add to the moment at which the
    /// user's slot became free.
    pub at: Nanos,
    /// The phase that it counts in. In closed loop with a duration the driver decides by the clock.
    pub phase: Phase,
    /// Input tokens asked of the corpus; `None`: as the data set has it.
    pub isl: Option<u32>,
    /// Output tokens asked of the server; `None`: natural length.
    pub osl: Option<u32>,
}

/// More requests than this are no plan for one run.
pub const MAX_REQUESTS: u64 = 20_000_000;
/// A plan for longer than this, in seconds, is taken for a mistake: one year.
pub const MAX_SECONDS: f64 = 31_536_000.0;

/// Why a spec cannot be planned.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The load has a part that is no load.
    #[error("the load cannot be planned: {why}")]
    Load {
        /// What is wrong with it.
        why: &'static str,
    },
    /// All at once, for a time.
    #[error(
        "rate `inf` sends everything at once, so the {phase} cannot be a duration; give a number of requests"
    )]
    AtOnceForATime {
        /// Which phase.
        phase: &'static str,
    },
    /// Too many requests.
    #[error("the plan holds more than {MAX_REQUESTS} requests; lower the rate or shorten the run")]
    TooMany,
    /// Too long.
    #[error(
        "the plan lasts {days:.0} days, longer than a year; raise the rate or lower the number of requests"
    )]
    TooLong {
        /// Expected length.
        days: f64,
    },
    /// Lengths that cannot be drawn.
    #[error("lengths `{which}` cannot be drawn: {why}")]
    Lengths {
        /// `isl` or `osl`.
        which: &'static str,
        /// What is wrong with them.
        why: &'static str,
    },
}

/// The numbers of length files, read by the caller ([`Lengths::parse_list`]).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lists {
    /// For an input length of [`Lengths::File`].
    pub isl: Option<Vec<u32>>,
    /// For an output length of [`Lengths::File`].
    pub osl: Option<Vec<u32>>,
}

/// What the plan holds, as far as it is known before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Planned {
    /// Requests of the warm-up; `None`: decided by the clock.
    pub warmup: Option<u64>,
    /// Requests of the measurement; `None`: decided by the clock.
    pub measure: Option<u64>,
    /// Open loop: when the measurement begins.
    pub measure_from: Option<Nanos>,
    /// Open loop: the span that the measured arrivals stand for: the duration asked, or for a
    /// number of requests the time from the first of them to the arrival that would come after the
    /// last. `None` in closed loop, and when all leave at once.
    pub span: Option<Nanos>,
    /// Open loop: the last intended send.
    pub last: Option<Nanos>,
}

impl Planned {
    /// Planned arrivals of the measurement per second (definitions §5, `offered_rate`).
    pub fn offered_per_second(&self) -> Option<f64> {
        let span = self.span?.as_secs_f64();
        Some(self.measure? as f64 / span).filter(|rate| span > 0.0 && rate.is_finite())
    }
}

/// When to send what.
#[derive(Debug, Clone)]
pub struct Plan {
    load: Load,
    phases: Phases,
    isl: LengthDraws,
    osl: LengthDraws,
    seed: u64,
    planned: Planned,
    script: Option<Script>,
}

impl Plan {
    /// The plan of `spec`, whose lengths come from no file.
    pub fn new(spec: &Spec) -> Result<Plan, PlanError> {
        Self::with_lists(spec, Lists::default())
    }

    /// The plan of `spec` with the numbers of its length files.
    pub fn with_lists(spec: &Spec, lists: Lists) -> Result<Plan, PlanError> {
        let draws = |lengths: &Lengths, list: Option<Vec<u32>>, name| {
            LengthDraws::new(lengths, list.map(Arc::from).as_ref(), spec.seed, name)
        };
        let mut plan = Plan {
            load: spec.load.clone(),
            phases: spec.phases.clone(),
            isl: draws(&spec.workload.isl, lists.isl, ISL)?,
            osl: draws(&spec.workload.osl, lists.osl, OSL)?,
            seed: spec.seed,
            planned: Planned::default(),
            script: None,
        };
        plan.planned = match &spec.load {
            Load::Open(open) => {
                check_open(open, &spec.phases)?;
                phases::count_open(open, &spec.phases, spec.seed)?
            }
            Load::Closed(closed) => {
                if closed.concurrency == 0 {
                    return Err(PlanError::Load { why: "no user at all" });
                }
                let planned = phases::count_closed(&spec.phases);
                if planned.warmup.unwrap_or(0).saturating_add(planned.measure.unwrap_or(0)) > MAX_REQUESTS {
                    return Err(PlanError::TooMany);
                }
                planned
            }
        };
        Ok(plan)
    }

    /// This plan of `spec` with moments or turns that are given; lengths are drawn as ever.
    ///
    /// # Errors
    /// The script is not one for the load and the phases of `spec`.
    pub fn following(self, spec: &Spec, script: Script) -> Result<Plan, PlanError> {
        script.check(spec)?;
        let planned = match &script {
            Script::Timetable(table) => Planned {
                warmup: Some(0),
                measure: Some(table.at.len() as u64),
                measure_from: Some(Nanos::ZERO),
                span: table.next.filter(|next| *next > Nanos::ZERO),
                last: table.at.last().copied(),
            },
            // How many turns there are is decided by the clock.
            Script::Turns(_) => Planned { warmup: Some(0), ..Planned::default() },
        };
        Ok(Plan { planned, script: Some(script), ..self })
    }

    /// More requests than this under way end the plan.
    pub fn most_open(&self) -> Option<u32> {
        match &self.script {
            Some(Script::Timetable(table)) => table.most_open,
            _ => None,
        }
    }

    /// Whether all users wait for the last of them before they go on.
    pub fn in_turns(&self) -> bool {
        matches!(self.script, Some(Script::Turns(_)))
    }

    /// Open loop: every request with its intended send, in order; `None` in closed loop.
    pub fn open_intents(&self) -> Option<OpenIntents> {
        match &self.load {
            Load::Open(open) => Some(OpenIntents::new(self, open)),
            Load::Closed(_) => None,
        }
    }

    /// Closed loop: the requests in the order in which freed users take them; without end unless
    /// both phases are counted. `None` in open loop.
    pub fn closed_intents(&self) -> Option<ClosedIntents> {
        match &self.load {
            Load::Closed(closed) => Some(ClosedIntents::new(self, closed, 0, 1)),
            Load::Open(_) => None,
        }
    }

    /// Closed loop: the part of [`Plan::closed_intents`] that the users of one lane take.
    pub fn closed_intents_of(&self, lane: u16, lanes: u16) -> Option<ClosedIntents> {
        match &self.load {
            Load::Closed(closed) => Some(ClosedIntents::new(self, closed, lane, lanes)),
            Load::Open(_) => None,
        }
    }

    /// Decides the phase of each request of one lane as it is intended, and when the lane is done.
    /// One tracker over all lanes is `tracker(0, 1)`.
    pub fn tracker(&self, lane: u16, lanes: u16) -> PhaseTracker {
        let users = match &self.load {
            Load::Closed(closed) => Some(closed.concurrency),
            Load::Open(_) => None,
        };
        let tracker = PhaseTracker::new(&self.phases, users, lane, lanes);
        match (&self.script, users) {
            (Some(Script::Turns(turns)), Some(users)) => tracker.in_turns(*turns, users),
            _ => tracker,
        }
    }

    /// Users of a closed loop.
    pub fn users(&self) -> Option<u32> {
        match &self.load {
            Load::Closed(closed) => Some(closed.concurrency),
            Load::Open(_) => None,
        }
    }

    /// The lane that sends request `seq`.
    pub fn lane_of(&self, seq: u64, lanes: u16) -> u16 {
        lane_of(seq, self.users(), lanes)
    }

    /// What is known before the run.
    pub fn planned(&self) -> Planned {
        self.planned
    }

    /// The phase at `elapsed` after the origin, where the clock or the timetable decides it; `None`
    /// when the run is over then, or when only the count of requests can tell.
    pub fn phase_at(&self, elapsed: Nanos) -> Option<Phase> {
        let from = self.measure_from()?;
        if elapsed < from {
            return Some(Phase::Warmup);
        }
        let over = match self.ends_at() {
            Some(end) => elapsed >= end,
            None => self.planned.last.is_none_or(|last| elapsed > last),
        };
        (!over).then_some(Phase::Measure)
    }

    /// When the measurement begins, where that is known before the run.
    pub fn measure_from(&self) -> Option<Nanos> {
        match (self.planned.measure_from, self.phases.warmup) {
            (Some(from), _) => Some(from),
            (None, Warmup::None) => Some(Nanos::ZERO),
            (None, Warmup::Duration(span)) => Some(span.0),
            (None, Warmup::Requests(_)) => None,
        }
    }

    /// When the measurement ends by the clock; `None` when a number of requests ends it.
    pub fn ends_at(&self) -> Option<Nanos> {
        match self.phases.measure {
            Extent::Duration(span) => Some(self.measure_from()? + span.0),
            Extent::Requests(_) => None,
        }
    }

    /// A stable 64-bit hash of what is planned: version of the streams, load, phases, and the first
    /// 1,024 intents. Equal plans have equal fingerprints on every machine.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = spec::seed::Fnv::default();
        hash.word(u64::from(VERSION));
        match &self.load {
            Load::Open(open) => {
                hash.word(open.cap.map_or(u64::MAX, u64::from));
                hash.word(open.rate.per_second().to_bits());
            }
            Load::Closed(closed) => {
                hash.word(u64::from(closed.concurrency));
                hash.word(closed.think.0.0);
                // Plans without it keep the fingerprints that they had.
                if closed.start_over.0 > Nanos::ZERO {
                    hash.word(closed.start_over.0.0);
                }
            }
        }
        if let Some(Script::Turns(turns)) = &self.script {
            let most_time = turns.most_time.map_or(u64::MAX, |time| time.0);
            for word in [turns.most, turns.least, turns.least_time.0, most_time] {
                hash.word(word);
            }
        }
        let (kind, amount) = match self.phases.warmup {
            Warmup::None => (0, 0),
            Warmup::Requests(n) => (1, n),
            Warmup::Duration(span) => (2, span.0.0),
        };
        hash.word(kind);
        hash.word(amount);
        let (kind, amount) = match self.phases.measure {
            Extent::Requests(n) => (1, n),
            Extent::Duration(span) => (2, span.0.0),
        };
        hash.word(kind);
        hash.word(amount);
        let intents: Box<dyn Iterator<Item = Intent>> = match &self.load {
            Load::Open(open) => Box::new(OpenIntents::new(self, open)),
            Load::Closed(closed) => Box::new(ClosedIntents::new(self, closed, 0, 1)),
        };
        for intent in intents.take(1024) {
            hash.word(intent.at.0);
            hash.word(intent.isl.map_or(u64::MAX, u64::from));
            hash.word(intent.osl.map_or(u64::MAX, u64::from));
        }
        hash.value()
    }
}

/// Whether an open load can be planned in bounded time and memory.
fn check_open(open: &Open, phases: &Phases) -> Result<(), PlanError> {
    if !arrivals::plannable(open.rate) {
        return Err(PlanError::Load { why: "the rate is not a positive number" });
    }
    if let Some(ramp) = &open.ramp {
        if open.rate.is_infinite() {
            return Err(PlanError::Load { why: "an infinite rate has no ramp" });
        }
        if !arrivals::plannable(ramp.from) || ramp.from.is_infinite() {
            return Err(PlanError::Load { why: "a ramp starts from a finite positive rate" });
        }
    }
    if open.rate.is_infinite() {
        if matches!(phases.warmup, Warmup::Duration(_)) {
            return Err(PlanError::AtOnceForATime { phase: "warm-up" });
        }
        if matches!(phases.measure, Extent::Duration(_)) {
            return Err(PlanError::AtOnceForATime { phase: "measurement" });
        }
    }
    let mut count = 0u64;
    let mut span = Nanos::ZERO;
    match phases.warmup {
        Warmup::None => {}
        Warmup::Requests(n) => count = n,
        Warmup::Duration(d) => span += d.0,
    }
    match phases.measure {
        Extent::Requests(n) => count = count.saturating_add(n),
        Extent::Duration(d) => span += d.0,
    }
    if count > MAX_REQUESTS || (span > Nanos::ZERO && arrivals::expected(open, span) > MAX_REQUESTS as f64) {
        return Err(PlanError::TooMany);
    }
    let seconds = arrivals::expected_time(open, count) + span.as_secs_f64();
    if seconds > MAX_SECONDS {
        return Err(PlanError::TooLong { days: seconds / 86_400.0 });
    }
    Ok(())
}
