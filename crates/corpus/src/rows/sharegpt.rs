//! ShareGPT: a JSON array of conversations, of which the first exchange is used.

use std::num::NonZero;
use std::path::Path;

use serde::Deserialize;
use serde_json::Map;

use super::{Dropped, Filter, Loaded, Row, read};
use crate::CorpusError;
use crate::prompt::Content;
use crate::tokenizer::Tokenizer;

/// Fewest tokens of a prompt, and of an answer whose length is asked for.
const SHORTEST: u32 = 4;
/// Most tokens of a prompt.
const LONGEST_PROMPT: u32 = 1024;
/// Most tokens of prompt and answer together.
const LONGEST_TOTAL: u32 = 2048;
/// Bytes that stand for a token when nobody can count.
const BYTES_PER_TOKEN: usize = 4;

#[derive(Deserialize)]
struct Conversation {
    #[serde(default, alias = "conversation", alias = "messages")]
    conversations: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    #[serde(alias = "role")]
    from: String,
    #[serde(default, alias = "content")]
    value: String,
}

struct Exchange {
    prompt: String,
    answer: String,
    later_turns: usize,
}

/// Reads the file: prompt = first human turn, output length = tokens of the answer that follows it.
///
/// The filters are those of vLLM's `sharegpt` data set: 4 to 1,024 tokens of prompt, at least 4 of
/// answer (if `asked`: the answer's length is what the server is asked for), 2,048 together. Without a
/// tokenizer lengths are taken at 4 bytes a token for the filters, and no output length is given.
pub(crate) fn load(path: &Path, tokenizer: Option<&Tokenizer>, asked: bool) -> Result<Loaded, CorpusError> {
    let (bytes, sha256) = read(path)?;
    let data_set = |problem: String| CorpusError::DataSet { path: path.to_owned(), problem };
    let conversations: Vec<Conversation> = serde_json::from_slice(&bytes).map_err(|e| CorpusError::Row {
        path: path.to_owned(),
        line: e.line().max(1),
        problem: format!(
            "not a ShareGPT file: {e}; expected a JSON array of {{\"conversations\": [{{\"from\": \"human\", \"value\": …}}, …]}}"
        ),
    })?;
    drop(bytes);
    if conversations.is_empty() {
        return Err(data_set("the array is empty".into()));
    }
    let total = conversations.len();
    let exchanges: Vec<Exchange> = conversations.into_iter().filter_map(first_exchange).collect();
    let mut drops: Vec<(Filter, usize)> = vec![(Filter::NoExchange, total - exchanges.len())];
    let lengths = count_all(&exchanges, tokenizer);
    let mut rows = Vec::new();
    let mut turns_dropped = 0;
    for (exchange, (prompt, answer)) in exchanges.into_iter().zip(lengths) {
        let filter = if prompt < SHORTEST {
            Some(Filter::ShortPrompt)
        } else if asked && answer < SHORTEST {
            Some(Filter::ShortAnswer)
        } else if prompt > LONGEST_PROMPT {
            Some(Filter::LongPrompt)
        } else if prompt.saturating_add(answer) > LONGEST_TOTAL {
            Some(Filter::LongTotal)
        } else {
            None
        };
        match filter {
            Some(filter) => match drops.iter_mut().find(|(f, _)| *f == filter) {
                Some((_, n)) => *n += 1,
                None => drops.push((filter, 1)),
            },
            None => {
                turns_dropped += exchange.later_turns;
                rows.push(Row {
                    content: Content::Text(exchange.prompt),
                    osl: tokenizer.map(|_| answer.max(1)),
                    extra: Map::new(),
                });
            }
        }
    }
    drops.retain(|(_, n)| *n > 0);
    drops.sort_unstable();
    if rows.is_empty() {
        let why: Vec<String> = drops.iter().map(|(filter, n)| format!("{n} {filter}")).collect();
        return Err(data_set(format!("no conversation is usable: {}", why.join(", "))));
    }
    let dropped = drops.into_iter().map(|(filter, rows)| Dropped { filter, rows }).collect();
    Ok(Loaded { sha256, rows, dropped, turns_dropped })
}

/// The first human turn and the turn after it, if that is an answer; both with text.
fn first_exchange(conversation: Conversation) -> Option<Exchange> {
    let mut turns = conversation.conversations.into_iter();
    let prompt = turns.by_ref().find(|t| matches!(t.from.as_str(), "human" | "user"))?;
    let answer = turns.next().filter(|t| !matches!(t.from.as_str(), "human" | "user" | "system"))?;
    let has_text = |t: &Turn| !t.value.trim().is_empty();
    (has_text(&prompt) && has_text(&answer)).then(|| Exchange {
        prompt: prompt.value,
        answer: answer.value,
        later_turns: turns.count(),
    })
}

