//! The command line: syntax only, no side effects.

mod maximize;
mod mlperf;
mod quality;
mod sweep;

use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub use maximize::MaximizeArgs;
pub use mlperf::{
    DeclaredArgs, MlperfCheckArgs, MlperfCommand, MlperfDataArgs, MlperfEndpointsArgs, MlperfMode,
    MlperfRulesArgs, MlperfRunArgs, MlperfScenario,
};
pub use quality::{
    PplDefinition, QualityCommand, QualityCompareArgs, QualityKlArgs, QualityPplArgs, QualityProbeArgs,
    QualityQuestionArgs, QualityRunArgs, QualityServerArgs,
};
pub use sweep::{SweepArgs, SweepLoadArgs, SweepOrder};

/// Measures what an LLM inference service can hold, and says whether to believe the number.
#[derive(Debug, Parser)]
#[command(
    name = "inferometer",
    version,
    about,
    max_term_width = 100,
    after_help = "First try, nothing else needed:\n  inferometer run sim://llama-3.1-8b@h100 --rate 6 --isl 512 --osl 128 --duration 30s"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How it is shown.
    #[command(flatten)]
    pub screen: Screen,
}

/// How things are shown.
#[derive(Debug, Clone, Args)]
pub struct Screen {
    /// Colour on the terminal.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, help_heading = "Screen")]
    pub color: Color,
    /// Signs in ASCII (`ok FAIL ?` instead of `✓ ✕ ?`).
    #[arg(long, global = true, help_heading = "Screen")]
    pub ascii: bool,
    /// Progress while running: `auto` draws on a terminal and prints a line every 10 s elsewhere; `live` fills the
    /// terminal.
    #[arg(long, global = true, value_enum, default_value_t = Progress::Auto, help_heading = "Screen")]
    pub progress: Progress,
    /// The same as `--progress live`.
    #[arg(long, global = true, conflicts_with = "progress", help_heading = "Screen")]
    pub live: bool,
    /// Errors only.
    #[arg(long, short, global = true, help_heading = "Screen")]
    pub quiet: bool,
}

impl Screen {
    /// How progress is shown, by whichever flag.
    pub fn progress(&self) -> Progress {
        if self.live { Progress::Live } else { self.progress }
    }
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` or `TERM=dumb` says otherwise.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// Bars on a terminal, plain lines elsewhere.
    Auto,
    /// A view of the whole run over the whole terminal; `q` or Ctrl-C ends the measurement.
    Live,
    /// Plain lines.
    Plain,
    /// None.
    Off,
}

/// What to do when another run measures the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IfBusy {
    /// Nothing is sent.
    Refuse,
    /// Begin when it has ended.
    Wait,
    /// Measure all the same; the check `foreign` fails.
    Share,
}

/// The command line with its help. A search sets the length of its probes itself: the flags for it, which a spec file's
/// settings are parsed beside, are refused there and not offered.
pub fn command() -> clap::Command {
    Cli::command().mut_subcommand("capacity", |capacity| {
        capacity.mut_args(|arg| {
            let refused = ["duration", "requests", "warmup"].contains(&arg.get_id().as_str());
            if refused { arg.hide(true) } else { arg }
        })
    })
}

/// Parses this process's arguments, or ends it with what is wrong with them.
pub fn parse() -> Cli {
    Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit())
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure one load point and say whether to believe it.
    Run(Box<RunArgs>),
    /// Measure several loads: the curve, its knee, and where each limit is crossed.
    Sweep(Box<SweepArgs>),
    /// Search how much a server holds: the largest load at which the limits hold, as a bracket with a confidence.
    Capacity(Box<CapacityArgs>),
    /// Analyse the folder of a run or a sweep again, without running again.
    Show(ShowArgs),
    /// Write the self-contained HTML report of the folder of a run or a sweep.
    Report(ReportArgs),
    /// Measure how well this machine measures: its error, its cost, its ceiling (about 20 s).
    SelfCheck(SelfCheckArgs),
    /// MLPerf-style evidence: logs of LoadGen, or in its layout.
    #[command(subcommand)]
    Mlperf(MlperfCommand),
    /// Is it still the same model: ask, keep the answers, compare.
    #[command(subcommand)]
    Quality(QualityCommand),
    /// The simulated engine.
    #[command(subcommand)]
    Sim(SimCommand),
    /// Spec files.
    #[command(subcommand)]
    Spec(SpecCommand),
    /// Shell completions, on stdout.
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Manual page, on stdout.
    #[command(hide = true)]
    Man,
}

/// `inferometer run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// What is measured.
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// Load.
    #[command(flatten)]
    pub load: LoadArgs,
    /// How it is measured.
    #[command(flatten)]
    pub settings: SettingArgs,
}

