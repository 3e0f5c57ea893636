//! The simulated engine as a process of its own, so that the client is measured honestly.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use spec::SimTarget;

/// An engine that was asked to end is looked after this often, and so many times.
const ENDING_LOOK: Duration = Duration::from_millis(10);
const ENDING_LOOKS: u32 = 500;

/// The running engine; it ends when this is dropped, or when this process dies.
#[derive(Debug)]
pub struct Embedded {
    child: Child,
    url: String,
}

impl Embedded {
    /// Starts the engine on a free port and waits until it listens.
    pub fn start(target: &SimTarget, truth: Option<&Path>) -> Result<Self> {
        let binary = std::env::current_exe().context("this program's own path is unknown")?;
        let mut command = Command::new(binary);
        command.args(["sim", "serve", &target.to_string(), "--port", "0", "--until-stdin-closes"]);
        if let Some(truth) = truth {
            command.arg("--truth").arg(truth);
        }
        // A group of its own: Ctrl-C in the terminal must reach the client first.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().context("the simulated engine cannot be started")?;
        let mut first = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut first).context("the simulated engine said nothing")?;
        }
        let url = serde_json::from_str::<serde_json::Value>(&first)
            .ok()
            .and_then(|line| line["listening"].as_str().map(str::to_owned));
        let Some(url) = url else {
            let mut why = String::new();
            if let Some(mut err) = child.stderr.take() {
                // Whatever it said before it died is the explanation; nothing more can be had.
                let _ = err.read_to_string(&mut why);
            }
            bail!("the simulated engine did not start: {}", why.trim().trim_start_matches("error: "));
        };
        Ok(Self { child, url })
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Lets it end by itself, so that its log is whole. One that hangs is ended all the same.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        for _ in 0..ENDING_LOOKS {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(ENDING_LOOK),
                Ok(Some(_)) | Err(_) => return,
            }
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // Its standard input closes with `child`; killing is for one that hangs. Either way it is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
