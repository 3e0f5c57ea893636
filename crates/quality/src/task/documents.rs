//! Documents from the text of a data file, as the `datasets` library gives them: every row has every column.

use super::TaskError;
use serde_json::{Map, Number, Value};

/// How a data file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A list of objects, or one object on each line.
    Json,
    /// Comma-separated with a line of names.
    Csv,
}

impl Format {
    /// By the name of a file (compression aside), else by a task's `dataset_path`.
    #[must_use]
    pub fn of(path: &str, dataset_path: Option<&str>) -> Option<Self> {
        let by_name = |name: &str| match name.rsplit('.').next() {
            Some("json" | "jsonl" | "ndjson") => Some(Self::Json),
            Some("csv") => Some(Self::Csv),
            _ => None,
        };
        by_name(path).or_else(|| dataset_path.and_then(by_name))
    }
}

/// The documents of a file.
///
/// # Errors
///
/// With the line of what cannot be read.
pub fn read(place: &str, text: &str, format: Format) -> Result<Vec<Value>, TaskError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rows = match format {
        Format::Json => json(place, text)?,
        Format::Csv => csv(place, text)?,
    };
    if let Some(at) = rows.iter().position(|row| !row.is_object()) {
        return Err(TaskError::new(place, format!("row {} is no object with columns", at + 1)));
    }
    Ok(same_columns(rows))
}

fn json(place: &str, text: &str) -> Result<Vec<Value>, TaskError> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text)
            .map_err(|error| TaskError::new(place, format!("no JSON: {error}")));
    }
    let mut rows = Vec::new();
    // By the newline alone: other separators may stand within a text.
    for (i, line) in text.split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row = serde_json::from_str(line);
        rows.push(row.map_err(|error| TaskError::new(place, format!("line {}: no JSON: {error}", i + 1)))?);
    }
    Ok(rows)
}

fn csv(place: &str, text: &str) -> Result<Vec<Value>, TaskError> {
    let fault = |error: csv::Error| TaskError::new(place, format!("no CSV: {error}"));
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names: Vec<String> = reader.headers().map_err(fault)?.iter().map(str::to_owned).collect();
    let records = reader.records().collect::<Result<Vec<_>, _>>().map_err(fault)?;
    // A column is of numbers only if every value that it has is one.
    let column =
        |at: usize| records.iter().filter_map(move |record| record.get(at)).filter(|text| !text.is_empty());
    let kinds: Vec<fn(&str) -> Option<Value>> = (0..names.len())
        .map(|at| {
            let some = column(at).next().is_some();
            let kinds: [fn(&str) -> Option<Value>; 3] = [whole, fraction, truth];
            kinds
                .into_iter()
                .find(|kind| some && column(at).all(|text| kind(text).is_some()))
                .unwrap_or(as_text)
        })
        .collect();
    let row = |record: &csv::StringRecord| {
        let cells = names.iter().zip(&kinds).zip(record.iter());
        cells
            .map(|((name, kind), text)| (name.clone(), kind(text).unwrap_or(Value::Null)))
            .collect::<Map<_, _>>()
            .into()
    };
    Ok(records.iter().map(row).collect())
}

fn whole(text: &str) -> Option<Value> {
    text.parse::<i64>().ok().map(Value::from)
}

fn fraction(text: &str) -> Option<Value> {
    text.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number)
}

fn truth(text: &str) -> Option<Value> {
    match text {
        "True" | "TRUE" | "true" => Some(Value::Bool(true)),
        "False" | "FALSE" | "false" => Some(Value::Bool(false)),
        _ => None,
    }
}

fn as_text(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| Value::from(text))
}

/// What the values of one column have in common.
enum Shape {
    Unknown,
    Float,
    List(Box<Shape>),
    Columns(Vec<(String, Shape)>),
    Other,
}

/// Every row with every column, in the order in which they first appear; whole numbers become floats where
/// their column has floats. Columns within columns likewise.
fn same_columns(rows: Vec<Value>) -> Vec<Value> {
    let shape = rows.iter().fold(Shape::Unknown, |shape, row| shape.with(row));
    rows.into_iter().map(|row| shape.fit(row)).collect()
}

impl Shape {
    fn with(self, value: &Value) -> Self {
        match (self, value) {
            (shape, Value::Null) => shape,
            (Self::Unknown | Self::Other, Value::Number(number)) if number.is_f64() => Self::Float,
            (Self::Unknown, Value::Array(list)) => {
                Self::List(Box::new(list.iter().fold(Self::Unknown, Self::with)))
            }
            (Self::List(inner), Value::Array(list)) => {
                Self::List(Box::new(list.iter().fold(*inner, Self::with)))
            }
            (Self::Unknown, Value::Object(map)) => Self::Columns(Vec::new()).columns(map),
            (Self::Columns(columns), Value::Object(map)) => Self::Columns(columns).columns(map),
            (Self::Unknown, _) => Self::Other,
            (shape, _) => shape,
        }
    }

    fn columns(self, map: &Map<String, Value>) -> Self {
        let Self::Columns(mut columns) = self else { return self };
        for (name, value) in map {
            let at = columns.iter().position(|(known, _)| known == name).unwrap_or(columns.len());
            let before = if at < columns.len() { columns.remove(at).1 } else { Self::Unknown };
            columns.insert(at, (name.clone(), before.with(value)));
        }
        Self::Columns(columns)
    }

    fn fit(&self, value: Value) -> Value {
        match (self, value) {
            (Self::Float, Value::Number(number)) => {
                number.as_f64().and_then(Number::from_f64).map_or(Value::Null, Value::Number)
            }
            (Self::List(inner), Value::Array(list)) => {
                list.into_iter().map(|value| inner.fit(value)).collect()
            }
            (Self::Columns(columns), Value::Object(mut map)) => columns
                .iter()
                .map(|(name, shape)| (name.clone(), shape.fit(map.remove(name).unwrap_or(Value::Null))))
                .collect::<Map<_, _>>()
                .into(),
            (_, value) => value,
        }
    }
}
