//! On which machine, and how busy it was.

use std::process::Command;

use anyhow::{Context, Result};

/// Load averages of 1, 5 and 15 minutes, as the kernel writes them.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(1).collect()
}

/// One line: date, processor, cores, kernel, load average before and after.
pub fn line(load_before: &str) -> Result<String> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name))
        .unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Ok(format!(
        "{}, {model}, {cores} cores, Linux {}; load average {load_before} before, {} after.",
        said_by("date", &["-u", "+%-d %B %Y"])?,
        kernel.trim(),
        load()
    ))
}

fn said_by(program: &str, args: &[&str]) -> Result<String> {
    let out = Command::new(program).args(args).env("LC_ALL", "C").output();
    let out = out.with_context(|| format!("cannot start {program}"))?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
