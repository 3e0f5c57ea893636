//! The writer's own thread: senders never wait for the disk.

use std::fs::File;
use std::path::Path;
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

/// The running writer. Entries sent before the footer are written; the footer ends the thread.
pub struct Recorder {
    sender: Sender<Entry>,
    health: Arc<Health>,
    thread: JoinHandle<Written>,
}

/// What other threads may know while the run goes on.
#[derive(Debug, Default)]
struct Health {
    failed: AtomicBool,
    deepest: AtomicU64,
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
        let health = Arc::new(Health::default());
        let shared = Arc::clone(&health);
        let thread = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write_all(writer, &receiver, &shared))
            .map_err(RecordError::io("start the writer of", path))?;
        Ok(Self { sender, health, thread })
    }

    /// A sender for one thread. Sending never blocks; it fails only when the writer is gone.
    pub fn sender(&self) -> Sender<Entry> {
        self.sender.clone()
    }

    /// Whether a write error stopped the journal: the run should end.
    pub fn failed(&self) -> bool {
        self.health.failed.load(Ordering::Relaxed)
    }

    /// Writes what was sent so far and the footer, then ends the thread. A warning is added to the
    /// footer when entries piled up faster than they were written.
    pub fn finish(self, footer: Footer) -> Written {
        // A send fails only when the thread is gone, and then its result says why.
        let _ = self.sender.send(Entry::Footer(footer));
        self.join()
    }

    /// Ends the thread without a footer, for a run that could not be closed properly. Every sender
    /// must have been dropped.
    pub fn abandon(self) -> Written {
        self.join()
    }

    fn join(self) -> Written {
        drop(self.sender);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_else(|_| Written {
            counts: Counts::default(),
            deepest: self.health.deepest.load(Ordering::Relaxed),
            error: Some(RecordError::WriterPanicked),
        })
    }
}

fn write_all<S: Sink>(mut writer: JournalWriter<S>, receiver: &Receiver<Entry>, health: &Health) -> Written {
    let mut error = None;
    let mut ticks = 0;
    let footer = loop {
        let mut found = 0u64;
        let ended = loop {
            match receiver.try_recv() {
                Ok(Entry::Footer(footer)) => break Some(Some(footer)),
                Ok(entry) => {
                    found += 1;
                    note(&mut error, writer.append(&entry));
                }
                Err(TryRecvError::Empty) => break None,
                Err(TryRecvError::Disconnected) => break Some(None),
            }
        };
        health.deepest.fetch_max(found, Ordering::Relaxed);
        ticks += 1;
        if ticks >= TICKS_PER_FRAME {
            ticks = 0;
            note(&mut error, writer.flush());
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
        footer.warnings.extend(pressure(deepest));
        footer
    });
    note(&mut error, writer.finish(footer.as_ref()).map(|_| ()));
    Written { counts: writer.counts(), deepest, error }
}

/// A warning in words when so many entries waited at once.
fn pressure(deepest: u64) -> Option<String> {
    (deepest >= DEEP).then(|| {
        format!(
            "the journal fell behind: up to {deepest} entries waited to be written. Stamps are taken before, \
             so latencies are not affected; memory was. Use a faster disk or leave cores free"
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
