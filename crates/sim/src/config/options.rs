//! The options of a target: which there are, and reading them one by one.

use std::collections::BTreeMap;

use spec::{Nanos, Span};

use crate::error::SimError;
use crate::names::nearest;

/// Options of every engine.
pub(crate) const COMMON: &[&str] = &[
    "seed",
    "noise",
    "time_scale",
    "model",
    "context",
    "natural",
    "count",
    "role",
    "headers",
    "reasoning",
    "tokens_per_chunk",
    "event_bytes",
    "buffered",
    "usage",
    "done",
    "finish",
    "fault",
];
pub(crate) const FIXED: &[&str] = &["ttft", "tpot"];
pub(crate) const FIFO: &[&str] = &["service", "servers", "tokens", "queue"];
pub(crate) const BATCHING: &[&str] = &[
    "precision",
    "max_seqs",
    "chunk",
    "kv_tokens",
    "prefix_cache",
    "queue",
    "memory",
    "mfu",
    "mbu",
    "overhead",
];

/// The options of a target, checked off as they are read.
pub(super) struct Options<'a> {
    pub(super) engine: &'a str,
    pub(super) map: &'a BTreeMap<String, String>,
}

impl Options<'_> {
    pub(super) fn check(&self, own: &[&str]) -> Result<(), SimError> {
        let known: Vec<&str> = own.iter().chain(COMMON).copied().collect();
        match self.map.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(got) => Err(SimError::UnknownOption {
                engine: self.engine.to_owned(),
                got: got.clone(),
                hint: nearest(got, &known),
                known: known.join(", "),
            }),
        }
    }

    pub(super) fn read<T>(
        &self,
        key: &str,
        expected: &str,
        default: T,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, SimError> {
        let Some(text) = self.map.get(key) else { return Ok(default) };
        parse(text).ok_or_else(|| SimError::BadOption {
            key: key.to_owned(),
            got: text.clone(),
            expected: expected.to_owned(),
        })
    }

    pub(super) fn span(&self, key: &str, default: Nanos) -> Result<Nanos, SimError> {
        self.read(key, "a duration, for example 100ms", default, |t| t.parse::<Span>().ok().map(|s| s.0))
    }

    pub(super) fn count(&self, key: &str, default: u32) -> Result<u32, SimError> {
        self.read(key, "a number from 1", default, |t| t.parse().ok().filter(|n| *n > 0))
    }

    pub(super) fn real(&self, key: &str, low: f64, high: f64, default: f64) -> Result<f64, SimError> {
        self.read(key, &format!("a number from {low} to {high}"), default, |t| {
            t.parse().ok().filter(|x| (low..=high).contains(x))
        })
    }

    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
        default: T,
    ) -> Result<T, SimError> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        self.read(key, &names.join(", "), default, |t| {
            choices.iter().find(|(name, _)| *name == t).map(|(_, value)| *value)
        })
    }

    pub(super) fn switch(&self, key: &str, default: bool) -> Result<bool, SimError> {
        self.choice(key, &[("on", true), ("off", false)], default)
    }

    pub(super) fn queue(&self) -> Result<Option<u32>, SimError> {
        self.read("queue", "a number of requests, or off", None, |t| match t {
            "off" => Some(None),
            n => n.parse().ok().map(Some),
        })
    }
}
