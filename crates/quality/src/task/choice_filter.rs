//! `multi_choice_regex`: a letter out of an answer, by a pattern, else by the text of a choice, else by a
//! letter after a colon.

use super::filter::selected;
use crate::python::{Pattern, strip};
use serde_json::{Map, Value};

#[derive(Debug, Clone)]
pub(super) struct ChoicePattern {
    pattern: Pattern,
    select: i64,
    pub fallback: String,
    ignore_case: bool,
    ignore_punctuation: bool,
    ignored: Vec<Pattern>,
    punctuation: Pattern,
}

/// With the choices of one document.
pub(super) struct Prepared<'a> {
    settings: &'a ChoicePattern,
    /// Cleaned text of each choice, and its letter in brackets.
    choices: Vec<(String, String)>,
    by_text: Pattern,
    by_letter: Pattern,
}

impl ChoicePattern {
    pub fn new(
        pattern: Pattern,
        select: i64,
        fallback: String,
        map: &Map<String, Value>,
    ) -> Result<Self, String> {
        let truth = |key: &str| map.get(key).and_then(Value::as_bool).unwrap_or(false);
        let ignored = match map.get("regexes_to_ignore") {
            None | Some(Value::Null) => Vec::new(),
            Some(list) => super::config::texts(Some(list)),
        };
        let compile = |source: &String| Pattern::new(source, false).map_err(|error| error.to_string());
        Ok(Self {
            pattern,
            select,
            fallback,
            ignore_case: truth("ignore_case"),
            ignore_punctuation: truth("ignore_punctuation"),
            ignored: ignored.iter().map(compile).collect::<Result<_, _>>()?,
            punctuation: Pattern::unicode_punctuation().map_err(|error| error.to_string())?,
        })
    }

    pub fn prepare(&self, document: &Value) -> Result<Prepared<'_>, String> {
        let list = document["choices"]
            .as_array()
            .ok_or("multi_choice_regex needs a list \"choices\" in the document")?;
        let mut choices: Vec<(String, String)> = Vec::new();
        let mut letters = Vec::new();
        for (choice, letter) in list.iter().zip('A'..) {
            let text = choice.as_str().ok_or("a choice is no text")?;
            choices.push((self.clean(strip(text))?, format!("({letter})")));
            letters.push(escape(&letter.to_string()));
        }
        // The longest first, since the first alternative that fits wins.
        let mut texts: Vec<String> = choices.iter().map(|(text, _)| escape(text)).collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.chars().count()));
        let compile = |source: String| Pattern::new(&source, false).map_err(|error| error.to_string());
        Ok(Prepared {
            settings: self,
            choices,
            by_text: compile(texts.join("|"))?,
            by_letter: compile(format!(r":[\s]*({})", letters.join("|")))?,
        })
    }

    fn clean(&self, text: &str) -> Result<String, String> {
        let mut text = text.to_owned();
        for pattern in &self.ignored {
            text = pattern.sub("", &text, 0).map_err(|error| error.to_string())?;
        }
        if self.ignore_case {
            text = text.to_lowercase();
        }
        if self.ignore_punctuation {
            text = self.punctuation.sub("", &text, 0).map_err(|error| error.to_string())?;
        }
        Ok(text)
    }
}

impl Prepared<'_> {
    pub fn find(&self, answer: &str) -> Result<String, String> {
        let settings = self.settings;
        let found = |pattern: &Pattern, text: &str| -> Result<Option<String>, String> {
            Ok(selected(pattern, settings.select, text)?.flatten().filter(|text| !text.is_empty()))
        };
        if let Some(text) = found(&settings.pattern, answer)? {
            return Ok(text);
        }
        if let Some(text) = found(&self.by_text, &settings.clean(answer)?)? {
            // Of equal texts the last choice counts.
            let named = self.choices.iter().rev().find(|(choice, _)| *choice == text);
            return Ok(named.map_or(text, |(_, letter)| letter.clone()));
        }
        match found(&self.by_letter, answer)? {
            Some(letter) => Ok(format!("({letter})")),
            None => Ok(settings.fallback.clone()),
        }
    }
}

/// `re.escape`.
fn escape(text: &str) -> String {
    let special = |c: &char| "()[]{}?*+-|^$\\.&~# \t\n\r\u{b}\u{c}".contains(*c);
    text.chars().flat_map(|c| Some('\\').filter(|_| special(&c)).into_iter().chain([c])).collect()
}
