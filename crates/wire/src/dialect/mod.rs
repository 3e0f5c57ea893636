//! The protocols spoken: request bodies, the JSON of answers, and what a server rejected.

pub mod adapt;
mod body;
mod chat;
mod completions;
pub mod frame;
mod lenient;

pub use adapt::Adaptation;
pub use body::{Asked, Body, PromptRef, body};
