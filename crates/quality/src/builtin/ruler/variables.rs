//! Chains of variables (`vt`): one chain of four hops in noise.

use super::About;
use crate::builtin::BuiltinError;
use crate::builtin::fit::Made;
use crate::builtin::words::codes;
use crate::python::Random;

const VARIABLES: usize = 5;
const NOISE: &str =
    "The lamp is lit. Snow lies on the roof. A clock ticks. Nobody speaks. So the night goes by.";

/// Fewest and most lines of noise.
pub(super) const SIZES: (usize, usize) = (VARIABLES, usize::MAX);

/// A question with `size` lines of noise around the assignments, which stand in their order.
pub(super) fn make(random: &mut Random, size: usize) -> Result<Made<About>, BuiltinError> {
    let names = codes(random, b'A', 5, VARIABLES).ok_or(BuiltinError::TooLong)?;
    let value = random.randint(10_000, 99_998);
    let mut places = random.sample(size, VARIABLES).ok_or(BuiltinError::TooLong)?;
    places.sort_unstable();
    let mut lines = Vec::with_capacity(size + VARIABLES);
    let mut next = 0;
    for at in 0..size {
        if places.get(next) == Some(&at)
            && let Some(name) = names.get(next)
        {
            lines.push(match next.checked_sub(1).and_then(|before| names.get(before)) {
                None => format!("LET {name} = {value}."),
                Some(before) => format!("LET {name} = {before}."),
            });
            next += 1;
        }
        lines.push(NOISE.to_owned());
    }
    let prompt = format!(
        "Lines of the form LET … = … in the text below give values to variables, one after the other.\n\n{}\n\n\
         Which {VARIABLES} variables have the value {value} in the end? Reply with their names alone, separated by \
         commas.",
        lines.join("\n")
    );
    Ok(Made { prompt, about: About { references: names } })
}
