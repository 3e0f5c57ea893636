//! Spec text as a tree that remembers where each value stands.

use serde_json::Value;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span as YamlSpan};

use crate::error::{Excerpt, SpecError};
use crate::secret::{REDACTED, secret_field};

/// Deeper than this, or larger, is no spec.
const MAX_DEPTH: usize = 32;
const MAX_NODES: usize = 20_000;

/// Where something stands: line from 1, column from 0, width in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub line: usize,
    pub column: usize,
    pub width: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub data: Data,
    pub mark: Option<Mark>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    /// A scalar as written. `plain`: without quotes, so it may be a number, a truth value or null.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    pub mark: Option<Mark>,
    pub value: Node,
}

impl Node {
    /// A text that was given on the command line: it is a value even when it is empty or `null`.
    pub fn scalar(text: &str) -> Self {
        Node { data: Data::Scalar { text: text.to_owned(), plain: false }, mark: None }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.data, Data::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// What came, for a message.
    pub fn kind(&self) -> &'static str {
        match self.data {
            Data::Scalar { .. } if self.is_null() => "nothing",
            Data::Scalar { .. } => "a single value",
            Data::List(_) => "a list",
            Data::Map(_) => "a map",
        }
    }

    /// As JSON, plain scalars read by the core schema of YAML 1.2. A number that is not finite
    /// stays text, since JSON has none.
    pub fn json(&self) -> Value {
        match &self.data {
            Data::Scalar { text, plain: true } => core_scalar(text),
            Data::Scalar { text, .. } => Value::String(text.clone()),
            Data::List(items) => items.iter().map(Node::json).collect(),
            Data::Map(entries) => {
                Value::Object(entries.iter().map(|e| (e.key.clone(), e.value.json())).collect())
            }
        }
    }

    /// A tree without places.
    pub fn from_json(value: &Value) -> Node {
        let data = match value {
            Value::Null => Data::Scalar { text: String::new(), plain: true },
            Value::Bool(b) => Data::Scalar { text: b.to_string(), plain: true },
            Value::Number(n) => Data::Scalar { text: n.to_string(), plain: true },
            Value::String(s) => Data::Scalar { text: s.clone(), plain: false },
            Value::Array(items) => Data::List(items.iter().map(Node::from_json).collect()),
            Value::Object(map) => Data::Map(
                map.iter()
                    .map(|(key, value)| Entry { key: key.clone(), mark: None, value: Node::from_json(value) })
                    .collect(),
            ),
        };
        Node { data, mark: None }
    }
}

fn core_scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        if let Ok(n) = text.parse::<u64>() {
            return n.into();
        }
        if let Ok(n) = text.parse::<i64>() {
            return n.into();
        }
        if let Ok(x) = text.parse::<f64>()
            && let Some(n) = serde_json::Number::from_f64(x)
        {
            return Value::Number(n);
        }
    }
    Value::String(text.to_owned())
}

/// A text with its name, for messages that show a line of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    pub fn excerpt(&self, mark: Mark, label: Option<String>) -> Excerpt {
        let first = mark.line.saturating_sub(3);
        // A hostile file may hold a very long line; a key by mistake should not reach a log.
        let cut = |line: &str| hide_secret(line).chars().take(160).collect::<String>().replace('\t', " ");
        let lines: Vec<String> =
            self.text.lines().skip(first).take(mark.line.saturating_sub(first)).map(cut).collect();
        let length = lines.last().map_or(0, |line| line.chars().count());
        let column = mark.column.min(length);
        Excerpt {
            file: self.name.to_owned(),
            line: mark.line,
            column,
            width: mark.width.clamp(1, (length - column).max(1)),
            lines,
            label,
        }
    }

    /// The tree of a YAML (or JSON) text.
    pub fn parse(&self) -> Result<Node, SpecError> {
        // JSON is YAML but for some escapes in strings, so what reads as JSON is read as JSON; a
        // faulty one is read as YAML for the sake of the place.
        if self.text.trim_start().starts_with('{')
            && let Ok(value) = serde_json::from_str::<Value>(self.text)
        {
            return Ok(Node::from_json(&value));
        }
        Loader { source: self, parser: Parser::new_from_str(self.text), nodes: 0 }.document()
    }
}

struct Loader<'a, P> {
    source: &'a Source<'a>,
    parser: P,
    nodes: usize,
}

