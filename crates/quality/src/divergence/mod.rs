//! How far two servers' distributions over the next token lie apart, and perplexities that say which
//! of their definitions they follow.
//!
//! Both servers score the same ids (teacher forcing), so that the figures are of the model and not of
//! texts that drifted apart.

mod compare;
mod identical;
mod perplexity;
mod position;
mod windows;

pub use compare::{Agreement, Delta, Divergence, Kl, KlKind, LogRatio, divergence};
pub use identical::{Identity, Unit as IdentityUnit, first_difference, identity};
pub use perplexity::{Definition, Perplexity, Unit, perplexity};
pub use position::{Position, TopK, positions, put_positions};
pub use windows::{Bos, Window, Windows};
