//! Data sets: rows, order, repeats, cutting.
#![allow(clippy::unwrap_used, reason = "a test may fail here")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{embedded, text};
use corpus::{Corpus, CorpusError, Filter};
use spec::{CacheProtocol, Lengths, Source, TokenizerChoice, Workload};

fn workload(source: Source) -> Workload {
    Workload {
        source,
        isl: Lengths::Data,
        osl: Lengths::Data,
        cache: CacheProtocol::Unique,
        tokenizer: TokenizerChoice::Embedded("qwen2".into()),
    }
}

fn jsonl(dir: &Path, rows: impl Iterator<Item = String>) -> Source {
    let path = dir.join("rows.jsonl");
    std::fs::write(&path, rows.collect::<Vec<_>>().join("\n")).unwrap();
    Source::Jsonl(path)
}

fn open(workload: &Workload, seed: u64) -> Result<Corpus, CorpusError> {
    Corpus::open(workload, None, seed)
}

#[test]
fn a_small_data_set_repeats_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let rows = (0..21).map(|i| format!(r#"{{"prompt":"Question number {i}?","output_tokens":{}}}"#, i + 1));
    let corpus = open(&workload(jsonl(dir.path(), rows)), 1).unwrap();
    assert_eq!(corpus.uses(90).to_string(), "21 unique, 69 repeats");
    assert_eq!(corpus.uses(10).to_string(), "10 unique, 0 repeats");
    assert_eq!(corpus.census().rows, Some(21));
    let order: Vec<String> = (0..42).map(|i| text(&corpus.prompt(i, None).unwrap()).to_owned()).collect();
    assert_eq!(order[..21], order[21..]);
    assert_eq!(order[..21].iter().collect::<BTreeSet<_>>().len(), 21);
    assert_ne!(order[0..3], ["Question number 0?", "Question number 1?", "Question number 2?"]);
    // Length and row stay together; counts are those of the tokenizer.
    for seq in 0..21 {
        let prompt = corpus.prompt(seq, None).unwrap();
        let n: u32 = text(&prompt).chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap();
        assert_eq!(prompt.osl, Some(n + 1));
        assert_eq!(prompt.counted, embedded("qwen2").count(text(&prompt)));
        assert_eq!(prompt.planned, None);
    }
    assert!(corpus.describe().contains("21 rows"), "{}", corpus.describe());
}

#[test]
fn duplicates_are_no_new_prompts() {
    let dir = tempfile::tempdir().unwrap();
    let rows = (0..10).map(|i| format!(r#"{{"prompt":"Question {}?"}}"#, i % 4));
    let corpus = open(&workload(jsonl(dir.path(), rows)), 1).unwrap();
    assert_eq!(corpus.census().unique, Some(4));
    assert_eq!(corpus.uses(10).to_string(), "4 unique, 6 repeats");
}

#[test]
fn order_follows_the_seed_and_repeat_limits_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let source = jsonl(dir.path(), (0..50).map(|i| format!(r#"{{"prompt":"Row {i}"}}"#)));
    let order = |workload: &Workload, seed| -> Vec<String> {
        let corpus = open(workload, seed).unwrap();
        (0..50).map(|i| text(&corpus.prompt(i, None).unwrap()).to_owned()).collect()
    };
    let mut workload = workload(source);
    assert_eq!(order(&workload, 1), order(&workload, 1));
    assert_ne!(order(&workload, 1), order(&workload, 2));
    workload.cache = CacheProtocol::Repeat { prompts: 3 };
    assert_eq!(order(&workload, 1).iter().collect::<BTreeSet<_>>().len(), 3);
}

#[test]
fn rows_are_cut_to_exact_lengths() {
    let dir = tempfile::tempdir().unwrap();
    let rows = (0..9).map(|i| format!(r#"{{"prompt":"In year {i} the mayor's speech — très long — was «postponed» again, unbelievably."}}"#));
    let mut workload = workload(jsonl(dir.path(), rows));
    workload.isl = Lengths::Fixed(40);
    let corpus = open(&workload, 1).unwrap();
    let t = embedded("qwen2");
    for seq in 0..20 {
        for isl in [1, 5, 12, 40, 333] {
            let prompt = corpus.prompt(seq, Some(isl)).unwrap();
            assert_eq!((prompt.planned, prompt.counted), (Some(isl), Some(isl)));
            assert_eq!(t.count(text(&prompt)), Some(isl));
            assert!(text(&prompt).starts_with("In"));
        }
    }
    workload.tokenizer = TokenizerChoice::None;
    assert!(open(&workload, 1).unwrap_err().to_string().contains("only by a tokenizer"));
}

#[test]
fn conversations_keep_their_roles_and_extras_and_are_not_cut() {
    let dir = tempfile::tempdir().unwrap();
    let row = r#"{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Why is the sky blue?"}],"extra_body":{"reasoning_effort":"low"}}"#;
    let mut workload = workload(jsonl(dir.path(), std::iter::once(row.to_owned())));
    let corpus = open(&workload, 1).unwrap();
    let prompt = corpus.prompt(3, None).unwrap();
    let t = embedded("qwen2");
    let both = t.count("Be brief.").unwrap() + t.count("Why is the sky blue?").unwrap();
    assert_eq!(prompt.counted, Some(both));
    assert_eq!(prompt.extra["reasoning_effort"], "low");
    assert!(corpus.prompt(0, Some(4)).is_err());
    workload.isl = Lengths::Fixed(4);
    assert!(open(&workload, 1).unwrap_err().to_string().contains("cannot be cut"));
    workload.isl = Lengths::Data;
    workload.cache = CacheProtocol::SharedPrefix { tokens: 4, groups: 1 };
    assert!(open(&workload, 1).unwrap_err().to_string().contains("synthetic text only"));
}

#[test]
fn sharegpt_gives_lengths_and_names_what_it_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sg.json");
    std::fs::write(
        &path,
        r#"[{"id":"a","conversations":[{"from":"human","value":"Name three rivers in Asia."},{"from":"gpt","value":"Yangtze, Mekong, Indus."},{"from":"human","value":"More?"}]},
            {"id":"b","conversations":[{"from":"human","value":"Hi"},{"from":"gpt","value":"Hello, how can I help?"}]}]"#,
    )
    .unwrap();
    let corpus = open(&workload(Source::Sharegpt(path)), 1).unwrap();
    let prompt = corpus.prompt(0, None).unwrap();
    assert_eq!(text(&prompt), "Name three rivers in Asia.");
    assert_eq!(prompt.osl, embedded("qwen2").count("Yangtze, Mekong, Indus."));
    assert_eq!(corpus.dropped().len(), 1);
    assert_eq!((corpus.dropped()[0].filter, corpus.dropped()[0].rows), (Filter::ShortPrompt, 1));
    assert_eq!((corpus.census().dropped, corpus.census().turns_dropped), (1, 1));
    let words = corpus.describe();
    assert!(
        words.contains("1 rows left out: 1 with a prompt under 4 tokens; 1 later turns not sent"),
        "{words}"
    );
}
