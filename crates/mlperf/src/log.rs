//! Logs in LoadGen's layout, with the name and version of this program where LoadGen tells of its build.
//!
//! Everything is text made from what is given: moments, dates and identities are the caller's.

mod accuracy;
mod detail;
mod number;
mod summary;
mod trace;

use spec::Nanos;

pub use accuracy::{Answer, Kept, accuracy};
pub use detail::detail;
pub use number::general;
pub use summary::summary;
pub use trace::trace;

use crate::effective::{Effective, SampleLibrary};
use crate::schedule::Schedule;
use crate::stats::{Results, Sample};
use crate::verdict::Verdict;

/// What a log says that is neither asked for nor measured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels {
    /// Name and version of the program that made the log: never LoadGen's.
    pub build: String,
    /// Date and time of the start.
    pub datetime: String,
    /// Name of the system under test.
    pub system: String,
    /// How long it took to ask for that name.
    pub system_asked: Nanos,
    /// The process.
    pub pid: u64,
}

/// How grave a note is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A word on how things go.
    Plain,
    /// May have disturbed the run.
    Warning,
    /// The run is not as it was asked for.
    Error,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// When, from the start of the log.
    pub at: Nanos,
    /// How grave.
    pub level: Level,
    /// In words.
    pub text: String,
}

/// One loaded set and what went out of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass<'a> {
    /// What is said before: that accuracy or performance mode starts.
    pub opening: Option<&'static str>,
    /// What was sent when.
    pub schedule: &'a Schedule,
    /// What happened meanwhile.
    pub notes: Vec<Note>,
    /// When it began, from the start of the log.
    pub began: Nanos,
    /// When it ended.
    pub ended: Nanos,
    /// Date and time of its beginning and end in UTC, `MM-DD-YYYY HH:MM:SS.mmm`, for power meters.
    pub power: (String, String),
    /// Statistics and verdict of a timed pass.
    pub outcome: Option<(&'a Results, &'a Verdict)>,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunLog<'a> {
    /// Names and dates.
    pub labels: &'a Labels,
    /// The data set.
    pub library: &'a SampleLibrary,
    /// The settings.
    pub effective: &'a Effective,
    /// What went out.
    pub passes: Vec<Pass<'a>>,
}

/// What a pass opens with.
pub const ACCURACY: &str = "Starting accuracy mode";
/// What a pass opens with.
pub const PERFORMANCE: &str = "Starting performance mode";
/// What a search opens with.
pub const FIND_PEAK: &str = "Starting FindPeakPerformance mode";
/// The note of a run whose next query waits for an answer, and that was long enough.
pub const ENDED: &str = "Ending naturally: Minimum query count and test duration met.";
/// The note of a run that had nothing more to send before it was long enough.
pub const RAN_OUT: &str = "Ending early: Ran out of generated queries to issue before the minimum query count \
                           and test duration were reached. Please update the relevant expected latency or \
                           target qps in the TestSettings so they are more accurate.";

/// The note of a run that stopped because too many queries were open.
pub fn too_many_open(issued: u64, open: u64) -> String {
    format!(
        "IssueQueryThread 0 Ending early: Too many outstanding queries. issued {issued} outstanding {open}"
    )
}

/// The note of a run that stopped at `max_query_count`.
pub fn max_queries_reached(issued: u64) -> String {
    format!("IssueQueryThread 0 Ending early: Max query count reached. query_count {issued}")
}

/// The note of a run that stopped at `max_duration`.
pub fn max_duration_reached(after: Nanos) -> String {
    format!("IssueQueryThread 0 Ending early: Max test duration reached. duration_ns {}", after.0)
}

/// What is wrong with single samples, in the words of LoadGen where it has any: it has none for samples
/// that failed.
pub fn sample_errors(effective: &Effective, samples: &[Sample], began: Nanos) -> Vec<Note> {
    let error = |at: Nanos, text: String| Note { at: began + at, level: Level::Error, text };
    let mut notes = Vec::new();
    let failed = samples.iter().filter(|s| s.latency.is_none()).count();
    if failed > 0 {
        let last =
            samples.iter().map(|s| s.scheduled + s.latency.unwrap_or_default()).max().unwrap_or_default();
        notes.push(error(last, format!("{failed} of {} samples failed or timed out.", samples.len())));
    }
    if effective.asked.use_token_latencies {
        for sample in samples {
            let Some(latency) = sample.latency else { continue };
            let text = match sample.tokens {
                None | Some(0) => "n_tokens argument missing or attempted to record 0 as number of tokens",
                Some(1) => "Number of tokens need to be greater than 1",
                Some(_) => continue,
            };
            notes.push(error(sample.scheduled + latency, text.to_owned()));
        }
    }
    notes
}

impl RunLog<'_> {
    fn count(&self, level: Level) -> usize {
        self.passes.iter().flat_map(|pass| &pass.notes).filter(|note| note.level == level).count()
    }
}
