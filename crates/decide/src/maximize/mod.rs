//! The most of a throughput that a server gives while its limits hold.
//!
//! Over the load alone it is found at the smaller of the capacity and the throughput's peak: the search
//! for capacity runs as it is, and its probes tell the throughput. Knobs of the workload beside the load
//! are searched setting by setting where they are few, else by a Gaussian process. Method:
//! docs/maximize.md.

mod acquire;
mod answer;
mod bench;
mod excess;
mod gp;
mod ladder;
mod load;
mod peak;
mod point;
mod search;
mod space;
mod survey;
mod words;

pub use answer::{AtSetting, Binds, KnobRange, Maximum, Surveyed};
pub use bench::Told;
pub use point::Point;
pub use search::{Goal, Outcome, maximize};
pub use words::setting as setting_words;
