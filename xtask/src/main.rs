//! Development tasks: `cargo xtask help`.

mod engines;
mod tools;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
cargo xtask TASK

  test       everything that must hold before a commit lands: format, lints, licences, all tests, the real engine,
             the release binary's size and start-up. Installs what it needs into .cache/
  test-fast  unit and property tests only
  engines    install the real engine into .cache/ and print its paths
  schema     write the JSON Schemas in docs/ again
  fuzz       run every fuzz target for a minute (needs cargo-fuzz and a nightly toolchain)
";

fn main() -> ExitCode {
    let task = std::env::args().nth(1);
    let result = match task.as_deref() {
        Some("test") => test(),
        Some("test-fast") => nextest(&["--workspace", "--lib"], &[]),
        Some("engines") => engines::install().map(|e| say(&format!("{e:#?}"))),
        Some("schema") => schema(),
        Some("fuzz") => fuzz(),
        _ => {
            say(HELP);
            return ExitCode::from(if task.is_none_or(|t| t == "help") { 0 } else { 2 });
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Progress goes to stderr; the tests' own output is theirs.
fn say(text: &str) {
    use std::io::Write;
    // A closed stderr is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The workspace's root.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// Runs a command, shows what it is, and fails with its name.
fn run(mut command: Command) -> Result<()> {
    let shown = format!("{command:?}").replace('"', "");
    say(&format!("--- {shown}"));
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

fn test() -> Result<()> {
    run(cargo(&["fmt", "--all", "--check"]))?;
    run(tools::deny(&["check", "licenses", "bans", "sources"])?)?;
    run(cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"]))?;
    let engines = engines::install()?;
    // The tests of the whole start the engine themselves, from these paths.
    nextest(&["--workspace", "--locked"], &engines.environment())?;
    run(cargo(&["test", "--workspace", "--locked", "--doc", "--quiet"]))?;
    release_binary()
}

/// Runs tests by nextest where it is installed (a process and a time limit for each), else by cargo.
fn nextest(args: &[&str], environment: &[(&str, PathBuf)]) -> Result<()> {
    let has_nextest = cargo(&["nextest", "--version"]).output().is_ok_and(|out| out.status.success());
    let mut command = cargo(if has_nextest { &["nextest", "run"] } else { &["test"] });
    command.args(args);
    for (key, value) in environment {
        command.env(key, value);
    }
    run(command)
}

/// What a user downloads: at most 40 MB, `--help` at most 20 ms.
fn release_binary() -> Result<()> {
    run(cargo(&["build", "--release", "--locked"]))?;
    let binary = root().join("target/release/inferometer");
    let size = std::fs::metadata(&binary).with_context(|| format!("{}", binary.display()))?.len();
    say(&format!("release binary: {:.1} MB (at most 40)", size as f64 / 1e6));
    if size > 40_000_000 {
        bail!("the release binary has {size} bytes, more than 40 MB");
    }
    // The best of several: a shared machine only ever adds time.
    let best =
        (0..10).map(|_| tools::time_of(Command::new(&binary).arg("--help"))).collect::<Result<Vec<_>>>()?;
    let best = best.into_iter().min().unwrap_or_default();
    say(&format!("--help: {:.1} ms (at most 20)", best.as_secs_f64() * 1e3));
    if best > Duration::from_millis(20) {
        bail!("--help takes {best:?}, more than 20 ms");
    }
    Ok(())
}

fn schema() -> Result<()> {
    let mut command = cargo(&["nextest", "run", "-p", "spec", "-p", "decide", "schema"]);
    command.env("INFEROMETER_WRITE_SCHEMA", "1");
    run(command)
}

fn fuzz() -> Result<()> {
    let list = Command::new("cargo").args(["+nightly", "fuzz", "list"]).current_dir(root()).output()?;
    for target in String::from_utf8_lossy(&list.stdout).lines() {
        let mut command = Command::new("cargo");
        command.args(["+nightly", "fuzz", "run", target, "--", "-max_total_time=60"]).current_dir(root());
        run(command)?;
    }
    Ok(())
}
