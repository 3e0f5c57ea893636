//! LongBench v1 on the user's files.

use super::official::LongBenchTemplates;
use super::overlong::{Counts, Cut, Fit};
use super::rows::{FileError, Row, rows};
use crate::benchmark::{Benchmark, Question, Score, Unit, Wording, categories, mean_score, outcome, said};
use crate::python::strip;
use crate::score::Method;
use crate::score::longbench::{self, Category, DATA_SETS, DataSet, Metric};
use crate::{Answer, Ask, Generate, Item, Outcome, Prompt};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const METRIC: &str = "score";
const WORDING_VERSION: u32 = 1;

/// One data set.
#[derive(Debug, Clone)]
pub struct LongBench {
    name: String,
    set: &'static DataSet,
    wording: Wording,
    questions: Vec<Question>,
    counts: Counts,
}

impl LongBench {
    /// From the JSON lines of one data set: `input`, `context`, `answers`, `all_classes`, `length`, `dataset`.
    /// With `templates` the prompt is the official one, else in this project's words.
    pub fn new(text: &str, templates: Option<&LongBenchTemplates>, fit: Fit<'_>) -> Result<Self, FileError> {
        let rows = rows(text)?;
        let Some(first) = rows.first() else {
            return Err(FileError::File("the file has no rows".to_owned()));
        };
        let name = first.text("dataset")?;
        let set = longbench::data_set(name).ok_or_else(|| {
            let known: Vec<&str> = DATA_SETS.iter().map(|set| set.name).collect();
            first.error(format!("{name:?} is no data set of LongBench; known are {}", known.join(", ")))
        })?;
        if set.metric == Metric::NeedsJieba {
            return Err(FileError::File(longbench::Unscored::NeedsJieba(name.to_owned()).to_string()));
        }
        let mut counts = Counts::default();
        let mut questions = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            if row.text("dataset")? != name {
                return Err(row.error(format!("expected `dataset` to be {name:?} as in the first row")));
            }
            questions.extend(question(at, row, set, templates, fit, &mut counts)?);
        }
        let wording =
            templates.map_or(Wording::Own { version: WORDING_VERSION }, LongBenchTemplates::wording);
        let kind = if templates.is_some() { "_official" } else { "" };
        Ok(Self { name: format!("longbench_{name}{kind}"), set, wording, questions, counts })
    }

    /// Prompts above the budget.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Where the data set's score is averaged.
    #[must_use]
    pub fn category(&self) -> Category {
        self.set.category
    }
}

fn question(
    at: usize,
    row: &Row,
    set: &DataSet,
    templates: Option<&LongBenchTemplates>,
    fit: Fit<'_>,
    counts: &mut Counts,
) -> Result<Option<Question>, FileError> {
    let answers = row.texts("answers")?;
    let classes = match row.get("all_classes") {
        Some(_) => row.texts("all_classes")?,
        None => Vec::new(),
    };
    // What a bad reference would cost is known before a server is asked.
    longbench::score(set, longbench::OFFICIAL, "", &answers, &classes)
        .map_err(|refusal| row.error(refusal.to_string()))?;
    let prompt = match templates {
        Some(templates) => filled(templates.of(row.text("dataset")?)?, row)?,
        None => own(set, row.text("context")?, row.text("input")?, &classes),
    };
    let Some(prompt) = fit.apply(prompt, Cut::Texts, counts, |what| row.error(what))? else {
        return Ok(None);
    };
    let prompt = if set.plain { Prompt::Text(prompt) } else { Prompt::of_user(prompt) };
    // The official program stops samsum at a newline behind some text; its score reads no further either way.
    let generate = Generate::greedy(prompt, set.max_tokens);
    Ok(Some(Question {
        doc: at as u64,
        category: row.get("length").and_then(Value::as_u64).map(|words| longbench::bucket(words).to_owned()),
        document: row.value(),
        target: json!({ "answers": answers, "classes": classes }),
        asks: vec![Ask::Generate(generate)],
    }))
}

