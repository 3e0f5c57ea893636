//! MLPerf's LoadGen, to the bit: settings, draws, statistics, verdicts and logs; and what a log folder is
//! worth as evidence, in layers.

pub mod conf;
pub mod draw;
pub mod early;
pub mod effective;
pub mod endpoints;
pub mod layers;
pub mod log;
pub mod peak;
pub mod read;
pub mod schedule;
pub mod settings;
pub mod stats;
pub mod verdict;

mod rounds;
mod scenario;

pub use draw::Draws;
pub use effective::{Effective, SampleLibrary};
pub use rounds::{Limits, Model, Round, Seeds};
pub use scenario::Scenario;
pub use schedule::Schedule;
pub use settings::{Mode, TestSettings};
pub use stats::{Results, Sample, ShortAnswers};
pub use verdict::Verdict;
