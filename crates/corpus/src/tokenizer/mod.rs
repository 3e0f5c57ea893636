//! Who counts tokens on this side: a local `tokenizer.json`, an embedded vocabulary, or nobody.

mod embedded;
mod file;
mod hub;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use spec::TokenizerChoice;

use crate::CorpusError;

/// A way to split text into tokens, without special tokens of its own.
pub trait Tokenize: Send + Sync {
    /// The tokens of `text`; `None` when the vocabulary cannot express it.
    fn encode(&self, text: &str) -> Option<Vec<u32>>;
    /// The tokens of `text`, each with the byte offset at which it ends.
    fn encode_with_ends(&self, text: &str) -> Option<Vec<(u32, usize)>>;
    /// The text of `ids`; bytes that are not UTF-8 become U+FFFD. `None`: the decoder refuses.
    fn decode(&self, ids: &[u32]) -> Option<String>;
    /// Number of tokens; may be cheaper than [`Tokenize::encode`].
    fn count(&self, text: &str) -> Option<u32> {
        self.encode(text).map(|ids| ids.len() as u32)
    }
    /// What tells this vocabulary apart from another: part of the workload's fingerprint.
    fn identity(&self) -> String;
}

/// A shared tokenizer that knows how it was found. Cloning shares the vocabulary.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<dyn Tokenize>,
    found: String,
}

impl Tokenizer {
    /// The tokenizer that `choice` asks for. `Auto` takes the `tokenizer.json` of a model name that
    /// is a local folder, else the embedded vocabulary of the model's family, else the model's
    /// `tokenizer.json` in this machine's Hugging Face cache, else none. Nothing is downloaded.
    ///
    /// An embedded vocabulary loads on a thread of its own (30 to 100 ms of CPU), so that this
    /// returns at once; the first use waits for it.
    pub fn open(choice: &TokenizerChoice, model: Option<&str>) -> Result<Option<Tokenizer>, CorpusError> {
        match choice {
            TokenizerChoice::None => Ok(None),
            TokenizerChoice::File(path) => Ok(Some(Self::from_file(path, "given")?)),
            TokenizerChoice::Embedded(name) => {
                let vocabulary = embedded::by_name(name)?;
                Ok(Some(Self::from_embedded(vocabulary, "embedded vocabulary".into())))
            }
            TokenizerChoice::Auto => {
                let Some(model) = model else { return Ok(None) };
                if Path::new(model).join("tokenizer.json").is_file() {
                    return Ok(Some(Self::from_file(Path::new(model), "from the model's folder")?));
                }
                if let Some(vocabulary) = embedded::by_model(model) {
                    let found = format!("embedded vocabulary, chosen by the model's name `{model}`");
                    return Ok(Some(Self::from_embedded(vocabulary, found)));
                }
                let cached = hub::cache_folder().and_then(|root| hub::tokenizer_of(&root, model));
                cached.map(|path| Self::from_file(&path, "from the local hub cache")).transpose()
            }
        }
    }

    /// Any other implementation, with words that say where it comes from.
    pub fn custom(inner: Arc<dyn Tokenize>, found: impl Into<String>) -> Self {
        Self { inner, found: found.into() }
    }

    /// The names that [`TokenizerChoice::Embedded`] accepts.
    pub fn embedded_names() -> impl Iterator<Item = &'static str> {
        embedded::names()
    }

    fn from_file(path: &Path, how: &str) -> Result<Self, CorpusError> {
        let file = file::HfTokenizer::open(path)?;
        let found = format!("{} ({how})", file.path().display());
        Ok(Self { inner: Arc::new(file), found })
    }

    fn from_embedded(vocabulary: &'static embedded::Vocabulary, how: String) -> Self {
        vocabulary.preload();
        Self { found: format!("{} ({how})", vocabulary.name), inner: Arc::new(vocabulary) }
    }

    /// Number of tokens of `text` without special tokens; `None` when the vocabulary cannot express
    /// the text (no unknown token), which the embedded ones never do.
    pub fn count(&self, text: &str) -> Option<u32> {
        self.inner.count(text)
    }
    /// The tokens of `text` without special tokens.
    pub fn encode(&self, text: &str) -> Option<Vec<u32>> {
        self.inner.encode(text)
    }
    /// The tokens of `text`, each with the byte offset at which it ends.
    pub fn encode_with_ends(&self, text: &str) -> Option<Vec<(u32, usize)>> {
        self.inner.encode_with_ends(text)
    }
    /// The text of `ids`.
    pub fn decode(&self, ids: &[u32]) -> Option<String> {
        self.inner.decode(ids)
    }
    /// Which vocabulary, and how it was found; for the report.
    pub fn describe(&self) -> &str {
        &self.found
    }
    /// What tells this vocabulary apart from another, whatever the path.
    pub fn identity(&self) -> String {
        self.inner.identity()
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokenizer({})", self.found)
    }
}
