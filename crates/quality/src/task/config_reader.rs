//! Values out of a map of a task file, with the key in the message where they do not fit.

use super::config::{Field, Output, texts};
use super::metric::{Aggregation, Metric, MetricKind};
use super::port::{DocumentsFn, Function, Lookup};
use super::{TaskError, yaml};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// One map of a task file.
pub(super) struct Reader<'a> {
    pub map: &'a Map<String, Value>,
    pub lookup: &'a Lookup<'a>,
}

impl Reader<'_> {
    pub fn fault(&self, message: &str) -> TaskError {
        TaskError::new(self.lookup.place, message)
    }

    pub fn text(&self, key: &str) -> Result<Option<String>, TaskError> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(value @ Value::Object(_)) => match yaml::function(value) {
                Some(function) => Err(self.fault(&format!("`{key}` needs the Python function {function}"))),
                None => Err(self.fault(&format!("`{key}` is no text"))),
            },
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(self.fault(&format!("`{key}` is no text"))),
        }
    }

    pub fn count(&self, key: &str) -> Result<Option<u32>, TaskError> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_u64()
                .and_then(|count| u32::try_from(count).ok())
                .map(Some)
                .ok_or_else(|| self.fault(&format!("`{key}` is {value}, and should be a whole number"))),
        }
    }

    pub fn function(&self, key: &str) -> Result<Option<Function>, TaskError> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => self
                .lookup
                .function(key, value)?
                .map(Some)
                .ok_or_else(|| self.fault(&format!("`{key}` is no function"))),
        }
    }

    pub fn documents(&self, key: &str) -> Result<Option<DocumentsFn>, TaskError> {
        match self.function(key)? {
            None => Ok(None),
            Some(Function::Documents(process)) => Ok(Some(process)),
            Some(_) => Err(self.fault(&format!("the function of `{key}` makes no documents"))),
        }
    }

    pub fn field(&self, key: &str) -> Result<Option<Field>, TaskError> {
        let Some(value) = self.map.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
        match (self.lookup.function(key, value)?, value) {
            (Some(Function::Field(function)), _) => Ok(Some(Field::Function(function))),
            (Some(_), _) => Err(self.fault(&format!("the function of `{key}` gives no value of a document"))),
            (None, Value::String(text)) => Ok(Some(Field::Text(text.clone()))),
            (None, Value::Object(map)) => Ok(Some(Field::Fixed(map.values().cloned().collect()))),
            (None, value) => Ok(Some(Field::Fixed(value.clone()))),
        }
    }
}

pub(super) fn metrics(read: &Reader, output: Output, scored: bool) -> Result<Vec<Metric>, TaskError> {
    let defaults: &[&str] = match output {
        Output::Generate => &["exact_match"],
        Output::Score => &["perplexity", "acc"],
        Output::Rolling => &["word_perplexity", "byte_perplexity", "bits_per_byte"],
        Output::Choice => &["acc", "acc_norm"],
    };
    let list = match read.map.get("metric_list") {
        None | Some(Value::Null) => defaults.iter().map(|name| json!({"metric": name})).collect(),
        Some(Value::Array(list)) => list.clone(),
        Some(_) => return Err(read.fault("`metric_list` is no list")),
    };
    let mut metrics = Vec::new();
    for entry in &list {
        let map = entry.as_object().ok_or_else(|| read.fault("an entry of `metric_list` is no map"))?;
        let own = Reader { map, lookup: read.lookup };
        let (name, function) = match map.get("metric").map(|value| (yaml::function(value), value)) {
            Some((Some(path), _)) => {
                let name = path.rsplit('.').next().unwrap_or(path).to_owned();
                (name, own.function("metric")?)
            }
            Some((None, Value::String(name))) => (name.clone(), None),
            _ => return Err(read.fault("an entry of `metric_list` names no `metric`")),
        };
        if map.get("hf_evaluate") == Some(&Value::Bool(true)) {
            return Err(own.fault(&format!("the metric {name:?} is of a Python package (hf_evaluate)")));
        }
        let kind = match function {
            Some(Function::Metric(metric)) => MetricKind::Function(metric),
            Some(_) => return Err(own.fault(&format!("the function of the metric {name:?} scores no text"))),
            None if scored => MetricKind::Given,
            None => MetricKind::named(&name, output, map).map_err(|error| own.fault(&error))?,
        };
        let aggregation = match map.get("aggregation") {
            Some(Value::String(aggregation)) => Aggregation::named(aggregation).map_err(|e| own.fault(&e))?,
            Some(value) if !value.is_null() => match own.lookup.function("aggregation", value)? {
                Some(Function::Aggregation(function)) => Aggregation::Function(function),
                _ => return Err(own.fault(&format!("the aggregation of {name:?} is none"))),
            },
            _ => Aggregation::of_metric(&name),
        };
        let higher_is_better =
            map.get("higher_is_better").and_then(Value::as_bool).or_else(|| Metric::direction(&name));
        metrics.push(Metric { name, kind, aggregation, higher_is_better });
    }
    Ok(metrics)
}

pub(super) fn generation(
    read: &Reader,
    output: Output,
    delimiter: &str,
) -> Result<Map<String, Value>, TaskError> {
    let stop = json!([delimiter]);
    match read.map.get("generation_kwargs") {
        Some(Value::Object(map)) => {
            let mut map = map.clone();
            if let Some(temperature) = map.get_mut("temperature") {
                let number = match &*temperature {
                    Value::String(text) => text.trim().parse().ok(),
                    other => other.as_f64(),
                };
                let number = number.filter(|x: &f64| x.is_finite() && *x >= 0.0);
                *temperature =
                    json!(number.ok_or_else(|| read.fault("`temperature` is no number from 0 on"))?);
            }
            map.entry("until").or_insert(stop);
            Ok(map)
        }
        None | Some(Value::Null) if output == Output::Generate => {
            let defaults =
                json!({"temperature": 0.0, "do_sample": false, "max_gen_toks": 256, "until": stop});
            Ok(defaults.as_object().cloned().unwrap_or_default())
        }
        None | Some(Value::Null) => Ok(Map::new()),
        Some(_) => Err(read.fault("`generation_kwargs` is no map")),
    }
}

pub(super) fn data_files(read: &Reader) -> Result<BTreeMap<String, Vec<String>>, TaskError> {
    let files = read.map.get("dataset_kwargs").and_then(|kwargs| kwargs.get("data_files"));
    match files {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(Value::Object(map)) => {
            Ok(map.iter().map(|(split, files)| (split.clone(), texts(Some(files)))).collect())
        }
        // Files without a split are the training split.
        Some(value @ (Value::String(_) | Value::Array(_))) => {
            Ok(BTreeMap::from([("train".to_owned(), texts(Some(value)))]))
        }
        Some(_) => Err(read.fault("`data_files` names no files")),
    }
}
