//! Official wording, read from the user's own copy of a benchmark. None of it is kept here.

use super::rows::{FileError, kind};
use crate::Hash;
use crate::benchmark::Wording;
use crate::python::literal_eval;
use serde_json::Value;
use std::collections::BTreeMap;

/// The zero-shot layout of MMLU-Pro's `evaluate_from_local.py`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MmluProLayout {
    instruction: String,
    /// Before the question, behind it, before the options, an option with `{}` for letter and text, and the
    /// last line.
    pieces: [String; 5],
    hash: Hash,
}

impl MmluProLayout {
    /// From the texts of `evaluate_from_local.py` and `cot_prompt_lib/initial_prompt.txt`. The layout is what
    /// the function `format_cot_example` puts together.
    pub fn read(program: &str, instruction: &str) -> Result<Self, FileError> {
        let changed = |what: &str| {
            FileError::File(format!(
                "{what}; expected evaluate_from_local.py and cot_prompt_lib/initial_prompt.txt of \
                 TIGER-AI-Lab/MMLU-Pro at commit f418b11, or of one that lays out questions alike"
            ))
        };
        let body = program
            .split_once("def format_cot_example")
            .and_then(|(_, behind)| behind.split_once("return prompt"))
            .map(|(body, _)| body)
            .ok_or_else(|| changed("evaluate_from_local.py has no function format_cot_example"))?;
        // What is added to `prompt`, but for the part of worked examples.
        let added: Vec<&str> = body
            .lines()
            .map(str::trim)
            .filter_map(|line| line.strip_prefix("prompt = ").or_else(|| line.strip_prefix("prompt += ")))
            .filter(|right| !right.starts_with("cot_content"))
            .collect();
        let literal =
            |text: &str| literal_eval(text).ok().and_then(|value| value.as_str().map(str::to_owned));
        let pieces = match added.as_slice() {
            [before, question, options, option, last] => [
                literal(before),
                question.strip_prefix("question + ").and_then(literal),
                literal(options),
                option.strip_suffix(".format(choices[i], opt)").and_then(literal),
                literal(last),
            ],
            _ => [const { None }; 5],
        };
        let [Some(before), Some(behind), Some(options), Some(option), Some(last)] = pieces else {
            return Err(changed("format_cot_example puts the prompt together in another way"));
        };
        if option.matches("{}").count() != 2 || !instruction.contains("{$}") {
            return Err(changed("an option or the instruction has no place to fill in"));
        }
        // Python reads lines with `\n` for every kind of line end.
        let instruction = instruction.replace("\r\n", "\n");
        let hash = Hash::of(format!("{instruction}{body}").as_bytes());
        Ok(Self { instruction, pieces: [before, behind, options, option, last], hash })
    }

    /// The prompt of one question, without worked examples.
    pub(super) fn prompt(&self, question: &str, category: &str, options: &[String]) -> String {
        let [before, behind, head, option, last] = &self.pieces;
        let mut text = self.instruction.replace("{$}", category) + "\n" + before + question + behind + head;
        for (letter, content) in ('A'..='J').zip(options) {
            let mut parts = option.splitn(3, "{}");
            let mut part = || parts.next().unwrap_or_default();
            text.push_str(&format!("{}{letter}{}{content}{}", part(), part(), part()));
        }
        text + last
    }

    pub(super) fn wording(&self) -> Wording {
        Wording::Read {
            from: "TIGER-AI-Lab/MMLU-Pro evaluate_from_local.py, zero-shot".to_owned(),
            hash: self.hash.clone(),
        }
    }
}

/// LongBench v1's `config/dataset2prompt.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongBenchTemplates {
    by_set: BTreeMap<String, String>,
    hash: Hash,
}

impl LongBenchTemplates {
    /// From the text of that file: for each data set a template with `{context}` and `{input}`.
    pub fn read(text: &str) -> Result<Self, FileError> {
        let error = |what: String| FileError::File(format!("dataset2prompt.json: {what}"));
        let value: Value = serde_json::from_str(text).map_err(|refusal| error(refusal.to_string()))?;
        let Value::Object(map) = &value else {
            return Err(error(format!("expected an object of templates, got {}", kind(&value))));
        };
        let mut by_set = BTreeMap::new();
        for (name, template) in map {
            let template = template
                .as_str()
                .filter(|template| template.contains("{context}"))
                .ok_or_else(|| error(format!("expected a template with {{context}} for {name:?}")))?;
            by_set.insert(name.clone(), template.to_owned());
        }
        Ok(Self { by_set, hash: Hash::of(text.as_bytes()) })
    }

    /// The template of a data set; LongBench-E has that of its plain sibling.
    pub(super) fn of(&self, set: &str) -> Result<&str, FileError> {
        self.by_set.get(set.strip_suffix("_e").unwrap_or(set)).map(String::as_str).ok_or_else(|| {
            let known: Vec<&str> = self.by_set.keys().map(String::as_str).collect();
            FileError::File(format!(
                "dataset2prompt.json has no template for {set:?}; it has {}",
                known.join(", ")
            ))
        })
    }

    pub(super) fn wording(&self) -> Wording {
        Wording::Read {
            from: "THUDM/LongBench config/dataset2prompt.json".to_owned(),
            hash: self.hash.clone(),
        }
    }
}

/// LongBench v2's `prompts/0shot.txt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongBenchV2Template {
    template: String,
    hash: Hash,
}

impl LongBenchV2Template {
    /// What the official program replaces.
    pub(super) const PLACES: [&str; 6] = ["$DOC$", "$Q$", "$C_A$", "$C_B$", "$C_C$", "$C_D$"];

    /// From the text of that file.
    pub fn read(text: &str) -> Result<Self, FileError> {
        match Self::PLACES.iter().find(|place| !text.contains(*place)) {
            Some(place) => Err(FileError::File(format!("0shot.txt: expected a template with {place}"))),
            None => Ok(Self { template: text.replace("\r\n", "\n"), hash: Hash::of(text.as_bytes()) }),
        }
    }

    /// Filled in one after the other, as the official program does.
    pub(super) fn prompt(&self, fields: &[&str; 6]) -> String {
        Self::PLACES
            .iter()
            .zip(fields)
            .fold(self.template.clone(), |text, (place, field)| text.replace(place, field))
    }

    pub(super) fn wording(&self) -> Wording {
        Wording::Read { from: "THUDM/LongBench prompts/0shot.txt".to_owned(), hash: self.hash.clone() }
    }
}
