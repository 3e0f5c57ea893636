//! Tokens and words: counts of prompts under an embedded vocabulary, block hashes for the prefix
//! cache, and answers whose every word is one token.

use std::sync::Arc;

use crate::draw::{self, Stream, mix};
use crate::engine::BLOCK_TOKENS;

/// Vocabularies that can be named.
pub const VOCABULARIES: &[&str] = &["llama3", "qwen2", "o200k_harmony", "deepseek_v3", "cl100k_base"];
/// Used where no model says otherwise.
pub const DEFAULT_VOCABULARY: &str = "llama3";

/// Whether the vocabulary is known.
pub fn has_vocabulary(name: &str) -> bool {
    VOCABULARIES.contains(&name)
}

/// Who counts prompt tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// A real vocabulary by name.
    Vocabulary(&'static str),
    /// One token for every four bytes, rounded up: cheap, and about right for English.
    Bytes,
}

/// A prompt as the engine sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// How many.
    pub count: u32,
    /// Chained hashes of the full 16-token blocks.
    pub blocks: Arc<[u64]>,
}

impl Counter {
    /// Loads the vocabulary (tens of milliseconds), so that no request pays for it.
    pub fn warm(&self) {
        self.tokens("warm");
    }

    /// Token ids of a text. With `Bytes`, the four bytes are the id.
    pub fn tokens(&self, text: &str) -> Vec<u32> {
        if let Counter::Vocabulary(name) = self
            && let Some(bpe) = tiktoken::get_encoding(name)
        {
            return bpe.encode(text);
        }
        let four = |chunk: &[u8]| chunk.iter().fold(0u32, |id, byte| (id << 8) | u32::from(*byte));
        text.as_bytes().chunks(4).map(four).collect()
    }

    /// Tokens in front of a bare prompt: Llama's and DeepSeek's tokenizers begin a text with a token
    /// of its own.
    pub fn leading_tokens(&self) -> u32 {
        u32::from(matches!(self, Counter::Vocabulary("llama3" | "deepseek_v3")))
    }
}

// A chat template adds tokens, as a real server's does. Llama 3: `<|begin_of_text|>`; for each message
// `<|start_header_id|>` role `<|end_header_id|>` `\n\n` … `<|eot_id|>`; then four for the assistant's
// header. That makes 5 m + 5 for m messages, which serves all vocabularies here.

/// Id that stands for the tokens of a chat template, so that they too take part in block hashes.
const TEMPLATE_ID: u32 = u32::MAX;

/// Frames the ids of one chat message.
pub fn frame(ids: &mut Vec<u32>, content: &[u32]) {
    ids.extend([TEMPLATE_ID; 4]);
    ids.extend_from_slice(content);
    ids.push(TEMPLATE_ID);
}

/// Begins and ends a framed chat.
pub fn begin_chat(ids: &mut Vec<u32>) {
    ids.push(TEMPLATE_ID);
}
/// See [`begin_chat`].
pub fn end_chat(ids: &mut Vec<u32>) {
    ids.extend([TEMPLATE_ID; 4]);
}

/// Chained hashes: a block's hash covers everything before it.
pub fn block_hashes(ids: &[u32]) -> Arc<[u64]> {
    let mut chain = 0u64;
    ids.chunks_exact(BLOCK_TOKENS as usize)
        .map(|block| {
            for id in block {
                chain = mix(chain ^ u64::from(*id));
            }
            chain
        })
        .collect()
}

