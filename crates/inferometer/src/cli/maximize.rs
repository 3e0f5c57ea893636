//! The flags of a maximisation.

use clap::Args;

/// What is maximised, in place of the load.
#[derive(Debug, Args)]
#[command(next_help_heading = "Maximise")]
pub struct MaximizeArgs {
    /// The most of this while the limits hold, instead of the largest load: `output_token_throughput`,
    /// `total_token_throughput`, `request_throughput`, `goodput`.
    #[arg(long, value_name = "THROUGHPUT", conflicts_with = "resume")]
    pub maximize: Option<String>,
    /// A limit that has to hold, what `--slo` is elsewhere. Repeatable.
    #[arg(long, value_name = "LIMIT", requires = "maximize", conflicts_with = "slo")]
    pub subject_to: Vec<String>,
    /// A knob beside the load: `isl=128..2048` (every length between), `osl=64,128,256` (a list, as of a sweep).
    /// Repeatable.
    #[arg(long, value_name = "NAME=VALUES", requires = "maximize")]
    pub knob: Vec<String>,
}
