//! Progress while a run goes on, drawn by a thread of its own from counters that lanes never wait for.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use decide::words::{clock_time, count, number, time};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use plan::Plan;
use spec::{Extent, Load, Nanos, Spec, Warmup};
use wire::{Live, Snapshot};

use crate::cli::Progress;
use crate::printer::Printer;

/// Between two drawings.
const FRAME: Duration = Duration::from_millis(500);
/// Frames between two plain lines.
const FRAMES_PER_LINE: u32 = 20;
/// Rates and latencies shown are those of this last while.
const RECENT: Nanos = Nanos::from_secs(10);
/// A send later than this is worth a word while it happens.
const LATE: Nanos = Nanos::from_millis(2);

/// The drawing thread.
pub struct Screen {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    /// Stops drawing and leaves the screen clean.
    pub fn end(self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread {
            thread.thread().unpark();
            // A screen that failed to draw is no reason to lose a measurement.
            let _ = thread.join();
        }
    }
}

/// Starts to draw, as the flags and the terminal ask.
pub fn start(spec: &Spec, plan: &Plan, live: Arc<Live>, printer: &Printer, how: Progress) -> Screen {
    let done = Arc::new(AtomicBool::new(false));
    let terminal = std::io::stderr().is_terminal();
    if printer.quiet || how == Progress::Off {
        return Screen { done, thread: None };
    }
    let course = Course::new(spec, plan);
    printer.say(&printer.style.plain(&format!("inferometer run  {}\n", course.title)));
    let flag = Arc::clone(&done);
    let printer = *printer;
    let body = move || {
        if terminal && how == Progress::Auto {
            bars(&course, &live, &printer, &flag)
        } else {
            lines(&course, &live, &printer, &flag)
        }
    };
    Screen { done, thread: std::thread::Builder::new().name("progress".to_owned()).spawn(body).ok() }
}

/// What is known of a run's course before it begins.
struct Course {
    title: String,
    warmup: Span,
    measure: Span,
}

/// The length of a phase: by time, by requests, or none.
#[derive(Clone, Copy)]
enum Span {
    None,
    Time(Nanos),
    Requests(u64),
}

impl Course {
    fn new(spec: &Spec, plan: &Plan) -> Self {
        let load = match &spec.load {
            Load::Closed(closed) => format!("{} concurrent", closed.concurrency),
            Load::Open(open) if open.rate.is_infinite() => "all at once".to_owned(),
            Load::Open(open) => format!("{} req/s", number(open.rate.per_second())),
        };
        let lengths = |l: &spec::Lengths| l.to_string();
        Self {
            title: format!(
                "{} · {load} · {} in / {} out",
                spec.target,
                lengths(&spec.workload.isl),
                lengths(&spec.workload.osl)
            ),
            warmup: match spec.phases.warmup {
                Warmup::None => Span::None,
                Warmup::Requests(n) => Span::Requests(n),
                Warmup::Duration(span) => Span::Time(span.0),
            },
            measure: match (spec.phases.measure, plan.planned().measure) {
                (Extent::Duration(span), _) => Span::Time(span.0),
                (Extent::Requests(n), _) => Span::Requests(n),
            },
        }
    }

    /// Share of the measurement that is over, and where the run is, in words.
    fn place(&self, s: &Snapshot) -> (f64, String) {
        if let (None, (open, wanted @ 1..)) = (s.now, s.ahead) {
            let share = f64::from(open) / f64::from(wanted);
            return (
                share,
                format!("opening connections {} of {}", count(u64::from(open)), count(u64::from(wanted))),
            );
        }
        let now = s.now.unwrap_or_default();
        let warm_until = match self.warmup {
            Span::Time(t) => t,
            _ => Nanos::ZERO,
        };
        if now < warm_until {
            return (
                now.0 as f64 / warm_until.0 as f64,
                format!("warm-up {} of {}", clock_time(now), clock_time(warm_until)),
            );
        }
        match self.measure {
            Span::Time(whole) => {
                let gone = now.saturating_since(warm_until);
                if gone >= whole {
                    return (1.0, format!("drain, {} open", count(u64::from(s.in_flight))));
                }
                (
                    gone.0 as f64 / whole.0 as f64,
                    format!("measure {} of {}", clock_time(gone), clock_time(whole)),
                )
            }
            Span::Requests(whole) => {
                let warming = s.measured == 0 && !matches!(self.warmup, Span::None);
                let word = if warming { "warm-up" } else { "measure" };
                let share = if whole == 0 { 1.0 } else { s.measured as f64 / whole as f64 };
                (share.min(1.0), format!("{word} {} of {} requests", count(s.measured), count(whole)))
            }
            Span::None => (1.0, String::new()),
        }
    }
}