/// What is measured.
#[derive(Debug, Args)]
pub struct SubjectArgs {
    /// Server: `http://HOST:PORT`, `https://…`, or `sim://MODEL@[Nx]ACCELERATOR`. Several servers share the requests.
    pub target: Vec<String>,
    /// Spec file (YAML or JSON); flags override it.
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Model name that is sent; not needed when the server offers one.
    #[arg(long, short)]
    pub model: Option<String>,
}

/// How it is measured: everything but target and load.
#[derive(Debug, Args)]
pub struct SettingArgs {
    /// Phases.
    #[command(flatten)]
    pub phases: PhaseArgs,
    /// Workload.
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Limits.
    #[command(flatten)]
    pub slo: SloArgs,
    /// API.
    #[command(flatten)]
    pub api: ApiArgs,
    /// Time limits.
    #[command(flatten)]
    pub timeouts: TimeoutArgs,
    /// Client.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Analysis.
    #[command(flatten)]
    pub analysis: AnalysisArgs,
    /// Record.
    #[command(flatten)]
    pub record: RecordArgs,
}

/// When requests leave.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Closed loop: this many users, each waits for its answer (default without a rate: 1).
    #[arg(long, short, value_name = "N")]
    pub concurrency: Option<String>,
    /// Closed loop: pause of a user between an answer and the next request.
    #[arg(long, value_name = "TIME")]
    pub think: Option<String>,
    /// Closed loop: the users begin one after another, evenly over this time.
    #[arg(long, value_name = "TIME")]
    pub start_over: Option<String>,
    /// Open loop: arrivals per second on a timetable, whatever returns (`6`, `0.42`, `30/min`, `inf`).
    #[arg(long, short, value_name = "RATE")]
    pub rate: Option<String>,
    /// Gamma shape of the gaps: 1 Poisson, below 1 bursty, `inf` constant [default: 1].
    #[arg(long, value_name = "SHAPE")]
    pub burstiness: Option<String>,
    /// Open loop with at most this many in flight; the wait at the cap is measured and named.
    #[arg(long, value_name = "N")]
    pub cap: Option<String>,
    /// Grow linearly from this rate to `--rate`: `FROM:TIME`, for example `1/s:30s`.
    #[arg(long, value_name = "FROM:TIME")]
    pub ramp: Option<String>,
}

/// Warm-up, measurement, drain.
#[derive(Debug, Args)]
#[command(next_help_heading = "Phases")]
pub struct PhaseArgs {
    /// Measure for this long [default: 30s].
    #[arg(long, short, value_name = "TIME")]
    pub duration: Option<String>,
    /// Measure this many requests.
    #[arg(long, short = 'n', value_name = "N")]
    pub requests: Option<String>,
    /// Warm-up at the target load, not counted: a time, `N requests`, or `none` [default: two requests a user; open loop a tenth of
    /// the measurement, at most 10s].
    #[arg(long, value_name = "RULE")]
    pub warmup: Option<String>,
    /// Grace for open requests after the last send; then they are cut and counted as such [default: 30s].
    #[arg(long, value_name = "TIME")]
    pub drain: Option<String>,
}

/// What is in a request.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadArgs {
    /// Input tokens: `512`, `100..500`, `normal(512,64)`, `lognormal(512,300)`, `file:PATH`, `data` [default: 512].
    #[arg(long, value_name = "LENGTH")]
    pub isl: Option<String>,
    /// Output tokens asked for, in the same forms; `data`: as the data set has it [default: 128].
    #[arg(long, value_name = "LENGTH")]
    pub osl: Option<String>,
    /// Prompts from a file: `jsonl:PATH` or `sharegpt:PATH`.
    #[arg(long, value_name = "KIND:PATH")]
    pub data: Option<String>,
    /// What prompts share: `unique`, `shared-prefix:TOKENS/GROUPS`, `repeat:N` [default: unique].
    #[arg(long, value_name = "PROTOCOL")]
    pub cache: Option<String>,
    /// Who counts tokens here: `auto`, `none`, an embedded vocabulary (`llama3`, `qwen2`, `o200k`, …), or the path
    /// of a `tokenizer.json`.
    #[arg(long, value_name = "WHICH")]
    pub tokenizer: Option<String>,
    /// Seed of the timetable, the lengths and the prompts [default: 42].
    #[arg(long, value_name = "N")]
    pub seed: Option<String>,
}

