//! What is taken out of a model's answers before they are scored.

use super::choice_filter::ChoicePattern;
use crate::python::{Pattern, strip};
use serde_json::{Map, Value};

/// What a pattern gives where it finds nothing.
pub(super) const INVALID: &str = "[invalid]";

/// Filters in order, under the name that their scores carry.
#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    pub name: String,
    steps: Vec<Filter>,
}

/// One filter. All work on the answers to one request, of which there may be several.
#[derive(Debug, Clone)]
enum Filter {
    Regex { pattern: Pattern, select: i64, fallback: String },
    Choices(ChoicePattern),
    TakeFirst,
    TakeFirstK(usize),
    MajorityVote,
    RemoveWhitespace,
    Lowercase,
    Uppercase,
    Map { mapping: Map<String, Value>, default: Value },
}

/// The answers to one request on their way through the filters: a list, or, once one was taken, a value.
#[derive(Debug, Clone, PartialEq)]
enum Answers {
    All(Vec<Value>),
    One(Value),
}

impl Pipeline {
    /// `filter_list`; without one the first answer is taken, under the name `none`.
    pub fn list(value: Option<&Value>, repeats: u32) -> Result<Vec<Self>, String> {
        let list = match value {
            None | Some(Value::Null) => {
                return Ok(vec![Self { name: "none".to_owned(), steps: vec![Filter::TakeFirst] }]);
            }
            Some(Value::Array(list)) if !list.is_empty() => list,
            Some(_) => return Err("`filter_list` is no list of filters".to_owned()),
        };
        let mut pipelines: Vec<Self> = Vec::new();
        for entry in list {
            let name = entry["name"].as_str().ok_or("an entry of `filter_list` has no `name`")?;
            let steps = entry["filter"]
                .as_array()
                .ok_or_else(|| format!("the filter {name:?} has no list `filter`"))?;
            let steps = steps.iter().map(Filter::new).collect::<Result<Vec<_>, _>>();
            let steps = steps.map_err(|error| format!("the filter {name:?}: {error}"))?;
            let takes = steps.iter().position(|step| matches!(step, Filter::TakeFirst));
            if takes.is_some_and(|at| at + 1 < steps.len()) {
                return Err(format!("the filter {name:?}: nothing can follow take_first"));
            }
            if let Some(Filter::TakeFirstK(k)) = steps.iter().find(|step| step.wants() > repeats as usize) {
                return Err(format!(
                    "the filter {name:?}: take_first_k wants {k} answers; `repeats` gives {repeats}"
                ));
            }
            if pipelines.iter().any(|known| known.name == name) {
                return Err(format!("two filters are named {name:?}"));
            }
            pipelines.push(Self { name: name.to_owned(), steps });
        }
        Ok(pipelines)
    }

    /// Whether it does nothing but take the first answer: all that scores can bear.
    pub fn takes_first(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Filter::TakeFirst))
    }

    /// What is left of the answers to one request. `document` gives the choices where a filter needs them.
    pub fn apply(&self, answers: &[&str], document: &Value) -> Result<Value, String> {
        let mut now = Answers::All(answers.iter().map(|text| Value::from(*text)).collect());
        for step in &self.steps {
            now = step.apply(now, document)?;
        }
        Ok(match now {
            Answers::One(value) => value,
            Answers::All(list) => Value::Array(list),
        })
    }

    /// Whether a value is what a pattern gives where it finds nothing.
    pub fn unparsed(&self, value: &Value) -> bool {
        self.steps.iter().any(|step| match step {
            Filter::Regex { fallback, .. } => value.as_str() == Some(fallback),
            Filter::Choices(choices) => value.as_str() == Some(&choices.fallback),
            Filter::Map { default, .. } => value == default,
            _ => false,
        })
    }
}

impl Filter {
    /// Answers that it cannot do without.
    fn wants(&self) -> usize {
        if let Self::TakeFirstK(k) = self { *k } else { 0 }
    }

