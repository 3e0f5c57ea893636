//! The words of synthetic text and what each costs in tokens under one vocabulary.

use crate::stream::{shuffle, stream};
use crate::tokenizer::Tokenizer;

const WORDS: &str = include_str!("../data/words.txt");

/// Classes of words, in the order of their sections in the word file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Singular,
    Plural,
    Adjective,
    Past,
    Adverb,
    Preposition,
    Number,
}

const CLASSES: [(&str, Class); 7] = [
    ("singular", Class::Singular),
    ("plural", Class::Plural),
    ("adjective", Class::Adjective),
    ("past", Class::Past),
    ("adverb", Class::Adverb),
    ("preposition", Class::Preposition),
    ("number", Class::Number),
];

/// Fixed parts of sentences, as they follow other text.
pub(crate) const LITERALS: [&str; 18] = [
    ".", ",", " the", " and", " The", " In", " After", " Before", " Most", " Some", " When", " was", " were",
    " but", " while", " that", " because", " of",
];
/// The index of the full stop in [`LITERALS`].
pub(crate) const STOP: usize = 0;

/// A stretch of text and the tokens that it adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) cost: u32,
}

/// Words with their costs under one vocabulary.
///
/// A cost is what the piece adds behind another word. Vocabularies that split text at spaces first
/// make costs add up exactly; for others the composer measures and repairs.
#[derive(Debug)]
pub(crate) struct Lexicon {
    classes: Vec<Vec<Piece>>,
    literals: Vec<Piece>,
    /// Capitalised adjectives and nouns at the very start of a text, in seeded order.
    starts: Vec<Piece>,
    /// Anything that can stand at the start of a text of a few tokens, cheapest first.
    short_starts: Vec<Piece>,
    /// Capitalised adjectives and nouns behind other text, in seeded order.
    turns: Vec<Piece>,
    /// Words that fill the last tokens, cheapest first.
    fillers: Vec<Piece>,
}

/// With fewer words of one token than this in a class, all its words are used.
const ENOUGH: usize = 24;
/// A starts list at least this long needs no further candidates.
const MANY_STARTS: usize = 1_000;

impl Lexicon {
    /// Prices every word, with one short encode each: once for a corpus. Without a tokenizer every
    /// piece counts one token, as it does under the large vocabularies in use.
    pub(crate) fn new(tokenizer: Option<&Tokenizer>, seed: u64) -> Self {
        let frame = tokenizer.and_then(|t| t.count(&format!("{ANCHOR}{ANCHOR_BEHIND}")));
        let price = |anchor: &str, text: &str| -> Option<u32> {
            let Some(t) = tokenizer else { return Some(1) };
            let cost = match anchor {
                "" => t.count(text)?,
                // Between two words: some vocabularies join a word to the space behind it.
                _ => t.count(&format!("{anchor}{text}{ANCHOR_BEHIND}"))?.checked_sub(frame?)?,
            };
            // A word that costs nothing has merged with its neighbour: not usable for counting.
            (cost > 0).then_some(cost)
        };
        let priced = |anchor: &str, texts: &mut dyn Iterator<Item = String>| -> Vec<Piece> {
            texts.filter_map(|text| price(anchor, &text).map(|cost| Piece { text, cost })).collect()
        };
        let cheapest = |pieces: Vec<Piece>| -> Vec<Piece> {
            let (ones, rest): (Vec<_>, Vec<_>) = pieces.into_iter().partition(|p| p.cost == 1);
            if ones.len() >= ENOUGH { ones } else { ones.into_iter().chain(rest).collect() }
        };
        let shuffled = |name: &str, mut pieces: Vec<Piece>| -> Vec<Piece> {
            shuffle(&mut stream(seed, name, 0), &mut pieces);
            pieces
        };

        let openers: Vec<String> =
            distinct(words(Class::Adjective).chain(words(Class::Singular))).map(capitalised).collect();
        let any = || {
            distinct(CLASSES.iter().flat_map(|(_, class)| words(*class)))
                .filter(|w| w.len() > 2)
                .map(str::to_owned)
        };
        let mut short = priced("", &mut any().map(|w| capitalised(&w)));
        short.retain(|p| p.cost == 1);
        if short.len() < MANY_STARTS {
            short = priced("", &mut any().map(|w| capitalised(&w)).chain(any()).chain(single_characters()));
        }
        let mut short_starts = shuffled("short-starts", short);
        short_starts.sort_by_key(|p| p.cost);
        let mut fillers = priced(
            ANCHOR,
            &mut words(Class::Adverb)
                .chain(words(Class::Plural))
                .map(spaced)
                .chain(single_characters().map(|c| spaced(&c)))
                .chain(["!", "?", "."].map(str::to_owned)),
        );
        fillers.sort_by_key(|p| p.cost);
        let whole_word = |p: &Piece| p.cost == 1 && p.text.len() > 2;
        if fillers.iter().filter(|p| whole_word(p)).count() >= ENOUGH {
            fillers.retain(whole_word);
        }
        Self {
            classes: CLASSES
                .iter()
                .map(|(_, class)| cheapest(priced(ANCHOR, &mut words(*class).map(spaced))))
                .collect(),
            literals: LITERALS
                .iter()
                .map(|text| Piece { text: (*text).to_owned(), cost: price(ANCHOR, text).unwrap_or(1) })
                .collect(),
            starts: shuffled("starts", cheapest(priced("", &mut openers.iter().cloned()))),
            short_starts,
            turns: shuffled("turns", cheapest(priced(ANCHOR, &mut openers.iter().map(spaced)))),
            fillers,
        }
    }

