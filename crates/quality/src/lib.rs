//! Is it still the same model? Tasks, scores and the gate between two journals of items.
//!
//! Pure: no clock, no files, no sockets. Tasks give [`Ask`]s; whoever talks to the server gives [`Answer`]s.

mod ask;
pub mod breakage;
pub mod divergence;
pub mod gate;
mod item;
pub mod stats;

pub use ask::{Answer, Ask, Generate, Generated, Message, Prompt, Role, Scored};
pub use item::{Hash, Item, Outcome};
