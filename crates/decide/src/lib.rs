//! Answers from numbers: trust, limits, verdicts. Pure.

pub mod report;
pub mod trust;
pub mod words;

pub use report::{JointReport, MarginalReport, RunReport, Share, SloReport, Verdict};
pub use trust::{Cap, Capped, Check, CheckId, CheckState, Trust, TrustVerdict};
