//! What a task file says, typed.

use super::config_reader::{Reader, data_files, generation, metrics};
use super::filter::Pipeline;
use super::metric::Metric;
use super::port::{DocumentsFn, FieldFn, Function, Lookup, ScoresFn};
use super::{TaskError, yaml};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What is asked of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// `generate_until`: a text.
    Generate,
    /// `loglikelihood`: the log-probability of the target.
    Score,
    /// `loglikelihood_rolling`: the log-probability of a whole text.
    Rolling,
    /// `multiple_choice`: the log-probability of each choice.
    Choice,
}

impl Output {
    /// As task files write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Generate => "generate_until",
            Self::Score => "loglikelihood",
            Self::Rolling => "loglikelihood_rolling",
            Self::Choice => "multiple_choice",
        }
    }
}

/// Where a value of a document comes from.
#[derive(Debug, Clone)]
pub enum Field {
    /// A column of that name, or else a template.
    Text(String),
    /// The same for all documents.
    Fixed(Value),
    /// A built-in function.
    Function(FieldFn),
}

/// How worked examples are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampler {
    /// By random draws, whose state goes on from document to document.
    Random,
    /// The first ones.
    FirstN,
}

/// How worked examples are chosen and written (`fewshot_config`).
#[derive(Debug, Clone)]
pub struct Shots {
    /// How they are drawn.
    pub sampler: Sampler,
    /// The split that they come from, where it is named.
    pub split: Option<String>,
    /// Documents that the file itself gives.
    pub samples: Option<Vec<Value>>,
    pub(super) process: Option<DocumentsFn>,
    pub(super) text: Field,
    pub(super) target: Field,
    pub(super) choice: Option<Field>,
    pub(super) gen_prefix: Option<String>,
    pub(super) shot_delimiter: String,
    pub(super) target_delimiter: String,
}

/// What a task file says.
#[derive(Debug, Clone)]
pub struct Config {
    /// `task`.
    pub name: String,
    /// `task_alias`, else the name.
    pub alias: String,
    /// `metadata.version`.
    pub version: Value,
    /// `output_type`.
    pub output: Output,
    /// `dataset_path`: `json`, `csv`, `parquet`, or the name of a data set.
    pub dataset_path: Option<String>,
    /// `dataset_name`.
    pub dataset_name: Option<String>,
    /// `dataset_kwargs.data_files`: files by split.
    pub data_files: BTreeMap<String, Vec<String>>,
    /// `training_split`.
    pub training_split: Option<String>,
    /// `validation_split`.
    pub validation_split: Option<String>,
    /// `test_split`.
    pub test_split: Option<String>,
    /// `num_fewshot`.
    pub num_fewshot: Option<u32>,
    /// `fewshot_config`.
    pub shots: Shots,
    /// `repeats`.
    pub repeats: u32,
    /// `generation_kwargs`, defaults filled in.
    pub generation: Map<String, Value>,
    /// What in the file has no effect here, in words.
    pub notes: Vec<String>,
    pub(super) raw: Map<String, Value>,
    pub(super) description: String,
    pub(super) target_delimiter: String,
    pub(super) gen_prefix: Option<String>,
    pub(super) shot_delimiter: String,
    pub(super) text: Field,
    pub(super) target: Field,
    pub(super) choice: Option<Field>,
    pub(super) process: Option<DocumentsFn>,
    pub(super) scorer: Option<ScoresFn>,
    pub(super) metrics: Vec<Metric>,
    pub(super) pipelines: Vec<Pipeline>,
}

/// More answers to one request are a slip.
const MOST_REPEATS: u32 = 10_000;

