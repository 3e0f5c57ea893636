//! Progress while a run goes on, drawn by a thread of its own from counters that lanes never wait for.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use decide::Cause;
use decide::words::{clock_time, count, number, time};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use plan::Plan;
use spec::{Nanos, Spec};
use wire::{Live, Snapshot};

use super::course::Course;
use super::watch::{Sends, Watch, behind, journal_words};
use crate::cli::Progress;
use crate::printer::Printer;

/// Between two drawings.
const FRAME: Duration = Duration::from_millis(500);
/// Frames between two plain lines.
const FRAMES_PER_LINE: u32 = 20;
/// Rates and latencies shown are those of this last while.
pub(super) const RECENT: Nanos = Nanos::from_secs(10);

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

/// What there is to show.
pub struct Scene {
    /// Counters of the lanes.
    pub live: Arc<Live>,
    /// Samples that pass by.
    pub watch: Arc<Watch>,
    /// Set by whoever ends the measurement, the live view among them.
    pub stop: Arc<AtomicBool>,
}

/// Starts to draw, as the flags and the terminal ask.
pub fn start(spec: &Spec, plan: &Plan, scene: Scene, printer: &Printer, how: Progress) -> Screen {
    let done = Arc::new(AtomicBool::new(false));
    let terminal = std::io::stderr().is_terminal();
    if printer.quiet || how == Progress::Off {
        return Screen { done, thread: None };
    }
    let course = Course::new(spec, plan);
    printer.say(&printer.style.plain(&format!("inferometer run  {}\n", course.title)));
    if how == Progress::Live && !terminal {
        printer.warn("standard error is no terminal: progress is told in lines instead of the live view");
    }
    let flag = Arc::clone(&done);
    let printer = *printer;
    let body = move || match how {
        Progress::Live if terminal => {
            if let Err(error) = super::view::show(&course, &scene, printer.style, &flag) {
                printer.warn(&format!("the live view cannot be drawn: {error}"));
            }
            // Closed before the end of the run: what is left of it is told in lines.
            lines(&course, &scene, &printer, &flag);
        }
        Progress::Auto if terminal => bars(&course, &scene, &printer, &flag),
        _ => lines(&course, &scene, &printer, &flag),
    };
    Screen { done, thread: std::thread::Builder::new().name("progress".to_owned()).spawn(body).ok() }
}

fn wait(done: &AtomicBool) -> bool {
    std::thread::park_timeout(FRAME);
    !done.load(Ordering::Relaxed)
}

/// One plain line every ten seconds, and one as soon as this side falls behind for another reason.
fn lines(course: &Course, scene: &Scene, printer: &Printer, done: &AtomicBool) {
    let mut frame = 0;
    let mut sends = Sends::default();
    let mut told: (u32, Vec<Cause>) = (0, Vec::new());
    while wait(done) {
        frame += 1;
        let s = scene.live.snapshot();
        let now = clock_time(s.now.unwrap_or_default());
        let troubles = behind(&scene.live, &scene.watch, &mut sends);
        let causes: Vec<Cause> = troubles.iter().map(|(cause, _)| *cause).collect();
        let news = causes.iter().any(|cause| !told.1.contains(cause));
        if news || !causes.is_empty() && frame >= told.0 + FRAMES_PER_LINE {
            told = (frame, causes);
            printer.say(&printer.style.plain(&format!("{now} this machine is behind: {}", list(&troubles))));
        } else if causes.is_empty() && frame >= told.0 + FRAMES_PER_LINE {
            told.1.clear();
        }
        if frame % FRAMES_PER_LINE == 0 {
            printer.say(&format!(
                "{now} {}  sent {}  in flight {}  done {}  failed {}  timeout {}",
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

/// The reasons in one line.
pub(super) fn list(troubles: &[(Cause, String)]) -> String {
    troubles.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("; ")
}

/// Bars and counters in fixed places, redrawn twice a second.
fn bars(course: &Course, scene: &Scene, printer: &Printer, done: &AtomicBool) {
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
    let mut sends = Sends::default();
    while wait(done) {
        let s = scene.live.snapshot();
        let (share, place) = course.place(&s);
        bar.set_position((share * 1000.0) as u64);
        bar.set_message(place);
        let troubles = behind(&scene.live, &scene.watch, &mut sends);
        text.set_message(printer.style.plain(&counters(scene, &s, &troubles, printer)));
    }
    bar.finish_and_clear();
    text.finish_and_clear();
    // Nothing to clear is no failure.
    let _ = screen.clear();
}

fn counters(scene: &Scene, s: &Snapshot, troubles: &[(Cause, String)], printer: &Printer) -> String {
    let now = s.now.unwrap_or_default();
    let recent = scene.live.recent(now.saturating_since(RECENT));
    let spell = now.0.clamp(1, RECENT.0) as f64 / 1e9;
    let mut ttft: Vec<u64> = recent.iter().map(|r| r.ttft.0).filter(|t| *t > 0).collect();
    let mut tpot: Vec<u64> = recent.iter().map(|r| r.tpot.0).filter(|t| *t > 0).collect();
    let tokens: u64 = recent.iter().map(|r| r.tokens).sum();
    let mut client = match troubles {
        [] => format!("{} keeps up", printer.style.met(Some(true))),
        _ => format!("{} this machine is behind: {}", printer.style.met(Some(false)), list(troubles)),
    };
    if let Some(text) = journal_words(scene.watch.last().waiting) {
        client.push_str(&format!("; {text}"));
    }
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
