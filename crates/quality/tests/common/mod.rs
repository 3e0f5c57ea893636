//! A tokenizer for tests: words with the white space before them, and periods.

use quality::{Answer, Generated, Tokens, TokensError};
use std::cell::RefCell;

#[derive(Default)]
pub struct Words(RefCell<Vec<String>>);

impl Tokens for Words {
    /// `\s*[^\s.]+|\s*\.`; what is left at the end is dropped.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokensError> {
        let mut known = self.0.borrow_mut();
        let mut index: std::collections::HashMap<String, u32> =
            known.iter().enumerate().map(|(id, word)| (word.clone(), id as u32)).collect();
        let mut ids = Vec::new();
        let mut rest = text;
        loop {
            let start = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
            let body = &rest[start..];
            let end = match body.chars().next() {
                None => break,
                Some('.') => 1,
                Some(_) => body.find(|c: char| c.is_whitespace() || c == '.').unwrap_or(body.len()),
            };
            let (word, behind) = rest.split_at(start + end);
            ids.push(*index.entry(word.to_owned()).or_insert_with(|| {
                known.push(word.to_owned());
                known.len() as u32 - 1
            }));
            rest = behind;
        }
        Ok(ids)
    }

    fn decode(&self, ids: &[u32]) -> Result<String, TokensError> {
        let known = self.0.borrow();
        Ok(ids.iter().map(|id| known[*id as usize].as_str()).collect())
    }
}

pub fn answer(text: &str) -> Answer {
    Answer::Generated(Generated { text: text.to_owned(), ..Generated::default() })
}
