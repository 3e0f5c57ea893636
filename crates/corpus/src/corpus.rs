//! The workload's prompts, each a pure function of seed, number and length.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Map;
use sha2::{Digest as _, Sha256};
use spec::{CacheProtocol, Lengths, Source, Workload};

use crate::compose::{Beginning, Composer, Draft};
use crate::lexicon::Lexicon;
use crate::prompt::{Content, Identity, Prompt};
use crate::rows::{Dropped, Row, Rows, jsonl, sharegpt};
use crate::stream::{VERSION, hash_bytes, permuted, stream};
use crate::tokenizer::Tokenizer;
use crate::{CorpusError, cut, hex};

/// The source of prompts of one workload.
pub struct Corpus {
    seed: u64,
    isl: Lengths,
    cache: CacheProtocol,
    tokenizer: Option<Tokenizer>,
    source: Texts,
}

/// Longest prompt in tokens, far above any model's context: a guard against slips.
const LONGEST: u32 = 1 << 24;

enum Texts {
    Synthetic {
        /// Priced on first use: it needs the vocabulary.
        lexicon: OnceLock<Lexicon>,
        /// Shared prefixes by group, written on first use.
        prefixes: Mutex<HashMap<u64, Arc<Prefix>>>,
    },
    Rows(Rows),
}

struct Prefix {
    draft: Draft,
    ids: Option<Vec<u32>>,
}

/// How many different prompts there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Census {
    /// Rows that can be used; `None`: as many as are asked for.
    pub rows: Option<u64>,
    /// Different ones among them; `None`: every one.
    pub unique: Option<u64>,
    /// Rows that differ in their first 64 bytes already; `None`: every one.
    pub unique_beginnings: Option<u64>,
    /// Rows of the data set that filters took out.
    pub dropped: u64,
    /// Later turns of the rows that are used, which are not sent.
    pub turns_dropped: u64,
}

/// How many of a number of requests carry a prompt of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uses {
    /// Different prompts.
    pub unique: u64,
    /// Requests whose prompt another request has carried.
    pub repeats: u64,
}

impl fmt::Display for Uses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} unique, {} repeats", self.unique, self.repeats)
    }
}

impl Corpus {
    /// Opens the workload's source and tokenizer. `model` serves [`spec::TokenizerChoice::Auto`].
    pub fn open(workload: &Workload, model: Option<&str>, seed: u64) -> Result<Corpus, CorpusError> {
        let tokenizer = Tokenizer::open(&workload.tokenizer, model)?;
        Self::with_tokenizer(workload, tokenizer, seed)
    }

    /// The same with a tokenizer that is open already.
    pub fn with_tokenizer(
        workload: &Workload,
        tokenizer: Option<Tokenizer>,
        seed: u64,
    ) -> Result<Corpus, CorpusError> {
        Self::made(workload, tokenizer, seed, true)
    }

    /// The same with the rows of a data set in the order of its file: prompt `i` is row `i`.
    pub fn in_file_order(
        workload: &Workload,
        tokenizer: Option<Tokenizer>,
        seed: u64,
    ) -> Result<Corpus, CorpusError> {
        Self::made(workload, tokenizer, seed, false)
    }

    fn made(
        workload: &Workload,
        tokenizer: Option<Tokenizer>,
        seed: u64,
        shuffled: bool,
    ) -> Result<Corpus, CorpusError> {
        let order = shuffled.then_some(seed);
        let only = match workload.cache {
            CacheProtocol::Repeat { prompts } => Some(prompts),
            _ => None,
        };
        check(workload, tokenizer.is_some())?;
        let source = match &workload.source {
            Source::Synthetic => {
                Texts::Synthetic { lexicon: OnceLock::new(), prefixes: Mutex::new(HashMap::new()) }
            }
            Source::Jsonl(path) => {
                let loaded = jsonl::load(path)?;
                let chat = loaded.rows.iter().any(|row| matches!(row.content, Content::Messages(_)));
                if chat && workload.isl != Lengths::Data {
                    return Err(CorpusError::DataSet {
                        path: path.clone(),
                        problem: "rows with `messages` cannot be cut to an input length; leave the input \
                                  length to the data set, or give rows with `prompt`"
                            .into(),
                    });
                }
                Texts::Rows(Rows::new(loaded, path, order, only))
            }
            Source::Sharegpt(path) => {
                let loaded = sharegpt::load(path, tokenizer.as_ref(), workload.osl == Lengths::Data)?;
                Texts::Rows(Rows::new(loaded, path, order, only))
            }
        };
        Ok(Corpus { seed, isl: workload.isl.clone(), cache: workload.cache.clone(), tokenizer, source })
    }

