//! What a test itself sees of the machine while a run goes on: evidence that is not the run's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use clock::{Clock, Pacer};
use spec::Nanos;

/// How often the witness wants to wake.
const BEAT: Nanos = Nanos::from_millis(1);

/// A thread that wakes every millisecond and looks how late it is.
pub struct Witness {
    stop: Arc<AtomicBool>,
    beats: JoinHandle<Nanos>,
    server: u32,
    from: Ticks,
}

/// What it saw.
#[derive(Debug)]
pub struct Seen {
    /// The latest beat.
    longest: Nanos,
    /// Share of all cores that other processes had, and that the hypervisor took.
    others: f64,
    steal: f64,
}

impl Seen {
    /// Others had the machine, or part of it. Beats that are late by a little prove nothing: the run and its server
    /// are enough for that.
    pub fn is_disturbed(&self) -> bool {
        // Sends that are late for 2 % of the time limit a run: less than that of one core, of two, is enough.
        self.others > 0.05 || self.steal > 0.004 || self.longest > Nanos::from_millis(10)
    }
}

impl Witness {
    /// Watches until its end; `server` is a process of the test's own.
    pub fn start(server: u32) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let beats = std::thread::spawn(move || {
            let (clock, mut longest) = (Clock::start(), Nanos::ZERO);
            let pacer = Pacer::new(clock);
            while !stopped.load(Ordering::Relaxed) {
                let due = clock.now() + BEAT;
                pacer.sleep_until(due);
                longest = longest.max(clock.now().saturating_since(due));
            }
            longest
        });
        Self { stop, beats, server, from: Ticks::now(server) }
    }

    pub fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let longest = self.beats.join().expect("no panic");
        let to = Ticks::now(self.server);
        let share = |ticks: fn(&Ticks) -> u64| {
            ticks(&to).saturating_sub(ticks(&self.from)) as f64 / (to.all - self.from.all).max(1) as f64
        };
        Seen { longest, others: share(|t| t.busy) - share(|t| t.ours), steal: share(|t| t.steal) }
    }
}

/// Processor time in the kernel's ticks, since its start.
struct Ticks {
    all: u64,
    busy: u64,
    steal: u64,
    /// This process, its ended children, and the server.
    ours: u64,
}

impl Ticks {
    fn now(server: u32) -> Self {
        let numbers = |path: &str, skip: usize| -> Vec<u64> {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            // The name of a process may hold blanks: its fields are counted from the bracket behind it.
            let fields = text.lines().next().unwrap_or_default().rsplit(") ").next().unwrap_or_default();
            fields.split_whitespace().skip(skip).filter_map(|field| field.parse().ok()).collect()
        };
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
        let cpu = numbers("/proc/stat", 1);
        let (all, idle) = (cpu.iter().take(8).sum(), cpu.iter().skip(3).take(2).sum::<u64>());
        let steal = cpu.get(7).copied().unwrap_or(0);
        // utime, stime, cutime, cstime.
        let used = |process: &str| numbers(&format!("/proc/{process}/stat"), 11).iter().take(4).sum::<u64>();
        Self { all, busy: all - idle - steal, steal, ours: used("self") + used(&server.to_string()) }
    }
}
