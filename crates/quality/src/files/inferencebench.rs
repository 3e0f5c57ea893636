//! InferenceBench's quality questions: its cached samples, and which rows of MMLU-Pro it draws.

use super::mmlu_pro::{choice_outcomes, choice_scores};
use super::rows::{FileError, Row, rows};
use crate::benchmark::{Benchmark, Question, Score, Wording};
use crate::python::Random;
use crate::score::{Method, mmlu_pro};
use crate::{Answer, Ask, Generate, Hash, Item, Message, Outcome, Prompt};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The rows that InferenceBench asks: a reservoir sample of `k` of `rows` places, in the order of the
/// reservoir. Its defaults are `k` 500 and `seed` 248 over the 12,032 test rows of MMLU-Pro.
///
/// Source: aisa-group/InferenceBench 24cdf88, cache_samples.py `_reservoir_indices`.
#[must_use]
pub fn reservoir(rows: usize, k: usize, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    let mut chosen: Vec<usize> = (0..rows.min(k)).collect();
    for at in k..rows {
        let place = usize::try_from(random.below(at as u64 + 1)).unwrap_or(usize::MAX);
        if let Some(slot) = chosen.get_mut(place) {
            *slot = at;
        }
    }
    chosen
}

/// The samples file that InferenceBench's `cache_samples.py` writes, with its own prompts.
#[derive(Debug, Clone)]
pub struct InferenceBench {
    wording: Wording,
    questions: Vec<Question>,
}

impl InferenceBench {
    /// From JSON lines with `messages`, `gold_answer` (A to J), `max_new_tokens` and `temperature`.
    pub fn new(text: &str) -> Result<Self, FileError> {
        let rows = rows(text)?;
        let questions =
            rows.iter().enumerate().map(|(at, row)| question(at, row)).collect::<Result<_, _>>()?;
        let from = "aisa-group/InferenceBench, samples of cache_samples.py".to_owned();
        Ok(Self { wording: Wording::Read { from, hash: Hash::of(text.as_bytes()) }, questions })
    }
}

fn question(at: usize, row: &Row) -> Result<Question, FileError> {
    let letter = row.text("gold_answer")?;
    if !matches!(letter.as_bytes(), [b'A'..=b'J']) {
        return Err(row.error(format!("expected `gold_answer` to be a letter from A to J, got {letter:?}")));
    }
    let messages: Vec<Message> = row
        .get("messages")
        .and_then(|messages| serde_json::from_value(messages.clone()).ok())
        .filter(|messages: &Vec<Message>| !messages.is_empty())
        .ok_or_else(|| row.error("expected `messages` to be a list of objects with `role` and `content`"))?;
    let max_tokens = u32::try_from(row.whole("max_new_tokens")?)
        .map_err(|_| row.error("expected `max_new_tokens` to be a number of tokens"))?;
    let generate = Generate {
        temperature: row.get("temperature").and_then(Value::as_f64).unwrap_or(0.0),
        ..Generate::greedy(Prompt::Chat(messages), max_tokens)
    };
    Ok(Question {
        doc: at as u64,
        category: None,
        document: row.value(),
        target: json!({ "letter": letter }),
        asks: vec![Ask::Generate(generate)],
    })
}

const METHODS: [Method; 1] = [mmlu_pro::INFERENCE_BENCH];

impl Benchmark for InferenceBench {
    fn name(&self) -> &str {
        "mmlu_pro_inferencebench"
    }

    fn wording(&self) -> &Wording {
        &self.wording
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }

    fn questions(&self) -> &[Question] {
        &self.questions
    }

    fn outcomes(&self, question: &Question, answers: &[Answer]) -> BTreeMap<String, Outcome> {
        let mut outcomes = choice_outcomes(&question.target, answers);
        outcomes.retain(|name, _| name == mmlu_pro::INFERENCE_BENCH.name);
        outcomes
    }

    fn scores(&self, items: &[&Item]) -> Vec<Score> {
        choice_scores(&METHODS, items)
    }
}