    pub(crate) fn class(&self, class: Class) -> &[Piece] {
        &self.classes[class as usize]
    }
    pub(crate) fn literal(&self, index: usize) -> &Piece {
        &self.literals[index]
    }
    /// The first piece of text number `index` with this many tokens: different for as many
    /// successive numbers as there are candidates.
    pub(crate) fn start(&self, index: u64, budget: u32) -> Option<&Piece> {
        // A short text has no room for a second difference, so its first word comes from the
        // longest list; a longer one starts as a sentence does.
        let pick = |list: &'_ [Piece]| (!list.is_empty()).then(|| (index % list.len() as u64) as usize);
        if budget >= 8
            && self.starts.iter().all(|p| p.cost < budget)
            && let Some(i) = pick(&self.starts)
        {
            return Some(&self.starts[i]);
        }
        let fitting = self.short_starts.partition_point(|p| p.cost <= budget.max(1));
        let list = if fitting == 0 { &self.short_starts[..] } else { &self.short_starts[..fitting] };
        pick(list).map(|i| &list[i])
    }
    /// The same behind other text: the first piece after a shared prefix.
    pub(crate) fn turn(&self, index: u64, budget: u32) -> Option<&Piece> {
        let piece = self.turns.get((index % self.turns.len().max(1) as u64) as usize)?;
        (piece.cost <= budget).then_some(piece)
    }
    /// Fillers of at most this cost.
    pub(crate) fn fillers(&self, cost: u32) -> &[Piece] {
        &self.fillers[..self.fillers.partition_point(|p| p.cost <= cost)]
    }
}

/// What stands before and behind a piece while it is priced.
const ANCHOR: &str = "the";
const ANCHOR_BEHIND: &str = " the";

fn words(class: Class) -> impl Iterator<Item = &'static str> {
    let header = CLASSES.iter().find(|(_, c)| *c == class).map_or("", |(name, _)| name);
    WORDS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .skip_while(move |line| line.trim_matches(['[', ']']) != header || !line.starts_with('['))
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .flat_map(str::split_whitespace)
}

fn distinct<'a>(words: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let mut seen = std::collections::BTreeSet::new();
    words.filter(move |w| seen.insert(*w))
}

fn capitalised(word: impl AsRef<str>) -> String {
    let word = word.as_ref();
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

fn spaced(word: impl AsRef<str>) -> String {
    format!(" {}", word.as_ref())
}

/// Last resort of vocabularies that have hardly a word.
fn single_characters() -> impl Iterator<Item = String> {
    ('a'..='z').chain('A'..='Z').map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::TokenizerChoice;

    #[test]
    fn every_word_is_one_token_under_the_large_vocabularies() {
        for name in ["llama3", "qwen2", "o200k", "cl100k", "deepseek-v3", "tekken"] {
            let t = Tokenizer::open(&TokenizerChoice::Embedded(name.into()), None).unwrap().unwrap();
            for (_, class) in CLASSES {
                for word in words(class) {
                    assert_eq!(t.count(&format!("the {word}")), Some(2), "{word} under {name}");
                }
            }
            for literal in LITERALS {
                assert_eq!(t.count(&format!("the{literal}")), Some(2), "{literal} under {name}");
            }
        }
    }

    #[test]
    fn there_are_words_enough_to_tell_texts_apart() {
        let counts: Vec<_> = CLASSES.iter().map(|(_, class)| words(*class).count()).collect();
        assert_eq!(counts.len(), 7);
        // Opening of 16 tokens: start, plural, adverb, past, number, adjective, plural, preposition.
        let lexicon = Lexicon::new(None, 1);
        let bits: f64 = [Class::Plural, Class::Adverb, Class::Past, Class::Number, Class::Adjective]
            .iter()
            .map(|c| (lexicon.class(*c).len() as f64).log2())
            .sum();
        assert!(bits > 35.0, "{bits} bits in the words 2 to 6");
        assert!(lexicon.short_starts.len() >= MANY_STARTS, "{}", lexicon.short_starts.len());
        let firsts: std::collections::BTreeSet<_> =
            (0..1000).map(|i| lexicon.start(i, 1).unwrap().text.clone()).collect();
        assert_eq!(firsts.len(), 1000);
    }
}
