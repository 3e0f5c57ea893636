//! What the logs of a run say, LoadGen's own or ours.

use std::collections::BTreeMap;

use serde_json::Value;

/// A line of a detail log.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its key.
    pub key: String,
    /// Its value; `Null` where LoadGen printed a number that is none (0/0).
    pub value: Value,
    /// LoadGen calls it an error.
    pub is_error: bool,
    /// LoadGen calls it a warning.
    pub is_warning: bool,
}

/// `mlperf_log_detail.txt`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Detail {
    entries: Vec<Entry>,
}

const PREFIX: &str = ":::MLLOG ";

impl Detail {
    /// Reads the text.
    ///
    /// # Errors
    /// Names the line that is no entry.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with(":::ENDPTS") {
            return Err("this is a log of the endpoints tool: only LoadGen's own layout is read".to_owned());
        }
        let mut entries = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() {
                continue;
            }
            let wrong = |what: &str| format!("mlperf_log_detail.txt:{number}: {what}");
            let json = line.strip_prefix(PREFIX).ok_or_else(|| {
                wrong("does not start with `:::MLLOG`: is this the detail log of a LoadGen run?")
            })?;
            let entry = entry(json).ok_or_else(|| wrong("is no JSON object with key, value and metadata"))?;
            entries.push(entry);
        }
        if entries.is_empty() {
            return Err(
                "mlperf_log_detail.txt is empty: the run did not get as far as its settings".to_owned()
            );
        }
        Ok(Self { entries })
    }

    /// The value of a key: the first one, as the reference checker has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The last value of a key: that of the timed pass, where accuracy went before.
    pub fn last(&self, key: &str) -> Option<&Value> {
        self.entries.iter().rfind(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// All values of a key.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Value> {
        self.entries.iter().filter(move |entry| entry.key == key).map(|entry| &entry.value)
    }

    /// A whole number from 0 on.
    pub fn int(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    /// A number.
    pub fn real(&self, key: &str) -> Option<f64> {
        self.get(key)?.as_f64()
    }

    /// Yes or no.
    pub fn yes(&self, key: &str) -> Option<bool> {
        self.get(key)?.as_bool()
    }

    /// Words.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// The words of all errors.
    pub fn errors(&self) -> Vec<String> {
        words(self.entries.iter().filter(|entry| entry.is_error))
    }

    /// The words of all warnings.
    pub fn warnings(&self) -> Vec<String> {
        words(self.entries.iter().filter(|entry| entry.is_warning))
    }

    /// Whether a timed pass came to its end.
    pub fn is_timed(&self) -> bool {
        self.get("result_validity").is_some()
    }
}

fn words<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<String> {
    entries.map(|entry| entry.value.as_str().map_or_else(|| entry.value.to_string(), str::to_owned)).collect()
}

fn entry(json: &str) -> Option<Entry> {
    let mut object: Value = serde_json::from_str(json)
        .or_else(|error| {
            // C++ prints what is no number as inf or nan, with a sign or without.
            let bare = ["inf", "-inf", "nan", "-nan", "Infinity", "-Infinity", "NaN"];
            let found = bare.iter().find(|word| json.contains(&format!("\"value\": {word},")));
            match found {
                Some(word) => serde_json::from_str(&json.replacen(
                    &format!("\"value\": {word},"),
                    "\"value\": null,",
                    1,
                )),
                None => Err(error),
            }
        })
        .ok()?;
    let flag = |name: &str| object["metadata"][name].as_bool();
    Some(Entry {
        key: object["key"].as_str()?.to_owned(),
        is_error: flag("is_error")?,
        is_warning: flag("is_warning").unwrap_or(false),
        value: object.get_mut("value")?.take(),
    })
}

/// `mlperf_log_summary.txt`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    lines: BTreeMap<String, String>,
    /// How many errors its last line counts; `None` without such a line.
    pub errors: Option<u64>,
}

impl Summary {
    /// Reads the text: lines `name : value`, the first of a name, and the count of errors at its end.
    pub fn parse(text: &str) -> Self {
        let mut summary = Self::default();
        for line in text.lines() {
            let line = line.trim();
            if line == "No errors encountered during test." {
                summary.errors = Some(0);
            } else if let Some((count, rest)) = line.split_once(" ERROR")
                && rest.contains("encountered")
            {
                summary.errors = count.parse().ok();
            } else if let Some((name, value)) = line.split_once(':') {
                let value = value.trim().to_owned();
                summary.lines.entry(name.trim().to_owned()).or_insert(value);
            }
        }
        summary
    }

    /// The value of a line.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.lines.get(name).map(String::as_str)
    }
}

/// The logs of one folder.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Logs {
    /// The detail log.
    pub detail: Detail,
    /// The summary, if it is there.
    pub summary: Option<Summary>,
    /// How many answers the accuracy log holds, if it is there.
    pub answers: Option<u64>,
}

impl Logs {
    /// Reads the texts of a folder, of whose accuracy log the answers are counted already.
    ///
    /// # Errors
    /// Of the detail log; see [`Detail::parse`].
    pub fn parse(detail: &str, summary: Option<&str>, answers: Option<u64>) -> Result<Self, String> {
        Ok(Self { detail: Detail::parse(detail)?, summary: summary.map(Summary::parse), answers })
    }
}

/// Whether this line of an accuracy log is an answer.
pub fn is_answer(line: &[u8]) -> bool {
    line.windows(8).take(8).any(|part| part == b"\"seq_id\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(value: &str) -> String {
        format!(
            ":::MLLOG {{\"key\": \"k\", \"value\": {value}, \"metadata\": {{\"is_error\": false, \"is_warning\": false}}}}\n"
        )
    }

    #[test]
    fn what_is_no_number_is_not_defined() {
        for value in ["inf", "-nan", "nan"] {
            assert_eq!(Detail::parse(&line(value)).expect(value).get("k"), Some(&Value::Null));
        }
        let twice = Detail::parse(&(line("1") + &line("2"))).expect("reads");
        assert_eq!((twice.int("k"), twice.last("k").and_then(Value::as_u64)), (Some(1), Some(2)));
    }

    #[test]
    fn what_is_no_log_is_refused_with_its_line() {
        for (text, words) in [
            ("", "is empty"),
            ("hello", "detail.txt:1: does not start with"),
            (":::ENDPTS {}", "endpoints tool"),
            (":::MLLOG {", "detail.txt:1: is no JSON"),
            (":::MLLOG {\"key\": \"k\", \"value\": 1}", "metadata"),
        ] {
            assert!(Detail::parse(text).expect_err(text).contains(words), "{text}");
        }
    }
}
