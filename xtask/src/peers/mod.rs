//! `cargo xtask peers`: the same loads by this client and by others, in one run, against a server of known timing whose
//! own log is the truth. Clients are run as a user would run them; nothing of theirs is kept here.

mod client;
mod install;
mod truth;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{bench, cargo, root, run as run_command, say};
use client::Client;
use truth::Truth;

/// First token after 100 ms, then one each 10 ms.
const SERVER: &str = "sim://fixed?ttft=100ms&tpot=10ms";

/// One load that every client is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    name: &'static str,
    kind: Kind,
    requests: u32,
    tokens: u32,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Closed(u32),
    Poisson(u32),
    AtOnce,
}

const LOADS: [Load; 4] = [
    Load { name: "closed, 32 users, 32 tokens", kind: Kind::Closed(32), requests: 640, tokens: 32 },
    Load { name: "Poisson 100/s, 64 tokens", kind: Kind::Poisson(100), requests: 1_000, tokens: 64 },
    Load { name: "Poisson 400/s, 64 tokens", kind: Kind::Poisson(400), requests: 2_400, tokens: 64 },
    Load { name: "1,000 at once, 64 tokens", kind: Kind::AtOnce, requests: 1_000, tokens: 64 },
];

/// Median and 99th percentile in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    p50: f64,
    p99: f64,
}

impl std::fmt::Display for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2}/{:.2}", self.p50, self.p99)
    }
}

/// What a client says of a load.
#[derive(Debug, Clone, Copy)]
pub struct Said {
    ttft: Pair,
    tpot: Pair,
}

/// Runs the comparison, or installs the other clients.
pub fn run(args: &[String]) -> Result<()> {
    match args {
        [] => {}
        [flag] if flag == "--install" => return install::all(),
        _ => bail!("expected `cargo xtask peers` or `cargo xtask peers --install`"),
    }
    // As the other benchmarks build it, so that nothing is built twice.
    run_command(cargo(&["build", "--profile", "bench", "--locked", "--workspace", "--bin", "inferometer"]))?;
    let clients = client::installed();
    if clients.len() == 1 {
        say("no other client is installed: `cargo xtask peers --install` gets AIPerf and guidellm from PyPI");
    }
    bench::tabulate(bench::PERFORMANCE, "peers", || table(&clients))
}

fn table(clients: &[Client]) -> Result<String> {
    let mut table = "| load | client | TTFT | truth | TPOT | truth | CPU per request | largest process | sent per second (CV of gaps) |\n\
                     |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for load in &LOADS {
        for client in clients {
            say(&format!("--- {}: {}", load.name, client.name()));
            let row = match measure(client, load) {
                Ok(row) => row,
                // A client that fails under a load is a finding too.
                Err(error) => format!("{:.120}", format!("failed: {error:#}").replace(['\n', '|'], " ")),
            };
            table.push_str(&format!("| {} | {} | {row} |\n", load.name, client.name()));
        }
    }
    Ok(table)
}

fn measure(client: &Client, load: &Load) -> Result<String> {
    let folder = root().join("target/peers").join(client.name().replace(' ', "-"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let log = folder.join("truth.jsonl");
    let server = Server::start(&log)?;
    let mut command = client.command(load, &server.url, &folder);
    let out = std::fs::File::create(folder.join("output.txt"))?;
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let cost = crate::tools::cost(command)?;
    server.end()?;
    let truth = Truth::read(&log)?;
    let said = client.said(&folder).with_context(|| {
        format!("{} ended with {} and left no figures in {}", client.name(), cost.code, folder.display())
    })?;
    Ok(format!(
        "{} | {} | {} | {} | {:.2} ms | {:.0} MB | {:.1} ({:.2})",
        said.ttft,
        truth.ttft,
        said.tpot,
        truth.tpot,
        cost.cpu.as_secs_f64() * 1e3 / truth.requests as f64,
        cost.largest as f64 / 1e6,
        truth.rate,
        truth.gap_cv,
    ))
}

/// The server of known timing, in a process of its own.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(log: &Path) -> Result<Self> {
        let mut child = Command::new(root().join("target/release/inferometer"))
            .args(["sim", "serve", SERVER, "--port", "0", "--until-stdin-closes", "--truth"])
            .arg(log)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server")?;
        let url = crate::address(&mut child)?;
        Ok(Self { child, url })
    }
    /// Ends it in order, so that its log is whole.
    fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
