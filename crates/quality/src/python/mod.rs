//! What Python does where it differs from Rust: evaluation harnesses are written in Python, and their scores
//! follow its random numbers, its regular expressions, its notion of white space and its ways of writing values.
//!
//! Source: CPython 3.11's `Lib/random.py`, `Modules/_randommodule.c`, `Lib/json`, `Lib/ast.py`, and the
//! library reference of `re` and `str`.

mod literal;
mod number;
mod pattern;
mod random;
mod text;
mod write;

pub use literal::{LiteralError, literal_eval};
pub use number::{round_half_even, round_to};
pub use pattern::{Pattern, PatternError};
pub use random::{NumpyRandom, Random};
pub use text::{is_punctuation, is_space, lstrip, rstrip, split, split_runs, strip};
pub use write::{float_repr, json_dumps, repr, str};
