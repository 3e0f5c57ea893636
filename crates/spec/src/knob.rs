//! Knobs of the workload beside the load: `isl=128..2048`, `osl=64,128,256`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ParseError;
use crate::loads;

/// Which part of the workload a knob turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dial {
    /// Input length in tokens, the same for every request.
    Isl,
    /// Output length in tokens, the same for every request.
    Osl,
}

impl Dial {
    /// The name used in files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Dial::Isl => "isl",
            Dial::Osl => "osl",
        }
    }
}

/// A knob at one of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// Which knob.
    pub dial: Dial,
    /// Where it stands.
    pub value: u32,
}

/// A knob and the values that it may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Knob {
    /// Which one.
    pub dial: Dial,
    /// The values, two at least.
    pub values: Values,
    text: String,
}

/// What values a knob may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    /// These, as written, each once.
    List(Vec<u32>),
    /// Every whole number between two ends, both included.
    Range {
        /// The smallest.
        low: u32,
        /// The largest.
        high: u32,
    },
}

impl Values {
    /// The smallest and the largest.
    pub fn ends(&self) -> (u32, u32) {
        match self {
            Values::List(list) => {
                (list.iter().copied().min().unwrap_or(1), list.iter().copied().max().unwrap_or(1))
            }
            Values::Range { low, high } => (*low, *high),
        }
    }
}

const FORMS: &str = "`--knob isl=128..2048` for every length between two, `--knob osl=64,128,256` for a list";

impl FromStr for Knob {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let Some((name, values)) = text.split_once('=') else {
            return Err(ParseError::new(format!("`{text}` names no values")).hint(FORMS));
        };
        let dial = match name.trim() {
            "isl" => Dial::Isl,
            "osl" => Dial::Osl,
            load @ ("rate" | "concurrency" | "users") => {
                return Err(ParseError::new(format!("`{load}` is the load, which is searched anyway"))
                    .hint(format!("--over {load} names it; a knob is isl or osl")));
            }
            other => {
                return Err(
                    ParseError::new(format!("`{other}` is no knob")).hint("the knobs are isl and osl")
                );
            }
        };
        let values = read(dial, values.trim())?;
        Ok(Self { dial, text: format!("{}={}", dial.name(), text_of(text)), values })
    }
}

/// What stands behind the sign, without blanks.
fn text_of(text: &str) -> String {
    text.split_once('=').map_or(text, |(_, values)| values).replace(' ', "")
}

fn read(dial: Dial, text: &str) -> Result<Values, ParseError> {
    let name = dial.name();
    if text.split(',').any(|part| part.trim().is_empty()) {
        return Err(ParseError::new(format!("`{name}={text}` has an empty place")).hint(FORMS));
    }
    let range = text.split_once("..").filter(|(from, to)| !from.contains(',') && !to.contains([':', ',']));
    let values = match range {
        Some((from, to)) => {
            let (low, high) = (tokens(from)?, tokens(to)?);
            if low > high {
                return Err(ParseError::new(format!("`{name}={text}` begins above its end"))
                    .hint(format!("--knob {name}={high}..{low}")));
            }
            Values::Range { low, high }
        }
        None => {
            let points = loads::points(text, |part| tokens(part).map(f64::from))?;
            let mut list = Vec::new();
            for point in points {
                let value = point.value.round().max(1.0) as u32;
                if !list.contains(&value) {
                    list.push(value);
                }
            }
            Values::List(list)
        }
    };
    let (low, high) = values.ends();
    if low == high {
        return Err(ParseError::new(format!("`{name}={text}` is one value, and no knob"))
            .hint(format!("--{name} {low} sets it; {FORMS}")));
    }
    Ok(values)
}

fn tokens(text: &str) -> Result<u32, ParseError> {
    let text = text.trim();
    text.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(|| {
        ParseError::new(format!("`{text}` is no number of tokens, a whole number from 1 on")).hint(FORMS)
    })
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Knob> for String {
    fn from(knob: Knob) -> Self {
        knob.text
    }
}

impl TryFrom<String> for Knob {
    type Error = ParseError;
    fn try_from(text: String) -> Result<Self, ParseError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Values {
        text.parse::<Knob>().unwrap().values
    }

    #[test]
    fn ranges_and_the_lists_of_sweeps() {
        assert_eq!(values("isl=128..2048"), Values::Range { low: 128, high: 2048 });
        assert_eq!(values("osl=64, 128,256,64"), Values::List(vec![64, 128, 256]));
        assert_eq!(values("osl=64,128..256"), Values::List(vec![64, 128, 192, 256]));
        assert_eq!(values("isl=128..512:3"), Values::List(vec![128, 256, 512]));
        let knob: Knob = "isl = 128 .. 2048".parse().unwrap();
        assert_eq!((knob.dial, knob.to_string()), (Dial::Isl, "isl=128..2048".to_owned()));
        assert_eq!(knob.to_string().parse::<Knob>().unwrap(), knob);
    }

    #[test]
    fn what_is_no_knob_is_refused_with_what_would_be() {
        for (text, said) in [
            ("isl", "names no values"),
            ("speed=1..2", "the knobs are isl and osl"),
            ("concurrency=1..8", "--over concurrency"),
            ("isl=", "empty place"),
            ("isl=0..8", "from 1 on"),
            ("isl=8..1", "--knob isl=1..8"),
            ("osl=128", "--osl 128"),
            ("osl=128..128", "--osl 128"),
            ("osl=a..b", "no number of tokens"),
            ("osl=1,,2", "empty place"),
        ] {
            let error = text.parse::<Knob>().unwrap_err();
            assert!(format!("{error:?}").contains(said), "{text}: {error:?}");
        }
    }
}
