//! Task files of lm-evaluation-harness with their data, read from where they lie.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use quality::builtin::SUITES;
use quality::task::documents::{self, Format};
use quality::task::{
    Asked, BOOTSTRAP_REPLICATES, Config, Group, Index, Layout, Library, Options, Output, Ports, Task,
};
use quality::{Answer, Item};
use serde_json::Value;

use super::suite::{Number, Unit, known};
use crate::cli::QualityQuestionArgs;
use crate::failure::Failure;

/// Folders within the folder of a task file are searched for others so deep, and so many files at most.
const DEPTH: usize = 3;
const FILES: usize = 20_000;

/// Tasks with their documents.
pub struct Harness {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// What each asks.
    pub asked: Vec<Vec<Asked>>,
    /// The groups above them.
    pub groups: Vec<Group>,
    /// How they are asked.
    pub options: Options,
    /// What in the files has no effect here.
    pub notes: Vec<String>,
}

impl Harness {
    /// Reads the files.
    pub fn load(args: &QualityQuestionArgs) -> Result<Self> {
        let path = PathBuf::from(&args.suite);
        if !path.is_file() {
            return Err(Failure::request(anyhow!(
                "there is no suite `{}`: it is {}, or the path of a task or group file of lm-evaluation-harness\n\
                 hint: --suite smoke, or --suite tasks/mytask.yaml",
                args.suite,
                SUITES.map(|suite| suite.name).join(", ")
            ))
            .into());
        }
        let fault = |error| Failure::request(anyhow!("{error}"));
        let read = |path: &str| std::fs::read_to_string(path).map_err(|error| error.to_string());
        let index = index(&path);
        let ports = Ports::default();
        let library = Library { read: &read, index: &index, ports: &ports, port: args.port.as_deref() };
        let loaded = library.load(&args.suite).map_err(fault)?;
        let names: Vec<String> = loaded.tasks.iter().map(|task| task.name.clone()).collect();
        known(&args.tasks, &names, &args.suite)?;
        let options = Options {
            limit: args.limit.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            ..Options::default()
        };
        let mut suite =
            Self { tasks: Vec::new(), asked: Vec::new(), groups: loaded.groups, options, notes: Vec::new() };
        let folder = path.parent().unwrap_or(Path::new("."));
        for config in loaded.tasks {
            if !args.tasks.is_empty() && !args.tasks.contains(&config.name) {
                continue;
            }
            suite.notes.extend(config.notes.iter().map(|note| format!("{}: {note}", config.name)));
            let splits = splits(&config, folder, &args.data)?;
            // Turns are for what is written; log-probabilities are asked of plain text.
            let layout = match (args.chat, config.output) {
                (true, Output::Generate) => Layout::Chat,
                _ => Layout::Plain,
            };
            let task = Task::new(config, &splits).map_err(fault)?;
            suite.asked.push(task.items(&Options { layout, ..suite.options.clone() }).map_err(fault)?);
            suite.tasks.push(task);
        }
        // A group of which a part was left out has no score.
        suite.groups.retain(|group| {
            group.leaves.iter().all(|leaf| suite.tasks.iter().any(|t| t.config().name == *leaf))
        });
        Ok(suite)
    }

    /// All questions, in order.
    pub fn units(&self) -> Vec<Unit> {
        let of = |(task, asked): (usize, &Vec<Asked>)| -> Vec<Unit> {
            let name = self.tasks.get(task).map_or_else(String::new, |task| task.config().name.clone());
            let unit = |(place, one): (usize, &Asked)| Unit {
                task,
                place,
                name: name.clone(),
                doc: one.doc,
                asks: one.asks.clone(),
            };
            asked.iter().enumerate().map(unit).collect()
        };
        self.asked.iter().enumerate().flat_map(of).collect()
    }

    /// What the answers to a question are worth.
    pub fn judge(&self, unit: &Unit, answers: Vec<Answer>) -> Result<Item> {
        let found =
            self.tasks.get(unit.task).zip(self.asked.get(unit.task).and_then(|all| all.get(unit.place)));
        let (task, asked) = found.ok_or_else(|| anyhow!("a question without a task"))?;
        Ok(task.judge(asked, answers).map_err(|error| Failure::request(anyhow!("{error}")))?)
    }

