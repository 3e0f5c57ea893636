//! A perplexity with everything that it depends on.

use measure::interval::{mean, population_stddev};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bos, Windows};
use crate::Hash;

/// What a perplexity is counted by. Only bits a byte compare across tokenizers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Of the model's tokenizer.
    Token,
    /// Pieces between runs of white space, as lm-evaluation-harness counts them.
    Word,
    /// Of UTF-8.
    Byte,
}

/// Which perplexity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Definition {
    /// How the text was cut.
    pub windows: Windows,
    /// Where BOS stood; `never` for a model without one.
    pub bos: Bos,
    /// SHA-256 of the text.
    #[schemars(with = "String")]
    pub corpus: Hash,
    /// Tokens of the text.
    pub tokens: u64,
    /// Bytes of the text that was scored; `null`: not known.
    pub bytes: Option<u64>,
    /// Words of it.
    pub words: Option<u64>,
}

/// A perplexity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Perplexity {
    /// Which.
    pub definition: Definition,
    /// Tokens scored.
    pub scored: u64,
    /// exp(mean of −ln p), per token.
    pub value: f64,
    /// Its standard error, tokens taken as independent, as `llama-perplexity` prints it; `null` of one.
    pub se: Option<f64>,
    /// −Σ ln p / (bytes × ln 2); `null`: bytes are not known.
    pub bits_per_byte: Option<f64>,
}

impl Perplexity {
    /// By a unit: exp(−Σ ln p / units). `None`: their number is not known.
    pub fn by(&self, unit: Unit) -> Option<f64> {
        let units = match unit {
            Unit::Token => Some(self.scored),
            Unit::Word => self.definition.words,
            Unit::Byte => self.definition.bytes,
        };
        let nats = self.scored as f64 * self.value.ln();
        units.filter(|n| *n > 0).map(|n| (nats / n as f64).exp())
    }
}

/// Of the natural log-probabilities of the scored tokens; `None`: there are none, or one is no number.
pub fn perplexity(logprobs: &[f64], definition: Definition) -> Option<Perplexity> {
    if logprobs.iter().any(|p| !p.is_finite()) {
        return None;
    }
    let nll: Vec<f64> = logprobs.iter().map(|p| -p).collect();
    let (mean, n) = (mean(&nll)?, nll.len() as f64);
    let value = mean.exp();
    // ppl × √((mean(nll²) − mean(nll)²) / (n − 1)).
    let se = population_stddev(&nll).filter(|_| n > 1.0).map(|s| value * s / (n - 1.0).sqrt());
    let bits = |bytes: u64| n * mean / (bytes as f64 * std::f64::consts::LN_2);
    Some(Perplexity {
        scored: nll.len() as u64,
        value,
        se,
        bits_per_byte: definition.bytes.filter(|bytes| *bytes > 0).map(bits),
        definition,
    })
}
