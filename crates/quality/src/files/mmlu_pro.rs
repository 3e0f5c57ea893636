//! MMLU-Pro on the user's file.

use super::official::MmluProLayout;
use super::rows::{FileError, Row, rows};
use crate::benchmark::{
    Benchmark, Question, Score, Unit, Wording, categories, mean_score, outcome, said, values,
};
use crate::python::Random;
use crate::score::{Method, mmlu_pro};
use crate::{Answer, Ask, Generate, Item, Outcome, Prompt};
use measure::interval::mean;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const METRIC: &str = "acc";
/// The seed of the official program's guesses.
const GUESS_SEED: u64 = 12345;
/// Most tokens of an answer in the official program.
const MAX_TOKENS: u32 = 2048;
const WORDING_VERSION: u32 = 1;

/// What the model reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MmluProPrompt {
    /// This project's words, zero-shot, for chat.
    Own,
    /// The official program's, from the user's copy: zero-shot plain text, which stops at "Question:".
    Official(MmluProLayout),
}

/// The task.
#[derive(Debug, Clone)]
pub struct MmluPro {
    wording: Wording,
    questions: Vec<Question>,
}

impl MmluPro {
    /// From the rows of the official test split as JSON lines or a JSON list: `question`, `options` (2 to 10),
    /// `answer` (a letter), `category`. Options "N/A" are dropped, as the official program does. With `only`
    /// the rows at these places are asked, in that order.
    pub fn new(text: &str, prompt: &MmluProPrompt, only: Option<&[usize]>) -> Result<Self, FileError> {
        let rows = rows(text)?;
        let count = rows.len();
        let all: Vec<usize> = (0..count).collect();
        let questions = only
            .unwrap_or(&all)
            .iter()
            .map(|&at| {
                let row = rows.get(at).ok_or_else(|| {
                    FileError::File(format!("row {} is asked for, but the file has {count} rows", at + 1))
                })?;
                question(at, row, prompt)
            })
            .collect::<Result<_, _>>()?;
        let wording = match prompt {
            MmluProPrompt::Own => Wording::Own { version: WORDING_VERSION },
            MmluProPrompt::Official(layout) => layout.wording(),
        };
        Ok(Self { wording, questions })
    }
}

fn question(at: usize, row: &Row, prompt: &MmluProPrompt) -> Result<Question, FileError> {
    let text = row.text("question")?;
    let category = row.text("category")?;
    let options: Vec<String> = row.texts("options")?.into_iter().filter(|option| option != "N/A").collect();
    if !(2..=10).contains(&options.len()) {
        return Err(row.error(format!("expected 2 to 10 `options`, got {}", options.len())));
    }
    let letter = row.text("answer")?;
    let gold = match letter.as_bytes() {
        [byte @ b'A'..=b'J'] if usize::from(byte - b'A') < options.len() => byte - b'A',
        _ => {
            return Err(row.error(format!(
                "expected `answer` to be the letter of one of {} options, got {letter:?}",
                options.len()
            )));
        }
    };
    let ask = match prompt {
        MmluProPrompt::Own => Generate::greedy(Prompt::of_user(own(text, category, &options)), MAX_TOKENS),
        MmluProPrompt::Official(layout) => Generate {
            stop: vec!["Question:".to_owned()],
            ..Generate::greedy(Prompt::Text(layout.prompt(text, category, &options)), MAX_TOKENS)
        },
    };
    Ok(Question {
        doc: at as u64,
        category: Some(category.to_owned()),
        document: row.value(),
        target: json!({ "letter": letter, "index": gold, "options": options.len() }),
        asks: vec![Ask::Generate(ask)],
    })
}

/// Zero-shot, in this project's words.
fn own(question: &str, category: &str, options: &[String]) -> String {
    let mut text = format!(
        "Below is an exam question ({category}) with its options; one of them is right. Reason first, in a few \
         short steps. Then end with a line of the form: The answer is (X). Put the letter of your option for \
         X.\n\n{question}\n"
    );
    for (letter, option) in ('A'..='J').zip(options) {
        text.push_str(&format!("\n({letter}) {option}"));
    }
    text
}

const METHODS: [Method; 3] = [mmlu_pro::OFFICIAL, mmlu_pro::LM_EVAL, mmlu_pro::INFERENCE_BENCH];

impl Benchmark for MmluPro {
    fn name(&self) -> &str {
        match self.wording {
            Wording::Own { .. } => "mmlu_pro",
            Wording::Read { .. } => "mmlu_pro_official",
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
        choice_outcomes(&question.target, answers)
    }

    fn scores(&self, items: &[&Item]) -> Vec<Score> {
        let mut scores = choice_scores(&METHODS, items);
        scores.push(guessed(items));
        scores
    }
}

/// Outcomes of a question with a letter, by all methods.
pub(super) fn choice_outcomes(target: &Value, answers: &[Answer]) -> BTreeMap<String, Outcome> {
    let answer = answers.first().map_or("", said);
    let wanted = target.get("letter").and_then(Value::as_str).unwrap_or_default();
    let letters = [mmlu_pro::official(answer), mmlu_pro::lm_eval(answer), mmlu_pro::inference_bench(answer)];
    let mut outcomes = BTreeMap::new();
    for (method, letter) in METHODS.iter().zip(letters) {
        let letter = letter.map(String::from);
        let right = f64::from(u8::from(letter.as_deref() == Some(wanted)));
        let mut one = outcome(letter.map(Value::String), METRIC, right);
        if let (mmlu_pro::OFFICIAL, Value::Object(target)) = (*method, target) {
            one.parts = target.clone();
        }
        outcomes.insert(method.name.to_owned(), one);
    }
    outcomes
}

/// Accuracy by category and over all items, for each method.
pub(super) fn choice_scores(methods: &[Method], items: &[&Item]) -> Vec<Score> {
    let parts: Vec<Option<&str>> =
        std::iter::once(None).chain(categories(items).into_iter().map(Some)).collect();
    methods
        .iter()
        .flat_map(|method| {
            parts.iter().map(|part| mean_score(items, method.name, METRIC, *part, Unit::Share, mean))
        })
        .collect()
}

/// Accuracy with a guess for each answer without a letter, drawn in the order of the documents.
fn guessed(items: &[&Item]) -> Score {
    let mut random = Random::new(GUESS_SEED);
    let mut sorted: Vec<&Item> = items.to_vec();
    sorted.sort_by_key(|item| (item.doc, item.repeat));
    let name = mmlu_pro::OFFICIAL.name;
    let points: Vec<f64> = values(&sorted, name, METRIC)
        .map(|(item, value)| {
            let Some(outcome) = item.outcomes.get(name).filter(|outcome| outcome.extracted.is_none()) else {
                return value;
            };
            let part = |key: &str| outcome.parts.get(key).and_then(Value::as_i64).unwrap_or(0);
            f64::from(u8::from(random.randint(0, part("options") - 1) == part("index")))
        })
        .collect();
    Score {
        method: mmlu_pro::OFFICIAL_GUESSED.name.to_owned(),
        metric: METRIC.to_owned(),
        part: None,
        value: mean(&points),
        unit: Unit::Share,
        items: points.len() as u64,
        failed: items.iter().filter(|item| item.failed()).count() as u64,
    }
}
