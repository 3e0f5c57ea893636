//! The flags of `inferometer mlperf`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use mlperf::layers::{Availability, CacheUse, Division};
use serde::de::DeserializeOwned;

use super::{ApiArgs, ClientArgs};

/// `inferometer mlperf …`.
#[derive(Debug, Subcommand)]
pub enum MlperfCommand {
    /// Run a scenario of LoadGen on a server: its draws, its moments, its verdict, its logs, and what they are worth.
    Run(Box<MlperfRunArgs>),
    /// Search the highest rate of Server that keeps the latency limits, as LoadGen searches it.
    FindPeak(Box<MlperfPeakArgs>),
    /// Say what a log folder is worth, layer by layer: integrity, LoadGen's verdict, the rules of a submission, the
    /// reference checker, publication.
    Check(Box<MlperfCheckArgs>),
    /// Print the numbers of a round, with their source.
    Rules(MlperfRulesArgs),
    /// The curve of MLPerf Endpoints from runs at fixed concurrency: its points, its regions, and what it lacks. The
    /// programme's rules are tentative.
    Endpoints(MlperfEndpointsArgs),
}

/// How queries follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MlperfScenario {
    /// One sample; the next one after its answer.
    SingleStream,
    /// Several samples at once; the next ones after the last answer.
    MultiStream,
    /// Poisson arrivals.
    Server,
    /// All samples at once.
    Offline,
    /// Server with the limits of interactive use.
    Interactive,
}

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MlperfMode {
    /// Timed.
    Performance,
    /// Every sample once, its answers kept.
    Accuracy,
    /// Accuracy, then timed.
    Submission,
    /// The highest rate of Server that keeps the latency limits.
    FindPeak,
}

/// `inferometer mlperf run`.
#[derive(Debug, Args)]
pub struct MlperfRunArgs {
    /// Server: `http://HOST:PORT`, `https://…`, or `sim://MODEL@[Nx]ACCELERATOR`.
    pub target: String,
    /// Model name that is sent; not needed when the server offers one.
    #[arg(long, short)]
    pub model: Option<String>,
    /// How queries follow each other.
    #[arg(long, value_enum)]
    pub scenario: MlperfScenario,
    /// What the run is for.
    #[arg(long, value_enum, default_value_t = MlperfMode::Performance)]
    pub mode: MlperfMode,
    /// The benchmark, as a round calls it: `llama3.1-8b`. It brings LoadGen's settings for it.
    #[arg(long, value_name = "MODEL")]
    pub benchmark: Option<String>,
    /// The round, for its seeds and its rules: `v5.0`, `v5.1`, `v6.0`, `v6.1` [default: the seeds of LoadGen 6.0.17].
    #[arg(long, value_name = "ROUND")]
    pub round: Option<String>,
    /// LoadGen's settings.
    #[command(flatten)]
    pub settings: MlperfSettingArgs,
    /// The data set.
    #[command(flatten)]
    pub data: MlperfDataArgs,
    /// What is declared.
    #[command(flatten)]
    pub declared: DeclaredArgs,
    /// API.
    #[command(flatten)]
    pub api: ApiArgs,
    /// Client.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Folder that the run's folder is made in.
    #[arg(long, value_name = "DIR", default_value = "runs", help_heading = "Record")]
    pub out: PathBuf,
    /// Print the machine output on stdout.
    #[arg(long, help_heading = "Record")]
    pub json: bool,
    /// Print the settings with their sources and stop.
    #[arg(long, help_heading = "Record")]
    pub dry_run: bool,
}

/// `inferometer mlperf find-peak`.
#[derive(Debug, Args)]
pub struct MlperfPeakArgs {
    /// The rate is told to so many decimals.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Search")]
    pub decimals: u64,
    /// The share by which the rate is raised until the limits are not kept.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, help_heading = "Search")]
    pub step: f64,
    /// The run at each rate.
    #[command(flatten)]
    pub run: MlperfRunArgs,
}

