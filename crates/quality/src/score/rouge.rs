//! ROUGE-L by the rules of the Python package `rouge` 1.0.1, which LongBench uses.

use crate::python::split;
use std::collections::HashSet;

/// The F-measure, in [0, 1): the union of longest common subsequences over sentences, of **unique** words.
///
/// Sentences end at every ".", words are split at spaces, case counts. F = 2pr / (p + r + 10⁻⁸), so that a
/// perfect match is 0.999999995. A side without sentences is 0.
///
/// One thing differs from the package: it walks the table by recursion and fails, which LongBench counts 0,
/// on two sentences of together about 980 words or more. Here they are scored.
#[must_use]
pub fn rouge_l(hypothesis: &str, reference: &str) -> f64 {
    let hypothesis = sentences(hypothesis);
    let reference = sentences(reference);
    if hypothesis.is_empty() || reference.is_empty() {
        return 0.0;
    }
    let mut union: HashSet<&str> = HashSet::new();
    for wanted in &reference {
        for said in &hypothesis {
            collect_common(wanted, said, &mut union);
        }
    }
    let unique = |sentences: &[Vec<&str>]| sentences.iter().flatten().collect::<HashSet<_>>().len() as f64;
    let recall = union.len() as f64 / unique(&reference);
    let precision = union.len() as f64 / unique(&hypothesis);
    2.0 * ((precision * recall) / (precision + recall + 1e-8))
}

/// Words by sentence. A sentence of nothing but white space holds one empty word, as in the package.
fn sentences(text: &str) -> Vec<Vec<&str>> {
    text.split('.')
        .filter(|sentence| !sentence.is_empty())
        .map(|sentence| {
            let words: Vec<&str> = split(sentence).collect();
            if words.is_empty() { vec![""] } else { words }
        })
        .collect()
}

/// Adds the words of that longest common subsequence which the package walks to: from the end, leaving out a
/// word of `x` only where that keeps strictly more.
fn collect_common<'a>(x: &[&'a str], y: &[&'a str], into: &mut HashSet<&'a str>) {
    let width = y.len() + 1;
    let mut table = vec![0u32; (x.len() + 1) * width];
    let at = |table: &[u32], i: usize, j: usize| table.get(i * width + j).copied().unwrap_or(0);
    for (i, a) in x.iter().enumerate() {
        for (j, b) in y.iter().enumerate() {
            let value =
                if a == b { at(&table, i, j) + 1 } else { at(&table, i, j + 1).max(at(&table, i + 1, j)) };
            if let Some(cell) = table.get_mut((i + 1) * width + j + 1) {
                *cell = value;
            }
        }
    }
    let (mut i, mut j) = (x.len(), y.len());
    while let (Some(a), Some(b)) =
        (i.checked_sub(1).and_then(|i| x.get(i)), j.checked_sub(1).and_then(|j| y.get(j)))
    {
        if a == b {
            into.insert(a);
            (i, j) = (i - 1, j - 1);
        } else if at(&table, i - 1, j) > at(&table, i, j - 1) {
            i -= 1;
        } else {
            j -= 1;
        }
    }
}
