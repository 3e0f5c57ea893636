//! Answers from numbers: trust, limits, verdicts. Pure.

pub mod bound;
pub mod capacity;
pub mod caps;
pub mod checks;
pub mod facts;
pub mod instrument;
pub mod json;
pub mod limits;
pub mod maximize;
pub mod notes;
pub mod qualified;
pub mod report;
pub mod self_check;
pub mod slo;
pub mod sweep;
pub mod together;
pub mod traffic;
pub mod trust;
pub mod verdict;
pub mod windows;

pub use instrument::InstrumentReport;
pub use report::{JointReport, MarginalReport, RunReport, Share, SloReport, Verdict};
pub use spec::words;
pub use together::Together;
pub use trust::{Cap, Capped, Check, CheckId, CheckState, Trust, TrustVerdict};
pub use windows::{Cause, ClientWindows, LimitedWindow};
