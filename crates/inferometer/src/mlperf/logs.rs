//! The folder of a run: LoadGen's four logs, and what this program keeps beside them.

use std::path::Path;

use anyhow::{Context, Result};
use mlperf::layers::Declared;
use mlperf::log::{self, ACCURACY as ACCURACY_MODE, Answer, Labels, PERFORMANCE, Pass, RunLog};
use mlperf::{Effective, Mode, Sample};
use serde::{Deserialize, Serialize};
use spec::Nanos;

use super::pass::Made;
use super::settings::Asked;
use crate::files;

/// Names of the logs.
pub const DETAIL: &str = "mlperf_log_detail.txt";
/// See [`DETAIL`].
pub const SUMMARY: &str = "mlperf_log_summary.txt";
/// See [`DETAIL`].
pub const ACCURACY: &str = "mlperf_log_accuracy.json";
const TRACE: &str = "mlperf_log_trace.json";
/// What is kept beside them.
const BESIDE: &str = "mlperf.json";
const VERSION: u32 = 1;

/// What logs in LoadGen's layout have no place for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Beside {
    schema_version: u32,
    /// What was declared and what shows it.
    pub declared: Declared,
    /// The run folder of the pass that the result is of, within this one.
    pub run: Option<String>,
    /// The settings with their sources, a line each.
    pub settings: Vec<String>,
    /// What may surprise about them.
    pub notes: Vec<String>,
}

impl Beside {
    /// Of a run that was made.
    pub fn new(asked: &Asked, declared: Declared, run: Option<String>) -> Self {
        let notes = asked.resolved.notes.clone();
        Self { schema_version: VERSION, declared, run, settings: asked.lines(), notes }
    }

    /// What lies in the folder; `None`: nothing, as where LoadGen itself wrote the logs.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        if !folder.join(BESIDE).is_file() {
            return Ok(None);
        }
        files::versioned(folder, BESIDE, VERSION, "MLPerf logs of this program").map(Some)
    }

    /// Writes it.
    pub fn write(&self, folder: &Path) -> Result<()> {
        write(folder, BESIDE, &(serde_json::to_string_pretty(self)? + "\n"))
    }
}

/// All that the logs tell of.
pub struct Written<'a> {
    /// The settings of the detail log.
    pub asked: &'a Asked,
    /// Those of the result: at the peak its rate is another.
    pub result_by: &'a Effective,
    /// Names and dates.
    pub labels: Labels,
    /// In the order in which they were made.
    pub passes: &'a [Made],
    /// The pass whose outcome is the result.
    pub result: Option<usize>,
    /// Answers, in the order of completion.
    pub answers: Vec<Answer>,
}

impl Written<'_> {
    /// Writes the four logs.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let search = self.result_by.mode == Mode::FindPeakPerformance;
        let mut passes = Vec::with_capacity(self.passes.len());
        for (i, made) in self.passes.iter().enumerate() {
            let timed = made.outcome.is_some();
            let opening = match (search, timed, i) {
                (true, _, 0) => Some(log::FIND_PEAK),
                (true, ..) => None,
                (false, true, _) => Some(PERFORMANCE),
                (false, false, 0) => Some(ACCURACY_MODE),
                (false, false, _) => None,
            };
            passes.push(Pass {
                opening,
                schedule: &made.schedule,
                notes: made.notes.clone(),
                began: made.began,
                ended: made.ended,
                power: made.power.clone(),
                outcome: None,
            });
        }
        // The result stands behind the last pass, whichever it is of.
        let outcome = self.result.and_then(|i| self.passes.get(i)?.outcome.as_ref());
        if let Some(last) = passes.last_mut() {
            last.outcome = outcome.map(|(results, verdict)| (results, verdict));
        }
        let mut all = RunLog {
            labels: &self.labels,
            library: &self.asked.library,
            effective: &self.asked.effective,
            passes,
        };
        write(folder, DETAIL, &log::detail(&all))?;
        all.effective = self.result_by;
        write(folder, SUMMARY, &log::summary(&all))?;
        write(folder, ACCURACY, &log::accuracy(self.result_by, &self.answers))?;
        let samples: Vec<Sample> = self.passes.iter().flat_map(from_start).collect();
        let labels = &self.labels;
        let trace = log::trace(self.result_by.scenario, &samples, Nanos::ZERO, &labels.build, labels.pid);
        write(folder, TRACE, &trace)
    }
}

/// Samples with moments from the start of the log.
fn from_start(made: &Made) -> impl Iterator<Item = Sample> {
    made.samples.iter().map(|sample| Sample { scheduled: sample.scheduled + made.began, ..sample.clone() })
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}
