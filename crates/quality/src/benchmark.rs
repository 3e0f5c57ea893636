//! What tasks outside of lm-evaluation-harness's files have in common: questions, their judgement and scores.

use crate::python::json_dumps;
use crate::score::Method;
use crate::{Answer, Ask, Hash, Item, Outcome, Prompt};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One document with all that is asked of a server about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The place of the document in its file or its draw.
    pub doc: u64,
    /// A group within the task.
    pub category: Option<String>,
    /// What the question is made of. Journals are paired on its hash.
    pub document: Value,
    /// What is wanted.
    pub target: Value,
    /// What is asked, in order.
    pub asks: Vec<Ask>,
}

/// A task: its questions, and what answers to them are worth.
pub trait Benchmark {
    /// Unique among tasks; it names the prompt's wording, too, where that is not the usual one.
    fn name(&self) -> &str;
    /// Whose words the model reads.
    fn wording(&self) -> &Wording;
    /// How answers are scored: the keys of the outcomes.
    fn methods(&self) -> &'static [Method];
    /// All questions, in order.
    fn questions(&self) -> &[Question];
    /// Outcomes of one question by method, none of its answers having failed.
    fn outcomes(&self, question: &Question, answers: &[Answer]) -> BTreeMap<String, Outcome>;
    /// Scores over items, as the methods' programs print them. Failed items have no score and count in
    /// [`Score::failed`].
    fn scores(&self, items: &[&Item]) -> Vec<Score>;

    /// The item that a journal keeps. If an answer failed there are no outcomes.
    fn judge(&self, question: &Question, answers: Vec<Answer>) -> Item {
        let mut item = Item {
            task: self.name().to_owned(),
            doc: question.doc,
            repeat: 0,
            doc_hash: hash(&question.document),
            prompt_hash: prompt_hash(&question.asks),
            target_hash: hash(&question.target),
            category: question.category.clone(),
            asks: question.asks.clone(),
            answers,
            outcomes: BTreeMap::new(),
        };
        if !item.failed() && item.answers.len() == item.asks.len() {
            item.outcomes = self.outcomes(question, &item.answers);
        }
        item
    }
}

/// Whose words a prompt has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wording {
    /// This project's. Scores compare with those of this tool only.
    Own {
        /// Raised with every change of a word.
        version: u32,
    },
    /// Read from the user's copy of another program.
    Read {
        /// Which program and file.
        from: String,
        /// Of the text that was read.
        hash: Hash,
    },
}

impl std::fmt::Display for Wording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own { version } => {
                write!(f, "own wording, version {version}: scores compare with those of inferometer only")
            }
            Self::Read { from, hash } => write!(f, "wording of {from} (sha256 {})", hash.0),
        }
    }
}

/// One number over items.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// Of the method, or of the filter.
    pub method: String,
    /// What is counted.
    pub metric: String,
    /// A part of the items: a category, a length.
    pub part: Option<String>,
    /// `None` where no item has one.
    pub value: Option<f64>,
    /// Of the value.
    pub unit: Unit,
    /// Items behind the value.
    pub items: u64,
    /// Items without an answer; not in the value.
    pub failed: u64,
}

/// What a score's value is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// In [0, 1].
    Share,
    /// In [0, 100], rounded as the method's program prints it.
    Percent,
    /// Bits for each byte of UTF-8; less is better.
    BitsPerByte,
}

/// What of an answer is scored: what stands behind the last `</think>`, and nothing of one whose thinking never
/// ends.
#[must_use]
pub fn said(answer: &Answer) -> &str {
    let Answer::Generated(generated) = answer else { return "" };
    match generated.text.rsplit_once("</think>") {
        Some((_, behind)) => behind,
        None if generated.text.trim_start().starts_with("<think>") => "",
        None => &generated.text,
    }
}

/// The outcome of one metric.
pub(crate) fn outcome(extracted: Option<Value>, metric: &str, score: f64) -> Outcome {
    Outcome { extracted, scores: BTreeMap::from([(metric.to_owned(), score)]), parts: serde_json::Map::new() }
}

/// The scores that items have under a method's metric.
pub(crate) fn values<'a>(
    items: &'a [&Item],
    method: &'a str,
    metric: &'a str,
) -> impl Iterator<Item = (&'a Item, f64)> {
    items.iter().filter_map(move |item| Some((*item, *item.outcomes.get(method)?.scores.get(metric)?)))
}

/// The mean of a metric over items as `round` has it, for all of them (`part` is `None`) or for one category.
pub(crate) fn mean_score(
    items: &[&Item],
    method: &str,
    metric: &str,
    part: Option<&str>,
    unit: Unit,
    mean: impl Fn(&[f64]) -> Option<f64>,
) -> Score {
    let chosen: Vec<&Item> = items
        .iter()
        .copied()
        .filter(|item| part.is_none_or(|part| item.category.as_deref() == Some(part)))
        .collect();
    let values: Vec<f64> = values(&chosen, method, metric).map(|(_, value)| value).collect();
    Score {
        method: method.to_owned(),
        metric: metric.to_owned(),
        part: part.map(str::to_owned),
        value: mean(&values),
        unit,
        items: values.len() as u64,
        failed: chosen.iter().filter(|item| item.failed()).count() as u64,
    }
}

/// The categories of items, each once, sorted.
pub(crate) fn categories<'a>(items: &[&'a Item]) -> Vec<&'a str> {
    let mut all: Vec<&str> = items.iter().filter_map(|item| item.category.as_deref()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// SHA-256 of a document, written as lm-evaluation-harness writes it for its own hash.
fn hash(value: &Value) -> Hash {
    Hash::of(json_dumps(value, Some(2)).as_bytes())
}

/// Of the text of a single plain prompt, else of all that is asked.
fn prompt_hash(asks: &[Ask]) -> Hash {
    match asks {
        [Ask::Generate(generate)] => match &generate.prompt {
            Prompt::Text(text) => Hash::of(text.as_bytes()),
            Prompt::Chat(turns) => Hash::of(serde_json::to_string(turns).unwrap_or_default().as_bytes()),
        },
        asks => Hash::of(serde_json::to_string(asks).unwrap_or_default().as_bytes()),
    }
}
