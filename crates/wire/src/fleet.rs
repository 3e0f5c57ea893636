//! A run as a whole: threads up, connections open, requests ready, then the origin; and its end.

mod footer;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use clock::{Clock, OffsetPair, SystemClocks, ThreadCpu, WallMap};
use plan::Plan;
use record::{Entry, Footer};
use spec::{Connections, Extent, Load, Nanos, Spec};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::ask::Asker;
use crate::gate::Gate;
use crate::lane::{self, Command, Event, Pulse, Setup, dealt};
use crate::limits::{self, LimitError};
use crate::live::Live;
use crate::outgoing::{Output, Source};
use crate::pace::{alarm_clock, timetable};
use crate::place::{Place, Places};
use crate::sample::{Noticed, Watched, idle_server, sampler, scraper};
use crate::session::Session;
use crate::side::Side;
use crate::supply::{Ahead, Prepared, Ready, Supply, prepare};
use crate::users::{Closed, Queue};

/// The origin lies this far ahead when everything is ready, so that every thread reaches it.
const LEAD: Nanos = Nanos::from_millis(2);
/// After Ctrl-C, requests under way may still end within this.
const STOP_GRACE: Nanos = Nanos::from_millis(500);
/// The conductor looks up this often; nothing that is measured depends on it.
const LOOK_UP: Duration = Duration::from_millis(5);
/// After a cut, a lane that does not answer within this is left behind.
const LANE_GRACE: Nanos = Nanos::from_secs(10);

/// Why a run did not begin.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// Plan and spec do not belong together.
    #[error("the plan is not of this spec: {0}")]
    Plan(&'static str),
    /// The first request could not be made up.
    #[error("{0}")]
    Source(String),
    /// Connections that should stand before the first request do not.
    #[error(
        "of {wanted} connections that were to be opened ahead, {standing} stand: {why}\nhint: find out what the \
         server allows at once, ask for fewer (prewarmed:N), or give it more time by --connect-timeout"
    )]
    Prewarm {
        /// Those that stand.
        standing: u32,
        /// Those asked for.
        wanted: u32,
        /// Why the next one does not.
        why: String,
    },
    /// This machine allows too few connections.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The stop flag was set before the first request was due.
    #[error("stopped before the first request")]
    Stopped,
    /// The system refused something.
    #[error("the client could not be set up: {0}")]
    Client(#[from] std::io::Error),
}

/// What a run needs beside the server and the plan.
pub struct Drive {
    /// Name of the run; requests carry `x-request-id: NAME-SEQ`.
    pub run_id: String,
    /// Makes the requests up.
    pub source: Box<dyn Source>,
    /// Set it to end the run early: nothing is sent any more, what is under way is cut after half a
    /// second at most.
    pub stop: Arc<AtomicBool>,
    /// Where everything goes; see [`Output`].
    pub sink: Sender<Output>,
    /// For a progress display.
    pub live: Arc<Live>,
    /// CPU time of the target's own processes or threads, where they are known.
    pub target_cpu: Option<Box<dyn Fn() -> Option<Nanos> + Send>>,
}

/// Runs the plan against the server. Blocks until the last request has ended, been cut or shed;
/// every request that was due has given exactly one row by then. Whatever the result, the last item
/// of the sink is [`Output::Ended`].
pub fn drive(session: &Session, spec: &Spec, plan: &Plan, run: Drive) -> Result<Footer, DriveError> {
    let sink = run.sink.clone();
    let driven = drive_to_end(session, spec, plan, run);
    // A sink that is gone waits for nothing.
    let _ = sink.send(Output::Ended);
    driven
}

