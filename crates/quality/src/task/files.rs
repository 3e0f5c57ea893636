//! Result and sample files in the form of lm-evaluation-harness 0.4.13 (`result_schema.py`,
//! `loggers/evaluation_tracker.py`), and its sample files as items. The texts are made here; the caller writes.

use super::results::{MetricResult, TaskResults, sample};
use super::{Asked, Group, GroupResults, Task, TaskError, hashed_text};
use crate::{Answer, Ask, Hash, Item, Scored, python};

pub use super::import::{import, task_of};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What a results file says of the run beside the scores.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// Which program made it, and in whose form.
    pub producer: String,
    /// The kind of model API (`local-completions`).
    pub source: String,
    /// The model's name.
    pub model: String,
    /// `config`: arguments, seeds, limit, and so on.
    pub config: Map<String, Value>,
    /// Seconds since 1970 at the start.
    pub date: f64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Stood before the tasks' descriptions.
    pub system_instruction: Option<String>,
    /// Whether worked examples were turns of their own.
    pub multiturn: bool,
}

/// A task with its results, for the file.
pub struct Judged<'a> {
    /// The task.
    pub task: &'a Task,
    /// Its results.
    pub results: TaskResults,
    /// Its documents and items, for the hash over all of them, in the order of the documents.
    pub items: &'a [Item],
}

/// The results file.
#[must_use]
pub fn results(about: &About, tasks: &[Judged], groups: &[(&Group, GroupResults)]) -> Value {
    let by_task = |one: &dyn Fn(&Judged) -> Value| -> Map<String, Value> {
        tasks.iter().map(|judged| (judged.results.name.clone(), one(judged))).collect()
    };
    let mut scores = by_task(&|judged| task_scores(&judged.results));
    let group_scores: Map<String, Value> =
        groups.iter().map(|(group, results)| (group.name.clone(), group_scores(results))).collect();
    scores.extend(group_scores.clone());
    let mut versions = by_task(&|judged| judged.task.config().version.clone());
    let mut shots = by_task(&|judged| judged.results.shots.into());
    let mut directions = by_task(&|judged| {
        let metrics = judged.task.config().metrics();
        Value::Object(metrics.map(|(name, better)| (name.to_owned(), better.into())).collect())
    });
    for (group, _) in groups {
        let version = if group.version.is_null() { json!("N/A") } else { python::str(&group.version).into() };
        versions.insert(group.name.clone(), version);
        let mut of_children = group.children.iter().filter_map(|child| shots.get(child));
        if let Some(first) = of_children.next().cloned()
            && of_children.all(|other| *other == first)
        {
            shots.insert(group.name.clone(), first);
        }
        let mut merged = Map::new();
        for (metric, better) in
            group.children.iter().filter_map(|child| directions.get(child)?.as_object()).flatten()
        {
            let known = merged.entry(metric.clone()).or_insert_with(|| better.clone());
            if known != better {
                *known = Value::Null;
            }
        }
        if !merged.is_empty() {
            directions.insert(group.name.clone(), Value::Object(merged));
        }
    }
    let mut file = Map::new();
    let mut put = |key: &str, value: Value| {
        file.insert(key.to_owned(), value);
    };
    put("results", scores.into());
    let with_scores: Map<String, Value> = groups
        .iter()
        .filter(|(_, results)| results.items.is_some())
        .filter_map(|(group, _)| Some((group.name.clone(), group_scores.get(&group.name)?.clone())))
        .collect();
    if !with_scores.is_empty() {
        put("groups", with_scores.into());
    }
    put(
        "group_subtasks",
        groups.iter().map(|(group, _)| (group.name.clone(), json!(group.children))).collect(),
    );
    put("configs", by_task(&|judged| judged.task.config().raw.clone().into()).into());
    put("versions", versions.into());
    put("n-shot", shots.into());
    put("higher_is_better", directions.into());
    put(
        "n-samples",
        by_task(&|judged| json!({"original": judged.results.documents, "effective": judged.results.items}))
            .into(),
    );
    let mut config = Map::from_iter([("model".to_owned(), about.source.clone().into())]);
    config.extend(about.config.clone());
    put("config", config.into());
    put("git_hash", Value::Null);
    put("date", about.date.into());
    put("pretty_env_info", about.producer.clone().into());
    put("transformers_version", "N/A".into());
    put("lm_eval_version", about.producer.clone().into());
    put("upper_git_hash", Value::Null);
    put("task_hashes", by_task(&|judged| task_hash(judged).into()).into());
    put("model_source", about.source.clone().into());
    put("model_name", about.model.clone().into());
    put("model_name_sanitized", sanitized_model(&about.model).into());
    put("system_instruction", about.system_instruction.clone().into());
    put(
        "system_instruction_sha",
        about.system_instruction.as_ref().map(|text| Hash::of(text.as_bytes()).0).into(),
    );
    put("fewshot_as_multiturn", about.multiturn.into());
    put("chat_template", Value::Null);
    put("chat_template_sha", Value::Null);
    put("total_evaluation_time_seconds", python::float_repr(about.seconds).into());
    Value::Object(file)
}

