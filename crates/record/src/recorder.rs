//! The writer's own thread: senders never wait for the disk.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::RecordError;
use crate::journal::{Entry, Footer, Header};
use crate::scrub::Scrubber;
use crate::writer::{Counts, JournalWriter, Sink};

/// The thread looks for entries this often, whatever the rate: waking for each entry would take
/// the core from the lanes.
const TICK: Duration = Duration::from_millis(50);
/// Ticks for each frame: 450 ms and the time to write, so that a frame is closed every half second.
const TICKS_PER_FRAME: u32 = 9;
/// So many entries found waiting at once mean that the disk or the processor cannot keep up.
const DEEP: u64 = 20_000;
/// At the end of a run, a writer that takes nothing for this long is left behind: its disk stands still.
const STUCK: Duration = Duration::from_secs(120);
/// How often the end of the writer is looked for.
const END_LOOK: Duration = Duration::from_millis(2);

/// The running writer. Entries sent before the footer are written; the footer ends the thread.
pub struct Recorder {
    entries: Entries,
    path: PathBuf,
    thread: JoinHandle<Written>,
}

/// A way into the journal, for one thread.
#[derive(Debug, Clone)]
pub struct Entries {
    sender: Sender<Entry>,
    health: Arc<Health>,
}

/// The writer has ended; nothing more is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the journal's writer has ended")]
pub struct Gone;

/// What waits to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    /// Entries.
    pub entries: u64,
    /// Bytes of memory that they take, about.
    pub bytes: u64,
}

/// What other threads may know while the run goes on.
#[derive(Debug, Default)]
struct Health {
    failed: AtomicBool,
    entries: AtomicU64,
    bytes: AtomicU64,
    deepest: AtomicU64,
    heaviest: AtomicU64,
    /// Grows with everything that the writer does.
    steps: AtomicU64,
}

impl Entries {
    /// Hands an entry over. Never blocks.
    ///
    /// # Errors
    /// The writer has ended.
    pub fn send(&self, entry: Entry) -> Result<(), Gone> {
        let bytes = weight(&entry);
        let health = &self.health;
        // Counted before: the writer may take it before this thread goes on.
        health.deepest.fetch_max(health.entries.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        health
            .heaviest
            .fetch_max(health.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes, Ordering::Relaxed);
        self.sender.send(entry).map_err(|_| {
            health.took(bytes);
            Gone
        })
    }
}

impl Health {
    fn took(&self, bytes: u64) {
        self.entries.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that an entry takes in memory, about.
fn weight(entry: &Entry) -> u64 {
    let own = match entry {
        Entry::Request(request) => request.chunks.memory(),
        Entry::Text { prompt, answer, .. } => [prompt, answer].into_iter().flatten().map(String::len).sum(),
        _ => 0,
    };
    (size_of::<Entry>() + own) as u64
}

/// How writing went.
#[derive(Debug)]
pub struct Written {
    /// What the journal holds.
    pub counts: Counts,
    /// Most entries found waiting at once.
    pub deepest: u64,
    /// Why writing stopped early. What had been written stays valid.
    pub error: Option<RecordError>,
}

impl Recorder {
    /// Makes the journal at `path` and starts the thread that writes it. The header is on the disk
    /// when this returns, so a folder that cannot be written is known before the run.
    ///
    /// # Errors
    /// The file exists or cannot be written, or no thread can be started.
    pub fn spawn(path: &Path, header: &Header, scrubber: Scrubber) -> Result<Self, RecordError> {
        let writer = JournalWriter::<File>::create(path, header, scrubber)?;
        Self::over(writer, path)
    }

    /// Starts the thread over a writer that exists.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn over<S: Sink + Send + 'static>(
        writer: JournalWriter<S>,
        path: &Path,
    ) -> Result<Self, RecordError> {
        let (sender, receiver) = channel();
        let entries = Entries { sender, health: Arc::default() };
        let shared = Arc::clone(&entries.health);
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write_all(writer, &receiver, &shared))
            .map_err(RecordError::io("start the writer of", path))?;
        Ok(Self { entries, path: path.to_owned(), thread })
    }

    /// A sender for one thread.
    pub fn sender(&self) -> Entries {
        self.entries.clone()
    }

