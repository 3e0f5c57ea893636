//! The only home of time: the run's monotonic clock, its relation to the wall clock, the pacer
//! that waits for absolute moments, the CPU time of threads, process and machine, and where threads
//! run.
//!
//! Everything that a run records is in [`Nanos`] since the run's origin on `CLOCK_MONOTONIC`.

pub mod cpu;
pub mod machine;
pub mod pacer;
pub mod scheduling;
mod sys;
pub mod virtual_clock;
pub mod wall;

use spec::Nanos;

pub use cpu::{ThreadCpu, process_cpu};
pub use machine::{MachineTimes, ThreadSched};
pub use pacer::Pacer;
pub use virtual_clock::VirtualClock;
pub use wall::{OffsetPair, Step, WallMap};

/// A source of both clocks, so that a test can play a clock that jumps.
pub trait ClockSource {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    fn monotonic_ns(&self) -> u64;
    /// `CLOCK_REALTIME` in nanoseconds since the Unix epoch.
    fn realtime_ns(&self) -> i64;
}

/// The clocks of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClocks;

impl ClockSource for SystemClocks {
    fn monotonic_ns(&self) -> u64 {
        sys::read_clock(libc::CLOCK_MONOTONIC).unwrap_or(0)
    }
    fn realtime_ns(&self) -> i64 {
        sys::read_clock(libc::CLOCK_REALTIME).map_or(0, |ns| ns as i64)
    }
}

/// The run's clock: nanoseconds since an origin on `CLOCK_MONOTONIC`. Copies agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    origin_raw_ns: u64,
}

impl Clock {
    /// A clock whose origin is now.
    pub fn start() -> Self {
        Clock { origin_raw_ns: SystemClocks.monotonic_ns() }
    }
    /// A clock whose origin lies ahead; until then it reads zero.
    pub fn start_in(lead: Nanos) -> Self {
        Clock { origin_raw_ns: SystemClocks.monotonic_ns().saturating_add(lead.0) }
    }
    /// A clock with a given origin on `CLOCK_MONOTONIC`, in nanoseconds.
    pub fn with_origin(origin_raw_ns: u64) -> Self {
        Clock { origin_raw_ns }
    }
    /// The time since the origin.
    pub fn now(&self) -> Nanos {
        self.at_raw(SystemClocks.monotonic_ns())
    }
    /// The origin on `CLOCK_MONOTONIC`, in nanoseconds.
    pub fn origin_raw_ns(&self) -> u64 {
        self.origin_raw_ns
    }
    /// A reading of `CLOCK_MONOTONIC` as a moment of the run; before the origin: zero.
    pub fn at_raw(&self, raw_ns: u64) -> Nanos {
        Nanos(raw_ns.saturating_sub(self.origin_raw_ns))
    }
    /// A moment of the run as a reading of `CLOCK_MONOTONIC`.
    pub fn raw(&self, at: Nanos) -> u64 {
        self.origin_raw_ns.saturating_add(at.0)
    }
}

/// The wall time in nanoseconds since the Unix epoch. A label only: durations never come from it.
pub fn wall_now_ns() -> i64 {
    SystemClocks.realtime_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_forward_from_the_origin() {
        let clock = Clock::start();
        let a = clock.now();
        let b = clock.now();
        assert!(b >= a);
        assert!(a < Nanos::from_secs(5), "origin is now: {a:?}");
        assert_eq!(clock.at_raw(clock.raw(Nanos(17))), Nanos(17));
    }

    #[test]
    fn before_its_origin_a_clock_reads_zero() {
        let clock = Clock::start_in(Nanos::from_secs(3_600));
        assert_eq!(clock.now(), Nanos::ZERO);
        assert_eq!(clock.at_raw(clock.origin_raw_ns() + 5), Nanos(5));
    }

    #[test]
    fn the_wall_clock_is_past_2020() {
        assert!(wall_now_ns() > 1_577_836_800_000_000_000);
    }
}
