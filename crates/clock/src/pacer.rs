//! Waiting for an absolute moment, to within about a microsecond.

use spec::Nanos;

use crate::{Clock, sys};

/// The last part of a wait is spun, because a thread that sleeps wakes tens of microseconds late.
const SPIN: Nanos = Nanos::from_micros(60);

/// Waits for absolute moments of the run's clock. Made on the thread that waits: it asks the
/// kernel for exact timers there.
#[derive(Debug)]
pub struct Pacer {
    clock: Clock,
    // The timer slack belongs to the thread, so the pacer must stay on it.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Pacer {
    /// A pacer of the calling thread.
    pub fn new(clock: Clock) -> Self {
        #[cfg(target_os = "linux")]
        sys::shrink_timer_slack();
        Pacer { clock, _not_send: std::marker::PhantomData }
    }
    /// The clock it waits on.
    pub fn clock(&self) -> Clock {
        self.clock
    }
    /// Waits until `deadline` and returns the time then: never earlier, at once when it has
    /// passed. Sleeps on an absolute timer until 60 µs before, then spins.
    pub fn wait_until(&self, deadline: Nanos) -> Nanos {
        self.sleep_until(Nanos(deadline.0.saturating_sub(SPIN.0)));
        loop {
            let now = self.clock.now();
            if now >= deadline && self.reached(deadline) {
                return now;
            }
            std::hint::spin_loop();
        }
    }
    /// Sleeps until `deadline` without spinning: tens of microseconds late, never early.
    pub fn sleep_until(&self, deadline: Nanos) {
        while !self.reached(deadline) {
            #[cfg(target_os = "linux")]
            sys::sleep_until_raw(self.clock.raw(deadline));
            #[cfg(not(target_os = "linux"))]
            std::thread::sleep(deadline.saturating_since(self.clock.now()).duration());
        }
    }
    /// Also true to a deadline of zero while the origin itself lies ahead.
    fn reached(&self, deadline: Nanos) -> bool {
        use crate::ClockSource;
        crate::SystemClocks.monotonic_ns() >= self.clock.raw(deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_early_and_the_past_is_at_once() {
        let clock = Clock::start();
        let pacer = Pacer::new(clock);
        let mut at = clock.now();
        for _ in 0..20 {
            at += Nanos::from_micros(300);
            let now = pacer.wait_until(at);
            assert!(now >= at);
        }
        let before = clock.now();
        let now = pacer.wait_until(Nanos::ZERO);
        assert!(now >= before);
        assert!(now.saturating_since(before) < Nanos::from_secs(1));
    }

    #[test]
    fn waits_for_an_origin_that_lies_ahead() {
        use crate::ClockSource;
        let clock = Clock::start_in(Nanos::from_millis(2));
        Pacer::new(clock).wait_until(Nanos::ZERO);
        assert!(crate::SystemClocks.monotonic_ns() >= clock.origin_raw_ns());
    }
}
