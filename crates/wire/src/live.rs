//! What a progress display may read while requests run: atomics only, so that drawing moves no stamp.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use record::{Request, State};
use spec::{Nanos, Phase};

/// Requests that the ring of recent ones holds.
const RING: usize = 4096;
/// A request that a lane begins with later than this after its moment counts as late.
pub const LATE: Nanos = Nanos::from_millis(2);

/// Counters of a run, and its recent requests.
#[derive(Debug)]
pub struct Live {
    began: AtomicBool,
    opened_ahead: AtomicU32,
    opens_ahead: AtomicU32,
    origin_raw_ns: AtomicU64,
    sent: AtomicU64,
    in_flight: AtomicU32,
    peak: AtomicU32,
    ok: AtomicU64,
    failed: AtomicU64,
    timed_out: AtomicU64,
    cancelled: AtomicU64,
    shed: AtomicU64,
    output_tokens: AtomicU64,
    measured: AtomicU64,
    lag_worst: AtomicU64,
    late: AtomicU64,
    lag_recent: AtomicU64,
    ring: Vec<Slot>,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Slot {
    ended: AtomicU64,
    ttft: AtomicU64,
    tpot: AtomicU64,
    lag: AtomicU64,
    tokens: AtomicU64,
}

/// Counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Time since the run's origin; `None` before it.
    pub now: Option<Nanos>,
    /// Connections opened ahead of the first request, and how many are to be.
    pub ahead: (u32, u32),
    /// Requests whose first byte went out.
    pub sent: u64,
    /// Requests under way, those that wait at a cap not among them.
    pub in_flight: u32,
    /// The most under way at once.
    pub peak: u32,
    /// Ended well.
    pub ok: u64,
    /// Ended badly.
    pub failed: u64,
    /// Cut by a limit.
    pub timed_out: u64,
    /// Cut at the end of the run.
    pub cancelled: u64,
    /// Due but never sent.
    pub shed: u64,
    /// Output tokens of requests that ended well.
    pub output_tokens: u64,
    /// Requests of the measurement that have ended.
    pub measured: u64,
    /// Longest time from an intended send to the first byte written.
    pub lag_worst: Nanos,
    /// Requests that a lane began with later than [`LATE`].
    pub late: u64,
}

/// A request that ended a short while ago. Zero stands for "not defined" in `ttft` and `tpot`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recent {
    /// When it ended.
    pub ended: Nanos,
    /// Time to first token, from the first byte written.
    pub ttft: Nanos,
    /// Time per output token; tokens are the server's or one per chunk.
    pub tpot: Nanos,
    /// From the intended send to the first byte written.
    pub lag: Nanos,
    /// Output tokens.
    pub tokens: u64,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            began: AtomicBool::new(false),
            opened_ahead: AtomicU32::new(0),
            opens_ahead: AtomicU32::new(0),
            origin_raw_ns: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            peak: AtomicU32::new(0),
            ok: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            shed: AtomicU64::new(0),
            output_tokens: AtomicU64::new(0),
            measured: AtomicU64::new(0),
            lag_worst: AtomicU64::new(0),
            late: AtomicU64::new(0),
            lag_recent: AtomicU64::new(0),
            ring: (0..RING).map(|_| Slot::default()).collect(),
            next: AtomicU64::new(0),
        }
    }
}

impl Live {
    /// Nothing has happened.
    pub fn new() -> Self {
        Self::default()
    }
    /// Counters now.
    pub fn snapshot(&self) -> Snapshot {
        let began = self.began.load(std::sync::atomic::Ordering::Acquire);
        let clock = clock::Clock::with_origin(self.origin_raw_ns.load(Relaxed));
        Snapshot {
            now: began.then(|| clock.now()),
            ahead: (self.opened_ahead.load(Relaxed), self.opens_ahead.load(Relaxed)),
            sent: self.sent.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
            peak: self.peak.load(Relaxed),
            ok: self.ok.load(Relaxed),
            failed: self.failed.load(Relaxed),
            timed_out: self.timed_out.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            shed: self.shed.load(Relaxed),
            output_tokens: self.output_tokens.load(Relaxed),
            measured: self.measured.load(Relaxed),
            lag_worst: Nanos(self.lag_worst.load(Relaxed)),
            late: self.late.load(Relaxed),
        }
    }
    /// So many connections are to be opened ahead of the first request.
    pub(crate) fn opens_ahead(&self, count: u32) {
        self.opens_ahead.store(count, Relaxed);
    }
    /// One of them stands.
    pub(crate) fn opened_ahead(&self) {
        self.opened_ahead.fetch_add(1, Relaxed);
    }
    /// Requests that ended well at or after `from`, at most the last 4,096, in no order. For the eye
    /// only: an entry being overwritten at this moment may mix two requests.
    pub fn recent(&self, from: Nanos) -> Vec<Recent> {
        let filled = self.next.load(Relaxed).min(RING as u64) as usize;
        self.ring[..filled]
            .iter()
            .map(|slot| Recent {
                ended: Nanos(slot.ended.load(Relaxed)),
                ttft: Nanos(slot.ttft.load(Relaxed)),
                tpot: Nanos(slot.tpot.load(Relaxed)),
                lag: Nanos(slot.lag.load(Relaxed)),
                tokens: slot.tokens.load(Relaxed),
            })
            .filter(|recent| recent.ended >= from)
            .collect()
    }