/// Limits.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct SloArgs {
    /// A limit: on each request (`ttft<=500ms`) or on a statistic (`p99(tpot)<=50ms`, `error_rate<=1%`). Repeatable.
    #[arg(long, value_name = "LIMIT")]
    pub slo: Vec<String>,
    /// Share of requests that must meet all limits on requests [default: 95%].
    #[arg(long, value_name = "SHARE")]
    pub attain: Option<String>,
}

/// How the server is spoken to.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "API")]
pub struct ApiArgs {
    /// Protocol: `chat` or `completions` [default: chat].
    #[arg(long, value_name = "DIALECT")]
    pub api: Option<String>,
    /// Ask for whole answers instead of streams.
    #[arg(long)]
    pub no_stream: bool,
    /// Path instead of the protocol's own.
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Extra header, `NAME: VALUE`. Repeatable.
    #[arg(long, short = 'H', value_name = "HEADER")]
    pub header: Vec<String>,
    /// Read the API key from this environment variable.
    #[arg(long = "api-key-env", value_name = "VARIABLE")]
    pub key_env: Option<String>,
    /// Read the API key from the first line of this file.
    #[arg(long = "api-key-file", value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// JSON object merged over the request body.
    #[arg(long, value_name = "JSON")]
    pub extra_body: Option<String>,
    /// Sampling temperature.
    #[arg(long)]
    pub temperature: Option<String>,
    /// Nucleus sampling.
    #[arg(long)]
    pub top_p: Option<String>,
    /// Top-k sampling.
    #[arg(long)]
    pub top_k: Option<String>,
    /// Field that carries the output limit: `max_tokens`, `max_completion_tokens`, `both` [default: max_tokens].
    #[arg(long, value_name = "FIELD")]
    pub max_field: Option<String>,
    /// How an exact output length is forced: `auto`, `ignore_eos`, `min_tokens`, `none` [default: auto].
    #[arg(long, value_name = "HOW")]
    pub force: Option<String>,
    /// Do not ask for `stream_options.include_usage`.
    #[arg(long)]
    pub no_usage: bool,
    /// Skip the check that the server answers.
    #[arg(long)]
    pub no_check: bool,
    /// Path of the readiness check [default: /v1/models].
    #[arg(long, value_name = "PATH")]
    pub health: Option<String>,
    /// How long to wait for the server to become ready [default: 10s].
    #[arg(long, value_name = "TIME")]
    pub wait: Option<String>,
    /// Accept any TLS certificate.
    #[arg(long)]
    pub insecure: bool,
    /// Additional TLS roots, PEM.
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
}

/// Time limits; each can be `off`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Time limits (each can be `off`)")]
pub struct TimeoutArgs {
    /// Until the connection stands, TLS included [default: 10s].
    #[arg(long, value_name = "TIME")]
    pub connect_timeout: Option<String>,
    /// From the first byte written to the first output [default: 5m].
    #[arg(long, value_name = "TIME")]
    pub first_token_timeout: Option<String>,
    /// Without any byte, once the answer has begun [default: 60s].
    #[arg(long, value_name = "TIME")]
    pub idle_timeout: Option<String>,
    /// From the first byte written to the end [default: off].
    #[arg(long, value_name = "TIME")]
    pub total_timeout: Option<String>,
}

