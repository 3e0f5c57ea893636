//! Answers in a wanted form: does the model still do as it is told?

use super::words::keys;
use super::{BuiltinError, Setup, VERSION, WORDING, chat, draws};
use crate::benchmark::{Benchmark, Question, Score, Unit, Wording, categories, mean_score, outcome, said};
use crate::score::Method;
use crate::{Answer, Item, Outcome};
use measure::interval::mean;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const METRIC: &str = "obeyed";
const ANSWER_TOKENS: u32 = 128;
/// The whole answer has the form and the content, but for white space around it.
const STRICT: Method = Method { name: "strict", version: 1, source: "inferometer" };
/// As [`STRICT`], within one code fence if there is one.
const FENCED: Method = Method { name: "within-fence", version: 1, source: "inferometer" };
const METHODS: [Method; 2] = [STRICT, FENCED];

/// The task: JSON objects, dates, sorted lists, bullet lists and capitals in turn.
#[derive(Debug, Clone)]
pub struct Format {
    questions: Vec<Question>,
}

impl Format {
    /// So many answers.
    pub fn new(samples: usize, setup: Setup<'_>) -> Result<Self, BuiltinError> {
        let questions = (0..samples as u64).map(|index| question(index, setup)).collect::<Result<_, _>>()?;
        Ok(Self { questions })
    }
}

fn question(index: u64, setup: Setup<'_>) -> Result<Question, BuiltinError> {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let mut random = draws(setup.seed, "format", index);
    let words = keys(&mut random, 3).ok_or(BuiltinError::TooLong)?;
    let [one, two, three] = words.as_slice() else { return Err(BuiltinError::TooLong) };
    let (kind, content, expected) = match index % 5 {
        0 => {
            let count = random.randint(2, 99);
            let content = format!(
                "Order: {count} pieces of {one}, in stock.\nReply with one JSON object and nothing else. Its keys are \
                 \"item\" (text), \"count\" (number) and \"in_stock\" (true or false)."
            );
            ("json", content, json!({ "item": one, "count": count, "in_stock": true }))
        }
        1 => {
            let (day, month, year) =
                (random.randint(1, 28), random.randint(1, 12), random.randint(1950, 2049));
            let name = MONTHS.get((month - 1) as usize).unwrap_or(&"");
            let content = format!("Write the date {day} {name} {year} as YYYY-MM-DD. Reply with that alone.");
            ("date", content, json!(format!("{year:04}-{month:02}-{day:02}")))
        }
        2 => {
            let mut numbers: Vec<i64> = (0..5).map(|_| random.randint(10, 99)).collect();
            let list = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
            let given = list(&numbers);
            numbers.sort_unstable();
            let content = format!(
                "Sort these numbers from small to large: {given}\nReply with them on one line, commas between them and no spaces."
            );
            ("list", content, json!(list(&numbers)))
        }
        3 => {
            let content = format!(
                "Make a list of these three, in this order: {one}, {two}, {three}. Reply with three lines and nothing \
                 else; each begins with \"- \"."
            );
            ("bullets", content, json!(format!("- {one}\n- {two}\n- {three}")))
        }
        _ => {
            let content = format!("Reply with this in capital letters and nothing else: {one}");
            ("capitals", content, json!(one.to_uppercase()))
        }
    };
    Ok(Question {
        doc: index,
        category: Some(kind.to_owned()),
        document: json!({ "task": "format", "question": content, "version": VERSION }),
        target: expected,
        asks: vec![chat(content, ANSWER_TOKENS.saturating_add(setup.thinking))],
    })
}

/// Whether a text is what was wanted: the same text, line ends and trailing spaces aside, or the same JSON.
fn obeys(text: &str, wanted: &Value) -> bool {
    match wanted {
        Value::String(wanted) => text.trim().lines().map(str::trim_end).eq(wanted.lines()),
        wanted => serde_json::from_str::<Value>(text.trim()).is_ok_and(|value| value == *wanted),
    }
}

/// What stands within the first code fence, else the whole.
fn unfenced(text: &str) -> &str {
    let inside =
        text.split_once("```").and_then(|(_, rest)| rest.split_once("```")).map(|(inside, _)| inside);
    inside.and_then(|inside| inside.split_once('\n')).map_or(text, |(_, inside)| inside)
}

impl Benchmark for Format {
    fn name(&self) -> &str {
        "format"
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
        [(STRICT, answer), (FENCED, unfenced(answer))]
            .into_iter()
            .map(|(method, text)| {
                let right = f64::from(u8::from(obeys(text, &question.target)));
                let taken = (!text.trim().is_empty()).then(|| Value::from(text.trim()));
                (method.name.to_owned(), outcome(taken, METRIC, right))
            })
            .collect()
    }

    fn scores(&self, items: &[&Item]) -> Vec<Score> {
        let parts = categories(items);
        METHODS
            .iter()
            .flat_map(|method| {
                std::iter::once(None)
                    .chain(parts.iter().map(|part| Some(*part)))
                    .map(|part| mean_score(items, method.name, METRIC, part, Unit::Share, mean))
            })
            .collect()
    }
}
