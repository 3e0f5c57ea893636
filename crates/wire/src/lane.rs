//! A lane: one thread, one runtime, connections that never leave it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;

use clock::{Clock, ClockSource, SystemClocks, ThreadCpu, WallMap};
use record::{Request, State};
use spec::{Connections, Dialect, Nanos, Secret, Targets, Timeouts};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, Semaphore};
use tokio::task::LocalSet;

use crate::exchange::{Desk, Flight, exchange};
use crate::io::LaneTime;
use crate::live::Live;
use crate::outgoing::{Order, Output};
use crate::reactor::Reactor;
use crate::session::Destination;
use crate::station::Station;
use crate::users::{Closed, user};

/// What a lane is told.
pub(crate) enum Command {
    /// The origin is fixed. Nothing is sent before [`Command::Go`].
    Begin(Clock),
    /// Closed loop: the users begin.
    Go(Closed, Vec<u32>),
    /// Open loop: send this now.
    Send(Box<Order>),
    /// A heartbeat, asked at this moment of `CLOCK_MONOTONIC`.
    Beat(u64),
    /// Nothing more comes; end when the last request has ended.
    Finish,
    /// Everything under way ends now.
    Cut,
}

/// What a lane tells.
pub(crate) enum Event {
    /// Connections stand (or not); commands are taken.
    Ready { cpu: Option<ThreadCpu>, warmed: Result<(), String> },
    /// The lane has ended.
    Done,
}

/// Counters of a lane that the sampler reads.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// Longest delay of an answered heartbeat since the last sample.
    pub worst: AtomicU64,
    /// Answered since the last sample.
    pub beats: AtomicU32,
    /// The last one answered, as it was asked.
    pub answered: AtomicU64,
    /// Requests under way.
    pub in_flight: AtomicU32,
    /// Processor time of the lane in all, once it has ended: its thread can be asked no more then.
    pub used_in_all: AtomicU64,
}

/// Everything a lane needs; it is built on the thread that starts it.
pub(crate) struct Setup {
    pub lane: u16,
    /// The runtime, on another thread, that keeps alarms and opens connections.
    pub side: tokio::runtime::Handle,
    pub clock: Clock,
    pub map: Arc<WallMap>,
    pub kernel_stamps: bool,
    /// In the order of the targets.
    pub destinations: Vec<Destination>,
    pub targets: Targets,
    pub connections: Connections,
    /// The lane's share of the connections that are opened ahead.
    pub prewarm: u32,
    pub timeouts: Timeouts,
    pub retries: u32,
    pub dialect: Dialect,
    pub run_id: Arc<str>,
    pub secrets: Arc<[Secret]>,
    pub live: Arc<Live>,
    pub pulse: Arc<Pulse>,
    /// Open loop: in flight at most, over all lanes.
    pub cap: Option<Arc<Semaphore>>,
    pub commands: UnboundedReceiver<Command>,
    pub out: Sender<Output>,
}

/// The lane's thread. `report` is called with every event.
///
/// The thread waits in one poll only, that of its own connections; whatever else its tasks wait for
/// (commands, alarms, a connection being opened) wakes it there.
pub(crate) fn run(setup: Setup, report: impl Fn(Event) + 'static) {
    let _side = setup.side.enter();
    let report = Rc::new(report);
    let time = LaneTime::new(setup.clock, setup.map.clone(), setup.kernel_stamps);
    let reactor = match Reactor::new(time.clone()) {
        Ok(reactor) => reactor,
        Err(error) => {
            report(Event::Ready { cpu: None, warmed: Err(format!("no poll of its own: {error}")) });
            return report(Event::Done);
        }
    };
    let pulse = setup.pulse.clone();
    let tasks = LocalSet::new();
    tasks.spawn_local(serve(setup, time, reactor.clone(), report.clone()));
    reactor.run(tasks);
    if let Some(used) = ThreadCpu::current().and_then(|cpu| cpu.used()) {
        pulse.used_in_all.store(used.0, Relaxed);
    }
    report(Event::Done);
}

async fn serve(setup: Setup, time: Rc<LaneTime>, reactor: Rc<Reactor>, report: Rc<impl Fn(Event)>) {
    let Setup { lane, connections, prewarm, .. } = setup;
    let next_id = Rc::new(Cell::new(0));
    let station = |to| Station::new(to, time.clone(), reactor.clone(), connections, next_id.clone());
    let desk = Rc::new(Desk {
        lane,
        time: time.clone(),
        stations: setup.destinations.into_iter().map(station).collect(),
        targets: setup.targets,
        timeouts: setup.timeouts,
        retries: setup.retries,
        dialect: setup.dialect,
        run_id: setup.run_id,
        secrets: setup.secrets,
        live: setup.live,
        flight: Flight::default(),
    });
    let warmed = warm(&desk, prewarm).await;
    report(Event::Ready { cpu: ThreadCpu::current(), warmed });

    let mut commands = setup.commands;
    let out = setup.out;
    let pulse = setup.pulse;
    let in_flight = Rc::new(Cell::new(0_u32));
    let tasks = Tasks::default();
    let mut finishing = false;
    while !(finishing && tasks.none()) {
        let command = tokio::select! {
            biased;
            command = commands.recv() => command,
            () = tasks.ended.notified(), if finishing => continue,
        };
        pulse.in_flight.store(in_flight.get(), Relaxed);
        match command {
            Some(Command::Beat(asked)) => {
                let late = SystemClocks.monotonic_ns().saturating_sub(asked);
                pulse.worst.fetch_max(late, Relaxed);
                pulse.beats.fetch_add(1, Relaxed);
                pulse.answered.store(asked, Relaxed);
            }
            Some(Command::Send(order)) => {
                let (desk, out, in_flight) = (desk.clone(), out.clone(), in_flight.clone());
                let cap = setup.cap.clone();
                tasks.spawn(async move {
                    let task = send(&desk, *order, cap.as_deref(), &in_flight);
                    let (row, text) = desk.flight.listed(task).await;
                    give_off(&desk, &out, row, text);
                });
            }
            Some(Command::Go(closed, users)) => {
                for number in users {
                    let (desk, out, closed) = (desk.clone(), out.clone(), closed.clone());
                    let in_flight = in_flight.clone();
                    tasks.spawn(async move {
                        desk.flight.listed(user(&desk, &closed, number, &out, &in_flight)).await;
                    });
                }
            }
            Some(Command::Begin(clock)) => desk.time.set_clock(clock),
            Some(Command::Finish) => finishing = true,
            Some(Command::Cut) => desk.flight.cut(),
            // The conductor is gone: nobody will read what comes.
            None => {
                desk.flight.cut();
                return;
            }
        }
    }
    pulse.in_flight.store(0, Relaxed);
}

