//! Short text forms, one parser each, shared by flags and files: `100..500`, `prewarmed:8`,
//! `20 requests`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{ParseError, nearest};
use crate::load::{Extent, Ramp, Warmup};
use crate::units::Span;
use crate::workload::{CacheProtocol, Lengths, Source, TokenizerChoice};
use crate::{Connections, Dialect, Force, KeySource, MaxField, PercentileRule, View};

fn not(text: &str, what: &str) -> ParseError {
    ParseError::new(format!("`{}` is not {what}", text.trim()))
}

/// A whole number; `1_000` and `1,000` are taken for typos.
fn whole<T: FromStr>(text: &str) -> Option<T> {
    let t = text.trim();
    t.bytes().all(|b| b.is_ascii_digit()).then(|| t.parse().ok())?
}

/// A finite decimal number.
fn decimal(text: &str) -> Option<f64> {
    let t = text.trim();
    t.parse().ok().filter(|x: &f64| x.is_finite() && t.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

const LENGTHS: &str =
    "a length in tokens (512, 100..500, normal(512,64), lognormal(512,300,max=2048), file:PATH, or data)";

impl FromStr for Lengths {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let t = text.trim();
        let bad = || not(text, LENGTHS);
        if let Some(path) = t.strip_prefix("file:").filter(|p| !p.is_empty()) {
            return Ok(Lengths::File(PathBuf::from(path)));
        }
        let t = t.to_lowercase();
        if t == "data" {
            return Ok(Lengths::Data);
        }
        if let Some(n) = whole(&t) {
            return Ok(Lengths::Fixed(n));
        }
        if let Some((min, max)) = t.split_once("..") {
            let (min, max) = (whole(min).ok_or_else(bad)?, whole(max).ok_or_else(bad)?);
            return Ok(Lengths::Uniform { min, max });
        }
        if let Some((min, max)) = t.split_once('-')
            && whole::<u32>(min).is_some()
            && whole::<u32>(max).is_some()
        {
            return Err(bad().hint(format!("a range is written `{min}..{max}`")));
        }
        let (name, inside) = t.strip_suffix(')').and_then(|t| t.split_once('(')).ok_or_else(bad)?;
        let name = name.trim();
        let mut args: Vec<&str> = inside.split(',').map(str::trim).collect();
        let max = match args.last().and_then(|a| a.strip_prefix("max")).map(str::trim_start) {
            Some(rest) => {
                let max = rest.strip_prefix('=').and_then(whole).ok_or_else(bad)?;
                args.pop();
                Some(max)
            }
            None => None,
        };
        match (name, args.as_slice()) {
            ("uniform", [lo, hi]) if max.is_none() => {
                Ok(Lengths::Uniform { min: whole(lo).ok_or_else(bad)?, max: whole(hi).ok_or_else(bad)? })
            }
            ("normal", [mean, sd]) => Ok(Lengths::Normal {
                mean: decimal(mean).ok_or_else(bad)?,
                sd: decimal(sd).ok_or_else(bad)?,
                max,
            }),
            ("lognormal" | "log-normal", [mean, sd]) => Ok(Lengths::LogNormal {
                mean: decimal(mean).ok_or_else(bad)?,
                sd: decimal(sd).ok_or_else(bad)?,
                max,
            }),
            _ => Err(match nearest(name, ["normal", "lognormal", "uniform"]) {
                Some(near) if near != name => bad().hint(format!("did you mean `{near}`?")),
                _ => bad(),
            }),
        }
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tail = |f: &mut fmt::Formatter<'_>, max: &Option<u32>| match max {
            Some(max) => write!(f, ",max={max})"),
            None => f.write_str(")"),
        };
        match self {
            Lengths::Fixed(n) => n.fmt(f),
            Lengths::Uniform { min, max } => write!(f, "{min}..{max}"),
            Lengths::Normal { mean, sd, max } => {
                write!(f, "normal({mean},{sd}")?;
                tail(f, max)
            }
            Lengths::LogNormal { mean, sd, max } => {
                write!(f, "lognormal({mean},{sd}")?;
                tail(f, max)
            }
            Lengths::File(path) => write!(f, "file:{}", path.display()),
            Lengths::Data => f.write_str("data"),
        }
    }
}