fn task_scores(results: &TaskResults) -> Value {
    let mut map = Map::from_iter([
        ("name".to_owned(), results.name.clone().into()),
        ("alias".to_owned(), results.alias.clone().into()),
        ("sample_len".to_owned(), results.items.into()),
    ]);
    results.metrics.iter().for_each(|metric| put_metric(metric, &mut map));
    map.into()
}

fn group_scores(results: &GroupResults) -> Value {
    let mut map = Map::from_iter([
        ("alias".to_owned(), results.alias.clone().into()),
        ("name".to_owned(), results.name.clone().into()),
    ]);
    if let Some(items) = results.items {
        map.insert("sample_len".to_owned(), items.into());
    }
    results.metrics.iter().for_each(|(metric, _)| put_metric(metric, &mut map));
    if !results.metrics.is_empty() {
        let counts =
            results.metrics.iter().map(|(m, count)| (format!("{},{}", m.metric, m.filter), (*count).into()));
        map.insert("sample_count".to_owned(), Value::Object(counts.collect()));
    }
    map.into()
}

fn put_metric(metric: &MetricResult, map: &mut Map<String, Value>) {
    let number = |x: Option<f64>| x.map_or_else(|| json!("N/A"), |x| json!(x));
    map.insert(format!("{},{}", metric.metric, metric.filter), number(metric.value));
    map.insert(format!("{}_stderr,{}", metric.metric, metric.filter), number(metric.stderr));
}

/// Of all hashes of a task's samples, filter by filter.
fn task_hash(judged: &Judged) -> String {
    let of_all: String = judged
        .items
        .iter()
        .filter(|item| !item.failed())
        .map(|item| format!("{}{}{}", item.doc_hash.0, item.prompt_hash.0, item.target_hash.0))
        .collect();
    Hash::of(of_all.repeat(judged.task.config().filters().count()).as_bytes()).0
}

/// The sample file of a task: a line for each document under each filter.
///
/// # Errors
///
/// Where items and documents do not belong together, or a filter cannot work.
pub fn samples(task: &Task, asked: &[Asked], items: &[Item]) -> Result<String, TaskError> {
    let config = task.config();
    let fault = |message: String| TaskError::new(&config.name, message);
    let metrics: Vec<&str> = config.metrics().map(|(name, _)| name).collect();
    let own = items.iter().filter(|item| item.task == config.name && !item.failed());
    let by_document: BTreeMap<u64, &Item> = own.map(|item| (item.doc, item)).collect();
    let mut out = String::new();
    for pipeline in &config.pipelines {
        for asked in asked {
            let Some(item) = by_document.get(&asked.doc) else { continue };
            if item.doc_hash != asked.doc_hash {
                return Err(fault(format!("document {} is not the one that was judged", asked.doc)));
            }
            let requests = asked.asks.iter().step_by(config.repeats as usize).enumerate();
            let arguments: Map<String, Value> = requests
                .map(|(i, ask)| (format!("gen_args_{i}"), arguments(ask, &config.generation)))
                .collect();
            let responses: Value = item
                .answers
                .chunks(config.repeats as usize)
                .map(|some| some.iter().map(response).collect::<Value>())
                .collect();
            let filtered = task.filtered(pipeline, asked, &item.answers).map_err(fault)?;
            let filtered: Value = filtered.iter().map(as_texts).collect();
            let name = pipeline.name.as_str();
            let line = sample(asked, item, name, arguments.into(), responses, filtered, &metrics);
            out.push_str(&python::json_dumps(&line, None));
            out.push('\n');
        }
    }
    Ok(out)
}

fn arguments(ask: &Ask, generation: &Map<String, Value>) -> Value {
    match ask {
        Ask::Generate(generate) => json!({"arg_0": hashed_text(&generate.prompt), "arg_1": generation}),
        Ask::Score { context, continuation } => json!({"arg_0": context, "arg_1": continuation}),
        Ask::Rolling { text } => json!({"arg_0": text}),
    }
}

/// An answer as the harness writes it: all as text.
fn response(answer: &Answer) -> Value {
    match answer {
        Answer::Generated(generated) => generated.text.clone().into(),
        Answer::Scored(Scored { logprob, greedy: Some(greedy), .. }) => as_texts(&json!([logprob, greedy])),
        Answer::Scored(scored) => python::float_repr(scored.logprob).into(),
        Answer::Failed { .. } => Value::Null,
    }
}

fn as_texts(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(as_texts).collect(),
        other => python::str(other).into(),
    }
}

/// The name of a results file; `time` in ISO form.
#[must_use]
pub fn results_name(time: &str) -> String {
    format!("results_{}.json", time.replace(':', "-"))
}

/// The name of a task's sample file; `time` in ISO form.
#[must_use]
pub fn samples_name(task: &str, time: &str) -> String {
    format!("samples_{task}_{}.jsonl", time.replace(':', "-"))
}

/// The folder of a model.
#[must_use]
pub fn sanitized_model(model: &str) -> String {
    let mut out = String::new();
    let mut within = false;
    for c in model.chars() {
        let special = "\"<>:/|\\?*[]".contains(c);
        match (special, within) {
            (false, _) => out.push(c),
            (true, false) => out.push_str("__"),
            (true, true) => {}
        }
        within = special;
    }
    out
}
