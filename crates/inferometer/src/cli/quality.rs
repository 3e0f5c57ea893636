//! The flags of `inferometer quality`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

/// `inferometer quality …`.
#[derive(Debug, Subcommand)]
pub enum QualityCommand {
    /// Find out what a server can be asked: log-probabilities in which way, tokenizer, template, determinism.
    Probe(Box<QualityProbeArgs>),
    /// Ask a server the tasks of a suite, and keep every answer; what was begun in the same folder goes on.
    Run(Box<QualityRunArgs>),
    /// Compare the answers of two servers: PASS, FAIL or INCONCLUSIVE.
    Compare(QualityCompareArgs),
    /// Measure the perplexity of a text, under a named definition.
    Ppl(Box<QualityPplArgs>),
    /// Record how a server continues given tokens, or measure how far another one is from that.
    Kl(Box<QualityKlArgs>),
}

/// Which server, and how it is spoken to.
#[derive(Debug, Args)]
pub struct QualityServerArgs {
    /// Server: `http://HOST:PORT` or `https://…`.
    pub target: String,
    /// Model name that is sent; not needed when the server offers one.
    #[arg(long, short)]
    pub model: Option<String>,
    /// Extra header, `NAME: VALUE`. Repeatable.
    #[arg(long, short = 'H', value_name = "HEADER", help_heading = "API")]
    pub header: Vec<String>,
    /// Read the API key from this environment variable.
    #[arg(long = "api-key-env", value_name = "VARIABLE", help_heading = "API")]
    pub key_env: Option<String>,
    /// Read the API key from the first line of this file.
    #[arg(long = "api-key-file", value_name = "FILE", conflicts_with = "key_env", help_heading = "API")]
    pub key_file: Option<PathBuf>,
    /// JSON object added to every request that generates.
    #[arg(long, value_name = "JSON", help_heading = "API")]
    pub extra_body: Option<String>,
    /// Token id that stands before a text without context, where the server tells neither BOS nor EOS.
    #[arg(long, value_name = "ID", help_heading = "API")]
    pub prefix_token: Option<u32>,
    /// Score texts without the token that the tokenizer puts before them by itself (BOS), as lm-evaluation-harness does.
    #[arg(long, help_heading = "API")]
    pub no_bos: bool,
    /// Accept any TLS certificate.
    #[arg(long, help_heading = "API")]
    pub insecure: bool,
    /// Additional TLS roots, PEM.
    #[arg(long, value_name = "FILE", help_heading = "API")]
    pub cacert: Option<PathBuf>,
    /// Unix socket to speak over; the server's address still gives the `host` header and the path.
    #[arg(long, value_name = "PATH", help_heading = "API")]
    pub unix: Option<PathBuf>,
    /// Speak HTTP/2.
    #[arg(long, help_heading = "API")]
    pub http2: bool,
    /// Path of the readiness check [default: /v1/models].
    #[arg(long, value_name = "PATH", help_heading = "API")]
    pub health: Option<String>,
    /// How long to wait for the server to become ready [default: 10s].
    #[arg(long, value_name = "TIME", help_heading = "API")]
    pub wait: Option<String>,
    /// Longest time of one request, from when it is sent; waiting for a free place does not count.
    #[arg(long, value_name = "TIME", default_value = "10m", help_heading = "API")]
    pub timeout: String,
    /// Print the machine output on stdout.
    #[arg(long)]
    pub json: bool,
    /// Check flags and files, print what would be asked for, and stop.
    #[arg(long)]
    pub dry_run: bool,
}

