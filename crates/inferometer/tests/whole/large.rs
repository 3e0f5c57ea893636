//! Runs larger than a test can make: a real run's header, samples and one request, multiplied with scatter. And what a
//! command of ours costs.

use std::path::Path;
use std::process::{Command, Stdio};

use clock::Clock;
use record::{Chunk, Entry, JournalWriter, Request, Run, Scrubber};
use spec::{Extent, Nanos};

use crate::harness::{inferometer, only_run};

/// Intended sends are so far apart.
const EVERY: Nanos = Nanos(1_000_000);

/// A run of `count` requests of `events` events each, at 1,000 a second.
pub fn run(count: u64, events: u32) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["run", "sim://fixed?ttft=20ms&tpot=2ms", "--rate", "1000", "-n", "50", "--warmup", "none"];
    let ran = inferometer(&args)
        .args(["--isl", "16", "--osl", "4", "--progress", "off", "--out"])
        .arg(folder.path())
        .stderr(Stdio::null())
        .status()
        .expect("starts");
    assert!(ran.success() || ran.code() == Some(3), "{ran}");
    let mut run = record::read(&only_run(folder.path())).expect("the journal");
    let model = run.requests.swap_remove(0);
    let mut scatter = Scatter(1);
    run.requests = (0..count).map(|seq| request(&model, seq, events, &mut scatter)).collect();
    run.header.spec.phases.measure = Extent::Requests(count);
    let end = Nanos(EVERY.0 * count);
    let step = Nanos::from_millis(250);
    let times = (0..end.0 / step.0).map(|i| Nanos(i * step.0));
    let (lane, machine, clock) = (run.lanes[0], run.machine[0], run.clock[0]);
    run.lanes = times
        .clone()
        .map(|from| record::LaneSample { from, to: from + step, busy: Nanos(step.0 / 20), ..lane })
        .collect();
    run.machine =
        times.clone().map(|at| record::MachineSample { at, own: Nanos(at.0 / 20), ..machine }).collect();
    run.clock = times.map(|at| record::ClockSample { at, ..clock }).collect();
    run.footer.measure_from = Nanos::ZERO;
    run.footer.measure_to = end;
    run.footer.ended = end + Nanos::from_secs(2);
    run.footer.planned = count;
    run
}

fn request(model: &Request, seq: u64, events: u32, scatter: &mut Scatter) -> Request {
    let intended = Nanos(EVERY.0 * seq);
    let sent = intended + scatter.up_to(60_000);
    let mut at = sent + Nanos::from_millis(90) + scatter.up_to(20_000_000);
    let chunks = (0..events)
        .map(|read| {
            at += Nanos::from_millis(8) + scatter.up_to(4_000_000);
            let seen = at + Nanos(8_000) + scatter.up_to(30_000);
            let model = model.chunks.first().expect("output");
            Chunk { arrival: at, seen, earliest: at, read, ..model }
        })
        .collect();
    let mut request = model.clone();
    request.seq = seq;
    request.intended = intended;
    request.dispatched = Some(intended);
    request.write_begin = Some(sent);
    request.write_end = Some(sent + Nanos(20_000));
    request.headers = Some(sent + Nanos::from_millis(90));
    request.chunks = chunks;
    request.output_reads = events;
    request.output.asked = Some(events);
    request.output.usage = Some(events);
    request.done = Some(at);
    request.closed = Some(at + Nanos(10_000));
    request.prompt.whole = scatter.next();
    request.server_id = Some(format!("chatcmpl-{:032x}", scatter.next()));
    request
}

/// Writes the journal of a run.
pub fn write_journal(path: &Path, run: &Run) {
    let mut journal = JournalWriter::create(path, &run.header, Scrubber::default()).expect("created");
    let entries = (run.requests.iter().cloned().map(Entry::Request))
        .chain(run.lanes.iter().copied().map(Entry::Lane))
        .chain(run.machine.iter().copied().map(Entry::Machine))
        .chain(run.clock.iter().copied().map(Entry::Clock))
        .chain(run.server.iter().copied().map(Entry::Server));
    entries.for_each(|entry| journal.append(&entry).expect("written"));
    journal.finish(Some(&run.footer)).expect("ended");
}

/// Numbers that look random and are the same each time (a linear congruence; nothing depends on its quality).
struct Scatter(u64);

impl Scatter {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 16
    }
    fn up_to(&mut self, most: u64) -> Nanos {
        Nanos(self.next() % most)
    }
}

/// What a command took.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    pub code: i32,
    #[allow(dead_code, reason = "the benchmark tells it")]
    pub seconds: f64,
    /// The most memory that it held at a time.
    pub resident_bytes: u64,
}

/// Runs a command to its end.
pub fn cost(command: &mut Command) -> Cost {
    let clock = Clock::start();
    #[allow(clippy::zombie_processes, reason = "wait4 waits for it, and tells what it took")]
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the process is our child and not waited for elsewhere; both pointers outlive the call.
    let ended = unsafe { libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, &raw mut usage) };
    assert_eq!(ended, child.id() as libc::pid_t);
    Cost {
        code: libc::WEXITSTATUS(status),
        seconds: clock.now().as_secs_f64(),
        resident_bytes: usage.ru_maxrss as u64 * 1024,
    }
}
