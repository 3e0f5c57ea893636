//! The plan as iterators of [`Intent`].

use spec::{Closed, Extent, Nanos, Open, Phase, Warmup};

use crate::script::{Moments, Script};
use crate::{Arrivals, Intent, LengthDraws, PhaseTracker, Plan, lane_of};

/// Open loop: every request with its intended send, in order.
#[derive(Debug, Clone)]
pub struct OpenIntents {
    arrivals: Moments,
    tracker: PhaseTracker,
    isl: LengthDraws,
    osl: LengthDraws,
    seq: u64,
    over: bool,
}

impl OpenIntents {
    pub(crate) fn new(plan: &Plan, open: &Open) -> Self {
        Self {
            arrivals: match &plan.script {
                Some(Script::Timetable(table)) => Moments::Given { at: table.at.clone(), next: 0 },
                _ => Moments::Drawn(Box::new(Arrivals::new(open, plan.seed))),
            },
            tracker: plan.tracker(0, 1),
            isl: plan.isl.clone(),
            osl: plan.osl.clone(),
            seq: 0,
            over: false,
        }
    }
}

impl Iterator for OpenIntents {
    type Item = Intent;

    fn next(&mut self) -> Option<Intent> {
        if self.over {
            return None;
        }
        let at = self.arrivals.next()?;
        let Some(phase) = self.tracker.next(at) else {
            self.over = true;
            return None;
        };
        let intent = Intent { seq: self.seq, at, phase, isl: self.isl.draw(), osl: self.osl.draw() };
        self.seq += 1;
        Some(intent)
    }
}

/// Closed loop: requests in the order in which freed users take them. When a user begins is told by
/// [`Closed::start_of`]; from its second request on, `at` is the think time.
///
/// `phase` is exact where counts decide. Where the clock does, it is [`Phase::Measure`] and the
/// driver asks its [`PhaseTracker`].
#[derive(Debug, Clone)]
pub struct ClosedIntents {
    users: u32,
    think: Nanos,
    warmup: u64,
    end: Option<u64>,
    isl: LengthDraws,
    osl: LengthDraws,
    seq: u64,
    lane: u16,
    lanes: u16,
}

impl ClosedIntents {
    pub(crate) fn new(plan: &Plan, closed: &Closed, lane: u16, lanes: u16) -> Self {
        let warmup = match plan.phases.warmup {
            Warmup::None => Some(0),
            Warmup::Requests(n) => Some(n),
            Warmup::Duration(_) => None,
        };
        let end = match (warmup, &plan.phases.measure) {
            (Some(warmup), Extent::Requests(n)) => Some(warmup.saturating_add(*n)),
            _ => None,
        };
        Self {
            users: closed.concurrency,
            think: closed.think.0,
            warmup: warmup.unwrap_or(0),
            end,
            isl: plan.isl.clone(),
            osl: plan.osl.clone(),
            seq: 0,
            lane,
            lanes,
        }
    }
}

impl Iterator for ClosedIntents {
    type Item = Intent;

    fn next(&mut self) -> Option<Intent> {
        // A lane outside the split has nothing to send; looking on would not end.
        if self.lane >= self.lanes.max(1) || u32::from(self.lane) >= self.users {
            return None;
        }
        loop {
            if self.end.is_some_and(|end| self.seq >= end) {
                return None;
            }
            // Every lane draws all lengths, so that a request's length does not depend on the split.
            let intent = Intent {
                seq: self.seq,
                at: if self.seq < u64::from(self.users) { Nanos::ZERO } else { self.think },
                phase: if self.seq < self.warmup { Phase::Warmup } else { Phase::Measure },
                isl: self.isl.draw(),
                osl: self.osl.draw(),
            };
            self.seq += 1;
            if lane_of(intent.seq, Some(self.users), self.lanes) == self.lane {
                return Some(intent);
            }
        }
    }
}
