//! What a server said of one position of a text, small enough to keep for each token.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::Item;

/// Kept as whole hundred-thousandths of a nat: finer than the noise of an engine's own arithmetic.
const PER_NAT: f64 = 1e5;
/// vLLM's word for "impossible"; nothing is kept that is less likely.
const LEAST: f64 = -9999.0;
/// What is left over below this is rounding.
pub(super) const NOTHING: f64 = 1e-9;

/// The likeliest tokens at a position, and how likely all others are together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TopK {
    /// Token and natural log of its probability, likeliest first.
    pub entries: Vec<(u32, f64)>,
    /// Natural log of the probability of all others together; `None`: there are none.
    pub tail: Option<f64>,
}

impl TopK {
    /// Of some tokens; what they leave is the tail. Tokens that come twice count once.
    pub fn new(mut entries: Vec<(u32, f64)>) -> Self {
        entries.retain(|(_, logprob)| !logprob.is_nan());
        for (_, logprob) in &mut entries {
            *logprob = kept(*logprob);
        }
        entries.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut seen = std::collections::BTreeSet::new();
        entries.retain(|(id, _)| seen.insert(*id));
        let left = 1.0 - entries.iter().map(|(_, logprob)| logprob.exp()).sum::<f64>();
        let tail = (left > NOTHING).then(|| kept(left.ln()));
        Self { entries, tail }
    }

    /// Of a whole vocabulary: no tail is left, whatever the rounding of its entries.
    pub fn whole(entries: Vec<(u32, f64)>) -> Self {
        Self { tail: None, ..Self::new(entries) }
    }

    /// Of a whole row of logits: no tail is left.
    pub fn of_logits(logits: &[f64]) -> Self {
        let highest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let norm = highest + logits.iter().map(|x| (x - highest).exp()).sum::<f64>().ln();
        Self::whole((0..).zip(logits.iter().map(|x| x - norm)).collect())
    }

    /// The likeliest token.
    pub fn top(&self) -> Option<u32> {
        self.entries.first().map(|(id, _)| *id)
    }
}

/// A scored position.
#[derive(Debug, Clone, PartialEq)]
pub struct Position {
    /// The token that stands there.
    pub target: u32,
    /// Natural log of its probability.
    pub logprob: f64,
    /// The likeliest tokens there; empty: not asked for.
    pub top: TopK,
}

fn kept(logprob: f64) -> f64 {
    logprob.clamp(LEAST, 0.0)
}

/// Costs are −log-probabilities as whole numbers.
fn cost(logprob: f64) -> i64 {
    (-kept(if logprob.is_nan() { LEAST } else { logprob }) * PER_NAT).round() as i64
}

fn logprob(cost: i64) -> f64 {
    kept(-(cost as f64) / PER_NAT)
}

/// As `[target, cost, tail or −1, id, cost, id, cost, …]`.
impl Serialize for Position {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let head = [i64::from(self.target), cost(self.logprob), self.top.tail.map_or(-1, cost)];
        let entries = self.top.entries.iter().flat_map(|(id, p)| [i64::from(*id), cost(*p)]);
        serializer.collect_seq(head.into_iter().chain(entries))
    }
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let numbers = Vec::<i64>::deserialize(deserializer)?;
        let wrong =
            || D::Error::custom("a position is [target, cost, tail or -1, id, cost, ...], all from 0 on");
        let id = |n: i64| u32::try_from(n).map_err(|_| wrong());
        let [target, own, tail, entries @ ..] = numbers.as_slice() else { return Err(wrong()) };
        if *own < 0 || *tail < -1 || entries.len() % 2 != 0 {
            return Err(wrong());
        }
        let pairs = entries.chunks_exact(2).map(|pair| match pair {
            [token, cost] if *cost >= 0 => Ok((id(*token)?, logprob(*cost))),
            _ => Err(wrong()),
        });
        let top =
            TopK { entries: pairs.collect::<Result<_, _>>()?, tail: (*tail >= 0).then(|| logprob(*tail)) };
        Ok(Self { target: id(*target)?, logprob: logprob(*own), top })
    }
}

/// Where a journal keeps the positions of an item: among the parts of an outcome.
const PART: &str = "positions";

/// Puts the positions of an item among the parts of an outcome.
pub fn put_positions(parts: &mut Map<String, Value>, positions: &[Position]) {
    // Numbers in lists always serialise.
    let value = serde_json::to_value(positions).unwrap_or(Value::Null);
    parts.insert(PART.to_owned(), value);
}

/// The positions that an item carries, of the first outcome that has them; `None`: it carries none, or
/// they cannot be read.
pub fn positions(item: &Item) -> Option<Vec<Position>> {
    let part = item.outcomes.values().find_map(|outcome| outcome.parts.get(PART))?;
    Vec::<Position>::deserialize(part).ok()
}
