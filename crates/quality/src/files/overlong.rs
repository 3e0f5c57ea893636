//! What becomes of a prompt that is longer than its budget.

use super::FileError;
use crate::tokens::Tokens;
use serde::Serialize;

/// A policy for prompts above their budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlong {
    /// An error that names the row.
    Fail,
    /// The question is left out, and counted.
    Skip,
    /// The middle is cut out, and the question counted: what LongBench does.
    Middle,
}

/// Where the two ends of a prompt are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Both ends of half the budget (rounded down) are turned into text and joined: LongBench v1.
    Texts,
    /// Both ends are joined and turned into text as one; of an odd budget the end has one more: LongBench v2.
    Ids,
}

/// How prompts are held to a budget.
#[derive(Clone, Copy)]
pub struct Fit<'a> {
    /// Counts and cuts.
    pub tokens: &'a dyn Tokens,
    /// Most tokens of a prompt.
    pub budget: usize,
    /// What becomes of longer ones.
    pub policy: Overlong,
}

/// How many prompts were above their budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Left out.
    pub skipped: u64,
    /// Cut in the middle.
    pub cut: u64,
}

impl Fit<'_> {
    /// The prompt as it is asked, or `None` if it is left out.
    pub(super) fn apply(
        &self,
        prompt: String,
        cut: Cut,
        counts: &mut Counts,
        error: impl Fn(String) -> FileError,
    ) -> Result<Option<String>, FileError> {
        let ids = self.tokens.encode(&prompt).map_err(|refusal| error(refusal.to_string()))?;
        if ids.len() <= self.budget {
            return Ok(Some(prompt));
        }
        match self.policy {
            Overlong::Fail => Err(error(format!(
                "the prompt has {} tokens, the budget is {}; cut the middle out, skip such rows, or raise the \
                 budget",
                ids.len(),
                self.budget
            ))),
            Overlong::Skip => {
                counts.skipped += 1;
                Ok(None)
            }
            Overlong::Middle => {
                counts.cut += 1;
                cut_ids(self.tokens, &ids, self.budget, cut)
                    .map(Some)
                    .map_err(|refusal| error(refusal.to_string()))
            }
        }
    }
}

/// A text of at most `budget` tokens, the middle of a longer one cut out. At the seam its own tokens can differ
/// from those that were kept.
pub fn cut_middle(
    tokens: &dyn Tokens,
    text: &str,
    budget: usize,
    cut: Cut,
) -> Result<String, crate::tokens::TokensError> {
    let ids = tokens.encode(text)?;
    if ids.len() <= budget { Ok(text.to_owned()) } else { cut_ids(tokens, &ids, budget, cut) }
}

fn cut_ids(
    tokens: &dyn Tokens,
    ids: &[u32],
    budget: usize,
    cut: Cut,
) -> Result<String, crate::tokens::TokensError> {
    let front = budget / 2;
    let back = match cut {
        Cut::Texts => front,
        Cut::Ids => budget - front,
    };
    let head = ids.get(..front).unwrap_or(ids);
    let tail = ids.get(ids.len().saturating_sub(back)..).unwrap_or_default();
    match cut {
        Cut::Texts => Ok(tokens.decode(head)? + &tokens.decode(tail)?),
        Cut::Ids => tokens.decode(&[head, tail].concat()),
    }
}