/// The measuring side.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Client")]
pub struct ClientArgs {
    /// Sending threads [default: 1].
    #[arg(long, value_name = "N")]
    pub lanes: Option<String>,
    /// `keepalive`, `fresh`, or `prewarmed:N` [default: keepalive].
    #[arg(long, value_name = "POLICY")]
    pub connections: Option<String>,
    /// Attempts beyond the first for a failed request; each is counted [default: 0].
    #[arg(long, value_name = "N")]
    pub retries: Option<String>,
    /// Receive times from this program instead of the kernel.
    #[arg(long)]
    pub no_kernel_stamps: bool,
    /// Another run on this machine measures the same endpoint: refuse, wait for its end, or share it.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = IfBusy::Refuse)]
    pub if_busy: IfBusy,
    /// Between two readings of the server's metrics; `off`: none while the run goes on [default: 1s].
    #[arg(long, value_name = "TIME")]
    pub metrics_every: Option<String>,
    /// Each lane and the pacer on a core of its own.
    #[arg(long)]
    pub pin: bool,
    /// Lanes and pacer under `SCHED_FIFO`, memory locked; what the system refuses is noted.
    #[arg(long)]
    pub realtime: bool,
    /// Source addresses of connections, used in turn. Repeatable.
    #[arg(long, value_name = "ADDRESS,…")]
    pub bind: Vec<String>,
    /// Unix socket to speak over; the server's address still gives the `host` header and the path.
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,
    /// Speak HTTP/2 (by prior knowledge, with TLS by ALPN), one request at a time on a connection.
    #[arg(long)]
    pub http2: bool,
}

/// How numbers are computed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Analysis")]
pub struct AnalysisArgs {
    /// Percentile rule: `linear`, `nearest-rank`, `loadgen` [default: linear].
    #[arg(long, value_name = "RULE")]
    pub percentile: Option<String>,
    /// Latencies from the intended send (`user`) or from the first byte written (`server`)
    /// [default: user in open loop, server in closed loop].
    #[arg(long, value_name = "VIEW")]
    pub view: Option<String>,
}

/// What is kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Record")]
pub struct RecordArgs {
    /// Folder that run folders are made in.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub out: PathBuf,
    /// A label, `KEY=VALUE`: `engine=vllm-0.33`, `gpus=8xH100`, `precision=fp8`. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Vec<String>,
    /// Keep prompts and answers in the journal.
    #[arg(long)]
    pub keep_text: bool,
    /// Also write the HTML report when done.
    #[arg(long)]
    pub html: bool,
    /// Print the machine output on stdout.
    #[arg(long)]
    pub json: bool,
    /// Print the spec with every default and stop.
    #[arg(long)]
    pub dry_run: bool,
}

/// `inferometer capacity`.
#[derive(Debug, Args)]
pub struct CapacityArgs {
    /// What is measured.
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// The search.
    #[command(flatten)]
    pub load: SearchArgs,
    /// What is maximised.
    #[command(flatten)]
    pub maximize: MaximizeArgs,
    /// How it is measured.
    #[command(flatten)]
    pub settings: SettingArgs,
}

/// What is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchOver {
    /// Requests per second of an open loop.
    Rate,
    /// Requests in flight.
    Concurrency,
    /// Users who think between requests.
    Users,
}

/// What is searched, and how far.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub struct SearchArgs {
    /// The load that is searched.
    #[arg(long, value_enum, default_value = "rate")]
    pub over: SearchOver,
    /// Pause of a user between an answer and the next request, as 8s.
    #[arg(long, value_name = "TIME")]
    pub think: Option<String>,
    /// Gamma shape of the gaps: 1 Poisson (the default), below burstier, inf equal gaps.
    #[arg(long, value_name = "SHAPE")]
    pub burstiness: Option<String>,
    /// No larger load than this is tried.
    #[arg(long, value_name = "LOAD")]
    pub max: Option<f64>,
    /// Wanted width of the bracket as a share of its middle [default: 10%].
    #[arg(long, value_name = "SHARE")]
    pub width: Option<String>,
    /// Probes of the search proper at most, without the ramp and the checks [default: 12].
    #[arg(long, value_name = "N")]
    pub probes: Option<u32>,
    /// Time of all probes at most, as 20m; then the bracket so far is told.
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    /// Run the simulated engine in virtual time: seconds instead of minutes.
    #[arg(long = "virtual")]
    pub in_virtual_time: bool,
    /// What has to be served in all, as 900/s: tells how many servers.
    #[arg(long, value_name = "RATE")]
    pub demand: Option<String>,
    /// Accelerators behind the server; a simulated target names its own.
    #[arg(long, value_name = "N")]
    pub accelerators: Option<u32>,
    /// A class of service with limits of its own, `fast: p95(ttft)<=200ms` or `fast: ttft<=200ms, tpot<=20ms, attain
    /// 95%`. Repeatable: all are searched together from the same probes, each with an answer of its own.
    #[arg(long, value_name = "NAME: LIMITS")]
    pub tier: Vec<String>,
    /// Also the answer for other burstiness (0.25, 1, inf) and for lengths 20 % shorter and longer: each a search of
    /// its own.
    #[arg(long)]
    pub sensitivity: bool,
    /// Is it still the same model at the load that was found? The questions of this folder of `quality run` are asked again
    /// there and compared.
    #[arg(long, value_name = "DIR")]
    pub quality: Option<PathBuf>,
    /// Go on with the search in this folder.
    #[arg(long, value_name = "FOLDER")]
    pub resume: Option<PathBuf>,
}

