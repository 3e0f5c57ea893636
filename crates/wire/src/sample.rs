//! What the instrument, the machine and the server do while requests run, sampled on threads of
//! their own.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clock::{
    Clock, ClockSource, MachineTimes, OffsetPair, Pacer, SystemClocks, ThreadCpu, ThreadSched, WallMap,
    process_cpu,
};
use record::{ClockSample, Entry, LaneSample, MachineSample, ServerSample};
use spec::Nanos;
use tokio::sync::mpsc::UnboundedSender;

use crate::ask::{Answer, Asker};
use crate::lane::{Command, Pulse, overdue};
use crate::live::Live;
use crate::metrics;
use crate::outgoing::Output;

/// Heartbeats are asked this often.
const BEAT: Nanos = Nanos::from_millis(5);
/// Between two samples of the lanes, of the clocks, of the machine.
const LANES: Nanos = Nanos::from_millis(250);
const CLOCKS: Nanos = Nanos::from_millis(100);
const MACHINE: Nanos = Nanos::from_secs(1);
/// The scraper looks this often whether it should stop: the journal waits for it.
const STOP_LOOK: Nanos = Nanos::from_millis(5);
/// The limit of one scrape.
const SCRAPE: Nanos = Nanos::from_secs(1);
/// Looks at a server that should be idle, and the pause between them: our own last question may still
/// stand in its figures.
const IDLE_LOOKS: u32 = 3;
const IDLE_PAUSE: Duration = Duration::from_millis(100);

/// A lane as the sampler sees it.
pub(crate) struct Watched {
    pub lane: u16,
    pub commands: UnboundedSender<Command>,
    pub pulse: Arc<Pulse>,
    pub cpu: Option<ThreadCpu>,
}

/// What the sampler noticed.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    /// Steps of the wall clock, in nanoseconds.
    pub steps: Vec<i64>,
}

struct LaneState {
    watched: Watched,
    asked: u64,
    from: Nanos,
    used: Option<Nanos>,
}

/// Samples lanes, clocks and machine until told to stop; the last samples are taken then.
pub(crate) fn sampler(
    clock: Clock,
    lanes: Vec<Watched>,
    map: &WallMap,
    target_cpu: Option<&dyn Fn() -> Option<Nanos>>,
    out: &Sender<Output>,
    stop: &AtomicBool,
    noticed: &Mutex<Noticed>,
) {
    let pacer = Pacer::new(clock);
    pacer.sleep_until(Nanos::ZERO);
    let mut lanes: Vec<LaneState> = lanes
        .into_iter()
        .map(|watched| {
            let used = watched.cpu.and_then(|cpu| cpu.used());
            LaneState { watched, asked: 0, from: Nanos::ZERO, used }
        })
        .collect();
    let emit = |entry| {
        let _ = out.send(Output::Sample(entry));
    };
    emit(Entry::Clock(measure_clock(&clock, map, noticed)));
    let mut last_machine = MachineSample::default();
    let mut of_machine = |lanes: &[LaneState]| {
        if let Some(mut sample) = machine(&clock, lanes, target_cpu) {
            // A lane that has ended is told of no more; what it had used stays used.
            sample.lane_wait = sample.lane_wait.max(last_machine.lane_wait);
            sample.lane_run = sample.lane_run.max(last_machine.lane_run);
            sample.lane_slices = sample.lane_slices.max(last_machine.lane_slices);
            last_machine = sample;
            emit(Entry::Machine(sample));
        }
    };
    of_machine(&lanes);
    let (mut lanes_at, mut clocks_at, mut machine_at) = (LANES, CLOCKS, MACHINE);
    loop {
        let last = stop.load(Relaxed);
        let now = clock.now();
        // Samples are due on a grid; what was slept through is one sample, late.
        let due = |at: &mut Nanos, every: Nanos| {
            let is_due = now >= *at || last;
            if is_due {
                *at = Nanos((now.0 / every.0 + 1) * every.0);
            }
            is_due
        };
        if due(&mut lanes_at, LANES) {
            for lane in &mut lanes {
                emit(Entry::Lane(lane.sample(&clock)));
            }
        }
        if due(&mut clocks_at, CLOCKS) {
            emit(Entry::Clock(measure_clock(&clock, map, noticed)));
        }
        if due(&mut machine_at, MACHINE) {
            of_machine(&lanes);
        }
        if last {
            return;
        }
        for lane in &mut lanes {
            lane.beat();
        }
        let next = Nanos((clock.now().0 / BEAT.0 + 1) * BEAT.0);
        pacer.sleep_until(next);
        // A stop of the whole process (a signal, a paused machine) holds the asking thread too: what it
        // overslept, the lanes stood still as far as anybody can tell.
        let overslept = clock.now().saturating_since(next);
        for lane in &lanes {
            lane.watched.pulse.worst.fetch_max(overslept.0, Relaxed);
        }
    }
}

