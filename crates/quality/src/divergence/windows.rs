//! How a text is cut into windows: what makes one perplexity differ from another of the same model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a beginning-of-sequence token stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bos {
    /// Nowhere.
    Never,
    /// Before the first token of the text.
    Once,
    /// In place of the first token of every window.
    ReplacesFirst,
    /// Before the first window alone, and nothing but one token of context before the others.
    FirstWindow,
}

/// Tokens `from..to` are sent; those from `scored` on are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First token that is sent.
    pub from: usize,
    /// First token that is scored: at least one comes before it, or a BOS does.
    pub scored: usize,
    /// One behind the last token.
    pub to: usize,
}

/// A named way to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Windows {
    /// As papers on quantisation (GPTQ, AWQ) do: the text whole, windows of `size` side by side, every
    /// token of a window but its first is scored, the rest at the end is dropped.
    Disjoint {
        /// Tokens of a window.
        size: usize,
    },
    /// As `llama-perplexity` does: windows of `size` side by side, BOS in place of the first token of each,
    /// the second half scored, the rest at the end dropped.
    SecondHalf {
        /// Tokens of a window (`n_ctx`).
        size: usize,
    },
    /// As the guide of Hugging Face's transformers does: windows of `size` that advance by `stride`, each
    /// token scored once, with as much before it as its window has.
    Strided {
        /// Tokens of a window.
        size: usize,
        /// Tokens that are new in a window.
        stride: usize,
    },
    /// As lm-evaluation-harness does: blocks of `size` side by side, each of which sees one token before
    /// it, the last filled up from the left.
    Rolling {
        /// Tokens that are scored in a window.
        size: usize,
    },
}

impl Windows {
    /// Its name, with its numbers.
    pub fn name(&self) -> String {
        match self {
            Self::Disjoint { size } => format!("disjoint windows of {size}"),
            Self::SecondHalf { size } => format!("second halves of windows of {size}, as llama-perplexity"),
            Self::Strided { size, stride } => format!("windows of {size} every {stride}"),
            Self::Rolling { size } => format!("rolling blocks of {size}, as lm-evaluation-harness"),
        }
    }

    /// Where BOS stands for a model that has one.
    pub fn bos(&self) -> Bos {
        match self {
            Self::Disjoint { .. } | Self::Strided { .. } => Bos::Once,
            Self::SecondHalf { .. } => Bos::ReplacesFirst,
            Self::Rolling { .. } => Bos::FirstWindow,
        }
    }

    /// The windows over `tokens` tokens; none where the text is too short for one, or a size is 0.
    pub fn over(&self, tokens: usize) -> Vec<Window> {
        match *self {
            Self::Disjoint { size } => (0..whole(tokens, size))
                .map(|i| Window { from: i * size, scored: i * size + 1, to: (i + 1) * size })
                .filter(|w| w.scored < w.to)
                .collect(),
            // The logit at `size / 2` is the first that counts; it scores the token behind it.
            Self::SecondHalf { size } => (0..whole(tokens, size))
                .map(|i| Window { from: i * size, scored: i * size + size / 2 + 1, to: (i + 1) * size })
                .filter(|w| w.scored < w.to)
                .collect(),
            Self::Strided { size, stride } => strided(tokens, size, stride),
            Self::Rolling { size } => (0..if size == 0 { 0 } else { tokens.div_ceil(size) })
                .map(|i| {
                    let to = ((i + 1) * size).min(tokens);
                    // A later window is sent with the token before its block, and filled up to the left.
                    let from = if i == 0 { 0 } else { to - size - 1 };
                    Window { from, scored: i * size, to }
                })
                .collect(),
        }
    }
}

fn whole(tokens: usize, size: usize) -> usize {
    tokens.checked_div(size).unwrap_or(0)
}

fn strided(tokens: usize, size: usize, stride: usize) -> Vec<Window> {
    let mut out = Vec::new();
    if stride == 0 || size < 2 || stride > size {
        return out;
    }
    let (mut from, mut before) = (0, 1);
    while before < tokens {
        let to = (from + size).min(tokens);
        if to > before {
            out.push(Window { from, scored: before, to });
        }
        before = before.max(to);
        from += stride;
    }
    out
}