/// Python's `str.format` with the row's fields.
fn filled(template: &str, row: &Row) -> Result<String, FileError> {
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, behind) = rest.split_at(at);
        out.push_str(before);
        rest = if let Some(behind) = behind.strip_prefix("{{") {
            out.push('{');
            behind
        } else if let Some(behind) = behind.strip_prefix("}}") {
            out.push('}');
            behind
        } else if let Some((name, behind)) = behind.strip_prefix('{').and_then(|inner| inner.split_once('}'))
        {
            out.push_str(row.text(name)?);
            behind
        } else {
            return Err(FileError::File(format!("dataset2prompt.json: a lone brace in {template:?}")));
        };
    }
    Ok(out + rest)
}

/// In this project's words.
fn own(set: &DataSet, context: &str, input: &str, classes: &[String]) -> String {
    let task = match (set.category, set.metric) {
        (Category::Summarization, _) if strip(input).is_empty() => {
            "Summarise the text above in one paragraph.".to_owned()
        }
        (Category::Summarization, _) => format!("From the text above, answer with a short summary: {input}"),
        (Category::Code, _) => {
            return format!("{context}{input}");
        }
        (Category::FewShot, Metric::Classification) => {
            format!("Go on after these examples. Possible types: {}.\n{input}", classes.join("; "))
        }
        (Category::FewShot, _) => format!("Go on after these examples.\n{input}"),
        (Category::Synthetic, Metric::Count) => {
            "Some of the paragraphs above are repeated. How many different ones are there? Reply with a number \
             alone."
                .to_owned()
        }
        (Category::Synthetic, Metric::RetrievalZh) => {
            format!("Which paragraph does this summary belong to? Reply in the form 段落3.\n{input}")
        }
        (Category::Synthetic, _) => {
            format!("Which paragraph does this summary belong to? Reply in the form Paragraph 3.\n{input}")
        }
        _ => format!("Answer from the text above, in a few words and nothing else.\nQuestion: {input}\nAnswer:"),
    };
    format!("{context}\n\n{task}")
}

const METHODS: [Method; 2] = [longbench::OFFICIAL, longbench::LM_EVAL];
const CODE: [Method; 3] = [longbench::OFFICIAL, longbench::OFFICIAL_INDEL, longbench::LM_EVAL];

impl Benchmark for LongBench {
    fn name(&self) -> &str {
        &self.name
    }

    fn wording(&self) -> &Wording {
        &self.wording
    }

    fn methods(&self) -> &'static [Method] {
        if self.set.metric == Metric::CodeSim { &CODE } else { &METHODS }
    }

    fn questions(&self) -> &[Question] {
        &self.questions
    }

    fn outcomes(&self, question: &Question, answers: &[Answer]) -> BTreeMap<String, Outcome> {
        let answer = answers.first().map_or("", said);
        let texts = |key: &str| -> Vec<String> {
            question
                .target
                .get(key)
                .and_then(|list| serde_json::from_value(list.clone()).ok())
                .unwrap_or_default()
        };
        let (references, classes) = (texts("answers"), texts("classes"));
        let mut outcomes = BTreeMap::new();
        for method in self.methods() {
            let answer = if *method == longbench::LM_EVAL { strip(answer) } else { answer };
            // A refusal was an error of the file already.
            if let Ok(score) = longbench::score(self.set, *method, answer, &references, &classes) {
                let taken = (!answer.is_empty()).then(|| Value::from(answer));
                outcomes.insert(method.name.to_owned(), outcome(taken, METRIC, score));
            }
        }
        outcomes
    }

    /// Percent of the data set, and of each of LongBench-E's buckets.
    fn scores(&self, items: &[&Item]) -> Vec<Score> {
        let parts = categories(items);
        self.methods()
            .iter()
            .flat_map(|method| {
                std::iter::once(None).chain(parts.iter().map(|part| Some(*part))).map(|part| {
                    mean_score(items, method.name, METRIC, part, Unit::Percent, longbench::set_score)
                })
            })
            .collect()
    }
}