    /// Scores of all tasks and groups.
    pub fn numbers(&self, items: &[Item]) -> Vec<Number> {
        let results: Vec<_> = self
            .tasks
            .iter()
            .map(|task| task.results(items, &self.options, BOOTSTRAP_REPLICATES / 100))
            .collect();
        let mut all = Vec::new();
        for found in &results {
            all.extend(found.metrics.iter().map(|metric| Number {
                task: found.name.clone(),
                filter: metric.filter.clone(),
                metric: metric.metric.clone(),
                part: None,
                unit: None,
                value: metric.value,
                stderr: metric.stderr,
                items: found.items,
                failed: found.failed,
            }));
        }
        for group in &self.groups {
            let found = group.results(&results);
            all.extend(found.metrics.iter().map(|(metric, count)| Number {
                task: group.name.clone(),
                filter: metric.filter.clone(),
                metric: metric.metric.clone(),
                part: None,
                unit: None,
                value: metric.value,
                stderr: metric.stderr,
                items: *count,
                failed: 0,
            }));
        }
        all
    }
}

/// The task files in the folder of this one.
fn index(file: &Path) -> Index {
    let mut index = Index::default();
    let mut folders = vec![(file.parent().unwrap_or(Path::new(".")).to_owned(), 0)];
    let mut left = FILES;
    while let Some((folder, depth)) = folders.pop() {
        let Ok(entries) =
            std::fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { &folder })
        else {
            continue;
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| folder.join(entry.file_name())).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() && depth < DEPTH {
                folders.push((path, depth + 1));
            } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") && left > 0 {
                left -= 1;
                if let Ok(text) = std::fs::read_to_string(&path) {
                    index.add(&path.display().to_string(), &text);
                }
            }
        }
    }
    index
}

/// The documents of a task, by split.
fn splits(config: &Config, folder: &Path, data: &[String]) -> Result<BTreeMap<String, Vec<Value>>> {
    if config.data_files.is_empty() {
        return named_data(config, data);
    }
    let mut splits = BTreeMap::new();
    for (split, paths) in &config.data_files {
        let mut rows = Vec::new();
        for path in paths {
            let beside = folder.join(path);
            let found = if beside.is_file() { beside } else { PathBuf::from(path) };
            rows.extend(rows_of(&found, config.dataset_path.as_deref(), &config.name)?);
        }
        splits.insert(split.clone(), rows);
    }
    Ok(splits)
}

/// A data set by name lies where the user says: a folder with a file for each split.
fn named_data(config: &Config, data: &[String]) -> Result<BTreeMap<String, Vec<Value>>> {
    let name = match (&config.dataset_path, &config.dataset_name) {
        (Some(path), Some(name)) => format!("{path}/{name}"),
        (Some(path), None) => path.clone(),
        (None, _) => config.name.clone(),
    };
    let given: Vec<(&str, &str)> = data.iter().filter_map(|pair| pair.split_once('=')).collect();
    let of = |name: &str| given.iter().find(|(given, _)| *given == name).map(|(_, path)| PathBuf::from(path));
    let Some(folder) = of(&name).or_else(|| config.dataset_path.as_deref().and_then(of)) else {
        return Err(Failure::request(anyhow!(
            "the task {} reads the data set `{name}`, and nothing is fetched from a hub\n\
             hint: --data {name}=FOLDER names a folder with a file for each split, such as test.jsonl",
            config.name
        ))
        .into());
    };
    let entries = std::fs::read_dir(&folder)
        .with_context(|| format!("cannot read the data of {name} in {}", folder.display()))
        .map_err(Failure::request)?;
    let mut splits = BTreeMap::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let Some(split) = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()) else { continue };
        if Format::of(&path.display().to_string(), None).is_some() {
            splits.insert(split, rows_of(&path, None, &config.name)?);
        }
    }
    Ok(splits)
}

fn rows_of(path: &Path, kind: Option<&str>, task: &str) -> Result<Vec<Value>> {
    let shown = path.display().to_string();
    let Some(format) = Format::of(&shown, kind) else {
        return Err(Failure::request(anyhow!(
            "the task {task} reads {shown}, which is neither JSON, JSON lines nor CSV\n\
             hint: python -c 'import pandas as p; p.read_parquet(\"data.parquet\").to_json(\"data.jsonl\", orient=\"records\", lines=True)'"
        ))
        .into());
    };
    let text = super::ppl::text(path, "the documents")?;
    documents::read(&shown, &text, format).map_err(|error| Failure::request(anyhow!("{error}")).into())
}
