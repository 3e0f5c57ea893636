//! Rows of a data file, and errors that name them.

use serde_json::{Map, Value};

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// A row does not say what it must.
    #[error("{place}: {what}")]
    Row {
        /// `line 3` of JSON lines, `row 3` of one JSON list; both count from 1.
        place: String,
        /// What was expected, and what came.
        what: String,
    },
    /// The file as a whole cannot be used.
    #[error("{0}")]
    File(String),
}

/// An object of a data file.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    place: String,
    fields: Map<String, Value>,
}

/// The rows of JSON lines, or of one JSON list of objects. Blank lines are left out.
pub fn rows(text: &str) -> Result<Vec<Row>, FileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rows = if text.trim_start().starts_with('[') {
        let list: Vec<Value> = serde_json::from_str(text).map_err(|error| {
            let place = format!("line {}", error.line());
            FileError::Row { place, what: format!("expected one JSON list of objects: {error}") }
        })?;
        list.into_iter()
            .enumerate()
            .map(|(at, value)| Row::new(format!("row {}", at + 1), value))
            .collect::<Result<Vec<_>, _>>()?
    } else {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(at, line)| {
                let place = format!("line {}", at + 1);
                let value = serde_json::from_str(line).map_err(|error| FileError::Row {
                    place: place.clone(),
                    what: format!("expected one JSON object in each line: {error}"),
                })?;
                Row::new(place, value)
            })
            .collect::<Result<Vec<_>, _>>()?
    };
    if rows.is_empty() {
        return Err(FileError::File("the file has no rows; expected JSON lines or one JSON list".to_owned()));
    }
    Ok(rows)
}

impl Row {
    fn new(place: String, value: Value) -> Result<Self, FileError> {
        match value {
            Value::Object(fields) => Ok(Self { place, fields }),
            other => {
                Err(FileError::Row { place, what: format!("expected a JSON object, got {}", kind(&other)) })
            }
        }
    }

    /// The whole row.
    #[must_use]
    pub fn value(&self) -> Value {
        Value::Object(self.fields.clone())
    }

    /// A field as it is, if it is there and not null.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// An error of this row.
    pub fn error(&self, what: impl Into<String>) -> FileError {
        FileError::Row { place: self.place.clone(), what: what.into() }
    }

    fn expected(&self, name: &str, wanted: &str) -> FileError {
        let got = self.fields.get(name).map_or("nothing", kind);
        self.error(format!("expected `{name}` to be {wanted}, got {got}"))
    }

    /// A field that is a text.
    pub fn text(&self, name: &str) -> Result<&str, FileError> {
        self.get(name).and_then(Value::as_str).ok_or_else(|| self.expected(name, "a text"))
    }

    /// A field that is a list of texts.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, FileError> {
        self.get(name)
            .and_then(Value::as_array)
            .and_then(|list| list.iter().map(|one| one.as_str().map(str::to_owned)).collect())
            .ok_or_else(|| self.expected(name, "a list of texts"))
    }

    /// A field that is a whole number of at least 0.
    pub fn whole(&self, name: &str) -> Result<u64, FileError> {
        self.get(name).and_then(Value::as_u64).ok_or_else(|| self.expected(name, "a whole number"))
    }
}

pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
