//! How alike two texts are, by Python's `difflib` and by insertions and deletions.

use std::collections::HashMap;

/// A length from which `difflib` leaves out characters that are more common than 1 in 100.
const POPULAR_FROM: usize = 200;

/// `difflib.SequenceMatcher(None, a, b).ratio()`: 2·matches / (|a| + |b|) over characters, in [0, 1]. Not
/// symmetric. 1 for two empty texts.
///
/// Source: CPython 3.11, `Lib/difflib.py`.
#[must_use]
pub fn difflib_ratio(a: &str, b: &str) -> f64 {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut places: HashMap<char, Vec<usize>> = HashMap::new();
    for (at, character) in b.iter().enumerate() {
        places.entry(*character).or_default().push(at);
    }
    if b.len() >= POPULAR_FROM {
        let most = b.len() / 100 + 1;
        places.retain(|_, at| at.len() <= most);
    }
    let mut matches = 0usize;
    let mut open = vec![(0, a.len(), 0, b.len())];
    while let Some((a_from, a_to, b_from, b_to)) = open.pop() {
        let (i, j, size) = longest_match(&a, &b, &places, (a_from, a_to, b_from, b_to));
        if size == 0 {
            continue;
        }
        matches += size;
        if a_from < i && b_from < j {
            open.push((a_from, i, b_from, j));
        }
        if i + size < a_to && j + size < b_to {
            open.push((i + size, a_to, j + size, b_to));
        }
    }
    ratio(2 * matches, a.len() + b.len())
}

/// `find_longest_match`: where the longest equal stretch begins in both, and its length. The earliest in `a`,
/// then in `b`.
fn longest_match(
    a: &[char],
    b: &[char],
    places: &HashMap<char, Vec<usize>>,
    (a_from, a_to, b_from, b_to): (usize, usize, usize, usize),
) -> (usize, usize, usize) {
    let (mut best_i, mut best_j, mut size) = (a_from, b_from, 0);
    // The length of the stretch that ends at (i - 1, j).
    let mut before: HashMap<usize, usize> = HashMap::new();
    for (i, character) in a.iter().enumerate().take(a_to).skip(a_from) {
        let mut here = HashMap::new();
        for &j in places.get(character).map_or(&[][..], Vec::as_slice) {
            if j < b_from {
                continue;
            }
            if j >= b_to {
                break;
            }
            let length = 1 + j.checked_sub(1).and_then(|j| before.get(&j)).copied().unwrap_or(0);
            here.insert(j, length);
            if length > size {
                (best_i, best_j, size) = (i + 1 - length, j + 1 - length, length);
            }
        }
        before = here;
    }
    // Popular characters are left out above and taken in at the ends.
    while best_i > a_from && best_j > b_from && a.get(best_i - 1) == b.get(best_j - 1) {
        (best_i, best_j, size) = (best_i - 1, best_j - 1, size + 1);
    }
    while best_i + size < a_to && best_j + size < b_to && a.get(best_i + size) == b.get(best_j + size) {
        size += 1;
    }
    (best_i, best_j, size)
}

/// The likeness by insertions and deletions, 1 − distance / (|a| + |b|) over characters, in [0, 1]: what
/// `fuzz.ratio` computes where python-Levenshtein is installed. Symmetric. 1 for two empty texts.
#[must_use]
pub fn indel_ratio(a: &str, b: &str) -> f64 {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let total = a.len() + b.len();
    if total == 0 { 1.0 } else { 1.0 - ratio(total - 2 * common(&a, &b), total) }
}

/// The length of the longest common subsequence.
pub(super) fn common<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    let mut row = vec![0usize; b.len() + 1];
    for x in a {
        let mut diagonal = 0;
        let mut left = 0;
        for (y, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let above = *cell;
            *cell = if x == y { diagonal + 1 } else { above.max(left) };
            (diagonal, left) = (above, *cell);
        }
    }
    row.last().copied().unwrap_or(0)
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}