impl Lengths {
    /// The numbers of a length file: one whole number of at least 1 a line; empty lines and lines
    /// that begin with `#` are passed over. A fault names its line.
    pub fn parse_list(text: &str) -> Result<Vec<u32>, ParseError> {
        let mut lengths = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let t = line.trim();
            if t.is_empty() || t.starts_with('#') {
                continue;
            }
            match whole::<u32>(t) {
                Some(n) if n > 0 => lengths.push(n),
                _ => {
                    let shown: String = t.chars().take(40).collect();
                    return Err(ParseError::new(format!(
                        "line {number}: `{shown}` is not a length (a whole number of tokens, at least 1)"
                    )));
                }
            }
        }
        match lengths.is_empty() {
            true => Err(ParseError::new("the file holds no length (one whole number a line expected)")),
            false => Ok(lengths),
        }
    }
}

const SOURCE: &str = "a source of prompts (synthetic, jsonl:PATH, or sharegpt:PATH)";

impl FromStr for Source {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let t = text.trim();
        match t.split_once(':') {
            None if t == "synthetic" => Ok(Source::Synthetic),
            Some(("jsonl", path)) if !path.is_empty() => Ok(Source::Jsonl(path.into())),
            Some(("sharegpt", path)) if !path.is_empty() => Ok(Source::Sharegpt(path.into())),
            _ => {
                let error = not(text, SOURCE);
                Err(match t.rsplit_once('.').map(|(_, extension)| extension) {
                    Some("jsonl") => error.hint(format!("`jsonl:{t}`")),
                    Some("json") => error.hint(format!("`sharegpt:{t}` for a ShareGPT array")),
                    _ => error,
                })
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Synthetic => f.write_str("synthetic"),
            Source::Jsonl(path) => write!(f, "jsonl:{}", path.display()),
            Source::Sharegpt(path) => write!(f, "sharegpt:{}", path.display()),
        }
    }
}

const CACHE: &str =
    "a cache protocol (unique, shared-prefix:TOKENS or shared-prefix:TOKENS/GROUPS, or repeat:PROMPTS)";

impl FromStr for CacheProtocol {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let t = text.trim().to_lowercase();
        let bad = || not(text, CACHE);
        match t.split_once(':') {
            None if t == "unique" => Ok(CacheProtocol::Unique),
            Some(("shared-prefix" | "shared_prefix", rest)) => {
                let (tokens, groups) = rest.split_once('/').unwrap_or((rest, "1"));
                Ok(CacheProtocol::SharedPrefix {
                    tokens: whole(tokens).ok_or_else(bad)?,
                    groups: whole(groups).ok_or_else(bad)?,
                })
            }
            Some(("repeat", n)) => Ok(CacheProtocol::Repeat { prompts: whole(n).ok_or_else(bad)? }),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for CacheProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheProtocol::Unique => f.write_str("unique"),
            CacheProtocol::SharedPrefix { tokens, groups } => write!(f, "shared-prefix:{tokens}/{groups}"),
            CacheProtocol::Repeat { prompts } => write!(f, "repeat:{prompts}"),
        }
    }
}

impl FromStr for TokenizerChoice {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let t = text.trim();
        if let Some(path) = t.strip_prefix("file:").filter(|p| !p.is_empty()) {
            return Ok(TokenizerChoice::File(path.into()));
        }
        match t {
            "auto" => Ok(TokenizerChoice::Auto),
            "none" => Ok(TokenizerChoice::None),
            _ if t.contains(['/', '\\']) || t.ends_with(".json") => Ok(TokenizerChoice::File(t.into())),
            _ if !t.is_empty() && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) => {
                Ok(TokenizerChoice::Embedded(t.to_owned()))
            }
            _ => Err(not(
                text,
                "a tokenizer (auto, none, an embedded vocabulary such as llama3, or the path of a tokenizer.json)",
            )),
        }
    }
}

