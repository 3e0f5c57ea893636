//! Needle in a haystack (after Kamradt 2023): one needle at each depth of each length, and the heat map.

use super::fit::{Budget, Made};
use super::text::sentences;
use super::words::{keys, numbers};
use super::{BuiltinError, Setup, TEXT, VERSION, WORDING, chat, draws};
use crate::benchmark::{
    Benchmark, Question, Score, Unit, Wording, categories, mean_score, outcome, said, values,
};
use crate::python::round_half_even;
use crate::score::{Method, needle};
use crate::tokens::{Tokens, TokensError};
use crate::{Answer, Hash, Item, Outcome};
use measure::interval::mean;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const METRIC: &str = "found";
const METHODS: [Method; 1] = [needle::SUBSTRING];
const ANSWER_TOKENS: u32 = 96;

/// Lengths and depths of a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct NiahGrid {
    /// Tokens of prompt, answer, template and thinking together.
    pub lengths: Vec<usize>,
    /// Where the needle stands, in percent of the haystack.
    pub depths: Vec<f64>,
}

/// Where exactly a needle goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Behind the last sentence that ends at or before the depth, by characters.
    SentenceEnd,
    /// As the original program, by tokens: see [`insert_official`].
    Original,
}

/// `count` whole numbers from `first` to `last` at equal steps, halves rounded to even: the original's lengths and
/// its linear depths.
#[must_use]
pub fn linear(first: f64, last: f64, count: usize) -> Vec<f64> {
    let step = (last - first) / count.saturating_sub(1).max(1) as f64;
    let point = |at: usize| if at > 0 && at + 1 == count { last } else { at as f64 * step + first };
    (0..count).map(|at| round_half_even(point(at))).collect()
}

/// The original's "sigmoid" depths, three decimals: 0 and 100 at the ends, between them 100 / (1 + e^(0.1(x−50)))
/// of linear x, which *falls* from about 99 to about 1.
#[must_use]
pub fn sigmoid(count: usize) -> Vec<f64> {
    let step = 100.0 / count.saturating_sub(1).max(1) as f64;
    let depth = |at: usize| match at {
        0 => 0.0,
        at if at + 1 == count => 100.0,
        at => crate::python::round_to(100.0 / (1.0 + (0.1 * (at as f64 * step - 50.0)).exp()), 3),
    };
    (0..count).map(depth).collect()
}

/// Where the original puts a needle: the context is cut so that both have at most `length` − `buffer` tokens;
/// the needle goes to the token at `depth` percent and from there back to behind the last token that is one of
/// `periods`, or to the beginning. At 100 % it goes to the very end.
///
/// Only tokens that *are* a period count: after one such as `."` the needle goes further back than the sentence.
pub fn insert_official(
    tokens: &dyn Tokens,
    context: &str,
    needle: &str,
    depth: f64,
    length: usize,
    buffer: usize,
) -> Result<String, TokensError> {
    let needle = tokens.encode(needle)?;
    let mut context = tokens.encode(context)?;
    let length = length.saturating_sub(buffer);
    if context.len() + needle.len() > length {
        context.truncate(length.saturating_sub(needle.len()));
    }
    let mut at = context.len();
    if depth < 100.0 {
        let periods = tokens.encode(".")?;
        at = (context.len() as f64 * (depth / 100.0)) as usize;
        while at > 0 && context.get(at - 1).is_none_or(|before| !periods.contains(before)) {
            at -= 1;
        }
    }
    let behind = context.split_off(at.min(context.len()));
    tokens.decode(&[context, needle, behind].concat())
}

/// The task.
#[derive(Debug, Clone)]
pub struct Niah {
    questions: Vec<Question>,
}

impl Niah {
    /// One question for each length and depth. The haystack is the bundled text, or `haystack`, from its
    /// beginning and again and again.
    pub fn new(
        grid: &NiahGrid,
        haystack: Option<&str>,
        placement: Placement,
        setup: Setup<'_>,
    ) -> Result<Self, BuiltinError> {
        let text = haystack.unwrap_or(TEXT);
        let hay = Hay { text, sentences: sentences(text), tokens: setup.tokens.count(text)?, placement };
        if hay.sentences.is_empty() || hay.tokens == 0 {
            return Err(BuiltinError::Unusable("the haystack has no sentence".to_owned()));
        }
        if let Some(depth) = grid.depths.iter().find(|depth| !(0.0..=100.0).contains(*depth)) {
            return Err(BuiltinError::Unusable(format!(
                "a depth is a percentage from 0 to 100, got {depth}"
            )));
        }
        let source = Hash::of(text.as_bytes());
        let answer_tokens = ANSWER_TOKENS.saturating_add(setup.thinking);
        let mut questions = Vec::new();
        for &length in &grid.lengths {
            let most = length.saturating_sub(setup.template).saturating_sub(answer_tokens as usize);
            let mut size = None;
            for &depth in &grid.depths {
                let index = questions.len() as u64;
                let mut random = draws(setup.seed, "niah", index);
                let (key, code) = (keys(&mut random, 1), numbers(&mut random, 1));
                let (Some([key]), Some([code])) = (key.as_deref(), code.as_deref()) else {
                    return Err(BuiltinError::TooLong);
                };
                let prompt = hay.prompt(key, code, depth, most, &mut size, setup.tokens)?;
                questions.push(Question {
                    doc: index,
                    category: Some(Cell::name(length, depth)),
                    document: json!({
                        "task": "niah", "length": length, "depth": depth, "seed": setup.seed, "haystack": source,
                        "placement": placement, "version": VERSION,
                    }),
                    target: json!([code]),
                    asks: vec![chat(prompt, answer_tokens)],
                });
            }
        }
        Ok(Self { questions })
    }
}

