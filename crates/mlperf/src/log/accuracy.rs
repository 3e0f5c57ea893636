//! `mlperf_log_accuracy.json`: answers, for the scorers of accuracy.

use std::fmt::Write;

use crate::Scenario;
use crate::draw::Draws;
use crate::effective::Effective;

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Its place among all samples that went out.
    pub sequence: u64,
    /// Which sample of the data set.
    pub index: u32,
    /// The answer's bytes: of a language model its tokens, whole numbers of 32 or 64 bits, the low byte
    /// first. Empty if the sample failed.
    pub data: Vec<u8>,
    /// The first token's bytes, where tokens are timed.
    pub first_token: Vec<u8>,
    /// How many tokens, where tokens are timed.
    pub tokens: u64,
}

/// The accuracy log of answers, in the order of completion.
pub fn accuracy(effective: &Effective, answers: &[Answer]) -> String {
    let tokens = effective.asked.use_token_latencies;
    let first = tokens && effective.scenario != Scenario::Offline;
    let mut out = String::from("[");
    for (i, answer) in answers.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "{comma}\n{{ \"seq_id\" : {}, \"qsl_idx\" : {}, \"data\" : \"{}\"",
            answer.sequence,
            answer.index,
            hex(&answer.data)
        );
        if first {
            let _ = write!(out, ", \"token_data\" : \"{}\"", hex(&answer.first_token));
        }
        if tokens {
            let _ = write!(out, ", \"token_count\" : {}", answer.tokens);
        }
        out.push_str(" }");
    }
    out.push_str("\n]\n");
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

/// Which samples of a timed run the accuracy log keeps: each with the same probability, drawn in the order
/// in which they were made.
#[derive(Debug, Clone)]
pub struct Kept {
    draws: Draws,
    offset: f64,
    share: f64,
}

impl Kept {
    /// For a run of these settings.
    pub fn new(effective: &Effective) -> Self {
        let offset = Draws::new(effective.asked.accuracy_log_rng_seed).canonical();
        // LoadGen never seeds this generator: it is std::mt19937 as it comes.
        Self { draws: Draws::new(5489), offset, share: effective.accuracy_log_share() }
    }

    /// Whether the next sample is kept.
    pub fn next_sample(&mut self) -> bool {
        let value = self.draws.canonical() + self.offset;
        let value = if value < 1.0 { value } else { value - 1.0 };
        value <= self.share
    }
}
