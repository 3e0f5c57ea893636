//! The tokenizer that a caller lends, to fit texts to lengths.

/// A tokenizer: of the server, or of a file.
pub trait Tokens {
    /// Token ids of a text, without special tokens.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokensError>;
    /// The text of token ids, special tokens left out.
    fn decode(&self, ids: &[u32]) -> Result<String, TokensError>;
    /// Number of tokens of a text.
    fn count(&self, text: &str) -> Result<usize, TokensError> {
        Ok(self.encode(text)?.len())
    }
}

/// Why a text has no tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tokenizer gave no answer: {0}")]
pub struct TokensError(
    /// What went wrong.
    pub String,
);
