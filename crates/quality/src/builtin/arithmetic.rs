//! Sums that a seed makes: does the model still reckon?

use super::{BuiltinError, Setup, VERSION, WORDING, chat, draws};
use crate::benchmark::{Benchmark, Question, Score, Unit, Wording, categories, mean_score, outcome, said};
use crate::score::Method;
use crate::{Answer, Item, Outcome};
use measure::interval::mean;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const METRIC: &str = "acc";
const ANSWER_TOKENS: u32 = 64;
/// The last number of the answer, without commas, equals the result.
const LAST_NUMBER: Method = Method { name: "last-number", version: 1, source: "inferometer" };
const METHODS: [Method; 1] = [LAST_NUMBER];

/// The task: additions, subtractions and products in turn, each from easy to hard.
#[derive(Debug, Clone)]
pub struct Arithmetic {
    questions: Vec<Question>,
}

impl Arithmetic {
    /// So many sums.
    pub fn new(samples: usize, setup: Setup<'_>) -> Result<Self, BuiltinError> {
        let questions = (0..samples as u64).map(|index| question(index, setup)).collect();
        Ok(Self { questions })
    }
}

fn question(index: u64, setup: Setup<'_>) -> Question {
    let mut random = draws(setup.seed, "arithmetic", index);
    let hard = index / 4 % 2 == 1;
    let mut number = |easy: i64, hard_to: i64| random.randint(2, if hard { hard_to } else { easy });
    let (kind, sum, result) = match index % 4 {
        0 => {
            let (a, b) = (number(99, 9_999), number(99, 9_999));
            ("plus", format!("{a} + {b}"), a + b)
        }
        1 => {
            let (a, b) = (number(99, 9_999), number(99, 9_999));
            ("minus", format!("{a} - {b}"), a - b)
        }
        2 => {
            let (a, b) = (number(12, 99), number(12, 99));
            ("times", format!("{a} * {b}"), a * b)
        }
        _ => {
            let (a, b, c) = (number(9, 99), number(9, 30), number(99, 999));
            ("two steps", format!("{a} * {b} + {c}"), a * b + c)
        }
    };
    let content = format!("{sum} = ?\nReply with the result as a bare number and nothing else.");
    Question {
        doc: index,
        category: Some(kind.to_owned()),
        document: json!({ "task": "arithmetic", "sum": sum, "version": VERSION }),
        target: json!(result),
        asks: vec![chat(content, ANSWER_TOKENS.saturating_add(setup.thinking))],
    }
}

/// The last run of digits, with commas between them and a minus before them.
fn last_number(text: &str) -> Option<i64> {
    let text = text.replace(',', "");
    let (head, _) = text.split_at(text.rfind(|c: char| c.is_ascii_digit())? + 1);
    let before = head.trim_end_matches(|c: char| c.is_ascii_digit());
    let start = before.strip_suffix('-').unwrap_or(before).len();
    head.get(start..)?.parse().ok()
}

impl Benchmark for Arithmetic {
    fn name(&self) -> &str {
        "arithmetic"
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
        let number = last_number(answers.first().map_or("", said));
        let right = number.is_some() && number == question.target.as_i64();
        let taken = number.map(Value::from);
        BTreeMap::from([(LAST_NUMBER.name.to_owned(), outcome(taken, METRIC, f64::from(u8::from(right))))])
    }

    fn scores(&self, items: &[&Item]) -> Vec<Score> {
        std::iter::once(None)
            .chain(categories(items).into_iter().map(Some))
            .map(|part| mean_score(items, LAST_NUMBER.name, METRIC, part, Unit::Share, mean))
            .collect()
    }
}
