//! What a maximisation asks for most of.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ParseError, nearest};

/// A throughput that can be maximised, per second (definitions §5, §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Output tokens of requests that ended well.
    OutputTokenThroughput,
    /// Input and output tokens of requests that ended well.
    TotalTokenThroughput,
    /// Requests that ended well.
    RequestThroughput,
    /// Requests that ended well within every limit.
    Goodput,
}

impl Objective {
    /// All of them, in the order in which they are offered.
    pub const ALL: [Objective; 4] = [
        Objective::OutputTokenThroughput,
        Objective::TotalTokenThroughput,
        Objective::RequestThroughput,
        Objective::Goodput,
    ];

    /// The name used in files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Objective::OutputTokenThroughput => "output_token_throughput",
            Objective::TotalTokenThroughput => "total_token_throughput",
            Objective::RequestThroughput => "request_throughput",
            Objective::Goodput => "goodput",
        }
    }

    /// The unit of its values.
    pub fn unit(self) -> &'static str {
        match self {
            Objective::OutputTokenThroughput => "output tokens/s",
            Objective::TotalTokenThroughput => "tokens/s",
            Objective::RequestThroughput => "requests/s",
            Objective::Goodput => "good requests/s",
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Objective {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let name = text.trim();
        let names = Objective::ALL.map(Objective::name);
        Objective::ALL.into_iter().find(|objective| objective.name() == name).ok_or_else(|| {
            let error = ParseError::new(format!("`{name}` is no throughput that can be maximised"));
            error.hint(match nearest(name, names) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("one of {}", names.join(", ")),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_slips_are_recognised() {
        for objective in Objective::ALL {
            assert_eq!(objective.name().parse(), Ok(objective));
        }
        let hint = |text: &str| text.parse::<Objective>().unwrap_err().hint.unwrap();
        assert_eq!(hint("output_token_troughput"), "did you mean output_token_throughput?");
        assert!(hint("p95(ttft)").contains("goodput"));
    }
}