fn wait(done: &AtomicBool) -> bool {
    std::thread::park_timeout(FRAME);
    !done.load(Ordering::Relaxed)
}

/// One plain line every ten seconds.
fn lines(course: &Course, live: &Live, printer: &Printer, done: &AtomicBool) {
    let mut frame = 0;
    while wait(done) {
        frame += 1;
        if frame % FRAMES_PER_LINE == 0 {
            let s = live.snapshot();
            printer.say(&format!(
                "{} {}  sent {}  in flight {}  done {}  failed {}  timeout {}",
                clock_time(s.now.unwrap_or_default()),
                course.place(&s).1,
                s.sent,
                s.in_flight,
                s.ok,
                s.failed,
                s.timed_out
            ));
        }
    }
}

/// Bars and counters in fixed places, redrawn twice a second.
fn bars(course: &Course, live: &Live, printer: &Printer, done: &AtomicBool) {
    let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(4));
    let (filled, empty) = if printer.style.ascii { ("#", "-") } else { ("█", "░") };
    let bar = screen.add(ProgressBar::new(1000));
    let template =
        if printer.style.color { "  {bar:24.blue/black.bright}  {msg}" } else { "  {bar:24}  {msg}" };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars(&format!("{filled}{empty}")));
    }
    let text = screen.add(ProgressBar::new(1));
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        text.set_style(style);
    }
    while wait(done) {
        let s = live.snapshot();
        let (share, place) = course.place(&s);
        bar.set_position((share * 1000.0) as u64);
        bar.set_message(place);
        text.set_message(printer.style.plain(&counters(live, &s, printer)));
    }
    bar.finish_and_clear();
    text.finish_and_clear();
    // Nothing to clear is no failure.
    let _ = screen.clear();
}

fn counters(live: &Live, s: &Snapshot, printer: &Printer) -> String {
    let now = s.now.unwrap_or_default();
    let recent = live.recent(now.saturating_since(RECENT));
    let spell = now.0.clamp(1, RECENT.0) as f64 / 1e9;
    let mut ttft: Vec<u64> = recent.iter().map(|r| r.ttft.0).filter(|t| *t > 0).collect();
    let mut tpot: Vec<u64> = recent.iter().map(|r| r.tpot.0).filter(|t| *t > 0).collect();
    let tokens: u64 = recent.iter().map(|r| r.tokens).sum();
    let late = recent.iter().filter(|r| r.lag > LATE).count();
    let client = if late == 0 {
        format!("{} every send on time", printer.style.met(Some(true)))
    } else {
        format!(
            "{} {late} of the last {} sends late: this machine is behind",
            printer.style.met(Some(false)),
            recent.len()
        )
    };
    let ended = recent.len() as f64 / spell;
    format!(
        "\n  sent      {:>9}   {:<24} TTFT  {}\n  in flight {:>9}   {:<24} TPOT  {}\n  done      {:>9}   {:<24} output  {} tokens/s\n  failed    {:>9}   {:<24} timed out  {}\n\n  client {client}\n  Ctrl-C ends the measurement here and reports what there is; twice quits.",
        count(s.sent),
        "",
        middle_and_tail(&mut ttft),
        count(u64::from(s.in_flight)),
        format!("peak {}", s.peak),
        middle_and_tail(&mut tpot),
        count(s.ok),
        format!("{}/s, last 10 s", number(ended)),
        number(tokens as f64 / spell),
        count(s.failed),
        "",
        count(s.timed_out),
    )
}

/// p50 and p95 by nearest rank, for the eye; the report has the exact ones.
fn middle_and_tail(values: &mut [u64]) -> String {
    if values.is_empty() {
        return "–".to_owned();
    }
    values.sort_unstable();
    let at = |p: usize| time(values[(values.len() * p).div_ceil(100).max(1) - 1] as f64);
    format!("p50 {:<9} p95 {}", at(50), at(95))
}
