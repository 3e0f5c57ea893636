//! What a log folder is worth as evidence, in layers: what was computed, what is valid, what a submission
//! would need, what the reference checker would say, what may be published.
//!
//! A check that lacks what it needs is incomplete, never passed.

mod checker;
mod declared;
mod instrument;
mod integrity;
mod publication;
mod submission;
mod verdict;

use serde::Serialize;

pub use declared::{Availability, Cache, CacheUse, Declared, Division};
pub use instrument::{Finding, Instrument};

use crate::read::Logs;

/// How a check or a layer went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All is known and as it must be.
    Passed,
    /// Something is not known.
    Incomplete,
    /// Something is not as it must be.
    Failed,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name.
    pub id: &'static str,
    /// How it went.
    pub status: Status,
    /// Why, with the numbers.
    pub words: String,
    /// Where its rule is from.
    pub source: String,
    /// A hole of the reference checker that the run slips through here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hole: Option<String>,
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// `L1` to `L5`.
    pub id: &'static str,
    /// What it is about.
    #[serde(skip)]
    pub title: &'static str,
    /// The worst of its checks.
    pub status: Status,
    /// Its checks.
    pub checks: Vec<Check>,
}

/// All layers: the answer of a check as a machine reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layers {
    /// From L1 on.
    pub layers: Vec<Layer>,
}

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    /// The logs of the timed run.
    pub performance: Logs,
    /// The logs of the accuracy run.
    pub accuracy: Option<Logs>,
    /// What the logs cannot say.
    pub declared: Declared,
    /// What is known of the program that sent.
    pub instrument: Instrument,
}

impl Evidence {
    /// The five layers.
    ///
    /// # Errors
    /// A declared round or model that nobody knows.
    pub fn layers(&self) -> Result<Layers, String> {
        let rules = submission::Rules::of(&self.declared, &self.performance.detail)?;
        let submission = submission::checks(self, &rules);
        let checker = checker::checks(self, &rules, &submission);
        let mut integrity = integrity::checks(&self.performance);
        integrity.extend(instrument::checks(&self.instrument));
        Ok(Layers {
            layers: vec![
                Layer::new("L1", "run integrity", integrity),
                Layer::new("L2", "LoadGen's verdict", verdict::checks(&self.performance.detail)),
                Layer::new("L3", "rules of a submission", submission),
                Layer::new("L4", "what the reference checker would say", checker),
                Layer::new("L5", "publication", publication::checks(self)),
            ],
        })
    }
}

impl Layer {
    fn new(id: &'static str, title: &'static str, checks: Vec<Check>) -> Self {
        let status = checks.iter().map(|check| check.status).max().unwrap_or(Status::Incomplete);
        Self { id, title, status, checks }
    }
}

/// What a check came upon; the worst of it decides.
#[derive(Debug, Default)]
struct Findings {
    found: Vec<(Status, String)>,
}

impl Findings {
    fn fine(&mut self, words: impl Into<String>) {
        self.found.push((Status::Passed, words.into()));
    }
    fn unknown(&mut self, words: impl Into<String>) {
        self.found.push((Status::Incomplete, words.into()));
    }
    fn wrong(&mut self, words: impl Into<String>) {
        self.found.push((Status::Failed, words.into()));
    }
    /// `holds`: `None` if it is not known.
    fn must(&mut self, holds: Option<bool>, words: impl Into<String>) {
        let status = match holds {
            Some(true) => Status::Passed,
            Some(false) => Status::Failed,
            None => Status::Incomplete,
        };
        self.found.push((status, words.into()));
    }

    /// The worst findings are told first; of a check that passed, all.
    fn check(mut self, id: &'static str, source: impl Into<String>) -> Check {
        self.found.sort_by_key(|(status, _)| std::cmp::Reverse(*status));
        let status = self.found.first().map_or(Status::Incomplete, |(status, _)| *status);
        let told = self.found.iter().filter(|(of, _)| status == Status::Passed || *of != Status::Passed);
        let words: Vec<&str> = told.map(|(_, words)| words.as_str()).collect();
        Check { id, status, words: words.join("; "), source: source.into(), hole: None }
    }
}

/// A value of a log in words.
fn said<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "not in the log".to_owned(), |value| value.to_string())
}