    /// The longest lag with which a lane began with a request since this was last asked, for the one
    /// display that asks.
    pub fn take_lag(&self) -> Nanos {
        Nanos(self.lag_recent.swap(0, Relaxed))
    }

    pub(crate) fn begin(&self, origin_raw_ns: u64) {
        self.origin_raw_ns.store(origin_raw_ns, Relaxed);
        self.began.store(true, std::sync::atomic::Ordering::Release);
    }
    /// A lane begins with a request, this long after it was due.
    pub(crate) fn enter(&self, lag: Nanos) {
        if lag > LATE {
            self.late.fetch_add(1, Relaxed);
        }
        self.lag_recent.fetch_max(lag.0, Relaxed);
        let now = self.in_flight.fetch_add(1, Relaxed) + 1;
        self.peak.fetch_max(now, Relaxed);
    }
    pub(crate) fn leave(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
    }
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }
    pub(crate) fn sent(&self) {
        self.sent.fetch_add(1, Relaxed);
    }
    /// Rows given off so far.
    pub(crate) fn rows(&self) -> u64 {
        [&self.ok, &self.failed, &self.timed_out, &self.cancelled, &self.shed]
            .iter()
            .map(|counter| counter.load(Relaxed))
            .sum()
    }
    pub(crate) fn ended(&self, row: &Request) {
        let counter = match row.state {
            State::Ok => &self.ok,
            State::Failed { .. } => &self.failed,
            State::TimedOut { .. } => &self.timed_out,
            State::Cancelled => &self.cancelled,
            State::Shed => &self.shed,
        };
        counter.fetch_add(1, Relaxed);
        if row.phase == Phase::Measure {
            self.measured.fetch_add(1, Relaxed);
        }
        let Some(begin) = row.write_begin else { return };
        let lag = begin.saturating_since(row.intended);
        self.lag_worst.fetch_max(lag.0, Relaxed);
        if !row.state.is_ok() {
            return;
        }
        let tokens = row.output.usage.map_or(row.chunks.len() as u64, u64::from);
        self.output_tokens.fetch_add(tokens, Relaxed);
        let (first, last) = match (row.chunks.first(), row.chunks.last()) {
            (Some(first), Some(last)) if row.streamed => (first.arrival, last.arrival),
            _ => (begin, begin),
        };
        let slot = &self.ring[self.next.fetch_add(1, Relaxed) as usize % RING];
        slot.ttft.store(first.saturating_since(begin).0, Relaxed);
        slot.tpot.store(last.saturating_since(first).0 / tokens.saturating_sub(1).max(1), Relaxed);
        slot.lag.store(lag.0, Relaxed);
        slot.tokens.store(tokens, Relaxed);
        slot.ended.store(row.closed.unwrap_or(last).0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use plan::Intent;

    use super::*;
    use crate::outgoing::shed_row;

    #[test]
    fn counts_and_the_ring() {
        let live = Live::new();
        assert_eq!(live.snapshot(), Snapshot::default());
        live.begin(0);
        let intent = Intent { seq: 0, at: Nanos(5), phase: Phase::Measure, isl: None, osl: None };
        let mut row = shed_row(&intent, Nanos(5));
        live.ended(&row);
        row.state = State::Ok;
        row.write_begin = Some(Nanos(7));
        row.closed = Some(Nanos(100));
        live.enter(Nanos::from_millis(3));
        live.sent();
        live.ended(&row);
        live.leave();
        let snapshot = live.snapshot();
        assert!(snapshot.now.is_some());
        assert_eq!(
            (snapshot.ok, snapshot.shed, snapshot.sent, snapshot.in_flight, snapshot.peak),
            (1, 1, 1, 0, 1)
        );
        assert_eq!((snapshot.measured, snapshot.lag_worst, live.rows()), (2, Nanos(2), 2));
        assert_eq!(
            (snapshot.late, live.take_lag(), live.take_lag()),
            (1, Nanos::from_millis(3), Nanos::ZERO)
        );
        let recent = live.recent(Nanos::ZERO);
        assert_eq!(recent, [Recent { ended: Nanos(100), lag: Nanos(2), ..Recent::default() }]);
        assert!(live.recent(Nanos(101)).is_empty());
    }
}
