//! RULER's own data files: what its `prepare.py` wrote, asked and scored as it does.

use super::rows::{FileError, Row, rows};
use crate::benchmark::{Benchmark, Question, Score, Unit, Wording, mean_score, outcome, said};
use crate::score::{Method, ruler};
use crate::{Answer, Ask, Generate, Hash, Item, Outcome, Prompt};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const METRIC: &str = "score";

/// One file of one task and length. Its prompts hold a model's chat template already and are sent as plain
/// text.
#[derive(Debug, Clone)]
pub struct RulerFile {
    name: String,
    wording: Wording,
    questions: Vec<Question>,
}

impl RulerFile {
    /// From JSON lines with `input`, `outputs` and, in newer versions, `answer_prefix`. `task` is RULER's name
    /// (`niah_single_1`, `qa_2`); it decides on the score and on how long an answer may be.
    pub fn new(text: &str, task: &str) -> Result<Self, FileError> {
        let max_tokens = max_tokens(task).ok_or_else(|| {
            FileError::File(format!(
                "{task:?} is no task of RULER: expected niah_*, vt, cwe, fwe, qa_1 or qa_2"
            ))
        })?;
        let rows = rows(text)?;
        let questions = rows
            .iter()
            .enumerate()
            .map(|(at, row)| question(at, row, max_tokens))
            .collect::<Result<_, _>>()?;
        let wording = Wording::Read {
            from: "NVIDIA/RULER, data of prepare.py".to_owned(),
            hash: Hash::of(text.as_bytes()),
        };
        Ok(Self { name: format!("ruler_official_{task}"), wording, questions })
    }

    fn is_qa(&self) -> bool {
        self.name.contains("_qa_")
    }
}

/// RULER's `tokens_to_generate`.
pub(crate) fn max_tokens(task: &str) -> Option<u32> {
    match task {
        "vt" => Some(30),
        "cwe" => Some(120),
        "fwe" => Some(50),
        "qa_1" | "qa_2" => Some(32),
        _ => task.starts_with("niah_").then_some(128),
    }
}

fn question(at: usize, row: &Row, max_tokens: u32) -> Result<Question, FileError> {
    let references = row.texts("outputs")?;
    if references.is_empty() {
        return Err(row.error("expected `outputs` to hold at least one text"));
    }
    let prefix = match row.get("answer_prefix") {
        Some(_) => row.text("answer_prefix")?,
        None => "",
    };
    let generate = Generate::greedy(Prompt::Text(format!("{}{prefix}", row.text("input")?)), max_tokens);
    Ok(Question {
        doc: at as u64,
        category: None,
        document: row.value(),
        target: json!(references),
        asks: vec![Ask::Generate(generate)],
    })
}

const SHARE: [Method; 1] = [ruler::ALL];
const QA: [Method; 2] = [ruler::PART, ruler::LM_EVAL_PART];

impl Benchmark for RulerFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn wording(&self) -> &Wording {
        &self.wording
    }

    fn methods(&self) -> &'static [Method] {
        if self.is_qa() { &QA } else { &SHARE }
    }

    fn questions(&self) -> &[Question] {
        &self.questions
    }

    fn outcomes(&self, question: &Question, answers: &[Answer]) -> BTreeMap<String, Outcome> {
        reference_outcomes(self.methods(), &question.target, answers)
    }

    fn scores(&self, items: &[&Item]) -> Vec<Score> {
        let score =
            |method: &Method| mean_score(items, method.name, METRIC, None, Unit::Percent, ruler::task_score);
        self.methods().iter().map(score).collect()
    }
}

/// Outcomes of an answer that should hold references.
pub(crate) fn reference_outcomes(
    methods: &[Method],
    target: &Value,
    answers: &[Answer],
) -> BTreeMap<String, Outcome> {
    let references: Vec<String> = target.as_array().map_or_else(Vec::new, |list| {
        list.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
    });
    let answer = ruler::postprocessed(answers.first().map_or("", said));
    let mut outcomes = BTreeMap::new();
    for method in methods {
        let score = if *method == ruler::PART { ruler::part } else { ruler::all };
        if let Some(score) = score(&answer, &references) {
            let taken = (!answer.is_empty()).then(|| Value::String(answer.clone()));
            outcomes.insert(method.name.to_owned(), outcome(taken, METRIC, score));
        }
    }
    outcomes
}