fn drive_to_end(session: &Session, spec: &Spec, plan: &Plan, run: Drive) -> Result<Footer, DriveError> {
    let notes = limits::provide(spec, plan, &session.endpoints())?;
    let places = Places::new(&spec.client);
    let lanes = spec.client.lanes.max(1);
    let supply = Arc::new(Supply::new());
    let (items_in, items) = channel();
    let (ready_in, ready) = channel();

    // The queue of a closed loop; in open loop the pacer takes the items itself.
    let users = plan.users();
    let (queue, mut timetable_items) = match users {
        Some(_) => {
            let planned = plan.planned();
            let total = planned.warmup.zip(planned.measure).map(|(w, m)| w + m);
            (Some(Arc::new(Queue::new(items, plan.tracker(0, 1), supply.clone(), total))), None)
        }
        None => (None, Some(items)),
    };
    let preparation = prepare_on_thread(plan, run.source, &supply, items_in, ready_in, queue.clone())?;

    let map = Arc::new(WallMap::new(OffsetPair::measure(&SystemClocks)));
    let cap = match &spec.load {
        Load::Open(open) => open.cap.map(|cap| Arc::new(Semaphore::new(cap.max(1) as usize))),
        Load::Closed(_) => None,
    };
    let (events_in, events) = channel();
    let mut fleet = Fleet {
        side: Side::start()?,
        lanes: Vec::new(),
        events,
        supply: supply.clone(),
        stop: run.stop,
        live: run.live.clone(),
        queue: queue.clone(),
        cap: cap.clone(),
        warnings: notes,
    };
    for number in 0..lanes {
        let (commands, received) = unbounded_channel();
        let pulse = Arc::new(Pulse::default());
        let setup = setup(
            session,
            spec,
            &run.run_id,
            number,
            &map,
            &pulse,
            &cap,
            received,
            &run.sink,
            &run.live,
            fleet.side.handle(),
        );
        let report = events_in.clone();
        let place = places.lane(number);
        let thread = std::thread::Builder::new().name(format!("lane-{number}")).spawn(move || {
            place.take();
            lane::run(setup, move |event| {
                let _ = report.send((number, event));
            });
        })?;
        fleet.lanes.push(Lane { commands, pulse, cpu: None, thread, done: false });
    }
    drop(events_in);
    let wanted = match spec.client.connections {
        Connections::Prewarmed(n) => n,
        Connections::Fresh | Connections::Keepalive => 0,
    };
    run.live.opens_ahead(wanted);
    fleet.wait_ready(&ready, wanted)?;

    let asker = match session.metrics {
        true => {
            let to = &session.destinations[0];
            Some(Asker::new(to.dialer.clone(), to.headers.clone())?)
        }
        false => None,
    };
    let idle = asker.as_ref().and_then(idle_server);

    // Everything stands: the run begins.
    let clock = Clock::start_in(LEAD);
    let first_pair = OffsetPair::measure(&SystemClocks);
    map.observe(first_pair);
    let _ = run.sink.send(Output::Began {
        monotonic_origin_ns: clock.origin_raw_ns(),
        wall_origin_ns: first_pair.origin_wall_ns(&clock),
    });
    if let Some(idle) = idle {
        // It was read before the origin; no earlier moment can be written.
        let _ = run.sink.send(Output::Sample(Entry::Server(idle)));
    }
    run.live.begin(clock.origin_raw_ns());
    supply.begin(clock);
    fleet.tell(|| Command::Begin(clock));

    let quiet = Arc::new(AtomicBool::new(false));
    let noticed = Arc::new(Mutex::new(Noticed::default()));
    let mut side = Vec::new();
    side.push(sample_on_thread(clock, &fleet, &map, run.target_cpu, &run.sink, &quiet, &noticed)?);
    if let (Some(asker), Some(every)) = (asker, spec.client.metrics_every.0) {
        let (live, out, quiet) = (run.live.clone(), run.sink.clone(), quiet.clone());
        side.push(
            std::thread::Builder::new()
                .name("scraper".into())
                .spawn(move || scraper(clock, &asker, every, &live, &out, &quiet))?,
        );
    }
    let sent = match (&queue, timetable_items.take()) {
        (Some(queue), _) => fleet.drive_users(clock, spec, plan, queue, places.pacer())?,
        (None, Some(items)) => {
            fleet.drive_timetable(clock, items, plan.most_open(), &run.sink, places.pacer())?
        }
        (None, None) => return Err(DriveError::Plan("neither users nor a timetable")),
    };
    fleet.drain(clock, spec, &sent, &ready);
    quiet.store(true, Relaxed);
    for thread in side {
        // The scraper may hang in a question for a second; it is not waited for.
        if thread.thread().name() != Some("scraper") && thread.join().is_err() {
            fleet.warnings.push("a sampling thread failed".to_owned());
        }
    }
    if preparation.join().is_err() {
        fleet.warnings.push("the preparation thread failed".to_owned());
    }
    fleet.warnings.extend(places.notes());
    Ok(fleet.footer(clock, spec, plan, &sent, &noticed))
}

