//! From a tree to typed values; faults are collected, not only the first.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Excerpt, ParseError, SpecError, nearest};
use crate::grammar::AnyLimit;
use crate::load::{Extent, Ramp, Warmup};
use crate::node::{Data, Mark, Node, Source, short};
use crate::units::{Burstiness, Limit, Rate, Share, Span};
use crate::workload::{CacheProtocol, Lengths, TokenizerChoice};
use crate::{Connections, Dialect, Force, KeySource, MaxField, PercentileRule, Target, Targets, View};

/// Reads a tree: knows where it is and keeps what was wrong.
pub(crate) struct Reader<'a> {
    source: Option<Source<'a>>,
    path: Vec<String>,
    pub errors: Vec<SpecError>,
    /// Where each key stands.
    pub places: BTreeMap<String, Option<Box<Excerpt>>>,
}

/// Known keys of a section that are looked for when a key stands in the wrong place.
pub(crate) type Elsewhere = &'static [(&'static str, &'static [&'static str])];

impl<'a> Reader<'a> {
    pub fn new(source: Option<Source<'a>>) -> Self {
        Self { source, path: Vec::new(), errors: Vec::new(), places: BTreeMap::new() }
    }

    /// Notes a fault at a place.
    pub fn fault(&mut self, mark: Option<Mark>, label: Option<String>, error: impl Into<SpecError>) {
        let mut error: SpecError = error.into();
        if error.key.is_none() && !self.path.is_empty() {
            error.key = Some(self.path.join("."));
        }
        error.excerpt = self.source.zip(mark).map(|(source, mark)| Box::new(source.excerpt(mark, label)));
        self.errors.push(error);
    }

    /// Goes through the entries of a map; what is no map is a fault, nothing is an empty map.
    pub fn each(&mut self, node: &Node, mut visit: impl FnMut(&mut Self, &str, Option<Mark>, &Node)) {
        match &node.data {
            Data::Map(entries) => {
                for entry in entries {
                    self.path.push(entry.key.clone());
                    if let Some((source, mark)) = self.source.zip(entry.mark) {
                        let excerpt = Box::new(source.excerpt(mark, None));
                        self.places.insert(self.path.join("."), Some(excerpt));
                    }
                    visit(self, &entry.key, entry.mark, &entry.value);
                    self.path.pop();
                }
            }
            _ if node.is_null() => {}
            _ => {
                let name = self.path.last().map_or("a spec", String::as_str).to_owned();
                self.fault(
                    node.mark,
                    None,
                    ParseError::new(format!("`{name}` is a map of keys and values; {} came", node.kind())),
                );
            }
        }
    }

    /// A value into its field; nothing leaves the field as it is.
    pub fn field<T: Read>(&mut self, node: &Node, field: &mut Option<T>) {
        if node.is_null() {
            return;
        }
        match T::read(node) {
            Ok(value) => *field = Some(value),
            Err(error) => self.fault(node.mark, None, error),
        }
    }

    /// A key that the section does not know.
    pub fn unknown(&mut self, mark: Option<Mark>, key: &str, known: &[&str], elsewhere: Elsewhere) {
        let section = self.path.iter().rev().nth(1).cloned();
        let place = section.as_deref().map_or("at the top".to_owned(), |s| format!("in `{s}`"));
        let mut error = ParseError::new(format!("unknown key `{}` {place}", short(key)));
        let home =
            elsewhere.iter().find(|(name, keys)| keys.contains(&key) && Some(*name) != section.as_deref());
        if let Some(near) = nearest(key, known.iter().copied()) {
            error = error.hint(format!("did you mean `{near}`?"));
        } else if key.ends_with(')') {
            error = error.hint("inside {…} a value with commas needs quotes: {isl: \"normal(512,64)\"}");
        } else if let Some((name, _)) = home {
            error = error.hint(format!("`{key}` belongs under `{name}`"));
        } else if let Some((_, answer)) = FOREIGN.iter().find(|(word, _)| *word == key) {
            error = error.hint(*answer);
        }
        let list = format!("expected one of: {}", known.join(", "));
        if self.source.is_none() || mark.is_none() {
            error.message = format!("{}; {list}", error.message);
        }
        self.fault(mark, Some(list), error);
    }
}