    /// What waits to be written at this moment.
    pub fn waiting(&self) -> Waiting {
        let health = &self.entries.health;
        Waiting {
            entries: health.entries.load(Ordering::Relaxed),
            bytes: health.bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether a write error stopped the journal: the run should end.
    pub fn failed(&self) -> bool {
        self.entries.health.failed.load(Ordering::Relaxed)
    }

    /// Writes what was sent so far and the footer, then ends the thread. A warning is added to the
    /// footer when entries piled up faster than they were written.
    pub fn finish(self, footer: Footer) -> Written {
        // A send fails only when the thread is gone, and then its result says why.
        let _ = self.entries.sender.send(Entry::Footer(footer));
        self.join(STUCK)
    }

    /// Ends the thread without a footer, for a run that could not be closed properly. Every sender
    /// must have been dropped.
    pub fn abandon(self) -> Written {
        self.join(STUCK)
    }

    /// Waits for the writer's end for as long as it does something.
    fn join(self, stuck: Duration) -> Written {
        let Self { entries: Entries { sender, health }, path, thread } = self;
        drop(sender);
        thread.thread().unpark();
        let without = |error| Written {
            counts: Counts::default(),
            deepest: health.deepest.load(Ordering::Relaxed),
            error: Some(error),
        };
        let patience = stuck.as_millis() / END_LOOK.as_millis();
        let (mut steps, mut idle) = (health.steps.load(Ordering::Relaxed), 0);
        while !thread.is_finished() {
            thread::sleep(END_LOOK);
            let now = health.steps.load(Ordering::Relaxed);
            idle = if now == steps { idle + 1 } else { 0 };
            steps = now;
            if idle >= patience {
                return without(RecordError::Stuck { path, seconds: stuck.as_secs() });
            }
        }
        thread.join().unwrap_or_else(|_| without(RecordError::WriterPanicked))
    }
}

fn write_all<S: Sink>(mut writer: JournalWriter<S>, receiver: &Receiver<Entry>, health: &Health) -> Written {
    let mut error = None;
    let mut ticks = 0;
    let footer = loop {
        let ended = loop {
            match receiver.try_recv() {
                Ok(Entry::Footer(footer)) => break Some(Some(footer)),
                Ok(entry) => {
                    health.took(weight(&entry));
                    note(&mut error, writer.append(&entry));
                    health.steps.fetch_add(1, Ordering::Relaxed);
                }
                Err(TryRecvError::Empty) => break None,
                Err(TryRecvError::Disconnected) => break Some(None),
            }
        };
        ticks += 1;
        if ticks >= TICKS_PER_FRAME {
            ticks = 0;
            note(&mut error, writer.flush());
            health.steps.fetch_add(1, Ordering::Relaxed);
        }
        if writer.failed() {
            health.failed.store(true, Ordering::Relaxed);
        }
        if let Some(footer) = ended {
            break footer;
        }
        // Not slept: the end of a run need not wait for the tick.
        thread::park_timeout(TICK);
    };
    let deepest = health.deepest.load(Ordering::Relaxed);
    let footer = footer.map(|mut footer| {
        footer.warnings.extend(pressure(deepest, health.heaviest.load(Ordering::Relaxed)));
        footer
    });
    note(&mut error, writer.finish(footer.as_ref()).map(|_| ()));
    Written { counts: writer.counts(), deepest, error }
}

/// A warning in words when many entries waited at once.
fn pressure(deepest: u64, heaviest: u64) -> Option<String> {
    (deepest >= DEEP).then(|| {
        format!(
            "the journal fell behind: up to {deepest} entries waited to be written and took {} MiB of memory. \
             Stamps are taken before, so latencies are not affected. Use a faster disk or leave cores free",
            heaviest.div_ceil(1 << 20)
        )
    })
}

/// The first error is the cause; later ones only follow from it.
fn note(first: &mut Option<RecordError>, result: Result<(), RecordError>) {
    if let Err(error) = result
        && first.is_none()
    {
        *first = Some(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer's thread that never comes back, as one whose disk hangs.
    #[test]
    fn a_writer_that_does_nothing_any_more_is_left_behind_with_an_error_that_says_so() {
        let (sender, receiver) = channel();
        let (keep, gate) = channel::<()>();
        let thread = thread::spawn(move || {
            let _ = (gate.recv(), receiver);
            unreachable!("the gate stays shut")
        });
        let entries = Entries { sender, health: Arc::default() };
        entries.send(Entry::Retokenised { seq: 0, tokens: 1 }).unwrap();
        let recorder = Recorder { entries, path: "/mnt/gone/j".into(), thread };
        assert_eq!(recorder.waiting().entries, 1);
        let written = recorder.join(Duration::from_millis(40));
        let error = written.error.unwrap().to_string();
        assert!(error.contains("/mnt/gone/j") && error.contains("stands still"), "{error}");
        std::mem::forget(keep);
    }
}