impl fmt::Display for TokenizerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenizerChoice::Auto => f.write_str("auto"),
            TokenizerChoice::None => f.write_str("none"),
            TokenizerChoice::Embedded(name) => f.write_str(name),
            TokenizerChoice::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl FromStr for KeySource {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The text may be the key itself, so an error does not repeat it.
        let bad = || {
            ParseError::new("a key is read from env:VARIABLE or file:PATH")
                .hint("the key itself never stands in a spec or on a command line")
        };
        match text.trim().split_once(':') {
            Some(("env", name)) if is_variable(name) => Ok(KeySource::Env(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(KeySource::File(path.into())),
            _ => Err(bad()),
        }
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::Env(name) => write!(f, "env:{name}"),
            KeySource::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// `20 requests`.
fn requests(text: &str) -> Option<u64> {
    let (number, word) = text.trim().split_at(text.trim().find(|c: char| !c.is_ascii_digit())?);
    matches!(word.trim(), "requests" | "request" | "req").then(|| whole(number))?
}

fn time_or_requests(text: &str, what: &str) -> ParseError {
    let t = text.trim();
    let error = not(t, what);
    match whole::<u64>(t) {
        Some(n) => error.hint(format!("`{n}s` or `{n} requests`")),
        None => error,
    }
}

impl FromStr for Warmup {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if matches!(text.trim(), "none" | "off" | "0") {
            return Ok(Warmup::None);
        }
        if let Some(n) = requests(text) {
            return Ok(Warmup::Requests(n));
        }
        text.parse()
            .map(Warmup::Duration)
            .map_err(|_| time_or_requests(text, "a warm-up (a time such as 10s, `20 requests`, or none)"))
    }
}

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warmup::None => f.write_str("none"),
            Warmup::Requests(n) => write!(f, "{n} requests"),
            Warmup::Duration(span) => span.fmt(f),
        }
    }
}

impl FromStr for Extent {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(n) = requests(text) {
            return Ok(Extent::Requests(n));
        }
        text.parse().map(Extent::Duration).map_err(|_| {
            time_or_requests(text, "a length of the measurement (a time such as 30s, or `500 requests`)")
        })
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Requests(n) => write!(f, "{n} requests"),
            Extent::Duration(span) => span.fmt(f),
        }
    }
}

impl FromStr for Ramp {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || not(text, "a ramp (FROM:TIME, for example 1/s:30s)");
        let (from, over) = text.split_once(':').ok_or_else(bad)?;
        let over: Span = over.parse().map_err(|_| bad())?;
        Ok(Ramp { from: from.parse().map_err(|_| bad())?, over })
    }
}

impl fmt::Display for Ramp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.from, self.over)
    }
}

impl FromStr for Connections {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let t = text.trim();
        match t.split_once(':') {
            None if t == "fresh" => Ok(Connections::Fresh),
            None if t == "keepalive" => Ok(Connections::Keepalive),
            Some(("prewarmed", n)) if whole::<u32>(n).is_some() => {
                Ok(Connections::Prewarmed(whole(n).unwrap_or_default()))
            }
            _ => Err(not(text, "a connection policy (keepalive, fresh, or prewarmed:N)")),
        }
    }
}

impl fmt::Display for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Connections::Fresh => f.write_str("fresh"),
            Connections::Keepalive => f.write_str("keepalive"),
            Connections::Prewarmed(n) => write!(f, "prewarmed:{n}"),
        }
    }
}

/// Names of an enum without data.
macro_rules! named {
    ($type:ty, $what:literal, $($name:literal => $variant:expr),+ $(,)?) => {
        impl FromStr for $type {
            type Err = ParseError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let t = text.trim().to_lowercase();
                const NAMES: &[&str] = &[$($name),+];
                match t.as_str() {
                    $($name => Ok($variant),)+
                    _ => {
                        let error = not(text, &format!("{} ({})", $what, NAMES.join(", ")));
                        Err(match nearest(&t, NAMES.iter().copied()) {
                            Some(near) => error.hint(format!("did you mean `{near}`?")),
                            None => error,
                        })
                    }
                }
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(v if *v == $variant => $name,)+
                    _ => "",
                })
            }
        }
    };
}
named!(Dialect, "a protocol", "chat" => Dialect::Chat, "completions" => Dialect::Completions);
named!(MaxField, "a field for the output limit",
    "max_tokens" => MaxField::MaxTokens,
    "max_completion_tokens" => MaxField::MaxCompletionTokens,
    "both" => MaxField::Both);
named!(Force, "a way to force the output length",
    "auto" => Force::Auto, "ignore_eos" => Force::IgnoreEos, "min_tokens" => Force::MinTokens, "none" => Force::None);
named!(PercentileRule, "a percentile rule",
    "linear" => PercentileRule::Linear,
    "nearest-rank" => PercentileRule::NearestRank,
    "loadgen" => PercentileRule::Loadgen);
named!(View, "a view", "user" => View::User, "server" => View::Server);