fn prepare_on_thread(
    plan: &Plan,
    source: Box<dyn Source>,
    supply: &Arc<Supply>,
    items: Sender<Prepared>,
    ready: Sender<Ready>,
    queue: Option<Arc<Queue>>,
) -> Result<JoinHandle<()>, DriveError> {
    let supply = supply.clone();
    let builder = std::thread::Builder::new().name("preparation".into());
    let thread = match (queue, plan.closed_intents(), plan.open_intents()) {
        (Some(queue), Some(intents), _) => {
            let users = plan.users().unwrap_or(1);
            let first = 2 * u64::from(users) + 64;
            // Short answers empty the queue at tens of thousands a second.
            let ahead = Ahead::Count { first, most: first + 1_024 };
            builder.spawn(move || {
                prepare(source, intents, ahead, &supply, &items, &ready, || queue.pushed());
                queue.ended(users);
            })?
        }
        (None, _, Some(intents)) => builder
            .spawn(move || prepare(source, intents, Ahead::Timetable, &supply, &items, &ready, || {}))?,
        _ => return Err(DriveError::Plan("it has neither users nor a timetable")),
    };
    Ok(thread)
}

#[allow(clippy::too_many_arguments, reason = "takes a spec apart in one place")]
fn setup(
    session: &Session,
    spec: &Spec,
    run_id: &str,
    lane: u16,
    map: &Arc<WallMap>,
    pulse: &Arc<Pulse>,
    cap: &Option<Arc<Semaphore>>,
    commands: UnboundedReceiver<Command>,
    out: &Sender<Output>,
    live: &Arc<Live>,
    side: tokio::runtime::Handle,
) -> Setup {
    Setup {
        lane,
        side,
        clock: Clock::start(),
        map: map.clone(),
        kernel_stamps: spec.client.kernel_stamps && session.kernel_stamps(),
        destinations: session.destinations.clone(),
        targets: spec.target.clone(),
        connections: spec.client.connections,
        prewarm: match spec.client.connections {
            Connections::Prewarmed(n) => dealt(n, lane, spec.client.lanes.max(1)),
            Connections::Fresh | Connections::Keepalive => 0,
        },
        timeouts: spec.timeouts.clone(),
        retries: spec.client.retries,
        dialect: spec.api.dialect,
        run_id: run_id.into(),
        secrets: session.secrets.clone(),
        live: live.clone(),
        pulse: pulse.clone(),
        cap: cap.clone(),
        commands,
        out: out.clone(),
    }
}

fn sample_on_thread(
    clock: Clock,
    fleet: &Fleet,
    map: &Arc<WallMap>,
    target_cpu: Option<Box<dyn Fn() -> Option<Nanos> + Send>>,
    out: &Sender<Output>,
    quiet: &Arc<AtomicBool>,
    noticed: &Arc<Mutex<Noticed>>,
) -> std::io::Result<JoinHandle<()>> {
    let watched = (0_u16..)
        .zip(&fleet.lanes)
        .map(|(lane, l)| Watched { lane, commands: l.commands.clone(), pulse: l.pulse.clone(), cpu: l.cpu })
        .collect();
    let (map, out, quiet, noticed) = (map.clone(), out.clone(), quiet.clone(), noticed.clone());
    std::thread::Builder::new().name("sampler".into()).spawn(move || {
        let target = target_cpu.as_deref().map(|read| read as &dyn Fn() -> Option<Nanos>);
        sampler(clock, watched, &map, target, &out, &quiet, &noticed);
    })
}

struct Lane {
    commands: UnboundedSender<Command>,
    pulse: Arc<Pulse>,
    cpu: Option<ThreadCpu>,
    thread: JoinHandle<()>,
    done: bool,
}

