//! Shared by the tests: workloads and a tokenizer that counts its calls.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its part; a test may fail here")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use corpus::{Content, Corpus, Prompt, Tokenize, Tokenizer};
use spec::{CacheProtocol, Lengths, Source, TokenizerChoice, Workload};

pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

pub fn embedded(name: &str) -> Tokenizer {
    Tokenizer::open(&TokenizerChoice::Embedded(name.into()), None).unwrap().unwrap()
}

pub fn file(name: &str) -> Tokenizer {
    Tokenizer::open(&TokenizerChoice::File(data(name)), None).unwrap().unwrap()
}

pub fn synthetic(cache: CacheProtocol) -> Workload {
    Workload {
        source: Source::Synthetic,
        isl: Lengths::Fixed(128),
        osl: Lengths::Fixed(128),
        cache,
        tokenizer: TokenizerChoice::None,
    }
}

pub fn unique(tokenizer: Option<Tokenizer>, seed: u64) -> Corpus {
    Corpus::with_tokenizer(&synthetic(CacheProtocol::Unique), tokenizer, seed).unwrap()
}

pub fn text(prompt: &Prompt) -> &str {
    match &prompt.content {
        Content::Text(text) => text,
        Content::Messages(_) => panic!("expected a text"),
    }
}

/// Counts every call that splits text.
pub struct Counting {
    pub inner: Tokenizer,
    pub encodes: AtomicU64,
    pub counts: AtomicU64,
}

impl Counting {
    pub fn around(inner: Tokenizer) -> Arc<Self> {
        Arc::new(Self { inner, encodes: AtomicU64::new(0), counts: AtomicU64::new(0) })
    }
    pub fn calls(&self) -> u64 {
        self.encodes.load(Ordering::Relaxed) + self.counts.load(Ordering::Relaxed)
    }
}

impl Tokenize for Counting {
    fn encode(&self, text: &str) -> Option<Vec<u32>> {
        self.encodes.fetch_add(1, Ordering::Relaxed);
        self.inner.encode(text)
    }
    fn encode_with_ends(&self, text: &str) -> Option<Vec<(u32, usize)>> {
        self.encodes.fetch_add(1, Ordering::Relaxed);
        self.inner.encode_with_ends(text)
    }
    fn decode(&self, ids: &[u32]) -> Option<String> {
        self.inner.decode(ids)
    }
    fn count(&self, text: &str) -> Option<u32> {
        self.counts.fetch_add(1, Ordering::Relaxed);
        self.inner.count(text)
    }
    fn identity(&self) -> String {
        self.inner.identity()
    }
}
