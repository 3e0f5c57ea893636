//! MLPerf's LoadGen, to the bit: what it draws from its seeds.

pub mod draw;
pub mod schedule;

pub use draw::Draws;
pub use schedule::{Mode, Scenario, Schedule, Seeds, Settings};
