//! A model's own `tokenizer.json`.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::Tokenize;
use crate::CorpusError;

/// A loaded `tokenizer.json`.
pub(super) struct HfTokenizer {
    path: PathBuf,
    inner: tokenizers::Tokenizer,
    sha256: String,
}

impl HfTokenizer {
    /// Loads a file, or the `tokenizer.json` of a folder. Truncation and padding that the file asks
    /// for are switched off: they would make every long text the same length.
    pub(super) fn open(path: &Path) -> Result<Self, CorpusError> {
        let path = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
        let bytes =
            std::fs::read(&path).map_err(|source| CorpusError::Read { path: path.clone(), source })?;
        let bad = |problem: String| CorpusError::TokenizerFile { path: path.clone(), problem };
        let mut inner = tokenizers::Tokenizer::from_bytes(&bytes).map_err(|e| bad(e.to_string()))?;
        inner.with_truncation(None).map_err(|e| bad(e.to_string()))?;
        inner.with_padding(None);
        inner.encode_fast("Words, and \u{10fffd}.", false).map_err(|e| {
            bad(format!(
                "it cannot encode characters outside its vocabulary: {e}; an unknown token is missing"
            ))
        })?;
        let sha256 = crate::hex(&Sha256::digest(&bytes));
        Ok(Self { path, inner, sha256 })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Tokenize for HfTokenizer {
    fn encode(&self, text: &str) -> Option<Vec<u32>> {
        self.inner.encode_fast(text, false).ok().map(|encoding| encoding.get_ids().to_vec())
    }
    fn encode_with_ends(&self, text: &str) -> Option<Vec<(u32, usize)>> {
        let encoding = self.inner.encode(text, false).ok()?;
        let ends = encoding.get_offsets().iter().map(|(_, end)| *end);
        Some(encoding.get_ids().iter().copied().zip(ends).collect())
    }
    fn decode(&self, ids: &[u32]) -> Option<String> {
        self.inner.decode(ids, false).ok()
    }
    fn count(&self, text: &str) -> Option<u32> {
        self.inner.encode_fast(text, false).ok().map(|encoding| encoding.len() as u32)
    }
    fn identity(&self) -> String {
        format!("tokenizer.json:{}", self.sha256)
    }
}