impl LaneState {
    /// Asks again once the last heartbeat is answered: one that waits says enough.
    fn beat(&mut self) {
        if self.asked == self.watched.pulse.answered.load(Relaxed) {
            self.asked = SystemClocks.monotonic_ns();
            let _ = self.watched.commands.send(Command::Beat(self.asked));
        }
    }
    fn sample(&mut self, clock: &Clock) -> LaneSample {
        let pulse = &self.watched.pulse;
        let to = clock.now();
        let in_all = Some(Nanos(pulse.used_in_all.load(Relaxed))).filter(|used| *used > Nanos::ZERO);
        let used = in_all.or_else(|| self.watched.cpu.and_then(|cpu| cpu.used()));
        let busy = match (used, self.used) {
            (Some(now), Some(before)) => now.saturating_since(before),
            _ => Nanos::ZERO,
        };
        let late = overdue(self.asked, pulse, SystemClocks.monotonic_ns());
        let sample = LaneSample {
            lane: self.watched.lane,
            from: self.from,
            to,
            busy,
            heartbeat_max: Nanos(pulse.worst.swap(0, Relaxed)).max(late),
            heartbeats: pulse.beats.swap(0, Relaxed),
            in_flight: pulse.in_flight.load(Relaxed),
        };
        self.from = to;
        self.used = used.or(self.used);
        sample
    }
}

fn measure_clock(clock: &Clock, map: &WallMap, noticed: &Mutex<Noticed>) -> ClockSample {
    let pair = OffsetPair::measure(&SystemClocks);
    if let Some(step) = map.observe(pair) {
        noticed.lock().unwrap_or_else(PoisonError::into_inner).steps.push(step.by_ns);
    }
    ClockSample { at: pair.at(clock), offset_ns: pair.origin_wall_ns(clock), width: pair.width }
}

/// `None` where the system tells nothing: a zero would be taken for an idle machine.
fn machine(
    clock: &Clock,
    lanes: &[LaneState],
    target_cpu: Option<&dyn Fn() -> Option<Nanos>>,
) -> Option<MachineSample> {
    let at = clock.now();
    let times = MachineTimes::read()?;
    let mut sample = MachineSample {
        at,
        cores: times.cores,
        busy: times.busy,
        steal: times.steal,
        own: process_cpu().unwrap_or_default(),
        target: target_cpu.and_then(|read| read()),
        ..MachineSample::default()
    };
    for sched in lanes.iter().filter_map(|lane| ThreadSched::of(lane.watched.cpu?.tid())) {
        sample.lane_wait += sched.wait;
        sample.lane_run += sched.run;
        sample.lane_slices += sched.slices;
    }
    Some(sample)
}

/// The server's metrics before anything of ours runs there: the quietest of a few looks.
pub(crate) fn idle_server(asker: &Asker) -> Option<ServerSample> {
    let mut quietest: Option<ServerSample> = None;
    for look in 0..IDLE_LOOKS {
        if look > 0 {
            std::thread::sleep(IDLE_PAUSE);
        }
        let sample = scrape(asker)?;
        let running = |s: &ServerSample| s.running.unwrap_or(0.0) + s.waiting.unwrap_or(0.0);
        if quietest.is_none_or(|q| running(&sample) < running(&q)) {
            quietest = Some(sample);
        }
        if running(&sample) <= 0.0 {
            break;
        }
    }
    quietest
}

/// One reading; `None` where there is no good answer. Its moment is the caller's to fill.
fn scrape(asker: &Asker) -> Option<ServerSample> {
    let answer = asker.get("/metrics", SCRAPE).ok().filter(Answer::is_good)?;
    Some(metrics::read(&String::from_utf8_lossy(&answer.body)))
}

/// Reads the server's metrics every so often until told to stop.
pub(crate) fn scraper(
    clock: Clock,
    asker: &Asker,
    every: Nanos,
    live: &Live,
    out: &Sender<Output>,
    stop: &AtomicBool,
) {
    let pacer = Pacer::new(clock);
    let mut next = Nanos::ZERO;
    loop {
        while clock.now() < next {
            if stop.load(Relaxed) {
                return;
            }
            pacer.sleep_until(next.min(clock.now() + STOP_LOOK));
        }
        if stop.load(Relaxed) {
            return;
        }
        let ours_in_flight = live.in_flight();
        if let Some(sample) = scrape(asker) {
            // The figures are of some moment of the exchange; its end is the one that is known.
            let sample = ServerSample { at: clock.now(), ours_in_flight, ..sample };
            let _ = out.send(Output::Sample(Entry::Server(sample)));
        }
        next = (next + every).max(clock.now());
    }
}
