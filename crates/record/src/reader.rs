//! Reads a journal back, also one whose writer was killed: keeps every complete frame, and says in
//! words what is missing.

use std::collections::BTreeMap;
use std::io::Read;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use serde::Deserialize;
use serde::de::IgnoredAny;
use spec::{Extent, Nanos, Phase};

use crate::SCHEMA_VERSION;
use crate::error::RecordError;
use crate::folder::{JOURNAL, REQUESTS};
use crate::journal::{Entry, Footer, Header, Run, Stopped};
use crate::row::Request;
use crate::tables;

/// First bytes of a zstd frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Texts of one request, kept only when the spec asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Position in the plan.
    pub seq: u64,
    /// As sent.
    pub prompt: Option<String>,
    /// As received, joined.
    pub answer: Option<String>,
}

/// Reads a run from its folder or its journal; from its tables, where the path names a
/// `requests.parquet` or a folder whose journal is gone.
///
/// A journal without an end is no error: what its complete frames hold is returned, its footer is
/// made up from the rows ([`Stopped::Killed`]), and [`Run::missing`] says what is not there.
///
/// # Errors
/// The file cannot be read, is empty, is no journal, holds no complete header or two of them, or
/// was written in another version of the format.
pub fn read(path: &Path) -> Result<Run, RecordError> {
    let folder = path.is_dir();
    if folder && !path.join(JOURNAL).exists() && path.join(REQUESTS).exists() {
        return tables::read(&path.join(REQUESTS));
    }
    if !folder && is_table(path) {
        return tables::read(path);
    }
    let mut collected = Collected::default();
    let scanned = scan(path, &mut |entry| collected.take(entry))?;
    Ok(collected.run(scanned))
}

/// Whether a file begins as Parquet does; one that cannot be read does not.
fn is_table(path: &Path) -> bool {
    let mut first = [0; tables::MAGIC.len()];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && first == tables::MAGIC
}

/// Reads the texts of a journal whose spec asked to keep them; empty otherwise.
///
/// # Errors
/// As [`read`].
pub fn texts(path: &Path) -> Result<Vec<Text>, RecordError> {
    let mut texts = Vec::new();
    scan(path, &mut |entry| {
        if let Entry::Text { seq, prompt, answer } = entry {
            texts.push(Text { seq, prompt, answer });
        }
    })?;
    Ok(texts)
}

/// What reading the file itself showed.
struct Scanned {
    header: Header,
    /// Bytes that belong to no complete frame, and where the first of them is.
    damaged: Option<(u64, usize)>,
    /// Whether those bytes are the end of the file, as a kill leaves them.
    only_tail: bool,
    /// Lines of good frames that are no entry, and what the parser says of the first.
    strange: Option<(u64, String)>,
}

/// Hands over every entry after the header.
fn scan(path: &Path, take: &mut dyn FnMut(Entry)) -> Result<Scanned, RecordError> {
    let path = if path.is_dir() { path.join(JOURNAL) } else { path.to_owned() };
    let bytes = std::fs::read(&path).map_err(RecordError::io("read", &path))?;
    scan_bytes(&bytes, path, take)
}

fn scan_bytes(bytes: &[u8], path: PathBuf, take: &mut dyn FnMut(Entry)) -> Result<Scanned, RecordError> {
    if bytes.is_empty() {
        return Err(RecordError::Empty { path });
    }
    let shared = bytes.len().min(MAGIC.len());
    if bytes[..shared] != MAGIC[..shared] {
        let found = format!("found `{}`", bytes[..bytes.len().min(16)].escape_ascii());
        return Err(RecordError::NotAJournal { path, found });
    }
    let header = header(bytes, &path)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (mut at, mut headers, mut damaged, mut only_tail) = (0, 0, None, true);
    let mut strange: Option<(u64, String)> = None;
    while at < bytes.len() {
        let mut good = false;
        for (size, lines) in decoded(&frames(&bytes[at..], cores)) {
            good = lines.is_some();
            let Some(lines) = lines else { break };
            at += size;
            only_tail &= damaged.is_none();
            for line in lines {
                match line {
                    Ok(Entry::Header(_)) | Err(NoEntry::Header) => headers += 1,
                    Ok(entry) => take(entry),
                    Err(NoEntry::Strange(reason)) => strange.get_or_insert((0, reason)).0 += 1,
                }
                if headers > 1 {
                    return Err(RecordError::SecondHeader { path });
                }
            }
        }
        if !good {
            // Perhaps only this frame is damaged: go on at the next thing that looks like one.
            let skip = bytes[at + 1..].windows(MAGIC.len()).position(|w| w == MAGIC);
            let skip = skip.map_or(bytes.len() - at, |n| n + 1);
            damaged.get_or_insert((0, at)).0 += skip as u64;
            at += skip;
        }
    }
    Ok(Scanned { header, damaged, only_tail, strange })
}

