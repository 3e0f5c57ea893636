//! Made-up tasks in many shapes, with prompts, hashes, filtered answers and scores as lm-evaluation-harness
//! 0.4.13 gave them (`data/lm_eval_tasks.json`).

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use quality::task::{
    Index, Layout, Library, Options, Ports, Task, documents, documents::Format, hashed_text,
};
use quality::{Answer, Ask, Generated, Hash, Item, Scored, python};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn task(case: &Value, splits: &BTreeMap<String, Vec<Value>>) -> Task {
    let yaml = case["config"].to_string();
    let read = |_: &str| Ok(yaml.clone());
    let (index, ports) = (Index::default(), Ports::default());
    let suite = Library { read: &read, index: &index, ports: &ports, port: None }.load("s.yaml").unwrap();
    Task::new(suite.tasks.into_iter().next().unwrap(), splits).unwrap()
}

fn texts(ask: &Ask) -> Vec<String> {
    match ask {
        Ask::Generate(generate) => vec![hashed_text(&generate.prompt)],
        Ask::Score { context, continuation } => vec![context.clone(), continuation.clone()],
        Ask::Rolling { text } => vec![text.clone()],
    }
}

fn answer(response: &Value) -> Answer {
    match response {
        Value::String(text) => Answer::Generated(Generated { text: text.clone(), ..Generated::default() }),
        Value::Array(two) => {
            Answer::Scored(Scored { logprob: two[0].as_f64().unwrap(), greedy: two[1].as_bool(), tokens: 1 })
        }
        other => Answer::Scored(Scored { logprob: other.as_f64().unwrap(), greedy: None, tokens: 1 }),
    }
}

/// Scores and parts by metric, as the harness writes them.
fn metrics(item: &Item, filter: &str) -> BTreeMap<String, Value> {
    let outcome = &item.outcomes[filter];
    let scores = outcome.scores.iter().map(|(metric, x)| (metric.clone(), json!(x)));
    scores.chain(outcome.parts.iter().map(|(metric, value)| (metric.clone(), value.clone()))).collect()
}

fn as_floats(value: &Value) -> Value {
    match value {
        Value::Bool(truth) => json!(f64::from(u8::from(*truth))),
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(list) => list.iter().map(as_floats).collect(),
        other => other.clone(),
    }
}

#[test]
fn tasks_in_many_shapes() {
    let oracle: Value = serde_json::from_str(include_str!("data/lm_eval_tasks.json")).unwrap();
    let splits: BTreeMap<String, Vec<Value>> = oracle["splits"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, rows)| (name.clone(), documents::read(name, &rows.to_string(), Format::Json).unwrap()))
        .collect();
    let mut scored = 0;
    for (at, case) in oracle["cases"].as_array().unwrap().iter().enumerate() {
        let place = format!("case {at}: {}", case["config"]);
        let task = task(case, &splits);
        let options = Options {
            limit: Some(case["items"].as_array().unwrap().len()),
            layout: match case["layout"].as_str().unwrap() {
                "multiturn" => Layout::Chat,
                "singleturn" => Layout::ChatOneTurn,
                _ => Layout::Plain,
            },
            system_instruction: case["system_instruction"].as_str().map(str::to_owned),
            ..Options::default()
        };
        let asked = task.items(&options).unwrap_or_else(|error| panic!("{place}: {error}"));
        let repeats = task.config().repeats as usize;
        if !case["gen_kwargs"].is_null() {
            assert_eq!(json!(task.config().generation), case["gen_kwargs"], "{place}");
        }
        for (asked, wanted) in asked.iter().zip(case["items"].as_array().unwrap()) {
            let ours: Vec<Vec<String>> = asked.asks.iter().step_by(repeats).map(texts).collect();
            let ours = match asked.doc {
                0 => json!(ours),
                _ => ours
                    .iter()
                    .map(|some| some.iter().map(|t| Hash::of(t.as_bytes()).0).collect::<Value>())
                    .collect(),
            };
            assert_eq!(ours, wanted["arguments"], "{place}");
            assert_eq!(python::str(&asked.target), wanted["target"].as_str().unwrap(), "{place}");
            assert_eq!(asked.doc_hash.0, wanted["doc_hash"], "{place}");
            assert_eq!(asked.prompt_hash.0, wanted["prompt_hash"], "{place}");
            let responses =
                wanted["resps"].as_array().unwrap().iter().flat_map(|some| some.as_array().unwrap());
            let item =
                task.judge(asked, responses.map(answer).collect()).unwrap_or_else(|e| panic!("{place}: {e}"));
            for (filter, wanted) in wanted["scores"].as_object().unwrap() {
                let theirs: BTreeMap<String, Value> = wanted["metrics"]
                    .as_object()
                    .unwrap()
                    .iter()
                    .map(|(metric, value)| (metric.clone(), as_floats(value)))
                    .collect();
                let ours: BTreeMap<String, Value> = metrics(&item, filter)
                    .iter()
                    .map(|(metric, value)| (metric.clone(), as_floats(value)))
                    .collect();
                assert_eq!(ours, theirs, "{filter}, document {} of {place}", asked.doc);
                scored += ours.len();
                if let (Some(text), Some(extracted)) =
                    (wanted["filtered"][0].as_str(), &item.outcomes[filter].extracted)
                {
                    assert_eq!(extracted, text, "{place}");
                }
            }
        }
    }
    assert!(scored > 300, "{scored}");
}
