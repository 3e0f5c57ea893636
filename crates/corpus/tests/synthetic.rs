//! Synthetic prompts: exact, unique from the first block, plausible, the same everywhere.
#![allow(clippy::unwrap_used, reason = "a test may fail here")]

mod common;

use std::collections::BTreeSet;

use common::{Counting, embedded, file, synthetic, text, unique};
use corpus::{Corpus, Tokenizer};
use proptest::prelude::*;
use spec::{CacheProtocol, Lengths};

const MIX: [u32; 7] = [1, 2, 3, 7, 16, 128, 512];

#[test]
fn every_one_of_1000_prompts_is_exact_and_its_first_block_unique() {
    for name in ["llama3", "qwen2", "o200k", "cl100k", "deepseek-v3", "tekken", "gpt2"] {
        let tokenizer = embedded(name);
        let corpus = unique(Some(tokenizer.clone()), 42);
        let mut blocks = BTreeSet::new();
        for seq in 0..1000 {
            let isl = MIX[seq as usize % MIX.len()];
            let prompt = corpus.prompt(seq, Some(isl)).unwrap();
            assert_eq!((prompt.planned, prompt.counted), (Some(isl), Some(isl)), "{name} {seq}");
            // Counted anew, not taken from the prompt's own word.
            assert_eq!(tokenizer.count(text(&prompt)), Some(isl), "{name} {seq}: {}", text(&prompt));
            assert!(blocks.insert(prompt.identity.first16), "{name} {seq}: {}", text(&prompt));
            assert_eq!(prompt.shared, 0);
        }
    }
}

#[test]
fn two_seeds_and_two_lengths_share_no_first_block() {
    let tokenizer = embedded("llama3");
    let mut blocks = BTreeSet::new();
    for seed in [1, 2] {
        let corpus = unique(Some(tokenizer.clone()), seed);
        for seq in 0..1000 {
            assert!(blocks.insert(corpus.prompt(seq, Some(48)).unwrap().identity.first16), "{seed} {seq}");
        }
    }
    // The block does not depend on what follows it: the same prompt, longer, has the same block.
    let corpus = unique(Some(tokenizer), 1);
    let (short, long) = (corpus.prompt(5, Some(64)).unwrap(), corpus.prompt(5, Some(640)).unwrap());
    assert_eq!(short.identity.first16, long.identity.first16);
    assert_ne!(short.identity.whole, long.identity.whole);
}

#[test]
fn about_one_encode_a_prompt() {
    for tokenizer in [embedded("qwen2"), file("byte-bpe.json"), file("wordpiece.json"), file("unigram.json")]
    {
        let counting = Counting::around(tokenizer);
        let corpus = unique(Some(Tokenizer::custom(counting.clone(), "counting")), 7);
        corpus.prompt(0, Some(64)).unwrap();
        let before = counting.calls();
        for seq in 1..=500 {
            let isl = 16 + (seq as u32 * 37) % 300;
            assert_eq!(corpus.prompt(seq, Some(isl)).unwrap().counted, Some(isl));
        }
        let each = (counting.calls() - before) as f64 / 500.0;
        assert!(each <= 1.1, "{each} encodes for each prompt");
    }
}

#[test]
fn users_vocabularies_of_every_kind_are_hit() {
    for (name, from) in
        [("byte-bpe.json", 4), ("bos-bpe.json", 4), ("wordpiece.json", 1), ("unigram.json", 4)]
    {
        let tokenizer = file(name);
        let corpus = unique(Some(tokenizer.clone()), 3);
        let mut blocks = BTreeSet::new();
        for seq in 0..300 {
            let isl = (from + seq as u32 % 5) + [0, 12, 124, 508][seq as usize % 4];
            let prompt = corpus.prompt(seq, Some(isl)).unwrap();
            assert_eq!(prompt.counted, Some(isl), "{name} {seq}: {}", text(&prompt));
            assert_eq!(tokenizer.count(text(&prompt)), Some(isl), "{name} {seq}: {}", text(&prompt));
            if isl >= 16 {
                assert!(blocks.insert(prompt.identity.first16), "{name} {seq}: {}", text(&prompt));
            }
        }
    }
}

#[test]
fn a_vocabulary_whose_tokens_span_words_is_hit_or_the_miss_is_told() {
    let tokenizer = file("spanning.json");
    let corpus = unique(Some(tokenizer.clone()), 3);
    let (mut exact, n) = (0, 200);
    for seq in 0..n {
        let isl = [16, 64, 128, 500][seq as usize % 4];
        let prompt = corpus.prompt(seq, Some(isl)).unwrap();
        let counted = prompt.counted.unwrap();
        assert_eq!(tokenizer.count(text(&prompt)), Some(counted));
        assert!(counted.abs_diff(isl) <= 2, "{counted} for {isl}");
        exact += u32::from(counted == isl);
    }
    assert!(exact >= n as u32 * 95 / 100, "{exact} of {n}");
}

