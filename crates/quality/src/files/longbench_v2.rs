//! LongBench v2 on the user's file.

use super::official::LongBenchV2Template;
use super::overlong::{Counts, Cut, Fit};
use super::rows::{FileError, Row, rows};
use crate::benchmark::{Benchmark, Question, Score, Unit, Wording, outcome, said, values};
use crate::python::strip;
use crate::score::{Method, longbench_v2};
use crate::{Answer, Ask, Generate, Item, Outcome, Prompt};
use serde_json::Value;
use std::collections::BTreeMap;

const METRIC: &str = "acc";
const MAX_TOKENS: u32 = 128;
/// Of the official program.
const TEMPERATURE: f64 = 0.1;
const METHODS: [Method; 2] = [longbench_v2::OFFICIAL, longbench_v2::OFFICIAL_COMPENSATED];

/// The task, without a chain of thought.
#[derive(Debug, Clone)]
pub struct LongBenchV2 {
    wording: Wording,
    questions: Vec<Question>,
    counts: Counts,
}

impl LongBenchV2 {
    /// From the rows of the official file (one JSON list, or JSON lines): `question`, `choice_A` to `choice_D`,
    /// `answer`, `context`, `difficulty`, `length`. With `template` the prompt and temperature are the official
    /// ones, else this project's words and 0.
    pub fn new(text: &str, template: Option<&LongBenchV2Template>, fit: Fit<'_>) -> Result<Self, FileError> {
        let mut counts = Counts::default();
        let mut questions = Vec::new();
        for (at, row) in rows(text)?.iter().enumerate() {
            questions.extend(question(at, row, template, fit, &mut counts)?);
        }
        let wording = template.map_or(Wording::Own { version: 1 }, LongBenchV2Template::wording);
        Ok(Self { wording, questions, counts })
    }

    /// Prompts above the budget.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

fn question(
    at: usize,
    row: &Row,
    template: Option<&LongBenchV2Template>,
    fit: Fit<'_>,
    counts: &mut Counts,
) -> Result<Option<Question>, FileError> {
    let names = ["context", "question", "choice_A", "choice_B", "choice_C", "choice_D"];
    let mut fields = [""; 6];
    for (field, name) in fields.iter_mut().zip(names) {
        *field = strip(row.text(name)?);
    }
    let letter = row.text("answer")?;
    if !matches!(letter, "A" | "B" | "C" | "D") {
        return Err(row.error(format!("expected `answer` to be A, B, C or D, got {letter:?}")));
    }
    let category = format!("{}/{}", row.text("difficulty")?, row.text("length")?);
    let prompt = template.map_or_else(|| own(&fields), |template| template.prompt(&fields));
    let Some(content) = fit.apply(prompt, Cut::Ids, counts, |what| row.error(what))? else { return Ok(None) };
    let generate = Generate {
        temperature: if template.is_some() { TEMPERATURE } else { 0.0 },
        ..Generate::greedy(Prompt::of_user(content), MAX_TOKENS)
    };
    Ok(Some(Question {
        doc: at as u64,
        category: Some(category),
        document: row.value(),
        target: Value::from(letter),
        asks: vec![Ask::Generate(generate)],
    }))
}

/// In this project's words.
fn own([context, question, a, b, c, d]: &[&str; 6]) -> String {
    format!(
        "{context}\n\nThat was the material. One of four options answers this question about it: {question}\n\
         (A) {a}\n(B) {b}\n(C) {c}\n(D) {d}\n\nReply with one sentence of the form: The correct answer is (X)."
    )
}

/// Difficulty and length of an item, as the official table counts them.
fn kinds(item: &Item) -> [&'static str; 2] {
    let category = item.category.as_deref().unwrap_or_default();
    let (difficulty, length) = category.split_once('/').unwrap_or_default();
    let length = match length {
        "short" => "short",
        "medium" => "medium",
        _ => "long",
    };
    [if difficulty == "easy" { "easy" } else { "hard" }, length]
}

impl Benchmark for LongBenchV2 {
    fn name(&self) -> &str {
        match self.wording {
            Wording::Own { .. } => "longbench_v2",
            Wording::Read { .. } => "longbench_v2_official",
        }
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
        let letter = longbench_v2::official(answers.first().map_or("", said)).map(String::from);
        let right = f64::from(u8::from(letter.as_deref() == question.target.as_str()));
        let compensated = if letter.is_none() { longbench_v2::COMPENSATION } else { right };
        METHODS
            .iter()
            .zip([right, compensated])
            .map(|(method, score)| {
                (method.name.to_owned(), outcome(letter.clone().map(Value::String), METRIC, score))
            })
            .collect()
    }

    /// As the official table: overall, easy and hard, short, medium and long. What is neither easy nor short
    /// nor medium counts as hard and long, as there.
    fn scores(&self, items: &[&Item]) -> Vec<Score> {
        let parts = [None, Some("easy"), Some("hard"), Some("short"), Some("medium"), Some("long")];
        let mut scores = Vec::new();
        for method in METHODS {
            for part in parts {
                let belongs = |item: &&Item| part.is_none_or(|part| kinds(item).contains(&part));
                let chosen: Vec<&Item> = items.iter().copied().filter(belongs).collect();
                let points: Vec<f64> = values(&chosen, method.name, METRIC).map(|(_, value)| value).collect();
                let sum = points.iter().fold(0.0, |sum, one| sum + one);
                scores.push(Score {
                    method: method.name.to_owned(),
                    metric: METRIC.to_owned(),
                    part: part.map(str::to_owned),
                    value: longbench_v2::percent(sum, points.len() as u64),
                    unit: Unit::Percent,
                    items: points.len() as u64,
                    failed: chosen.iter().filter(|item| item.failed()).count() as u64,
                });
            }
        }
        scores
    }
}