/// `inferometer quality probe`.
#[derive(Debug, Args)]
pub struct QualityProbeArgs {
    /// Server.
    #[command(flatten)]
    pub server: QualityServerArgs,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
pub struct QualityQuestionArgs {
    /// What is asked: `smoke`, `standard`, `long`, or a task or group file of lm-evaluation-harness.
    #[arg(long, value_name = "SUITE", default_value = "smoke")]
    pub suite: String,
    /// Lay prompts that ask for an answer out as turns of a chat.
    #[arg(long)]
    pub chat: bool,
    /// Where a data set lies that a task file names: a folder with a file for each split (`test.jsonl`). Repeatable.
    #[arg(long, value_name = "NAME=FOLDER")]
    pub data: Vec<String>,
    /// Built-in functions in place of the Python ones that a task file names: `wikitext`, `mmlu_pro`, …
    #[arg(long, value_name = "NAME")]
    pub port: Option<String>,
    /// Only these tasks of the suite.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub tasks: Vec<String>,
    /// At most this many documents of each task.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Tokens for thinking, above those for the answer, in the suites that come with the tool.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub thinking: u32,
    /// Seed of the documents that are made up.
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
}

/// `inferometer quality run`.
#[derive(Debug, Args)]
pub struct QualityRunArgs {
    /// Server.
    #[command(flatten)]
    pub server: QualityServerArgs,
    /// Questions.
    #[command(flatten)]
    pub questions: QualityQuestionArgs,
    /// Requests in flight.
    #[arg(long, short, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub concurrency: u16,
    /// Most tokens of an answer where the task sets no limit.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: u32,
    /// Folder of the answers.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// `inferometer quality compare`.
#[derive(Debug, Args)]
pub struct QualityCompareArgs {
    /// Folder of the answers that are the measure; or a samples file of lm-evaluation-harness.
    pub base: PathBuf,
    /// Folder of the answers in question.
    pub new: PathBuf,
    /// Answers of the measure's server to the same questions once more: its noise.
    #[arg(long, value_name = "DIR")]
    pub again: Option<PathBuf>,
    /// Share of the measure's score that has to be kept.
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    pub ratio: f64,
    /// Largest mean divergence in nats a token; without it, it is told and not judged.
    #[arg(long, value_name = "NATS")]
    pub kl_limit: Option<f64>,
    /// Judge by the ratio as it stands, without an interval, as InferenceBench does.
    #[arg(long)]
    pub bare_ratio: bool,
    /// The new answers are a part on purpose: what is missing does not count as lost.
    #[arg(long)]
    pub only_paired: bool,
    /// Print the machine output on stdout.
    #[arg(long)]
    pub json: bool,
    /// Also write the page to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// How a perplexity is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PplDefinition {
    /// Windows side by side, all but the first token of each (GPTQ, AWQ).
    Papers,
    /// Windows side by side, the second half of each (llama-perplexity).
    Llama,
    /// Windows moved by a stride (the guide of transformers).
    Strided,
    /// Every token, one token of context at a seam (lm-evaluation-harness).
    LmEval,
}

/// `inferometer quality ppl`.
#[derive(Debug, Args)]
pub struct QualityPplArgs {
    /// Server.
    #[command(flatten)]
    pub server: QualityServerArgs,
    /// The text, UTF-8.
    #[arg(long, value_name = "FILE")]
    pub text: PathBuf,
    /// Which perplexity: they do not compare with each other.
    #[arg(long, value_enum, default_value_t = PplDefinition::Papers)]
    pub definition: PplDefinition,
    /// Tokens of a window [default: 2048, or what the server takes].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..))]
    pub window: Option<u32>,
    /// Tokens by which `strided` moves its window [default: half a window].
    #[arg(long, value_name = "N")]
    pub stride: Option<u32>,
    /// Only the first windows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub windows: Option<u32>,
    /// Requests in flight.
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub concurrency: u16,
}

/// `inferometer quality kl`.
#[derive(Debug, Args)]
pub struct QualityKlArgs {
    /// Server.
    #[command(flatten)]
    pub server: QualityServerArgs,
    /// Compare with what is recorded in this folder.
    #[arg(long, value_name = "DIR", required_unless_present = "out")]
    pub base: Option<PathBuf>,
    /// Record into this folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Tokens that are scored, of the bundled text and of the server's own greedy answers together (when recording).
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(16..))]
    pub tokens: u32,
    /// Likeliest tokens that are kept of each (when recording).
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub top: u32,
    /// Requests in flight.
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub concurrency: u16,
}
