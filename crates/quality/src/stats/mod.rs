//! Statistics of paired scores: what two servers' answers to the same questions say of each other.
//!
//! Everything is paired by question. A question that one server gets right and the other wrong is a
//! *flip*; their share is the *discordance*.

mod bare;
mod bootstrap;
mod family;
mod mcnemar;
mod paired;
mod ratio;
mod size;
pub mod speculative;

pub use bare::BareRatio;
pub use bootstrap::{Bootstrap, bootstrap};
pub use family::holm;
pub use mcnemar::{McNemar, mcnemar};
pub use paired::{Cells, Paired, Scores};
pub use ratio::{Bounds, Decision, NonInferiority, Wald, non_inferiority, wald};
pub use size::{
    Needed, bare_ratio_passes, needed_as_observed, needed_if_equal, needed_paired, needed_unpaired,
};