/// Tokens of every prompt and answer, on all cores: a full data set has some 100 MB of text.
fn count_all(exchanges: &[Exchange], tokenizer: Option<&Tokenizer>) -> Vec<(u32, u32)> {
    let count = |text: &str| match tokenizer {
        Some(t) => t.count(text).unwrap_or(u32::MAX),
        None => text.len().div_ceil(BYTES_PER_TOKEN) as u32,
    };
    let both = |e: &Exchange| (count(&e.prompt), count(&e.answer));
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    if exchanges.len() < 256 || cores == 1 {
        return exchanges.iter().map(both).collect();
    }
    let mut lengths = vec![(0, 0); exchanges.len()];
    let share = exchanges.len().div_ceil(cores);
    std::thread::scope(|scope| {
        for (from, to) in exchanges.chunks(share).zip(lengths.chunks_mut(share)) {
            scope.spawn(move || {
                for (exchange, length) in from.iter().zip(to) {
                    *length = both(exchange);
                }
            });
        }
    });
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use spec::TokenizerChoice;

    fn load_value(value: &Value, tokenizer: Option<&Tokenizer>, asked: bool) -> Result<Loaded, CorpusError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sharegpt.json");
        std::fs::write(&path, value.to_string()).unwrap();
        load(&path, tokenizer, asked)
    }
    fn cl100k() -> Tokenizer {
        Tokenizer::open(&TokenizerChoice::Embedded("cl100k".into()), None).unwrap().unwrap()
    }
    fn talk(turns: &[(&str, &str)]) -> Value {
        let turns: Vec<Value> = turns.iter().map(|(f, v)| json!({"from": f, "value": v})).collect();
        json!({"id": "x", "conversations": turns})
    }

    #[test]
    fn filters_are_counted_by_name() {
        let words = |n: usize| "word ".repeat(n);
        let value = json!([
            talk(&[
                ("human", "Tell me about old trains"),
                ("gpt", "They ran on steam, mostly."),
                ("human", "And now?"),
                ("gpt", "Power.")
            ]),
            talk(&[
                ("system", "s"),
                ("user", "Tell me about new trains"),
                ("assistant", "They run on power.")
            ]),
            talk(&[("human", "Hi"), ("gpt", "Hello, how are you today?")]),
            talk(&[("human", "Say yes if you agree"), ("gpt", "Yes")]),
            talk(&[("human", &words(1100)), ("gpt", "They ran on steam, mostly.")]),
            talk(&[("human", &words(1000)), ("gpt", &words(1100))]),
            talk(&[("human", "Only a question here, no answer")]),
            talk(&[("human", "One question after"), ("human", "another one")]),
            talk(&[("gpt", "Only an answer")]),
            talk(&[("human", "  "), ("gpt", "Nothing was asked.")]),
            talk(&[]),
        ]);
        let t = cl100k();
        let loaded = load_value(&value, Some(&t), true).unwrap();
        assert_eq!(loaded.rows.len(), 2);
        assert_eq!(loaded.rows[0].content, Content::Text("Tell me about old trains".into()));
        assert_eq!(loaded.rows[0].osl, t.count("They ran on steam, mostly."));
        assert_eq!(loaded.turns_dropped, 2);
        let dropped: Vec<_> = loaded.dropped.iter().map(|d| (d.filter, d.rows)).collect();
        assert_eq!(
            dropped,
            [
                (Filter::NoExchange, 5),
                (Filter::ShortPrompt, 1),
                (Filter::ShortAnswer, 1),
                (Filter::LongPrompt, 1),
                (Filter::LongTotal, 1)
            ]
        );
        // The length of the answer is not asked for: a short one does not matter.
        assert_eq!(load_value(&value, Some(&t), false).unwrap().rows.len(), 3);
        // Nobody counts: no output length is invented.
        let uncounted = load_value(&value, None, true).unwrap();
        assert!(uncounted.rows.iter().all(|r| r.osl.is_none()));
    }

    #[test]
    fn bounds_are_inclusive() {
        let t = cl100k();
        let of = |n: usize| format!("word{}", " word".repeat(n - 1));
        let kept = |prompt: usize, answer: usize| {
            load_value(&json!([talk(&[("human", &of(prompt)), ("gpt", &of(answer))])]), Some(&t), true)
                .is_ok()
        };
        assert!(kept(4, 4) && kept(1024, 1024));
        assert!(!kept(3, 9) && !kept(9, 3) && !kept(1025, 9) && !kept(1024, 1025));
    }

    #[test]
    fn many_conversations_are_counted_in_order() {
        let t = cl100k();
        let words = |n: usize| format!("word{}", " word".repeat(n - 1));
        let talks: Vec<Value> =
            (0..600).map(|i| talk(&[("human", &words(4 + i % 50)), ("gpt", &words(5 + i % 70))])).collect();
        let loaded = load_value(&json!(talks), Some(&t), true).unwrap();
        for (i, row) in loaded.rows.iter().enumerate() {
            assert_eq!(row.osl, Some(5 + i as u32 % 70));
        }
    }

    #[test]
    fn other_files_are_refused_in_words() {
        let error = |v: &Value| load_value(v, None, true).unwrap_err().to_string();
        assert!(error(&json!([])).contains("the array is empty"));
        assert!(error(&json!({"prompt": "a"})).contains("not a ShareGPT file"));
        assert!(
            error(&json!([{"prompt": "a"}])).contains("no conversation is usable: 1 without a human turn")
        );
        assert!(
            error(&json!([{"conversations": [{"from": "human", "value": 3}]}]))
                .contains("not a ShareGPT file")
        );
    }
}
