//! What is asked about one document.

use super::config::{self, Output};
use super::prompt::{self, Layout, Turn, turn};
use super::sampler::Draws;
use super::{Asked, Options, Task, TaskError, place};
use crate::{Ask, Generate, Hash, Prompt, Role, python};
use serde_json::Value;

impl Task {
    pub(super) fn ask(
        &self,
        at: usize,
        document: &Value,
        draws: &mut Draws,
        options: &Options,
    ) -> Result<Asked, TaskError> {
        let place = || format!("{}, document {at}", self.config.name);
        let fault = |message: String| TaskError::new(place(), message);
        let turns =
            self.before(document, draws, options).map_err(|error| TaskError { place: place(), ..error })?;
        let target = self.target(&self.config.target, document)?;
        let as_text = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            other => Err(fault(format!("the target should be a text, and is {}", python::repr(other)))),
        };
        let contexts = self.contexts(document, turns, options.layout)?;
        let first = contexts.first().ok_or_else(|| fault("there are no choices".to_owned()))?;
        let plain = |prompt: &Prompt| match prompt {
            Prompt::Text(text) => Ok(text.clone()),
            Prompt::Chat(_) => {
                Err(fault("log-probabilities are asked of plain text, not of a chat".to_owned())
                    .hint("lay the prompts out as plain text for this task"))
            }
        };
        let mut hashed = prompt::hashed_text(first);
        let asks = match self.config.output {
            Output::Generate => vec![Ask::Generate(self.generate(first.clone(), options).map_err(fault)?)],
            Output::Score => vec![Ask::Score { context: plain(first)?, continuation: as_text(&target)? }],
            Output::Rolling => {
                hashed = as_text(&target)?;
                vec![Ask::Rolling { text: hashed.clone() }]
            }
            Output::Choice => {
                let delimiter = &self.config.target_delimiter;
                let mut asks = Vec::new();
                for (context, choice) in self.continuations(document, &contexts, &target)? {
                    let continuation = format!("{delimiter}{choice}");
                    asks.push(Ask::Score { context: plain(context)?, continuation });
                }
                if self.config.metrics.iter().any(|metric| metric.name == "acc_mutual_info") {
                    for choice in self.choices(self.config.choice.as_ref(), document)? {
                        asks.push(Ask::Score {
                            context: String::new(),
                            continuation: format!("{delimiter}{choice}"),
                        });
                    }
                }
                asks
            }
        };
        let repeats = self.config.repeats as usize;
        Ok(Asked {
            doc: at as u64,
            doc_hash: Hash::of(python::json_dumps(document, Some(2)).as_bytes()),
            prompt_hash: Hash::of(hashed.as_bytes()),
            target_hash: Hash::of(python::str(&target).as_bytes()),
            asks: asks.into_iter().flat_map(|ask| std::iter::repeat_n(ask, repeats)).collect(),
            document: document.clone(),
            target,
        })
    }

    /// Instruction and worked examples.
    fn before(&self, document: &Value, draws: &mut Draws, options: &Options) -> Result<Vec<Turn>, TaskError> {
        let config = &self.config;
        let shots = &config.shots;
        let description = self.optional(Some(&config.description), document)?.unwrap_or_default();
        let instruction = options.system_instruction.as_deref().unwrap_or_default();
        let system = prompt::delimit(instruction, &description, &config.shot_delimiter);
        let mut turns = Vec::new();
        if !system.is_empty() {
            turns.push(turn(Role::System, &system, ""));
        }
        let own = (shots.split == config.test_split).then_some(document);
        let count = self.shots(options) as usize;
        let drawn = draws.take(&self.pool, count, own).map_err(|error| {
            let error = TaskError::new(&config.name, error);
            match config.shot_split().filter(|_| self.pool.is_empty()) {
                Some(split) => error.hint(format!("they come from the split {split:?}; give its file")),
                None => error,
            }
        })?;
        for shot in drawn {
            let text = self.value("doc_to_text", &shots.text, shot)?;
            let target = self.target(&shots.target, shot)?;
            let choices = match &shots.choice {
                Some(choice) => self.choices(Some(choice), shot)?,
                None => Vec::new(),
            };
            let question = self.question_text(&text, &choices)?;
            let answer = match (&target, place(&target)) {
                (_, Some(at)) if !choices.is_empty() && !self.many_inputs => choices.get(at).cloned(),
                (Value::Array(list), _) => list.first().map(python::str),
                (Value::String(text), _) => Some(text.clone()),
                _ => None,
            };
            let answer = answer.ok_or_else(|| {
                TaskError::new(
                    &config.name,
                    format!("a worked example has no answer: {}", python::repr(&target)),
                )
            })?;
            let prefix = self.optional(shots.gen_prefix.as_ref(), shot)?;
            let (target_delimiter, shot_delimiter) = (&shots.target_delimiter, &shots.shot_delimiter);
            turns.extend(prompt::question(
                &question,
                Some(&answer),
                prefix.as_deref(),
                target_delimiter,
                shot_delimiter,
            ));
        }
        Ok(turns)
    }

    fn question_text(&self, text: &Value, choices: &[String]) -> Result<String, TaskError> {
        let found = match (text, place(text)) {
            (Value::String(text), _) => Some(text.clone()),
            (_, Some(at)) if self.many_inputs => choices.get(at).cloned(),
            _ => None,
        };
        found.ok_or_else(|| {
            TaskError::new(&self.config.name, format!("the question is no text: {}", python::repr(text)))
        })
    }

    /// The prompt, or, where the choices are contexts, one for each.
    fn contexts(&self, document: &Value, turns: Vec<Turn>, layout: Layout) -> Result<Vec<Prompt>, TaskError> {
        let config = &self.config;
        let prefix = self.optional(config.gen_prefix.as_ref(), document)?;
        let questions = match self.many_inputs {
            true => self.choices(config.choice.as_ref(), document)?,
            false => vec![self.question_text(&self.value("doc_to_text", &config.text, document)?, &[])?],
        };
        let delimiter = if self.many_inputs { "" } else { &config.target_delimiter };
        let prompts = questions.iter().map(|question| {
            let mut turns = turns.clone();
            turns.extend(prompt::question(question, None, prefix.as_deref(), delimiter, ""));
            prompt::lay_out(&turns, layout)
        });
        Ok(prompts.collect())
    }

    /// Context and what is scored after it, choice by choice.
    fn continuations<'a>(
        &self,
        document: &Value,
        contexts: &'a [Prompt],
        target: &Value,
    ) -> Result<Vec<(&'a Prompt, String)>, TaskError> {
        if self.many_inputs {
            let target = python::str(target);
            return Ok(contexts.iter().map(|context| (context, target.clone())).collect());
        }
        let choices = self.choices(self.config.choice.as_ref(), document)?;
        Ok(choices.into_iter().flat_map(|choice| Some((contexts.first()?, choice))).collect())
    }

    fn generate(&self, prompt: Prompt, options: &Options) -> Result<Generate, String> {
        let mut settings = self.config.generation.clone();
        settings.extend(options.generation.clone());
        settings.shift_remove("do_sample");
        let stop = settings.shift_remove("until");
        let temperature =
            settings.shift_remove("temperature").and_then(|value| value.as_f64()).unwrap_or(0.0);
        let room = settings.shift_remove("max_gen_toks");
        let room = settings.shift_remove("max_tokens").or(room);
        let max_tokens = match room {
            None => None,
            Some(value) => {
                Some(value.as_u64().and_then(|tokens| u32::try_from(tokens).ok()).ok_or_else(|| {
                    format!("the room for an answer is {value}, which is no number of tokens")
                })?)
            }
        };
        Ok(Generate { prompt, max_tokens, stop: config::texts(stop.as_ref()), temperature, extra: settings })
    }
}
