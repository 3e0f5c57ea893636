//! Tasks of lm-evaluation-harness, read from their own files: prompts, requests and scores are those of its
//! version 0.4.13 (`lm_eval/api/task.py`, `api/samplers.py`, `api/metrics.py`, `filters/`, `evaluator.py`).
//!
//! [`Library::load`] gives a [`Suite`] of [`Config`]s and [`Group`]s; with its documents a config becomes a
//! [`Task`], which says what is asked ([`Task::items`]) and what the answers are worth ([`Task::judge`],
//! [`Task::results`]).

mod aggregate;
mod choice_filter;
mod config;
pub mod documents;
mod error;
pub mod files;
mod filter;
mod group;
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
pub use port::{Function, Port, Ports, Score};
pub use ports::wikitext_detokenize;
pub use prompt::{Layout, hashed_text};
pub use results::{BOOTSTRAP_REPLICATES, MetricResult, TaskResults};
pub use windows::{Tokenize, encode_pair, rolling_windows};

use config::Field;
use prompt::{Turn, turn};
use sampler::Draws;
use template::Templates;

use crate::python::{self, literal_eval};
use crate::{Ask, Generate, Hash, Prompt, Role};
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
        let split = |name: &str, process: Option<fn(Vec<Value>) -> Result<Vec<Value>, String>>| {
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
        task.many_targets = task.target(&config.target, first)?.is_array();
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

    fn ask(
        &self,
        at: usize,
        document: &Value,
        draws: &mut Draws,
        options: &Options,
    ) -> Result<Asked, TaskError> {
        let place = || format!("{}, document {at}", self.config.name);
        let fault = |message: String| TaskError::new(place(), message);
        let turns =
            self.before(document, draws, options).map_err(|error| TaskError { place: place(), ..error })?;
        let target = self.target(&self.config.target, document)?;
        let as_text = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            other => Err(fault(format!("the target should be a text, and is {}", python::repr(other)))),
        };
        let contexts = self.contexts(document, turns, options.layout)?;
        let first = contexts.first().ok_or_else(|| fault("there are no choices".to_owned()))?;
        let plain = |prompt: &Prompt| match prompt {
            Prompt::Text(text) => Ok(text.clone()),
            Prompt::Chat(_) => {
                Err(fault("log-probabilities are asked of plain text, not of a chat".to_owned())
                    .hint("lay the prompts out as plain text for this task"))
            }
        };
        let mut hashed = prompt::hashed_text(first);
        let asks = match self.config.output {
            Output::Generate => vec![Ask::Generate(self.generate(first.clone(), options).map_err(fault)?)],
            Output::Score => vec![Ask::Score { context: plain(first)?, continuation: as_text(&target)? }],
            Output::Rolling => {
                hashed = as_text(&target)?;
                vec![Ask::Rolling { text: hashed.clone() }]
            }
            Output::Choice => {
                let delimiter = &self.config.target_delimiter;
                let mut asks = Vec::new();
                for (context, choice) in self.continuations(document, &contexts, &target)? {
                    let continuation = format!("{delimiter}{choice}");
                    asks.push(Ask::Score { context: plain(context)?, continuation });
                }
                if self.config.metrics.iter().any(|metric| metric.name == "acc_mutual_info") {
                    for choice in self.choices(self.config.choice.as_ref(), document)? {
                        asks.push(Ask::Score {
                            context: String::new(),
                            continuation: format!("{delimiter}{choice}"),
                        });
                    }
                }
                asks
            }
        };
        let repeats = self.config.repeats as usize;
        Ok(Asked {
            doc: at as u64,
            doc_hash: Hash::of(python::json_dumps(document, Some(2)).as_bytes()),
            prompt_hash: Hash::of(hashed.as_bytes()),
            target_hash: Hash::of(python::str(&target).as_bytes()),
            asks: asks.into_iter().flat_map(|ask| std::iter::repeat_n(ask, repeats)).collect(),
            document: document.clone(),
            target,
        })
    }

    /// Instruction and worked examples.
    fn before(&self, document: &Value, draws: &mut Draws, options: &Options) -> Result<Vec<Turn>, TaskError> {
        let config = &self.config;
        let shots = &config.shots;
        let description = self.optional(Some(&config.description), document)?.unwrap_or_default();
        let instruction = options.system_instruction.as_deref().unwrap_or_default();
        let system = prompt::delimit(instruction, &description, &config.shot_delimiter);
        let mut turns = Vec::new();
        if !system.is_empty() {
            turns.push(turn(Role::System, &system, ""));
        }
        let own = (shots.split == config.test_split).then_some(document);
        let count = self.shots(options) as usize;
        let drawn = draws.take(&self.pool, count, own).map_err(|error| {
            let error = TaskError::new(&config.name, error);
            match config.shot_split().filter(|_| self.pool.is_empty()) {
                Some(split) => error.hint(format!("they come from the split {split:?}; give its file")),
                None => error,
            }
        })?;
        for shot in drawn {
            let text = self.value("doc_to_text", &shots.text, shot)?;
            let target = self.target(&shots.target, shot)?;
            let choices = match &shots.choice {
                Some(choice) => self.choices(Some(choice), shot)?,
                None => Vec::new(),
            };
            let question = self.question_text(&text, &choices)?;
            let answer = match (&target, place(&target)) {
                (_, Some(at)) if !choices.is_empty() && !self.many_inputs => choices.get(at).cloned(),
                (Value::Array(list), _) => list.first().map(python::str),
                (Value::String(text), _) => Some(text.clone()),
                _ => None,
            };
            let answer = answer.ok_or_else(|| {
                TaskError::new(
                    &config.name,
                    format!("a worked example has no answer: {}", python::repr(&target)),
                )
            })?;
            let prefix = self.optional(shots.gen_prefix.as_ref(), shot)?;
            let (target_delimiter, shot_delimiter) = (&shots.target_delimiter, &shots.shot_delimiter);
            turns.extend(prompt::question(
                &question,
                Some(&answer),
                prefix.as_deref(),
                target_delimiter,
                shot_delimiter,
            ));
        }
        Ok(turns)
    }

    fn question_text(&self, text: &Value, choices: &[String]) -> Result<String, TaskError> {
        let found = match (text, place(text)) {
            (Value::String(text), _) => Some(text.clone()),
            (_, Some(at)) if self.many_inputs => choices.get(at).cloned(),
            _ => None,
        };
        found.ok_or_else(|| {
            TaskError::new(&self.config.name, format!("the question is no text: {}", python::repr(text)))
        })
    }

    /// The prompt, or, where the choices are contexts, one for each.
    fn contexts(&self, document: &Value, turns: Vec<Turn>, layout: Layout) -> Result<Vec<Prompt>, TaskError> {
        let config = &self.config;
        let prefix = self.optional(config.gen_prefix.as_ref(), document)?;
        let questions = match self.many_inputs {
            true => self.choices(config.choice.as_ref(), document)?,
            false => vec![self.question_text(&self.value("doc_to_text", &config.text, document)?, &[])?],
        };
        let delimiter = if self.many_inputs { "" } else { &config.target_delimiter };
        let prompts = questions.iter().map(|question| {
            let mut turns = turns.clone();
            turns.extend(prompt::question(question, None, prefix.as_deref(), delimiter, ""));
            prompt::lay_out(&turns, layout)
        });
        Ok(prompts.collect())
    }

    /// Context and what is scored after it, choice by choice.
    fn continuations<'a>(
        &self,
        document: &Value,
        contexts: &'a [Prompt],
        target: &Value,
    ) -> Result<Vec<(&'a Prompt, String)>, TaskError> {
        if self.many_inputs {
            let target = python::str(target);
            return Ok(contexts.iter().map(|context| (context, target.clone())).collect());
        }
        let choices = self.choices(self.config.choice.as_ref(), document)?;
        Ok(choices.into_iter().flat_map(|choice| Some((contexts.first()?, choice))).collect())
    }

    fn generate(&self, prompt: Prompt, options: &Options) -> Result<Generate, String> {
        let mut settings = self.config.generation.clone();
        settings.extend(options.generation.clone());
        settings.shift_remove("do_sample");
        let stop = settings.shift_remove("until");
        let temperature =
            settings.shift_remove("temperature").and_then(|value| value.as_f64()).unwrap_or(0.0);
        let room = settings.shift_remove("max_gen_toks");
        let room = settings.shift_remove("max_tokens").or(room);
        let max_tokens = match room {
            None => None,
            Some(value) => {
                Some(value.as_u64().and_then(|tokens| u32::try_from(tokens).ok()).ok_or_else(|| {
                    format!("the room for an answer is {value}, which is no number of tokens")
                })?)
            }
        };
        Ok(Generate { prompt, max_tokens, stop: config::texts(stop.as_ref()), temperature, extra: settings })
    }

    /// Compiles all that may be a template.
    fn compile(&mut self) -> Result<(), TaskError> {
        let config = &self.config;
        let shots = &config.shots;
        let fields = [
            ("doc_to_text", Some(&config.text)),
            ("doc_to_target", Some(&config.target)),
            ("doc_to_choice", config.choice.as_ref()),
            ("fewshot_config.doc_to_text", Some(&shots.text)),
            ("fewshot_config.doc_to_target", Some(&shots.target)),
            ("fewshot_config.doc_to_choice", shots.choice.as_ref()),
        ];
        let mut sources: Vec<(&str, &str)> = vec![("description", &config.description)];
        for (key, field) in fields {
            if let Some(Field::Text(text)) = field {
                sources.push((key, text));
            }
        }
        for prefix in [&config.gen_prefix, &shots.gen_prefix].into_iter().flatten() {
            sources.push(("gen_prefix", prefix));
        }
        for (key, source) in sources {
            let added = self.templates.add(source);
            added.map_err(|error| TaskError::new(&config.name, format!("the template `{key}`: {error}")))?;
        }
        Ok(())
    }

    /// A field of a document; a template gives a text.
    fn rendered(&self, key: &str, field: &Field, document: &Value) -> Result<Value, TaskError> {
        let value = match field {
            Field::Fixed(value) => Ok(value.clone()),
            Field::Function(function) => function(document),
            Field::Text(column) if self.columns.contains(column) => {
                document.get(column).cloned().ok_or_else(|| format!("there is no column {column:?}"))
            }
            Field::Text(template) => self.templates.render(template, document).map(Value::String),
        };
        value.map_err(|error| TaskError::new(&self.config.name, format!("`{key}`: {error}")))
    }

    fn is_template(&self, field: &Field) -> bool {
        matches!(field, Field::Text(text) if !self.columns.contains(text))
    }

    /// `doc_to_text`: digits out of a template are the place of a choice, where there are choices.
    fn value(&self, key: &str, field: &Field, document: &Value) -> Result<Value, TaskError> {
        let value = self.rendered(key, field, document)?;
        let digits =
            value.as_str().filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()));
        match digits.filter(|_| self.config.choice.is_some() && self.is_template(field)) {
            Some(digits) => literal_eval(digits).map_err(|error| {
                TaskError::new(&self.config.name, format!("`{key}` is {digits:?}: {error}"))
            }),
            None => Ok(value),
        }
    }

    /// `doc_to_target`: as [`Task::value`], and a list that a template writes is one.
    fn target(&self, field: &Field, document: &Value) -> Result<Value, TaskError> {
        let value = self.value("doc_to_target", field, document)?;
        let list =
            value.as_str().filter(|text| text.len() >= 2 && text.starts_with('[') && text.ends_with(']'));
        let list = list.filter(|_| self.is_template(field)).and_then(|text| literal_eval(text).ok());
        Ok(list.unwrap_or(value))
    }

    /// `doc_to_choice`: a list of texts.
    fn choices(&self, field: Option<&Field>, document: &Value) -> Result<Vec<String>, TaskError> {
        let fault = |error: String| TaskError::new(&self.config.name, format!("`doc_to_choice`: {error}"));
        let field = field.ok_or_else(|| fault("it is missing".to_owned()))?;
        let mut value = self.rendered("doc_to_choice", field, document)?;
        if let (Some(text), true) = (value.as_str(), self.is_template(field)) {
            value = literal_eval(text).map_err(|error| fault(error.to_string()))?;
        }
        match value {
            Value::Array(list) => Ok(list.iter().map(python::str).collect()),
            other => Err(fault(format!("it should be a list, and is {}", python::repr(&other)))),
        }
    }

    /// A column or a template that may be missing (`description`, `gen_prefix`).
    fn optional(&self, source: Option<&String>, document: &Value) -> Result<Option<String>, TaskError> {
        let Some(source) = source.filter(|source| !source.is_empty()) else { return Ok(None) };
        if let Some(value) = document.get(source) {
            return Ok(Some(python::str(value)).filter(|_| !value.is_null()));
        }
        let text = self.templates.render(source, document);
        text.map(Some).map_err(|error| TaskError::new(&self.config.name, error))
    }
}

/// A whole number that may be the place of a choice; truth values are numbers in Python.
fn place(value: &Value) -> Option<usize> {
    match value {
        Value::Bool(truth) => Some(usize::from(*truth)),
        other => other.as_u64().and_then(|at| usize::try_from(at).ok()),
    }
}