/// Frequent English words, each of which is one token with a blank before it (a test holds them to
/// it under every vocabulary).
const WORDS: &[&str] = &[
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
    "not",
    "he",
    "his",
    "but",
    "at",
    "are",
    "this",
    "have",
    "from",
    "or",
    "had",
    "an",
    "they",
    "which",
    "one",
    "you",
    "were",
    "all",
    "her",
    "she",
    "there",
    "would",
    "their",
    "we",
    "him",
    "been",
    "has",
    "when",
    "who",
    "will",
    "no",
    "more",
    "if",
    "out",
    "so",
    "up",
    "said",
    "what",
    "its",
    "about",
    "than",
    "into",
    "them",
    "can",
    "only",
    "other",
    "time",
    "new",
    "some",
    "could",
    "these",
    "two",
    "may",
    "first",
    "then",
    "do",
    "any",
    "like",
    "my",
    "now",
    "over",
    "such",
    "our",
    "man",
    "me",
    "even",
    "most",
    "made",
    "after",
    "also",
    "did",
    "many",
    "before",
    "must",
    "through",
    "years",
    "where",
    "much",
    "your",
    "way",
    "well",
    "down",
    "should",
    "because",
    "each",
    "just",
    "those",
    "people",
    "how",
    "too",
    "little",
    "state",
    "good",
    "very",
    "make",
    "world",
    "still",
    "see",
    "own",
    "work",
    "long",
    "here",
    "get",
    "both",
    "between",
    "life",
    "being",
    "under",
    "never",
    "day",
    "same",
    "another",
    "know",
    "year",
    "while",
    "last",
    "might",
    "us",
    "great",
    "old",
    "off",
    "come",
    "since",
    "go",
    "against",
    "came",
    "right",
    "states",
    "used",
    "take",
    "three",
    "himself",
    "few",
    "house",
    "use",
    "during",
    "without",
    "again",
    "place",
    "around",
    "however",
    "home",
    "small",
    "found",
    "part",
    "school",
    "thought",
    "went",
    "say",
    "general",
    "once",
    "high",
    "upon",
    "every",
    "does",
    "got",
    "united",
    "number",
    "hand",
    "course",
    "water",
    "until",
    "away",
    "always",
    "public",
    "something",
    "fact",
    "less",
    "though",
    "far",
    "put",
    "head",
    "think",
    "set",
    "called",
    "system",
    "better",
    "told",
    "nothing",
    "night",
    "end",
    "why",
    "find",
    "going",
    "look",
    "point",
    "group",
];

/// Token `index` of the answer to request `number`: one token of text.
pub fn word(seed: u64, number: u64, index: u32) -> &'static str {
    WORDS[(draw::bits(seed, Stream::Words, (number << 24) ^ u64::from(index)) % WORDS.len() as u64) as usize]
}

/// Where a model ends by itself: a log-normal length of this median, σ = 0.6 (mean 1.2 medians).
pub fn natural_length(median: f64, seed: u64, number: u64) -> u32 {
    let length = median * (0.6 * draw::normal(seed, Stream::Length, number)).exp();
    length.round().clamp(1.0, 1e9) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_as_many_tokens_as_words_under_every_vocabulary() {
        for name in VOCABULARIES {
            let counter = Counter::Vocabulary(name);
            for w in WORDS {
                assert_eq!(counter.tokens(&format!(" {w}")).len(), 1, "{name} {w}");
            }
            let answer: String = (0..500).map(|i| format!(" {}", word(1, 7, i))).collect();
            assert_eq!(counter.tokens(&answer).len(), 500, "{name}");
        }
    }

    #[test]
    fn bytes_are_counted_by_four() {
        assert_eq!(Counter::Bytes.tokens("").len(), 0);
        assert_eq!(Counter::Bytes.tokens("abcde").len(), 2);
    }

    #[test]
    fn hashes_cover_what_came_before() {
        let a: Vec<u32> = (0..40).collect();
        let mut b = a.clone();
        b[0] = 99;
        let (ha, hb) = (block_hashes(&a), block_hashes(&b));
        assert_eq!(ha.len(), 2);
        assert!(ha[0] != hb[0] && ha[1] != hb[1]);
        let mut c = a.clone();
        c[20] = 99;
        let hc = block_hashes(&c);
        assert!(ha[0] == hc[0] && ha[1] != hc[1]);
    }

    #[test]
    fn natural_lengths_have_the_asked_median() {
        let mut lengths: Vec<u32> = (0..2_001).map(|n| natural_length(180.0, 1, n)).collect();
        lengths.sort_unstable();
        // Standard error of the median: 1.2533 · 0.6 · 180 / √2001 = 3.0.
        assert!((168..193).contains(&lengths[1_000]), "{}", lengths[1_000]);
    }
}