/// Opens the connections that are wanted ahead of the first request, some at a time, to the targets in
/// turn. The limit of a connection is that of all together: a server that takes no more of them is
/// known then.
async fn warm(desk: &Rc<Desk>, count: u32) -> Result<(), String> {
    let all = open_all(desk, count);
    match desk.timeouts.connect.0 {
        Some(limit) => tokio::time::timeout(limit.duration(), all)
            .await
            .unwrap_or_else(|_| Err(format!("no further one within {}", spec::Span(limit)))),
        None => all.await,
    }
}

async fn open_all(desk: &Rc<Desk>, count: u32) -> Result<(), String> {
    const AT_A_TIME: usize = 64;
    let mut opening = tokio::task::JoinSet::new();
    for number in 0..count as usize {
        if opening.len() >= AT_A_TIME {
            first_failure(opening.join_next().await)?;
        }
        let desk = desk.clone();
        opening.spawn_local(async move {
            let station = &desk.stations[number % desk.stations.len()];
            station.pool.prewarm().await.map_err(|error| error.to_string())?;
            desk.live.opened_ahead();
            Ok(())
        });
    }
    while !opening.is_empty() {
        first_failure(opening.join_next().await)?;
    }
    Ok(())
}

fn first_failure(joined: Option<Result<Result<(), String>, tokio::task::JoinError>>) -> Result<(), String> {
    match joined {
        Some(Ok(opened)) => opened,
        Some(Err(error)) => Err(error.to_string()),
        None => Ok(()),
    }
}

/// Open loop: one request, which first waits at the cap. Late ones go at once.
async fn send(
    desk: &Desk,
    order: Order,
    cap: Option<&Semaphore>,
    in_flight: &Cell<u32>,
) -> (Request, Option<String>) {
    let mut admitted = None;
    let _permit = match cap {
        None => None,
        Some(cap) => match cap.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => {
                let waited = desk.flight.unless_cut(cap.acquire()).await;
                admitted = Some(desk.time.now());
                waited.and_then(Result::ok)
            }
        },
    };
    if cap.is_some() && _permit.is_none() || desk.flight.is_cut() {
        let mut row = order.row(desk.lane);
        row.state = State::Shed;
        return (row, None);
    }
    in_flight.set(in_flight.get() + 1);
    let heard = exchange(desk, &order, admitted).await;
    in_flight.set(in_flight.get() - 1);
    heard
}

/// Gives a row to the journal.
pub(crate) fn give_off(desk: &Desk, out: &Sender<Output>, request: Request, text: Option<String>) {
    desk.live.ended(&request);
    // A journal that has gone away has reported its own error.
    let _ = out.send(Output::Heard { request, text });
}

/// The tasks of a lane: how many there are, and that one has ended.
#[derive(Default)]
struct Tasks {
    count: Rc<Cell<usize>>,
    ended: Rc<Notify>,
}

impl Tasks {
    fn none(&self) -> bool {
        self.count.get() == 0
    }
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        /// Counts down even if the task panics.
        struct Guard(Rc<Cell<usize>>, Rc<Notify>);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.set(self.0.get() - 1);
                self.1.notify_one();
            }
        }
        self.count.set(self.count.get() + 1);
        let guard = Guard(self.count.clone(), self.ended.clone());
        tokio::task::spawn_local(async move {
            let _guard = guard;
            task.await;
        });
    }
}

/// The share of lane `lane` when `total` things are dealt to `lanes` lanes in turn.
pub(crate) fn dealt(total: u32, lane: u16, lanes: u16) -> u32 {
    let (lane, lanes) = (u32::from(lane), u32::from(lanes.max(1)));
    total / lanes + u32::from(lane < total % lanes)
}

/// A heartbeat that is overdue counts as far as it has come.
pub(crate) fn overdue(asked: u64, pulse: &Pulse, now: u64) -> Nanos {
    if pulse.answered.load(Relaxed) == asked { Nanos::ZERO } else { Nanos(now.saturating_sub(asked)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        assert_eq!([0, 1, 2].map(|lane| dealt(8, lane, 3)), [3, 3, 2]);
        assert_eq!([0, 1, 2].map(|lane| dealt(2, lane, 3)), [1, 1, 0]);
        assert_eq!(dealt(5, 0, 1), 5);
    }

    #[test]
    fn an_unanswered_heartbeat_grows() {
        let pulse = Pulse::default();
        pulse.answered.store(10, Relaxed);
        assert_eq!(overdue(10, &pulse, 500), Nanos::ZERO);
        assert_eq!(overdue(20, &pulse, 500), Nanos(480));
    }
}