/// Keys that other tools use for what has another name here.
const FOREIGN: [(&str, &str); 14] = [
    ("url", "the server is the `target`"),
    ("base_url", "the server is the `target`"),
    ("endpoint", "the server is the `target`, a path of its own is `api.path`"),
    ("request_rate", "the rate is `load.rate`"),
    ("qps", "the rate is `load.rate`"),
    ("max_concurrency", "a closed loop is `load.concurrency`, a bound on an open one `load.cap`"),
    ("users", "users are `load.concurrency`, their pause is `load.think`"),
    ("num_prompts", "the number of requests is `phases.measure: N requests`"),
    ("requests", "the number of requests is `phases.measure: N requests`"),
    ("duration", "the duration is `phases.measure: 30s`"),
    ("input_len", "the input length is `workload.isl`"),
    ("output_len", "the output length is `workload.osl`"),
    ("max_tokens", "the output length is `workload.osl`"),
    ("dataset", "prompts come from `workload.source`"),
];

/// A value read from one node.
pub(crate) trait Read: Sized {
    fn read(node: &Node) -> Result<Self, ParseError>;
}

/// A scalar's text.
fn text(node: &Node) -> Option<&str> {
    match &node.data {
        Data::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

fn not(node: &Node, what: &str) -> ParseError {
    ParseError::new(match text(node) {
        Some(text) => format!("`{}` is not {what}", short(text)),
        None => format!("{} is not {what}", node.kind()),
    })
}

fn from_text<T>(node: &Node, what: &str) -> Result<T, ParseError>
where
    T: FromStr,
    ParseError: From<T::Err>,
{
    let text = text(node).ok_or_else(|| not(node, what))?;
    if text.len() > 4096 {
        return Err(not(node, what));
    }
    Ok(text.parse::<T>()?)
}

/// Types that are text only.
macro_rules! text_only {
    ($($type:ty: $what:literal),+ $(,)?) => {$(
        impl Read for $type {
            fn read(node: &Node) -> Result<Self, ParseError> {
                from_text(node, $what)
            }
        }
    )+};
}
text_only!(
    Target: "a target (http://HOST:PORT, https://HOST, or sim://MODEL@ACCELERATOR)",
    Span: "a duration (for example 30s)",
    Rate: "a rate (for example 6, 30/min, or inf)",
    Burstiness: "a burstiness (a positive number, or inf)",
    Dialect: "a protocol (chat, completions)",
    MaxField: "a field for the output limit",
    Force: "a way to force the output length",
    PercentileRule: "a percentile rule",
    View: "a view (user, server)",
    Share: "a share (for example 95%)",
    AnyLimit: "a limit (for example ttft<=500ms)",
);

impl Read for Limit {
    fn read(node: &Node) -> Result<Self, ParseError> {
        match text(node) {
            // What `off` becomes in a file that went through an older YAML.
            Some("false") => Ok(Limit(None)),
            _ => from_text(node, "a time limit (for example 30s, or off)"),
        }
    }
}

/// Types with a text form and a structured one, which is what they serialise to.
macro_rules! text_or_map {
    ($($type:ty: $what:literal),+ $(,)?) => {$(
        impl Read for $type {
            fn read(node: &Node) -> Result<Self, ParseError> {
                match &node.data {
                    Data::Scalar { .. } => from_text(node, $what),
                    _ => structured(node, $what),
                }
            }
        }
    )+};
}
text_or_map!(
    Lengths: "a length in tokens",
    CacheProtocol: "a cache protocol",
    TokenizerChoice: "a tokenizer",
    KeySource: "a source of a key (env:VARIABLE or file:PATH)",
    Warmup: "a warm-up",
    Extent: "a length of the measurement",
    Ramp: "a ramp (for example 1/s:30s)",
    Connections: "a connection policy",
    crate::workload::Source: "a source of prompts",
);

fn structured<T: DeserializeOwned>(node: &Node, what: &str) -> Result<T, ParseError> {
    serde_json::from_value(node.json())
        .map_err(|error| ParseError::new(format!("this is not {what}: {}", short_error(&error.to_string()))))
}

fn short_error(text: &str) -> String {
    text.chars().take(200).collect()
}

impl Read for bool {
    fn read(node: &Node) -> Result<Self, ParseError> {
        match text(node) {
            Some("true" | "True" | "on" | "yes") => Ok(true),
            Some("false" | "False" | "off" | "no") => Ok(false),
            _ => Err(not(node, "true or false")),
        }
    }
}

impl Read for String {
    fn read(node: &Node) -> Result<Self, ParseError> {
        // As written: `1.10` stays `1.10`.
        text(node).map(str::to_owned).ok_or_else(|| not(node, "a text"))
    }
}

impl Read for PathBuf {
    fn read(node: &Node) -> Result<Self, ParseError> {
        match text(node) {
            Some(path) if !path.is_empty() => Ok(path.into()),
            _ => Err(not(node, "a path")),
        }
    }
}

macro_rules! whole {
    ($($type:ty),+) => {$(
        impl Read for $type {
            fn read(node: &Node) -> Result<Self, ParseError> {
                let what = || not(node, concat!("a whole number of at most ", stringify!($type)))
                    .message
                    .replace(stringify!($type), &<$type>::MAX.to_string());
                text(node).and_then(|t| t.trim().parse().ok()).ok_or_else(|| ParseError::new(what()))
            }
        }
    )+};
}
whole!(u16, u32, u64, i64);

impl Read for f64 {
    fn read(node: &Node) -> Result<Self, ParseError> {
        text(node)
            .filter(|t| t.len() < 400)
            .and_then(|t| t.trim().parse().ok())
            .filter(|x: &f64| x.is_finite())
            .ok_or_else(|| not(node, "a number"))
    }
}

/// One value, or a list of them.
fn one_or_more<T: Read>(node: &Node, what: &str) -> Result<Vec<T>, ParseError> {
    match &node.data {
        Data::List(items) => items.iter().map(T::read).collect(),
        Data::Scalar { .. } => Ok(vec![T::read(node)?]),
        Data::Map(_) => Err(not(node, what)),
    }
}

impl Read for Targets {
    fn read(node: &Node) -> Result<Self, ParseError> {
        let what = "a target, or a list of targets";
        Targets::new(one_or_more(node, what)?).ok_or_else(|| not(node, what))
    }
}

/// A list; as one text, parted by commas.
impl Read for Vec<IpAddr> {
    fn read(node: &Node) -> Result<Self, ParseError> {
        let lists: Vec<String> = one_or_more(node, "a list of addresses of this machine")?;
        lists
            .iter()
            .flat_map(|list| list.split(','))
            .map(|address| {
                let address = address.trim().trim_start_matches('[').trim_end_matches(']');
                address.parse().map_err(|_| {
                    ParseError::new(format!(
                        "`{}` is no address of this machine (for example 127.0.0.2, or fe80::1)",
                        short(address)
                    ))
                })
            })
            .collect()
    }
}

impl Read for Vec<String> {
    fn read(node: &Node) -> Result<Self, ParseError> {
        one_or_more(node, "a list of texts")
    }
}

/// A JSON object; on the command line as text.
impl Read for Map<String, Value> {
    fn read(node: &Node) -> Result<Self, ParseError> {
        let what = "an object (for example {\"top_k\": 5})";
        let value = match &node.data {
            Data::Scalar { text, .. } => serde_json::from_str(text)
                .map_err(|e| ParseError::new(format!("{}: {e}", not(node, what).message)))?,
            _ => node.json(),
        };
        match value {
            Value::Object(map) => Ok(map),
            _ => Err(not(node, what)),
        }
    }
}

impl Reader<'_> {
    /// A map of names to texts.
    pub fn texts(&mut self, node: &Node, into: &mut BTreeMap<String, String>) {
        self.each(node, |cx, key, mark, value| match String::read(value) {
            Ok(text) => {
                into.insert(key.to_owned(), text);
            }
            Err(error) => cx.fault(value.mark.or(mark), None, error),
        });
    }

    /// A list of limits, or a single one; each fault has its own place.
    pub fn limits(&mut self, node: &Node, mut take: impl FnMut(AnyLimit)) {
        let items = match &node.data {
            Data::List(items) => items.as_slice(),
            _ if node.is_null() => &[],
            _ => std::slice::from_ref(node),
        };
        for item in items {
            match AnyLimit::read(item) {
                Ok(limit) => take(limit),
                Err(error) => self.fault(item.mark, None, error),
            }
        }
    }
}
