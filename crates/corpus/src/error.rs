//! What can be wrong with a workload's texts or tokenizer.

use std::path::PathBuf;

/// A workload that cannot be built: what was expected, what came, what to do.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A row of a data set is not what a row must be.
    #[error("{}:{line}: {problem}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// A data set as a whole cannot be used.
    #[error("{}: {problem}", path.display())]
    DataSet {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A tokenizer file cannot be used.
    #[error(
        "{}: not a usable tokenizer.json ({problem}); give the `tokenizer.json` that comes with the model, or choose no tokenizer",
        path.display()
    )]
    TokenizerFile {
        /// The file.
        path: PathBuf,
        /// The loader's reason.
        problem: String,
    },
    /// No embedded vocabulary has this name.
    #[error("no embedded vocabulary is called `{name}`; there are {known}{}", hint(.nearest))]
    UnknownVocabulary {
        /// As asked.
        name: String,
        /// A close name.
        nearest: Option<String>,
        /// Every name.
        known: String,
    },
    /// Two wishes that do not go together.
    #[error("{0}")]
    Conflict(String),
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// The nearest of `known` to `word`, if it is near enough to be a slip.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(&word.to_lowercase(), k), k))
        .min()
        .filter(|(distance, k)| *distance <= 1 + k.len() / 4)
        .map(|(_, k)| k)
}
