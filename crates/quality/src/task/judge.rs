//! What answers are worth.

use super::config::Output;
use super::filter::Pipeline;
use super::metric::{self, MetricKind};
use super::port::Score;
use super::results::{self, TaskResults};
use super::{Asked, Options, Task, TaskError};
use crate::{Answer, Item, Outcome, Scored, python};
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl Task {
    /// The item that a document and the answers to its asks come to, one answer for each ask and in the same
    /// order. Where one failed, or a filter or metric gives up on it, the item has no outcome: it counts as an
    /// error, not as a wrong answer.
    ///
    /// # Errors
    ///
    /// Where answers are missing or of the wrong kind.
    pub fn judge(&self, asked: &Asked, answers: Vec<Answer>) -> Result<Item, TaskError> {
        let fault = |message: String| {
            TaskError::new(format!("{}, document {}", self.config.name, asked.doc), message)
        };
        if answers.len() != asked.asks.len() {
            return Err(fault(format!("{} answers to {} asks", answers.len(), asked.asks.len())));
        }
        let mut item = Item {
            task: self.config.name.clone(),
            doc: asked.doc,
            repeat: 0,
            doc_hash: asked.doc_hash.clone(),
            prompt_hash: asked.prompt_hash.clone(),
            target_hash: asked.target_hash.clone(),
            category: None,
            asks: asked.asks.clone(),
            answers,
            outcomes: BTreeMap::new(),
        };
        let text = self.config.output == Output::Generate;
        let other = item.answers.iter().any(|answer| match answer {
            Answer::Generated(_) => !text,
            Answer::Scored(_) => text,
            Answer::Failed { .. } => false,
        });
        if other {
            return Err(fault("an answer is not of the kind that was asked for".to_owned()));
        }
        for answer in &mut item.answers {
            if let Answer::Scored(scored) = answer
                && !scored.logprob.is_finite()
            {
                let reason =
                    format!("the server's log-probability is {}, which is no number", scored.logprob);
                *answer = Answer::Failed { reason };
            }
        }
        if item.failed() {
            return Ok(item);
        }
        for pipeline in &self.config.pipelines {
            let outcome = self
                .filtered(pipeline, asked, &item.answers)
                .and_then(|filtered| self.outcome(pipeline, asked, &item.answers, &filtered));
            match outcome {
                Ok(outcome) => {
                    item.outcomes.insert(pipeline.name.clone(), outcome);
                }
                // A hostile answer must not end a run.
                Err(error) => {
                    let reason = format!("the answer could not be judged by {:?}: {error}", pipeline.name);
                    item.outcomes.clear();
                    item.answers.truncate(asked.asks.len() - 1);
                    item.answers.push(Answer::Failed { reason });
                    return Ok(item);
                }
            }
        }
        Ok(item)
    }

    /// The results over judged items, with `replicates` bootstrap samples where a standard error needs them.
    #[must_use]
    pub fn results(&self, items: &[Item], options: &Options, replicates: u32) -> TaskResults {
        results::of_task(&self.config, self.documents.len() as u64, self.shots(options), items, replicates)
    }

    /// What one filter leaves of the answers, request by request.
    pub(super) fn filtered(
        &self,
        pipeline: &Pipeline,
        asked: &Asked,
        answers: &[Answer],
    ) -> Result<Vec<Value>, String> {
        let one = |answers: &[Answer]| match (answers.first(), self.config.output) {
            (Some(Answer::Scored(scored)), Output::Rolling) => Ok(json!(scored.logprob)),
            (Some(Answer::Scored(scored)), Output::Score | Output::Choice) => {
                Ok(json!([scored.logprob, scored.greedy]))
            }
            (Some(Answer::Generated(_)), Output::Generate) => {
                let texts: Option<Vec<&str>> = answers
                    .iter()
                    .map(|answer| match answer {
                        Answer::Generated(generated) => Some(generated.text.as_str()),
                        _ => None,
                    })
                    .collect();
                pipeline.apply(&texts.ok_or("an answer is no text")?, &asked.document)
            }
            _ => Err("an answer is not of the kind that was asked for".to_owned()),
        };
        answers.chunks(self.config.repeats as usize).map(one).collect()
    }

    fn outcome(
        &self,
        pipeline: &Pipeline,
        asked: &Asked,
        answers: &[Answer],
        filtered: &[Value],
    ) -> Result<Outcome, String> {
        let mut outcome = Outcome::default();
        let scores = match (self.config.scorer, self.config.output) {
            (Some(scorer), _) => scorer(&asked.document, filtered)?,
            (None, Output::Generate) => self.text_scores(asked, filtered)?,
            (None, Output::Choice) => self.choice_scores(asked, answers)?,
            (None, Output::Score) => score_scores(&filtered[0]),
            (None, Output::Rolling) => {
                rolling_scores(&filtered[0], asked.target.as_str().unwrap_or_default())
            }
        };
        for (name, score) in scores {
            if self.config.metrics.iter().any(|metric| metric.name == name) {
                outcome.keep(&name, score);
            }
        }
        outcome.extracted = match self.config.output {
            Output::Generate => filtered.first().cloned().filter(|value| !pipeline.unparsed(value)),
            Output::Choice => {
                let logprobs: Option<Vec<f64>> = filtered.iter().map(|two| two[0].as_f64()).collect();
                logprobs.map(|list| json!(metric::argmax(&list)))
            }
            Output::Score | Output::Rolling => filtered.first().cloned(),
        };
        Ok(outcome)
    }

    fn text_scores(&self, asked: &Asked, filtered: &[Value]) -> Result<Vec<(String, Score)>, String> {
        let result = filtered.first().ok_or("no answer")?;
        let target = match (&self.config.choice, super::place(&asked.target)) {
            (Some(choice), Some(at)) => {
                let choices = self.choices(Some(choice), &asked.document).map_err(|error| error.message)?;
                let choice = choices.get(at).cloned();
                Value::from(choice.ok_or_else(|| format!("there is no choice {at}"))?)
            }
            (Some(_), None) => {
                return Err("with `doc_to_choice` the target should be the place of a choice".to_owned());
            }
            (None, _) => asked.target.clone(),
        };
        let mut scores = Vec::new();
        for metric in &self.config.metrics {
            let score = match &metric.kind {
                MetricKind::ExactMatch(exact) => {
                    let said = compared(result)?;
                    let wanted = match (&target, self.many_targets) {
                        (Value::Array(list), true) => list.clone(),
                        (one, _) => vec![one.clone()],
                    };
                    let mut hit = false;
                    for one in &wanted {
                        hit |= exact.same(&said, &python::str(one))?;
                    }
                    f64::from(u8::from(hit))
                }
                MetricKind::Function(function) => function(&compared(result)?, &target)?,
                MetricKind::Given | MetricKind::Native => continue,
            };
            scores.push((metric.name.clone(), Score::Number(score)));
        }
        Ok(scores)
    }

    fn choice_scores(&self, asked: &Asked, answers: &[Answer]) -> Result<Vec<(String, Score)>, String> {
        let scored: Vec<&Scored> = answers
            .iter()
            .step_by(self.config.repeats as usize)
            .filter_map(|answer| match answer {
                Answer::Scored(scored) => Some(scored),
                _ => None,
            })
            .collect();
        let choices =
            self.choices(self.config.choice.as_ref(), &asked.document).map_err(|error| error.message)?;
        let logprobs: Vec<f64> = scored.iter().map(|scored| scored.logprob).collect();
        let greedy: Vec<Option<bool>> =
            scored.iter().map(|scored| scored.greedy).take(choices.len()).collect();
        let (own, rest) = logprobs.split_at(choices.len().min(logprobs.len()));
        let gold = match self.many_inputs {
            true => self
                .value("doc_to_text", &self.config.text, &asked.document)
                .map_err(|error| error.message)?,
            false => asked.target.clone(),
        };
        let place = |gold: &Value| match gold {
            Value::String(text) => choices.iter().position(|choice| choice == text),
            other => super::place(other).filter(|at| *at < choices.len()),
        };
        let gold: Vec<Option<usize>> = match &gold {
            Value::Array(list) if self.many_targets => list.iter().map(place).collect(),
            one => vec![place(one)],
        };
        let scores =
            metric::choice_scores(own, &greedy, Some(rest).filter(|rest| !rest.is_empty()), &choices, &gold)?;
        Ok(scores.into_iter().map(|(name, score)| (name.to_owned(), score)).collect())
    }
}

/// A filtered answer as text.
fn compared(result: &Value) -> Result<String, String> {
    match result {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(python::str(result)),
        // What a `map` gives where it knows no answer.
        Value::Null => Ok(String::new()),
        other => Err(format!("the filters leave {}, which is no text to compare", python::repr(other))),
    }
}

fn score_scores(result: &Value) -> Vec<(String, Score)> {
    let mut scores = Vec::new();
    if let Some(logprob) = result[0].as_f64() {
        scores.push(("perplexity".to_owned(), Score::Number(logprob)));
    }
    if let Some(greedy) = result[1].as_bool() {
        scores.push(("acc".to_owned(), Score::Number(f64::from(u8::from(greedy)))));
    }
    scores
}

fn rolling_scores(logprob: &Value, text: &str) -> Vec<(String, Score)> {
    let parts = |name: &str, units: usize| (name.to_owned(), Score::Parts(json!([logprob, units])));
    vec![
        parts("word_perplexity", python::split_runs(text).count()),
        parts("byte_perplexity", text.len()),
        parts("bits_per_byte", text.len()),
    ]
}
