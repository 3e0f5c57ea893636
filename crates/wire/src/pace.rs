//! The pacer threads: the timetable of an open loop, the wake-ups of users who think.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use clock::{Clock, Pacer};
use spec::Nanos;
use tokio::sync::mpsc::UnboundedSender;

use crate::lane::Command;
use crate::live::Live;
use crate::outgoing::{Order, Output, shed_row};
use crate::supply::{Prepared, Supply};
use crate::users::Nap;

/// A wait is broken up, so that a cut is noticed.
const SLICE: Nanos = Nanos::from_millis(10);

/// Follows the timetable: hands each request to its lane at its moment, never earlier, and at once
/// when it is late; ends once more than `most_open` are under way. Returns when the last send was intended,
/// and how many were handed on.
pub(crate) fn timetable(
    clock: Clock,
    items: &Receiver<Prepared>,
    most_open: Option<u32>,
    supply: &Supply,
    lanes: &[UnboundedSender<Command>],
    out: &Sender<Output>,
    live: &Live,
) -> (Nanos, u64) {
    let pacer = Pacer::new(clock);
    let mut last = Nanos::ZERO;
    let mut offered = 0;
    pacer.wait_until(Nanos::ZERO);
    while let Ok(prepared) = items.recv() {
        supply.took(&prepared);
        let Prepared { intent, outgoing } = prepared;
        if !reached(&pacer, supply, intent.at) {
            continue;
        }
        last = intent.at;
        offered += 1;
        let dispatched = pacer.clock().now();
        match outgoing.filter(|_| supply.cut_at().is_none()) {
            Some(outgoing) => {
                let order =
                    Order { outgoing, phase: intent.phase, user: None, intended: intent.at, dispatched };
                let lane = intent.seq as usize % lanes.len();
                let _ = lanes[lane].send(Command::Send(Box::new(order)));
            }
            None => {
                let row = shed_row(&intent, intent.at);
                live.ended(&row);
                let _ = out.send(Output::Heard { request: row, text: None });
            }
        }
        if most_open.is_some_and(|most| live.rows() + u64::from(most) < offered) {
            break;
        }
    }
    (last, offered)
}

/// Waits for a moment of the timetable; `false`: the plan was cut before it.
fn reached(pacer: &Pacer, supply: &Supply, at: Nanos) -> bool {
    loop {
        if supply.cut_at().is_some_and(|cut| at > cut) {
            return false;
        }
        let now = pacer.clock().now();
        if at <= now + SLICE {
            pacer.wait_until(at);
            return supply.cut_at().is_none_or(|cut| at <= cut);
        }
        pacer.sleep_until(now + SLICE);
    }
}

/// Wakes users at the end of their thinking time, until nobody can ask any more.
pub(crate) fn alarm_clock(clock: Clock, naps: &Receiver<Nap>) {
    /// The rest of a wait is left to the pacer.
    const EXACT: Nanos = Nanos::from_micros(300);
    struct ByTime(Nap);
    impl PartialEq for ByTime {
        fn eq(&self, other: &Self) -> bool {
            self.0.until == other.0.until
        }
    }
    impl Eq for ByTime {}
    impl PartialOrd for ByTime {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for ByTime {
        fn cmp(&self, other: &Self) -> std::cmp::Ordering {
            self.0.until.cmp(&other.0.until)
        }
    }
    let pacer = Pacer::new(clock);
    let mut asleep: BinaryHeap<Reverse<ByTime>> = BinaryHeap::new();
    loop {
        let came = match asleep.peek() {
            None => naps.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(Reverse(next)) => {
                let left = next.0.until.saturating_since(clock.now());
                match left > EXACT {
                    true => naps.recv_timeout(Duration::from_nanos(left.0 - EXACT.0)),
                    false => naps.try_recv().map_err(|_| RecvTimeoutError::Timeout),
                }
            }
        };
        match came {
            Ok(nap) => asleep.push(Reverse(ByTime(nap))),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let Some(Reverse(ByTime(nap))) = asleep.pop() else { continue };
                if nap.until.saturating_since(clock.now()) > EXACT {
                    asleep.push(Reverse(ByTime(nap)));
                    continue;
                }
                pacer.wait_until(nap.until);
                // A user who was cut is gone.
                let _ = nap.wake.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn users_are_woken_in_order_and_never_early() {
        let clock = Clock::start();
        let (send, receive) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || alarm_clock(clock, &receive));
        let naps: Vec<_> = [5_000_u64, 1_000, 3_000, 1_100]
            .into_iter()
            .map(|us| {
                let until = clock.now() + Nanos::from_micros(us);
                let (wake, woken) = oneshot::channel();
                send.send(Nap { until, wake }).unwrap();
                (until, woken)
            })
            .collect();
        for (until, woken) in naps {
            woken.blocking_recv().unwrap();
            assert!(clock.now() >= until);
        }
        drop(send);
        thread.join().unwrap();
    }
}
