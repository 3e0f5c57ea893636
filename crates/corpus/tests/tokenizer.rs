//! Tokenizers: how they are found, and what they count.
#![allow(clippy::unwrap_used, reason = "a test may fail here")]

mod common;

use common::{data, embedded, file};
use corpus::Tokenizer;
use spec::TokenizerChoice;

#[test]
fn special_tokens_are_not_counted() {
    // The same vocabulary would give 3 with its own beginning-of-sequence token.
    let bos = file("bos-bpe.json");
    assert_eq!(bos.count("hello world"), Some(2));
    let chunks: Vec<&str> = std::iter::repeat_n([" hello", " world"], 50).flatten().collect();
    assert_eq!(bos.count(&chunks.concat()), Some(100));
    let wordpiece = file("wordpiece.json");
    let ids = wordpiece.encode("the engine").unwrap();
    assert!(!ids.contains(&2) && !ids.contains(&3), "{ids:?}");
}

#[test]
fn truncation_and_padding_of_the_file_do_not_count() {
    let t = file("byte-bpe.json");
    assert!(t.count("old engineers carried heavy valves over the bridge").unwrap() > 8);
    assert_eq!(t.count("."), Some(1));
    assert_eq!(t.count(""), Some(0));
}

#[test]
fn ends_partition_the_text_and_decoding_gives_it_back() {
    let text = "Grüße, 東京 🚀 — old engineers.";
    for t in [embedded("llama3"), embedded("o200k"), file("byte-bpe.json")] {
        let tokens = t.encode_with_ends(text).unwrap();
        assert_eq!(tokens.last().unwrap().1, text.len());
        assert!(tokens.is_sorted_by_key(|(_, end)| *end));
        let ids: Vec<u32> = tokens.iter().map(|(id, _)| *id).collect();
        assert_eq!(Some(&ids), t.encode(text).as_ref());
        assert_eq!(t.count(text), Some(ids.len() as u32));
        assert_eq!(t.decode(&ids).as_deref(), Some(text));
    }
}

#[test]
fn a_tokenizer_is_found_by_file_folder_or_models_name() {
    let open = |choice: &TokenizerChoice, model| Tokenizer::open(choice, model).unwrap();
    let found = open(&TokenizerChoice::Auto, Some("meta-llama/Llama-3.1-8B-Instruct")).unwrap();
    assert_eq!(
        found.describe(),
        "llama3 (embedded vocabulary, chosen by the model's name `meta-llama/Llama-3.1-8B-Instruct`)"
    );
    assert!(open(&TokenizerChoice::Auto, Some("x:20b")).is_none());
    assert!(open(&TokenizerChoice::Auto, None).is_none());
    assert!(open(&TokenizerChoice::None, Some("llama-3.1-8b")).is_none());
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(data("wordpiece.json"), dir.path().join("tokenizer.json")).unwrap();
    let folder = open(&TokenizerChoice::File(dir.path().to_owned()), None).unwrap();
    assert_eq!(folder.identity(), file("wordpiece.json").identity());
    let local = open(&TokenizerChoice::Auto, dir.path().to_str()).unwrap();
    assert_eq!(local.identity(), folder.identity());
    assert!(local.describe().contains("from the model's folder"), "{}", local.describe());
}

#[test]
fn files_that_are_none_are_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let error = |path: std::path::PathBuf| {
        Tokenizer::open(&TokenizerChoice::File(path), None).unwrap_err().to_string()
    };
    assert!(error(dir.path().to_owned()).contains("tokenizer.json"));
    assert!(error("/nowhere/t.json".into()).contains("cannot read /nowhere/t.json"));
    let broken = dir.path().join("broken.json");
    std::fs::write(&broken, "{\"model\": 3}").unwrap();
    assert!(error(broken).contains("not a usable tokenizer.json"));
    assert!(error(data("no-unknown.json")).contains("unknown token"));
}