/// LoadGen's settings, over those of its conf files.
#[derive(Debug, Args)]
#[command(next_help_heading = "LoadGen's settings")]
pub struct MlperfSettingArgs {
    /// Server: queries per second; Offline: samples per second that are expected. `find-peak` begins with it.
    #[arg(long, value_name = "RATE")]
    pub target_qps: Option<String>,
    /// SingleStream and MultiStream: the latency that is expected; Server: its limit where tokens are not timed. In ms.
    #[arg(long, value_name = "MS")]
    pub target_latency: Option<String>,
    /// The run lasts at least so long.
    #[arg(long, value_name = "TIME")]
    pub min_duration: Option<String>,
    /// There are at least so many queries (Offline: samples).
    #[arg(long, value_name = "N")]
    pub min_query_count: Option<String>,
    /// MultiStream: samples of one query.
    #[arg(long, value_name = "N")]
    pub samples_per_query: Option<String>,
    /// Any other key of a conf file, for this scenario: `ttft_latency=500`. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// LoadGen's `user.conf`.
    #[arg(long, value_name = "FILE")]
    pub user_conf: Option<PathBuf>,
    /// An `mlperf.conf` in place of the one that LoadGen 6.0.17 holds.
    #[arg(long, value_name = "FILE")]
    pub mlperf_conf: Option<PathBuf>,
    /// The `audit.config` of a compliance test, over all other settings.
    #[arg(long, value_name = "FILE")]
    pub audit_conf: Option<PathBuf>,
    /// A sample without a whole answer by then has failed; nothing waits longer.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub timeout: String,
    /// At most this many in flight; the others wait here, and the wait counts. For Offline and Server.
    #[arg(long, value_name = "N")]
    pub cap: Option<String>,
}

/// The data set.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data set")]
pub struct MlperfDataArgs {
    /// JSON lines with `prompt` or `messages`, one sample a line, in the order of the file. Without it text is made up.
    #[arg(long, value_name = "FILE")]
    pub dataset: Option<PathBuf>,
    /// Samples of made-up text [default: as many as the benchmark has, else 1024].
    #[arg(long, value_name = "N", conflicts_with = "dataset")]
    pub samples: Option<u64>,
    /// Input tokens of made-up text: `512`, `100..500`, `normal(512,64)`, … [default: 512].
    #[arg(long, value_name = "LENGTH", conflicts_with = "dataset")]
    pub isl: Option<String>,
    /// Output tokens asked for [default: 128, with a data set as its lines say].
    #[arg(long, value_name = "LENGTH")]
    pub osl: Option<String>,
    /// Who counts tokens here: `auto`, `none`, an embedded vocabulary, or the path of a `tokenizer.json`.
    #[arg(long, value_name = "WHICH")]
    pub tokenizer: Option<String>,
    /// The cache protocol: `cold`, `within-query`, `warm-prefix`. Checked as far as the server counts cached tokens.
    #[arg(long, value_name = "PROTOCOL", value_parser = word::<CacheUse>)]
    pub cache: Option<CacheUse>,
}

/// What logs cannot say.
#[derive(Debug, Args)]
#[command(next_help_heading = "Declared")]
pub struct DeclaredArgs {
    /// What logs cannot say, as JSON: `{"round": "v6.1", "model": "llama3.1-8b", "accuracy": {"ROUGE1": 38.6}, …}`.
    #[arg(long, value_name = "FILE")]
    pub declared: Option<PathBuf>,
    /// The division: `closed`, `network`, `open`.
    #[arg(long, value_parser = word::<Division>)]
    pub division: Option<Division>,
    /// When others can have the system: `available`, `preview`, `rdi`.
    #[arg(long, value_name = "WHEN", value_parser = word::<Availability>)]
    pub availability: Option<Availability>,
    /// The description of the system, `systems/<name>.json`.
    #[arg(long, value_name = "FILE")]
    pub system: Option<PathBuf>,
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
    /// The round whose rules apply: `v5.0`, `v5.1`, `v6.0`, `v6.1`.
    #[arg(long, value_name = "ROUND", help_heading = "Declared")]
    pub round: Option<String>,
    /// The model, as the round calls it.
    #[arg(long, value_name = "MODEL", help_heading = "Declared")]
    pub benchmark: Option<String>,
    /// The scenario, if it is not that of the log: `Interactive`.
    #[arg(long, value_name = "SCENARIO", help_heading = "Declared")]
    pub scenario: Option<String>,
    /// What is declared.
    #[command(flatten)]
    pub declared: DeclaredArgs,
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

/// `inferometer mlperf endpoints`.
#[derive(Debug, Args)]
pub struct MlperfEndpointsArgs {
    /// Run folders of closed loops, or folders of them, as a sweep leaves.
    #[arg(required = true, value_name = "DIR")]
    pub runs: Vec<PathBuf>,
    /// The largest concurrency that the system supports [default: that of the largest run].
    #[arg(long, value_name = "N")]
    pub max_concurrency: Option<u64>,
    /// The benchmark, for the size of its data set: `llama3.1-8b`.
    #[arg(long, value_name = "MODEL", conflicts_with = "samples", required_unless_present = "samples")]
    pub benchmark: Option<String>,
    /// Samples of the data set.
    #[arg(long, value_name = "N")]
    pub samples: Option<u64>,
    /// The run folder of a dedicated Offline run; without it the largest run is elected.
    #[arg(long, value_name = "DIR")]
    pub offline: Option<PathBuf>,
    /// Print the machine output on stdout: result, checks, and what is known for each `point.yaml`.
    #[arg(long)]
    pub json: bool,
}

/// A word of a closed list; the message names the others.
fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}
