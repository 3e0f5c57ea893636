//! How Python writes values.

use serde_json::{Number, Value};
use std::fmt::Write;

/// `repr` of a float: the shortest digits that read back, in the layout of Python.
#[must_use]
pub fn float_repr(x: f64) -> String {
    if x.is_nan() {
        return "nan".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let digits = format!("{x:e}");
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&power) {
        let plain = format!("{x}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", power.unsigned_abs())
}

/// `str(value)` of what a JSON value is in Python.
#[must_use]
pub fn str(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
}

/// `repr(value)` of what a JSON value is in Python.
#[must_use]
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(value, &mut out);
    out
}

fn write_repr(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => write_str_repr(text, out),
        Value::Array(list) => {
            out.push('[');
            for (i, entry) in list.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                write_repr(entry, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (key, entry)) in map.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                write_str_repr(key, out);
                out.push_str(": ");
                write_repr(entry, out);
            }
            out.push('}');
        }
    }
}

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(x) if number.is_f64() => float_repr(x),
        _ => number.to_string(),
    }
}

fn write_str_repr(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if unprintable(c) => {
                let code = c as u32;
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// Controls, separators other than the space, formats and private use: what `str.isprintable` denies, as far
/// as it turns up in text.
fn unprintable(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
            | '\u{f0000}'..='\u{10ffff}')
}

/// `json.dumps(value, ensure_ascii=False, indent=indent)`; without an indent items are separated by `", "`.
#[must_use]
pub fn json_dumps(value: &Value, indent: Option<usize>) -> String {
    let mut out = String::new();
    write_json(value, indent, 0, &mut out);
    out
}

fn write_json(value: &Value, indent: Option<usize>, depth: usize, out: &mut String) {
    match value {
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => write_json_text(text, out),
        Value::Array(list) => {
            out.push('[');
            for (i, entry) in list.iter().enumerate() {
                separate(i, indent, depth + 1, out);
                write_json(entry, indent, depth + 1, out);
            }
            close(list.is_empty(), indent, depth, out);
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (key, entry)) in map.iter().enumerate() {
                separate(i, indent, depth + 1, out);
                write_json_text(key, out);
                out.push_str(": ");
                write_json(entry, indent, depth + 1, out);
            }
            close(map.is_empty(), indent, depth, out);
            out.push('}');
        }
        Value::Null | Value::Bool(_) => {
            let _ = write!(out, "{value}");
        }
    }
}

fn separate(i: usize, indent: Option<usize>, depth: usize, out: &mut String) {
    match indent {
        Some(width) => {
            out.push_str(if i == 0 { "\n" } else { ",\n" });
            out.extend(std::iter::repeat_n(' ', width * depth));
        }
        None => out.push_str(if i == 0 { "" } else { ", " }),
    }
}

fn close(empty: bool, indent: Option<usize>, depth: usize, out: &mut String) {
    if let (Some(width), false) = (indent, empty) {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', width * depth));
    }
}

/// As Python's encoder without ASCII escapes: only quotes, back-slashes and controls are escaped.
fn write_json_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