#[test]
fn long_prompts_are_exact() {
    for isl in [4096, 32_768, 131_072] {
        let tokenizer = embedded("o200k");
        let prompt = unique(Some(tokenizer.clone()), 9).prompt(1, Some(isl)).unwrap();
        assert_eq!(tokenizer.count(text(&prompt)), Some(isl));
    }
}

#[test]
fn the_text_is_plain_english_sentences() {
    let corpus = unique(Some(embedded("llama3")), 11);
    for seq in 0..100 {
        let prompt = corpus.prompt(seq, Some(200)).unwrap();
        let text = text(&prompt);
        assert!(text.bytes().all(|b| b.is_ascii_alphabetic() || b" .,".contains(&b)), "{text}");
        assert!(text.starts_with(|c: char| c.is_ascii_uppercase()) && text.ends_with('.'), "{text}");
        assert!(text.matches(". ").count() >= 8, "{text}");
        assert!(!text.contains("  ") && !text.contains(",.") && !text.contains(".."), "{text}");
    }
}

#[test]
fn the_same_on_every_machine() {
    // Worked out once; a change of any word here is a change of the workload and needs a new version.
    let corpus = unique(Some(embedded("llama3")), 42);
    let prompt = corpus.prompt(0, Some(40)).unwrap();
    assert_eq!(text(&prompt), GOLDEN);
    assert_eq!(prompt.identity.first16, GOLDEN_FIRST16);
    // Order of calls, threads and instances do not matter.
    let other = unique(Some(embedded("llama3")), 42);
    let from_threads: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| (0..50).rev().map(|i| other.prompt(i, Some(64)).unwrap()).collect::<Vec<_>>())
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    });
    for prompts in from_threads {
        for (i, prompt) in prompts.into_iter().rev().enumerate() {
            assert_eq!(prompt, corpus.prompt(i as u64, Some(64)).unwrap());
        }
    }
}

#[test]
fn without_a_tokenizer_nothing_is_claimed_and_texts_are_near() {
    let corpus = unique(None, 42);
    let llama = embedded("llama3");
    let mut blocks = BTreeSet::new();
    for seq in 0..500 {
        let prompt = corpus.prompt(seq, Some(128)).unwrap();
        assert_eq!((prompt.planned, prompt.counted), (Some(128), None));
        assert!(blocks.insert(prompt.identity.first16));
        // Every word is one token under the large vocabularies.
        assert!(llama.count(text(&prompt)).unwrap().abs_diff(128) <= 2);
    }
    assert!(corpus.describe().contains("no tokenizer"), "{}", corpus.describe());
}

#[test]
fn shared_prefixes_share_exactly_their_tokens() {
    for tokenizer in [embedded("llama3"), embedded("o200k"), file("byte-bpe.json"), file("wordpiece.json")] {
        let workload = synthetic(CacheProtocol::SharedPrefix { tokens: 100, groups: 4 });
        let corpus = Corpus::with_tokenizer(&workload, Some(tokenizer.clone()), 5).unwrap();
        let mut beginnings: std::collections::BTreeMap<Vec<u32>, u32> = std::collections::BTreeMap::new();
        let mut nexts = BTreeSet::new();
        for seq in 0..80 {
            let prompt = corpus.prompt(seq, Some(150)).unwrap();
            let ids = tokenizer.encode(text(&prompt)).unwrap();
            assert_eq!((ids.len(), prompt.counted, prompt.shared), (150, Some(150), 100));
            *beginnings.entry(ids[..100].to_vec()).or_default() += 1;
            assert!(nexts.insert(ids[100..116].to_vec()), "a tail came twice");
        }
        // Four prefixes, each in a quarter of the prompts.
        assert_eq!(beginnings.values().copied().collect::<Vec<_>>(), [20; 4]);
        // A prompt that is shorter than the prefix keeps a token of its own.
        let short = corpus.prompt(0, Some(50)).unwrap();
        assert_eq!((short.counted, short.shared <= 49), (Some(50), true));
        assert!(short.shared >= 45, "{}", short.shared);
        assert_eq!(corpus.prompt(0, Some(1)).unwrap().shared, 0);
    }
}

