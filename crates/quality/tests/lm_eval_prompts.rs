//! GSM8K's prompts as lm-evaluation-harness 0.4.13 makes them (`data/gsm8k_prompts.json`), from its own task
//! files and rows of the data set (`data/gsm8k_rows.json`).

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use quality::task::{Index, Layout, Library, Options, Ports, Task, hashed_text};
use quality::{Ask, Hash, Prompt, Role};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn task(file: &str) -> Task {
    let rows: Value = serde_json::from_str(include_str!("data/gsm8k_rows.json")).unwrap();
    let read =
        |path: &str| rows["tasks"][path].as_str().map(str::to_owned).ok_or_else(|| format!("no {path}"));
    let (index, ports) = (Index::default(), Ports::default());
    let library = Library { read: &read, index: &index, ports: &ports, port: None };
    let config = library.load(file).unwrap().tasks.remove(0);
    let train = (0..rows["train_rows"].as_u64().unwrap())
        .map(|i| rows["train"].get(i.to_string()).cloned().unwrap_or(json!({"question": i, "answer": i})));
    let splits = BTreeMap::from([
        ("train".to_owned(), train.collect()),
        ("test".to_owned(), rows["test"].as_array().unwrap().clone()),
    ]);
    Task::new(config, &splits).unwrap()
}

#[test]
fn prompts_are_those_of_the_harness() {
    let oracle: Value = serde_json::from_str(include_str!("data/gsm8k_prompts.json")).unwrap();
    let layouts =
        [("plain", Layout::Plain), ("multiturn", Layout::Chat), ("singleturn", Layout::ChatOneTurn)];
    for (name, file) in [("gsm8k_local", "gsm8k.yaml"), ("gsm8k_cot_local", "gsm8k-cot.yaml")] {
        let task = task(file);
        for (label, layout) in layouts {
            let wanted = oracle[format!("{name}:{label}")].as_array().unwrap();
            let asked = task.items(&Options { layout, ..Options::default() }).unwrap();
            assert_eq!(asked.len(), wanted.len());
            for (asked, wanted) in asked.iter().zip(wanted) {
                let place = format!("{name}:{label} {}", wanted["doc_id"]);
                let Ask::Generate(generate) = &asked.asks[0] else { panic!("{place} is no text") };
                let text = hashed_text(&generate.prompt);
                assert_eq!(text.chars().count() as u64, wanted["chars"], "{place}");
                assert_eq!(asked.prompt_hash.0, wanted["sha256"], "{place}");
                assert_eq!(asked.prompt_hash, Hash::of(text.as_bytes()), "{place}");
                assert_eq!(asked.target_hash.0, wanted["target_sha256"], "{place}");
                if let Prompt::Chat(turns) = &generate.prompt {
                    let roles: Vec<Role> = turns.iter().map(|turn| turn.role).collect();
                    assert_eq!(json!(roles), wanted["roles"], "{place}");
                    let tail = wanted["last_message_tail"].as_str().unwrap();
                    assert!(turns.last().unwrap().content.ends_with(tail), "{place}");
                }
            }
        }
    }
}

#[test]
fn a_limit_keeps_prompts_and_a_seed_changes_them() {
    let task = task("gsm8k.yaml");
    let hashes = |options: &Options| -> Vec<Hash> {
        task.items(options).unwrap().into_iter().map(|asked| asked.prompt_hash).collect()
    };
    let all = hashes(&Options::default());
    assert_eq!(hashes(&Options { limit: Some(2), ..Options::default() }), all[..2]);
    // Another seed draws rows that are placeholders here: prompts differ, and so do their hashes.
    assert_ne!(hashes(&Options { shot_seed: 1, ..Options::default() })[0], all[0]);
    assert_eq!(task.shots(&Options { shots: Some(0), ..Options::default() }), 0);
}
