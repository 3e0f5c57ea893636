//! Rows of a data set: loaded, checked, put in order, counted.

pub(crate) mod jsonl;
pub(crate) mod sharegpt;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::prompt::Content;
use crate::stream::{hash_bytes, shuffle, stream};
use crate::{CorpusError, hex};

/// One row of a data set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) content: Content,
    pub(crate) osl: Option<u32>,
    pub(crate) extra: Map<String, Value>,
}

/// Why rows of a data set are not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// No human turn with text, followed by an answer with text.
    NoExchange,
    /// The prompt has fewer than 4 tokens.
    ShortPrompt,
    /// The answer has fewer than 4 tokens (only where its length is asked for).
    ShortAnswer,
    /// The prompt has more than 1,024 tokens.
    LongPrompt,
    /// Prompt and answer have more than 2,048 tokens together.
    LongTotal,
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Filter::NoExchange => "without a human turn and an answer to it",
            Filter::ShortPrompt => "with a prompt under 4 tokens",
            Filter::ShortAnswer => "with an answer under 4 tokens",
            Filter::LongPrompt => "with a prompt over 1024 tokens",
            Filter::LongTotal => "with prompt and answer over 2048 tokens",
        })
    }
}

/// Rows that a filter took out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// Which.
    pub filter: Filter,
    /// How many rows.
    pub rows: usize,
}

/// A loaded data set in the order in which it is used.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) path: PathBuf,
    /// SHA-256 of the file.
    pub(crate) sha256: String,
    /// Rows in order of use.
    pub(crate) rows: Vec<Row>,
    /// That order was drawn; else it is the file's.
    pub(crate) shuffled: bool,
    /// Hash of each row's content, in order of use.
    hashes: Vec<u64>,
    /// What filters took out.
    pub(crate) dropped: Vec<Dropped>,
    /// Later turns of conversations whose first exchange alone is used.
    pub(crate) turns_dropped: usize,
}

impl Rows {
    /// Shuffles by the seed, if there is one; `only`: no more rows than this are used.
    pub(crate) fn new(loaded: Loaded, path: &Path, seed: Option<u64>, only: Option<u32>) -> Self {
        let Loaded { sha256, mut rows, dropped, turns_dropped } = loaded;
        if let Some(seed) = seed {
            shuffle(&mut stream(seed, "order", 0), &mut rows);
        }
        if let Some(only) = only {
            rows.truncate((only as usize).max(1));
        }
        let hashes = rows.iter().map(|row| row.content.hash()).collect();
        Self { path: path.to_owned(), sha256, rows, shuffled: seed.is_some(), hashes, dropped, turns_dropped }
    }

    pub(crate) fn row(&self, seq: u64) -> &Row {
        &self.rows[(seq % self.rows.len() as u64) as usize]
    }

    /// Different contents among the first `n` rows in order of use.
    pub(crate) fn unique(&self, n: u64) -> u64 {
        let n = n.min(self.hashes.len() as u64) as usize;
        self.hashes[..n].iter().collect::<BTreeSet<_>>().len() as u64
    }

    /// Different first 64 bytes of text over all rows.
    pub(crate) fn unique_beginnings(&self) -> u64 {
        let firsts: BTreeSet<u64> = self
            .rows
            .iter()
            .map(|row| {
                let text = row.content.texts().concat();
                hash_bytes(&text.as_bytes()[..text.len().min(64)])
            })
            .collect();
        firsts.len() as u64
    }
}

/// What a reader gives: rows in the order of the file, at least one.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) sha256: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) dropped: Vec<Dropped>,
    pub(crate) turns_dropped: usize,
}

/// The bytes of a file without a byte order mark, and the SHA-256 of all of them.
fn read(path: &Path) -> Result<(Vec<u8>, String), CorpusError> {
    let mut bytes =
        std::fs::read(path).map_err(|source| CorpusError::Read { path: path.to_owned(), source })?;
    let sha256 = hex(&Sha256::digest(&bytes));
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    Ok((bytes, sha256))
}