struct Fleet {
    side: Side,
    lanes: Vec<Lane>,
    events: Receiver<(u16, Event)>,
    supply: Arc<Supply>,
    stop: Arc<AtomicBool>,
    live: Arc<Live>,
    queue: Option<Arc<Queue>>,
    cap: Option<Arc<Semaphore>>,
    warnings: Vec<String>,
}

/// What was sent, once nothing more is.
struct Sent {
    /// The last intended send.
    last: Nanos,
    /// The plan was cut, there.
    cut: Option<Nanos>,
    /// Open loop: requests that were due.
    offered: Option<u64>,
}

impl Drop for Fleet {
    /// However a run ends, preparation ends with it. Lanes end when their commands do.
    fn drop(&mut self) {
        self.supply.cut(Nanos::ZERO);
    }
}

impl Fleet {
    fn tell(&self, command: impl Fn() -> Command) {
        for lane in &self.lanes {
            // A lane that has ended needs no command.
            let _ = lane.commands.send(command());
        }
    }

    /// Until every lane stands and enough requests are prepared, or something fails.
    fn wait_ready(&mut self, ready: &Receiver<Ready>, wanted: u32) -> Result<(), DriveError> {
        let mut standing = 0;
        let mut failed = None;
        while standing < self.lanes.len() {
            match self.events.recv_timeout(LOOK_UP) {
                Ok((number, Event::Ready { cpu, warmed })) => {
                    failed = failed.or(warmed.err());
                    self.lanes[usize::from(number)].cpu = cpu;
                    standing += 1;
                }
                Err(RecvTimeoutError::Timeout) if self.stopped() => return Err(DriveError::Stopped),
                Err(RecvTimeoutError::Timeout) => {}
                Ok((_, Event::Done)) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(DriveError::Client(std::io::Error::other("a lane ended before it began")));
                }
            }
        }
        if let Some(why) = failed {
            return Err(match wanted {
                0 => DriveError::Client(std::io::Error::other(why)),
                wanted => DriveError::Prewarm { standing: self.live.snapshot().ahead.0, wanted, why },
            });
        }
        loop {
            return match ready.recv_timeout(LOOK_UP) {
                Ok(Ready::Filled) => Ok(()),
                Ok(Ready::Broken(why)) => Err(DriveError::Source(why)),
                Err(RecvTimeoutError::Timeout) if self.stopped() => Err(DriveError::Stopped),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    Err(DriveError::Source("the preparation thread failed".to_owned()))
                }
            };
        }
    }

    /// Nobody who waits at the cap is let in any more: without this, what one lane cuts would make
    /// room for what another lane has not cut yet.
    fn close_cap(&self) {
        if let Some(cap) = &self.cap {
            cap.close();
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Open loop: the pacer's thread sends; this one watches for the stop flag.
    fn drive_timetable(
        &mut self,
        clock: Clock,
        items: Receiver<Prepared>,
        most_open: Option<u32>,
        out: &Sender<Output>,
        place: Place,
    ) -> Result<Sent, DriveError> {
        let commands: Vec<_> = self.lanes.iter().map(|lane| lane.commands.clone()).collect();
        let (supply, live, out) = (self.supply.clone(), self.live.clone(), out.clone());
        let (tell, told) = channel();
        std::thread::Builder::new().name("pacer".into()).spawn(move || {
            place.take();
            let _ = tell.send(timetable(clock, &items, most_open, &supply, &commands, &out, &live));
        })?;
        loop {
            match told.recv_timeout(LOOK_UP) {
                Ok((last, offered)) => {
                    let cut = self.supply.cut_at();
                    // Preparation ends too, should the plan have ended early.
                    self.supply.cut(clock.now());
                    return Ok(Sent { last, cut, offered: Some(offered) });
                }
                Err(RecvTimeoutError::Timeout) => {
                    if self.stopped() {
                        self.supply.cut(clock.now());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.warnings.push("the pacer thread failed: the plan ends there".to_owned());
                    let now = clock.now();
                    return Ok(Sent { last: now, cut: Some(now), offered: None });
                }
            }
        }
    }

    /// Closed loop: users send by themselves; this one watches for the end and for the stop flag.
    fn drive_users(
        &mut self,
        clock: Clock,
        spec: &Spec,
        plan: &Plan,
        queue: &Arc<Queue>,
        place: Place,
    ) -> Result<Sent, DriveError> {
        let load = match &spec.load {
            Load::Closed(closed) => closed.clone(),
            Load::Open(_) => return Err(DriveError::Plan("it has users, the load has none")),
        };
        let (naps, asleep) = channel();
        std::thread::Builder::new().name("pacer".into()).spawn(move || {
            place.take();
            alarm_clock(clock, &asleep);
        })?;
        let lanes = self.lanes.len() as u32;
        // The origin lies a moment ahead, and nothing is sent before it.
        clock::Pacer::new(clock).wait_until(Nanos::ZERO);
        let gate = plan.users().filter(|users| plan.in_turns() && *users > 1).map(Gate::new);
        let closed = Closed { queue: queue.clone(), load, naps, gate };
        for (number, lane) in (0_u32..).zip(&self.lanes) {
            let users = (0..plan.users().unwrap_or(0)).filter(|u| u % lanes == number).collect();
            let _ = lane.commands.send(Command::Go(closed.clone(), users));
        }
        drop(closed);
        loop {
            if self.stopped() {
                self.supply.cut(clock.now());
            }
            if let Some(cut) = self.supply.cut_at() {
                queue.stop();
                return Ok(Sent { last: queue.last_intended(), cut: Some(cut), offered: None });
            }
            let end = self.ends_at(spec, plan, queue);
            if queue.is_over() || end.is_some_and(|end| clock.now() >= end) {
                queue.stop();
                // Preparation ends too; in closed loop what nobody took was never due.
                self.supply.cut(clock.now());
                let last = queue.last_intended();
                return Ok(Sent { last: end.map_or(last, |end| end.max(last)), cut: None, offered: None });
            }
            match self.events.recv_timeout(LOOK_UP) {
                Ok((number, Event::Done)) => self.lanes[usize::from(number)].done = true,
                Ok((_, Event::Ready { .. })) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK_UP),
            }
            if self.lanes.iter().all(|lane| lane.done) {
                self.warnings.push("all lanes ended early".to_owned());
                return Ok(Sent { last: queue.last_intended(), cut: Some(clock.now()), offered: None });
            }
        }
    }

    /// When a measurement of a given length ends, once that is known.
    fn ends_at(&self, spec: &Spec, plan: &Plan, queue: &Queue) -> Option<Nanos> {
        let Extent::Duration(span) = spec.phases.measure else { return None };
        plan.ends_at().or_else(|| queue.progress().0.map(|began| began + span.0))
    }

    /// Lets what is under way end, within the grace that the spec gives, then cuts it.
    fn drain(&mut self, clock: Clock, spec: &Spec, sent: &Sent, ready: &Receiver<Ready>) {
        self.tell(|| Command::Finish);
        if sent.cut.is_some() {
            self.close_cap();
        }
        let mut deadline = match sent.cut {
            Some(_) => clock.now() + spec.phases.drain.0.min(STOP_GRACE),
            None => sent.last + spec.phases.drain.0,
        };
        let mut cut = false;
        while !self.lanes.iter().all(|lane| lane.done) {
            match self.events.recv_timeout(LOOK_UP) {
                Ok((number, Event::Done)) => self.lanes[usize::from(number)].done = true,
                Ok((_, Event::Ready { .. })) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.stopped() && !cut {
                self.close_cap();
                deadline = deadline.min(clock.now() + STOP_GRACE);
            }
            if clock.now() < deadline {
                continue;
            }
            if cut {
                self.warnings
                    .push("a lane did not answer after the cut; its requests are missing".to_owned());
                break;
            }
            self.close_cap();
            self.tell(|| Command::Cut);
            cut = true;
            deadline = clock.now() + LANE_GRACE;
        }
        for lane in std::mem::take(&mut self.lanes) {
            if lane.done && lane.thread.join().is_err() {
                self.warnings.push("a lane failed; some of its requests may be missing".to_owned());
            }
        }
        while let Ok(ready) = ready.try_recv() {
            if let Ready::Broken(why) = ready {
                self.warnings.push(format!("{why}; the plan was cut there"));
            }
        }
    }
}