/// What needles are hidden in.
struct Hay<'a> {
    text: &'a str,
    sentences: Vec<&'a str>,
    tokens: usize,
    placement: Placement,
}

impl Hay<'_> {
    /// A prompt of at most `most` tokens. `size` keeps how much hay fitted the same length before.
    fn prompt(
        &self,
        key: &str,
        code: &str,
        depth: f64,
        most: usize,
        size: &mut Option<usize>,
        tokens: &dyn Tokens,
    ) -> Result<String, BuiltinError> {
        let needle = format!("The code of the {key} locker is {code}.");
        let question = format!(
            "\n\nWhat is the code of the {key} locker? The text above says it. Reply with the code alone."
        );
        if self.placement == Placement::Original {
            let context = self.text.repeat(most / self.tokens + 1);
            let needle = format!("\n{needle}\n");
            let least = tokens.count(&needle)? + 1;
            let mut make = |size: usize| {
                let text = insert_official(tokens, &context, &needle, depth, size, 0)?;
                Ok(Made { prompt: text + &question, about: () })
            };
            let room = most.saturating_sub(tokens.count(&question)?);
            let budget = Budget { tokens, most, sizes: (least, usize::MAX) };
            return Ok(budget.near(room, &mut make)?.prompt);
        }
        let mut make = |count: usize| {
            let hay: Vec<&str> = self.sentences.iter().copied().cycle().take(count).collect();
            let (before, behind) = hay.split_at(place(&hay, depth));
            let (before, behind) = (before.concat(), behind.concat());
            let prompt = format!("{}{needle} {}{question}", joined(&before), behind.trim_end());
            Ok(Made { prompt, about: () })
        };
        let budget = Budget { tokens, most, sizes: (1, usize::MAX) };
        if let Some(size) = *size {
            return Ok(budget.near(size, &mut make)?.prompt);
        }
        let (largest, made) = budget.largest(&mut make)?;
        *size = Some(largest);
        Ok(made.prompt)
    }
}

/// The text before a needle, with white space at its end.
fn joined(before: &str) -> String {
    if before.is_empty() || before.ends_with(char::is_whitespace) {
        before.to_owned()
    } else {
        format!("{before} ")
    }
}

/// How many sentences stand before the needle: as many as end within `depth` percent of the characters.
fn place(sentences: &[&str], depth: f64) -> usize {
    let all: usize = sentences.iter().map(|one| one.len()).sum();
    let limit = all as f64 * depth / 100.0;
    let mut end = 0usize;
    sentences
        .iter()
        .take_while(|one| {
            end += one.len();
            end as f64 <= limit
        })
        .count()
}

/// One field of a heat map.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// In tokens.
    pub length: usize,
    /// In percent.
    pub depth: f64,
    /// Share of needles found; `None` where no answer came.
    pub score: Option<f64>,
    /// Answers behind the score.
    pub items: u64,
    /// Questions without an answer.
    pub failed: u64,
}

impl Cell {
    fn name(length: usize, depth: f64) -> String {
        format!("{length} tokens, depth {depth} %")
    }

    fn parse(name: &str) -> Option<(usize, f64)> {
        let (length, depth) = name.split_once(" tokens, depth ")?;
        Some((length.parse().ok()?, depth.strip_suffix(" %")?.parse().ok()?))
    }
}

/// The fields of a grid from its items, by length, then depth.
#[must_use]
pub fn heat_map(items: &[&Item]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = categories(items)
        .into_iter()
        .filter_map(|name| {
            let (length, depth) = Cell::parse(name)?;
            let chosen: Vec<&Item> =
                items.iter().copied().filter(|item| item.category.as_deref() == Some(name)).collect();
            let found: Vec<f64> =
                values(&chosen, needle::SUBSTRING.name, METRIC).map(|(_, value)| value).collect();
            let failed = chosen.iter().filter(|item| item.failed()).count() as u64;
            Some(Cell { length, depth, score: mean(&found), items: found.len() as u64, failed })
        })
        .collect();
    cells.sort_by(|a, b| a.length.cmp(&b.length).then(a.depth.total_cmp(&b.depth)));
    cells
}

impl Benchmark for Niah {
    fn name(&self) -> &str {
        "niah"
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
        let answer = answers.first().map_or("", said);
        let phrases: Vec<String> = serde_json::from_value(question.target.clone()).unwrap_or_default();
        let found = f64::from(u8::from(needle::found(answer, &phrases)));
        let taken = (!answer.trim().is_empty()).then(|| Value::from(answer.trim()));
        BTreeMap::from([(needle::SUBSTRING.name.to_owned(), outcome(taken, METRIC, found))])
    }

    fn scores(&self, items: &[&Item]) -> Vec<Score> {
        vec![mean_score(items, needle::SUBSTRING.name, METRIC, None, Unit::Share, mean)]
    }
}