    /// Prompt number `seq` with `isl` input tokens, or as long as the data set has it: a pure
    /// function of seed, number and length, from any thread. A length that the vocabulary cannot
    /// express exactly shows as `counted` beside `planned`.
    pub fn prompt(&self, seq: u64, isl: Option<u32>) -> Result<Prompt, CorpusError> {
        if isl.is_some_and(|isl| isl > LONGEST) {
            return Err(CorpusError::Conflict(format!(
                "an input length of more than {LONGEST} tokens is not made"
            )));
        }
        let seq = match self.cache {
            CacheProtocol::Repeat { prompts } => seq % u64::from(prompts.max(1)),
            _ => seq,
        };
        match (&self.source, isl) {
            (Texts::Synthetic { lexicon, prefixes }, Some(isl)) => {
                Ok(self.synthetic(lexicon, prefixes, seq, isl.max(1)))
            }
            (Texts::Synthetic { .. }, None) => Err(needs_length()),
            (Texts::Rows(rows), None) => Ok(self.as_is(rows.row(seq))),
            (Texts::Rows(rows), Some(isl)) => self.cut(rows, seq, isl.max(1)),
        }
    }

    fn synthetic(
        &self,
        lexicon: &OnceLock<Lexicon>,
        prefixes: &Mutex<HashMap<u64, Arc<Prefix>>>,
        seq: u64,
        isl: u32,
    ) -> Prompt {
        let tokenizer = self.tokenizer.as_ref();
        let lexicon = lexicon.get_or_init(|| Lexicon::new(tokenizer, self.seed));
        let composer = Composer { lexicon, tokenizer };
        let mut rng = stream(self.seed, "text", seq);
        let CacheProtocol::SharedPrefix { tokens, groups } = self.cache else {
            let mut draft = Draft::default();
            let ids = composer.compose(&mut draft, Beginning::Fresh(seq), &mut rng, isl);
            return synthetic_prompt(draft, ids, isl, 0);
        };
        let group = self.group(seq, groups);
        let prefix = self.prefix(&composer, prefixes, group, tokens);
        let mut draft = prefix.draft.clone();
        // At least one token of the prompt is its own.
        draft.cut(tokens.min(isl - 1));
        let cost = draft.cost;
        let beginning = if cost == 0 { Beginning::Fresh(seq) } else { Beginning::Turn(seq) };
        let ids = composer.compose(&mut draft, beginning, &mut rng, isl);
        let shared = match (&ids, &prefix.ids) {
            (Some(ids), Some(its)) => ids.iter().zip(its).take_while(|(a, b)| a == b).count() as u32,
            _ => cost,
        };
        synthetic_prompt(draft, ids, isl, shared)
    }

    /// Groups in seeded order, each once before any comes again: equally often and in no pattern.
    fn group(&self, seq: u64, groups: u32) -> u64 {
        let groups = u64::from(groups.max(1));
        permuted(&mut stream(self.seed, "group", seq / groups), seq % groups, groups)
    }

