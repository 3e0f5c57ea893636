//! Texts as tokens: where context ends and continuation begins, and windows over a long text.

use crate::python;

/// What turns text into the token ids that a server would see, without special tokens.
pub trait Tokenize {
    /// What can go wrong.
    type Error;

    /// The ids of a text.
    ///
    /// # Errors
    ///
    /// Where the tokenizer cannot be asked.
    fn encode(&self, text: &str) -> Result<Vec<u32>, Self::Error>;
}

/// Token ids of a context and of what is scored after it. White space at the end of the context is scored with
/// the continuation, and both are encoded as one text, so that tokens which cross the seam are those of the
/// whole. An empty context is the model's prefix token (BOS, else EOS).
///
/// # Errors
///
/// Where the tokenizer fails.
pub fn encode_pair<T: Tokenize>(
    tokenizer: &T,
    prefix: u32,
    context: &str,
    continuation: &str,
) -> Result<(Vec<u32>, Vec<u32>), T::Error> {
    if context.is_empty() {
        let ids = tokenizer.encode(continuation)?;
        // A tokenizer that writes the prefix token itself has said where the context ends.
        return Ok(match ids.split_first() {
            Some((first, rest)) if *first == prefix => (vec![prefix], rest.to_vec()),
            _ => (vec![prefix], ids),
        });
    }
    let head = python::rstrip(context);
    let whole = tokenizer.encode(&format!("{context}{continuation}"))?;
    let before = tokenizer.encode(head)?;
    let scored = whole.get(before.len()..).unwrap_or_default().to_vec();
    Ok((before, scored))
}

/// Windows over the tokens of a text: pairs of context and what is scored after it, each token scored once.
///
/// The first window is a prefix token and up to `longest` scored tokens; a later one sees at least `context`
/// tokens before what it scores, and is filled to `longest` with earlier ones. `longest` is taken as at least
/// 1, `context` as 1 to `longest`.
#[must_use]
pub fn rolling_windows(
    tokens: &[u32],
    prefix: u32,
    longest: usize,
    context: usize,
) -> Vec<(Vec<u32>, Vec<u32>)> {
    let longest = longest.max(1);
    let step = longest - context.clamp(1, longest) + 1;
    let mut windows = Vec::new();
    let first = longest.min(tokens.len());
    if first > 0 {
        windows.push((vec![prefix], tokens[..first].to_vec()));
    }
    let mut done = first;
    while done < tokens.len() {
        let scored = step.min(tokens.len() - done);
        let end = done + scored;
        windows.push((tokens[end - longest - 1..done].to_vec(), tokens[done..end].to_vec()));
        done = end;
    }
    windows
}
