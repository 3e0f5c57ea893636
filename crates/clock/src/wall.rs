//! The wall clock against the monotonic one: offset pairs, steps, and the mapping of kernel stamps.
//!
//! The kernel stamps received segments on `CLOCK_REALTIME`. Slewing moves both clocks alike, so
//! their offset is constant but for steps; it is measured again all the time, and a stamp that
//! cannot be trusted is given up rather than guessed.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use spec::Nanos;

use crate::{Clock, ClockSource};

/// A change of the offset beyond this (and beyond what slewing and the pairs' widths explain) is a
/// step (docs/report.md, `clock`).
pub const STEP_LIMIT: Nanos = Nanos::from_millis(1);
/// The most that the offset can drift without a step.
const DRIFT_PPM: u64 = 500;
/// A mapped stamp may miss the span in which it must lie by this much on top of the pair's width,
/// since stamp and offset are read on different cores; it is then clamped into the span.
const TOLERANCE: Nanos = Nanos::from_micros(50);
/// Readings of which the narrowest makes a pair.
const BEST_OF: usize = 5;

/// A pair of readings of both clocks: the narrowest of five.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetPair {
    /// `CLOCK_MONOTONIC` in the middle of the pair, in nanoseconds.
    pub monotonic_ns: u64,
    /// Wall clock minus monotonic, in nanoseconds.
    pub offset_ns: i64,
    /// Time between the two monotonic readings around the wall reading: the offset is uncertain by
    /// half of it to either side.
    pub width: Nanos,
}

impl OffsetPair {
    /// Measures a pair.
    pub fn measure(source: &impl ClockSource) -> Self {
        let mut best: Option<OffsetPair> = None;
        for _ in 0..BEST_OF {
            let before = source.monotonic_ns();
            let wall = source.realtime_ns();
            let after = source.monotonic_ns();
            let middle = before + after.saturating_sub(before) / 2;
            let pair = OffsetPair {
                monotonic_ns: middle,
                offset_ns: wall.wrapping_sub(middle as i64),
                width: Nanos(after.saturating_sub(before)),
            };
            if best.is_none_or(|b| pair.width < b.width) {
                best = Some(pair);
            }
        }
        best.unwrap_or(OffsetPair { monotonic_ns: 0, offset_ns: 0, width: Nanos::MAX })
    }
    /// When it was measured, as a moment of the run.
    pub fn at(&self, clock: &Clock) -> Nanos {
        clock.at_raw(self.monotonic_ns)
    }
    /// The wall time of the run's origin by this pair, in nanoseconds since the Unix epoch: it
    /// changes only when a clock steps.
    pub fn origin_wall_ns(&self, clock: &Clock) -> i64 {
        self.offset_ns.wrapping_add(clock.origin_raw_ns() as i64)
    }
}

/// The wall clock was set while the run went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// By how much it jumped, in nanoseconds.
    pub by_ns: i64,
    /// `CLOCK_MONOTONIC` of the last pair before the step.
    pub after_ns: u64,
    /// `CLOCK_MONOTONIC` of the first pair behind it.
    pub before_ns: u64,
}

/// The offset in force, written by one sampler and read by every lane without a lock.
#[derive(Debug)]
pub struct WallMap {
    offset_ns: AtomicI64,
    width: AtomicU64,
    measured_ns: AtomicU64,
    /// Wall time below which no stamp is mapped: after a step, stamps from before its discovery
    /// may belong to either side of it.
    valid_from_wall_ns: AtomicI64,
    /// The moment of the same on `CLOCK_MONOTONIC`.
    valid_from_ns: AtomicU64,
}

impl WallMap {
    /// A map with a first pair.
    pub fn new(first: OffsetPair) -> Self {
        WallMap {
            offset_ns: AtomicI64::new(first.offset_ns),
            width: AtomicU64::new(first.width.0),
            measured_ns: AtomicU64::new(first.monotonic_ns),
            valid_from_wall_ns: AtomicI64::new(i64::MIN),
            valid_from_ns: AtomicU64::new(0),
        }
    }

    /// Takes a new pair into force; tells of a step since the pair before.
    pub fn observe(&self, pair: OffsetPair) -> Option<Step> {
        let old_offset = self.offset_ns.load(Ordering::Relaxed);
        let old_width = self.width.load(Ordering::Relaxed);
        let old_at = self.measured_ns.load(Ordering::Relaxed);
        let change = pair.offset_ns.wrapping_sub(old_offset);
        let drift = pair.monotonic_ns.saturating_sub(old_at) / 1_000_000 * DRIFT_PPM;
        let explained = STEP_LIMIT.0.max(drift) + old_width + pair.width.0;
        let step = (change.unsigned_abs() > explained).then_some(Step {
            by_ns: change,
            after_ns: old_at,
            before_ns: pair.monotonic_ns,
        });
        if step.is_some() {
            let wall = pair.offset_ns.wrapping_add(pair.monotonic_ns as i64);
            self.valid_from_wall_ns.store(wall, Ordering::Relaxed);
            self.valid_from_ns.store(pair.monotonic_ns, Ordering::Relaxed);
        }
        self.width.store(pair.width.0, Ordering::Relaxed);
        self.measured_ns.store(pair.monotonic_ns, Ordering::Relaxed);
        self.offset_ns.store(pair.offset_ns, Ordering::Release);
        step
    }