    fn prefix(
        &self,
        composer: &Composer<'_>,
        prefixes: &Mutex<HashMap<u64, Arc<Prefix>>>,
        group: u64,
        tokens: u32,
    ) -> Arc<Prefix> {
        // A poisoned lock holds whole entries only: they are inserted in one step.
        let known = || prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prefix) = known().get(&group) {
            return Arc::clone(prefix);
        }
        let mut draft = Draft::default();
        let mut rng = stream(self.seed, "prefix", group);
        let ids = composer.compose(&mut draft, Beginning::Fresh(group), &mut rng, tokens);
        Arc::clone(known().entry(group).or_insert(Arc::new(Prefix { draft, ids })))
    }

    fn as_is(&self, row: &Row) -> Prompt {
        let texts = row.content.texts();
        let whole = row.content.hash();
        let ids: Option<Vec<u32>> = self.tokenizer.as_ref().and_then(|t| {
            texts.iter().try_fold(Vec::new(), |mut all, text| {
                all.extend(t.encode(text)?);
                Some(all)
            })
        });
        Prompt {
            content: row.content.clone(),
            planned: None,
            counted: ids.as_ref().map(|ids| ids.len() as u32),
            shared: 0,
            identity: match &ids {
                Some(ids) => Identity::of_ids(ids, whole),
                None => Identity::of_bytes(texts.concat().as_bytes(), whole),
            },
            osl: row.osl,
            extra: row.extra.clone(),
        }
    }

    fn cut(&self, rows: &Rows, seq: u64, isl: u32) -> Result<Prompt, CorpusError> {
        let tokenizer = self.tokenizer.as_ref().ok_or_else(needs_tokenizer)?;
        let text = |i: u64| match &rows.row(i).content {
            Content::Text(text) => text.as_str(),
            Content::Messages(_) => "",
        };
        let row = rows.row(seq);
        if matches!(row.content, Content::Messages(_)) {
            return Err(CorpusError::Conflict(
                "a row with `messages` cannot be cut to an input length".into(),
            ));
        }
        let (text, ids) = cut::to_length(tokenizer, text, seq, isl).ok_or_else(|| CorpusError::DataSet {
            path: rows.path.clone(),
            problem: format!("the text cannot be encoded by {}", tokenizer.describe()),
        })?;
        let content = Content::Text(text);
        Ok(Prompt {
            planned: Some(isl),
            counted: Some(ids.len() as u32),
            shared: 0,
            identity: Identity::of_ids(&ids, content.hash()),
            content,
            osl: row.osl,
            extra: row.extra.clone(),
        })
    }

    /// The tokenizer, for answers too. `None`: the server's counts serve.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    /// What filters took out of the data set, by filter.
    pub fn dropped(&self) -> &[Dropped] {
        match &self.source {
            Texts::Synthetic { .. } => &[],
            Texts::Rows(rows) => &rows.dropped,
        }
    }

    /// How many different prompts there are.
    pub fn census(&self) -> Census {
        match (&self.source, &self.cache) {
            (Texts::Rows(rows), _) => Census {
                rows: Some(rows.rows.len() as u64),
                unique: Some(rows.unique(u64::MAX)),
                unique_beginnings: Some(rows.unique_beginnings()),
                dropped: rows.dropped.iter().map(|d| d.rows as u64).sum(),
                turns_dropped: rows.turns_dropped as u64,
            },
            (Texts::Synthetic { .. }, CacheProtocol::Repeat { prompts }) => {
                let n = Some(u64::from((*prompts).max(1)));
                Census { rows: n, unique: n, unique_beginnings: n, dropped: 0, turns_dropped: 0 }
            }
            (Texts::Synthetic { .. }, _) => {
                Census { rows: None, unique: None, unique_beginnings: None, dropped: 0, turns_dropped: 0 }
            }
        }
    }

    /// How many of the first `requests` requests carry a prompt of their own.
    pub fn uses(&self, requests: u64) -> Uses {
        let unique = match (&self.source, &self.cache) {
            (Texts::Rows(rows), _) => rows.unique(requests),
            (Texts::Synthetic { .. }, CacheProtocol::Repeat { prompts }) => {
                requests.min(u64::from((*prompts).max(1)))
            }
            (Texts::Synthetic { .. }, _) => requests,
        };
        Uses { unique, repeats: requests - unique }
    }

    /// SHA-256, in hex, of everything that fixes the prompts: two runs with equal fingerprints and
    /// equal lengths send equal prompts.
    pub fn fingerprint(&self) -> String {
        let source = match &self.source {
            Texts::Synthetic { .. } => "synthetic".to_owned(),
            Texts::Rows(rows) if rows.shuffled => format!("rows {} of {}", rows.rows.len(), rows.sha256),
            Texts::Rows(rows) => format!("rows {} of {} in order", rows.rows.len(), rows.sha256),
        };
        let tokenizer = self.tokenizer.as_ref().map_or("none".to_owned(), Tokenizer::identity);
        let text = format!(
            "corpus {VERSION}\nseed {}\nsource {source}\nisl {:?}\ncache {:?}\ntokenizer {tokenizer}\n",
            self.seed, self.isl, self.cache
        );
        hex(&Sha256::digest(text.as_bytes()))
    }

    /// One paragraph for the report: source, what prompts share, who counts.
    pub fn describe(&self) -> String {
        let source = match &self.source {
            Texts::Synthetic { .. } => "Synthetic English text".to_owned(),
            Texts::Rows(rows) => {
                let census = self.census();
                let mut text = format!(
                    "{} rows of {}, {} ({} different, {} different in their first 64 bytes)",
                    rows.rows.len(),
                    rows.path.display(),
                    if rows.shuffled {
                        "shuffled by the seed, then in cycles"
                    } else {
                        "in the order of the file"
                    },
                    rows.unique(u64::MAX),
                    rows.unique_beginnings(),
                );
                if !rows.dropped.is_empty() {
                    let drops: Vec<String> =
                        rows.dropped.iter().map(|d| format!("{} {}", d.rows, d.filter)).collect();
                    text.push_str(&format!("; {} rows left out: {}", census.dropped, drops.join(", ")));
                }
                if rows.turns_dropped > 0 {
                    text.push_str(&format!("; {} later turns not sent", rows.turns_dropped));
                }
                if self.isl != Lengths::Data {
                    text.push_str("; cut to the asked length, short rows continued by the next");
                }
                text
            }
        };
        let shared = match (&self.cache, &self.source) {
            (CacheProtocol::Unique, Texts::Synthetic { .. }) => match self.isl {
                Lengths::Fixed(n) | Lengths::Uniform { min: n, .. } if n < 4 => {
                    "; prompts differ within their first 16 tokens, those under 4 tokens as far as words last"
                        .to_owned()
                }
                _ => "; every prompt differs within its first 16 tokens".to_owned(),
            },
            (CacheProtocol::Unique, Texts::Rows(_)) => String::new(),
            (CacheProtocol::SharedPrefix { tokens, groups }, _) => {
                format!("; the first {tokens} tokens are one of {groups} shared prefixes")
            }
            (CacheProtocol::Repeat { prompts }, _) => format!("; {prompts} prompts, used in turn"),
        };
        let counts = match &self.tokenizer {
            Some(t) => format!("tokens counted by {}", t.describe()),
            None => "no tokenizer: input lengths are estimates, the server's counts serve".to_owned(),
        };
        format!("{source}{shared}; {counts}.")
    }
}

