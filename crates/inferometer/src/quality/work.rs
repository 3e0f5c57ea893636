//! Many questions, a few at a time.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quality::engine::Fault;

use super::server::{Http, Site, failure};
use crate::cli::Progress;
use crate::printer::Printer;

/// Where there is no terminal, a line this often.
const LINE: Duration = Duration::from_secs(10);

/// Does `job` for each of `tasks` on so many threads, each with a client of its own, and gives what comes of it to
/// `keep`, here, in the order in which it comes. The first fault that concerns the server as a whole ends it, and so
/// does an error of `keep`; answers that are there by then are kept.
pub fn each<T: Sync, R: Send>(
    site: &Site,
    tasks: &[T],
    threads: usize,
    progress: &Bar,
    job: impl Fn(&Http, &T) -> Result<R, Fault> + Sync,
    mut keep: impl FnMut(usize, R) -> Result<()>,
) -> Result<()> {
    let clients: Vec<Http> =
        (0..threads.min(tasks.len())).map(|_| site.client()).collect::<Result<Vec<_>>>()?;
    let next = AtomicUsize::new(0);
    let mut end = None;
    std::thread::scope(|scope| {
        let (send, answers) = mpsc::channel();
        for client in clients {
            let (send, next, job) = (send.clone(), &next, &job);
            scope.spawn(move || {
                loop {
                    let place = next.fetch_add(1, Relaxed);
                    let Some(task) = tasks.get(place) else { return };
                    let answer = job(&client, task);
                    let over = answer.is_err();
                    if send.send((place, answer)).is_err() || over {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (place, answer) in answers {
            let kept = match answer {
                Ok(answer) => keep(place, answer),
                Err(fault) => Err(failure(&fault).into()),
            };
            progress.step();
            if let Err(error) = kept {
                // The first reason is the true one: the others only hear that it is over.
                end.get_or_insert(error);
                next.store(tasks.len(), Relaxed);
                site.stop.store(true, Relaxed);
            }
        }
    });
    end.map_or(Ok(()), Err)
}

/// How far it is: a bar on a terminal, else a line now and then.
pub struct Bar {
    bar: ProgressBar,
    lines: Option<(Printer, clock::Clock, std::cell::Cell<Duration>)>,
    what: &'static str,
}

impl Bar {
    /// Of so many; `done` of them are there already.
    pub fn new(printer: &Printer, progress: Progress, what: &'static str, all: usize, done: usize) -> Self {
        let shown = !printer.quiet && progress != Progress::Off;
        let drawn = shown && std::io::stderr().is_terminal() && progress != Progress::Plain;
        let target = if drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(all as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{pos}/{len} {msg} {wide_bar} {eta}") {
            bar.set_style(style);
        }
        bar.set_message(what);
        bar.set_position(done as u64);
        bar.reset_eta();
        let lines = (shown && !drawn)
            .then(|| (*printer, clock::Clock::start(), std::cell::Cell::new(Duration::ZERO)));
        Self { bar, lines, what }
    }

    fn step(&self) {
        self.bar.inc(1);
        if let Some((printer, clock, told)) = &self.lines
            && clock.now().duration() >= told.get() + LINE
        {
            told.set(clock.now().duration());
            printer.say(&format!(
                "{} of {} {}",
                self.bar.position(),
                self.bar.length().unwrap_or(0),
                self.what
            ));
        }
    }

    /// Leaves the screen clean.
    pub fn end(self) {
        self.bar.finish_and_clear();
    }
}
