//! What somebody else has drawn, in place of the load's own draws: a timetable, or turns of all users.

use std::sync::Arc;

use spec::{Extent, Load, Nanos, Spec, Warmup};

use crate::{Arrivals, MAX_REQUESTS, PlanError};

/// When to send what, as given.
#[derive(Debug, Clone, PartialEq)]
pub enum Script {
    /// Open loop: each request at its moment.
    Timetable(Timetable),
    /// Closed loop: all users send at the same moment, and again when the last of them has its answer.
    Turns(Turns),
}

/// The moments of an open loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Timetable {
    /// Since the origin, in order.
    pub at: Arc<[Nanos]>,
    /// When one more request would be due: the span that these stand for.
    pub next: Option<Nanos>,
    /// More requests than this under way end the plan there; what is under way may end.
    pub most_open: Option<u32>,
}

/// How long turns go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turns {
    /// At most so many.
    pub most: u64,
    /// They end with the first one, from this number on, that begins at `least_time` or later.
    pub least: u64,
    /// See `least`.
    pub least_time: Nanos,
    /// They end with the first one that begins later than this.
    pub most_time: Option<Nanos>,
}

impl Turns {
    /// Whether none follows after `made` of them, the last of which began at `last`.
    fn over(&self, made: u64, last: Nanos) -> bool {
        made > 0
            && (made >= self.most
                || made >= self.least && last >= self.least_time
                || self.most_time.is_some_and(|most| last > most))
    }

    /// Whether `requests` of `users`, the last of which began at `last`, are whole turns and enough.
    pub(crate) fn end(&self, users: u32, requests: u64, last: Nanos) -> bool {
        let users = u64::from(users.max(1));
        requests.is_multiple_of(users) && self.over(requests / users, last)
    }
}

impl Script {
    /// Whether it can be followed under the load and the phases of `spec`, whose count of requests is
    /// the script's.
    pub(crate) fn check(&self, spec: &Spec) -> Result<(), PlanError> {
        let load = |why| Err(PlanError::Load { why });
        let count = match (self, &spec.load) {
            (Script::Timetable(table), Load::Open(_)) => {
                if table.at.is_empty() {
                    return load("an empty timetable");
                }
                if !table.at.is_sorted() {
                    return load("a timetable that is not in order");
                }
                table.at.len() as u64
            }
            (Script::Turns(turns), Load::Closed(closed)) => {
                if closed.concurrency == 0 || turns.most == 0 {
                    return load("no user or no turn at all");
                }
                turns.most.saturating_mul(u64::from(closed.concurrency))
            }
            _ => return load("a timetable belongs to an open loop, turns to a closed one"),
        };
        if count > MAX_REQUESTS {
            return Err(PlanError::TooMany);
        }
        if spec.phases.warmup != Warmup::None || spec.phases.measure != Extent::Requests(count) {
            return load("the phases are not those of the timetable or the turns");
        }
        Ok(())
    }
}

/// The moments of an open loop, drawn or given.
#[derive(Debug, Clone)]
pub(crate) enum Moments {
    Drawn(Box<Arrivals>),
    Given { at: Arc<[Nanos]>, next: usize },
}

impl Iterator for Moments {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        match self {
            Moments::Drawn(arrivals) => arrivals.next(),
            Moments::Given { at, next } => {
                let moment = at.get(*next).copied();
                *next += 1;
                moment
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_end_whole_and_by_count_and_time() {
        let turns = Turns { most: 9, least: 3, least_time: Nanos(50), most_time: Some(Nanos(100)) };
        let end = |requests, last| turns.end(2, requests, Nanos(last));
        // Of two users: enough turns but too short, long enough but too few, both, and not whole.
        assert_eq!([end(6, 49), end(4, 60), end(6, 50), end(7, 50)], [false, false, true, false]);
        // The end of its time, the most turns, and never before the first.
        assert_eq!([end(2, 101), end(18, 0), end(0, 200)], [true, true, false]);
    }
}
