//! Columns and templates of a task, read from a document.

use super::config::Field;
use super::{Task, TaskError};
use crate::python::{self, literal_eval};
use serde_json::Value;

impl Task {
    /// Compiles all that may be a template.
    pub(super) fn compile(&mut self) -> Result<(), TaskError> {
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
    pub(super) fn rendered(&self, key: &str, field: &Field, document: &Value) -> Result<Value, TaskError> {
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

    pub(super) fn is_template(&self, field: &Field) -> bool {
        matches!(field, Field::Text(text) if !self.columns.contains(text))
    }

    /// `doc_to_text`: digits out of a template are the place of a choice, where there are choices.
    pub(super) fn value(&self, key: &str, field: &Field, document: &Value) -> Result<Value, TaskError> {
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
    pub(super) fn target(&self, field: &Field, document: &Value) -> Result<Value, TaskError> {
        let value = self.value("doc_to_target", field, document)?;
        let list =
            value.as_str().filter(|text| text.len() >= 2 && text.starts_with('[') && text.ends_with(']'));
        let list = list.filter(|_| self.is_template(field)).and_then(|text| literal_eval(text).ok());
        Ok(list.unwrap_or(value))
    }

    /// `doc_to_choice`: a list of texts.
    pub(super) fn choices(&self, field: Option<&Field>, document: &Value) -> Result<Vec<String>, TaskError> {
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
    pub(super) fn optional(
        &self,
        source: Option<&String>,
        document: &Value,
    ) -> Result<Option<String>, TaskError> {
        let Some(source) = source.filter(|source| !source.is_empty()) else { return Ok(None) };
        if let Some(value) = document.get(source) {
            return Ok(Some(python::str(value)).filter(|_| !value.is_null()));
        }
        let text = self.templates.render(source, document);
        text.map(Some).map_err(|error| TaskError::new(&self.config.name, error))
    }
}