/// The header: the first line of the first frame that has one.
fn header(bytes: &[u8], path: &Path) -> Result<Header, RecordError> {
    let mut rest = bytes;
    while let Some(frame) = frames(rest, 1).first() {
        let Some(lines) = decompress(frame) else { break };
        if let Some(line) = lines.split(|b| *b == b'\n').find(|line| !line.is_empty()) {
            return first_line(line, path);
        }
        rest = &rest[frame.len()..];
    }
    Err(RecordError::NoHeader { path: path.to_owned() })
}

/// The frames that `bytes` begin with, `most` of them at most; none where it begins with no whole one.
fn frames(mut bytes: &[u8], most: usize) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while frames.len() < most
        && let Ok(size) = zstd::zstd_safe::find_frame_compressed_size(bytes)
        && let Some((frame, rest)) = bytes.split_at_checked(size).filter(|_| size > 0)
    {
        frames.push(frame);
        bytes = rest;
    }
    frames
}

/// A line of a frame that is no entry.
enum NoEntry {
    /// A header of another version.
    Header,
    /// What the parser says.
    Strange(String),
}

/// What each line of a frame holds.
type Lines = Vec<Result<Entry, NoEntry>>;

/// Size and lines of each frame, decoded on a core of its own; no lines where its checksum is wrong.
fn decoded(frames: &[&[u8]]) -> Vec<(usize, Option<Lines>)> {
    let Some((last, others)) = frames.split_last() else { return Vec::new() };
    thread::scope(|scope| {
        let others: Vec<_> = others.iter().map(|frame| (frame.len(), scope.spawn(|| lines(frame)))).collect();
        let last = (last.len(), lines(last));
        let join = |(size, lines): (usize, thread::ScopedJoinHandle<'_, _>)| {
            (size, lines.join().unwrap_or_else(|panic| resume_unwind(panic)))
        };
        others.into_iter().map(join).chain([last]).collect()
    })
}

fn lines(frame: &[u8]) -> Option<Lines> {
    let text = decompress(frame)?;
    let lines = text.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    Some(
        lines
            .map(|line| {
                serde_json::from_slice(line).map_err(|e| match is_header(line) {
                    true => NoEntry::Header,
                    false => NoEntry::Strange(e.to_string()),
                })
            })
            .collect(),
    )
}

/// The text of a frame; `None` if it is incomplete or fails its checksum.
fn decompress(frame: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut decoder = zstd::stream::read::Decoder::with_buffer(frame).ok()?.single_frame();
    decoder.read_to_end(&mut text).ok()?;
    Some(text)
}

/// Only the version, whatever the rest looks like in another version.
#[derive(Deserialize)]
struct Probe {
    header: ProbedHeader,
}
#[derive(Deserialize)]
struct ProbedHeader {
    schema_version: u64,
}
#[derive(Deserialize)]
struct AnyHeader {
    #[serde(rename = "header")]
    _header: IgnoredAny,
}

fn is_header(line: &[u8]) -> bool {
    serde_json::from_slice::<AnyHeader>(line).is_ok()
}

fn first_line(line: &[u8], path: &Path) -> Result<Header, RecordError> {
    let path = path.to_owned();
    let Ok(probe) = serde_json::from_slice::<Probe>(line) else {
        let found = "found zstd data whose first line is no header".to_owned();
        return Err(RecordError::NotAJournal { path, found });
    };
    let (found, known) = (probe.header.schema_version, u64::from(SCHEMA_VERSION));
    if found != known {
        return Err(RecordError::WrongVersion { path, found, known });
    }
    match serde_json::from_slice(line) {
        Ok(Entry::Header(header)) => Ok(header),
        Ok(_) => Err(RecordError::BadHeader { path, reason: "the first line is no header".to_owned() }),
        Err(e) => Err(RecordError::BadHeader { path, reason: e.to_string() }),
    }
}

/// Entries sorted into their lists.
#[derive(Default)]
struct Collected {
    requests: Vec<Request>,
    tokens: BTreeMap<u64, u32>,
    lanes: Vec<crate::sample::LaneSample>,
    machine: Vec<crate::sample::MachineSample>,
    clock: Vec<crate::sample::ClockSample>,
    server: Vec<crate::sample::ServerSample>,
    footer: Option<Footer>,
}

