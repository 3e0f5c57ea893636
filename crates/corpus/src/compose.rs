//! Plausible text of an exact number of tokens, in linear time and with about one encode.

use rand_chacha::ChaCha8Rng;

use crate::lexicon::{Class, Lexicon, Piece, STOP};
use crate::stream::below;
use crate::tokenizer::Tokenizer;

/// A place in a sentence.
#[derive(Clone, Copy)]
enum Slot {
    /// Any word of a class.
    Any(Class),
    /// A fixed part.
    Fixed(usize),
}

use Class::{
    Adjective as A, Adverb as B, Number as N, Past as V, Plural as P, Preposition as I, Singular as S,
};
const fn w(class: Class) -> Slot {
    Slot::Any(class)
}
const fn f(index: usize) -> Slot {
    Slot::Fixed(index)
}
const DOT: Slot = f(STOP);
const COMMA: Slot = f(1);
const THE: Slot = f(2);
const AND: Slot = f(3);

/// What follows the first word of a text. Nearly every word here is free, so that two texts differ
/// within their first block of 16 tokens: about 80 bits under a large vocabulary.
const OPENINGS: [&[Slot]; 2] = [
    &[w(P), w(B), w(V), w(N), w(A), w(P), w(I), w(A), w(P), COMMA, AND, w(P), w(V), w(A), w(P), DOT],
    &[w(P), w(V), w(A), w(P), w(I), w(N), w(A), w(P), w(B), COMMA, f(14), w(P), w(V), w(A), w(P), DOT],
];
/// Sentences after the first.
const SENTENCES: [&[Slot]; 9] = [
    &[f(4), w(A), w(S), w(V), THE, w(A), w(S), w(I), THE, w(S), DOT],
    &[f(4), w(S), f(17), THE, w(S), w(V), w(N), w(A), w(P), DOT],
    &[f(9), w(P), w(V), THE, w(S), COMMA, AND, THE, w(A), w(P), w(V), THE, w(S), w(B), DOT],
    &[f(6), THE, w(S), COMMA, THE, w(P), w(V), w(N), w(A), w(P), w(I), THE, w(S), DOT],
    &[f(8), w(A), w(P), f(12), w(A), COMMA, f(13), THE, w(S), f(11), w(A), AND, w(A), DOT],
    &[f(10), THE, w(S), w(V), THE, w(P), COMMA, THE, w(S), w(B), w(V), THE, w(A), w(S), DOT],
    &[f(5), THE, w(A), w(S), COMMA, w(P), AND, w(P), w(V), THE, w(S), w(I), THE, w(S), DOT],
    &[f(4), w(P), w(V), THE, w(S), f(16), THE, w(A), w(S), f(11), w(A), DOT],
    &[f(7), THE, w(S), COMMA, THE, w(A), w(S), w(V), THE, w(P), f(15), THE, w(S), w(V), DOT],
];

/// A text that remembers its pieces, so that it can be taken back piece by piece.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    pub(crate) text: String,
    /// Length of the text before each piece, and the piece's cost.
    marks: Vec<(usize, u32)>,
    /// Sum of the costs.
    pub(crate) cost: u32,
}

impl Draft {
    fn push(&mut self, piece: &Piece) {
        self.marks.push((self.text.len(), piece.cost));
        self.text.push_str(&piece.text);
        self.cost = self.cost.saturating_add(piece.cost);
    }
    fn pop(&mut self) -> bool {
        let Some((len, cost)) = self.marks.pop() else { return false };
        self.text.truncate(len);
        self.cost -= cost;
        true
    }
    /// Takes pieces back until the costs are at most `budget`.
    pub(crate) fn cut(&mut self, budget: u32) {
        while self.cost > budget && self.pop() {}
    }
    fn ends_open(&self) -> bool {
        !self.text.ends_with(['.', ',', '!', '?'])
    }
}

/// How a text begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Beginning {
    /// As text number `index` from its first token on.
    Fresh(u64),
    /// Behind a prefix, different from other texts of the same prefix.
    Turn(u64),
}

/// Writes texts with one lexicon.
pub(crate) struct Composer<'a> {
    pub(crate) lexicon: &'a Lexicon,
    pub(crate) tokenizer: Option<&'a Tokenizer>,
}

/// Texts of so few tokens have no full stop.
const SHORT: u32 = 3;
/// More rounds than this do not help a vocabulary whose costs do not add up.
const ROUNDS: u32 = 12;

