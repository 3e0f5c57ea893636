//! The bundled text, scored: bits per byte, by paragraphs.

use super::{BuiltinError, VERSION, WORDING, pieces};
use crate::benchmark::{Benchmark, Question, Score, Unit, Wording};
use crate::score::Method;
use crate::{Answer, Ask, Item, Outcome};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const METRIC: &str = "bits_per_byte";
/// −Σ log₂ p over all pieces / Σ bytes: comparable across tokenizers. The window is the server's caller's.
const BITS_PER_BYTE: Method = Method { name: "bits-per-byte", version: 1, source: "inferometer" };
const METHODS: [Method; 1] = [BITS_PER_BYTE];
/// Length of a piece, at least.
const PIECE_BYTES: usize = 2000;

/// The task. It needs a server that can score a text.
#[derive(Debug, Clone)]
pub struct Perplexity {
    questions: Vec<Question>,
}

impl Perplexity {
    /// The first `samples` pieces of about 2,000 bytes.
    pub fn new(samples: usize) -> Result<Self, BuiltinError> {
        let pieces = pieces(PIECE_BYTES);
        if samples > pieces.len() {
            return Err(BuiltinError::Unusable(format!(
                "the bundled text has {} pieces; ask for no more",
                pieces.len()
            )));
        }
        let question = |(at, text): (usize, &str)| Question {
            doc: at as u64,
            category: None,
            document: json!({ "task": "perplexity", "text": text, "version": VERSION }),
            target: Value::Null,
            asks: vec![Ask::Rolling { text: text.to_owned() }],
        };
        Ok(Self { questions: pieces.into_iter().take(samples).enumerate().map(question).collect() })
    }
}

impl Benchmark for Perplexity {
    fn name(&self) -> &str {
        "perplexity"
    }

    fn wording(&self) -> &Wording {
        &WORDING
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }

    fn questions(&self) -> &[Question] {
        &self.questions
    }

    fn outcomes(&self, question: &Question, answers: &[Answer]) -> BTreeMap<String, Outcome> {
        let (Some(Ask::Rolling { text }), Some(Answer::Scored(scored))) =
            (question.asks.first(), answers.first())
        else {
            return BTreeMap::new();
        };
        let bits = -scored.logprob / std::f64::consts::LN_2;
        let mut outcome = Outcome::default();
        outcome.scores.insert(METRIC.to_owned(), bits / text.len() as f64);
        outcome.parts.insert("bits".to_owned(), json!(bits));
        outcome.parts.insert("bytes".to_owned(), json!(text.len()));
        outcome.parts.insert("tokens".to_owned(), json!(scored.tokens));
        BTreeMap::from([(BITS_PER_BYTE.name.to_owned(), outcome)])
    }

    fn scores(&self, items: &[&Item]) -> Vec<Score> {
        let part = |item: &Item, key: &str| item.outcomes.get(BITS_PER_BYTE.name)?.parts.get(key)?.as_f64();
        let (mut bits, mut bytes, mut count) = (0.0, 0.0, 0);
        for item in items {
            if let (Some(more_bits), Some(more_bytes)) = (part(item, "bits"), part(item, "bytes")) {
                (bits, bytes, count) = (bits + more_bits, bytes + more_bytes, count + 1);
            }
        }
        vec![Score {
            method: BITS_PER_BYTE.name.to_owned(),
            metric: METRIC.to_owned(),
            part: None,
            value: (bytes > 0.0).then(|| bits / bytes),
            unit: Unit::BitsPerByte,
            items: count,
            failed: items.iter().filter(|item| item.failed()).count() as u64,
        }]
    }
}
