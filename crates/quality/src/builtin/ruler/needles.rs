//! Needles: keys with values, hidden in a haystack.

use super::About;
use crate::builtin::BuiltinError;
use crate::builtin::fit::Made;
use crate::builtin::text::{TEXT, sentences};
use crate::builtin::words::{keys, numbers, uuids};
use crate::python::{Random, round_half_even};

const NOISE: &str = "The kettle is warm. Rain falls on the hill. A door stands open. Someone hums a tune. Then the \
                     evening comes.";
/// Depths at which needles can stand in an essay, in number.
const DEPTHS: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haystack {
    /// The same few sentences, again and again.
    Noise,
    /// Sentences of the bundled text, from its beginning, again and again.
    Essay,
    /// Other needles.
    Needles,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Word,
    Number,
    Uuid,
}

impl Value {
    fn draw(self, random: &mut Random, count: usize) -> Result<Vec<String>, BuiltinError> {
        match self {
            Self::Word => keys(random, count),
            Self::Number => numbers(random, count),
            Self::Uuid => Some(uuids(random, count)),
        }
        .ok_or(BuiltinError::TooLong)
    }

    fn called(self) -> &'static str {
        match self {
            Self::Word => "password",
            Self::Number => "entry code",
            Self::Uuid => "badge id",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Needles {
    pub(super) haystack: Haystack,
    pub(super) key: Value,
    pub(super) value: Value,
    pub(super) keys: usize,
    /// Of each key.
    pub(super) values: usize,
    /// Keys that are asked for.
    pub(super) asked: usize,
}

impl Needles {
    /// Fewest and most sentences, lines or needles of a haystack.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.keys * self.values + 1, usize::MAX)
    }

    /// A question with `size` sentences, lines or other needles around its own.
    pub(super) fn make(&self, random: &mut Random, size: usize) -> Result<Made<About>, BuiltinError> {
        let others = if self.haystack == Haystack::Needles { size } else { 0 };
        let keys = self.key.draw(random, self.keys + others)?;
        let values = self.value.draw(random, self.keys * self.values + others)?;
        let (own_values, other_values) = values.split_at(self.keys * self.values);
        let (own_keys, other_keys) = keys.split_at(self.keys);
        let needle =
            |key: &str, value: &str| format!("Note: the {} of {key} is {value}.", self.value.called());
        let mut hidden: Vec<String> = own_keys
            .iter()
            .zip(own_values.chunks(self.values))
            .flat_map(|(key, values)| values.iter().map(move |value| needle(key, value)))
            .collect();
        random.shuffle(&mut hidden);

        let lines: Vec<String> = match self.haystack {
            Haystack::Noise => vec![NOISE.to_owned(); size],
            Haystack::Essay => {
                sentences(TEXT).iter().cycle().take(size).map(|one| one.trim().to_owned()).collect()
            }
            Haystack::Needles => other_keys.iter().zip(other_values).map(|(k, v)| needle(k, v)).collect(),
        };
        let context = if self.haystack == Haystack::Essay {
            let depths = random.sample(DEPTHS, hidden.len()).ok_or(BuiltinError::TooLong)?;
            let percent = |depth: usize| round_half_even(depth as f64 * 100.0 / (DEPTHS - 1) as f64);
            let places = depths.into_iter().map(|depth| (size as f64 * percent(depth) / 100.0) as usize);
            hide(lines, hidden, places.collect()).join(" ")
        } else {
            let places = random.sample(size, hidden.len()).ok_or(BuiltinError::TooLong)?;
            hide(lines, hidden, places).join("\n")
        };

        let asked = random.sample(self.keys, self.asked).ok_or(BuiltinError::TooLong)?;
        let pick = |place: &usize| own_keys.get(*place).map_or("", String::as_str);
        let references = asked
            .iter()
            .flat_map(|place| {
                own_values.get(place * self.values..(place + 1) * self.values).unwrap_or_default()
            })
            .cloned()
            .collect();
        let names = asked.iter().map(pick).collect::<Vec<_>>().join(", ");
        let called = self.value.called();
        let question = match (self.asked, self.values) {
            (1, 1) => format!("What is the {called} of {names}? Reply with it alone."),
            (1, n) => format!(
                "The notes give {n} of the kind \"{called}\" for {names}. Reply with all {n}, separated by commas."
            ),
            _ => format!(
                "For each of {names}: what is its {called}? Reply with all of them, separated by commas."
            ),
        };
        let prompt = format!(
            "Somewhere in the text below stand notes. You will be asked about them.\n\n{context}\n\n{question}"
        );
        Ok(Made { prompt, about: About { references } })
    }
}

/// Lines with needles put before the lines at `places`, the first needle at the earliest place.
fn hide(lines: Vec<String>, needles: Vec<String>, mut places: Vec<usize>) -> Vec<String> {
    places.sort_unstable();
    let mut out = Vec::with_capacity(lines.len() + needles.len());
    let mut needles = places.into_iter().zip(needles).peekable();
    for (at, line) in lines.into_iter().enumerate() {
        while let Some((_, needle)) = needles.next_if(|(place, _)| *place <= at) {
            out.push(needle);
        }
        out.push(line);
    }
    out.extend(needles.map(|(_, needle)| needle));
    out
}
