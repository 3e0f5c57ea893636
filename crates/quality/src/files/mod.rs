//! Benchmarks on files that a user has: their official formats, with this project's wording or with that of
//! the user's own copy of the benchmark. Callers give texts; this crate opens nothing.

mod gsm8k;
mod inferencebench;
mod longbench;
mod longbench_v2;
mod mmlu_pro;
mod official;
mod overlong;
mod rows;
mod ruler;

pub use gsm8k::Gsm8k;
pub use inferencebench::{InferenceBench, reservoir};
pub use longbench::LongBench;
pub use longbench_v2::LongBenchV2;
pub use mmlu_pro::{MmluPro, MmluProPrompt};
pub use official::{LongBenchTemplates, LongBenchV2Template, MmluProLayout};
pub use overlong::{Counts, Cut, Fit, Overlong, cut_middle};
pub use rows::{FileError, Row, rows};
pub use ruler::RulerFile;
pub(crate) use ruler::reference_outcomes;
