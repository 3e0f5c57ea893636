//! Jinja2 as evaluation harnesses use it: undefined names are errors, a last newline is kept, and values are
//! written as Python writes them.

use crate::python::{self, Pattern};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value};
use std::fmt::Write;

/// Steps after which a template is given up.
const FUEL: u64 = 5_000_000;

/// Compiled templates, each under its own text as its name.
#[derive(Debug)]
pub struct Templates(Environment<'static>);

impl Templates {
    /// None yet.
    pub fn new() -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
            environment.set_syntax(syntax);
        }
        environment.set_fuel(Some(FUEL));
        environment.set_formatter(|out, _, value| {
            if value.is_undefined() {
                return Err(Error::from(ErrorKind::UndefinedError));
            }
            out.write_str(&text(value)).map_err(Error::from)
        });
        environment.set_unknown_method_callback(method);
        environment.add_filter("regex_replace", regex_replace);
        environment.add_filter("string", |value: &Value| text(value));
        environment.add_filter("trim", |value: &str, chars: Option<&str>| match chars {
            Some(chars) => value.trim_matches(|c| chars.contains(c)).to_owned(),
            None => python::strip(value).to_owned(),
        });
        environment.add_filter("join", join);
        Self(environment)
    }

    /// Compiles a template.
    ///
    /// # Errors
    ///
    /// With what the engine says.
    pub fn add(&mut self, source: &str) -> Result<(), String> {
        self.0.add_template_owned(source.to_owned(), source.to_owned()).map_err(|error| in_words(&error))
    }

    /// A template that was added, with the columns of a document as names.
    ///
    /// # Errors
    ///
    /// With what the engine says.
    pub fn render(&self, source: &str, document: &serde_json::Value) -> Result<String, String> {
        let context = Value::from(Serde(document));
        let template = self.0.get_template(source).map_err(|error| in_words(&error))?;
        template.render(context).map_err(|error| in_words(&error))
    }
}

fn in_words(error: &Error) -> String {
    let detail = error.detail().map_or(String::new(), |detail| format!(" ({detail})"));
    let line = error.line().map_or(String::new(), |line| format!(" in line {line} of the template"));
    format!("{}{detail}{line}", error.kind())
}

/// `str(value)`.
fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => written(value, 0),
    }
}

fn written(value: &Value, depth: usize) -> String {
    if depth > 50 {
        return "...".to_owned();
    }
    let list = |open: &str, close: &str| {
        let mut out = open.to_owned();
        for (i, entry) in value.try_iter().into_iter().flatten().enumerate() {
            out.push_str(if i == 0 { "" } else { ", " });
            out.push_str(&written(&entry, depth + 1));
            if value.kind() == ValueKind::Map {
                let item = value.get_item(&entry).unwrap_or_default();
                let _ = write!(out, ": {}", written(&item, depth + 1));
            }
        }
        if open == "(" && value.len() == Some(1) {
            out.push(',');
        }
        out + close
    };
    match value.kind() {
        ValueKind::None => "None".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::Number if !value.is_integer() => {
            f64::try_from(value.clone()).map_or_else(|_| value.to_string(), python::float_repr)
        }
        ValueKind::String => python::repr(&serde_json::Value::from(value.as_str().unwrap_or_default())),
        ValueKind::Seq if value.is_tuple() => list("(", ")"),
        ValueKind::Seq | ValueKind::Iterable => list("[", "]"),
        ValueKind::Map => list("{", "}"),
        _ => value.to_string(),
    }
}

fn join(values: &Value, by: Option<&str>) -> Result<String, Error> {
    let mut out = String::new();
    for (i, value) in values.try_iter()?.enumerate() {
        out.push_str(if i == 0 { "" } else { by.unwrap_or_default() });
        out.push_str(&text(&value));
    }
    Ok(out)
}

fn regex_replace(
    value: &str,
    pattern: &str,
    replacement: &str,
    count: Option<usize>,
    named: Kwargs,
) -> Result<String, Error> {
    let count = count.or(named.get::<Option<usize>>("count")?).unwrap_or(0);
    named.assert_all_used()?;
    Pattern::new(pattern, false)
        .and_then(|pattern| pattern.sub(replacement, value, count))
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// Methods of Python where those of `minijinja-contrib` differ or are missing.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let missing = || Error::new(ErrorKind::InvalidOperation, "the value is not in it");
    if let Some(text) = value.as_str() {
        match name {
            "strip" if args.is_empty() => return Ok(python::strip(text).into()),
            "lstrip" if args.is_empty() => return Ok(python::lstrip(text).into()),
            "rstrip" if args.is_empty() => return Ok(python::rstrip(text).into()),
            "split" if args.is_empty() => return Ok(python::split(text).map(Value::from).collect()),
            "rsplit" => {
                let (by, most): (&str, Option<usize>) = from_args(args)?;
                let mut parts: Vec<&str> = match most {
                    Some(most) => text.rsplitn(most.saturating_add(1), by).collect(),
                    None => text.rsplit(by).collect(),
                };
                parts.reverse();
                return Ok(parts.into_iter().map(Value::from).collect());
            }
            "isdigit" => {
                return Ok((!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())).into());
            }
            "index" => {
                let (what,): (&str,) = from_args(args)?;
                let at = text.find(what).ok_or_else(missing)?;
                return Ok(text[..at].chars().count().into());
            }
            "removeprefix" => {
                let (what,): (&str,) = from_args(args)?;
                return Ok(text.strip_prefix(what).unwrap_or(text).into());
            }
            "removesuffix" => {
                let (what,): (&str,) = from_args(args)?;
                return Ok(text.strip_suffix(what).unwrap_or(text).into());
            }
            _ => {}
        }
    } else if name == "index" && matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        let (what,): (&Value,) = from_args(args)?;
        return value.try_iter()?.position(|entry| entry == *what).map(Value::from).ok_or_else(missing);
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}
