//! Requests made up ahead of time: the preparation thread and the queue behind it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::Duration;

use clock::Clock;
use plan::Intent;
use spec::Nanos;

use crate::outgoing::{Outgoing, Source};

/// Open loop: prepared this far ahead of the timetable before the first send.
const FIRST_AHEAD: Nanos = Nanos::from_millis(500);
/// Open loop: kept prepared this far ahead while it runs.
const AHEAD: Nanos = Nanos::from_secs(5);
/// However far apart they are.
const AT_LEAST: u64 = 64;
/// Prepared bodies may take this much memory.
const MOST_BYTES: u64 = 1 << 29;
/// Preparation that is far enough ahead looks up this often. What is kept ready must last longer.
const LOOK_UP: Duration = Duration::from_millis(10);
const NEVER: u64 = u64::MAX;

/// An intent on its way, with its request or, once the run is cut, without.
pub(crate) struct Prepared {
    pub intent: Intent,
    pub outgoing: Option<Outgoing>,
}

/// How far preparation may run ahead.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ahead {
    /// By the timetable.
    Timetable,
    /// By a number: the run can begin with `first`, and up to `most` are kept.
    Count {
        /// To begin with.
        first: u64,
        /// At most.
        most: u64,
    },
}

/// What the preparation thread and its consumers tell each other.
#[derive(Debug)]
pub(crate) struct Supply {
    pushed: AtomicU64,
    popped: AtomicU64,
    bytes: AtomicI64,
    origin_raw_ns: AtomicU64,
    cut_at: AtomicU64,
}

impl Supply {
    pub fn new() -> Self {
        Supply {
            pushed: AtomicU64::new(0),
            popped: AtomicU64::new(0),
            bytes: AtomicI64::new(0),
            origin_raw_ns: AtomicU64::new(NEVER),
            cut_at: AtomicU64::new(NEVER),
        }
    }
    /// The run has its origin.
    pub fn begin(&self, clock: Clock) {
        self.origin_raw_ns.store(clock.origin_raw_ns(), Relaxed);
    }
    /// The plan ends here: what was due later is not offered. The first cut holds.
    pub fn cut(&self, at: Nanos) {
        let _ = self.cut_at.compare_exchange(NEVER, at.0, Relaxed, Relaxed);
    }
    /// Where the plan was cut.
    pub fn cut_at(&self) -> Option<Nanos> {
        Some(self.cut_at.load(Relaxed)).filter(|at| *at != NEVER).map(Nanos)
    }
    /// An item has been taken.
    pub fn took(&self, prepared: &Prepared) {
        self.popped.fetch_add(1, Relaxed);
        self.bytes.fetch_sub(size(prepared), Relaxed);
    }
    fn now(&self) -> Nanos {
        match self.origin_raw_ns.load(Relaxed) {
            NEVER => Nanos::ZERO,
            origin => Clock::with_origin(origin).now(),
        }
    }
    fn waiting(&self) -> u64 {
        self.pushed.load(Relaxed).saturating_sub(self.popped.load(Relaxed))
    }
    fn full(&self, at: Nanos, ahead: Ahead) -> bool {
        let waiting = self.waiting();
        if waiting > 0 && self.bytes.load(Relaxed) > MOST_BYTES as i64 {
            return true;
        }
        match ahead {
            Ahead::Count { most, .. } => waiting >= most,
            Ahead::Timetable => {
                let horizon = match self.origin_raw_ns.load(Relaxed) {
                    NEVER => FIRST_AHEAD,
                    _ => self.now() + AHEAD,
                };
                waiting >= AT_LEAST && at > horizon
            }
        }
    }
}

fn size(prepared: &Prepared) -> i64 {
    prepared.outgoing.as_ref().map_or(0, |o| o.body.len() as i64)
}

/// What preparation tells the conductor.
#[derive(Debug)]
pub(crate) enum Ready {
    /// Enough is prepared to begin, or everything is.
    Filled,
    /// A request could not be made up; nothing is prepared any more.
    Broken(String),
}

/// Prepares until the plan is over or cut; runs on a thread of its own. `pushed` is called after
/// each item.
pub(crate) fn prepare(
    mut source: Box<dyn Source>,
    intents: impl Iterator<Item = Intent>,
    ahead: Ahead,
    supply: &Supply,
    queue: &Sender<Prepared>,
    ready: &Sender<Ready>,
    pushed: impl Fn(),
) {
    let mut told = false;
    for intent in intents {
        while supply.cut_at().is_none() && supply.full(intent.at, ahead) {
            if !std::mem::replace(&mut told, true) {
                let _ = ready.send(Ready::Filled);
            }
            std::thread::park_timeout(LOOK_UP);
        }
        let mut outgoing = None;
        if supply.cut_at().is_none() {
            match source.next(intent) {
                Ok(made) => outgoing = Some(made),
                Err(error) => {
                    supply.cut(supply.now());
                    let _ = ready.send(Ready::Broken(error.to_string()));
                }
            }
        }
        // Closed loop: nothing is due until a user takes it. Open loop: what was due by the cut must
        // still be accounted for.
        if outgoing.is_none()
            && supply.cut_at().is_none_or(|cut| matches!(ahead, Ahead::Count { .. }) || intent.at > cut)
        {
            break;
        }
        let prepared = Prepared { intent, outgoing };
        supply.bytes.fetch_add(size(&prepared), Relaxed);
        supply.pushed.fetch_add(1, Relaxed);
        if queue.send(prepared).is_err() {
            break;
        }
        pushed();
        if let Ahead::Count { first, .. } = ahead
            && !told
            && supply.waiting() >= first
        {
            told = true;
            let _ = ready.send(Ready::Filled);
        }
    }
    if !told {
        let _ = ready.send(Ready::Filled);
    }
}
