//! What is in a request: where texts come from, their lengths, and what they share.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is in a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Where prompts come from.
    pub source: Source,
    /// Input length in tokens of the prompt's content (without the server's template).
    pub isl: Lengths,
    /// Output length in tokens that is asked for.
    pub osl: Lengths,
    /// What prompts share, hence what a prefix cache can hit.
    pub cache: CacheProtocol,
    /// Who counts tokens on this side.
    pub tokenizer: TokenizerChoice,
}

/// Where prompts come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Made up: plausible text of an exact token length.
    Synthetic,
    /// JSON lines with `prompt` or `messages`, optionally `output_tokens` and extra body fields.
    Jsonl(PathBuf),
    /// A ShareGPT JSON array.
    Sharegpt(PathBuf),
}

/// A distribution of lengths in tokens. Draws are rounded and clamped to at least 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Lengths {
    /// Always this many.
    Fixed(u32),
    /// Every integer from `min` to `max`, both included, equally often.
    Uniform {
        /// Smallest.
        min: u32,
        /// Largest.
        max: u32,
    },
    /// Normal, clamped to `[1, max]`.
    Normal {
        /// Mean before clamping.
        mean: f64,
        /// Standard deviation before clamping.
        sd: f64,
        /// Largest.
        max: Option<u32>,
    },
    /// Log-normal with this mean and standard deviation (of the lengths, not of their logarithm).
    LogNormal {
        /// Mean before clamping.
        mean: f64,
        /// Standard deviation before clamping.
        sd: f64,
        /// Largest.
        max: Option<u32>,
    },
    /// Drawn with replacement from a text file: one integer a line.
    File(PathBuf),
    /// As the data set has them (output: natural, nothing asked).
    Data,
}

impl Lengths {
    /// Every length times `factor`, rounded, at least 1; `None`: they are in a file or a data set.
    pub fn scaled(&self, factor: f64) -> Option<Self> {
        let whole = |n: u32| (f64::from(n) * factor).round().clamp(1.0, f64::from(u32::MAX)) as u32;
        match self {
            Lengths::Fixed(n) => Some(Lengths::Fixed(whole(*n))),
            Lengths::Uniform { min, max } => Some(Lengths::Uniform { min: whole(*min), max: whole(*max) }),
            Lengths::Normal { mean, sd, max } => {
                Some(Lengths::Normal { mean: mean * factor, sd: sd * factor, max: max.map(whole) })
            }
            Lengths::LogNormal { mean, sd, max } => {
                Some(Lengths::LogNormal { mean: mean * factor, sd: sd * factor, max: max.map(whole) })
            }
            Lengths::File(_) | Lengths::Data => None,
        }
    }
}

/// What prompts share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheProtocol {
    /// Unique from the first token block on: no prefix can be hit.
    Unique,
    /// The first `tokens` of a prompt are one of `groups` prefixes.
    SharedPrefix {
        /// Shared tokens, part of the input length.
        tokens: u32,
        /// Number of different prefixes.
        groups: u32,
    },
    /// Only this many different prompts, used in turn.
    Repeat {
        /// Number of different prompts.
        prompts: u32,
    },
}

/// Who counts tokens on this side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TokenizerChoice {
    /// By the model's name: an embedded vocabulary where one fits, else none.
    Auto,
    /// An embedded vocabulary by name (`llama3`, `qwen2`, `o200k`, `cl100k`, …).
    Embedded(String),
    /// A local `tokenizer.json`, or a folder that holds one.
    File(PathBuf),
    /// None: the server's counts serve.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_scaled_where_they_are_numbers() {
        assert_eq!(Lengths::Fixed(512).scaled(1.2), Some(Lengths::Fixed(614)));
        assert_eq!(Lengths::Fixed(1).scaled(0.2), Some(Lengths::Fixed(1)));
        let uniform = Lengths::Uniform { min: 10, max: 20 };
        assert_eq!(uniform.scaled(0.8), Some(Lengths::Uniform { min: 8, max: 16 }));
        let normal = Lengths::Normal { mean: 100.0, sd: 10.0, max: Some(200) };
        assert_eq!(normal.scaled(0.5), Some(Lengths::Normal { mean: 50.0, sd: 5.0, max: Some(100) }));
        assert_eq!((Lengths::Data.scaled(1.2), Lengths::File("a".into()).scaled(1.2)), (None, None));
    }
}
