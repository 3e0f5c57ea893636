//! Sample files of the harness as items: a baseline that was measured elsewhere.

use super::{TaskError, argmax};
use crate::{Answer, Ask, Generate, Generated, Hash, Item, Outcome, Prompt, Scored};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The items of a sample file, one for each document, with an outcome for each filter. `task` is its name, as
/// [`task_of`] reads it from the name of the file.
///
/// # Errors
///
/// With the line that is no sample.
pub fn import(task: &str, text: &str) -> Result<Vec<Item>, TaskError> {
    let mut items: Vec<Item> = Vec::new();
    let mut places = BTreeMap::new();
    for (i, line) in text.split('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fault = |message: String| TaskError::new(format!("{task}, line {}", i + 1), message);
        let line: Value = serde_json::from_str(line).map_err(|error| fault(format!("no JSON: {error}")))?;
        let (item, filter, outcome) = imported(task, &line).map_err(fault)?;
        let at = *places.entry((item.doc, item.doc_hash.clone())).or_insert(items.len());
        if at == items.len() {
            items.push(item);
        }
        items[at].outcomes.insert(filter, outcome);
    }
    Ok(items)
}

/// The task's name in the name of a sample file.
#[must_use]
pub fn task_of(file: &str) -> Option<&str> {
    let name = file.rsplit('/').next()?.strip_prefix("samples_")?;
    name.rsplit_once('_').map(|(task, _)| task)
}

fn imported(task: &str, line: &Value) -> Result<(Item, String, Outcome), String> {
    let text =
        |key: &str| line[key].as_str().map(str::to_owned).ok_or_else(|| format!("it has no text {key:?}"));
    let doc = line["doc_id"].as_u64().ok_or("it has no \"doc_id\"")?;
    let arguments = line["arguments"].as_object().ok_or("it has no map \"arguments\"")?;
    let responses = line["resps"].as_array().ok_or("it has no list \"resps\"")?;
    let mut asks = Vec::new();
    let mut answers = Vec::new();
    for (i, some) in responses.iter().enumerate() {
        let argument =
            arguments.get(&format!("gen_args_{i}")).ok_or_else(|| format!("it has no gen_args_{i}"))?;
        let ask = imported_ask(argument)?;
        for one in some.as_array().into_iter().flatten() {
            answers.push(imported_answer(&ask, one)?);
            asks.push(ask.clone());
        }
    }
    let filter = text("filter")?;
    let mut outcome = Outcome::default();
    for metric in line["metrics"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        match &line[metric] {
            Value::Number(number) => {
                number.as_f64().and_then(|x| outcome.scores.insert(metric.to_owned(), x));
            }
            Value::Bool(truth) => {
                outcome.scores.insert(metric.to_owned(), f64::from(u8::from(*truth)));
            }
            Value::Null => {}
            parts => {
                outcome.parts.insert(metric.to_owned(), parts.clone());
            }
        }
    }
    outcome.extracted = extracted(&asks, &answers, &line["filtered_resps"]);
    let item = Item {
        task: task.to_owned(),
        doc,
        repeat: 0,
        doc_hash: Hash(text("doc_hash")?),
        prompt_hash: Hash(text("prompt_hash")?),
        target_hash: Hash(text("target_hash")?),
        category: None,
        asks,
        answers,
        outcomes: BTreeMap::new(),
    };
    Ok((item, filter, outcome))
}

/// What a task's own judge keeps: the filtered text, the place of the likeliest choice, or the score.
fn extracted(asks: &[Ask], answers: &[Answer], filtered: &Value) -> Option<Value> {
    let scored = |answer: &Answer| match answer {
        Answer::Scored(scored) => Some((scored.logprob, scored.greedy)),
        _ => None,
    };
    // Choices without a context, after those with one, are for the mutual information alone.
    let bare = |ask: &Ask| matches!(ask, Ask::Score { context, .. } if context.is_empty());
    let all_bare = asks.first().is_some_and(bare);
    let choices: Option<Vec<(f64, Option<bool>)>> = asks
        .iter()
        .zip(answers)
        .filter(|(ask, _)| all_bare || !bare(ask))
        .map(|(_, answer)| scored(answer))
        .collect();
    match choices.as_deref() {
        Some([(logprob, None)]) => Some(json!(logprob)),
        Some([(logprob, greedy)]) => Some(json!([logprob, greedy])),
        Some([]) => None,
        Some(several) => Some(json!(argmax(&several.iter().map(|one| one.0).collect::<Vec<_>>()))),
        None => filtered.get(0).cloned().filter(|value| value.as_str() != Some(super::filter::INVALID)),
    }
}

fn imported_ask(argument: &Value) -> Result<Ask, String> {
    let first = argument["arg_0"].as_str().ok_or("an argument has no text \"arg_0\"")?;
    Ok(match argument.get("arg_1") {
        None => Ask::Rolling { text: first.to_owned() },
        Some(Value::String(continuation)) => {
            Ask::Score { context: first.to_owned(), continuation: continuation.clone() }
        }
        Some(Value::Object(settings)) => {
            let turns = first.starts_with('[').then(|| serde_json::from_str(first).ok()).flatten();
            let mut extra = settings.clone();
            extra.shift_remove("do_sample");
            let stop = extra.shift_remove("until");
            let temperature =
                extra.shift_remove("temperature").and_then(|value| value.as_f64()).unwrap_or(0.0);
            let room = extra.shift_remove("max_gen_toks");
            let room = extra.shift_remove("max_tokens").or(room).and_then(|value| value.as_u64());
            Ask::Generate(Generate {
                prompt: turns.map_or_else(|| Prompt::Text(first.to_owned()), Prompt::Chat),
                max_tokens: room.and_then(|room| u32::try_from(room).ok()),
                stop: super::config::texts(stop.as_ref()),
                temperature,
                extra,
            })
        }
        Some(other) => return Err(format!("an argument is {other}, which is no request")),
    })
}

fn imported_answer(ask: &Ask, value: &Value) -> Result<Answer, String> {
    let number = |value: &Value| match value {
        Value::String(text) => text.parse::<f64>().ok(),
        other => other.as_f64(),
    };
    let (logprob, greedy) = match (ask, value) {
        (Ask::Generate(_), Value::String(text)) => {
            return Ok(Answer::Generated(Generated { text: text.clone(), ..Generated::default() }));
        }
        (Ask::Generate(_), other) => return Err(format!("an answer is {other}, which is no text")),
        (_, Value::Array(two)) => {
            let greedy = two.get(1).and_then(|greedy| match greedy {
                Value::String(text) => Some(text == "True"),
                other => other.as_bool(),
            });
            (two.first().and_then(number), greedy)
        }
        (_, one) => (number(one), None),
    };
    let logprob =
        logprob.filter(|x| x.is_finite()).ok_or_else(|| format!("{value} is no log-probability"))?;
    // The harness does not say how many tokens it scored.
    Ok(Answer::Scored(Scored { logprob, greedy, tokens: 0 }))
}