#[test]
fn repeated_prompts_come_in_turn() {
    let workload = synthetic(CacheProtocol::Repeat { prompts: 3 });
    let corpus = Corpus::with_tokenizer(&workload, Some(embedded("qwen2")), 5).unwrap();
    let whole = |seq| corpus.prompt(seq, Some(64)).unwrap().identity.whole;
    let all: BTreeSet<u64> = (0..30).map(whole).collect();
    assert_eq!(all.len(), 3);
    assert_eq!(whole(1), whole(4));
    assert_eq!(corpus.uses(30).to_string(), "3 unique, 27 repeats");
    assert_eq!(corpus.census().unique, Some(3));
    assert_eq!(unique(None, 1).uses(30).to_string(), "30 unique, 0 repeats");
}

#[test]
fn wishes_that_do_not_go_together_are_refused() {
    let refuse =
        |workload: spec::Workload| Corpus::with_tokenizer(&workload, None, 1).unwrap_err().to_string();
    let mut no_length = synthetic(CacheProtocol::Unique);
    no_length.isl = Lengths::Data;
    assert!(refuse(no_length).contains("needs an input length"));
    assert!(refuse(synthetic(CacheProtocol::Repeat { prompts: 0 })).contains("at least 1 prompt"));
    let none = CacheProtocol::SharedPrefix { tokens: 0, groups: 1 };
    assert!(refuse(synthetic(none)).contains("at least 1 token"));
    assert!(unique(None, 1).prompt(0, None).is_err());
    // A slip in a length must not fill the memory.
    assert!(unique(None, 1).prompt(0, Some(u32::MAX)).unwrap_err().to_string().contains("16777216"));
    let huge = CacheProtocol::SharedPrefix { tokens: u32::MAX, groups: 1 };
    assert!(refuse(synthetic(huge)).contains("16777216"));
    // Any number of groups costs the same.
    let many = CacheProtocol::SharedPrefix { tokens: 8, groups: u32::MAX };
    let corpus = Corpus::with_tokenizer(&synthetic(many), None, 1).unwrap();
    assert_eq!(corpus.prompt(u64::MAX, Some(16)).unwrap().shared, 8);
}

#[test]
fn even_two_tokens_tell_thousands_of_prompts_apart() {
    let corpus = unique(Some(embedded("qwen2")), 8);
    let twos: BTreeSet<u64> = (0..5000).map(|i| corpus.prompt(i, Some(2)).unwrap().identity.whole).collect();
    assert!(twos.len() > 4950, "{}", twos.len());
    let ones: BTreeSet<u64> = (0..1000).map(|i| corpus.prompt(i, Some(1)).unwrap().identity.whole).collect();
    assert_eq!(ones.len(), 1000);
}

#[test]
fn the_fingerprint_changes_with_everything_that_changes_prompts() {
    let print = |cache, tokenizer, seed| {
        Corpus::with_tokenizer(&synthetic(cache), tokenizer, seed).unwrap().fingerprint()
    };
    let base = print(CacheProtocol::Unique, Some(embedded("llama3")), 1);
    assert_eq!(base, print(CacheProtocol::Unique, Some(embedded("llama3")), 1));
    assert_eq!(base.len(), 64);
    let others = [
        print(CacheProtocol::Unique, Some(embedded("llama3")), 2),
        print(CacheProtocol::Unique, Some(embedded("qwen2")), 1),
        print(CacheProtocol::Unique, Some(file("byte-bpe.json")), 1),
        print(CacheProtocol::Unique, Some(file("bos-bpe.json")), 1),
        print(CacheProtocol::Unique, None, 1),
        print(CacheProtocol::Repeat { prompts: 5 }, Some(embedded("llama3")), 1),
        base,
    ];
    assert_eq!(others.iter().collect::<BTreeSet<_>>().len(), others.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_length_of_any_prompt_of_any_seed_is_exact(
        seed: u64, seq: u64, isl in 1u32..3000, which in 0usize..4
    ) {
        let tokenizer = embedded(["llama3", "qwen2", "o200k", "cl100k"][which]);
        let prompt = unique(Some(tokenizer.clone()), seed).prompt(seq, Some(isl)).unwrap();
        prop_assert_eq!(prompt.counted, Some(isl));
        prop_assert_eq!(tokenizer.count(text(&prompt)), Some(isl));
    }
}

const GOLDEN: &str = "Leg shapes correctly built fifty perfect columns with bold cats, and pages granted ancient pilots. Some cats returned the vessel, and the ordinary trends surrounded the jacket entirely. Before the boat, the high member.";
const GOLDEN_FIRST16: u64 = 14_241_095_042_143_201_544;
