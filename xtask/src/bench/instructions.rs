//! Instructions of one streamed event, counted by valgrind: the same on a busy machine.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, say, tools};

/// The gate: a count above its limit fails. Without valgrind nothing is counted: an error where tests run for all
/// (`CI` is set), elsewhere a loud word.
pub fn gate() -> Result<()> {
    match count() {
        Ok(_) => Ok(()),
        Err(Uncounted::Fails(error)) => Err(error),
        Err(Uncounted::Impossible(error)) if std::env::var_os("CI").is_some() => Err(error),
        Err(Uncounted::Impossible(error)) => {
            say(&format!("WARNING: instructions are NOT counted: {error:#}"));
            Ok(())
        }
    }
}

/// The counts as a table.
pub fn table() -> Result<String> {
    let counts = count().map_err(|e| match e {
        Uncounted::Fails(error) | Uncounted::Impossible(error) => error,
    })?;
    let mut table = "| of one event | instructions |\n|---|---|\n".to_owned();
    for (name, count) in counts {
        table.push_str(&format!("| {name} | {:.0} |\n", count / EVENTS));
    }
    Ok(table)
}

/// Events of one answer in the benchmark.
const EVENTS: f64 = 1_000.0;

enum Uncounted {
    /// The tools are not there.
    Impossible(anyhow::Error),
    /// More instructions than the limit, or a benchmark that does not run.
    Fails(anyhow::Error),
}

fn count() -> Result<Vec<(String, f64)>, Uncounted> {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|out| out.status.success()) {
        let how = "valgrind is not installed (Debian: apt-get install valgrind)";
        return Err(Uncounted::Impossible(anyhow::anyhow!(how)));
    }
    let runner = tools::gungraun_runner().map_err(Uncounted::Impossible)?;
    run(&runner).map_err(Uncounted::Fails)
}

fn run(runner: &std::path::Path) -> Result<Vec<(String, f64)>> {
    // Apart from the workspace: its libraries are large, and only this needs them.
    let mut command = cargo(&["bench", "--locked", "--manifest-path", "counts/Cargo.toml"]);
    command.env("GUNGRAUN_RUNNER", runner).env("GUNGRAUN_COLOR", "never");
    let out = command.stderr(std::process::Stdio::inherit()).output().context("cannot start the count")?;
    let text = String::from_utf8_lossy(&out.stdout);
    say(text.trim());
    if !out.status.success() {
        bail!("instructions of one event: {}", out.status);
    }
    let counts = counted(&text);
    if counts.is_empty() {
        bail!("no counts in what the benchmark printed");
    }
    Ok(counts)
}

/// Names of benchmarks and their instructions, from the runner's lines.
fn counted(text: &str) -> Vec<(String, f64)> {
    let mut name = None;
    let mut counts = Vec::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("of_an_event::") {
            name = rest.split([' ', ':']).next().map(str::to_owned);
        }
        if let Some(rest) = line.trim_start().strip_prefix("Instructions:")
            && let Some(count) = rest.trim_start().split('|').next().and_then(|n| n.trim().parse().ok())
            && let Some(name) = name.take()
        {
            counts.push((name, count));
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    #[test]
    fn counts_are_read_from_the_runners_lines() {
        let text = "event_instructions::of_an_event::heard of_a_chat:events()\n  Instructions:   2613000|2613000 (No change)\n  L1 Hits:  5|N/A\n\
                    event_instructions::of_an_event::written of_a_chat:entry()\n  Instructions:     901000|N/A (*)\n";
        let expected = [("heard".to_owned(), 2_613_000.0), ("written".to_owned(), 901_000.0)];
        assert_eq!(super::counted(text), expected);
    }
}
