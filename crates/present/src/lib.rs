//! Pages from answers: terminal text and the self-contained HTML report. No arithmetic.

pub mod html;
mod label;
mod stands;
pub mod style;
pub mod terminal;

pub use style::{Style, Tone};
