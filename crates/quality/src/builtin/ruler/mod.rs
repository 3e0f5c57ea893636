//! The thirteen shapes of RULER (Hsieh et al. 2024, `scripts/synthetic.yaml`), in this project's words.
//!
//! What differs from NVIDIA's program, besides the words: draws come from one generator for each question
//! (there, one for all, and fixed seeds in places); essays are the bundled text; no worked example stands before
//! `vt` and `cwe`; the answer has no prefix that the model goes on from, and more tokens; words of `cwe` are
//! two-part keys; a size that does not fit is an error and not an endless loop.

mod counts;
mod documents;
mod needles;
mod variables;

pub use documents::Documents;

use super::fit::{Budget, Made};
use super::{BuiltinError, Setup, VERSION, WORDING, chat, draws};
use crate::benchmark::{Benchmark, Question, Score, Unit, Wording, mean_score};
use crate::files::reference_outcomes;
use crate::score::{Method, ruler};
use crate::{Answer, Item, Outcome};
use needles::{Haystack, Needles, Value};
use serde_json::json;
use std::collections::BTreeMap;

/// One of RULER's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // named and described by RULER's own table
pub enum Shape {
    #[serde(rename = "niah_single_1")]
    NiahSingle1,
    #[serde(rename = "niah_single_2")]
    NiahSingle2,
    #[serde(rename = "niah_single_3")]
    NiahSingle3,
    #[serde(rename = "niah_multikey_1")]
    NiahMultikey1,
    #[serde(rename = "niah_multikey_2")]
    NiahMultikey2,
    #[serde(rename = "niah_multikey_3")]
    NiahMultikey3,
    NiahMultivalue,
    NiahMultiquery,
    Vt,
    Cwe,
    Fwe,
    #[serde(rename = "qa_1")]
    Qa1,
    #[serde(rename = "qa_2")]
    Qa2,
}

impl Shape {
    /// The eleven that need no data.
    pub const SYNTHETIC: [Self; 11] = [
        Self::NiahSingle1,
        Self::NiahSingle2,
        Self::NiahSingle3,
        Self::NiahMultikey1,
        Self::NiahMultikey2,
        Self::NiahMultikey3,
        Self::NiahMultivalue,
        Self::NiahMultiquery,
        Self::Vt,
        Self::Cwe,
        Self::Fwe,
    ];

    /// As RULER calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NiahSingle1 => "niah_single_1",
            Self::NiahSingle2 => "niah_single_2",
            Self::NiahSingle3 => "niah_single_3",
            Self::NiahMultikey1 => "niah_multikey_1",
            Self::NiahMultikey2 => "niah_multikey_2",
            Self::NiahMultikey3 => "niah_multikey_3",
            Self::NiahMultivalue => "niah_multivalue",
            Self::NiahMultiquery => "niah_multiquery",
            Self::Vt => "vt",
            Self::Cwe => "cwe",
            Self::Fwe => "fwe",
            Self::Qa1 => "qa_1",
            Self::Qa2 => "qa_2",
        }
    }

    /// Tokens of an answer. Without a prefix to go on from a model needs some more than RULER gives.
    const fn answer_tokens(self) -> u32 {
        match self {
            Self::Vt | Self::Qa1 | Self::Qa2 => 96,
            Self::Fwe => 80,
            Self::Cwe => 192,
            _ => 160,
        }
    }

    /// Needles, for the eight shapes that hide them.
    fn needles(self) -> Option<Needles> {
        let one =
            |haystack, value| Needles { haystack, key: Value::Word, value, keys: 1, values: 1, asked: 1 };
        Some(match self {
            Self::NiahSingle1 => one(Haystack::Noise, Value::Number),
            Self::NiahSingle2 => one(Haystack::Essay, Value::Number),
            Self::NiahSingle3 => one(Haystack::Essay, Value::Uuid),
            Self::NiahMultikey1 => Needles { keys: 4, ..one(Haystack::Essay, Value::Number) },
            Self::NiahMultikey2 => one(Haystack::Needles, Value::Number),
            Self::NiahMultikey3 => Needles { key: Value::Uuid, ..one(Haystack::Needles, Value::Uuid) },
            Self::NiahMultivalue => Needles { values: 4, ..one(Haystack::Essay, Value::Number) },
            Self::NiahMultiquery => Needles { keys: 4, asked: 4, ..one(Haystack::Essay, Value::Number) },
            _ => return None,
        })
    }
}

