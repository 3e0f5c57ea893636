//! Functions of task files that are built in, since a task file may name Python code that is not run here.

use super::{TaskError, yaml};
use serde_json::Value;

/// The documents of a split, made over or left out.
pub type DocumentsFn = fn(Vec<Value>) -> Result<Vec<Value>, String>;
/// A value of a document.
pub type FieldFn = fn(&Value) -> Result<Value, String>;
/// Scores by metric, of a document and of what the filters left of each request's answers.
pub type ScoresFn = fn(&Value, &[Value]) -> Result<Vec<(String, Score)>, String>;

/// What a built-in function stands for.
#[derive(Debug, Clone, Copy)]
pub enum Function {
    /// `process_docs`: the documents of a split, made over or left out.
    Documents(DocumentsFn),
    /// `doc_to_text`, `doc_to_target`, `doc_to_choice`: a value of a document.
    Field(FieldFn),
    /// `process_results`: scores by metric. Of each request comes what the filters left: a text, or
    /// `[log-prob, greedy]`, or a rolling log-prob.
    Scores(ScoresFn),
    /// An `aggregation`: one number of all items' scores.
    Aggregation(fn(&[Score]) -> Option<f64>),
    /// A `metric` of a generated text: prediction and reference.
    Metric(fn(&str, &Value) -> Result<f64, String>),
}

/// One item's part in a metric.
#[derive(Debug, Clone, PartialEq)]
pub enum Score {
    /// A score whose mean is taken, or that an aggregation takes as it is.
    Number(f64),
    /// What an aggregation needs of an item: log-prob and units, gold and predicted.
    Parts(Value),
}

/// The functions of one Python file, as they are built in.
#[derive(Debug, Clone, Copy)]
pub struct Port {
    /// How a user selects it.
    pub name: &'static str,
    /// SHA-256 of the Python files that it does the same as; such a file selects it by itself.
    pub same_as: &'static [&'static str],
    /// By the name that a task file uses, such as `utils.process_docs`.
    pub functions: &'static [(&'static str, Function)],
}

/// The ports that can be selected.
#[derive(Debug, Clone)]
pub struct Ports(Vec<&'static Port>);

impl Default for Ports {
    /// Those of this module.
    fn default() -> Self {
        Self(super::ports::ALL.to_vec())
    }
}

impl Ports {
    /// With further ones.
    #[must_use]
    pub fn with(mut self, more: impl IntoIterator<Item = &'static Port>) -> Self {
        self.0.extend(more);
        self
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|port| port.name).collect()
    }

    fn named(&self, name: &str) -> Option<&'static Port> {
        self.0.iter().copied().find(|port| port.name == name)
    }

    fn same_as(&self, hash: &str) -> Option<&'static Port> {
        self.0.iter().copied().find(|port| port.same_as.contains(&hash))
    }
}

/// How the functions of one task are found.
pub(super) struct Lookup<'a> {
    pub ports: &'a Ports,
    /// The port that the user chose.
    pub chosen: Option<&'a str>,
    /// Reads the Python file beside the task file, to know it by its hash.
    pub read: &'a dyn Fn(&str) -> Result<String, String>,
    /// The folder of the task file.
    pub folder: &'a str,
    pub place: &'a str,
}

impl Lookup<'_> {
    /// The function that a value names; `None` where it names none.
    ///
    /// # Errors
    ///
    /// Where the function is not built in, naming it.
    pub fn function(&self, key: &str, value: &Value) -> Result<Option<Function>, TaskError> {
        let Some(name) = yaml::function(value) else { return Ok(None) };
        let module = name.rsplit_once('.').map_or(name, |(module, _)| module);
        let port = match self.chosen {
            Some(chosen) => self.ports.named(chosen).ok_or_else(|| {
                TaskError::new(self.place, format!("there is no built-in port {chosen:?}"))
                    .hint(format!("there are {}", self.ports.names().join(", ")))
            })?,
            None => self.known(module).ok_or_else(|| self.refused(key, name))?,
        };
        let found = port.functions.iter().find(|(known, _)| *known == name);
        found.map(|(_, function)| Some(*function)).ok_or_else(|| {
            TaskError::new(
                self.place,
                format!(
                    "`{key}` names the Python function {name}, which the port {:?} does not have",
                    port.name
                ),
            )
        })
    }

    fn known(&self, module: &str) -> Option<&'static Port> {
        let path = super::config::join(self.folder, &format!("{}.py", module.replace('.', "/")));
        let text = (self.read)(&path).ok()?;
        self.ports.same_as(&crate::Hash::of(text.as_bytes()).0)
    }

    fn refused(&self, key: &str, name: &str) -> TaskError {
        TaskError::new(
            self.place,
            format!("`{key}` names the Python function {name}, and Python is not run here"),
        )
        .hint(format!(
            "choose a built-in port that does the same ({}), or write the value as a template",
            self.ports.names().join(", ")
        ))
    }
}
