//! What is in a request: synthetic text of an exact token length, data sets, tokenizers.
//!
//! Every prompt is a pure function of the seed, its number and its length.

mod compose;
mod corpus;
mod cut;
mod error;
mod lexicon;
mod prompt;
mod rows;
mod stream;
mod tokenizer;

pub use corpus::{Census, Corpus, Uses};
pub use error::CorpusError;
pub use prompt::{Content, Identity, Message, Prompt};
pub use rows::{Dropped, Filter};
pub use tokenizer::{Tokenize, Tokenizer};

/// Bytes in lower-case hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
