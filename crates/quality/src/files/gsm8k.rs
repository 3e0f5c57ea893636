//! GSM8K on the user's file.

use super::rows::{FileError, Row, rows};
use crate::benchmark::{Benchmark, Question, Score, Unit, Wording, mean_score, outcome, said};
use crate::score::{Method, gsm8k};
use crate::{Answer, Ask, Generate, Item, Outcome, Prompt};
use measure::interval::mean;
use serde_json::Value;
use std::collections::BTreeMap;

const METRIC: &str = "exact_match";
const MAX_TOKENS: u32 = 1024;
const METHODS: [Method; 3] = [gsm8k::STRICT, gsm8k::FLEXIBLE, gsm8k::OFFICIAL];

/// The task, zero-shot in this project's words. lm-evaluation-harness's own five-shot prompt comes with its
/// task file.
#[derive(Debug, Clone)]
pub struct Gsm8k {
    wording: Wording,
    questions: Vec<Question>,
}

impl Gsm8k {
    /// From the rows of openai/grade-school-math as JSON lines: `question`, and `answer` with "#### " before
    /// the number.
    pub fn new(text: &str) -> Result<Self, FileError> {
        let rows = rows(text)?;
        let questions =
            rows.iter().enumerate().map(|(at, row)| question(at, row)).collect::<Result<_, _>>()?;
        Ok(Self { wording: Wording::Own { version: 1 }, questions })
    }
}

fn question(at: usize, row: &Row) -> Result<Question, FileError> {
    let gold = row.text("answer")?;
    if gsm8k::official(gold).is_none() {
        return Err(row.error("expected `answer` to end with \"#### \" and a number"));
    }
    let content = format!(
        "{}\n\nShow the calculation in a few lines. Close with a line that holds #### , a space and the result \
         as a bare number, such as: #### 42",
        row.text("question")?
    );
    let generate = Generate::greedy(Prompt::of_user(content), MAX_TOKENS);
    Ok(Question {
        doc: at as u64,
        category: None,
        document: row.value(),
        target: Value::String(gold.to_owned()),
        asks: vec![Ask::Generate(generate)],
    })
}

impl Benchmark for Gsm8k {
    fn name(&self) -> &str {
        "gsm8k"
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
        let answer = answers.first().map_or("", said);
        let gold = question.target.as_str().unwrap_or_default();
        let mut outcomes = BTreeMap::new();
        for (method, taken) in
            [(gsm8k::STRICT, gsm8k::strict(answer)), (gsm8k::FLEXIBLE, gsm8k::flexible(answer))]
        {
            let right = f64::from(u8::from(gsm8k::matches(taken, gold)));
            outcomes.insert(method.name.to_owned(), outcome(taken.map(Value::from), METRIC, right));
        }
        let right = f64::from(u8::from(gsm8k::official_matches(answer, gold) == Some(true)));
        let taken = gsm8k::official(answer).map(Value::String);
        outcomes.insert(gsm8k::OFFICIAL.name.to_owned(), outcome(taken, METRIC, right));
        outcomes
    }

    fn scores(&self, items: &[&Item]) -> Vec<Score> {
        METHODS.iter().map(|method| mean_score(items, method.name, METRIC, None, Unit::Share, mean)).collect()
    }
}
