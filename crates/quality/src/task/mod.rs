//! Tasks of lm-evaluation-harness, read from their own files: prompts, requests and scores are those of its
//! version 0.4.13 (`lm_eval/api/task.py`, `api/samplers.py`, `api/metrics.py`, `filters/`, `evaluator.py`).
//!
//! [`Library::load`] gives a [`Suite`] of [`Config`]s and [`Group`]s; with its documents a config becomes a
//! [`Task`], which says what is asked ([`Task::items`]) and what the answers are worth ([`Task::judge`],
//! [`Task::results`]).

mod aggregate;
mod asking;
mod choice_filter;
mod config;
mod config_reader;
pub mod documents;
mod error;
mod fields;
pub mod files;
mod filter;
mod group;
mod import;
mod judge;
mod library;
mod metric;
mod port;
mod ports;
mod prompt;
mod results;
mod sampler;
mod template;
mod windows;
mod yaml;

pub use config::{Config, Output, Sampler, Shots};
pub use error::TaskError;
pub use group::{Group, GroupResults, group_mean, pooled_stderr, unweighted_stderr};
pub use library::{Index, Library, Suite};
pub use metric::{ExactMatch, argmax, choice_scores, softmax};
pub use port::{DocumentsFn, FieldFn, Function, Port, Ports, Score, ScoresFn};
pub use ports::wikitext_detokenize;
pub use prompt::{Layout, hashed_text};
pub use results::{BOOTSTRAP_REPLICATES, MetricResult, TaskResults};
pub use windows::{Tokenize, encode_pair, rolling_windows};

use sampler::Draws;
use template::Templates;

use crate::{Ask, Hash};
use serde_json::Value;
use std::collections::BTreeMap;

/// The seed of the draws of worked examples, unless another is given.
pub const SHOT_SEED: u64 = 1234;
/// Tokens that an answer may have where a task does not say, in the harness's API models.
pub const DEFAULT_MAX_TOKENS: u32 = 256;

/// How a task is asked.
#[derive(Debug, Clone)]
pub struct Options {
    /// Worked examples, instead of what the file says. A file that says 0 keeps it.
    pub shots: Option<u32>,
    /// Seed of their draws.
    pub shot_seed: u64,
    /// Only the first documents.
    pub limit: Option<usize>,
    /// How prompts are laid out. Log-probabilities can only be asked of plain text.
    pub layout: Layout,
    /// Stands before the task's description.
    pub system_instruction: Option<String>,
    /// Put over the task's `generation_kwargs`.
    pub generation: serde_json::Map<String, Value>,
}

impl Default for Options {
    /// As the file says, all documents, plain text.
    fn default() -> Self {
        Self {
            shots: None,
            shot_seed: SHOT_SEED,
            limit: None,
            layout: Layout::Plain,
            system_instruction: None,
            generation: serde_json::Map::new(),
        }
    }
}

/// A document with what is asked about it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Its place in the split.
    pub doc: u64,
    /// The document.
    pub document: Value,
    /// The wanted answer: a text, the place of a choice, or a list.
    pub target: Value,
    /// Of the document.
    pub doc_hash: Hash,
    /// Of what the model reads first.
    pub prompt_hash: Hash,
    /// Of the target.
    pub target_hash: Hash,
    /// In order: request by request, and each as often as the task repeats it.
    pub asks: Vec<Ask>,
}

/// A task with its documents.
#[derive(Debug)]
pub struct Task {
    config: Config,
    templates: Templates,
    documents: Vec<Value>,
    pool: Vec<Value>,
    columns: Vec<String>,
    /// Whether targets are lists of which any will do.
    many_targets: bool,
    /// Whether the question is the place of a choice, and the choices are contexts.
    many_inputs: bool,
}

impl Task {
    /// With its documents by split: those of [`Config::evaluated_split`] and [`Config::shot_split`] are needed.
    ///
    /// # Errors
    ///
    /// Where a split is missing or empty, or a template cannot be read, or does not fit the first document.
    pub fn new(config: Config, splits: &BTreeMap<String, Vec<Value>>) -> Result<Self, TaskError> {
        let fault = |message: String| TaskError::new(&config.name, message);
        let split = |name: &str, process: Option<DocumentsFn>| {
            let documents = splits.get(name).cloned().ok_or_else(|| {
                let have: Vec<&str> = splits.keys().map(String::as_str).collect();
                fault(format!("the split {name:?} is missing; there are [{}]", have.join(", ")))
            })?;
            match process {
                Some(process) => process(documents).map_err(fault),
                None => Ok(documents),
            }
        };
        let documents = split(config.evaluated_split()?, config.process)?;
        let pool = match (config.shot_split(), &config.shots.samples) {
            // Without worked examples their split need not be there.
            (Some(name), _) if splits.contains_key(name) => {
                let own = config.shots.split.is_some();
                split(name, if own { config.shots.process } else { config.process })?
            }
            (None, Some(samples)) => samples.clone(),
            _ => Vec::new(),
        };
        let first =
            documents.first().ok_or_else(|| fault("there are no documents to evaluate".to_owned()))?;
        let columns: Vec<String> =
            first.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
        let mut task = Self {
            templates: Templates::new(),
            columns,
            many_targets: false,
            many_inputs: false,
            documents: Vec::new(),
            pool,
            config,
        };
        task.compile()?;
        let config = &task.config;
        task.many_inputs =
            config.choice.is_some() && place(&task.value("doc_to_text", &config.text, first)?).is_some();
        let target = task.target(&config.target, first)?;
        task.many_targets = target.as_array().is_some_and(|list| !list.is_empty());
        task.documents = documents;
        Ok(task)
    }

    /// What the file says.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Documents of the evaluated split.
    #[must_use]
    pub fn documents(&self) -> &[Value] {
        &self.documents
    }

    /// Worked examples before each document.
    #[must_use]
    pub fn shots(&self, options: &Options) -> u32 {
        match (self.config.num_fewshot, options.shots) {
            (Some(0), _) => 0,
            (_, Some(shots)) => shots,
            (own, None) => own.unwrap_or(0),
        }
    }

    /// What is asked, document by document. Draws go on from one to the next, so a limit does not change what
    /// comes before it.
    ///
    /// # Errors
    ///
    /// Where a template does not fit a document, or there are too few worked examples.
    pub fn items(&self, options: &Options) -> Result<Vec<Asked>, TaskError> {
        let mut draws = Draws::new(self.config.shots.sampler, options.shot_seed);
        let limit = options.limit.unwrap_or(usize::MAX);
        let documents = self.documents.iter().take(limit).enumerate();
        documents.map(|(at, document)| self.ask(at, document, &mut draws, options)).collect()
    }
}

/// A whole number that may be the place of a choice; truth values are numbers in Python.
fn place(value: &Value) -> Option<usize> {
    match value {
        Value::Bool(truth) => Some(usize::from(*truth)),
        other => other.as_u64().and_then(|at| usize::try_from(at).ok()),
    }
}
