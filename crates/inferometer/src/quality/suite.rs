//! Which questions a suite asks: those that come with the tool, or those of a user's task files.

use anyhow::{Result, anyhow};
use corpus::Tokenizer;
use quality::builtin::{Setup, Suite as Named};
use quality::engine::{Client, Probed};
use quality::{Answer, Ask, Benchmark, Hash, Item, Prompt, Tokens, TokensError, Unit as Of};
use serde::Serialize;
use serde_json::{Value, json};
use spec::TokenizerChoice;

use super::harness::Harness;
use super::server::Site;
use crate::cli::QualityQuestionArgs;
use crate::failure::Failure;

/// One question: the asks of one document of one task.
pub struct Unit {
    /// Place of the task.
    pub task: usize,
    /// Place of the document among those asked.
    pub place: usize,
    /// The task's name.
    pub name: String,
    /// Place of the document in its split.
    pub doc: u64,
    /// What is asked.
    pub asks: Vec<Ask>,
}

/// A number of a table of results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Number {
    /// The task's or the group's name.
    pub task: String,
    /// The filter's or the method's name.
    pub filter: String,
    /// The metric's name.
    pub metric: String,
    /// A part of the task; `None`: the whole.
    pub part: Option<String>,
    /// Of the value; `None`: as the metric has it.
    pub unit: Option<Of>,
    /// `None`: no item has one.
    pub value: Option<f64>,
    /// Standard error, where the task's program states one.
    pub stderr: Option<f64>,
    /// Items behind it.
    pub items: u64,
    /// Items without an answer: not in the value.
    pub failed: u64,
}

/// What is asked.
pub struct Suite {
    /// As the user named it.
    pub name: String,
    /// Its tasks.
    pub tasks: Tasks,
    /// What is left out or has no effect, in words.
    pub notes: Vec<String>,
}

/// Where tasks come from.
pub enum Tasks {
    /// Files of lm-evaluation-harness.
    Harness(Box<Harness>),
    /// Those that come with the tool.
    Builtin(Vec<Box<dyn Benchmark>>),
}

/// Counts tokens: the server's own tokenizer, or one that stands in for it.
pub enum Counter<'a> {
    /// By `/tokenize`.
    Server(Client<'a>),
    /// Of a vocabulary on this side.
    Local(Tokenizer),
}

impl Tokens for Counter<'_> {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokensError> {
        match self {
            Self::Server(client) => client.encode(text).map_err(|fault| TokensError(fault.to_string())),
            Self::Local(own) => {
                own.encode(text).ok_or_else(|| TokensError("it cannot cut the text".to_owned()))
            }
        }
    }
    fn decode(&self, ids: &[u32]) -> Result<String, TokensError> {
        match self {
            Self::Server(client) => client.decode(ids).map_err(|fault| TokensError(fault.to_string())),
            Self::Local(own) => {
                own.decode(ids).ok_or_else(|| TokensError("it cannot write the ids".to_owned()))
            }
        }
    }
}

/// The vocabulary that stands in for one that is not known.
const STAND_IN: &str = "o200k";

/// Whether a suite has the tasks that are wanted of it.
pub fn known(wanted: &[String], names: &[String], suite: &str) -> Result<()> {
    match wanted.iter().find(|wanted| !names.contains(wanted)) {
        None => Ok(()),
        Some(missing) => Err(Failure::request(anyhow!(
            "there is no task `{missing}` in {suite}\nhint: it has {}",
            names.join(", ")
        ))
        .into()),
    }
}

/// A suite that comes with the tool.
pub fn named(args: &QualityQuestionArgs) -> Option<&'static Named> {
    Named::named(&args.suite)
}

impl Suite {
    /// From task files.
    pub fn of_files(args: &QualityQuestionArgs) -> Result<Self> {
        let mut harness = Harness::load(args)?;
        let notes = std::mem::take(&mut harness.notes);
        Ok(Self { name: args.suite.clone(), tasks: Tasks::Harness(Box::new(harness)), notes })
    }

