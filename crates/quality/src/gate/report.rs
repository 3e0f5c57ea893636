//! The answer of a comparison as data.

use measure::Interval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Settings;
use super::pairs::Pairing;
use crate::breakage::{Breakage, Lengths};
use crate::divergence::{Divergence, Identity};
use crate::stats::{BareRatio, Bootstrap, Bounds, Cells, Decision, McNemar, Needed, Wald};

/// A mean score.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// Mean over documents.
    pub value: f64,
    /// Two-sided 95 % interval: Wilson's for right and wrong answers, else Student's.
    pub interval: Interval,
}

/// What a baseline measured twice differs by: its noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Noise {
    /// Documents.
    pub n: u64,
    /// Documents that got worse.
    pub lost: u64,
    /// Documents that got better.
    pub gained: u64,
    /// Share of documents that differ.
    pub discordance: f64,
    /// Second over first score; `null`: the first is 0.
    pub ratio: Option<f64>,
    /// Of the baseline against itself; must not be a FAIL.
    pub decision: Decision,
}

/// One metric of one filter of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskReport {
    /// The task's name.
    pub task: String,
    /// The filter's name.
    pub filter: String,
    /// The metric's name.
    pub metric: String,
    /// Whether the task is judged by it. The others are shown.
    pub judged: bool,
    /// Documents: repeats of one are averaged.
    pub n: u64,
    /// Answers behind them.
    pub answers: u64,
    /// Of those, missing from the new journal and counted as 0.
    pub missing: u64,
    /// Of those, failed or without a score on the new server and counted as 0.
    pub unscored: u64,
    /// Of the baseline.
    pub base: Score,
    /// Of the new server.
    pub new: Score,
    /// Right and wrong answers; `null`: scores lie between.
    pub cells: Option<Cells>,
    /// Documents that got worse and better, and McNemar's test of them.
    pub flips: McNemar,
    /// Share of documents that differ.
    pub discordance: f64,
    /// New over baseline; `null`: the baseline scores 0.
    pub ratio: Option<f64>,
    /// Its one-sided bounds at alpha.
    pub bounds: Bounds,
    /// P-value of "the ratio is at most the limit".
    pub p_pass: f64,
    /// P-value of "the ratio is at least the limit".
    pub p_fail: f64,
    /// The same, adjusted for all judged tasks (Holm).
    pub p_fail_holm: f64,
    /// Without a flip a PASS takes this many documents; `null`: no number gives one.
    pub fewest: Option<u64>,
    /// The normal approximation, as other tools print it.
    pub wald: Wald,
    /// The cross-check without a formula; `null`: not asked for.
    pub bootstrap: Option<Bootstrap>,
    /// InferenceBench's gate, with its error rates.
    pub bare_ratio: BareRatio,
    /// What became of it.
    pub decision: Decision,
    /// What would decide if the truth is what was seen; `null`: it is decided, or nothing would.
    pub needed: Option<Needed>,
    /// Documents that show an equal server to be equal; `null`: it is decided, or not known.
    pub needed_if_equal: Option<u64>,
    /// The baseline measured twice; `null`: not given.
    pub noise: Option<Noise>,
    /// In a sentence.
    pub words: String,
}

/// Divergence in one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskDivergence {
    /// The task's name.
    pub task: String,
    /// What the positions say.
    pub divergence: Divergence,
    /// The same of the baseline measured twice; `null`: not given.
    pub noise: Option<Divergence>,
    /// Whether the mean divergence keeps the limit; `null`: there is none.
    pub decision: Option<Decision>,
    /// In a sentence.
    pub words: String,
}

/// Greedy answers of one task, token by token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskIdentity {
    /// The task's name.
    pub task: String,
    /// What was found.
    pub identity: Identity,
    /// The same of the baseline measured twice; `null`: not given.
    pub noise: Option<Identity>,
    /// In a sentence.
    pub words: String,
}

/// What two journals say of each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Is it still the same model?
    pub verdict: Decision,
    /// 0 PASS, 1 FAIL, 5 INCONCLUSIVE.
    pub exit_code: u8,
    /// In one sentence.
    pub answer: String,
    /// What was asked.
    pub settings: Settings,
    /// How the items were paired.
    pub pairing: Pairing,
    /// Every metric, those that are judged first within a task.
    pub tasks: Vec<TaskReport>,
    /// Breakage of each task.
    pub breakage: Vec<Breakage>,
    /// Output tokens of each task.
    pub lengths: Vec<Lengths>,
    /// Divergence, where both journals carry positions.
    pub divergence: Vec<TaskDivergence>,
    /// Greedy answers token by token.
    pub identity: Vec<TaskIdentity>,
    /// Why no PASS is given, whatever the scores say.
    pub doubts: Vec<String>,
    /// What would decide.
    pub decides: Vec<String>,
    /// What a reader should know.
    pub warnings: Vec<String>,
}

impl Report {
    /// Those metrics that tasks are judged by.
    pub fn judged(&self) -> impl Iterator<Item = &TaskReport> {
        self.tasks.iter().filter(|task| task.judged)
    }
}

impl Decision {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Inconclusive => "INCONCLUSIVE",
        }
    }

    /// 0 PASS, 1 FAIL, 5 INCONCLUSIVE.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Inconclusive => 5,
        }
    }

    /// For marks of limits: met, not met, undecided.
    pub fn met(self) -> Option<bool> {
        match self {
            Self::Pass => Some(true),
            Self::Fail => Some(false),
            Self::Inconclusive => None,
        }
    }
}
