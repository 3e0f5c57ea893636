//! The flags of `inferometer mlperf`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use mlperf::layers::{Availability, Division};
use serde::de::DeserializeOwned;

/// `inferometer mlperf …`.
#[derive(Debug, Subcommand)]
pub enum MlperfCommand {
    /// Say what a log folder is worth, layer by layer: integrity, LoadGen's verdict, the rules of a submission, the
    /// reference checker, publication.
    Check(Box<MlperfCheckArgs>),
    /// Print the numbers of a round, with their source.
    Rules(MlperfRulesArgs),
}

/// `inferometer mlperf check`.
#[derive(Debug, Args)]
pub struct MlperfCheckArgs {
    /// Folder with `mlperf_log_detail.txt`; or one of a submission, with `performance/run_1` and `accuracy`.
    pub dir: PathBuf,
    /// Only this layer: `L1` to `L5`, or `all`.
    #[arg(long, value_name = "LAYER", default_value = "all",
          value_parser = ["all", "L1", "L2", "L3", "L4", "L5"], ignore_case = true)]
    pub layer: String,
    /// Print the machine output on stdout.
    #[arg(long)]
    pub json: bool,
    /// What logs cannot say, as JSON: `{"round": "v6.1", "model": "llama3.1-8b", "accuracy": {"ROUGE1": 38.6}, …}`.
    #[arg(long, value_name = "FILE", help_heading = "Declared")]
    pub declared: Option<PathBuf>,
    /// The round whose rules apply: `v5.0`, `v5.1`, `v6.0`, `v6.1`.
    #[arg(long, value_name = "ROUND", help_heading = "Declared")]
    pub round: Option<String>,
    /// The model, as the round calls it.
    #[arg(long, value_name = "MODEL", help_heading = "Declared")]
    pub benchmark: Option<String>,
    /// The scenario, if it is not that of the log: `Interactive`.
    #[arg(long, value_name = "SCENARIO", help_heading = "Declared")]
    pub scenario: Option<String>,
    /// The division: `closed`, `network`, `open`.
    #[arg(long, value_parser = word::<Division>, help_heading = "Declared")]
    pub division: Option<Division>,
    /// When others can have the system: `available`, `preview`, `rdi`.
    #[arg(long, value_name = "WHEN", value_parser = word::<Availability>, help_heading = "Declared")]
    pub availability: Option<Availability>,
    /// The description of the system, `systems/<name>.json`.
    #[arg(long, value_name = "FILE", help_heading = "Declared")]
    pub system: Option<PathBuf>,
}

/// `inferometer mlperf rules`.
#[derive(Debug, Args)]
pub struct MlperfRulesArgs {
    /// The round: `v5.0`, `v5.1`, `v6.0`, `v6.1`.
    pub round: String,
    /// One of its models; without it, their names.
    pub model: Option<String>,
    /// Print the machine output on stdout.
    #[arg(long)]
    pub json: bool,
}

/// A word of a closed list; the message names the others.
fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}
