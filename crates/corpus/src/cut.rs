//! Real text cut to an exact number of tokens.

use crate::tokenizer::Tokenizer;

/// Candidates for the place of the cut on each side of the first guess: a cut inside a word can
/// change how its beginning is split.
const CANDIDATES: u32 = 8;
/// Text longer than this many bytes a token is not looked at.
const MOST_BYTES_PER_TOKEN: usize = 4096;

/// The texts from `row(first)` on, joined by empty lines and cut to `n` tokens, with the ids. When
/// no cut gives exactly `n`, the nearest; the ids are the truth. `None`: the tokenizer refuses.
pub(crate) fn to_length<'a>(
    tokenizer: &Tokenizer,
    row: impl Fn(u64) -> &'a str,
    first: u64,
    n: u32,
) -> Option<(String, Vec<u32>)> {
    let n = n.max(1);
    let mut text = row(first).to_owned();
    let mut next = first.wrapping_add(1);
    let mut window = n as usize * 8;
    let tokens = loop {
        while text.len() < window {
            text.push_str("\n\n");
            text.push_str(row(next));
            next = next.wrapping_add(1);
        }
        let tokens = tokenizer.encode_with_ends(&text[..text.floor_char_boundary(window)])?;
        if tokens.len() > n as usize || window > n as usize * MOST_BYTES_PER_TOKEN {
            break tokens;
        }
        window *= 2;
    };
    let mut best: Option<(String, Vec<u32>)> = None;
    let offsets = std::iter::once(0).chain((1..=i64::from(CANDIDATES)).flat_map(|d| [d, -d]));
    for index in offsets.filter_map(|d| usize::try_from(i64::from(n) - 1 + d).ok()) {
        let Some((_, end)) = tokens.get(index) else { continue };
        let cut = &text[..text.floor_char_boundary(*end)];
        if cut.is_empty() {
            continue;
        }
        let ids = tokenizer.encode(cut)?;
        let miss = |ids: &[u32]| ids.len().abs_diff(n as usize);
        if best.as_ref().is_none_or(|(_, b)| miss(&ids) < miss(b)) {
            let exact = miss(&ids) == 0;
            best = Some((cut.to_owned(), ids));
            if exact {
                break;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spec::TokenizerChoice;

    fn qwen() -> Tokenizer {
        Tokenizer::open(&TokenizerChoice::Embedded("qwen2".into()), None).unwrap().unwrap()
    }

    #[test]
    fn long_rows_are_cut_and_short_ones_continued() {
        let t = qwen();
        let rows = ["The quick brown fox jumps over the lazy dog, unbelievably often.", "Grüße aus 東京 🚀!"];
        for n in [1, 2, 3, 7, 16, 40, 500] {
            for first in [0, 1] {
                let (text, ids) = to_length(&t, |i| rows[(i % 2) as usize], first, n).unwrap();
                assert_eq!(ids.len(), n as usize, "{text}");
                assert_eq!(t.encode(&text), Some(ids));
                let begin = rows[first as usize];
                assert!(text.starts_with(begin) || begin.starts_with(&text));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_text_is_cut_near_or_exactly(row in "\\PC{1,60}", n in 1u32..64) {
            let t = qwen();
            let (text, ids) = to_length(&t, |_| row.as_str(), 0, n).unwrap();
            prop_assert!(!text.is_empty());
            prop_assert_eq!(t.encode(&text).unwrap().len(), ids.len());
            // Emoji and rare letters span several tokens that cannot be cut apart.
            prop_assert!(ids.len().abs_diff(n as usize) <= 8, "{} for {n}", ids.len());
        }
    }
}
