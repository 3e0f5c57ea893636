//! A simulated LLM inference engine: an oracle that keeps its own log of the truth, and the target
//! that every user has at hand.
//!
//! The engine models are pure and event-driven ([`engine`]); [`virtual_time`] drives them exactly,
//! [`front`] drives them in real time behind an OpenAI-compatible HTTP server. Nothing here shares
//! code with the measuring client: what it claims about itself is independent of it.

#[cfg(test)]
mod book;
pub mod config;
pub mod draw;
pub mod engine;
pub mod error;
pub mod faults;
pub mod front;
pub mod hardware;
pub mod models;
mod names;
pub mod roofline;
pub mod text;
pub mod virtual_time;

pub use config::{EngineConfig, SimConfig, StreamShape, UsageMode};
pub use engine::{Emission, Engine, Event, Gauges, Job, JobId, Rejection};
pub use error::SimError;
pub use faults::{Fault, FaultRule, Selector};
pub use front::truth::TruthRow;
pub use front::{Running, Served, TruthSink, serve, spawn};
pub use virtual_time::{Outcome, virtual_closed, virtual_open};
