//! Where warm-up ends and measurement ends, by count or by time (definitions §5).

use spec::{Extent, Nanos, Open, Phase, Phases, Warmup};

use crate::split::share;
use crate::{Arrivals, MAX_REQUESTS, PlanError, Planned, Turns};

/// Decides the phase of each request as it is intended, for requests handed over in the order of
/// their intended times. A request belongs to the phase in which it was intended.
#[derive(Debug, Clone)]
pub struct PhaseTracker {
    warmup: Warmup,
    measure: Extent,
    warmed: u64,
    measured: u64,
    began: Option<Nanos>,
    /// Turns of so many users, and when the last request so far was intended.
    turns: Option<(Turns, u32, Nanos)>,
}

impl PhaseTracker {
    /// The tracker of one lane; counts are the lane's share of the whole, so that all lanes
    /// together send exactly what was asked.
    pub(crate) fn new(phases: &Phases, users: Option<u32>, lane: u16, lanes: u16) -> Self {
        let warmup_total = match phases.warmup {
            Warmup::Requests(n) => n,
            Warmup::None | Warmup::Duration(_) => 0,
        };
        // Sequence numbers run on from the warm-up into the measurement.
        let warmup_share = share(warmup_total, users, lane, lanes);
        Self {
            warmup: match phases.warmup {
                Warmup::Requests(_) => Warmup::Requests(warmup_share),
                other => other,
            },
            measure: match phases.measure {
                Extent::Requests(n) => {
                    Extent::Requests(share(warmup_total.saturating_add(n), users, lane, lanes) - warmup_share)
                }
                other => other,
            },
            warmed: 0,
            measured: 0,
            began: None,
            turns: None,
        }
    }

    /// The same for users who go on together.
    pub(crate) fn in_turns(self, turns: Turns, users: u32) -> Self {
        Self { turns: Some((turns, users, Nanos::ZERO)), ..self }
    }

    /// The phase of the next request, intended at `at`; `None`: the run is over, nothing is sent.
    pub fn next(&mut self, at: Nanos) -> Option<Phase> {
        let warming = match self.warmup {
            Warmup::None => false,
            Warmup::Requests(n) => self.warmed < n,
            Warmup::Duration(span) => at < span.0,
        };
        if warming {
            self.warmed += 1;
            return Some(Phase::Warmup);
        }
        // By time the measurement begins on the dot, by count with its first request.
        let began = *self.began.get_or_insert(match self.warmup {
            Warmup::None => Nanos::ZERO,
            Warmup::Duration(span) => span.0,
            Warmup::Requests(_) => at,
        });
        let over = match self.measure {
            Extent::Requests(n) => self.measured >= n,
            Extent::Duration(span) => at >= began + span.0,
        };
        if over {
            return None;
        }
        if let Some((turns, users, last)) = &mut self.turns {
            if turns.end(*users, self.measured, *last) {
                return None;
            }
            *last = at;
        }
        self.measured += 1;
        Some(Phase::Measure)
    }

    /// When the measurement began, once it has.
    pub fn began(&self) -> Option<Nanos> {
        self.began
    }

    /// Requests handed out as (warm-up, measurement).
    pub fn counts(&self) -> (u64, u64) {
        (self.warmed, self.measured)
    }
}

/// What an open plan holds, found by drawing its arrivals once.
pub(crate) fn count_open(open: &Open, phases: &Phases, seed: u64) -> Result<Planned, PlanError> {
    let mut tracker = PhaseTracker::new(phases, None, 0, 1);
    let mut last = None;
    let mut first_measured = None;
    let mut after = Nanos::ZERO;
    for (n, at) in (0u64..).zip(Arrivals::new(open, seed)) {
        // A very bursty process can put any number of arrivals into one moment.
        if n > MAX_REQUESTS {
            return Err(PlanError::TooMany);
        }
        match tracker.next(at) {
            None => {
                after = at;
                break;
            }
            Some(Phase::Warmup) => {}
            Some(Phase::Measure) => {
                first_measured.get_or_insert(at);
            }
        }
        last = Some(at);
    }
    let (warmup, measure) = tracker.counts();
    let measure_from = tracker.began();
    let span = match phases.measure {
        Extent::Duration(span) => Some(span.0),
        Extent::Requests(_) => first_measured.and_then(|from| after.since(from)),
    };
    Ok(Planned {
        warmup: Some(warmup),
        measure: Some(measure),
        measure_from,
        span: span.filter(|s| *s > Nanos::ZERO),
        last,
    })
}

/// What a closed plan holds: only counts that were asked for are known.
pub(crate) fn count_closed(phases: &Phases) -> Planned {
    Planned {
        warmup: match phases.warmup {
            Warmup::None => Some(0),
            Warmup::Requests(n) => Some(n),
            Warmup::Duration(_) => None,
        },
        measure: match phases.measure {
            Extent::Requests(n) => Some(n),
            Extent::Duration(_) => None,
        },
        ..Planned::default()
    }
}

#[cfg(test)]
mod tests {
    use spec::Span;

    use super::*;

    fn secs(s: u64) -> Span {
        Span(Nanos::from_secs(s))
    }
    fn tracker(warmup: Warmup, measure: Extent) -> PhaseTracker {
        PhaseTracker::new(&Phases { warmup, measure, drain: secs(30) }, None, 0, 1)
    }
    /// Phases of requests intended every second: w, m or a dot for over.
    fn walk(mut t: PhaseTracker, n: u64) -> String {
        (0..n)
            .map(|s| match t.next(Nanos::from_secs(s)) {
                Some(Phase::Warmup) => 'w',
                Some(Phase::Measure) => 'm',
                None => '.',
            })
            .collect()
    }

    #[test]
    fn phases_by_count_and_by_time_in_every_combination() {
        use Extent::{Duration, Requests};
        let walks = [
            (Warmup::None, Requests(3), "mmm....."),
            (Warmup::None, Duration(secs(3)), "mmm....."),
            (Warmup::Requests(2), Requests(3), "wwmmm..."),
            (Warmup::Requests(2), Duration(secs(3)), "wwmmm..."),
            (Warmup::Duration(secs(2)), Requests(3), "wwmmm..."),
            (Warmup::Duration(secs(2)), Duration(secs(3)), "wwmmm..."),
            (Warmup::Duration(secs(0)), Requests(1), "m......."),
        ];
        for (warmup, measure, want) in walks {
            assert_eq!(walk(tracker(warmup, measure), 8), want, "{warmup:?} {measure:?}");
        }
    }

    #[test]
    fn a_measurement_after_a_timed_warmup_begins_on_the_dot() {
        let mut t = tracker(Warmup::Duration(secs(2)), Extent::Duration(secs(1)));
        assert_eq!(t.next(Nanos(2_900_000_000)), Some(Phase::Measure));
        assert_eq!(t.began(), Some(Nanos::from_secs(2)));
        assert_eq!(t.next(Nanos(3_000_000_000)), None);
    }

    #[test]
    fn the_lanes_of_a_closed_loop_send_exactly_the_whole() {
        for (users, lanes, warmup, n) in [(3, 2, 5, 10), (16, 3, 0, 7), (2, 4, 1, 9)] {
            let phases =
                Phases { warmup: Warmup::Requests(warmup), measure: Extent::Requests(n), drain: secs(1) };
            let (mut w, mut m) = (0, 0);
            for lane in 0..lanes {
                let mut t = PhaseTracker::new(&phases, Some(users), lane, lanes);
                while t.next(Nanos::ZERO).is_some() {}
                w += t.counts().0;
                m += t.counts().1;
            }
            assert_eq!((w, m), (warmup, n));
        }
    }
}
