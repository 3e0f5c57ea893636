//! Is it still the same model? Tasks, scores and the gate between two journals of items.
//!
//! Pure: no clock, no files, no sockets. Tasks give [`Ask`]s; whoever talks to the server gives [`Answer`]s.

mod ask;
mod benchmark;
pub mod breakage;
pub mod builtin;
pub mod divergence;
pub mod engine;
pub mod files;
pub mod gate;
mod item;
pub mod python;
pub mod score;
pub mod stats;
pub mod task;
mod tokens;

pub use ask::{Answer, Ask, Generate, Generated, Message, Prompt, Role, Scored};
pub use benchmark::{Benchmark, Question, Score, Unit, Wording, said};
pub use item::{Hash, Item, Outcome};
pub use tokens::{Tokens, TokensError};
