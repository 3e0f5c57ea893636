//! Tasks that need no data: made from a seed, in this project's words.
//!
//! Their scores compare with those of this tool only: the shapes of RULER and of needles in haystacks are kept,
//! the words and the order of draws are not. For official scores see [`crate::files`].

mod arithmetic;
mod fit;
mod format;
mod niah;
mod perplexity;
mod ruler;
mod suite;
mod text;
mod words;

pub use arithmetic::Arithmetic;
pub use format::Format;
pub use niah::{Cell, Niah, NiahGrid, Placement, heat_map, insert_official, linear, sigmoid};
pub use perplexity::Perplexity;
pub use ruler::{Documents, Ruler, Shape};
pub use suite::{Built, Part, SUITES, Suite};
pub use text::{SHA_256 as TEXT_SHA_256, TEXT, pieces, sentences};

use crate::benchmark::Wording;
use crate::python::Random;
use crate::tokens::{Tokens, TokensError};
use crate::{Ask, Generate, Prompt};

/// Raised with every change of a word or of a draw of these tasks.
const VERSION: u32 = 1;
const WORDING: Wording = Wording::Own { version: VERSION };

/// What all tasks are made of.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The same seed gives the same questions.
    pub seed: u64,
    /// Counts the tokens of prompts.
    pub tokens: &'a dyn Tokens,
    /// Tokens that a chat template puts around a prompt; they count in a length.
    pub template: usize,
    /// Tokens for thinking, above those for the answer; they count in a length.
    pub thinking: u32,
}

/// Why a task cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuiltinError {
    /// The smallest prompt does not fit.
    #[error(
        "the smallest prompt of this task has {needed} tokens, and the length leaves {given} for it; ask for a \
         greater length, or for less thinking"
    )]
    TooShort {
        /// Tokens of the smallest prompt.
        needed: usize,
        /// Tokens that it may have.
        given: usize,
    },
    /// The task needs more distinct words than there are.
    #[error("a length of this many tokens needs more distinct words than there are; ask for a shorter one")]
    TooLong,
    /// The tokenizer failed.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// A task was asked for in a way that makes no sense.
    #[error("{0}")]
    Unusable(String),
}

/// The draws of one question of a task.
fn draws(seed: u64, task: &str, index: u64) -> Random {
    Random::new(spec::seed::derived(seed, format!("inferometer/{VERSION}/quality/{task}/{index}").as_bytes()))
}

/// A greedy question to a chat model.
fn chat(content: String, max_tokens: u32) -> Ask {
    Ask::Generate(Generate::greedy(Prompt::of_user(content), max_tokens))
}
