//! How each client is asked for a load, and where it leaves its figures.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Kind, Load, Pair, Said, install};
use crate::root;

/// A client that is installed.
pub enum Client {
    Own(PathBuf),
    Aiperf(PathBuf),
    Guidellm(PathBuf),
}

/// This one, and those of `.cache/peers`.
pub fn installed() -> Vec<Client> {
    let of = |name: &str| install::folder().join(name).join("bin").join(name);
    let mut clients = vec![Client::Own(root().join("target/release/inferometer"))];
    clients.extend(Some(of("aiperf")).filter(|path| path.exists()).map(Client::Aiperf));
    clients.extend(Some(of("guidellm")).filter(|path| path.exists()).map(Client::Guidellm));
    clients
}

impl Client {
    pub fn name(&self) -> &'static str {
        match self {
            Client::Own(_) => "inferometer",
            Client::Aiperf(_) => "AIPerf",
            Client::Guidellm(_) => "guidellm",
        }
    }

    /// The command that puts `load` on `url` and leaves its figures in `folder`.
    pub fn command(&self, load: &Load, url: &str, folder: &Path) -> Command {
        let (requests, tokens) = (load.requests.to_string(), load.tokens.to_string());
        match self {
            Client::Own(binary) => {
                let mut command = Command::new(binary);
                command
                    .args(["run", url, "--isl", "16", "--osl", &tokens, "-n", &requests, "--warmup", "none"]);
                command.args(["--progress", "off", "--out"]).arg(folder.join("runs"));
                match load.kind {
                    Kind::Closed(users) => command.args(["-c", &users.to_string()]),
                    Kind::Poisson(rate) => command.args(["--rate", &rate.to_string()]),
                    Kind::AtOnce => command.args(["--rate", "inf"]),
                };
                command
            }
            Client::Aiperf(binary) => {
                let mut command = Command::new(binary);
                command.args(["profile", "--model", "fixed", "--url", url, "--endpoint-type", "chat"]);
                command.args([
                    "--streaming",
                    "--isl",
                    "16",
                    "--isl-stddev",
                    "0",
                    "--osl",
                    &tokens,
                    "--ui",
                    "none",
                ]);
                command.args(["--extra-inputs", "ignore_eos:true", "--use-server-token-count"]);
                command.args(["--request-count", &requests, "--tokenizer"]).arg(install::tokenizer());
                command.arg("--artifact-dir").arg(folder.join("artifacts"));
                match load.kind {
                    Kind::Closed(users) => command.args(["--concurrency", &users.to_string()]),
                    Kind::Poisson(rate) => {
                        command.args(["--request-rate", &rate.to_string(), "--arrival-pattern", "poisson"])
                    }
                    Kind::AtOnce => command.args(["--concurrency", &requests]),
                };
                command
            }
            Client::Guidellm(binary) => {
                let mut command = Command::new(binary);
                let profile = match load.kind {
                    Kind::Closed(users) => format!("kind=concurrent,streams={users}"),
                    Kind::Poisson(rate) => format!("kind=poisson,rate={rate}"),
                    Kind::AtOnce => "kind=throughput".to_owned(),
                };
                let path = |path: PathBuf| path.display().to_string();
                command.args(["run", "--disable-console", "--profile", &profile]);
                command.args(["--backend", &format!("kind=openai_http,target={url},model=fixed")]);
                command.args(["--constraint", &format!("kind=max_requests,count={requests}")]);
                command.args([
                    "--data",
                    &format!("kind=synthetic_text,prompt_tokens=16,output_tokens={tokens}"),
                ]);
                command.args(["--tokenizer", &format!("kind=hf_auto,model={}", path(install::tokenizer()))]);
                command.args(["--output", &format!("kind=json,path={}", path(folder.join("guidellm.json")))]);
                command
            }
        }
    }

    /// What it says of the load.
    pub fn said(&self, folder: &Path) -> Result<Said> {
        match self {
            Client::Own(_) => {
                let runs = std::fs::read_dir(folder.join("runs"))?.next().context("a run folder")??;
                let json = read(&runs.path().join("run.json"))?;
                // From the first byte sent, as the others count it.
                let server = json["metrics"]["ttft"]["view"] == "server";
                let ttft = &json[if server { "metrics" } else { "other_view" }]["ttft"];
                let of = |metric: &Value| pair(metric, "/p50/value", "/p99/value", 1e-6);
                Ok(Said { ttft: of(ttft)?, tpot: of(&json["metrics"]["tpot"])? })
            }
            Client::Aiperf(_) => {
                let json = read(&folder.join("artifacts/profile_export_aiperf.json"))?;
                let of = |metric: &str| pair(&json[metric], "/p50", "/p99", 1.0);
                // Its "inter token latency" is one value for each request, as TPOT is.
                Ok(Said { ttft: of("time_to_first_token")?, tpot: of("inter_token_latency")? })
            }
            Client::Guidellm(_) => {
                let json = read(&folder.join("guidellm.json"))?;
                let metrics = &json["benchmarks"][0]["metrics"];
                let of =
                    |metric: &str| pair(&metrics[metric]["successful"]["percentiles"], "/p50", "/p99", 1.0);
                // So is this one; its "time per output token" counts the first token too.
                Ok(Said { ttft: of("time_to_first_token_ms")?, tpot: of("inter_token_latency_ms")? })
            }
        }
    }
}

fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

fn pair(value: &Value, p50: &str, p99: &str, to_ms: f64) -> Result<Pair> {
    let at = |path: &str| {
        value.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path} in {value}"))
    };
    Ok(Pair { p50: at(p50)? * to_ms, p99: at(p99)? * to_ms })
}