/// Keys that are read, or that have no effect on prompts and scores.
const KNOWN: [&str; 37] = [
    "task",
    "task_alias",
    "tag",
    "group",
    "task_list",
    "include",
    "dataset_path",
    "dataset_name",
    "dataset_kwargs",
    "training_split",
    "validation_split",
    "test_split",
    "fewshot_split",
    "process_docs",
    "doc_to_text",
    "doc_to_target",
    "doc_to_choice",
    "process_results",
    "description",
    "target_delimiter",
    "fewshot_delimiter",
    "fewshot_config",
    "num_fewshot",
    "metric_list",
    "output_type",
    "generation_kwargs",
    "repeats",
    "filter_list",
    "should_decontaminate",
    "doc_to_decontamination_query",
    "gen_prefix",
    "metadata",
    "custom_dataset",
    "unsafe_code",
    "use_prompt",
    "doc_to_image",
    "doc_to_audio",
];

impl Config {
    pub(super) fn new(map: Map<String, Value>, lookup: &Lookup) -> Result<Self, TaskError> {
        let read = Reader { map: &map, lookup };
        let name = read.text("task")?.ok_or_else(|| read.fault("it has no `task`, so it is no task"))?;
        let mut notes = Vec::new();
        for key in ["use_prompt", "doc_to_image", "doc_to_audio", "custom_dataset", "class"] {
            if map.get(key).is_some_and(|value| !value.is_null()) {
                let error = read.fault(&format!("`{key}` is not supported"));
                return Err(match map.get(key).and_then(yaml::function) {
                    Some(function) => error.hint(format!("it needs the Python function {function}")),
                    None => error,
                });
            }
        }
        if map.get("unsafe_code") == Some(&Value::Bool(true)) {
            return Err(read.fault("it executes code that the model wrote, which is not done here"));
        }
        if let Some(key) = map.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            return Err(read.fault(&format!("the key `{key}` is not known")));
        }
        let output = match read.text("output_type")?.as_deref() {
            None | Some("generate_until") => Output::Generate,
            Some("loglikelihood") => Output::Score,
            Some("loglikelihood_rolling") => Output::Rolling,
            Some("multiple_choice") => Output::Choice,
            Some(other) => return Err(read.fault(&format!("the output_type {other:?} is not known"))),
        };
        let shot_delimiter = read.text("fewshot_delimiter")?.unwrap_or_else(|| "\n\n".to_owned());
        let target_delimiter = read.text("target_delimiter")?.unwrap_or_else(|| " ".to_owned());
        let text = read.field("doc_to_text")?.ok_or_else(|| read.fault("it has no `doc_to_text`"))?;
        let target = read.field("doc_to_target")?.ok_or_else(|| read.fault("it has no `doc_to_target`"))?;
        let choice = read.field("doc_to_choice")?;
        if output == Output::Choice && choice.is_none() {
            return Err(read.fault("a multiple_choice task needs `doc_to_choice`"));
        }
        let process = read.documents("process_docs")?;
        let gen_prefix = read.text("gen_prefix")?;
        let nothing = Map::new();
        let shot_map = match map.get("fewshot_config") {
            None | Some(Value::Null) => &nothing,
            Some(Value::Object(shot_map)) => shot_map,
            Some(_) => return Err(read.fault("`fewshot_config` is no map")),
        };
        let own = Reader { map: shot_map, lookup };
        let samples = match shot_map.get("samples") {
            None | Some(Value::Null) => None,
            Some(Value::Array(list)) => Some(list.clone()),
            Some(other) => {
                return Err(match yaml::function(other) {
                    Some(function) => own.fault(&format!("`samples` needs the Python function {function}")),
                    None => own.fault("`samples` is no list of documents"),
                });
            }
        };
        if shot_map.get("fewshot_indices").is_some_and(|value| !value.is_null()) {
            notes.push("`fewshot_indices` has no effect, as in lm-evaluation-harness 0.4.13".to_owned());
        }
        let shots = Shots {
            sampler: match own.text("sampler")?.as_deref() {
                None | Some("default") => Sampler::Random,
                Some("first_n") => Sampler::FirstN,
                Some(other) => return Err(own.fault(&format!("the sampler {other:?} is not known"))),
            },
            split: own.text("split")?.or(read.text("fewshot_split")?),
            samples,
            process: own.documents("process_docs")?.or(process),
            text: own.field("doc_to_text")?.unwrap_or_else(|| text.clone()),
            target: own.field("doc_to_target")?.unwrap_or_else(|| target.clone()),
            choice: own.field("doc_to_choice")?.or_else(|| choice.clone()),
            gen_prefix: own.text("gen_prefix")?.or_else(|| gen_prefix.clone()),
            shot_delimiter: own.text("fewshot_delimiter")?.unwrap_or_else(|| shot_delimiter.clone()),
            target_delimiter: own.text("target_delimiter")?.unwrap_or_else(|| target_delimiter.clone()),
        };
        let scorer = match read.function("process_results")? {
            None => None,
            Some(Function::Scores(scorer)) => Some(scorer),
            Some(_) => return Err(read.fault("the function of `process_results` gives no scores")),
        };
        let repeats = read.count("repeats")?.unwrap_or(1).max(1);
        if repeats > MOST_REPEATS {
            return Err(read.fault(&format!("`repeats` is {repeats}, and at most {MOST_REPEATS} are taken")));
        }
        let metrics = metrics(&read, output, scorer.is_some())?;
        let pipelines =
            Pipeline::list(map.get("filter_list"), repeats).map_err(|error| read.fault(&error))?;
        if output != Output::Generate && pipelines.iter().any(|pipeline| !pipeline.takes_first()) {
            return Err(read.fault("its filters are for text, but it asks for log-probabilities"));
        }
        Ok(Self {
            alias: read.text("task_alias")?.unwrap_or_else(|| name.clone()),
            name,
            version: map
                .get("metadata")
                .and_then(|m| m.get("version"))
                .cloned()
                .unwrap_or_else(|| json!("Yaml")),
            output,
            dataset_path: read.text("dataset_path")?,
            dataset_name: read.text("dataset_name")?,
            data_files: data_files(&read)?,
            training_split: read.text("training_split")?,
            validation_split: read.text("validation_split")?,
            test_split: read.text("test_split")?,
            num_fewshot: read.count("num_fewshot")?,
            repeats,
            generation: generation(&read, output, &shot_delimiter)?,
            description: read.text("description")?.unwrap_or_default(),
            shots,
            notes,
            target_delimiter,
            gen_prefix,
            shot_delimiter,
            text,
            target,
            choice,
            process,
            scorer,
            metrics,
            pipelines,
            raw: map,
        })
    }

    /// The split that is evaluated: the test split, else the validation split.
    ///
    /// # Errors
    ///
    /// Where the file names neither.
    pub fn evaluated_split(&self) -> Result<&str, TaskError> {
        self.test_split
            .as_deref()
            .or(self.validation_split.as_deref())
            .ok_or_else(|| TaskError::new(&self.name, "it names neither a test_split nor a validation_split"))
    }

    /// The split that worked examples are drawn from; `None` where the file gives them itself.
    #[must_use]
    pub fn shot_split(&self) -> Option<&str> {
        let shots = &self.shots;
        if shots.split.is_none() && shots.samples.is_some() {
            return None;
        }
        let rest = [&shots.split, &self.training_split, &self.validation_split, &self.test_split];
        rest.into_iter().flatten().next().map(String::as_str)
    }

    /// The file's keys with what it includes, as they were read.
    #[must_use]
    pub fn raw(&self) -> &Map<String, Value> {
        &self.raw
    }

    /// Each metric's name, and whether more of it is better.
    pub fn metrics(&self) -> impl Iterator<Item = (&str, Option<bool>)> {
        self.metrics.iter().map(|metric| (metric.name.as_str(), metric.higher_is_better))
    }

    /// The names of the filters, in order.
    pub fn filters(&self) -> impl Iterator<Item = &str> {
        self.pipelines.iter().map(|pipeline| pipeline.name.as_str())
    }
}

/// A text or a list of texts.
pub(super) fn texts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// What stands before the last slash.
pub(super) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A path relative to a folder, without `.` and `..` where they can be resolved.
pub(super) fn join(folder: &str, path: &str) -> String {
    let whole =
        if path.starts_with('/') || folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "." => {}
            ".." if parts.last().is_some_and(|last| !matches!(*last, "" | "..")) => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}
