//! Closed loop: users that take requests from one queue, each as soon as it is free.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use plan::PhaseTracker;
use record::{FailureClass, State};
use spec::{Nanos, Phase};
use tokio::sync::{Semaphore, oneshot};

use crate::exchange::{Desk, exchange};
use crate::gate::{Gate, Member};
use crate::lane::give_off;
use crate::outgoing::{Order, Output};
use crate::supply::{Prepared, Supply};

/// A user who could not connect tries again after this: without it a dead server would make
/// thousands of failures a second. The next request is intended then.
const AFTER_NO_CONNECTION: Nanos = Nanos::from_millis(100);

/// Hands prepared requests to users, in the order of the plan.
pub(crate) struct Queue {
    ready: Semaphore,
    inner: Mutex<Inner>,
    supply: Arc<Supply>,
    over: AtomicBool,
    last_intended: AtomicU64,
    total: Option<u64>,
}

struct Inner {
    items: Receiver<Prepared>,
    tracker: PhaseTracker,
}

impl Queue {
    /// `total`: requests that the plan holds, where a number ends it.
    pub fn new(
        items: Receiver<Prepared>,
        tracker: PhaseTracker,
        supply: Arc<Supply>,
        total: Option<u64>,
    ) -> Self {
        Queue {
            ready: Semaphore::new(0),
            inner: Mutex::new(Inner { items, tracker }),
            supply,
            over: AtomicBool::new(false),
            last_intended: AtomicU64::new(0),
            total,
        }
    }
    /// An item has been put in.
    pub fn pushed(&self) {
        self.ready.add_permits(1);
    }
    /// Nothing more is put in: users that wait find it empty.
    pub fn ended(&self, users: u32) {
        self.ready.add_permits(users as usize);
    }
    /// No user is given a request any more.
    pub fn stop(&self) {
        self.over.store(true, Relaxed);
        self.ready.close();
    }
    /// Nothing is handed out any more.
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }
    /// When the last request so far was intended.
    pub fn last_intended(&self) -> Nanos {
        Nanos(self.last_intended.load(Relaxed))
    }
    /// When the measurement began, and requests handed out as (warm-up, measurement).
    pub fn progress(&self) -> (Option<Nanos>, (u64, u64)) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        (inner.tracker.began(), inner.tracker.counts())
    }
    /// The next request, intended at `intended`; `None`: the run is over.
    async fn take(&self, intended: Nanos) -> Option<(Prepared, Phase)> {
        self.ready.acquire().await.ok()?.forget();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_over() {
            return None;
        }
        // First the item: what the tracker has counted must be sent.
        let Ok(prepared) = inner.items.try_recv() else {
            self.over.store(true, Relaxed);
            return None;
        };
        self.supply.took(&prepared);
        let Some(phase) = inner.tracker.next(intended) else {
            self.over.store(true, Relaxed);
            return None;
        };
        self.last_intended.fetch_max(intended.0, Relaxed);
        let (warmed, measured) = inner.tracker.counts();
        if self.total.is_some_and(|total| warmed + measured >= total) {
            self.over.store(true, Relaxed);
        }
        Some((prepared, phase))
    }
}

/// A user who thinks: to be woken at a moment.
pub(crate) struct Nap {
    pub until: Nanos,
    pub wake: oneshot::Sender<()>,
}

/// What the users of a lane share.
#[derive(Clone)]
pub(crate) struct Closed {
    pub queue: Arc<Queue>,
    pub load: spec::Closed,
    pub naps: Sender<Nap>,
    /// Users who wait for each other.
    pub gate: Option<Arc<Gate>>,
}

/// One user: sends, waits for the end, thinks, sends again. Runs inside of `Flight::listed`.
pub(crate) async fn user(
    desk: &Desk,
    closed: &Closed,
    number: u32,
    out: &Sender<Output>,
    in_flight: &Rc<Cell<u32>>,
) {
    let think = closed.load.think.0;
    let member = closed.gate.as_ref().map(Member::of);
    let mut intended = closed.load.start_of(number);
    loop {
        if intended > desk.time.now() {
            let (wake, woken) = oneshot::channel();
            if closed.naps.send(Nap { until: intended, wake }).is_err() {
                return;
            }
            match desk.flight.unless_cut(woken).await {
                Some(Ok(())) => {}
                _ => return,
            }
        }
        let Some(Some((prepared, phase))) = desk.flight.unless_cut(closed.queue.take(intended)).await else {
            return;
        };
        let Some(mut outgoing) = prepared.outgoing else { return };
        outgoing.intent.phase = phase;
        let dispatched = desk.time.now();
        let order = Order { outgoing, phase, user: Some(number), intended, dispatched };
        in_flight.set(in_flight.get() + 1);
        let (row, text) = exchange(desk, &order, None).await;
        in_flight.set(in_flight.get() - 1);
        let free = row.closed.unwrap_or(dispatched);
        let unreachable = matches!(row.state, State::Failed { class: FailureClass::Connect, .. });
        give_off(desk, out, row, text);
        intended = free + if unreachable { think.max(AFTER_NO_CONNECTION) } else { think };
        if let Some(member) = &member {
            let Some(last) = desk.flight.unless_cut(member.together(intended)).await else { return };
            intended = last;
        }
    }
}