/// What the text of a question holds.
#[derive(Debug, Clone, PartialEq)]
struct About {
    references: Vec<String>,
}

/// One shape at one length.
#[derive(Debug, Clone)]
pub struct Ruler {
    name: String,
    shape: Shape,
    questions: Vec<Question>,
}

impl Ruler {
    /// `samples` questions of a synthetic shape whose prompt, answer, template and thinking have at most
    /// `length` tokens together, and nearly as many.
    pub fn synthetic(
        shape: Shape,
        length: usize,
        samples: usize,
        setup: Setup<'_>,
    ) -> Result<Self, BuiltinError> {
        Self::new(shape, length, samples, setup, None)
    }

    /// As [`Ruler::synthetic`] for `qa_1` and `qa_2`, on documents of the user.
    pub fn questions_on(
        shape: Shape,
        documents: &Documents,
        length: usize,
        samples: usize,
        setup: Setup<'_>,
    ) -> Result<Self, BuiltinError> {
        Self::new(shape, length, samples, setup, Some(documents))
    }

    fn new(
        shape: Shape,
        length: usize,
        samples: usize,
        setup: Setup<'_>,
        documents: Option<&Documents>,
    ) -> Result<Self, BuiltinError> {
        let answer_tokens = shape.answer_tokens().saturating_add(setup.thinking);
        let most = length.saturating_sub(setup.template).saturating_sub(answer_tokens as usize);
        let name = format!("ruler_{}_{length}", shape.name());
        let mut questions = Vec::with_capacity(samples);
        let mut size = None;
        for index in 0..samples as u64 {
            let mut make = |size: usize| {
                let mut random = draws(setup.seed, shape.name(), index);
                match (shape.needles(), shape, documents) {
                    (Some(needles), ..) => needles.make(&mut random, size),
                    (_, Shape::Vt, _) => variables::make(&mut random, size),
                    (_, Shape::Cwe, _) => counts::common_words(&mut random, size, length),
                    (_, Shape::Fwe, _) => counts::frequent_codes(&mut random, size, most),
                    (.., Some(documents)) => documents.make(&mut random, size, setup.seed, index),
                    _ => Err(BuiltinError::Unusable(format!(
                        "{} asks about the documents of a file: give one of SQuAD or HotpotQA",
                        shape.name()
                    ))),
                }
            };
            let sizes = match (shape.needles(), shape) {
                (Some(needles), _) => needles.sizes(),
                (_, Shape::Vt) => variables::SIZES,
                (_, Shape::Cwe) => (1, usize::MAX),
                (_, Shape::Fwe) => counts::CODE_SIZES,
                _ => documents.map_or((1, 1), Documents::sizes),
            };
            let budget = Budget { tokens: setup.tokens, most, sizes };
            let made = match size {
                None => {
                    let (largest, made) = budget.largest(&mut make)?;
                    size = Some(largest);
                    made
                }
                Some(size) => budget.near(size, &mut make)?,
            };
            questions.push(question(index, shape, length, setup.seed, answer_tokens, made));
        }
        Ok(Self { name, shape, questions })
    }

    /// The shape.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }
}

fn question(
    doc: u64,
    shape: Shape,
    length: usize,
    seed: u64,
    max_tokens: u32,
    made: Made<About>,
) -> Question {
    Question {
        doc,
        category: Some(length.to_string()),
        document: json!({
            "task": shape.name(), "length": length, "seed": seed, "index": doc, "version": VERSION,
        }),
        target: json!(made.about.references),
        asks: vec![chat(made.prompt, max_tokens)],
    }
}

const SHARE: [Method; 1] = [ruler::ALL];
const ANY: [Method; 1] = [ruler::PART];

impl Benchmark for Ruler {
    fn name(&self) -> &str {
        &self.name
    }

    fn wording(&self) -> &Wording {
        &WORDING
    }

    fn methods(&self) -> &'static [Method] {
        if matches!(self.shape, Shape::Qa1 | Shape::Qa2) { &ANY } else { &SHARE }
    }

    fn questions(&self) -> &[Question] {
        &self.questions
    }

    fn outcomes(&self, question: &Question, answers: &[Answer]) -> BTreeMap<String, Outcome> {
        reference_outcomes(self.methods(), &question.target, answers)
    }

    fn scores(&self, items: &[&Item]) -> Vec<Score> {
        let score =
            |method: &Method| mean_score(items, method.name, "score", None, Unit::Percent, ruler::task_score);
        self.methods().iter().map(score).collect()
    }
}