impl Composer<'_> {
    /// Extends `draft` to `total` tokens. Gives the token ids, `None` without a tokenizer (the
    /// costs are then all there is). A vocabulary that cannot be hit exactly leaves a difference:
    /// the ids are the truth.
    pub(crate) fn compose(
        &self,
        draft: &mut Draft,
        beginning: Beginning,
        rng: &mut ChaCha8Rng,
        total: u32,
    ) -> Option<Vec<u32>> {
        let kept = draft.marks.len();
        self.write(draft, beginning, rng, total, kept);
        let tokenizer = self.tokenizer?;
        let mut ids = tokenizer.encode(&draft.text)?;
        let miss = |ids: &[u32]| ids.len() as i64 - i64::from(total);
        let mut best: Option<(Draft, Vec<u32>)> = None;
        for _ in 0..ROUNDS {
            if miss(&ids) == 0 {
                return Some(ids);
            }
            // Measured, the costs do not add up here: aim off the goal in proportion, by one at least.
            let scaled = u64::from(draft.cost) * u64::from(total) / ids.len().max(1) as u64;
            let step = i64::from(draft.cost) - miss(&ids).signum();
            let aim =
                if miss(&ids) > 0 { step.min(scaled as i64) } else { step.max(scaled as i64) }.max(1) as u32;
            if best.as_ref().is_none_or(|(_, b)| miss(&ids).abs() < miss(b).abs()) {
                best = Some((draft.clone(), ids));
            }
            // Some pieces more are chosen anew, so that no two rounds try the same text.
            let mut spare = 1 + below(rng, 3);
            while draft.marks.len() > kept.max(1) && (draft.cost > aim || spare > 0) {
                draft.pop();
                spare = spare.saturating_sub(1);
            }
            self.fill(draft, rng, aim, kept);
            ids = tokenizer.encode(&draft.text)?;
        }
        match best {
            Some((nearer, its)) if miss(&its).abs() < miss(&ids).abs() => {
                *draft = nearer;
                Some(its)
            }
            _ => Some(ids),
        }
    }

    /// Sentences up to `total`, by cost.
    fn write(&self, draft: &mut Draft, beginning: Beginning, rng: &mut ChaCha8Rng, total: u32, kept: usize) {
        let lexicon = self.lexicon;
        let left = total.saturating_sub(draft.cost);
        let first = match beginning {
            Beginning::Fresh(index) => lexicon.start(index, left),
            Beginning::Turn(index) => lexicon.turn(index, left),
        };
        if let Some(piece) = first {
            draft.push(piece);
        }
        let stop = lexicon.literal(STOP).cost;
        // So few tokens are all needed to tell texts apart.
        let short = left <= SHORT;
        let mut slots = OPENINGS[below(rng, OPENINGS.len())].iter();
        loop {
            let Some(slot) = slots.next() else {
                slots = SENTENCES[below(rng, SENTENCES.len())].iter();
                continue;
            };
            let piece = match slot {
                Slot::Fixed(index) => lexicon.literal(*index),
                Slot::Any(class) => {
                    let words = lexicon.class(*class);
                    let Some(piece) = words.get(below(rng, words.len())) else { break };
                    piece
                }
            };
            let reserve = if short || matches!(slot, Slot::Fixed(STOP)) { 0 } else { stop };
            if draft.cost.saturating_add(piece.cost).saturating_add(reserve) > total {
                break;
            }
            draft.push(piece);
        }
        self.fill(draft, rng, total, kept);
    }

    /// Words up to `total`, by cost, and a full stop when there is room for one. The first `kept`
    /// pieces stay.
    fn fill(&self, draft: &mut Draft, rng: &mut ChaCha8Rng, total: u32, kept: usize) {
        let stop = self.lexicon.literal(STOP);
        let mut swapped = false;
        loop {
            let left = total.saturating_sub(draft.cost);
            if left == 0 {
                return;
            }
            if left == stop.cost && draft.ends_open() && draft.marks.len() >= SHORT as usize {
                draft.push(stop);
                return;
            }
            // No room for a word and a full stop behind a comma or a full stop: the word takes its place.
            if !swapped && left <= stop.cost && !draft.ends_open() && draft.marks.len() > kept + 1 {
                swapped = true;
                draft.pop();
                continue;
            }
            // Keep the room of the full stop where that leaves anything to choose from.
            let fillers = match self.lexicon.fillers(left.saturating_sub(stop.cost)) {
                [] => self.lexicon.fillers(left),
                some => some,
            };
            let Some(piece) = fillers.get(below(rng, fillers.len())) else { return };
            draft.push(piece);
        }
    }
}
