//! How much a server holds: the largest load at which its limits hold, as a bracket that holds the
//! truth as often as it says. Method, sources and measured coverage: docs/capacity.md.

mod answer;
mod conclude;
mod criterion;
mod evidence;
mod fit;
mod fleet;
mod guard;
mod posterior;
mod probe;
mod queue;
mod ramp;
mod replay;
mod runner;
mod search;
mod sensitivity;
mod settings;
mod state;
mod stats;
mod tiers;
mod virtual_time;
mod words;

pub use answer::{
    CapacityAnswer, Curve, Latency, LimitAtProbe, Measured, Needs, ProbeReport, ProbeVerdict, StageReport,
    Verdict,
};
pub(crate) use evidence::{determined, transient};
pub(crate) use ramp::again;
pub(crate) use stats::{Z95, batch_means, logit, long_run_variance, mean};
pub(crate) use words::{bare, process};

pub use criterion::{Criterion, Unsearchable};
pub use fleet::Fleet;
pub use replay::{Recorded, Replay};
pub use runner::{Ask, Finished, Halt, Kind, Look, Next, ProbeTrust, Runner, Seen, Waited};
pub use sensitivity::{Change, Changed, Sensitivity, SensitivityRow, changes};
pub use settings::{Control, Over, Settings};
pub use tiers::{search, search_tiers};
pub use virtual_time::{Happened, Simulated, VirtualRunner, What};
pub use words::{figure, load as load_words, workload as workload_words};
