//! Words that stand more often than others (`cwe`, `fwe`).

use super::About;
use crate::builtin::BuiltinError;
use crate::builtin::fit::Made;
use crate::builtin::words::{codes, keys};
use crate::python::Random;

const COMMON: usize = 10;
/// From this length on words are repeated as often as in RULER's longer texts.
const LONG: usize = 4096;

/// Ten words stand 30 times and `size` others 3 times (6 times and once in texts below 4,096 tokens), in one
/// numbered list.
pub(super) fn common_words(
    random: &mut Random,
    size: usize,
    length: usize,
) -> Result<Made<About>, BuiltinError> {
    let (often, seldom) = if length < LONG { (6, 1) } else { (30, 3) };
    let words = keys(random, COMMON.saturating_add(size)).ok_or(BuiltinError::TooLong)?;
    let (common, others) = words.split_at(COMMON);
    let repeated = |words: &[String], times: usize| -> Vec<String> {
        words.iter().flat_map(|word| std::iter::repeat_n(word.clone(), times)).collect()
    };
    let mut list = repeated(common, often);
    list.extend(repeated(others, seldom));
    random.shuffle(&mut list);
    let list: Vec<String> = list.iter().enumerate().map(|(at, word)| format!("{}. {word}", at + 1)).collect();
    let prompt = format!(
        "In this list some words come again and again, the others only now and then.\n\n{}\n\nWhich {COMMON} words \
         come most often? Reply with these words alone, separated by commas.",
        list.join(" ")
    );
    Ok(Made { prompt, about: About { references: common.to_vec() } })
}

/// Fewest and most words of a text: with fewer, ranks 4 and 5 could come equally often.
pub(super) const CODE_SIZES: (usize, usize) = (150, usize::MAX);
const LETTERS: u32 = 6;
/// ζ(2), as the shares of ranks sum to.
const ZETA_2: f64 = std::f64::consts::PI * std::f64::consts::PI / 6.0;

/// Made-up words, the one of rank k with the share k⁻² / ζ(2) of `size`. The first is written as dots; the
/// answer is the next three. The vocabulary has a fiftieth of `budget` tokens.
pub(super) fn frequent_codes(
    random: &mut Random,
    size: usize,
    budget: usize,
) -> Result<Made<About>, BuiltinError> {
    let ranks = (budget / 50).max(COMMON);
    let words = codes(random, b'a', LETTERS, ranks).ok_or(BuiltinError::TooLong)?;
    let mut text: Vec<&str> = Vec::with_capacity(size);
    for (at, word) in words.iter().enumerate() {
        let rank = (at + 1) as f64;
        let times = (size as f64 / (rank * rank) / ZETA_2) as usize;
        text.extend(std::iter::repeat_n(if at == 0 { "..." } else { word.as_str() }, times));
    }
    random.shuffle(&mut text);
    let prompt = format!(
        "This text is in code; dots stand for nothing.\n\n{}\n\nWhich three words of the code come most often? Reply \
         with these words alone, separated by commas.",
        text.join(" ")
    );
    Ok(Made { prompt, about: About { references: words.get(1..4).unwrap_or_default().to_vec() } })
}
