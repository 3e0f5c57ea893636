//! Questions on documents of the user (`qa_1`, `qa_2`).

use super::About;
use crate::builtin::BuiltinError;
use crate::builtin::draws;
use crate::builtin::fit::Made;
use crate::files::FileError;
use crate::python::Random;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Documents, and questions that some of them answer.
#[derive(Debug, Clone)]
pub struct Documents {
    /// Distinct, sorted.
    texts: Vec<String>,
    questions: Vec<Query>,
}

#[derive(Debug, Clone)]
struct Query {
    text: String,
    answers: Vec<String>,
    /// Documents that must be there.
    needed: Vec<usize>,
}

#[derive(Deserialize)]
struct Squad {
    data: Vec<SquadTitle>,
}

#[derive(Deserialize)]
struct SquadTitle {
    paragraphs: Vec<SquadParagraph>,
}

#[derive(Deserialize)]
struct SquadParagraph {
    context: String,
    qas: Vec<SquadQuestion>,
}

#[derive(Deserialize)]
struct SquadQuestion {
    question: String,
    answers: Vec<SquadAnswer>,
    #[serde(default)]
    is_impossible: bool,
}

#[derive(Deserialize)]
struct SquadAnswer {
    text: String,
}

#[derive(Deserialize)]
struct Hotpot {
    question: String,
    answer: String,
    context: Vec<(String, Vec<String>)>,
}

impl Documents {
    /// SQuAD's own file (`dev-v2.0.json`, also version 1.1): `data`, `paragraphs`, `context`, `qas`. Questions
    /// without an answer are left out.
    pub fn squad(text: &str) -> Result<Self, FileError> {
        let file: Squad = serde_json::from_str(text).map_err(|error| unreadable("SQuAD", &error))?;
        let mut found = Vec::new();
        for paragraph in file.data.into_iter().flat_map(|title| title.paragraphs) {
            for question in paragraph.qas {
                if !question.is_impossible && !question.answers.is_empty() {
                    let answers = question.answers.into_iter().map(|answer| answer.text).collect();
                    found.push((question.question, answers, vec![paragraph.context.clone()]));
                }
            }
        }
        Self::new(found)
    }

    /// HotpotQA's own file (`hotpot_dev_distractor_v1.json`): a list with `question`, `answer`, `context`.
    pub fn hotpot(text: &str) -> Result<Self, FileError> {
        let list: Vec<Hotpot> = serde_json::from_str(text).map_err(|error| unreadable("HotpotQA", &error))?;
        let document = |(title, sentences): (String, Vec<String>)| format!("{title}\n{}", sentences.concat());
        Self::new(
            list.into_iter()
                .map(|one| (one.question, vec![one.answer], one.context.into_iter().map(document).collect()))
                .collect(),
        )
    }

    fn new(found: Vec<(String, Vec<String>, Vec<String>)>) -> Result<Self, FileError> {
        if found.is_empty() {
            return Err(FileError::File("the file has no questions with answers".to_owned()));
        }
        let mut places: BTreeMap<String, usize> =
            found.iter().flat_map(|(.., needed)| needed.iter().map(|text| (text.clone(), 0))).collect();
        for (place, slot) in places.values_mut().enumerate() {
            *slot = place;
        }
        let questions = found
            .into_iter()
            .map(|(text, answers, needed)| {
                let mut needed: Vec<usize> =
                    needed.iter().filter_map(|text| places.get(text).copied()).collect();
                needed.sort_unstable();
                needed.dedup();
                Query { text, answers, needed }
            })
            .collect();
        Ok(Self { texts: places.into_keys().collect(), questions })
    }

    /// Fewest and most documents beside the needed ones.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (0, self.texts.len())
    }

    /// The `index`-th question of an order drawn from `seed`, among its own documents and `size` others.
    pub(super) fn make(
        &self,
        random: &mut Random,
        size: usize,
        seed: u64,
        index: u64,
    ) -> Result<Made<About>, BuiltinError> {
        let count = self.questions.len();
        let order = draws(seed, "documents", 0).sample(count, count).unwrap_or_default();
        let query = usize::try_from(index)
            .ok()
            .and_then(|index| order.get(index))
            .and_then(|place| self.questions.get(*place))
            .ok_or_else(|| {
                BuiltinError::Unusable(format!(
                    "the file has {count} questions with answers; ask for no more"
                ))
            })?;
        let others: Vec<usize> =
            (0..self.texts.len()).filter(|place| !query.needed.contains(place)).collect();
        let drawn = random.sample(others.len(), size.min(others.len())).unwrap_or_default();
        let mut shown = query.needed.clone();
        shown.extend(drawn.into_iter().filter_map(|place| others.get(place)));
        random.shuffle(&mut shown);
        let documents: Vec<String> = shown
            .iter()
            .filter_map(|place| self.texts.get(*place))
            .enumerate()
            .map(|(at, text)| format!("[{}]\n{text}", at + 1))
            .collect();
        let prompt = format!(
            "Use the numbered documents to answer the question after them.\n\n{}\n\nQuestion: {}\nReply with the answer \
             alone, as short as can be.",
            documents.join("\n\n"),
            query.text
        );
        Ok(Made { prompt, about: About { references: query.answers.clone() } })
    }
}

fn unreadable(what: &str, error: &serde_json::Error) -> FileError {
    FileError::Row {
        place: format!("line {}", error.line()),
        what: format!("this is no file of {what} as it is published: {error}"),
    }
}
