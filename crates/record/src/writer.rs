//! Writes the journal: JSON lines, collected into zstd frames, each valid by itself.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use spec::secret::{redact_fields, redact_url};
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use crate::error::RecordError;
use crate::journal::{Entry, Header, Stopped};
use crate::row::{Finish, Request, State};
use crate::scrub::Scrubber;

/// A frame is closed at this many bytes of JSON at the latest, which bounds memory and what a
/// damaged frame can cost.
const FRAME_BYTES: usize = 1 << 20;

/// Level 3: below 1 µs for each streamed token, and the next levels save only a few per cent.
const LEVEL: i32 = 3;

/// Where a journal goes: a file, or in tests something that fails.
pub trait Sink: Write {
    /// Cuts everything from `length` on and continues there.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Makes what was written survive a power cut.
    fn sync(&mut self) -> io::Result<()>;
}

impl Sink for File {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.seek(SeekFrom::Start(length)).map(|_| ())
    }
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Writes one journal. After the first error nothing more is written; what was written stays valid.
pub struct JournalWriter<S: Sink = File> {
    sink: S,
    path: PathBuf,
    compressor: Compressor<'static>,
    scrubber: Scrubber,
    keep_text: bool,
    lines: Vec<u8>,
    waiting: u64,
    counts: Counts,
    failed: bool,
}

/// What a journal holds so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Entries inside complete frames, the header included.
    pub entries: u64,
    /// Complete frames.
    pub frames: u64,
    /// Bytes of complete frames.
    pub bytes: u64,
    /// Entries that a write error cost.
    pub lost: u64,
}

impl JournalWriter<File> {
    /// Makes the file, which must not exist, and writes the header. Readable by the owner only when
    /// texts are kept.
    ///
    /// # Errors
    /// The file exists or cannot be written; the spec holds a number that JSON cannot carry.
    pub fn create(path: &Path, header: &Header, scrubber: Scrubber) -> Result<Self, RecordError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if header.spec.client.keep_text {
            crate::folder::private(&mut options);
        }
        let file = options.open(path).map_err(RecordError::io("create", path))?;
        Self::over(file, path, header, scrubber)
    }
}

impl<S: Sink> JournalWriter<S> {
    /// Writes a journal to any sink, which must be empty; `path` is its name in messages.
    ///
    /// # Errors
    /// As [`JournalWriter::create`].
    pub fn over(sink: S, path: &Path, header: &Header, scrubber: Scrubber) -> Result<Self, RecordError> {
        let compressor = Compressor::new(LEVEL)
            .and_then(|mut c| {
                // A damaged frame is known by its checksum, not by what its lines look like.
                c.set_parameter(CParameter::ChecksumFlag(true))?;
                Ok(c)
            })
            .map_err(RecordError::io("compress", path))?;
        let mut writer = Self {
            sink,
            path: path.to_owned(),
            compressor,
            scrubber,
            keep_text: header.spec.client.keep_text,
            lines: Vec::with_capacity(FRAME_BYTES + FRAME_BYTES / 4),
            waiting: 0,
            counts: Counts::default(),
            failed: false,
        };
        let header = writer.clean_header(header);
        check_header(&header)?;
        writer.line(&Entry::Header(header))?;
        writer.flush()?;
        writer.sink.sync().or_else(unsupported_is_fine).map_err(RecordError::io("sync", path))?;
        Ok(writer)
    }

    /// Adds an entry to the open frame; closes the frame when it is large. Texts are dropped unless
    /// the spec asks for them, known secrets are replaced.
    ///
    /// # Errors
    /// The frame had to be written and could not; [`RecordError::Closed`] after an earlier error.
    pub fn append(&mut self, entry: &Entry) -> Result<(), RecordError> {
        if self.failed {
            self.counts.lost += 1;
            return Err(RecordError::Closed { path: self.path.clone() });
        }
        match entry {
            Entry::Text { .. } if !self.keep_text => return Ok(()),
            Entry::Text { seq, prompt, answer } => {
                let clean = |text: &Option<String>| text.as_ref().map(|text| self.scrubber.scrub(text));
                let entry = Entry::Text { seq: *seq, prompt: clean(prompt), answer: clean(answer) };
                self.line(&entry)?;
            }
            Entry::Header(_) => return Err(RecordError::SecondHeader { path: self.path.clone() }),
            Entry::Request(request) if self.must_scrub(request) => {
                let clean = self.clean_request(request);
                self.line(&Entry::Request(clean))?;
            }
            other => self.line(other)?,
        }
        if self.lines.len() >= FRAME_BYTES { self.flush() } else { Ok(()) }
    }