/// `inferometer show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Folder of a run or a sweep; or a run's journal, or its requests.parquet.
    pub dir: PathBuf,
    /// Analysis.
    #[command(flatten)]
    pub analysis: AnalysisArgs,
    /// Limits instead of those it was made with.
    #[command(flatten)]
    pub slo: SloArgs,
    /// Print the machine output on stdout.
    #[arg(long)]
    pub json: bool,
}

/// `inferometer report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Folder of a run or a sweep; or a run's journal, or its requests.parquet.
    pub dir: PathBuf,
    /// Analysis.
    #[command(flatten)]
    pub analysis: AnalysisArgs,
    /// File instead of `report.html` in the folder; `-` for stdout.
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `inferometer self-check`.
#[derive(Debug, Args)]
pub struct SelfCheckArgs {
    /// Half the time: fewer percentiles, coarser ceilings.
    #[arg(long)]
    pub quick: bool,
    /// Print the machine output on stdout.
    #[arg(long)]
    pub json: bool,
    /// Can this machine offer a load to this server? The server gets one request, the simulated engine the load.
    #[arg(long, value_name = "URL")]
    pub against: Option<String>,
    /// The load: requests per second.
    #[arg(long, short, value_name = "RATE", requires = "against", help_heading = "The load for --against")]
    pub rate: Option<f64>,
    /// The load: users that each wait for their answer.
    #[arg(long, short, value_name = "N", requires = "against", help_heading = "The load for --against")]
    pub concurrency: Option<u32>,
    /// Input tokens of a request.
    #[arg(long, value_name = "N", default_value_t = 512, help_heading = "The load for --against")]
    pub isl: u32,
    /// Output tokens of a request.
    #[arg(long, value_name = "N", default_value_t = 128, help_heading = "The load for --against")]
    pub osl: u32,
    /// Model name that is sent; not needed when the server offers one.
    #[arg(long, short, help_heading = "The load for --against")]
    pub model: Option<String>,
    /// Read the API key from this environment variable.
    #[arg(long = "api-key-env", value_name = "VARIABLE", help_heading = "The load for --against")]
    pub key_env: Option<String>,
    /// Read the API key from the first line of this file.
    #[arg(
        long = "api-key-file",
        value_name = "FILE",
        help_heading = "The load for --against",
        conflicts_with = "key_env"
    )]
    pub key_file: Option<PathBuf>,
}

/// `inferometer sim …`.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Serve the simulated engine over HTTP until Ctrl-C.
    Serve(SimServeArgs),
    /// List models, accelerators, options and faults.
    List,
}

/// `inferometer sim serve`.
#[derive(Debug, Args)]
pub struct SimServeArgs {
    /// `sim://MODEL@[Nx]ACCELERATOR[?key=value&…]`, `sim://fixed?ttft=100ms&tpot=10ms`, `sim://fifo?service=100ms`.
    pub engine: String,
    /// Port; 0 takes a free one.
    #[arg(long, short, default_value_t = 8000)]
    pub port: u16,
    /// Address.
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// Log of the truth: one JSON line per request, with the moments of each write.
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,
    /// End when standard input closes.
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
}

/// `inferometer spec …`.
#[derive(Debug, Subcommand)]
pub enum SpecCommand {
    /// Print the JSON Schema of spec files.
    Schema,
    /// Check a spec file and print it with every default.
    Check {
        /// Spec file; `-` for stdin.
        file: PathBuf,
    },
}