    fn new(entry: &Value) -> Result<Self, String> {
        let map = entry.as_object().ok_or("a step is no map")?;
        let name = match map.get("function") {
            Some(Value::String(name)) => name.as_str(),
            Some(other) => {
                let named = super::yaml::function(other).unwrap_or("a value that is no name");
                return Err(format!("`function` is {named}, and Python is not run here"));
            }
            None => return Err("a step names no `function`".to_owned()),
        };
        let text = |key: &str, default: &str| match map.get(key) {
            None => Ok(default.to_owned()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(format!("`{key}` is no text")),
        };
        let pattern = || {
            Pattern::new(&text("regex_pattern", r"#### (\-?[0-9\.\,]+)")?, false).map_err(|e| e.to_string())
        };
        let select = || match map.get("group_select") {
            None => Ok(0),
            Some(value) => value.as_i64().ok_or("`group_select` is no whole number"),
        };
        let known: &[&str] = match name {
            "regex" => &["regex_pattern", "group_select", "fallback"],
            "multi_choice_regex" => &[
                "regex_pattern",
                "group_select",
                "fallback",
                "ignore_case",
                "ignore_punctuation",
                "regexes_to_ignore",
            ],
            "take_first_k" => &["k"],
            "map" => &["mapping_dict", "default_value"],
            _ => &[],
        };
        if let Some(key) = map.keys().find(|key| *key != "function" && !known.contains(&key.as_str())) {
            return Err(format!("{name} has no setting `{key}`"));
        }
        Ok(match name {
            "regex" => {
                Self::Regex { pattern: pattern()?, select: select()?, fallback: text("fallback", INVALID)? }
            }
            "multi_choice_regex" => {
                Self::Choices(ChoicePattern::new(pattern()?, select()?, text("fallback", INVALID)?, map)?)
            }
            "take_first" => Self::TakeFirst,
            "take_first_k" => {
                let k = map.get("k").and_then(Value::as_u64).filter(|k| *k > 0);
                Self::TakeFirstK(k.ok_or("take_first_k needs `k`, a whole number from 1 on")? as usize)
            }
            "majority_vote" => Self::MajorityVote,
            "remove_whitespace" => Self::RemoveWhitespace,
            "lowercase" => Self::Lowercase,
            "uppercase" => Self::Uppercase,
            "map" => Self::Map {
                mapping: map.get("mapping_dict").and_then(Value::as_object).cloned().unwrap_or_default(),
                default: map.get("default_value").cloned().unwrap_or(Value::Null),
            },
            other => return Err(format!("the function {other:?} is not supported")),
        })
    }

    fn apply(&self, answers: Answers, document: &Value) -> Result<Answers, String> {
        let list = match answers {
            Answers::All(list) => list,
            Answers::One(_) => return Err("a filter follows one that took a single answer".to_owned()),
        };
        let each = |one: &dyn Fn(&str) -> Result<Value, String>| -> Result<Answers, String> {
            // A value that is no text counts as none for a pattern.
            list.iter()
                .map(|answer| one(answer.as_str().unwrap_or_default()))
                .collect::<Result<_, _>>()
                .map(Answers::All)
        };
        match self {
            Self::Regex { pattern, select, fallback } => each(&|text| {
                Ok(selected(pattern, *select, text)?.flatten().unwrap_or_else(|| fallback.clone()).into())
            }),
            Self::Choices(choices) => {
                let prepared = choices.prepare(document)?;
                each(&|text| Ok(prepared.find(text)?.into()))
            }
            Self::RemoveWhitespace => each(&|text| Ok(strip(text).into())),
            Self::Lowercase => each(&|text| Ok(text.to_lowercase().into())),
            Self::Uppercase => each(&|text| Ok(text.to_uppercase().into())),
            Self::Map { mapping, default } => each(&|text| Ok(mapping.get(text).unwrap_or(default).clone())),
            Self::TakeFirst => {
                list.into_iter().next().map(Answers::One).ok_or_else(|| "no answer".to_owned())
            }
            Self::TakeFirstK(k) => match list.get(..*k) {
                Some(first) => Ok(Answers::All(first.to_vec())),
                None => Err(format!("take_first_k wants {k} answers; `repeats` gives {}", list.len())),
            },
            Self::MajorityVote => Ok(Answers::All(majority(&list).into_iter().collect())),
        }
    }
}

/// The value that occurs most; of several the one that came first.
fn majority(list: &[Value]) -> Option<Value> {
    let count = |value: &Value| list.iter().filter(|other| *other == value).count();
    let mut best: Option<(&Value, usize)> = None;
    for value in list {
        let votes = count(value);
        if best.is_none_or(|(_, most)| votes > most) {
            best = Some((value, votes));
        }
    }
    best.map(|(value, _)| value.clone())
}

/// The match that a place selects, counted from the end where it is negative: `None` where there is no match at
/// all, `Some(None)` where all groups of it are empty. Of several groups the first that is not empty counts.
pub(super) fn selected(pattern: &Pattern, select: i64, text: &str) -> Result<Option<Option<String>>, String> {
    let all = pattern.find_all(text).map_err(|error| error.to_string())?;
    if all.is_empty() {
        return Ok(None);
    }
    let at = if select < 0 { all.len() as i64 + select } else { select };
    let found = usize::try_from(at).ok().and_then(|at| all.get(at));
    let groups = found.ok_or_else(|| format!("group_select {select} is beyond the {} matches", all.len()))?;
    let chosen = match groups.as_slice() {
        [one] => Some(*one),
        several => several.iter().copied().find(|group| !group.is_empty()),
    };
    Ok(Some(chosen.map(|text| strip(text).to_owned())))
}
