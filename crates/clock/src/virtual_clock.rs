//! A clock that stands until it is told to move, for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use spec::Nanos;

use crate::ClockSource;

/// Both clocks by hand: they move only by [`VirtualClock::advance`], and the wall clock can jump.
#[derive(Debug, Clone, Default)]
pub struct VirtualClock {
    monotonic: Arc<AtomicU64>,
    offset: Arc<AtomicI64>,
}

impl VirtualClock {
    /// Monotonic time zero, wall time `wall_ns` since the Unix epoch.
    pub fn new(wall_ns: i64) -> Self {
        let clock = VirtualClock::default();
        clock.offset.store(wall_ns, Ordering::SeqCst);
        clock
    }
    /// Time since the origin.
    pub fn now(&self) -> Nanos {
        Nanos(self.monotonic.load(Ordering::SeqCst))
    }
    /// Lets time pass on both clocks.
    pub fn advance(&self, by: Nanos) {
        self.monotonic.fetch_add(by.0, Ordering::SeqCst);
    }
    /// Sets the wall clock forward or back, as an administrator does.
    pub fn step_wall(&self, by_ns: i64) {
        self.offset.fetch_add(by_ns, Ordering::SeqCst);
    }
}

impl ClockSource for VirtualClock {
    fn monotonic_ns(&self) -> u64 {
        self.now().0
    }
    fn realtime_ns(&self) -> i64 {
        self.now().0 as i64 + self.offset.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_only_when_told() {
        let clock = VirtualClock::new(1_000);
        assert_eq!((clock.now(), clock.realtime_ns()), (Nanos::ZERO, 1_000));
        clock.advance(Nanos(5));
        clock.step_wall(-100);
        assert_eq!((clock.monotonic_ns(), clock.realtime_ns()), (5, 905));
    }
}
