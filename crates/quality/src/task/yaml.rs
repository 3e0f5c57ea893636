//! YAML as PyYAML reads it: the scalars of YAML 1.1, merge keys, the last of equal keys, and
//! `!function NAME`, which becomes `{"!function": NAME}`.

use serde_json::{Map, Number, Value};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span};
use std::collections::BTreeMap;

/// The key under which the name of a Python function stands.
pub const FUNCTION: &str = "!function";

/// Deeper than this, or larger with what its aliases stand for, is no task file.
const MAX_DEPTH: usize = 64;
const MAX_NODES: usize = 500_000;

/// The value of a YAML text with one document.
///
/// # Errors
///
/// With line and column in words.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut loader = Loader { parser: Parser::new_from_str(text), anchors: BTreeMap::new(), nodes: 0 };
    let mut root = None;
    while let Some((event, span)) = loader.event()? {
        match event {
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            Event::DocumentStart(..) if root.is_some() => {
                return Err(at(span, "a second document begins; a task file is one"));
            }
            Event::DocumentStart(..) => {}
            event => root = Some(loader.node(event, span, 0)?),
        }
    }
    Ok(root.unwrap_or(Value::Null))
}

/// The function that a value names, if it is one.
pub fn function(value: &Value) -> Option<&str> {
    value.as_object().filter(|map| map.len() == 1)?.get(FUNCTION)?.as_str()
}

struct Loader<P> {
    parser: P,
    /// What an alias stands for, and how many nodes it is.
    anchors: BTreeMap<usize, (Value, usize)>,
    nodes: usize,
}

fn at(span: Span, message: &str) -> String {
    format!("line {}, column {}: {message}", span.start.line().max(1), span.start.col() + 1)
}

impl<'a, P> Loader<P>
where
    P: Iterator<Item = Result<(Event<'a>, Span), serde_saphyr::granit_parser::ScanError>>,
{
    fn event(&mut self) -> Result<Option<(Event<'a>, Span)>, String> {
        self.parser.next().transpose().map_err(|error| {
            let place = error.marker();
            format!("line {}, column {}: no YAML: {}", place.line().max(1), place.col() + 1, error.info())
        })
    }

    fn next(&mut self, start: Span) -> Result<(Event<'a>, Span), String> {
        self.event()?.ok_or_else(|| at(start, "this does not end"))
    }

    fn count(&mut self, nodes: usize, span: Span) -> Result<(), String> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES { Err(at(span, "too large for a task file")) } else { Ok(()) }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(at(span, "nested too deep for a task file"));
        }
        self.count(1, span)?;
        let before = self.nodes - 1;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = match tag.as_ref().map(|tag| (tag.core_suffix(), tag.to_string())) {
                    None if style == ScalarStyle::Plain => scalar(&text),
                    None => Value::String(text.into_owned()),
                    Some((Some("str"), _)) => Value::String(text.into_owned()),
                    Some((Some(_), _)) => scalar(&text),
                    Some((None, tag)) if tag == FUNCTION => Value::Object(Map::from_iter([(
                        FUNCTION.to_owned(),
                        Value::String(text.into_owned()),
                    )])),
                    Some((None, tag)) => return Err(at(span, &format!("the tag {tag} means nothing here"))),
                };
                (value, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut list = Vec::new();
                loop {
                    match self.next(span)? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => list.push(self.node(event, span, depth + 1)?),
                    }
                }
                (Value::Array(list), anchor)
            }
            Event::MappingStart(_, anchor, _) => (Value::Object(self.map(span, depth)?), anchor),
            Event::Alias(anchor) => {
                let (value, size) =
                    self.anchors.get(&anchor).cloned().ok_or_else(|| at(span, "an alias of nothing"))?;
                self.count(size, span)?;
                (value, 0)
            }
            _ => return Err(at(span, "a value was expected here")),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, (value.clone(), self.nodes - before));
        }
        Ok(value)
    }

    fn map(&mut self, start: Span, depth: usize) -> Result<Map<String, Value>, String> {
        let mut own = Map::new();
        let mut merged = Map::new();
        loop {
            let (key, plain) = match self.next(start)? {
                (Event::MappingEnd, _) => break,
                (Event::Scalar(text, style, ..), _) => (text.into_owned(), style == ScalarStyle::Plain),
                (_, span) => return Err(at(span, "a key must be a single word")),
            };
            let (event, span) = self.next(start)?;
            let value = self.node(event, span, depth + 1)?;
            if !(plain && key == "<<") {
                own.insert(key, value);
                continue;
            }
            let sources = if let Value::Array(list) = value { list } else { vec![value] };
            for source in sources {
                let Value::Object(source) = source else { return Err(at(span, "only maps can be merged")) };
                for (key, value) in source {
                    merged.entry(key).or_insert(value);
                }
            }
        }
        merged.extend(own);
        Ok(merged)
    }
}

/// A plain scalar by the resolver of PyYAML. A date stays text.
fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Value::Bool(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn number(text: &str) -> Option<Number> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let clean = digits.replace('_', "");
    let radix = |prefix: &str, radix| {
        let rest = clean.strip_prefix(prefix).filter(|rest| !rest.is_empty())?;
        i64::from_str_radix(&format!("{sign}{rest}"), radix).ok()
    };
    if let Some(whole) = radix("0x", 16).or_else(|| radix("0b", 2)).or_else(|| radix("0", 8)) {
        return Some(whole.into());
    }
    let all_digits = clean.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits && (clean == "0" || !clean.starts_with('0')) {
        let signed = format!("{sign}{clean}");
        return signed
            .parse::<i64>()
            .map(Number::from)
            .or_else(|_| signed.parse::<u64>().map(Number::from))
            .ok();
    }
    // A float has a point, and a sign in its exponent if it has one.
    let (mantissa, exponent) = clean.split_once(['e', 'E']).map_or((&*clean, None), |(m, e)| (m, Some(e)));
    let point =
        mantissa.matches('.').count() == 1 && mantissa.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let signed = exponent.is_none_or(|exponent| exponent.starts_with(['+', '-']));
    if point && signed && mantissa != "." {
        return format!("{sign}{clean}").parse().ok().and_then(Number::from_f64);
    }
    None
}
