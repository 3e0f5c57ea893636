//! Scores of answers, each as its first author's program computes it, to the last digit that it prints.
//!
//! A method has a name and a version and says whose rules it follows: two programs that score "MMLU-Pro"
//! read different letters out of the same answer, so a score without its method's name compares with nothing.

pub mod gsm8k;
pub mod longbench;
pub mod longbench_v2;
pub mod mlperf;
pub mod mmlu_pro;
pub mod needle;
mod porter;
mod rouge;
mod rouge_score;
pub mod ruler;
mod similarity;
mod text;

pub use porter::stem;
pub use rouge::rouge_l;
pub use rouge_score::{Rouge, rouge};
pub use similarity::{difflib_ratio, indel_ratio};

use serde::Serialize;

/// How a score is made, and whose rules it follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Method {
    /// Unique; the key of an outcome in an item.
    pub name: &'static str,
    /// Raised when the same answers would score otherwise.
    pub version: u32,
    /// The program that it reproduces, or "inferometer".
    pub source: &'static str,
}
