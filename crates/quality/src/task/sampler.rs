//! Which worked examples stand before a document.

use super::config::Sampler;
use crate::python::Random;
use serde_json::Value;

/// Draws worked examples; the state goes on from document to document.
#[derive(Debug, Clone)]
pub(super) struct Draws {
    sampler: Sampler,
    random: Random,
}

impl Draws {
    pub fn new(sampler: Sampler, seed: u64) -> Self {
        Self { sampler, random: Random::new(seed) }
    }

    /// `count` of the pool. `own` is the document that they are for, where the pool may hold it: it is left out.
    pub fn take<'a>(
        &mut self,
        pool: &'a [Value],
        count: usize,
        own: Option<&Value>,
    ) -> Result<Vec<&'a Value>, String> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let others = || pool.iter().filter(|document| Some(*document) != own);
        let few = |have: usize| format!("{count} worked examples are wanted, and there are {have}");
        match self.sampler {
            Sampler::FirstN => {
                let first: Vec<&Value> = others().take(count).collect();
                if first.len() < count { Err(few(first.len())) } else { Ok(first) }
            }
            Sampler::Random => {
                let spare = usize::from(own.is_some());
                let drawn = self.random.sample(pool.len(), count + spare);
                let drawn = drawn.ok_or_else(|| few(pool.len().saturating_sub(spare)))?;
                let mut taken: Vec<&Value> = drawn
                    .into_iter()
                    .map(|at| &pool[at])
                    .filter(|document| Some(*document) != own)
                    .take(count)
                    .collect();
                if taken.len() < count {
                    // The pool holds the document more than once.
                    let others: Vec<&Value> = others().collect();
                    let drawn = self.random.sample(others.len(), count).ok_or_else(|| few(others.len()))?;
                    taken = drawn.into_iter().map(|at| others[at]).collect();
                }
                Ok(taken)
            }
        }
    }
}
