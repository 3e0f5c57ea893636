//! How much text fits a length.

use super::BuiltinError;
use crate::tokens::Tokens;

/// A prompt of some size, and what is known of it.
#[derive(Debug, Clone)]
pub(super) struct Made<T> {
    pub(super) prompt: String,
    pub(super) about: T,
}

/// What a prompt may be at most.
#[derive(Clone, Copy)]
pub(super) struct Budget<'a> {
    pub(super) tokens: &'a dyn Tokens,
    /// Tokens of the prompt.
    pub(super) most: usize,
    /// Fewest and most units of filling; nothing makes sense beyond.
    pub(super) sizes: (usize, usize),
}

impl Budget<'_> {
    /// Whether a text fits, and its tokens.
    fn fits(&self, prompt: &str) -> Result<(bool, usize), BuiltinError> {
        let count = self.tokens.count(prompt)?;
        Ok((count <= self.most, count))
    }

    /// A prompt that fits and fills at least 98 % of the budget where any size does; with its size. At most
    /// 64 prompts are made, none of them much longer than the budget.
    pub(super) fn largest<T>(
        &self,
        make: &mut dyn FnMut(usize) -> Result<Made<T>, BuiltinError>,
    ) -> Result<(usize, Made<T>), BuiltinError> {
        let (smallest, most) = self.sizes;
        let made = make(smallest)?;
        let (fits, fewest_tokens) = self.fits(&made.prompt)?;
        if !fits {
            return Err(BuiltinError::TooShort { needed: fewest_tokens, given: self.most });
        }
        let (mut best, mut best_tokens) = ((smallest, made), fewest_tokens);
        // Every unit has at least one token, so that no more units than tokens can fit.
        let mut too_large = most.min(smallest.saturating_add(self.most)).saturating_add(1);
        for step in 0..64 {
            let full = (self.most - best_tokens).saturating_mul(50) <= self.most;
            if best.0 + 1 >= too_large || full {
                break;
            }
            // Along the line through the smallest prompt, at most twice as far; every third time by halving.
            let guess = match (best.0 - smallest, best_tokens.saturating_sub(fewest_tokens)) {
                (0, _) | (_, 0) => best.0.saturating_mul(2),
                (units, tokens) => best.0 + (self.most - best_tokens).saturating_mul(units) / tokens,
            };
            let guess = guess.min(best.0.saturating_mul(2).saturating_add(8));
            let middle = best.0 + (too_large - best.0) / 2;
            let halving = step % 3 == 2 && middle < guess;
            let size = if halving { middle } else { guess }.clamp(best.0 + 1, too_large - 1);
            let made = make(size)?;
            let (fits, tokens) = self.fits(&made.prompt)?;
            if fits {
                (best, best_tokens) = ((size, made), tokens);
            } else {
                too_large = size;
            }
        }
        Ok(best)
    }

    /// A prompt of about `size` that fits: smaller by a fiftieth again and again until it does.
    pub(super) fn near<T>(
        &self,
        size: usize,
        make: &mut dyn FnMut(usize) -> Result<Made<T>, BuiltinError>,
    ) -> Result<Made<T>, BuiltinError> {
        let (smallest, _) = self.sizes;
        let mut size = size.max(smallest);
        loop {
            let made = make(size)?;
            let (fits, count) = self.fits(&made.prompt)?;
            if fits {
                return Ok(made);
            }
            if size <= smallest {
                return Err(BuiltinError::TooShort { needed: count, given: self.most });
            }
            size = (size - (size / 50).max(1)).max(smallest);
        }
    }
}
