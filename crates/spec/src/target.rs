//! The server that is measured: an HTTP address or the simulated engine.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::ParseUnitError;

/// The server that is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `http://host:port` or `https://…`, without a trailing slash or `/v1`; a path is a prefix
    /// of the API's.
    Http(String),
    /// The simulated engine.
    Sim(SimTarget),
}

/// `sim://MODEL@[Nx]ACCELERATOR[?key=value&…]`, `sim://fixed?ttft=100ms&tpot=10ms`,
/// `sim://fifo?service=100ms`. Names and keys are checked by the simulator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimTarget {
    /// Model, or `fixed` or `fifo`.
    pub engine: String,
    /// Accelerators: count and name.
    pub accelerators: Option<(u32, String)>,
    /// Options after `?`.
    pub options: BTreeMap<String, String>,
}

const TARGET: &str = "a target (http://HOST:PORT, https://HOST, or sim://MODEL@ACCELERATOR, for example sim://llama-3.1-8b@h100)";

impl Target {
    /// Accelerators behind it, where it names them.
    pub fn accelerators(&self) -> Option<u32> {
        match self {
            Target::Sim(target) => target.accelerators.as_ref().map(|(count, _)| *count),
            Target::Http(_) => None,
        }
    }
}

impl FromStr for Target {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseUnitError { got: text.to_owned(), expected: TARGET };
        let t = text.trim().trim_end_matches('/');
        if let Some(rest) = t.strip_prefix("sim://") {
            let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
            let (engine, accelerators) = match name.split_once('@') {
                None => (name, None),
                Some((engine, hardware)) => {
                    let (count, kind) = match hardware.split_once('x') {
                        Some((n, kind)) if n.chars().all(|c| c.is_ascii_digit()) && !n.is_empty() => {
                            (n.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(bad)?, kind)
                        }
                        _ => (1, hardware),
                    };
                    if kind.is_empty() {
                        return Err(bad());
                    }
                    (engine, Some((count, kind.to_owned())))
                }
            };
            if engine.is_empty() {
                return Err(bad());
            }
            let options = query
                .split('&')
                .filter(|pair| !pair.is_empty())
                .map(|pair| {
                    let (key, value) = pair.split_once('=').ok_or_else(bad)?;
                    Ok((key.to_owned(), value.to_owned()))
                })
                .collect::<Result<_, _>>()?;
            return Ok(Target::Sim(SimTarget { engine: engine.to_owned(), accelerators, options }));
        }
        // SDKs take the base address with `/v1`; here every path has it already.
        let t = ["/v1/chat/completions", "/v1/completions", "/v1"]
            .into_iter()
            .find_map(|path| t.strip_suffix(path))
            .unwrap_or(t);
        let authority = t.strip_prefix("http://").or_else(|| t.strip_prefix("https://")).ok_or_else(bad)?;
        if authority.is_empty() || authority.starts_with('/') || t.contains(char::is_whitespace) {
            return Err(bad());
        }
        Ok(Target::Http(t.to_owned()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Http(url) => f.write_str(url),
            Target::Sim(sim) => sim.fmt(f),
        }
    }
}

impl fmt::Display for SimTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sim://{}", self.engine)?;
        match &self.accelerators {
            Some((1, kind)) => write!(f, "@{kind}")?,
            Some((n, kind)) => write!(f, "@{n}x{kind}")?,
            None => {}
        }
        for (i, (key, value)) in self.options.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}
impl JsonSchema for Target {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Target".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": TARGET, "pattern": "^(https?|sim)://" })
    }
}