impl Collected {
    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Request(request) => self.requests.push(request),
            Entry::Lane(sample) => self.lanes.push(sample),
            Entry::Machine(sample) => self.machine.push(sample),
            Entry::Clock(sample) => self.clock.push(sample),
            Entry::Server(sample) => self.server.push(sample),
            Entry::Retokenised { seq, tokens } => {
                self.tokens.insert(seq, tokens);
            }
            Entry::Footer(footer) => self.footer = Some(footer),
            // A second header ends the scan before it comes here; texts are read apart.
            Entry::Header(_) | Entry::Text { .. } => {}
        }
    }

    fn run(mut self, scanned: Scanned) -> Run {
        let mut missing = Vec::new();
        self.requests.sort_by_key(|request| request.seq);
        let all = self.requests.len();
        self.requests.dedup_by_key(|request| request.seq);
        let twice = all - self.requests.len();
        if twice > 0 {
            missing.push(format!(
                "{} recorded twice; the first record is kept",
                count(twice, "request is", "requests are")
            ));
        }
        for request in &mut self.requests {
            if let Some(tokens) = self.tokens.remove(&request.seq) {
                request.output.retokenised = Some(tokens);
            }
        }
        if !self.tokens.is_empty() {
            let n = self.tokens.len();
            missing.push(format!("{} without its request", count(n, "token count is", "token counts are")));
        }
        self.lanes.sort_by_key(|sample| (sample.to, sample.lane));
        self.machine.sort_by_key(|sample| sample.at);
        self.clock.sort_by_key(|sample| sample.at);
        self.server.sort_by_key(|sample| sample.at);
        if let Some((bytes, at)) = scanned.damaged {
            missing.push(if scanned.only_tail {
                format!("the last {bytes} bytes of the journal (from byte {at}) are an incomplete or damaged frame")
            } else {
                format!("{bytes} bytes of the journal (the first at byte {at}) are damaged; what they held is lost")
            });
        }
        if let Some((lines, reason)) = &scanned.strange {
            missing
                .push(format!("{} not understood: {reason}", count(*lines as usize, "line is", "lines are")));
        }
        let footer = match self.footer.take() {
            Some(mut footer) => {
                if footer.stopped == Stopped::WriteError {
                    footer.lost = footer.lost.max(self.lost_in_flight());
                    missing.push(format!("writing stopped early: {}", footer.warnings.join("; ")));
                }
                footer
            }
            None => {
                let footer = self.made_up(&scanned.header);
                missing.push(cut_off(&footer));
                footer
            }
        };
        Run {
            header: scanned.header,
            requests: self.requests,
            lanes: self.lanes,
            machine: self.machine,
            clock: self.clock,
            server: self.server,
            footer,
            missing,
        }
    }

    /// What the rows tell of a run whose footer is missing.
    fn made_up(&self, header: &Header) -> Footer {
        let measured = || self.requests.iter().filter(|r| r.phase == Phase::Measure).map(|r| r.intended);
        let ended = self.last_moment();
        let measure_from = measured().min().unwrap_or(ended);
        let last = measured().max().unwrap_or(ended);
        let (measure_to, planned) = match &header.spec.phases.measure {
            Extent::Requests(n) => (last, *n),
            Extent::Duration(span) => {
                ((measure_from + span.0).min(ended).max(last), measured().count() as u64)
            }
        };
        Footer {
            measure_from,
            measure_to,
            ended,
            planned,
            stopped: Stopped::Killed,
            lost: self.lost_in_flight(),
            warnings: Vec::new(),
            others: Vec::new(),
        }
    }

    /// The latest moment that any record names.
    fn last_moment(&self) -> Nanos {
        let requests = self.requests.iter().flat_map(|r| [r.closed, r.done, r.write_end, Some(r.intended)]);
        let samples = self.lanes.iter().map(|s| s.to).chain(self.machine.iter().map(|s| s.at));
        let samples = samples.chain(self.clock.iter().map(|s| s.at)).chain(self.server.iter().map(|s| s.at));
        requests.flatten().chain(samples).max().unwrap_or(Nanos::ZERO)
    }

    /// A lower bound of the requests that had begun and left no record: by the lanes' own counters,
    /// and by the gaps in the plan's numbering.
    fn lost_in_flight(&self) -> u64 {
        let mut last = BTreeMap::new();
        for sample in &self.lanes {
            last.insert(sample.lane, sample);
        }
        let by_counter = last.values().map(|sample| {
            let open = |r: &&Request| {
                r.lane == sample.lane
                    && r.dispatched.or(r.write_begin).is_some_and(|begun| begun <= sample.to)
                    && r.closed.is_none_or(|closed| closed > sample.to)
            };
            let recorded = self.requests.iter().filter(open).count() as u64;
            u64::from(sample.in_flight).saturating_sub(recorded)
        });
        let by_gap = self
            .requests
            .last()
            .map_or(0, |r| r.seq.saturating_add(1).saturating_sub(self.requests.len() as u64));
        by_counter.sum::<u64>().max(by_gap)
    }
}

/// What a footer that had to be made up says.
fn cut_off(footer: &Footer) -> String {
    let lost = match footer.lost {
        0 => "requests that were in flight then are not recorded".to_owned(),
        1 => "at least 1 request that was in flight then is not recorded".to_owned(),
        n => format!("at least {n} requests that were in flight then are not recorded"),
    };
    format!("the journal ends without a footer at {:.1} s; {lost}", footer.ended.as_secs_f64())
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