    /// One that comes with the tool, made for this server.
    pub fn builtin(named: &Named, args: &QualityQuestionArgs, site: &Site, probed: &Probed) -> Result<Self> {
        let mut notes = Vec::new();
        let server = site.client()?;
        let counter = if probed.manner.tokenizer {
            Counter::Server(Client::new(&server, &probed.manner))
        } else {
            let known = Tokenizer::open(&TokenizerChoice::Auto, Some(&site.session.model));
            let own = match known.map_err(Failure::request)? {
                Some(own) => own,
                None => Tokenizer::open(&TokenizerChoice::Embedded(STAND_IN.to_owned()), None)
                    .map_err(Failure::request)?
                    .ok_or_else(|| Failure::request(anyhow!("the vocabulary {STAND_IN} is missing")))?,
            };
            notes.push(format!("the server has no /tokenize: lengths are counted by {}", own.describe()));
            Counter::Local(own)
        };
        let setup = Setup { seed: args.seed, tokens: &counter, template: TEMPLATE, thinking: args.thinking };
        let context = probed.manner.context.and_then(|n| usize::try_from(n).ok());
        let built = named
            .build(setup, context, probed.cannot_score().is_none())
            .map_err(|error| Failure::request(anyhow!("the suite {} cannot be made: {error}", named.name)))?;
        notes.extend(built.left_out);
        let mut tasks = built.tasks;
        let names: Vec<String> = tasks.iter().map(|task| task.name().to_owned()).collect();
        known(&args.tasks, &names, named.name)?;
        tasks.retain(|task| args.tasks.is_empty() || args.tasks.iter().any(|wanted| wanted == task.name()));
        if let Some(task) = tasks.first() {
            notes.push(task.wording().to_string());
        }
        Ok(Self { name: named.name.to_owned(), tasks: Tasks::Builtin(tasks), notes })
    }

    /// How many tasks it has.
    pub fn count(&self) -> usize {
        match &self.tasks {
            Tasks::Harness(harness) => harness.tasks.len(),
            Tasks::Builtin(tasks) => tasks.len(),
        }
    }

    /// All questions, in order; of a built-in task at most `limit`.
    pub fn units(&self, limit: Option<u64>) -> Vec<Unit> {
        let most = limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        match &self.tasks {
            Tasks::Harness(harness) => harness.units(),
            Tasks::Builtin(tasks) => {
                let of = |(task, one): (usize, &dyn Benchmark)| -> Vec<Unit> {
                    let unit = |(place, question): (usize, &quality::Question)| Unit {
                        task,
                        place,
                        name: one.name().to_owned(),
                        doc: question.doc,
                        asks: question.asks.clone(),
                    };
                    one.questions().iter().take(most).enumerate().map(unit).collect()
                };
                tasks.iter().map(AsRef::as_ref).enumerate().flat_map(of).collect()
            }
        }
    }

    /// What the answers to a question are worth.
    pub fn judge(&self, unit: &Unit, answers: Vec<Answer>) -> Result<Item> {
        match &self.tasks {
            Tasks::Harness(harness) => harness.judge(unit, answers),
            Tasks::Builtin(tasks) => {
                let task = tasks.get(unit.task);
                let found = task.and_then(|task| Some((task, task.questions().get(unit.place)?)));
                let (task, question) = found.ok_or_else(|| anyhow!("a question without a task"))?;
                Ok(task.judge(question, answers))
            }
        }
    }

    /// Scores of all tasks, their parts, and groups.
    pub fn numbers(&self, items: &[Item]) -> Vec<Number> {
        let tasks = match &self.tasks {
            Tasks::Harness(harness) => return harness.numbers(items),
            Tasks::Builtin(tasks) => tasks,
        };
        let of = |task: &dyn Benchmark| -> Vec<Number> {
            let own: Vec<&Item> = items.iter().filter(|item| item.task == task.name()).collect();
            let number = |score: quality::Score| Number {
                task: task.name().to_owned(),
                filter: score.method,
                metric: score.metric,
                part: score.part,
                unit: Some(score.unit),
                value: score.value,
                stderr: None,
                items: score.items,
                failed: score.failed,
            };
            task.scores(&own).into_iter().map(number).collect()
        };
        tasks.iter().map(AsRef::as_ref).flat_map(of).collect()
    }
}

/// Tokens that a chat template puts around a prompt, generously.
const TEMPLATE: usize = 64;

/// Of all that is asked: two runs with the same hash ask the same.
pub fn hash(units: &[Unit]) -> Hash {
    let all: Vec<Value> = units
        .iter()
        .map(|unit| json!([unit.name, unit.doc, Hash::of(json!(unit.asks).to_string().as_bytes())]))
        .collect();
    Hash::of(Value::from(all).to_string().as_bytes())
}

/// What questions need of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Log-probabilities of a prompt.
    pub scores: bool,
    /// `/v1/completions`.
    pub completions: bool,
    /// `/v1/chat/completions`.
    pub chat: bool,
}

impl Needs {
    /// Of these asks.
    pub fn of<'a>(asks: impl IntoIterator<Item = &'a Ask>) -> Self {
        let mut needs = Self::default();
        for ask in asks {
            match ask {
                Ask::Generate(generate) => match generate.prompt {
                    Prompt::Text(_) => needs.completions = true,
                    Prompt::Chat(_) => needs.chat = true,
                },
                Ask::Score { .. } | Ask::Rolling { .. } => needs.scores = true,
            }
        }
        needs
    }
}
