//! Are greedy answers the same, token by token? With speculative decoding they should be.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Generated;

/// What was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Token ids.
    Tokens,
    /// Characters: a server did not tell its ids, or the two count them differently.
    Characters,
}

/// How many pairs of answers are the same, and where the others part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// Pairs compared.
    pub pairs: u64,
    /// Of those, the same to the end.
    pub identical: u64,
    /// What was compared, where all pairs agree on it: tokens, else characters.
    pub unit: Unit,
    /// Earliest place at which two answers part, from 0; `null`: none do.
    pub earliest: Option<u64>,
    /// Middle one of those places.
    pub median: Option<u64>,
}

/// The place from 0 at which two sequences part; `None`: they are the same.
pub fn first_difference<T: PartialEq>(
    base: impl IntoIterator<Item = T>,
    new: impl IntoIterator<Item = T>,
) -> Option<u64> {
    let (mut base, mut new) = (base.into_iter(), new.into_iter());
    let mut at = 0;
    loop {
        match (base.next(), new.next()) {
            (None, None) => return None,
            (a, b) if a == b => at += 1,
            _ => return Some(at),
        }
    }
}

/// Of pairs of greedy answers to the same prompts; `None`: there are none.
pub fn identity<'a>(pairs: impl IntoIterator<Item = (&'a Generated, &'a Generated)>) -> Option<Identity> {
    let pairs: Vec<_> = pairs.into_iter().collect();
    let have_ids = pairs.iter().all(|(base, new)| {
        let told = |g: &Generated| !g.token_ids.is_empty() || g.text.is_empty();
        told(base) && told(new)
    });
    let parts: Vec<Option<u64>> = pairs
        .iter()
        .map(|(base, new)| match have_ids {
            true => first_difference(&base.token_ids, &new.token_ids),
            false => first_difference(base.text.chars(), new.text.chars()),
        })
        .collect();
    let mut places: Vec<u64> = parts.iter().flatten().copied().collect();
    places.sort_unstable();
    (!pairs.is_empty()).then(|| Identity {
        pairs: pairs.len() as u64,
        identical: (pairs.len() - places.len()) as u64,
        unit: if have_ids { Unit::Tokens } else { Unit::Characters },
        earliest: places.first().copied(),
        median: places.get(places.len() / 2).copied(),
    })
}