impl fmt::Debug for Corpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Corpus({})", self.describe())
    }
}

fn synthetic_prompt(draft: Draft, ids: Option<Vec<u32>>, isl: u32, shared: u32) -> Prompt {
    let bytes = draft.text.as_bytes();
    let identity = match &ids {
        Some(ids) => Identity::of_ids(ids, hash_bytes(bytes)),
        None => Identity::of_bytes(bytes, hash_bytes(bytes)),
    };
    Prompt {
        content: Content::Text(draft.text),
        planned: Some(isl),
        counted: ids.map(|ids| ids.len() as u32),
        shared,
        identity,
        osl: None,
        extra: Map::new(),
    }
}

/// Wishes that do not go together, found before anything is sent.
fn check(workload: &Workload, counts: bool) -> Result<(), CorpusError> {
    let synthetic = workload.source == Source::Synthetic;
    match &workload.cache {
        CacheProtocol::SharedPrefix { .. } if !synthetic => {
            return Err(CorpusError::Conflict(
                "a shared prefix is written for synthetic text only; a data set shares what its rows share"
                    .into(),
            ));
        }
        CacheProtocol::SharedPrefix { tokens: 0, .. } | CacheProtocol::SharedPrefix { groups: 0, .. } => {
            return Err(CorpusError::Conflict(
                "a shared prefix needs at least 1 token and 1 group; for none choose the `unique` protocol"
                    .into(),
            ));
        }
        CacheProtocol::SharedPrefix { tokens, .. } if *tokens > LONGEST => {
            return Err(CorpusError::Conflict(format!(
                "a shared prefix of more than {LONGEST} tokens is not made"
            )));
        }
        CacheProtocol::Repeat { prompts: 0 } => {
            return Err(CorpusError::Conflict("`repeat` needs at least 1 prompt".into()));
        }
        _ => {}
    }
    match (synthetic, &workload.isl) {
        (true, Lengths::Data) => Err(needs_length()),
        (false, isl) if *isl != Lengths::Data && !counts => Err(needs_tokenizer()),
        _ => Ok(()),
    }
}

fn needs_length() -> CorpusError {
    CorpusError::Conflict("synthetic text needs an input length; there is no data set that has one".into())
}

fn needs_tokenizer() -> CorpusError {
    CorpusError::Conflict(
        "rows of a data set can be cut to an input length only by a tokenizer; name one (a tokenizer.json or an \
         embedded vocabulary), or leave the input length to the data set"
            .into(),
    )
}