    /// Maps a kernel stamp on `CLOCK_REALTIME` to a moment of the run.
    ///
    /// The caller knows a span in which the segment must have come: the socket was still empty at
    /// `not_before`, and was read at `not_after`. A stamp outside of it (the wall clock was set and
    /// nobody has noticed yet) or from before the last known step gives `None`: use user time.
    pub fn to_run(&self, clock: &Clock, wall_ns: i64, not_before: Nanos, not_after: Nanos) -> Option<Nanos> {
        let offset = self.offset_ns.load(Ordering::Acquire);
        let slack = TOLERANCE.0 + self.width.load(Ordering::Relaxed);
        if wall_ns < self.valid_from_wall_ns.load(Ordering::Relaxed)
            || clock.raw(not_after) < self.valid_from_ns.load(Ordering::Relaxed)
        {
            return None;
        }
        let raw = u64::try_from(wall_ns.checked_sub(offset)?).ok()?;
        let at = clock.at_raw(raw);
        if at.0 > not_after.0.saturating_add(slack) || at.0.saturating_add(slack) < not_before.0 {
            return None;
        }
        Some(Nanos(at.0.clamp(not_before.0.min(not_after.0), not_after.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SystemClocks, VirtualClock};

    const WALL: i64 = 1_700_000_000_000_000_000;

    fn setup() -> (VirtualClock, Clock, WallMap) {
        let source = VirtualClock::new(WALL);
        source.advance(Nanos::from_secs(100));
        let clock = Clock::with_origin(Nanos::from_secs(99).0);
        let map = WallMap::new(OffsetPair::measure(&source));
        (source, clock, map)
    }

    #[test]
    fn a_stamp_is_mapped_by_the_offset_in_force() {
        let (source, clock, map) = setup();
        // Origin at 99 s, a segment stamped at 100.25 s, read at 100.3 s.
        source.advance(Nanos::from_millis(250));
        let stamp = source.realtime_ns();
        source.advance(Nanos::from_millis(50));
        let seen = clock.at_raw(source.monotonic_ns());
        assert_eq!(map.to_run(&clock, stamp, Nanos::ZERO, seen), Some(Nanos::from_millis(1_250)));
        assert_eq!(map.observe(OffsetPair::measure(&source)), None);
    }

    #[test]
    fn a_step_not_yet_noticed_falls_back_both_ways() {
        for by in [1_000_000_000_i64, -1_000_000_000, 3_000_000, -300_000_000] {
            let (source, clock, map) = setup();
            let empty = clock.at_raw(source.monotonic_ns());
            source.step_wall(by);
            source.advance(Nanos::from_millis(2));
            let stamp = source.realtime_ns();
            source.advance(Nanos::from_micros(100));
            let seen = clock.at_raw(source.monotonic_ns());
            assert_eq!(map.to_run(&clock, stamp, empty, seen), None, "step of {by}");
        }
    }

    #[test]
    fn a_step_is_reported_and_the_new_offset_serves_from_then_on() {
        let (source, clock, map) = setup();
        source.advance(Nanos::from_millis(60));
        let before_step = source.realtime_ns();
        source.step_wall(5_000_000);
        source.advance(Nanos::from_millis(40));
        let step = map.observe(OffsetPair::measure(&source));
        assert_eq!(
            step,
            Some(Step { by_ns: 5_000_000, after_ns: 100_000_000_000, before_ns: 100_100_000_000 })
        );
        // A stamp of before the discovery is ambiguous.
        let seen = clock.at_raw(source.monotonic_ns());
        assert_eq!(map.to_run(&clock, before_step, Nanos::ZERO, seen), None);
        source.advance(Nanos::from_millis(1));
        let stamp = source.realtime_ns();
        let seen = clock.at_raw(source.monotonic_ns());
        assert_eq!(map.to_run(&clock, stamp, Nanos::ZERO, seen), Some(seen));
        assert_eq!(map.observe(OffsetPair::measure(&source)), None);
    }

    #[test]
    fn slewing_within_500_ppm_is_no_step() {
        let (source, _, map) = setup();
        source.advance(Nanos::from_secs(10));
        source.step_wall(4_900_000);
        assert_eq!(map.observe(OffsetPair::measure(&source)), None);
        source.advance(Nanos::from_secs(10));
        source.step_wall(5_100_000);
        assert!(map.observe(OffsetPair::measure(&source)).is_some());
    }

    #[test]
    fn a_mapped_stamp_never_leaves_its_span() {
        let (source, clock, map) = setup();
        let seen = clock.at_raw(source.monotonic_ns());
        // 20 µs into the future: within the tolerance, clamped to the reading.
        let stamp = source.realtime_ns() + 20_000;
        assert_eq!(map.to_run(&clock, stamp, Nanos::ZERO, seen), Some(seen));
        assert_eq!(map.to_run(&clock, stamp - 40_000, seen, seen), Some(seen));
    }

    #[test]
    fn the_system_gives_narrow_pairs() {
        let pair = OffsetPair::measure(&SystemClocks);
        assert!(pair.width < Nanos::from_millis(50), "{pair:?}");
        let clock = Clock::with_origin(pair.monotonic_ns);
        assert_eq!(pair.at(&clock), Nanos::ZERO);
        assert!(pair.origin_wall_ns(&clock) > 1_577_836_800_000_000_000);
    }
}
