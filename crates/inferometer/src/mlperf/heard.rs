//! From the rows of a journal to what LoadGen would have seen: samples and answers.

use anyhow::Result;
use corpus::Tokenizer;
use measure::request::{ended, ttft};
use measure::tokens::output_tokens;
use mlperf::log::Answer;
use mlperf::{Sample, Scenario, Schedule};
use record::{Request, Run, Text};
use spec::{Nanos, View};

use crate::failure::Failure;

/// The samples that went out, in the order of the schedule; moments are from the run's origin.
///
/// A query is issued when it leaves the pacer: what this program then does, connecting included, counts as the
/// system's time. It is complete with the end of its body.
pub fn samples(run: &Run, schedule: &Schedule, scenario: Scenario) -> Vec<Sample> {
    let per_query = schedule.samples_per_query.max(1);
    let made = schedule.samples.len();
    // What was due has a row; an Offline query is due as a whole.
    let due = run.requests.iter().map(|row| row.seq).max().map_or(0, |last| last as usize + 1);
    let issued = if scenario == Scenario::Offline { made } else { due.next_multiple_of(per_query).min(made) };
    let mut rows: Vec<Option<&Request>> = vec![None; issued];
    for row in &run.requests {
        if let Some(place) = rows.get_mut(row.seq as usize) {
            *place = Some(row);
        }
    }
    let mut samples = Vec::with_capacity(issued);
    for (query, rows) in rows.chunks(per_query).enumerate() {
        let issue = rows.iter().flatten().filter_map(|row| row.dispatched).min();
        let planned = schedule.at.get(query).copied().unwrap_or_default();
        let scheduled = match scenario {
            Scenario::Server | Scenario::Offline => planned,
            Scenario::SingleStream | Scenario::MultiStream => issue.unwrap_or(planned),
        };
        let issue_delay = match scenario {
            Scenario::Server => issue.map_or(Nanos::ZERO, |at| at.saturating_since(scheduled)),
            _ => Nanos::ZERO,
        };
        for row in rows {
            let index = schedule.samples[samples.len()];
            let since = |at: Nanos| at.saturating_since(scheduled);
            let ok = row.filter(|row| row.state.is_ok());
            let first = |row: &Request| Some(row.intended + ttft(row, View::User).ok()?);
            samples.push(Sample {
                query: query as u64,
                index,
                scheduled,
                issue_delay,
                latency: ok.and_then(ended).map(since),
                first_token: ok.and_then(first).map(since),
                tokens: ok.and_then(|row| output_tokens(row).ok()).map(|(tokens, _)| u64::from(tokens)),
            });
        }
    }
    samples
}

/// The answers to keep, in the order of completion; `first`: samples of earlier passes, `kept`: which of this one.
///
/// Of a model whose vocabulary is known the data are its tokens, 32 bits each, the low byte first; else the bytes of
/// the text. A sample that failed has none.
pub fn answers(
    run: &Run,
    samples: &[Sample],
    first: u64,
    texts: &[Text],
    kept: impl Fn(usize) -> bool,
) -> Result<Vec<Answer>> {
    let spec = &run.header.spec;
    let tokenizer =
        Tokenizer::open(&spec.workload.tokenizer, spec.api.model.as_deref()).map_err(Failure::request)?;
    let mut by_place: Vec<Option<&str>> = vec![None; samples.len()];
    for text in texts {
        if let Some(place) = by_place.get_mut(text.seq as usize) {
            *place = text.answer.as_deref();
        }
    }
    let mut answers = Vec::new();
    for (place, (sample, text)) in samples.iter().zip(&by_place).enumerate() {
        if !kept(place) {
            continue;
        }
        let text = text.filter(|_| sample.latency.is_some()).unwrap_or_default();
        let ids = tokenizer.as_ref().and_then(|tokenizer| tokenizer.encode(text));
        let (data, width) = match ids {
            Some(ids) => (ids.iter().flat_map(|id| id.to_le_bytes()).collect(), 4),
            None => (text.as_bytes().to_vec(), text.chars().next().map_or(0, char::len_utf8)),
        };
        let data: Vec<u8> = data;
        let answer = Answer {
            sequence: first + place as u64,
            index: sample.index,
            first_token: data[..width.min(data.len())].to_vec(),
            tokens: sample.tokens.unwrap_or(0),
            data,
        };
        // What never ended comes last.
        let done = sample.latency.map_or(u64::MAX, |latency| (sample.scheduled + latency).0);
        answers.push((done, answer));
    }
    answers.sort_by_key(|(done, answer)| (*done, answer.sequence));
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

/// Prompt tokens that the server says it took from its cache, in all; `None` if it did not say so of every answer.
pub fn cached_tokens(run: &Run) -> Option<u64> {
    let mut all = 0;
    let mut ok = run.requests.iter().filter(|row| row.state.is_ok()).peekable();
    ok.peek()?;
    for row in ok {
        all += u64::from(row.input.cached?);
    }
    Some(all)
}
