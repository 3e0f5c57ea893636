//! From what the lanes give off to the journal on the disk, and back as the run that reports are made from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use corpus::{Corpus, Tokenizer};
use record::{
    Entries, Entry, Footer, Header, RecordError, Recorder, Run, RunFolder, Scrubber, Stopped, Waiting,
};
use wire::Output;

use super::Heard;
use super::watch::Watch;
use crate::failure::Failure;
use crate::printer::Printer;

/// Records that wait for the disk may take this much memory; beyond it the run ends.
const MOST_WAITING: u64 = 512 << 20;

/// The way of a run's records to the disk.
pub struct Journal {
    sink: Sender<Output>,
    relay: JoinHandle<Relayed>,
    folder: RunFolder,
    tokenizer: Option<Tokenizer>,
}

/// Who is told of the run while it goes on.
pub struct Told {
    /// Set when the disk cannot follow.
    pub stop: Arc<AtomicBool>,
    /// Sees the samples.
    pub watch: Arc<Watch>,
    /// Hears of each request that has ended.
    pub heard: Option<Sender<Heard>>,
}

/// What the relay holds at the end of the run.
struct Relayed {
    recorder: Option<Recorder>,
    error: Option<RecordError>,
    answers: Vec<(u64, String)>,
    /// What waited for the disk when that became too much.
    overrun: Option<Waiting>,
}

impl Journal {
    /// Starts the relay. The journal itself is made when the run's origin is known, just before it.
    pub fn start(
        folder: &RunFolder,
        header: Header,
        corpus: &Corpus,
        keep_text: bool,
        scrubber: Scrubber,
        told: Told,
    ) -> Result<Self> {
        let (sink, outputs) = channel();
        let tokenizer = corpus.tokenizer().cloned();
        let place = folder.clone();
        let relay = Relay {
            folder: folder.clone(),
            header,
            scrubber,
            told,
            keep_text,
            keep_answers: tokenizer.is_some(),
        };
        let relay =
            std::thread::Builder::new().name("relay".to_owned()).spawn(move || relay.run(&outputs))?;
        Ok(Self { sink, relay, folder: place, tokenizer })
    }

    /// Where lanes send to.
    pub fn sink(&self) -> Sender<Output> {
        self.sink.clone()
    }

    /// Counts the answers' tokens, closes the journal and reads it back. A journal that could not be written to its end
    /// is read as far as it goes.
    pub fn finish(self, mut footer: Footer, printer: &Printer) -> Result<Run> {
        drop(self.sink);
        let relayed = self.relay.join().map_err(|_| anyhow!("the thread that feeds the journal failed"))?;
        let Some(recorder) = relayed.recorder else {
            let why = relayed.error.map_or_else(|| anyhow!("the run never began"), anyhow::Error::from);
            return Err(Failure::request(why).into());
        };
        footer.warnings.extend(relayed.overrun.map(overrun));
        if recorder.failed() {
            footer.stopped = Stopped::WriteError;
        } else if let Some(tokenizer) = &self.tokenizer {
            let entries = recorder.sender();
            for (seq, answer) in &relayed.answers {
                if let Some(tokens) = tokenizer.count(answer) {
                    // The recorder outlives this loop; if its disk is full, counts are the least of it.
                    let _ = entries.send(Entry::Retokenised { seq: *seq, tokens });
                }
            }
        }
        let written = recorder.finish(footer);
        let (failed, unwritten) = (written.error.is_some(), written.counts.lost);
        if let Some(error) = written.error {
            printer.warn(&format!("the journal could not be written to its end: {error}"));
        }
        let journal = self.folder.journal();
        let mut run = record::read(&journal)
            .with_context(|| format!("{} was there when the run began", journal.display()))
            .map_err(Failure::request)?;
        // A disk too full for the footer leaves a journal that looks as if this process had been killed.
        if failed {
            run.footer.stopped = Stopped::WriteError;
            run.footer.lost = run.footer.lost.max(unwritten);
        }
        Ok(run)
    }
}

/// Why a run ended that the disk could not follow, for its record.
fn overrun(waiting: Waiting) -> String {
    format!(
        "the run was ended because its records came faster than the disk took them: {} entries waited and took {} MiB \
         of memory. Keep runs on a faster disk, leave cores free, or measure at a lower load",
        waiting.entries,
        waiting.bytes >> 20
    )
}

/// The thread between lanes and journal.
struct Relay {
    folder: RunFolder,
    header: Header,
    scrubber: Scrubber,
    told: Told,
    keep_text: bool,
    keep_answers: bool,
}

impl Relay {
    /// Whoever follows the run may have seen enough and be gone.
    fn tell(&self, what: impl FnOnce() -> Heard) {
        if let Some(heard) = &self.told.heard {
            let _ = heard.send(what());
        }
    }

    fn run(self, outputs: &Receiver<Output>) -> Relayed {
        let mut relayed = Relayed { recorder: None, error: None, answers: Vec::new(), overrun: None };
        let mut entries: Option<Entries> = None;
        for output in wire::outputs(outputs) {
            match output {
                Output::Began { monotonic_origin_ns, wall_origin_ns } => {
                    self.tell(|| Heard::Began { monotonic_origin_ns });
                    match self.recorder(monotonic_origin_ns, wall_origin_ns) {
                        Ok(recorder) => {
                            entries = Some(recorder.sender());
                            relayed.recorder = Some(recorder);
                        }
                        Err(error) => {
                            self.told.stop.store(true, Ordering::Relaxed);
                            relayed.error = Some(error);
                        }
                    }
                }
                Output::Heard { request, text } => {
                    if let Some(text) = text {
                        if self.keep_text {
                            send(
                                entries.as_ref(),
                                Entry::Text { seq: request.seq, prompt: None, answer: Some(text.clone()) },
                            );
                        }
                        if self.keep_answers && request.state.is_ok() {
                            relayed.answers.push((request.seq, text));
                        }
                    }
                    self.tell(|| Heard::Row(Box::new(request.clone())));
                    send(entries.as_ref(), Entry::Request(request));
                }
                Output::Sample(entry) => {
                    let waiting = relayed.recorder.as_ref().map(Recorder::waiting).unwrap_or_default();
                    self.told.watch.note(&entry, waiting);
                    relayed.overrun = relayed.overrun.or(Some(waiting).filter(|w| w.bytes > MOST_WAITING));
                    send(entries.as_ref(), entry);
                }
                // A lane that was left behind keeps its sender: the end is told, not waited for.
                Output::Ended => break,
            }
            // A disk that is full or far too slow ends the run cleanly, with what there is.
            if relayed.overrun.is_some() || relayed.recorder.as_ref().is_some_and(Recorder::failed) {
                self.told.stop.store(true, Ordering::Relaxed);
            }
        }
        relayed
    }

    fn recorder(&self, monotonic_origin_ns: u64, wall_origin_ns: i64) -> Result<Recorder, RecordError> {
        let mut header = self.header.clone();
        header.environment.monotonic_origin_ns = monotonic_origin_ns;
        header.environment.started =
            record::folder::rfc3339(u64::try_from(wall_origin_ns).unwrap_or_default())?;
        Recorder::spawn(&self.folder.journal(), &header, self.scrubber.clone())
    }
}

/// The journal outlives every sender; one that failed has said so by its own flag.
fn send(entries: Option<&Entries>, entry: Entry) {
    if let Some(entries) = entries {
        let _ = entries.send(entry);
    }
}
