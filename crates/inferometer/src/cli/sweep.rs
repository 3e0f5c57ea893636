//! The flags of `inferometer sweep`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{SettingArgs, SubjectArgs};

/// `inferometer sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// What is measured.
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// Loads.
    #[command(flatten)]
    pub load: SweepLoadArgs,
    /// How it is measured.
    #[command(flatten)]
    pub settings: SettingArgs,
}

/// The loads of a sweep.
#[derive(Debug, Args)]
#[command(next_help_heading = "Loads")]
pub struct SweepLoadArgs {
    /// Closed loop with these numbers of users: `1,2,8`, `1,2,4..256` (goes on by the ratio), `10,20..100` (by the
    /// difference), `1..256:9` (nine points at equal ratios), `aiperf` (`1..1000:8`).
    #[arg(long, short, value_name = "LIST", conflicts_with_all = ["rate", "resume"])]
    pub concurrency: Option<String>,
    /// Closed loop: pause of a user between an answer and the next request.
    #[arg(long, value_name = "TIME", conflicts_with = "resume")]
    pub think: Option<String>,
    /// Open loop at these rates, in the same forms: `1..40:8`, `0.5,1..4`, `6/min,12/min..60/min`.
    #[arg(long, short, value_name = "LIST", conflicts_with = "resume")]
    pub rate: Option<String>,
    /// Gamma shape of the gaps: 1 Poisson, below 1 bursty, `inf` constant [default: 1].
    #[arg(long, value_name = "SHAPE", conflicts_with = "resume")]
    pub burstiness: Option<String>,
    /// Open loop with at most this many in flight; the wait at the cap is measured and named.
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    pub cap: Option<String>,
    /// Runs of each load, pooled; from three on their own spread widens the intervals [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "resume")]
    pub repeats: Option<u32>,
    /// Order of the runs: drawn from the seed, or as the loads are given [default: shuffled].
    #[arg(long, value_enum, value_name = "ORDER", conflicts_with = "resume")]
    pub order: Option<SweepOrder>,
    /// Accelerators behind the server, all alike; throughput is then also told for each of them
    /// [default: those of a simulated target].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "resume")]
    pub accelerators: Option<u32>,
    /// Go on with a sweep that was interrupted: makes the runs that are missing in this folder.
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
}

/// Order of the runs of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SweepOrder {
    /// Drawn from the seed, so that a drift of the server falls on no load more than on another.
    Shuffled,
    /// As the loads are given, one repeat of all of them after the other.
    AsGiven,
}