    /// Closes the open frame and hands it to the operating system: from here on it survives a
    /// `kill -9` of this process. Called at least every half second.
    ///
    /// # Errors
    /// The sink refuses; the file is cut back to its last complete frame.
    pub fn flush(&mut self) -> Result<(), RecordError> {
        if self.failed || self.lines.is_empty() {
            return Ok(());
        }
        let written = self.compressor.compress(&self.lines).and_then(|frame| {
            self.sink.write_all(&frame)?;
            self.sink.flush()?;
            Ok(frame.len() as u64)
        });
        self.lines.clear();
        match written {
            Ok(bytes) => {
                self.counts.bytes += bytes;
                self.counts.frames += 1;
                self.counts.entries += std::mem::take(&mut self.waiting);
                Ok(())
            }
            Err(source) => {
                self.failed = true;
                self.counts.lost += std::mem::take(&mut self.waiting);
                // The half frame is cut off; where that fails too, the reader skips it.
                let _ = self.sink.truncate(self.counts.bytes);
                Err(RecordError::io("write", &self.path)(source))
            }
        }
    }

    /// Closes the journal. After a write error a small footer that says so is tried once: cutting
    /// the half frame off often left room for it.
    ///
    /// # Errors
    /// The last frame cannot be written or synced.
    pub fn finish(&mut self, footer: Option<&crate::journal::Footer>) -> Result<Counts, RecordError> {
        match footer {
            Some(footer) if self.failed => self.last_words(footer.clone()),
            Some(footer) => {
                let mut footer = footer.clone();
                footer.warnings.iter_mut().for_each(|warning| self.scrubber.scrub_in(warning));
                self.line(&Entry::Footer(footer))?;
            }
            None => {}
        }
        self.flush()?;
        self.sink.sync().or_else(unsupported_is_fine).map_err(RecordError::io("sync", &self.path))?;
        Ok(self.counts)
    }

    /// What is written so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether an error closed the journal.
    pub fn failed(&self) -> bool {
        self.failed
    }

    fn last_words(&mut self, mut footer: crate::journal::Footer) {
        footer.stopped = Stopped::WriteError;
        footer.lost = self.counts.lost;
        footer.warnings = vec![format!("{} journal entries were lost to a write error", self.counts.lost)];
        self.failed = false;
        if self.line(&Entry::Footer(footer)).is_ok() {
            let lost = self.counts.lost;
            let _ = self.flush();
            self.counts.lost = lost;
        }
        self.failed = true;
    }

    fn line(&mut self, entry: &Entry) -> Result<(), RecordError> {
        let before = self.lines.len();
        if let Err(error) = serde_json::to_writer(&mut self.lines, entry) {
            self.lines.truncate(before);
            return Err(RecordError::Unwritable { what: "a journal entry", reason: error.to_string() });
        }
        self.lines.push(b'\n');
        self.waiting += 1;
        Ok(())
    }

    fn clean_header(&self, header: &Header) -> Header {
        let mut header = header.clone();
        header.spec = header.spec.redacted();
        let environment = &mut header.environment;
        redact_fields(&mut environment.server);
        redact_fields(&mut environment.client);
        environment.server.values_mut().for_each(|text| {
            *text = redact_url(text);
            self.scrubber.scrub_in(text);
        });
        environment.negotiated.iter_mut().for_each(|text| self.scrubber.scrub_in(text));
        header.spec.api.headers.values_mut().for_each(|text| self.scrubber.scrub_in(text));
        header
    }

    /// Only text that came from the server can repeat a secret.
    fn must_scrub(&self, request: &Request) -> bool {
        let finds = |text: &str| self.scrubber.finds(text);
        matches!(&request.state, State::Failed { detail, .. } if finds(detail))
            || matches!(&request.finish, Some(Finish::Other(word)) if finds(word))
            || request.server_id.as_deref().is_some_and(finds)
    }

    fn clean_request(&self, request: &Request) -> Request {
        let mut request = request.clone();
        if let State::Failed { detail, .. } = &mut request.state {
            self.scrubber.scrub_in(detail);
        }
        if let Some(Finish::Other(word)) = &mut request.finish {
            self.scrubber.scrub_in(word);
        }
        if let Some(id) = &mut request.server_id {
            self.scrubber.scrub_in(id);
        }
        request
    }
}

/// A header that does not read back would cost the whole run; better to know before it.
fn check_header(header: &Header) -> Result<(), RecordError> {
    let unwritable = |reason: String| RecordError::Unwritable { what: "the header", reason };
    let text = serde_json::to_string(header).map_err(|e| unwritable(e.to_string()))?;
    let back: Header = serde_json::from_str(&text).map_err(|e| unwritable(e.to_string()))?;
    if &back == header { Ok(()) } else { Err(unwritable("it reads back differently".to_owned())) }
}

/// Pipes and devices cannot be synced, and need not be.
fn unsupported_is_fine(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => Ok(()),
        _ => Err(error),
    }
}