impl<'a, P> Loader<'a, P>
where
    P: Iterator<Item = Result<(Event<'a>, YamlSpan), serde_saphyr::granit_parser::ScanError>>,
{
    fn fault(&self, mark: Mark, message: impl Into<String>) -> SpecError {
        SpecError { excerpt: Some(Box::new(self.source.excerpt(mark, None))), ..SpecError::new(message) }
    }

    fn event(&mut self) -> Result<Option<(Event<'a>, Mark)>, SpecError> {
        match self.parser.next() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, mark_of(span)))),
            Some(Err(error)) => {
                let at = error.marker();
                let mark = Mark { line: at.line().max(1), column: at.col(), width: 1 };
                Err(self.fault(mark, format!("not well-formed YAML: {}", error.info())))
            }
        }
    }

    fn document(mut self) -> Result<Node, SpecError> {
        let mut root = None;
        while let Some((event, mark)) = self.event()? {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(self.fault(mark, "a spec is one document; a second one begins here"));
                }
                Event::DocumentStart(..) => {}
                event => root = Some(self.node(event, mark, 0)?),
            }
        }
        Ok(root.unwrap_or(Node { data: Data::Map(Vec::new()), mark: None }))
    }

    fn node(&mut self, event: Event<'a>, mark: Mark, depth: usize) -> Result<Node, SpecError> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return Err(self.fault(mark, "nested too deep or too large for a spec"));
        }
        let data = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.no_anchor(anchor, mark)?;
                let plain = match &tag {
                    None => style == ScalarStyle::Plain,
                    Some(tag) => match tag.core_suffix() {
                        Some("str") => false,
                        Some("int" | "float" | "bool" | "null") => true,
                        _ => return Err(self.fault(mark, "tags such as `!name` mean nothing here")),
                    },
                };
                Data::Scalar { text: text.into_owned(), plain }
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.no_anchor(anchor, mark)?;
                if tag.is_some() {
                    return Err(self.fault(mark, "tags such as `!name` mean nothing here"));
                }
                let mut items = Vec::new();
                loop {
                    match self.event()? {
                        Some((Event::SequenceEnd, _)) => break,
                        Some((event, mark)) => items.push(self.node(event, mark, depth + 1)?),
                        None => return Err(self.fault(mark, "this list does not end")),
                    }
                }
                Data::List(items)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.no_anchor(anchor, mark)?;
                if tag.is_some() {
                    return Err(self.fault(mark, "tags such as `!name` mean nothing here"));
                }
                Data::Map(self.entries(mark, depth)?)
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                return Err(self.fault(mark, "aliases such as `*name` are not read; write the value out"));
            }
            _ => return Err(self.fault(mark, "a value was expected here")),
        };
        Ok(Node { data, mark: Some(mark) })
    }

    fn entries(&mut self, start: Mark, depth: usize) -> Result<Vec<Entry>, SpecError> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (key, mark) = match self.event()? {
                Some((Event::MappingEnd, _)) => return Ok(entries),
                Some((Event::Scalar(key, ..), mark)) => (key.into_owned(), mark),
                Some((_, mark)) => return Err(self.fault(mark, "a key must be a single word")),
                None => return Err(self.fault(start, "this map does not end")),
            };
            if let Some(first) = entries.iter().find(|e| e.key == key) {
                let line = first.mark.map_or(0, |m| m.line);
                return Err(self
                    .fault(mark, format!("`{}` is given twice, first in line {line}", short(&key)))
                    .hint("keep one of them"));
            }
            let value = match self.event()? {
                Some((event, mark)) => self.node(event, mark, depth + 1)?,
                None => return Err(self.fault(mark, "a value was expected after this key")),
            };
            entries.push(Entry { key, mark: Some(mark), value });
        }
    }

    fn no_anchor(&self, anchor: usize, mark: Mark) -> Result<(), SpecError> {
        match anchor {
            0 => Ok(()),
            _ => Err(self.fault(mark, "anchors such as `&name` are not read; write the value out")),
        }
    }
}

fn mark_of(span: YamlSpan) -> Mark {
    let (start, end) = (span.start, span.end);
    let width = if start.line() == end.line() { end.col().saturating_sub(start.col()) } else { 1 };
    Mark { line: start.line().max(1), column: start.col(), width: width.max(1) }
}

/// A line without the value of a key that sounds secret.
fn hide_secret(line: &str) -> String {
    match line.split_once(':') {
        Some((key, value))
            if !value.trim().is_empty()
                && secret_field(key.trim_matches(|c: char| c.is_whitespace() || "-{\"'".contains(c))) =>
        {
            format!("{key}: {REDACTED}")
        }
        _ => line.to_owned(),
    }
}

/// A foreign text in a message: cut to a length that a line bears.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
